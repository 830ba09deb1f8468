package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPlanFiles(t *testing.T) {
	for _, test := range []struct {
		args  []string
		title string // what follows the name of the file
		want  string
	}{
		{[]string{"policy.yaml"}, ":3, retry (native)", `5 attempts, exponential 200ms x2, at most 2s, ±20%, 1s for each

after attempt   wait             total at most
1               160ms to 240ms   1.24s
2               320ms to 480ms   2.72s
3               640ms to 960ms   4.68s
4               1.28s to 1.92s   7.6s

Ends after 5 attempts.
Worst case: 8.6s in all, Retry-After aside, if every attempt runs into its attempt_timeout, 1s.
`},
		{[]string{"-n", "3", "policy.json"}, ":1 (native)", `unlimited attempts, fibonacci 1s, at most 30s, equal jitter, within 5m0s

after attempt   wait          total at most
1               500ms to 1s   1s
2               500ms to 1s   2s
3               1s to 2s      4s
...

The delays reach max_delay, 30s, after attempt 9.
Ends after at most 27 attempts: no retry starts later than max_elapsed, 5m, after the first attempt began.
Worst case: 5m, and what the last attempt takes: there is no attempt_timeout.
`},
		{[]string{"tasker.yaml"}, ":2, retry (tasker)", `3 attempts, exponential 1s x2

after attempt   wait   total at most
1               1s     1s
2               2s     3s

Ends after 3 attempts.
Worst case: 3s of waiting, Retry-After aside, and what the attempts take: there is no attempt_timeout.
`},
		{[]string{"-from", "argyll", "argyll.json"}, ":2, work_config (argyll)", `5 attempts, linear 1s, at most 3s

after attempt   wait   total at most
1               1s     1s
2               2s     3s
3               3s     6s
4               3s     9s

The delays reach max_delay, 3s, after attempt 3.
Ends after 5 attempts.
Worst case: 9s of waiting, Retry-After aside, and what the attempts take: there is no attempt_timeout.
`},
	} {
		last := len(test.args) - 1
		file := filepath.Join("testdata", test.args[last])
		flags := append([]string{"plan"}, test.args[:last]...)
		t.Run(test.args[last], func(t *testing.T) {
			assert.Equal(t, file+test.title+"\n\n"+test.want, succeed(t, "", append(flags, file)...))

			text, err := os.ReadFile(file)
			require.NoError(t, err)
			want := "standard input" + test.title + "\n\n" + test.want
			assert.Equal(t, want, succeed(t, string(text), flags...))
			assert.Equal(t, want, succeed(t, string(text), append(flags, "-")...))
			assert.Equal(t, want, succeed(t, string(text), append([]string{"plan", "-"}, flags[1:]...)...), "flags may come last")
		})
	}
}

func TestPlanSeed(t *testing.T) {
	const policy = `{max_attempts: 9, backoff: {type: linear, base: 1s}, jitter: full, max_elapsed: 6s}`
	stdout := succeed(t, policy, "plan", "-seed", "job-42")
	_, delays, _ := strings.Cut(stdout, "Worst case")
	_, delays, _ = strings.Cut(delays, "\n\n")
	assert.Equal(t, `The delays of "job-42", whose seed is 4838069355136019240:

after attempt   wait           total
1               562.253586ms   562.253586ms
2               379.589618ms   941.843204ms
3               2.681320939s   3.623164143s
4               2.35765753s    5.980821673s
5               elapsed
`, delays)

	assert.Equal(t, stdout, succeed(t, policy, "plan", "-seed", "job-42"))
	assert.NotEqual(t, stdout, succeed(t, policy, "plan", "-seed", "job-43"))
	assert.True(t, strings.HasPrefix(stdout, succeed(t, policy, "plan")), "the plan comes first")

	stdout = succeed(t, `{max_attempts: 4, backoff: {type: fixed, base: 2000000h}}`, "plan", "-seed", "x")
	assert.True(t, strings.HasSuffix(stdout, "3               2000000h0m0s   2562047h47m16.854775807s\n"), stdout)
}

func TestPlanNotes(t *testing.T) {
	assert.Contains(t, succeed(t, `{max_attempts: 3, backoff: {type: schedule, delays: [5m, 15m, 1h]}}`, "plan"),
		"\nNote: a list (delays) of 3 beside 3 attempts: ")
	assert.NotContains(t, succeed(t, "", "plan", "testdata/policy.yaml"), "Note:")
}

func TestPlanJSON(t *testing.T) {
	const policy = `{"max_attempts": 3, "backoff": {"type": "schedule", "delays": ["1s", "2s", "1m0s"]}, "jitter": "full"}`
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(succeed(t, "pay: "+policy, "plan", "-json", "-at", "pay", "-seed", "a", "-n=1")), &got))
	assert.Len(t, got["lint"], 1)
	assert.Len(t, got["delays"], 1)
	assert.Equal(t, got["plan"], []any{map[string]any{"attempt": 1.0, "lo": "0s", "hi": "1s", "total": "1s"}})
	encoded, err := json.Marshal(got["policy"])
	require.NoError(t, err)
	assert.JSONEq(t, policy, string(encoded))
	for _, key := range []string{"lint", "delays", "plan", "policy"} {
		delete(got, key)
	}
	assert.Equal(t, map[string]any{
		"file": "standard input", "line": 1.0, "at": "pay", "dialect": "native", "max_attempts": 3.0,
		"summary": "3 attempts, schedule [1s 2s 1m0s], full jitter",
	}, got)

	stdout := succeed(t, `{"max_attempts": 1}`, "plan", "-json")
	assert.Contains(t, stdout, `"plan": [],`)
	assert.Contains(t, stdout, `"lint": []`)
	assert.NotContains(t, stdout, `"delays"`)
	const late = `{max_elapsed: 6s, backoff: {type: linear, base: 1s}, jitter: full}`
	assert.Contains(t, succeed(t, late, "plan", "-json", "-seed=job-42"),
		"\"attempt\": 5,\n      \"wait\": \"0s\",\n      \"total\": \"0s\",\n      \"reason\": \"elapsed\"")
}

// The README has every key of plan -json, except those of a policy.
func TestPlanJSONKeys(t *testing.T) {
	data, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(data), "`retry plan -json` prints ")
	section, _, _ = strings.Cut(section, "\n\n#")
	var documented []string
	for row := range strings.Lines(section) {
		if keys, _, ok := strings.Cut(strings.TrimPrefix(row, "| `"), "` | "); ok {
			documented = append(documented, strings.Split(keys, "`, `")...)
		}
	}

	const late = "pay: {max_elapsed: 6s, backoff: {type: linear, base: 1s}, jitter: full}"
	var form map[string]any
	require.NoError(t, json.Unmarshal([]byte(succeed(t, late, "plan", "-json", "-at=pay", "-seed=job-42")), &form))
	keys := map[string]bool{}
	for key, value := range form {
		keys[key] = true
		elements, _ := value.([]any)
		for _, element := range elements {
			object, _ := element.(map[string]any) // a lint is a text
			for inner := range object {
				keys[key+"[]."+inner] = true
			}
		}
	}
	assert.ElementsMatch(t, documented, slices.Collect(maps.Keys(keys)))
}

// The policy can be in a larger file, at a path or at one of the usual places.
func TestPlanAt(t *testing.T) {
	const config = `
services:
  payments:
    retry: {max_attempts: 4}
  "v1.api":
    "retry.policy": {max_attempts: 4}
steps:
- name: one
- name: two
  retry: &steps {max_attempts: 4}
alias: *steps
merged: {<<: {retry: *steps}}
`
	for _, at := range []string{
		"services.payments.retry", "services.payments.*", "services.v1.api.retry.policy", "steps.1.retry", "steps.*.retry", "alias", "merged.retry",
	} {
		assert.Contains(t, succeed(t, config, "plan", "-at", at), " (native)\n\n4 attempts\n", at)
	}
	for at, want := range map[string]string{
		"services.payment.retry": "standard input:1: there is nothing at services.payment.retry: name the keys that lead to the policy\n",
		"steps.2.retry":          "standard input:1: there is nothing at steps.2.retry: name the keys that lead to the policy\n",
		"services.*.*":           "standard input:6: there are 2 policies, and this is the second: choose one with -at services.payments.retry, -at services.v1.api.retry.policy\n",
		"services":               "standard input:4: there is a policy at services.payments.retry: use -at services.payments.retry\n",
		"":                       "standard input:4: there is a policy at services.payments.retry: use -at services.payments.retry\n",
	} {
		stdout, stderr, status := tool(config, "plan", "-at", at)
		assert.Equal(t, 1, status)
		assert.Empty(t, stdout)
		assert.True(t, strings.HasPrefix(stderr, want), stderr)
	}

	for _, text := range []string{
		"defaults: &d {retry: {max_attempts: 4}}\n<<: *d\n",
		"defaults: &d {retry: {max_attempts: 9}}\n<<: *d\nretry: {max_attempts: 4}\n",
		"a: &a {x: 1}\nb: &b {retry: {max_attempts: 4}}\n<<: [*a, *b]\n",
		"defaults: &d {max_attempts: 4}\nretry: *d\n",
		"defaults: &d {max_attempts: 4}\nretry: {<<: *d}\n",
		"<<: {max_attempts: 4}\n",
		"1: x\nretry: {max_attempts: 4}\n",
		`{"url": "https:\/\/payments.example", "retry": {"max_attempts": 4}}`, // JSON that is not YAML
	} {
		assert.Contains(t, succeed(t, text, "plan"), " (native)\n\n4 attempts\n", text)
	}
}

// Without -from, plan finds the dialect of a policy.
func TestPlanDialect(t *testing.T) {
	for _, test := range []struct{ name, text, dialect, want string }{
		{"native before others that fit", "max_attempts: 2", "native", "2 attempts\n"},
		{"a backoff in text", "{max_attempts: 2, backoff: none}", "tasker", "2 attempts, fixed 0s\n"},
		{"a backoff in milliseconds", "{max_retries: 1, backoff: 7, backoff_type: linear}", "argyll", "2 attempts, linear 7ms\n"},
		{"keys of its own", "{multiplier: 1, max_attempts: 2}", "taskharbor", "2 attempts, exponential 200ms x1, at most 5s, ±20%\n"},
		{"a block without keys", "{}", "native", "1 attempt\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Contains(t, succeed(t, test.text, "plan"), " ("+test.dialect+")\n\n"+test.want)
		})
	}
	assert.Contains(t, succeed(t, "max_attempts: 2", "plan", "-from=tasker"), " (tasker)\n\n2 attempts, exponential 1s x2\n")

	_, stderr, status := tool("{backoff: 1}", "plan")
	assert.Equal(t, 1, status)
	assert.Contains(t, stderr, "standard input:1: backoff ", "no dialect fits")
	_, stderr, status = tool("{max_attempts: 0}", "plan")
	assert.Equal(t, 1, status, "TaskHarbor would take it")
	assert.Contains(t, stderr, "standard input:1: max_attempts ")
}
