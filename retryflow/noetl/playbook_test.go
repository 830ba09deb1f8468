package noetl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl"
)

func TestParseTasks(t *testing.T) {
	const list = `
- fetch_page:
    kind: http
    spec:
      timeout: { connect: 5, read: 15 }
    url: "{{ workload.api_url }}/data"
    retries: 3
    eval:
      - expr: "{{ outcome.status == 'error' }}"
        do: retry
      - else:
          do: jump
          to: store
- transform:
    kind: python
    code: |
      result = {"items": data}
- store:
- noop: {}
`
	step := "step: fetch\nwhen: \"{{ true }}\"\ntool:\n  " + strings.ReplaceAll(strings.TrimSpace(list), "\n", "\n  ") + "\nnext:\n  - step: end\n"
	for _, yaml := range []string{list, step} {
		tasks, err := noetl.ParseTasks([]byte(yaml), nil)
		require.NoError(t, err)
		require.Len(t, tasks, 4)
		fetch := tasks[0]
		assert.Equal(t, "fetch_page", fetch.Label)
		assert.Equal(t, map[string]any{
			"kind": "http", "spec": map[string]any{"timeout": map[string]any{"connect": 5, "read": 15}}, "url": "{{ workload.api_url }}/data", "retries": 3,
		}, fetch.Config)
		require.Len(t, fetch.Rules, 2)
		assert.Equal(t, retryflow.Retry, fetch.Rules[0].Do)
		assert.Equal(t, retryflow.Jump, fetch.Rules[1].Do)
		assert.Equal(t, "store", fetch.Rules[1].To)
		assert.Nil(t, fetch.Rules[1].When)
		assert.Nil(t, fetch.Rules[1].Delay)
		assert.Nil(t, fetch.Rules[1].Set)
		assert.Equal(t, []noetl.Task{
			{Label: "transform", Config: map[string]any{"kind": "python", "code": "result = {\"items\": data}\n"}},
			{Label: "store", Config: map[string]any{}},
			{Label: "noop", Config: map[string]any{}},
		}, tasks[1:])
	}
}

func TestParseEmptyDocuments(t *testing.T) {
	for _, yaml := range []string{"", "\n", "# nothing\n", "---\n", "null", "~", "--- \n...\n"} {
		rules, err := noetl.ParseRules([]byte(yaml), nil)
		assert.NoError(t, err, yaml)
		assert.Nil(t, rules)
		tasks, err := noetl.ParseTasks([]byte(yaml), nil)
		assert.NoError(t, err, yaml)
		assert.Nil(t, tasks)
	}
	for _, yaml := range []string{"eval:", "eval: []", "eval: null", "kind: http", "{}"} {
		rules, err := noetl.ParseRules([]byte(yaml), nil)
		assert.NoError(t, err, yaml)
		assert.Empty(t, rules)
	}
	tasks, err := noetl.ParseTasks([]byte("tool: []"), nil)
	assert.NoError(t, err)
	assert.Empty(t, tasks)
}

// A fault is a document, and the error about it.
type fault struct{ YAML, Want string }

// faults returns the documents that have a fault, by the function that reads them.
func faults(t *testing.T) (faults map[string][]fault) {
	data, err := os.ReadFile("testdata/faults.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &faults))
	require.Len(t, faults, 5)
	return faults
}

func TestFaults(t *testing.T) {
	noText := []fault{ // documents that testdata cannot hold
		{"\x00", "control characters are not allowed"}, {"\xff\xfe\x00", "incomplete UTF-16 character"},
	}
	for _, row := range append(faults(t)["rules"], noText...) {
		got, err := noetl.ParseRules([]byte(row.YAML), nil)
		assert.EqualError(t, err, "noetl: "+row.Want, row.YAML)
		assert.Nil(t, got)
	}
	for _, row := range faults(t)["tasks"] {
		got, err := noetl.ParseTasks([]byte(row.YAML), nil)
		assert.EqualError(t, err, "noetl: "+row.Want, row.YAML)
		assert.Nil(t, got)
	}
	for _, row := range faults(t)["playbooks"] {
		p, err := noetl.ParsePlaybook("p.yaml", []byte(row.YAML), nil)
		assert.EqualError(t, err, "noetl: "+row.Want, row.YAML)
		assert.Equal(t, noetl.Playbook{}, p)
	}
}

// Rules that would have no effect are an error. The error names their place.
func TestRulesThatAreNotRead(t *testing.T) {
	const rules = "[{when: '{{ true }}', then: {do: break}}, {else: {then: {do: fail}}}]"
	const write = ": rules are not read here: write them next to the kind of a task, under eval or spec.policy.rules"
	for _, row := range faults(t)["not_read"] {
		_, err := noetl.ParseTasks([]byte("tool:\n- kind: http\n  "+row.YAML+"\n"), nil)
		assert.EqualError(t, err, "noetl: line 3: "+row.Want+write)
		_, err = noetl.ParseRules([]byte("\n\n"+row.YAML), nil)
		assert.EqualError(t, err, "noetl: line 3: "+strings.TrimPrefix(row.Want, "tool[0].")+write)
	}
	_, err := noetl.ParseTasks([]byte("tool: {kind: http, spec: {policy: {on_unmatch: fail, rules: "+rules+"}}}"), nil)
	assert.EqualError(t, err, `noetl: line 1: tool.spec.policy: unknown key "on_unmatch": a policy with rules has rules, mode and on_unmatched`)
	for _, row := range faults(t)["not_read_in_steps"] {
		_, err := noetl.ParsePlaybook("p.yaml", []byte("workflow:\n- step: s\n\n  "+row.YAML+"\n"), nil)
		assert.EqualError(t, err, "noetl: p.yaml:4: "+row.Want+write)
	}
	tasks, err := noetl.ParseTasks([]byte("tool: {kind: http, params: {retry: 3, max_attempts: 3}, body: {x: {retry: true}}}"), nil)
	assert.NoError(t, err, "the keys are parameters of the tool")
	assert.Contains(t, tasks[0].Config, "params")
	for _, own := range []string{"retry_on: [timeout]", "retry_on_status: [503]", "backoff_seconds: 2"} {
		_, err := noetl.ParseTasks([]byte("tool: {kind: http, retry: {max_attempts: 3, "+own+"}}"), nil)
		name, _, _ := strings.Cut(own, ":")
		assert.EqualError(t, err, "noetl: line 1: tool.retry: "+name+" is for the tool, and none of NoETL's tools reads it: "+
			`write a rule in place of retry: "spec: {policy: {rules: [{when: \"{{ output.error.retryable }}\", then: {do: retry, attempts: 3}}]}}"`)
	}
}

func TestConditionThatIsABoolean(t *testing.T) {
	rules := rulesOf(t, "spec: {policy: {rules: [{when: false, then: {do: fail}}, {when: true, then: {do: break}}, {else: {then: {do: fail}}}]}}")
	for i, want := range []bool{false, true} {
		holds, err := rules[i].When(about())
		assert.NoError(t, err)
		assert.Equal(t, want, holds)
	}
}

func TestNamesOfThePreviousTask(t *testing.T) {
	for _, to := range []string{"previous", "prev", "_previous", "@previous", " Previous "} {
		tasks, err := noetl.ParseTasks(fmt.Appendf(nil, "tool: [{first: {}}, {prev: {eval: [{else: {do: jump, to: %q}}]}}]", to), nil)
		require.NoError(t, err)
		assert.Equal(t, "first", tasks[1].Rules[0].To, to)
	}
}

// A document that is too long is refused before it is parsed.
func TestLongDocuments(t *testing.T) {
	many := strings.Repeat("- {a: 1}\n", 1<<20/9+1)
	_, err := noetl.ParseTasks([]byte(many), nil)
	assert.EqualError(t, err, fmt.Sprintf("noetl: line 1: the document has %d bytes: write at most 1048576", len(many)))
	_, err = noetl.ParseTasks([]byte("- a: {"+strings.Repeat("k", 1024)+": 1}"), nil)
	assert.NoError(t, err)
	assert.Equal(t, 1, rulesOf(t, `eval: [{else: {do: retry, attempts: "1"}}]`)[0].Policy.MaxAttempts)
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := noetl.ParseTasks([]byte("- a: {eval: 1}\n- b: {retry: x}\n"), nil)
	assert.EqualError(t, err, "noetl: line 1: [0].a.eval: got 1: write a list of rules; "+
		`line 2: [1].b: retry is the text "x": write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`)
	_, err = noetl.ParseTasks([]byte(strings.Repeat("- {a: {eval: 1}}\n", 25)), nil)
	assert.Len(t, strings.Split(err.Error(), "; "), 20, "only the first 20 faults")
}

func TestAnchorsAliasesAndMerges(t *testing.T) {
	const document = `
- a:
    kind: &kind {x: [1, &two 2]}
    eval: &rules
      - &again
        expr: &failed "{{ outcome.status == 'error' }}"
        do: retry
        attempts: &n 7
      - else: &else {do: break}
- b:
    kind: *kind
    two: *two
    eval: *rules
- c:
    eval:
      - <<: *again
        attempts: 2
        delay: 5
      - <<: [{backoff: linear}, *again, {delay: 9}]
        expr: *failed
      - else: *else
`
	_, err := noetl.ParseTasks([]byte(strings.Replace(document, "backoff: linear", "do: fail", 1)), nil)
	require.ErrorContains(t, err, `line 8: [2].c.eval[1]: unknown key "attempts": a rule with do: fail has`, "the first mapping of the merge has do: fail")

	tasks, err := noetl.ParseTasks([]byte(document), nil)
	require.NoError(t, err)
	kind := map[string]any{"x": []any{1, 2}}
	assert.Equal(t, map[string]any{"kind": kind}, tasks[0].Config)
	assert.Equal(t, map[string]any{"kind": kind, "two": 2}, tasks[1].Config)
	assert.Equal(t, retry.Policy{MaxAttempts: 7, Backoff: retry.Fixed(time.Second)}, tasks[1].Rules[0].Policy)
	assert.Equal(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(5 * time.Second)}, tasks[2].Rules[0].Policy)
	assert.Equal(t, retry.Policy{MaxAttempts: 7, Backoff: retry.Linear(9 * time.Second)}, tasks[2].Rules[1].Policy)
	assert.Equal(t, retryflow.Break, tasks[2].Rules[2].Do)
}

func TestEachTaskHasItsOwnRules(t *testing.T) {
	tasks, err := noetl.ParseTasks([]byte("- a: {eval: &x [{else: {do: break}}]}\n- b: {eval: *x}\n"), nil)
	require.NoError(t, err)
	tasks[0].Rules[0].Do = retryflow.Fail
	assert.Equal(t, retryflow.Break, tasks[1].Rules[0].Do)
}

func TestDocumentsThatAreBombs(t *testing.T) {
	laughs, long := "- a: &l0 {do: fail}\n", strings.Repeat("k", 300_000)
	merges := laughs
	for i := range 9 {
		alias := fmt.Sprintf("*l%d", i)
		laughs += fmt.Sprintf("- k%d: &l%d {x: [%s]}\n", i, i+1, strings.TrimSuffix(strings.Repeat(alias+", ", 10), ", "))
		merges += fmt.Sprintf("- k%d: &l%d {<<: [%s]}\n", i, i+1, strings.TrimSuffix(strings.Repeat(alias+", ", 10), ", "))
	}
	for name, row := range map[string]struct{ yaml, want string }{
		"an alias of itself, passed through": {"- a: &a {x: *a}", "contains itself"},
		"an alias of itself, in a list":      {"- a: {x: &a [*a]}", "contains itself"},
		"a merge of itself":                  {"- a: &a {<<: *a}", "contains itself"},
		"eval of itself":                     {"- a: &a {eval: *a}", "contains itself"},
		"rules of themselves":                {"- a: {eval: &a [*a]}", "contains itself"},
		"else of itself":                     {"- a: {eval: [&a {else: *a}]}", "contains itself"},
		"set_iter of itself":                 {"- a: {eval: [{else: {do: break, set_iter: &a {x: *a}}}]}", "contains itself"},
		"a billion laughs":                   {laughs, "the aliases stand for more than 50000 values"},
		"a billion merges":                   {merges, "the aliases stand for more than 50000 values"},
		"a long label":                       {"- ? " + long + "\n  : {eval: [" + strings.Repeat("{exp: 1},", 200) + "]}", "a key has 300000 bytes: write at most 1024"},
		"aliases of a list":                  {"- x: &x [" + strings.Repeat("1,", 6000) + "]\n" + strings.Repeat("- t: {x: *x}\n", 700), "the aliases stand for more than 50000 values"},
		"aliases of a long text":             {"- a: {x: &x " + long + "}\n- b: {eval: [" + strings.Repeat("{expr: *x, do: fail},", 20) + "]}", "the aliases stand for more than 50000 values"},
		"many faults":                        {"- a: {eval: [" + strings.Repeat("{exp: 1},", 200) + "]}", "do is missing"},
		"deep lists":                         {"- a: {x: " + strings.Repeat("[", 100_000), "noetl: "},
		"deep mappings":                      {"- a: {x: " + strings.Repeat("{a: ", 100_000), "noetl: "},
		"deep set_iter":                      {"- a: {eval: [{else: {do: break, set_iter: {x: " + strings.Repeat("[", 20_000), "noetl: "},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			assert.Less(t, testing.AllocsPerRun(1, func() { _, err = noetl.ParseTasks([]byte(row.yaml), nil) }), 1e5)
			require.ErrorContains(t, err, row.want)
			assert.Less(t, len(err.Error()), 4000)
		})
	}
	// Documents can be nested as deep as package yaml allows.
	deep := "- a: {x: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}"
	_, err := noetl.ParseTasks([]byte(deep), nil)
	assert.NoError(t, err)
}

func FuzzParseTasks(f *testing.F) {
	f.Add("- a:\n    eval:\n    - expr: \"{{ outcome.status == 'error' }}\"\n      do: retry\n      delay: \"{{ rand() }}\"\n    - else: {do: jump, to: a, set_iter: {x: \"{{ 1 }}\"}}\n")
	f.Add("- a: &a {retry: {max_attempts: 3, retry_when: \"{{ status_code >= 500 }}\"}}\n- b: *a\n")
	f.Add("tool: [{a: {<<: {kind: http}}}]")
	f.Fuzz(func(t *testing.T, yaml string) {
		tasks, err := noetl.ParseTasks([]byte(yaml), nil)
		if err != nil {
			assert.Nil(t, tasks)
			assert.True(t, strings.HasPrefix(err.Error(), "noetl: "))
			return
		}
		if slices.ContainsFunc(tasks, func(task noetl.Task) bool { return task.Label == "" }) {
			return
		}
		require.NoError(t, pipelineOf(tasks, nothing).Validate(), "rules without a fault are valid")
	})
}

// pipelineOf returns a pipeline of tasks that call run.
func pipelineOf(tasks []noetl.Task, run func(label string, s retryflow.State) retryflow.Outcome) (p retryflow.Pipeline) {
	for _, task := range tasks {
		p.Tasks = append(p.Tasks, retryflow.Task{Label: task.Label, Rules: task.Rules, Run: func(_ context.Context, s retryflow.State) retryflow.Outcome {
			return run(task.Label, s)
		}})
	}
	return p
}

func nothing(string, retryflow.State) retryflow.Outcome { return retryflow.Outcome{} }

func playbook(t *testing.T, name string) noetl.Playbook {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "playbooks", name))
	require.NoError(t, err)
	p, err := noetl.ParsePlaybook(name, data, nil)
	require.NoError(t, err)
	for _, step := range p.Steps {
		require.NoError(t, pipelineOf(step.Tasks, nothing).Validate(), step.Name)
	}
	return p
}

func TestPlaybookRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		limited := 0
		pipeline := pipelineOf(playbook(t, "orders_sync.yaml").Steps[1].Tasks, func(label string, s retryflow.State) retryflow.Outcome {
			ran = append(ran, label)
			iter, _ := s["iter"].(map[string]any)
			if label != "fetch" {
				return retryflow.Outcome{}
			}
			if limited++; limited == 2 {
				return retryflow.Outcome{Err: errors.New("slow down"), Data: map[string]any{"error": map[string]any{"kind": "rate_limit", "retry_after": "7"}}}
			}
			return retryflow.Outcome{Result: map[string]any{"paging": map[string]any{"more": iter["page"] == 1}, "orders": []any{1, 2}}}
		})
		state := retryflow.State{"workload": map[string]any{"retries": 2}}
		began := time.Now()
		require.NoError(t, pipeline.Run(t.Context(), state))
		assert.Equal(t, []string{"init", "fetch", "store", "paginate", "fetch", "fetch", "store", "paginate"}, ran)
		assert.Equal(t, 7*time.Second, time.Since(began))
		assert.Equal(t, retryflow.State{
			"workload": map[string]any{"retries": 2},
			"iter":     map[string]any{"page": 2, "has_more": false, "orders": []any{1, 2}},
			"vars":     map[string]any{"store_ok": true},
			"ctx":      map[string]any{"last_ref": "page 2"},
			"_prev":    2,
		}, state)
	})
}

// The number of attempts may be an expression.
func TestComputedAttempts(t *testing.T) {
	rules := rulesOf(t, `eval: [{else: {do: retry, delay: 0, attempts: "{{ workload.retries }}"}}]`)
	for attempts, want := range map[any]struct {
		runs int
		err  string
	}{
		2:   {2, "attempts exhausted after 2 attempts"},
		"3": {3, "attempts exhausted after 3 attempts"},
		2.0: {2, "attempts exhausted after 2 attempts"},
		1:   {1, "attempts exhausted after 1 attempt"},
		"1": {1, "attempts exhausted after 1 attempt"},
		"0": {1, `rule 0: attempts: {{ workload.retries }}: text "0" is not a number of attempts: want a whole number of 1 or more`},
		0:   {1, "rule 0: attempts: {{ workload.retries }}: 0 is not a number of attempts: want a whole number of 1 or more"},
		"x": {1, `rule 0: attempts: {{ workload.retries }}: text "x" is not a number of attempts: want a whole number of 1 or more`},
		1.5: {1, `rule 0: attempts: {{ workload.retries }}: 1.5 is not a number of attempts: want a whole number of 1 or more`},
		nil: {1, `rule 0: attempts: {{ workload.retries }}: none is not a number of attempts: want a whole number of 1 or more`},
	} {
		runs := 0
		p := one(rules, func() retryflow.Outcome { runs++; return retryflow.Outcome{Err: errors.New("slow down")} })
		err := p.Run(t.Context(), retryflow.State{"workload": map[string]any{"retries": attempts}})
		assert.ErrorContains(t, err, want.err, "%v", attempts)
		assert.Equal(t, want.runs, runs, "%v", attempts)
	}
}

// A rule that fails the task may set names before that.
func TestRuleThatFailsAndSets(t *testing.T) {
	rules, state := rulesOf(t, `eval: [{else: {do: fail, set_ctx: {page: "{{ outcome.http.status }}"}}}]`), retryflow.State{}
	assert.ErrorContains(t, one(rules, about).Run(t.Context(), state), "it failed")
	assert.Equal(t, retryflow.State{"ctx": map[string]any{"page": 503}}, state)
}

func TestRetryBlocks(t *testing.T) {
	p := playbook(t, "retry_of_old.yaml")
	assert.Empty(t, p.Steps[0].Tasks)
	for i, policy := range []retry.Policy{
		1: {MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}},
		2: {MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second}},
		3: {MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second / 2, Factor: 3}, MaxDelay: 4 * time.Second, Jitter: retry.Proportional(0.5)},
		4: {MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}},
	} {
		if i > 0 {
			require.Len(t, p.Steps[i].Tasks, 1)
			assert.Equal(t, policy, p.Steps[i].Tasks[0].Rules[0].Policy, i)
		}
	}
	assert.Equal(t, map[string]any{"kind": "http"}, p.Steps[1].Tasks[0].Config)
	assert.Equal(t, "GET", p.Steps[1].Config["method"])
	assert.NotContains(t, p.Steps[1].Config, "retry")

	data := func(status int) map[string]any { return map[string]any{"http": map[string]any{"status": status}} }
	boom := errors.New("read Timeout")
	for name, row := range map[string]struct {
		step int
		o    retryflow.Outcome
		want bool
	}{
		"any error":                    {1, retryflow.Outcome{Err: boom}, true},
		"a success":                    {1, retryflow.Outcome{}, false},
		"retry_when":                   {3, retryflow.Outcome{Err: boom, Data: data(503), Attempt: 1}, true},
		"retry_when is false":          {3, retryflow.Outcome{Err: boom, Data: data(404), Attempt: 1}, false},
		"retry_when reads the attempt": {3, retryflow.Outcome{Err: boom, Data: data(503), Attempt: 4}, false},
		"stop_when comes first":        {3, retryflow.Outcome{Err: boom, Data: data(501), Attempt: 1}, false},
		"retry_when is not evaluated after a success": {3, retryflow.Outcome{Data: data(503), Attempt: 1}, false},
		"error is a text": {4, retryflow.Outcome{Err: boom}, true},
		"another error":   {4, retryflow.Outcome{Err: errors.New("no")}, false},
	} {
		got, err := p.Steps[row.step].Tasks[0].Rules[0].When(row.o)
		assert.NoError(t, err, name)
		assert.Equal(t, row.want, got, name)
	}
	_, err := p.Steps[3].Tasks[0].Rules[0].When(retryflow.Outcome{Err: boom})
	assert.ErrorContains(t, err, "{{ status_code == 501 }}: status_code is undefined", "an error is not retried if stop_when cannot be evaluated")

	rules := rulesOf(t, `retry: {stop_when: "{{ result.done }}"}`)
	for done, want := range map[bool]bool{false: true, true: false} {
		again, err := rules[0].When(retryflow.Outcome{Result: map[string]any{"done": done}})
		assert.NoError(t, err)
		assert.Equal(t, want, again, "without retry_when, the task repeats until stop_when is true, after a success too")
	}
	assert.Nil(t, rulesOf(t, "retry: false"))
	rules = rulesOf(t, `retry: "{{ 2 + 2 }}"`)
	limit, err := rules[0].Attempts(retryflow.Outcome{})
	assert.NoError(t, err)
	assert.Equal(t, 4, limit)
	assert.Equal(t, retry.Fixed(0), rulesOf(t, "retry: {max_delay: 0}")[0].Policy.Backoff)
}

// In a `retry` block, the name max_attempts is the number of attempts, even if an expression
// computes this number.
func TestComputedMaxAttemptsOfARetryBlock(t *testing.T) {
	run := func(block string, n any) (attempts int, waited time.Duration, err error) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			p := one(rulesOf(t, "retry: "+block), func() retryflow.Outcome { attempts++; return retryflow.Outcome{Err: errors.New("boom")} })
			err = p.Run(t.Context(), retryflow.State{"workload": map[string]any{"n": n}})
			waited = time.Since(began)
		})
		return attempts, waited, err
	}
	for name, row := range map[string]struct {
		block    string
		n        any
		attempts int
		waited   time.Duration
		want     string
	}{
		"retry_when":         {`{max_attempts: "{{ workload.n }}", retry_when: "{{ attempt < max_attempts }}"}`, 4, 4, 7 * time.Second, "retry: not retryable after 4 attempts"},
		"stop_when":          {`{max_attempts: "{{ workload.n }}", stop_when: "{{ attempt >= max_attempts - 1 }}"}`, 4, 3, 3 * time.Second, "retry: not retryable after 3 attempts"},
		"initial_delay":      {`{max_attempts: "{{ workload.n }}", initial_delay: "{{ max_attempts * 10 }}"}`, 2, 2, 20 * time.Second, "retry: attempts exhausted after 2 attempts"},
		"a text":             {`{max_attempts: "{{ workload.n }}", retry_when: "{{ max_attempts == 2 }}"}`, "2", 2, time.Second, "retry: attempts exhausted after 2 attempts"},
		"a number":           {`{max_attempts: 2, retry_when: "{{ max_attempts == 2 }}"}`, nil, 2, time.Second, "retry: attempts exhausted after 2 attempts"},
		"the default":        {`{retry_when: "{{ max_attempts == 3 }}"}`, nil, 3, 3 * time.Second, "retry: attempts exhausted after 3 attempts"},
		"old names":          {`"{{ 9 if success else 2 }}"`, nil, 2, time.Second, ""},
		"not a number":       {`{max_attempts: "{{ workload.n }}", retry_when: "{{ attempt < max_attempts }}"}`, "x", 1, 0, `rule 0: when: {{ attempt < max_attempts }}: {{ workload.n }}: text "x" is not a number of attempts: want a whole number of 1 or more`},
		"below 1":            {`{max_attempts: "{{ workload.n }}", retry_when: "{{ attempt < max_attempts }}"}`, 0, 1, 0, "rule 0: when: {{ attempt < max_attempts }}: {{ workload.n }}: 0 is not a number of attempts: want a whole number of 1 or more"},
		"no default":         {`{max_attempts: "{{ workload.m }}", retry_when: "{{ max_attempts | default(5) == 7 }}"}`, 3, 1, 0, "{{ workload.m }}: workload.m is undefined"},
		"computed by itself": {`{max_attempts: "{{ max_attempts + 1 }}"}`, nil, 1, 0, "attempts: {{ max_attempts + 1 }}: max_attempts cannot be computed from itself"},
	} {
		attempts, waited, err := run(row.block, row.n)
		assert.ErrorContains(t, err, row.want, name)
		assert.Equal(t, row.attempts, attempts, name)
		assert.Equal(t, row.waited, waited, name)
	}
}

func TestPlaybooksInOtherShapes(t *testing.T) {
	for name, row := range map[string]struct {
		yaml   string
		labels []string
		rules  []int
	}{
		"an empty list":           {"tool: []", nil, nil},
		"null":                    {"tool:", nil, nil},
		"a kind":                  {"tool: http", []string{"s"}, []int{0}},
		"one task":                {"tool: {kind: http, eval: [{else: {do: break}}]}", []string{"s"}, []int{1}},
		"under its own tool":      {"tool: [{a: {tool: {kind: http, eval: [{else: {do: break}}]}, args: {x: 1}}}]", []string{"a"}, []int{1}},
		"named":                   {"tool: [{name: a, kind: http}, {name: b, kind: sql, eval: [{else: {do: break}}]}]", []string{"a", "b"}, []int{0, 1}},
		"without names":           {"tool: [{kind: http}, {kind: sql}]", []string{"task_1", "task_2"}, []int{0, 0}},
		"eval beside the tool":    {"tool: {kind: http}\n  eval: [{else: {do: break}}]", []string{"s"}, []int{1}},
		"retry beside the tool":   {"tool: http\n  retry: {max_attempts: 2}", []string{"s"}, []int{3}},
		"a jump to the only task": {"tool: {kind: http, eval: [{else: {do: jump, to: s}}]}", []string{"s"}, []int{1}},
		"expr without braces":     {"tool: {kind: http, eval: [{expr: outcome.status == 'error', do: fail}]}", []string{"s"}, []int{1}},
		"an unknown key":          {"tool: {kind: http}\n  sink: {tool: {kind: postgres}}\n  case: [{when: x}]", []string{"s"}, []int{0}},
	} {
		p, err := noetl.ParsePlaybook("p.yaml", []byte("workflow:\n- step: s\n  "+row.yaml+"\n"), nil)
		require.NoError(t, err, name)
		require.Len(t, p.Steps, 1)
		var labels []string
		var rules []int
		for _, task := range p.Steps[0].Tasks {
			labels, rules = append(labels, task.Label), append(rules, len(task.Rules))
		}
		assert.Equal(t, row.labels, labels, name)
		assert.Equal(t, row.rules, rules, name)
	}
	p, err := noetl.ParsePlaybook("p.yaml", []byte("workflow: [{step: s, tool: [{a: {tool: {kind: http}, args: {x: 1}}}]}]"), nil)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"kind": "http", "args": map[string]any{"x": 1}}, p.Steps[0].Tasks[0].Config)

	_, err = noetl.ParsePlaybook("p.yaml", []byte("shared: &rules [{else: {do: break}}]\nworkflow: [{step: s, tool: {kind: http, eval: *rules}}]"), nil)
	assert.NoError(t, err, "rules in an alias are read")
	p, err = noetl.ParsePlaybook("p.yaml", nil, nil)
	assert.NoError(t, err)
	assert.Equal(t, noetl.Playbook{}, p)
	tasks, err := noetl.ParseTasks([]byte("tool: {kind: http}"), nil)
	assert.NoError(t, err)
	assert.Equal(t, []noetl.Task{{Label: "task_1", Config: map[string]any{"kind": "http"}}}, tasks)
}

// The forms that occur in real playbooks can be parsed, and their conditions can be evaluated.
func TestFormsInRealPlaybooks(t *testing.T) {
	p := playbook(t, "shapes.yaml")
	require.Len(t, p.Steps, 3)
	do := func(of noetl.Task) (do []retryflow.Directive) {
		for _, rule := range of.Rules {
			do = append(do, rule.Do)
		}
		return do
	}
	assert.Equal(t, []retryflow.Directive{"retry", "retry", "retry", "fail", "continue"}, do(p.Steps[0].Tasks[0]))
	assert.Equal(t, []retryflow.Directive{"retry", "continue"}, do(p.Steps[1].Tasks[0]))
	assert.Equal(t, []retryflow.Directive{"retry", "fail", "continue"}, do(p.Steps[1].Tasks[1]), "a `retry` block")
	assert.Equal(t, []retryflow.Directive{"jump", "break", "continue"}, do(p.Steps[1].Tasks[2]))

	state := retryflow.State{"iter": map[string]any{"page": "1"}, "ctx": map[string]any{"done": false}}
	failed := retryflow.Outcome{Err: errors.New("Busy"), State: state, Data: map[string]any{"http": map[string]any{"status": 404}, "error": map[string]any{"kind": "tool", "retryable": false}}}
	for i, want := range []bool{false, false, true, true} {
		holds, err := p.Steps[0].Tasks[0].Rules[i].When(failed)
		assert.NoError(t, err)
		assert.Equal(t, want, holds, i)
	}
	rows := []any{map[string]any{"id": 4}}
	set := p.Steps[0].Tasks[0].Rules[4].Set
	require.NoError(t, set(state, retryflow.Outcome{State: state, Result: map[string]any{"rows": rows, "page": 1}}))
	assert.Equal(t, retryflow.State{
		"iter": map[string]any{"page": "1", "more": true, "fixed": true, "number": 7},
		"ctx": map[string]any{
			"done": false, "rows": rows, "first": 4, "count": 1, "kept": map[string]any{}, "list": []any{1, "two"}, "mapping": map[string]any{"a": "b"}, "text": "words",
		},
	}, state)
}

// on_unmatched is the directive if no rule matches.
func TestUnmatched(t *testing.T) {
	boom := errors.New("boom")
	for yaml, want := range map[string]map[error]bool{ // the value: whether the task fails after this error
		"":                         {nil: false, boom: true},
		"on_unmatched: continue, ": {nil: false, boom: false},
		"on_unmatched: fail, ":     {nil: true, boom: true},
	} {
		rules := rulesOf(t, "spec: {policy: {"+yaml+"rules: [{when: '{{ false }}', then: {do: break}}]}}")
		for err, fails := range want {
			p := one(rules, func() retryflow.Outcome { return retryflow.Outcome{Err: err} })
			assert.Equal(t, fails, p.Run(t.Context(), nil) != nil, "%s%v", yaml, err)
		}
	}
	assert.Len(t, rulesOf(t, "spec: {policy: {on_unmatched: fail, rules: [{else: {then: {do: break}}}]}}"), 1)
	assert.Nil(t, rulesOf(t, "spec: {policy: {rules: [{then: {do: break}}]}}")[0].When, "a rule without when always matches")
}
