package noetl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl"
)

func playbook(t *testing.T, name string) noetl.Playbook {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "playbooks", name))
	require.NoError(t, err)
	p, err := noetl.ParsePlaybook(name, data, nil)
	require.NoError(t, err)
	for _, step := range p.Steps {
		pipeline := retryflow.Pipeline{}
		for _, task := range step.Tasks {
			pipeline.Tasks = append(pipeline.Tasks, retryflow.Task{Label: task.Label, Rules: task.Rules, Run: newRun()})
		}
		require.NoError(t, pipeline.Validate(), step.Name)
	}
	return p
}

// stepNamed returns a step and a pipeline of its tasks. Each task calls run.
func stepNamed(t *testing.T, p noetl.Playbook, name string, run func(label string, s retryflow.State) retryflow.Outcome) (noetl.Step, retryflow.Pipeline) {
	t.Helper()
	for _, step := range p.Steps {
		if step.Name != name {
			continue
		}
		var pipeline retryflow.Pipeline
		for _, task := range step.Tasks {
			pipeline.Tasks = append(pipeline.Tasks, retryflow.Task{Label: task.Label, Rules: task.Rules, Run: func(_ context.Context, s retryflow.State) retryflow.Outcome {
				return run(task.Label, s)
			}})
		}
		return step, pipeline
	}
	t.Fatalf("there is no step %q", name)
	return noetl.Step{}, retryflow.Pipeline{}
}

func TestPlaybook(t *testing.T) {
	p := playbook(t, "orders_sync.yaml")
	assert.Equal(t, "noetl.io/v2", p.Config["apiVersion"])
	assert.Equal(t, map[string]any{"next_page": 1, "stored": 0}, p.Config["vars"])
	assert.Equal(t, map[string]any{"tasks": map[string]any{}}, p.Config["workbook"])
	assert.NotContains(t, p.Config, "workflow")

	names := []string{}
	for _, step := range p.Steps {
		names = append(names, step.Name)
	}
	assert.Equal(t, []string{"start", "fetch_orders", "end"}, names)

	start := p.Steps[0]
	assert.Equal(t, "Check the token, whatever comes of it", start.Config["desc"])
	assert.Len(t, start.Config["next"], 2)
	require.Len(t, start.Tasks, 1)
	assert.Equal(t, "start", start.Tasks[0].Label)
	assert.Equal(t, map[string]any{"kind": "python", "libs": map[string]any{"json": "json"}, "code": "result = {\"token\": \"t\"}\n"}, start.Tasks[0].Config)
	assert.Len(t, start.Tasks[0].Rules, 2)

	fetch := p.Steps[1]
	assert.Equal(t, map[string]any{"next_mode": "exclusive"}, fetch.Config["spec"])
	assert.Equal(t, "{{ true }}", fetch.Config["when"])
	assert.Equal(t, map[string]any{"spec": map[string]any{"mode": "sequential"}, "in": "{{ workload.shops }}", "iterator": "shop"}, fetch.Config["loop"])
	labels := []string{}
	for _, task := range fetch.Tasks {
		labels = append(labels, task.Label)
	}
	assert.Equal(t, []string{"init", "fetch", "store", "paginate"}, labels)
	assert.Equal(t, map[string]any{"timeout": map[string]any{"connect": 5, "read": 15}}, fetch.Tasks[1].Config["spec"])
	assert.Equal(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second / 2)}, fetch.Tasks[2].Rules[0].Policy, "backoff: none is a constant delay")
}

func TestAPlaybookRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		limited := 0
		_, pipeline := stepNamed(t, playbook(t, "orders_sync.yaml"), "fetch_orders", func(label string, s retryflow.State) retryflow.Outcome {
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

// The number of attempts may be an expression, and a rule that fails the task
// may set names first.
func TestAttemptsThatAreComputed(t *testing.T) {
	for attempts, want := range map[any]struct {
		runs int
		err  string
	}{
		2:   {2, "attempts exhausted after 2 attempts"},
		"3": {3, "attempts exhausted after 3 attempts"},
		2.0: {2, "attempts exhausted after 2 attempts"},
		0:   {1, "rule 0: attempts: {{ workload.retries }}: 0 is not a number of attempts"},
		"x": {1, `rule 0: attempts: {{ workload.retries }}: text "x" is not a number of attempts`},
		1.5: {1, `rule 0: attempts: {{ workload.retries }}: 1.5 is not a number of attempts`},
		nil: {1, `rule 0: attempts: {{ workload.retries }}: none is not a number of attempts`},
	} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			_, pipeline := stepNamed(t, playbook(t, "orders_sync.yaml"), "fetch_orders", func(label string, _ retryflow.State) retryflow.Outcome {
				if label == "fetch" {
					runs++
					return retryflow.Outcome{Err: errors.New("slow down"), Data: map[string]any{"error": map[string]any{"kind": "rate_limit"}}}
				}
				return retryflow.Outcome{}
			})
			state := retryflow.State{"workload": map[string]any{"retries": attempts}}
			err := pipeline.Run(t.Context(), state)
			assert.ErrorContains(t, err, want.err, "%v", attempts)
			assert.Equal(t, want.runs, runs, "%v", attempts)
		})
	}
	_, pipeline := stepNamed(t, playbook(t, "orders_sync.yaml"), "fetch_orders", func(label string, _ retryflow.State) retryflow.Outcome {
		if label == "fetch" {
			return retryflow.Outcome{Err: errors.New("not found"), Data: map[string]any{"http": map[string]any{"status": 404}, "error": map[string]any{"kind": "x"}}}
		}
		return retryflow.Outcome{}
	})
	state := retryflow.State{}
	assert.ErrorContains(t, pipeline.Run(t.Context(), state), "not found")
	assert.Equal(t, map[string]any{"failed_page": 1}, state["ctx"])
}

func TestOldRetryBlocks(t *testing.T) {
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
		"any error":             {1, retryflow.Outcome{Err: boom}, true},
		"a success":             {1, retryflow.Outcome{}, false},
		"retry_when":            {3, retryflow.Outcome{Err: boom, Data: data(503), Attempt: 1}, true},
		"retry_when is false":   {3, retryflow.Outcome{Err: boom, Data: data(404), Attempt: 1}, false},
		"its attempt":           {3, retryflow.Outcome{Err: boom, Data: data(503), Attempt: 4}, false},
		"stop_when comes first": {3, retryflow.Outcome{Err: boom, Data: data(501), Attempt: 1}, false},
		"retry_when is not evaluated after a success": {3, retryflow.Outcome{Data: data(503), Attempt: 1}, false},
		"error is a text": {4, retryflow.Outcome{Err: boom}, true},
		"another error":   {4, retryflow.Outcome{Err: errors.New("no")}, false},
	} {
		got, err := p.Steps[row.step].Tasks[0].Rules[0].When(row.o)
		assert.NoError(t, err, name)
		assert.Equal(t, row.want, got, name)
	}
	_, err := p.Steps[3].Tasks[0].Rules[0].When(retryflow.Outcome{Err: boom})
	assert.ErrorContains(t, err, "{{ status_code == 501 }}: status_code is undefined", "a stop_when that cannot be evaluated does not retry")

	rules := rulesOf(t, `retry: {stop_when: "{{ result.done }}"}`)
	for done, want := range map[bool]bool{false: true, true: false} {
		again, err := rules[0].When(retryflow.Outcome{Result: map[string]any{"done": done}})
		assert.NoError(t, err)
		assert.Equal(t, want, again, "stop_when alone repeats until it holds, after a success too")
	}
	assert.Nil(t, rulesOf(t, "retry: false"))
	rules = rulesOf(t, `retry: "{{ 2 + 2 }}"`)
	limit, err := rules[0].Attempts(retryflow.Outcome{})
	assert.NoError(t, err)
	assert.Equal(t, 4, limit)
	assert.Equal(t, retry.Fixed(0), rulesOf(t, "retry: {max_delay: 0}")[0].Policy.Backoff)
}

// The name max_attempts is the number of attempts, also if an expression
// computes it.
func TestMaxAttemptsOfTheOldFormCanBeComputed(t *testing.T) {
	run := func(block string, n any) (attempts int, waited time.Duration, err error) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			p := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "t", Rules: rulesOf(t, "retry: "+block), Run: func(context.Context, retryflow.State) retryflow.Outcome {
				attempts++
				return retryflow.Outcome{Err: errors.New("boom")}
			}}}}
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
		"not a number":       {`{max_attempts: "{{ workload.n }}", retry_when: "{{ attempt < max_attempts }}"}`, "x", 1, 0, `rule 0: when: {{ attempt < max_attempts }}: {{ workload.n }}: text "x" is not a number of attempts`},
		"below 1":            {`{max_attempts: "{{ workload.n }}", retry_when: "{{ attempt < max_attempts }}"}`, 0, 1, 0, "rule 0: when: {{ attempt < max_attempts }}: {{ workload.n }}: 0 is not a number of attempts"},
		"no default":         {`{max_attempts: "{{ workload.m }}", retry_when: "{{ max_attempts | default(5) == 7 }}"}`, 3, 1, 0, "{{ workload.m }}: workload.m is undefined"},
		"computed by itself": {`{max_attempts: "{{ max_attempts + 1 }}"}`, nil, 1, 0, "attempts: {{ max_attempts + 1 }}: max_attempts cannot be computed from itself"},
	} {
		attempts, waited, err := run(row.block, row.n)
		assert.ErrorContains(t, err, row.want, name)
		assert.Equal(t, row.attempts, attempts, name)
		assert.Equal(t, row.waited, waited, name)
	}
}

func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := playbook(t, "policies.yaml")
		step := p.Steps[0]
		assert.Contains(t, step.Config["spec"], "policy", "the policy of a step stays in its Config")
		assert.Equal(t, map[string]any{"timeout": map[string]any{"connect": 5}, "policy": map[string]any{"before": []any{}}}, step.Tasks[0].Config["spec"])
		assert.Equal(t, []string{"fetch", "previous_page", "task_3"}, []string{step.Tasks[0].Label, step.Tasks[1].Label, step.Tasks[2].Label})
		assert.Equal(t, retry.Policy{MaxAttempts: 10, Backoff: retry.Linear(2 * time.Second)}, step.Tasks[0].Rules[0].Policy)
		assert.Equal(t, "fetch", step.Tasks[1].Rules[0].To, "to: previous is the task before")

		fetches := 0
		_, pipeline := stepNamed(t, p, "fetch_hotels", func(label string, _ retryflow.State) retryflow.Outcome {
			if label == "fetch" {
				fetches++
				return retryflow.Outcome{Result: map[string]any{"more": fetches == 1}}
			}
			if fetches == 2 {
				return retryflow.Outcome{Err: errors.New("no rule for this")}
			}
			return retryflow.Outcome{}
		})
		state := retryflow.State{"iter": map[string]any{"page": 1}, "ctx": map[string]any{"pages": 0}}
		assert.ErrorContains(t, pipeline.Run(t.Context(), state), `task "previous_page": retry: not retryable after 1 attempt: no rule for this`)
		assert.Equal(t, retryflow.State{"iter": map[string]any{"page": 2}, "ctx": map[string]any{"pages": 1}}, state)
	})
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

	p, err = noetl.ParsePlaybook("p.yaml", nil, nil)
	assert.NoError(t, err)
	assert.Equal(t, noetl.Playbook{}, p)
	tasks, err := noetl.ParseTasks([]byte("tool: {kind: http}"), nil)
	assert.NoError(t, err)
	assert.Equal(t, []noetl.Task{{Label: "task_1", Config: map[string]any{"kind": "http"}}}, tasks)
}

func TestFaultsOfPlaybooks(t *testing.T) {
	for yaml, want := range map[string]string{
		"[]":                     "p.yaml:1: got a list: write a playbook: a mapping with a workflow",
		"kind: Playbook":         "p.yaml:1: workflow is missing: write a playbook: a mapping with a workflow",
		"workflow: x":            `p.yaml:1: workflow: got the text "x": write a list of steps: "- step: start"`,
		"workflow: [x]":          `p.yaml:1: workflow[0]: got the text "x": write a list of steps: "- step: start"`,
		"workflow: [{tool: {}}]": `p.yaml:1: workflow[0]: step is missing: write a list of steps: "- step: start"`,
		"workflow: [{step: 7}]":  "p.yaml:1: workflow[0]: step is 7: write a name",
		"workflow:\n- step: a\n- step: b\n- step: a":                                            `p.yaml:4: workflow[2]: duplicate step "a": line 2 has the first`,
		"workflow:\n- step: a\n  retry: 3":                                                      "p.yaml:3: workflow[0]: retry belongs to a task, and this step has none",
		"workflow:\n- step: a\n  tool: [{a: {}}, {b: {}}]\n  eval: []":                          "p.yaml:4: workflow[0]: eval is beside a tool that has rules or several tasks: write it in one of them",
		"workflow:\n- step: a\n  tool: {kind: x, retry: 3}\n  retry: 3":                         "p.yaml:4: workflow[0]: retry is beside a tool that has rules or several tasks: write it in one of them",
		"workflow:\n- step: a\n  tool:\n    eval: [{else: {do: jump, to: b}}]":                  `p.yaml:4: workflow[0].tool.eval[0].else: to is "b": no task has that label`,
		"workflow:\n- step: a\n  tool:\n  - x:\n      eval: [{else: {do: jump, to: previous}}]": `p.yaml:5: workflow[0].tool[0].x.eval[0].else: to is previous: no task comes before "x"`,
		"workflow:\n- step: a\n  tool: {kind: x, eval: [], spec: {policy: {rules: []}}}":        "p.yaml:3: workflow[0].tool.spec: both spec.policy and eval or retry are set: write one",
		"workflow: [{step: a, tool: {spec: {policy: {rules: [{when: x}]}}}}]":                   `p.yaml:1: workflow[0].tool.spec.policy.rules[0]: then is missing: write a mapping with do: "then: {do: retry}"`,
		"workflow: [{step: a, tool: {spec: {policy: {rules: [{when: x, then: retry}]}}}}]":      `p.yaml:1: workflow[0].tool.spec.policy.rules[0].then: got the text "retry": write a mapping with do: "then: {do: retry}"`,
		"workflow: [{step: a, tool: {spec: {policy: {rules: [], mode: inclusive}}}}]":           `p.yaml:1: workflow[0].tool.spec.policy: mode is "inclusive": write exclusive, the first rule that matches decides`,
		"workflow: [{step: a, tool: {spec: {policy: {rules: [], on_unmatched: x}}}}]":           `p.yaml:1: workflow[0].tool.spec.policy: on_unmatched is "x": write continue or fail`,
		"workflow: [{step: a, tool: {eval: [{else: {do: continue, set: {page: 1}}}]}}]":         `p.yaml:1: workflow[0].tool.eval[0].else: set: page: write a scope and a name: "iter.page"`,
		"workflow: [{step: a, tool: {retry: {backoff_multiplier: 0.5}}}]":                       "p.yaml:1: workflow[0].tool.retry: backoff_multiplier is 0.5: write 1 or more",
		"workflow: [{step: a, tool: {retry: {jitter: 0.5}}}]":                                   "p.yaml:1: workflow[0].tool.retry: jitter is 0.5: write true or false",
		"workflow: [":                  "p.yaml:1: did not find expected node content",
		"workflow: []\n---\nkind: x\n": "p.yaml:2: a second document: write one",
	} {
		p, err := noetl.ParsePlaybook("p.yaml", []byte(yaml), nil)
		assert.EqualError(t, err, "noetl: "+want, yaml)
		assert.Equal(t, noetl.Playbook{}, p)
	}
}

// on_unmatched is the directive if no rule matches.
func TestUnmatched(t *testing.T) {
	boom := errors.New("boom")
	for yaml, want := range map[string]map[error]bool{ // the value says whether the task fails after this error
		"":                         {nil: false, boom: true},
		"on_unmatched: continue, ": {nil: false, boom: false},
		"on_unmatched: fail, ":     {nil: true, boom: true},
	} {
		rules := rulesOf(t, "spec: {policy: {"+yaml+"rules: [{when: '{{ false }}', then: {do: break}}]}}")
		for err, fails := range want {
			p := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "t", Rules: rules, Run: func(context.Context, retryflow.State) retryflow.Outcome { return retryflow.Outcome{Err: err} }}}}
			assert.Equal(t, fails, p.Run(t.Context(), nil) != nil, "%s%v", yaml, err)
		}
	}
	assert.Len(t, rulesOf(t, "spec: {policy: {on_unmatched: fail, rules: [{else: {then: {do: break}}}]}}"), 1)
	assert.Nil(t, rulesOf(t, "spec: {policy: {rules: [{then: {do: break}}]}}")[0].When, "a rule without when always matches")
}
