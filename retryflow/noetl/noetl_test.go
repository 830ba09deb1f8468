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

func TestFaults(t *testing.T) {
	for yaml, want := range map[string]string{
		"eval: 1":                                                         "line 1: eval: got 1: write a list of rules",
		"eval: {expr: a}":                                                 "line 1: eval: got a mapping: write a list of rules",
		"eval:\n- 7":                                                      "line 2: eval[0]: got 7: write a mapping with expr and do, or with else",
		"eval:\n- []":                                                     "line 2: eval[0]: got a list: write a mapping with expr and do, or with else",
		"eval:\n- {}":                                                     "line 2: eval[0]: the rule is empty: write a mapping with expr and do, or with else",
		"eval:\n- when: a\n  do: fail":                                    `line 2: eval[0]: unknown key "when": a rule with do: fail has expr or else, do, set_iter, set_vars, set_ctx, set_shared, set_prev, set`,
		"spec: {policy: {rules: [{do: fail}]}}":                           `line 1: spec.policy.rules[0]: then is missing: write a mapping with do: "then: {do: retry}"`,
		"eval:\n- else: {do: jump, to: ''}":                               "line 2: eval[0].else: to is empty: write the label of a task",
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
		"eval:\n- else:\n  expr: a\n  do: break":                          `line 2: eval[0]: else is empty, and NoETL skips such a rule: write a mapping with do: "else: {do: continue}"`,
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
		"eval:\n- else: {do: break, set_iter: {a: [\"x{% y %}\"]}}":       "line 2: eval[0].else: set_iter.a: x{% y %}: statements ({% … %}) are not allowed: write {{ … }}",
		"eval:\n- else: {do: fail, do: break}":                            `line 2: eval[0].else: duplicate key "do"`,
		"eval:\n- else: {[a]: b, do: break}":                              "line 2: eval[0].else: a key is a list: write a name",
		"eval: []\neval: []":                                              `line 2: duplicate key "eval"`,
		"eval: []\nretry: {max_attempts: 3}":                              "line 2: both retry and eval are set: write one",
		"retry: [a]":                                                      "line 1: retry is a list: write its conditions as rules under eval (do: retry), and its pages with do: jump",
		"retry: {max_attempts: 0}":                                        `line 1: retry: max_attempts is 0: write how many attempts in all, 1 or more, or an expression: "{{ workload.attempts }}"`,
		"retry: {max_delay: \"{{ 3 }}\"}":                                 `line 1: retry: max_delay is the text "{{ 3 }}": write seconds, such as 1.5`,
		"retry: {max_attempts: 3, retry_when: 7}":                         `line 1: retry: retry_when is 7: write an expression in quotes: "{{ outcome.status == 'error' }}"`,
		"retry: {max_attempt: 3}":                                         `line 1: retry: unknown key "max_attempt": write a mapping with max_attempts, initial_delay, backoff_multiplier, max_delay, jitter, retry_when and stop_when, or rules under eval`,
		"retry: {backoff_multiplier: 1000001}":                            "line 1: retry: backoff_multiplier is 1000001: write a number from 1 to 1000000",
		"spec: {policy: {rules: [{then: {do: fail}, do: fail}]}}":         `line 1: spec.policy.rules[0]: unknown key "do": write the other keys under then`,
		"eval: [{else: {do: break, set: {iter.: 1}}}]":                    `line 1: eval[0].else: set: iter.: write a scope and a name: "iter.page"`,
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
		got, err := noetl.ParseRules([]byte(yaml), nil)
		assert.EqualError(t, err, "noetl: "+want, yaml)
		assert.Nil(t, got)
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
		got, err := noetl.ParseTasks([]byte(yaml), nil)
		assert.EqualError(t, err, "noetl: "+want, yaml)
		assert.Nil(t, got)
	}
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
		"workflow: [{step: a, tool: {eval: [{else: {do: continue, set: {.iter: 1}}}]}}]":        `p.yaml:1: workflow[0].tool.eval[0].else: set: .iter: write a scope and a name: "iter.page"`,
		"workflow: [{step: a, tool: {eval: [{else: {do: continue, set: {a.b.c: 1}}}]}}]":        `p.yaml:1: workflow[0].tool.eval[0].else: set: a.b.c: write a scope and a name: "iter.page"`,
		"workflow: [{step: a, tool: {retry: {backoff_multiplier: 0.5}}}]":                       "p.yaml:1: workflow[0].tool.retry: backoff_multiplier is 0.5: write a number from 1 to 1000000",
		"workflow: [{step: a, tool: x, eval: [{else: {do: jump, to: b}}]}]":                     `p.yaml:1: workflow[0].eval[0].else: to is "b": no task has that label`,
		"workflow: [{step: a, tool: {retry: {jitter: 0.5}}}]":                                   "p.yaml:1: workflow[0].tool.retry: jitter is 0.5: write true or false",
		"workflow: [":                  "p.yaml:1: did not find expected node content",
		"workflow: []\n---\nkind: x\n": "p.yaml:2: a second document: write one",
	} {
		p, err := noetl.ParsePlaybook("p.yaml", []byte(yaml), nil)
		assert.EqualError(t, err, "noetl: "+want, yaml)
		assert.Equal(t, noetl.Playbook{}, p)
	}
}

// Rules that would have no effect are an error that names their place.
func TestRulesThatAreNotRead(t *testing.T) {
	const rules = "[{when: '{{ true }}', then: {do: break}}, {else: {then: {do: fail}}}]"
	const write = ": rules are not read here: write them beside the kind of a task, under eval or spec.policy.rules"
	for task, where := range map[string]string{
		"spec: {policy: " + rules + "}":                   "tool[0].spec.policy",
		"spec: {policy: {rule: " + rules + "}}":           "tool[0].spec.policy.rule",
		"spec: {policies: " + rules + "}":                 "tool[0].spec.policies",
		"spec: {policy: {admit: {rules: " + rules + "}}}": "tool[0].spec.policy.admit.rules",
		"rules: " + rules:                                 "tool[0].rules",
		"policy: {rules: " + rules + "}":                  "tool[0].policy.rules",
		"x: {else: {do: retry}}":                          "tool[0].x",
		"evals: [{do: retry, attempts: 3}]":               "tool[0].evals",
		"Spec: {Policy: {Rules: [{Then: {Do: Retry}}]}}":  "tool[0].Spec.Policy.Rules",
		"x: {y: {retry: {max_attempts: 3}}}":              "tool[0].x.y",
		"tools: {kind: http, retry: 3}":                   "tool[0].tools.retry",
		"tools: [{fetch: {kind: http, retry: true}}]":     "tool[0].tools[0].fetch.retry",
		"tools: {a: {retry: 3}}":                          "tool[0].tools.a.retry",
		"tasks: [{a: {backoff: linear}}]":                 "tool[0].tasks[0].a.backoff",
		"Spec: {Retry: 3}":                                "tool[0].Spec.retry",
		"spec: {policy: {retry: {attempts: 3}}}":          "tool[0].spec.policy.retry",
		"spec: {max_attempts: 3}":                         "tool[0].spec.max_attempts",
		"x: {kind: sql, eval: []}":                        "tool[0].x.eval",
		"Max_Attempts: 3":                                 "tool[0].Max_Attempts",
		"spec: {policy: {on_unmatched: fail}}":            "tool[0].spec.policy.on_unmatched",
		"spec: {policy: {backoff: linear}}":               "tool[0].spec.policy.backoff",
		"x: {tool: http, attempts: 3}":                    "tool[0].x.attempts",
		"retry_when: x":                                   "tool[0].retry_when",
		"spec: {stop_when: x}":                            "tool[0].spec.stop_when",
	} {
		_, err := noetl.ParseTasks([]byte("tool:\n- kind: http\n  "+task+"\n"), nil)
		assert.EqualError(t, err, "noetl: line 3: "+where+write)
		_, err = noetl.ParseRules([]byte("\n\n"+task), nil)
		assert.EqualError(t, err, "noetl: line 3: "+strings.TrimPrefix(where, "tool[0].")+write)
	}
	_, err := noetl.ParseTasks([]byte("tool: {kind: http, spec: {policy: {on_unmatch: fail, rules: "+rules+"}}}"), nil)
	assert.EqualError(t, err, `noetl: line 1: tool.spec.policy: unknown key "on_unmatch": a policy with rules has rules, mode and on_unmatched`)
	for step, where := range map[string]string{
		"spec: {policy: {rules: " + rules + "}}": "workflow[0].spec.policy.rules",
		"case: " + rules:                         "workflow[0].case",
		"tools: {kind: http, retry: 3}":          "workflow[0].tools.retry",
		"tool: [{a: {tool: {}, retry: 3}}]":      "workflow[0].tool[0].a.retry",
		"loop: {in: x, max_attempts: 3}":         "workflow[0].loop.max_attempts",
		"next: [{step: b, retry: 3}]":            "workflow[0].next[0].retry",
	} {
		_, err := noetl.ParsePlaybook("p.yaml", []byte("workflow:\n- step: s\n\n  "+step+"\n"), nil)
		assert.EqualError(t, err, "noetl: p.yaml:4: "+where+write)
	}
	tasks, err := noetl.ParseTasks([]byte("tool: {kind: http, params: {retry: 3, max_attempts: 3}, body: {x: {retry: true}}}"), nil)
	assert.NoError(t, err, "parameters of the tool")
	assert.Contains(t, tasks[0].Config, "params")
	for _, own := range []string{"retry_on: [timeout]", "retry_on_status: [503]", "backoff_seconds: 2"} {
		_, err := noetl.ParseTasks([]byte("tool: {kind: http, retry: {max_attempts: 3, "+own+"}}"), nil)
		name, _, _ := strings.Cut(own, ":")
		assert.EqualError(t, err, "noetl: line 1: tool.retry: "+name+" is for the tool, and none of NoETL's tools reads it: "+
			`write a rule in place of retry: "spec: {policy: {rules: [{when: \"{{ output.error.retryable }}\", then: {do: retry, attempts: 3}}]}}"`)
	}
}

func TestAConditionThatIsTrueOrFalse(t *testing.T) {
	rules := rulesOf(t, "spec: {policy: {rules: [{when: false, then: {do: fail}}, {when: true, then: {do: break}}, {else: {then: {do: fail}}}]}}")
	for i, want := range []bool{false, true} {
		holds, err := rules[i].When(about())
		assert.NoError(t, err)
		assert.Equal(t, want, holds)
	}
}

func TestTheSpellingsOfPrevious(t *testing.T) {
	for _, to := range []string{"previous", "prev", "_previous", "@previous", " Previous "} {
		tasks, err := noetl.ParseTasks(fmt.Appendf(nil, "tool: [{first: {}}, {prev: {eval: [{else: {do: jump, to: %q}}]}}]", to), nil)
		require.NoError(t, err)
		assert.Equal(t, "first", tasks[1].Rules[0].To, to)
	}
}

// A document is bounded before it is read.
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
	assert.Len(t, strings.Split(err.Error(), "; "), 20, "the first 20 faults")
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
	require.ErrorContains(t, err, `line 8: [2].c.eval[1]: unknown key "attempts": a rule with do: fail has`, "the first do in the merge is fail")

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
		"a billion laughs":                   {laughs, "its aliases stand for more than 50000 values"},
		"a billion merges":                   {merges, "its aliases stand for more than 50000 values"},
		"a long label":                       {"- ? " + long + "\n  : {eval: [" + strings.Repeat("{exp: 1},", 200) + "]}", "a key has 300000 bytes: write at most 1024"},
		"aliases of a list":                  {"- x: &x [" + strings.Repeat("1,", 6000) + "]\n" + strings.Repeat("- t: {x: *x}\n", 700), "its aliases stand for more than 50000 values"},
		"aliases of a long text":             {"- a: {x: &x " + long + "}\n- b: {eval: [" + strings.Repeat("{expr: *x, do: fail},", 20) + "]}", "its aliases stand for more than 50000 values"},
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
		if slices.ContainsFunc(tasks, func(task noetl.Task) bool { return task.Label == "" }) {
			return
		}
		require.NoError(t, pipelineOf(tasks, nothing).Validate(), "rules that are read without a fault are valid")
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

func TestAPlaybookRuns(t *testing.T) {
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
func TestAttemptsThatAreComputed(t *testing.T) {
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
		"0": {1, `rule 0: attempts: {{ workload.retries }}: text "0" is not a number of attempts`},
		0:   {1, "rule 0: attempts: {{ workload.retries }}: 0 is not a number of attempts"},
		"x": {1, `rule 0: attempts: {{ workload.retries }}: text "x" is not a number of attempts`},
		1.5: {1, `rule 0: attempts: {{ workload.retries }}: 1.5 is not a number of attempts`},
		nil: {1, `rule 0: attempts: {{ workload.retries }}: none is not a number of attempts`},
	} {
		runs := 0
		p := one(rules, func() retryflow.Outcome { runs++; return retryflow.Outcome{Err: errors.New("slow down")} })
		err := p.Run(t.Context(), retryflow.State{"workload": map[string]any{"retries": attempts}})
		assert.ErrorContains(t, err, want.err, "%v", attempts)
		assert.Equal(t, want.runs, runs, "%v", attempts)
	}
}

// A rule that fails the task may set names first.
func TestARuleThatFailsMaySet(t *testing.T) {
	rules, state := rulesOf(t, `eval: [{else: {do: fail, set_ctx: {page: "{{ outcome.http.status }}"}}}]`), retryflow.State{}
	assert.ErrorContains(t, one(rules, about).Run(t.Context(), state), "it failed")
	assert.Equal(t, retryflow.State{"ctx": map[string]any{"page": 503}}, state)
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
	assert.NoError(t, err, "rules that an alias stands for are read")
	p, err = noetl.ParsePlaybook("p.yaml", nil, nil)
	assert.NoError(t, err)
	assert.Equal(t, noetl.Playbook{}, p)
	tasks, err := noetl.ParseTasks([]byte("tool: {kind: http}"), nil)
	assert.NoError(t, err)
	assert.Equal(t, []noetl.Task{{Label: "task_1", Config: map[string]any{"kind": "http"}}}, tasks)
}

// What occurs in real playbooks loads, and its conditions can be evaluated.
func TestWhatOccursInPlaybooks(t *testing.T) {
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
	assert.Equal(t, []retryflow.Directive{"retry", "fail", "continue"}, do(p.Steps[1].Tasks[1]), "the old mapping")
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
	for yaml, want := range map[string]map[error]bool{ // the value says whether the task fails after this error
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
