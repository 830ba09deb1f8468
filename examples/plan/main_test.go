package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plan runs the program.
func plan(stdin string, args ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	status = run(args, strings.NewReader(stdin), &out, &errs)
	return out.String(), errs.String(), status
}

func TestFiles(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"policy.yaml"}, `5 attempts, exponential 200ms x2, at most 2s, ±20%, 1s for each

after attempt   wait             total at most
1               160ms to 240ms   1.24s
2               320ms to 480ms   2.72s
3               640ms to 960ms   4.68s
4               1.28s to 1.92s   7.6s

Ends after 5 attempts.
Worst case: 8.6s in all, servers' waits aside, if attempts end with their AttemptTimeout (attempt_timeout), 1s.
`},
		{[]string{"-retries", "3", "policy.json"}, `unlimited attempts, fibonacci 1s, at most 30s, equal jitter, within 5m0s

after attempt   wait          total at most
1               500ms to 1s   1s
2               500ms to 1s   2s
3               1s to 2s      4s
...

The delays reach MaxDelay (max_delay), 30s, after attempt 9.
Ends after at most 27 attempts: no retry starts later than MaxElapsed (max_elapsed), 5m, after the first attempt began.
Worst case: 5m, and what the last attempt takes: there is no AttemptTimeout (attempt_timeout).
`},
		{[]string{"-dialect", "tasker", "tasker.yaml"}, `3 attempts, exponential 1s x2

after attempt   wait   total at most
1               1s     1s
2               2s     3s

Ends after 3 attempts.
Worst case: 3s of waiting, servers' waits aside, and what the attempts take: there is no AttemptTimeout (attempt_timeout).
`},
		{[]string{"-dialect", "argyll", "argyll.json"}, `5 attempts, linear 1s, at most 3s

after attempt   wait   total at most
1               1s     1s
2               2s     3s
3               3s     6s
4               3s     9s

The delays reach MaxDelay (max_delay), 3s, after attempt 3.
Ends after 5 attempts.
Worst case: 9s of waiting, servers' waits aside, and what the attempts take: there is no AttemptTimeout (attempt_timeout).
`},
	} {
		stdout, stderr, status := plan("", test.args...)
		assert.Equal(t, test.want, stdout, test.args)
		assert.Empty(t, stderr, test.args)
		assert.Zero(t, status, test.args)

		// The same comes of the same text on standard input.
		last := len(test.args) - 1
		text, err := os.ReadFile(test.args[last])
		require.NoError(t, err)
		for _, file := range [][]string{nil, {"-"}} {
			stdout, stderr, status = plan(string(text), append(test.args[:last:last], file...)...)
			assert.Equal(t, test.want, stdout, test.args)
			assert.Empty(t, stderr, test.args)
			assert.Zero(t, status, test.args)
		}
	}
}

func TestSeed(t *testing.T) {
	const policy = `{max_attempts: 9, backoff: {type: linear, base: 1s}, jitter: full, max_elapsed: 6s}`
	stdout, _, status := plan(policy, "-seed", "job-42")
	assert.Zero(t, status)
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

	again, _, _ := plan(policy, "-seed", "job-42")
	assert.Equal(t, stdout, again)
	other, _, _ := plan(policy, "-seed", "job-43")
	assert.NotEqual(t, stdout, other)
	without, _, _ := plan(policy)
	assert.True(t, strings.HasPrefix(stdout, without), "the plan comes first")

	stdout, _, _ = plan(`{max_attempts: 4, backoff: {type: fixed, base: 2000000h}}`, "-seed", "x")
	assert.True(t, strings.HasSuffix(stdout, "3               2000000h0m0s   2562047h47m16.854775807s\n"), stdout)
}

func TestNotes(t *testing.T) {
	stdout, _, status := plan(`{max_attempts: 3, backoff: {type: schedule, delays: [5m, 15m, 1h]}}`)
	assert.Zero(t, status)
	assert.Contains(t, stdout, "\nNote: a Schedule (delays) of 3 beside 3 attempts: ")
	assert.NotContains(t, must(t, "policy.yaml"), "Note:")
}

// JSON is not all YAML.
func TestJSONOnStandardInput(t *testing.T) {
	stdout, stderr, status := plan(`{"url": "https:\/\/payments.example", "retry": {"max_attempts": 2}}`)
	assert.Zero(t, status, stderr)
	assert.True(t, strings.HasPrefix(stdout, "2 attempts\n"), stdout)
}

// Keys that are merged in are keys of the file.
func TestMergedKeys(t *testing.T) {
	for _, text := range []string{
		"defaults: &d {retry: {max_attempts: 4}}\n<<: *d\n",
		"defaults: &d {retry: {max_attempts: 9}}\n<<: *d\nretry: {max_attempts: 4}\n",
		"defaults: &d {max_attempts: 4}\nretry: *d\n",
		"defaults: &d {max_attempts: 4}\nretry: {<<: *d}\n",
		"<<: {max_attempts: 4}\n",
		"1: x\nretry: {max_attempts: 4}\n",
	} {
		stdout, stderr, status := plan(text)
		assert.Zero(t, status, "%s: %s", text, stderr)
		assert.True(t, strings.HasPrefix(stdout, "4 attempts\n"), "%s: %s", text, stdout)
	}
}

func must(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, status := plan("", args...)
	require.Zero(t, status, stderr)
	return stdout
}

// What is wrong is one line that names the file and the key.
func TestBadFiles(t *testing.T) {
	const duration = `: write a duration as text, such as "200ms" or "1m30s"`
	const empty = "there is no policy in it: write one, such as {max_attempts: 5}, or one under retry"
	dir := t.TempDir()
	for _, test := range []struct{ file, args, text, want string }{
		{"neither.yaml", "", "name: x", `unknown key "name": the keys of a policy are max_attempts, max_retries, attempt_cap, retryable, backoff, max_delay, jitter, max_retry_after, max_elapsed, attempt_timeout: write a policy, or one under retry` + "\n"},
		{"neither.json", "-dialect=argyll", `{"name": "x"}`, ": write a policy, or one under work_config\n"},
		{"inner.yaml", "", "retry: {name: x}", "attempt_timeout\n"},
		{"blocks.json", "", `{"retry": {"max_attempts": 2}, "x": {"a": [1]}, "retry": {"max_attempts": 3}}`, `key "retry" is there twice: keep one`},
		{"others.json", "", `{"x": 1, "retry": {"max_attempts": 3}, "x": 1}`, `key "x" is there twice: keep one`},
		{"alias.yaml", "", "x: &x ~\nretry: *x", empty},
		{"number.yaml", "", "max_delay: 5", "retry: invalid policy: max_delay is 5" + duration},
		{"number.json", "", `{"max_delay": 5}`, "retry: invalid policy: max_delay is 5" + duration},
		{"under.yaml", "", "name: x\nretry:\n  max_delay: 5", "retry: invalid policy: max_delay is 5" + duration},
		{"under.json", "", `{"name": "x", "retry": {"max_delay": 5}}`, "retry: invalid policy: max_delay is 5" + duration},
		{"unknown.yaml", "", "max_attempt: 5", `retry: invalid policy: unknown key "max_attempt": the keys of a policy are max_attempts,`},
		{"twice.yaml", "", "max_attempts: 5\njitter: 0\nmax_attempts: 6", `line 3: mapping key "max_attempts" already defined at line 1`},
		{"twice.json", "", `{"max_attempts": 5, "max_attempts": 6}`, `retry: invalid policy: key "max_attempts" is there 2 times: keep one`},
		{"blocks.yaml", "", "retry: {}\nretry: {}", `line 2: mapping key "retry" already defined at line 1`},
		{"hot.yaml", "", "max_attempts: -1", "invalid policy: no limit on executions and no delay that lasts: "},
		{"broken.yaml", "", "retry:\n  jitter: [", "yaml: line 2: did not find "},
		{"broken.json", "", "{\n\"jitter\": 0,\n}", "line 3: invalid character '}' "},
		{"cut.json", "", "{\n\"jitter\": 0", "line 2: unexpected end of JSON input"},
		{"list.yaml", "", "[1]", "retry: invalid policy: it is [1]: write a mapping such as "},
		{"list.json", "", "[1]", "retry: invalid policy: it is [1]: write a mapping such as "},
		{"text.yaml", "", "exponential", `retry: invalid policy: it is "exponential": write a mapping such as `},
		{"empty.yaml", "", "", empty},
		{"comment.yaml", "", "# nothing\n", empty},
		{"empty.json", "", "", "line 1: unexpected end of JSON input"},
		{"null.yaml", "", "~", empty},
		{"null.json", "", "null\n", empty},
		{"nothing.yaml", "", "retry:", empty},
		{"nothing.json", "", `{"retry": null}`, empty},
		{"two.yaml", "", "max_attempts: 2\n---\nmax_attempts: 3", "it holds more than one document: keep one"},
		{"tasker.yaml", "-dialect=tasker", "retry: {max_attempts: 0}", "retrydialect: Tasker: max_attempts is 0: "},
		{"tasker.json", "-dialect=tasker", `{"retry": {"max_attempts": "3"}}`, `retrydialect: Tasker: max_attempts is "3": `},
		{"argyll.yaml", "-dialect=argyll", "work_config: {backoff_type: cubic, backoff: 1}", `retrydialect: Argyll: backoff_type is "cubic": `},
		{"argyll.json", "-dialect=argyll", `{"retry": {}}`, `retrydialect: Argyll: unknown key "retry"`},
	} {
		t.Run(test.file, func(t *testing.T) {
			file := filepath.Join(dir, test.file)
			require.NoError(t, os.WriteFile(file, []byte(test.text), 0o600))
			stdout, stderr, status := plan("", append(strings.Fields(test.args), file)...)
			assert.Equal(t, 1, status)
			assert.Empty(t, stdout)
			assert.True(t, strings.HasPrefix(stderr, file+": "), stderr)
			assert.Contains(t, stderr, test.want)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
		})
	}

	_, stderr, status := plan("max_delay: 5")
	assert.Equal(t, 1, status)
	assert.True(t, strings.HasPrefix(stderr, "standard input: retry: invalid policy: max_delay is 5"), stderr)

	_, stderr, status = plan("", filepath.Join(dir, "nowhere.yaml"))
	assert.Equal(t, 1, status)
	assert.Contains(t, stderr, "plan: open ")
	assert.Contains(t, stderr, "nowhere.yaml")
}

func TestBadUsage(t *testing.T) {
	for want, args := range map[string][]string{
		`plan: -dialect is "x": write one of argyll, retry, tasker`:   {"-dialect", "x"},
		"plan: there are 2 files: write one, and the flags before it": {"policy.yaml", "policy.json"},
		"flag provided but not defined: -nonsense":                    {"-nonsense"},
		`invalid value "many" for flag -retries`:                      {"-retries", "many"},
	} {
		stdout, stderr, status := plan("", args...)
		assert.Equal(t, 2, status)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, want)
	}
	_, stderr, status := plan("", "-h")
	assert.Zero(t, status)
	assert.Contains(t, stderr, "usage: plan [flags] [file]")
}
