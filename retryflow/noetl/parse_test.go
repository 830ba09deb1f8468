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
		"eval:\n- else:\n  do: break\n", // not indented: else is empty
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
		"eval: 1":                                                         "line 1: it is 1: write a list of rules",
		"eval: {expr: a}":                                                 "line 1: it is a mapping: write a list of rules",
		"eval:\n- 7":                                                      "line 2: it is 7: write a mapping with expr and do, or with else",
		"eval:\n- []":                                                     "line 2: it is a list: write a mapping",
		"eval:\n- {}":                                                     "line 2: the rule is empty",
		"eval:\n- do: fail":                                               "line 2: expr is missing",
		"eval:\n- expr: \"{{ true }}\"":                                   "line 2: do is missing: write continue, retry, jump, break or fail",
		"eval:\n- expr: true\n  do: fail":                                 "line 2: expr is true: write an expression in quotes",
		"eval:\n- expr: {{ true }}\n  do: fail":                           "line 2: ", // YAML takes it for a mapping
		"eval:\n- expr: [a]\n  do: fail":                                  "line 2: expr is a list: write an expression",
		"eval:\n- else: {do: explode}":                                    `line 2: do is "explode": write continue, retry, jump, break or fail`,
		"eval:\n- else: {do: Retry}":                                      `line 2: do is "Retry": write continue, retry`,
		"eval:\n- else: {do: 7}":                                          "line 2: do is 7: write continue",
		"eval:\n- else: {do: [retry]}":                                    "line 2: do is a list",
		"eval:\n- else: continue":                                         `line 2: it is the text "continue": write a mapping with do: "else: {do: continue}"`,
		"eval:\n- else: {}":                                               "line 2: do is missing",
		"eval:\n- else: {do: fail}\n  do: break":                          `line 3: unknown key "do": what belongs to else stands under it`,
		"eval:\n- else:\n  expr: a\n  do: break":                          "line 3: expr and else are both there: write one",
		"eval:\n- else: {do: fail, expr: a}":                              "line 2: expr and else are both there",
		"eval:\n- else: {do: fail}\n- else: {do: fail}":                   "line 3: this rule is never asked: the else in line 2 always matches",
		"eval:\n- else: {do: retry, attemps: 3}":                          `line 2: unknown key "attemps": a rule that says retry has expr or else, do, attempts, backoff, delay, set_iter`,
		"eval:\n- else: {do: fail, attempts: 3}":                          `line 2: unknown key "attempts": a rule that says fail has expr or else, do`,
		"eval:\n- else: {do: fail, set_iter: {a: 1}}":                     `unknown key "set_iter"`,
		"eval:\n- else: {do: break, delay: 3}":                            `unknown key "delay"`,
		"eval:\n- else: {do: retry, to: t}":                               `unknown key "to"`,
		"eval:\n- else: {do: retry, when: t}":                             `unknown key "when"`,
		"eval:\n- else: {do: retry, attempts: 0}":                         "line 2: attempts is 0: write how many executions in all: 1 or more",
		"eval:\n- else: {do: retry, attempts: -1}":                        "attempts is -1",
		"eval:\n- else: {do: retry, attempts: 2.5}":                       "attempts is 2.5",
		"eval:\n- else: {do: retry, attempts: \"5\"}":                     `attempts is the text "5": write how many`,
		"eval:\n- else: {do: retry, attempts: }":                          "attempts is empty",
		"eval:\n- else: {do: retry, attempts: [1]}":                       "attempts is a list",
		"eval:\n- else: {do: retry, attempts: 99999999999999999999}":      "attempts is 99999999999999999999",
		"eval:\n- else: {do: retry, backoff: cubic}":                      `line 2: backoff is "cubic": write fixed, linear or exponential`,
		"eval:\n- else: {do: retry, backoff: 2}":                          "backoff is 2: write fixed",
		"eval:\n- else: {do: retry, backoff: }":                           "backoff is empty",
		"eval:\n- else: {do: retry, backoff: \"\"}":                       `backoff is "": write fixed`,
		"eval:\n- else: {do: jump}":                                       "line 2: to is missing: write the label of a task",
		"eval:\n- else: {do: jump, to: 7}":                                "to is 7: write the label of a task",
		"eval:\n- else: {do: break, set_iter: 7}":                         "line 2: set_iter is 7: write a mapping of names to values",
		"eval:\n- else: {do: break, set_iter: }":                          "set_iter is empty",
		"eval:\n- else: {do: break, set_iter: {a: \"{{ 1\"}}":             "line 2: set_iter: a: ",
		"eval:\n- else: {do: break, set_iter: {a: [\"{# c #}{{ 1 }}\"]}}": "line 2: set_iter: a: ",
		"eval:\n- else: {do: fail, do: break}":                            "line 2: do is there twice",
		"eval:\n- else: {[a]: b, do: break}":                              "line 2: a key is a list: write a name",
		"eval: []\neval: []":                                              "line 2: eval is there twice",
		"eval: []\nretry: {max_attempts: 3}":                              "line 2: retry and eval are both there: write one",
		"retry: true":                                                     "line 1: it is true: write a mapping with max_attempts and retry_when, or rules under eval",
		"retry: 5":                                                        "line 1: it is 5",
		"retry: [a]":                                                      "line 1: it is a list",
		"retry: {}":                                                       "line 1: max_attempts is missing",
		"retry: {max_attempts: 0}":                                        "max_attempts is 0",
		"retry: {max_attempts: 3, retry_when: 7}":                         "retry_when is 7",
		"retry: {max_attempts: 3, retry_when: \"status_code\"}":           "line 1: retry_when: status_code: write exactly one {{ … }}",
		"retry:\n  max_attempts: 3\n  initial_delay: 1":                   `line 3: unknown key "initial_delay": write a mapping with max_attempts and retry_when, or rules under eval`,
		"eval: *nosuch":                                                   "unknown anchor 'nosuch' referenced",
		"eval: [":                                                         "line 1: did not find expected node content",
		"\teval: []":                                                      "found character that cannot start any token",
		"a: 1\n---\neval: []":                                             "line 2: a second document: write one",
		"a: 1\n--- [":                                                     "noetl: line",
		"- a":                                                             "line 1: it is a list: write a mapping that has rules under eval",
		"text":                                                            `line 1: it is the text "text": write a mapping`,
		"\x00":                                                            "control characters are not allowed",
		"\xff\xfe\x00":                                                    "noetl: ",
	} {
		t.Run(yaml, func(t *testing.T) {
			_, err := noetl.ParseRules([]byte(yaml), nil)
			require.ErrorContains(t, err, want)
			assert.True(t, strings.HasPrefix(err.Error(), "noetl: "), err)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestFaultsOfTasks(t *testing.T) {
	for yaml, want := range map[string]string{
		"text":                        `line 1: it is the text "text": write a list of tasks: "- fetch: {…}"`,
		"kind: http":                  "line 1: there is no tool",
		"tool: {kind: http}":          "line 1: it is a mapping: write a list of tasks",
		"- text":                      "line 1: it is the text \"text\": write a list of tasks",
		"- []":                        "line 1: it is a list",
		"- {}":                        "line 1: a task has 0 labels: write one",
		"- name: fetch\n  kind: http": "line 1: a task has 2 labels: write one, with what belongs to the task under it",
		"- fetch: http":               `line 1: it is the text "http": write a list of tasks`,
		"- a: {}\n- b: {}\n- a: {}":   `line 3: task "a" is there twice, in line 1 too`,
		"- a:\n    eval:\n    - else: {do: jump, to: b}": `line 3: to is "b", and no task has that label`,
		"- a: {kind: {x: 1, x: 2}}":                      "line 1: kind: ",
		"- a: {kind: http, kind: sql}":                   "line 1: kind is there twice",
		"- a: {eval: 7}":                                 "line 1: it is 7: write a list of rules",
	} {
		t.Run(yaml, func(t *testing.T) {
			tasks, err := noetl.ParseTasks([]byte(yaml), nil)
			require.ErrorContains(t, err, want)
			assert.Nil(t, tasks)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := noetl.ParseTasks([]byte(`
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
	parts := strings.Split(err.Error(), "; ")
	for i, line := range []string{"noetl: line 4: expr", "line 6: attempts", "line 7: backoff", "line 8: delay", `line 9: unknown key "too"`, `line 10: do is "explode"`, "line 12: max_attempts"} {
		require.Greater(t, len(parts), i)
		assert.True(t, strings.HasPrefix(parts[i], line), parts[i])
	}
	assert.Len(t, parts, 7)
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
	require.ErrorContains(t, err, `line 8: unknown key "attempts": a rule that says fail has`, "do: fail came first in the merge")
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

// What has many aliases is read once: a document is not to cost its length
// times itself.
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
	assert.Equal(t, retryflow.Break, tasks[1].Rules[0].Do, "each task has rules of its own")
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
		"eval of itself":                     {"- a: &a {eval: *a}", "it is a mapping: write a list of rules"},
		"rules of themselves":                {"- a: {eval: &a [*a]}", "it is a list: write a mapping with expr and do"},
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
	// As deep as YAML allows, and not deeper, is read.
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
		require.NoError(t, p.Validate(), "what is read without a fault is sound")
	})
}

func FuzzExpression(f *testing.F) {
	for _, expr := range []string{"outcome.http.status in [1]", "outcome.nosuch | default(2)", "'a' * -1", "rand() % 0", "[1,2][5:1:-1]", "{'a': 1}.a", "a if b else c", "(1)(2)", "not -x"} {
		f.Add("{{ " + expr + " }}")
	}
	f.Fuzz(func(t *testing.T, expr string) {
		if strings.Contains(expr, "|") || strings.Contains(expr, "(") {
			return // filters and methods may take any time and memory
		}
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
