package noetl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func TestParseNothing(t *testing.T) {
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

func TestElse(t *testing.T) {
	for _, yaml := range []string{
		"eval:\n- else:\n    do: break\n",
		"eval:\n- else: {do: break}\n",
		"eval:\n- else:\n  do: break\n", // not indented, so else is empty
		"eval:\n- do: break\n  else:\n",
	} {
		rules, err := noetl.ParseRules([]byte(yaml), nil)
		require.NoError(t, err, yaml)
		assert.Equal(t, retryflow.Rules{{Do: retryflow.Break}}, rules)
	}
}

func TestRulesOfEachDirective(t *testing.T) {
	rules := rulesOf(t, `
eval:
- {expr: "{{ true }}", do: continue, set_iter: {a: 1}}
- {expr: "{{ true }}", do: break, set_iter: {a: 1}}
- {expr: "{{ true }}", do: fail}
- {expr: "{{ true }}", do: jump, to: t, delay: 2, set_iter: {a: 1}}
- {expr: "{{ true }}", do: retry, attempts: 1, backoff: exponential, delay: 0.5, set_iter: {a: 1}}
- {expr: "{{ true }}", do: retry, attempts: 0x10, backoff: linear, delay: "{{ 1 }}"}
- {expr: "{{ true }}", do: retry, backoff: exponential}
`)
	require.Len(t, rules, 7)
	assert.Equal(t, retry.Policy{MaxAttempts: 1, Backoff: retry.Exponential{Base: time.Second / 2}}, rules[4].Policy)
	assert.Nil(t, rules[4].Delay)
	assert.Equal(t, retry.Policy{MaxAttempts: 16, Backoff: retry.Linear(0)}, rules[5].Policy)
	assert.NotNil(t, rules[5].Delay)
	assert.Equal(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}}, rules[6].Policy)
	d, err := rules[3].Delay(retryflow.Outcome{})
	assert.NoError(t, err)
	assert.Equal(t, 2*time.Second, d)
	for i, set := range []bool{true, true, false, true, true, false, false} {
		assert.Equal(t, set, rules[i].Set != nil, i)
	}
	p := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "t", Rules: rules, Run: newRun()}}}
	assert.NoError(t, p.Validate())
}

func TestFaults(t *testing.T) {
	for yaml, want := range map[string]string{
		"eval: 1":                                                         "line 1: eval: got 1: write a list of rules",
		"eval: {expr: a}":                                                 "line 1: eval: got a mapping: write a list of rules",
		"eval:\n- 7":                                                      "line 2: eval[0]: got 7: write a mapping with expr and do, or with else",
		"eval:\n- []":                                                     "line 2: eval[0]: got a list: write a mapping with expr and do, or with else",
		"eval:\n- {}":                                                     "line 2: eval[0]: the rule is empty: write a mapping with expr and do, or with else",
		"eval:\n- do: fail":                                               "line 2: eval[0]: expr is missing: write a mapping with expr and do, or with else",
		"eval:\n- expr: \"{{ true }}\"":                                   "line 2: eval[0]: do is missing: write continue, retry, jump, break or fail",
		"eval:\n- expr: true\n  do: fail":                                 `line 2: eval[0]: expr is true: write an expression in quotes: "{{ outcome.status == 'error' }}"`,
		"eval:\n- expr: {{ true }}\n  do: fail":                           `line 2: eval[0]: expr is a mapping: write an expression in quotes: "{{ outcome.status == 'error' }}"`,
		"eval:\n- expr: [a]\n  do: fail":                                  `line 2: eval[0]: expr is a list: write an expression in quotes: "{{ outcome.status == 'error' }}"`,
		"eval:\n- else: {do: explode}":                                    `line 2: eval[0].else: do is "explode": write continue, retry, jump, break or fail`,
		"eval:\n- else: {do: Retry}":                                      `line 2: eval[0].else: do is "Retry": write continue, retry, jump, break or fail`,
		"eval:\n- else: {do: 7}":                                          "line 2: eval[0].else: do is 7: write continue, retry, jump, break or fail",
		"eval:\n- else: {do: [retry]}":                                    "line 2: eval[0].else: do is a list: write continue, retry, jump, break or fail",
		"eval:\n- else: continue":                                         `line 2: eval[0].else: got the text "continue": write a mapping with do: "else: {do: continue}"`,
		"eval:\n- else: {}":                                               "line 2: eval[0].else: do is missing: write continue, retry, jump, break or fail",
		"eval:\n- else: {do: fail}\n  do: break":                          `line 3: eval[0]: unknown key "do": write the other keys under else`,
		"eval:\n- else:\n  expr: a\n  do: break":                          "line 3: eval[0]: both expr and else are set: write one",
		"eval:\n- else: {do: fail, expr: a}":                              "line 2: eval[0].else: both expr and else are set: write one",
		"eval:\n- else: {do: fail}\n- else: {do: fail}":                   "line 3: eval[1]: this rule is never reached: the else in line 2 always matches",
		"eval:\n- else: {do: retry, attemps: 3}":                          `line 2: eval[0].else: unknown key "attemps": a rule with do: retry has expr or else, do, attempts, backoff, delay, set_iter, set_vars, set_ctx, set_shared, set_prev, set`,
		"eval:\n- else: {do: fail, attempts: 3}":                          `line 2: eval[0].else: unknown key "attempts": a rule with do: fail has expr or else, do, set_iter, set_vars, set_ctx, set_shared, set_prev, set`,
		"eval:\n- else: {do: break, delay: 3}":                            `line 2: eval[0].else: unknown key "delay": a rule with do: break has expr or else, do, set_iter, set_vars, set_ctx, set_shared, set_prev, set`,
		"eval:\n- else: {do: retry, to: t}":                               `line 2: eval[0].else: unknown key "to": a rule with do: retry has expr or else, do, attempts, backoff, delay, set_iter, set_vars, set_ctx, set_shared, set_prev, set`,
		"eval:\n- else: {do: retry, when: t}":                             `line 2: eval[0].else: unknown key "when": a rule with do: retry has expr or else, do, attempts, backoff, delay, set_iter, set_vars, set_ctx, set_shared, set_prev, set`,
		"eval:\n- else: {do: retry, attempts: 0}":                         `line 2: eval[0].else: attempts is 0: write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
		"eval:\n- else: {do: retry, attempts: -1}":                        `line 2: eval[0].else: attempts is -1: write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
		"eval:\n- else: {do: retry, attempts: 2.5}":                       `line 2: eval[0].else: attempts is 2.5: write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
		"eval:\n- else: {do: retry, attempts: }":                          `line 2: eval[0].else: attempts is null: write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
		"eval:\n- else: {do: retry, attempts: [1]}":                       `line 2: eval[0].else: attempts is a list: write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
		"eval:\n- else: {do: retry, attempts: 99999999999999999999}":      `line 2: eval[0].else: attempts is 99999999999999999999: write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
		"eval:\n- else: {do: retry, backoff: cubic}":                      `line 2: eval[0].else: backoff is "cubic": write fixed, none, linear or exponential`,
		"eval:\n- else: {do: retry, backoff: 2}":                          "line 2: eval[0].else: backoff is 2: write fixed, none, linear or exponential",
		"eval:\n- else: {do: retry, backoff: }":                           "line 2: eval[0].else: backoff is null: write fixed, none, linear or exponential",
		"eval:\n- else: {do: retry, backoff: \"\"}":                       `line 2: eval[0].else: backoff is "": write fixed, none, linear or exponential`,
		"eval:\n- else: {do: jump}":                                       "line 2: eval[0].else: to is missing: write the label of a task",
		"eval:\n- else: {do: jump, to: 7}":                                "line 2: eval[0].else: to is 7: write the label of a task",
		"eval:\n- else: {do: break, set_iter: 7}":                         "line 2: eval[0].else: set_iter is 7: write a mapping of names to values",
		"eval:\n- else: {do: break, set_iter: }":                          "line 2: eval[0].else: set_iter is null: write a mapping of names to values",
		"eval:\n- else: {do: break, set_iter: {a: \"{{ 1\"}}":             "line 2: eval[0].else: set_iter.a: {{ 1: the }} is missing",
		"eval:\n- else: {do: break, set_iter: {a: [\"{# c #}{{ 1 }}\"]}}": "line 2: eval[0].else: set_iter.a: {# c #}{{ 1 }}: comments ({# … #}) are not allowed: write {{ … }}",
		"eval:\n- else: {do: fail, do: break}":                            `line 2: eval[0].else: duplicate key "do"`,
		"eval:\n- else: {[a]: b, do: break}":                              "line 2: eval[0].else: a key is a list: write a name",
		"eval: []\neval: []":                                              `line 2: duplicate key "eval"`,
		"eval: []\nretry: {max_attempts: 3}":                              "line 2: both retry and eval are set: write one",
		"retry: [a]":                                                      "line 1: retry is a list: write its conditions as rules under eval (do: retry), and its pages with do: jump",
		"retry: {max_attempts: 0}":                                        `line 1: retry: max_attempts is 0: write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
		"retry: {max_delay: \"{{ 3 }}\"}":                                 `line 1: retry: max_delay is the text "{{ 3 }}": write seconds, such as 1.5`,
		"retry: {max_attempts: 3, retry_when: 7}":                         `line 1: retry: retry_when is 7: write an expression in quotes: "{{ outcome.status == 'error' }}"`,
		"eval: *nosuch":                                                   "unknown anchor 'nosuch' referenced",
		"eval: [":                                                         "line 1: did not find expected node content",
		"\teval: []":                                                      "found character that cannot start any token",
		"a: 1\n---\neval: []":                                             "line 2: a second document: write one",
		"a: 1\n--- [":                                                     "line 2: did not find expected node content",
		"- a":                                                             "line 1: got a list: write a mapping that has rules under eval",
		"text":                                                            `line 1: got the text "text": write a mapping that has rules under eval`,
		"\x00":                                                            "control characters are not allowed",
		"\xff\xfe\x00":                                                    "incomplete UTF-16 character",
	} {
		t.Run(yaml, func(t *testing.T) {
			got, err := noetl.ParseRules([]byte(yaml), nil)
			assert.EqualError(t, err, "noetl: "+want)
			assert.Nil(t, got)
		})
	}
}

func TestFaultsOfTasks(t *testing.T) {
	for yaml, want := range map[string]string{
		"text":                      `line 1: got the text "text": write a list of tasks: "- fetch: {…}"`,
		"kind: http":                `line 1: tool is missing: write a step with a tool, or a list of tasks: "- fetch: {…}"`,
		"- text":                    `line 1: [0]: got the text "text": write a list of tasks: "- fetch: {…}"`,
		"- []":                      `line 1: [0]: got a list: write a list of tasks: "- fetch: {…}"`,
		"- {}":                      `line 1: [0]: a task has 0 labels: write one, with the keys of the task under it: "- fetch: {…}"`,
		"- fetch: http":             `line 1: [0].fetch: got the text "http": write a list of tasks: "- fetch: {…}"`,
		"- a: {}\n- b: {}\n- a: {}": `line 3: [2]: duplicate task "a": line 1 has the first`,
		"- a:\n    eval:\n    - else: {do: jump, to: b}": `line 3: [0].a.eval[0].else: to is "b": no task has that label`,
		"- a: {kind: {x: 1, x: 2}}":                      `line 1: [0].a: kind: line 1: mapping key "x" already defined at line 1`,
		"- a: {kind: http, kind: sql}":                   `line 1: [0].a: duplicate key "kind"`,
		"- a: {eval: 7}":                                 "line 1: [0].a.eval: got 7: write a list of rules",
	} {
		t.Run(yaml, func(t *testing.T) {
			got, err := noetl.ParseTasks([]byte(yaml), nil)
			assert.EqualError(t, err, "noetl: "+want)
			assert.Nil(t, got)
		})
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := noetl.ParsePlaybook("shop.yaml", []byte(`
workflow:
- step: start
  tool:
  - a:
      eval:
      - expr: "{{ 1"
        do: retry
        attempts: none
        backoff: slow
        delay: soon
        too: b
      - else: {do: explode}
  - b:
      retry: {max_attempts: x}
`), nil)
	require.Error(t, err)
	assert.Equal(t, []string{
		"noetl: shop.yaml:7: workflow[0].tool[0].a.eval[0]: expr: {{ 1: the }} is missing",
		`shop.yaml:9: workflow[0].tool[0].a.eval[0]: attempts is the text "none": write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
		`shop.yaml:10: workflow[0].tool[0].a.eval[0]: backoff is "slow": write fixed, none, linear or exponential`,
		`shop.yaml:11: workflow[0].tool[0].a.eval[0]: delay is the text "soon": write seconds, such as 1.5, or an expression: "{{ workload.delay }}"`,
		`shop.yaml:12: workflow[0].tool[0].a.eval[0]: unknown key "too": a rule with do: retry has expr or else, do, attempts, backoff, delay, set_iter, set_vars, set_ctx, set_shared, set_prev, set`,
		`shop.yaml:13: workflow[0].tool[0].a.eval[1].else: do is "explode": write continue, retry, jump, break or fail`,
		`shop.yaml:15: workflow[0].tool[1].b.retry: max_attempts is the text "x": write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
	}, strings.Split(err.Error(), "; "))
}

func TestAnchorsAliasesAndMerges(t *testing.T) {
	tasks, err := noetl.ParseTasks([]byte(`
- a:
    kind: &kind http
    eval: &rules
      - &again
        expr: &failed "{{ outcome.status == 'error' }}"
        do: retry
        attempts: &n 7
      - else: &else {do: break}
- b:
    kind: *kind
    eval: *rules
- c:
    eval:
      - <<: *again
        attempts: 2
        delay: 5
      - <<: [{do: fail}, *again, {delay: 9}]
        expr: *failed
      - else: *else
`), nil)
	require.ErrorContains(t, err, `line 8: [2].c.eval[1]: unknown key "attempts": a rule with do: fail has`, "the first do in the merge is fail")
	require.Nil(t, tasks)

	tasks, err = noetl.ParseTasks([]byte(`
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
`), nil)
	require.NoError(t, err)
	kind := map[string]any{"x": []any{1, 2}}
	assert.Equal(t, map[string]any{"kind": kind}, tasks[0].Config)
	assert.Equal(t, map[string]any{"kind": kind, "two": 2}, tasks[1].Config)
	assert.Equal(t, retry.Policy{MaxAttempts: 7, Backoff: retry.Fixed(time.Second)}, tasks[1].Rules[0].Policy)
	assert.Equal(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(5 * time.Second)}, tasks[2].Rules[0].Policy)
	assert.Equal(t, retry.Policy{MaxAttempts: 7, Backoff: retry.Linear(9 * time.Second)}, tasks[2].Rules[1].Policy)
	assert.Equal(t, retryflow.Break, tasks[2].Rules[2].Do)
}

// A node with many aliases is read once. Otherwise the time to read a document
// would grow with the square of its length.
func TestAliasesAreReadOnce(t *testing.T) {
	many := "&r {expr: '{{ 1 }}', do: break}" + strings.Repeat(", *r", 99)
	long := "{{ " + strings.Repeat("1 + ", 200) + "1 }}"
	for name, row := range map[string]struct{ first, more string }{
		"rules":    {"- a: {eval: &x [" + many + "]}\n", "- t%d: {eval: *x}\n"},
		"expr":     {"- a: {eval: [{expr: &x '" + long + "', do: break}]}\n", "- t%d: {eval: [{expr: *x, do: break}]}\n"},
		"delay":    {"- a: {eval: [{else: {do: retry, delay: &x '" + long + "'}}]}\n", "- t%d: {eval: [{else: {do: retry, delay: *x}}]}\n"},
		"set_iter": {"- a: {eval: [{else: {do: break, set_iter: &x {a: '" + long + "'}}}]}\n", "- t%d: {eval: [{else: {do: break, set_iter: *x}}]}\n"},
	} {
		cost := func(aliases int) float64 {
			yaml := row.first
			for i := range aliases {
				yaml += fmt.Sprintf(row.more, i)
			}
			return testing.AllocsPerRun(1, func() {
				tasks, err := noetl.ParseTasks([]byte(yaml), nil)
				require.NoError(t, err)
				require.Len(t, tasks, 1+aliases)
				require.Len(t, tasks[aliases].Rules, len(tasks[0].Rules))
			})
		}
		once := cost(0)
		assert.Less(t, cost(50), 10*once, name)
	}
	tasks, err := noetl.ParseTasks([]byte("- a: {eval: &x [{else: {do: break}}]}\n- b: {eval: *x}\n"), nil)
	require.NoError(t, err)
	tasks[0].Rules[0].Do = retryflow.Fail
	assert.Equal(t, retryflow.Break, tasks[1].Rules[0].Do, "each task has its own rules")
}

func TestDocumentsThatAreBombs(t *testing.T) {
	laughs := "- a: &l0 {do: fail}\n"
	merges := laughs
	for i := range 9 {
		alias := fmt.Sprintf("*l%d", i)
		laughs += fmt.Sprintf("- k%d: &l%d {x: [%s]}\n", i, i+1, strings.TrimSuffix(strings.Repeat(alias+", ", 10), ", "))
		merges += fmt.Sprintf("- k%d: &l%d {<<: [%s]}\n", i, i+1, strings.TrimSuffix(strings.Repeat(alias+", ", 10), ", "))
	}
	for name, row := range map[string]struct{ yaml, want string }{
		"an alias of itself, passed through": {"- a: &a {x: *a}", "contains itself"},
		"an alias of itself, in a list":      {"- a: {x: &a [*a]}", "contains itself"},
		"a merge of itself":                  {"- a: &a {<<: *a}", "<< is used more than 1000 times, or merges itself"},
		"eval of itself":                     {"- a: &a {eval: *a}", "got a mapping: write a list of rules"},
		"rules of themselves":                {"- a: {eval: &a [*a]}", "got a list: write a mapping with expr and do"},
		"else of itself":                     {"- a: {eval: [&a {else: *a}]}", "do is missing"},
		"set_iter of itself":                 {"- a: {eval: [{else: {do: break, set_iter: &a {x: *a}}}]}", "contains itself"},
		"a billion laughs":                   {laughs, "excessive aliasing"},
		"a billion merges":                   {merges, "<< is used more than 1000 times"},
		"deep lists":                         {"- a: {x: " + strings.Repeat("[", 100_000), "noetl: "},
		"deep mappings":                      {"- a: {x: " + strings.Repeat("{a: ", 100_000), "noetl: "},
		"deep set_iter":                      {"- a: {eval: [{else: {do: break, set_iter: {x: " + strings.Repeat("[", 20_000), "noetl: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := noetl.ParseTasks([]byte(row.yaml), nil)
			require.Error(t, err)
			assert.Contains(t, err.Error(), row.want)
			assert.Less(t, len(err.Error()), 4000)
		})
	}
	// Documents are read down to the depth that YAML allows.
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
		p := retryflow.Pipeline{}
		for _, task := range tasks {
			p.Tasks = append(p.Tasks, retryflow.Task{Label: task.Label, Rules: task.Rules, Run: newRun()})
		}
		for _, task := range tasks {
			if task.Label == "" {
				return
			}
		}
		require.NoError(t, p.Validate(), "rules that are read without a fault are valid")
	})
}

func FuzzExpression(f *testing.F) {
	for _, expr := range []string{"outcome.http.status in [1]", "outcome.nosuch | default(2)", "'a' * -1", "rand() % 0", "[1,2][5:1:-1]", "{'a': 1}.a", "a if b else c", "(1)(2)", "not -x"} {
		f.Add("{{ " + expr + " }}")
	}
	f.Fuzz(func(t *testing.T, expr string) {
		rules, err := noetl.ParseRules(fmt.Appendf(nil, "eval: [{expr: %q, do: break}]", expr), nil)
		if err != nil {
			return
		}
		holds, err := rules[0].When(about())
		if err != nil {
			assert.False(t, holds)
		}
	})
}

func newRun() func(context.Context, retryflow.State) retryflow.Outcome {
	return func(context.Context, retryflow.State) retryflow.Outcome { return retryflow.Outcome{} }
}
