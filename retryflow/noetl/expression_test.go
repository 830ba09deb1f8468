package noetl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl"
)

// rulesOf returns the rules of one task.
func rulesOf(t *testing.T, yaml string) retryflow.Rules {
	t.Helper()
	rules, err := noetl.ParseRules([]byte(yaml), nil)
	require.NoError(t, err)
	return rules
}

// condition returns the When of an expression.
func condition(t *testing.T, expr string) func(retryflow.Outcome) (bool, error) {
	t.Helper()
	rules, err := noetl.ParseRules(fmt.Appendf(nil, "eval: [{expr: %q, do: break}]", expr), nil)
	require.NoError(t, err, expr)
	return rules[0].When
}

// about is what the conditions of the tests are about.
func about() retryflow.Outcome {
	o := outcome(map[string]any{
		"status": "error",
		"result": map[string]any{"done": true, "items": []any{1, 2.5, "x"}, "none": nil, "empty": []any{}, "count": 3, "ratio": 0.5, "nan": math.NaN(), "name": "Ann"},
		"http":   map[string]any{"status": float64(503), "headers": map[string]any{"Retry-After": "7", "X": nil}},
		"odd":    map[string]any{"keys": map[int]string{1: "a"}, "errors": []any{[]any{errors.New("odd one")}}},
		"pg":     map[string]any{"code": "40P01"},
		"error":  map[string]any{"message": "read Timeout", "retryable": true},
	})
	o.Attempt, o.Took = 2, 1500*time.Millisecond
	o.State = retryflow.State{"iter": map[string]any{"page": 4}, "workload": map[string]any{"size": 50}, "outcome": "not this"}
	return o
}

func TestConditions(t *testing.T) {
	for expr, want := range map[string]bool{
		`true`: true, `false`: false, `True`: true, `none`: false, `None`: false, `0`: false, `1`: true, `0.0`: false, `''`: false, `'false'`: true, `[]`: false, `[0]`: true, `[[]]`: true,
		`outcome.status == 'error'`:                                            true,
		`outcome.status != 'error'`:                                            false,
		`not outcome.status == 'success'`:                                      true,
		`outcome.status is eq 'error'`:                                         true,
		`outcome.http.status == 503`:                                           true,
		`outcome.http.status in [429, 503]`:                                    true,
		`outcome.http.status in (429, 503)`:                                    true,
		`outcome.http.status not in [429, 503]`:                                false,
		`outcome.http.status in range(500, 600)`:                               true,
		`outcome.http.status in range(500)`:                                    false,
		`outcome.http.status >= 500`:                                           true,
		`outcome.http.status > 503`:                                            false,
		`outcome.http.status < 503.5`:                                          true,
		`outcome.http.status <= 502`:                                           false,
		`500 <= outcome.http.status and outcome.http.status < 600`:             true,
		`outcome.pg.code in ['40001','40P01']`:                                 true,
		`outcome.pg['code'] == '40P01'`:                                        true,
		`'a' < 'b'`:                                                            true,
		`'timeout' in (outcome.error.message|lower)`:                           true,
		`'timeout' in outcome.error.message.lower()`:                           true,
		`'timeout' in outcome.error.message`:                                   false,
		`outcome.error.retryable`:                                              true,
		`outcome.http.headers['retry-after'] == '7'`:                           true,
		`outcome.http.headers['retry-after'] | int > 5`:                        true,
		`outcome.http.headers.get('nosuch', 9) == 9`:                           true,
		`'retry-after' in outcome.http.headers`:                                true,
		`'Retry-After' in outcome.http.headers`:                                false,
		`outcome.http.headers['x'] is none`:                                    true,
		`outcome.nosuch is defined`:                                            false,
		`outcome.nosuch is undefined`:                                          true,
		`outcome.nosuch.deeper is defined`:                                     false,
		`outcome.http is defined and outcome.http.status > 1`:                  true,
		`outcome.nosuch | default(false)`:                                      false,
		`outcome.nosuch.deeper | default(7) == 7`:                              true,
		`outcome.result.done`:                                                  true,
		`outcome.result.none`:                                                  false,
		`outcome.result.none == none`:                                          true,
		`outcome.result.empty`:                                                 false,
		`outcome.result['items'] | length == 3`:                                true,
		`outcome.result['items'][1] == 2.5`:                                    true,
		`'x' in outcome.result['items']`:                                       true,
		`outcome.result.count + 1 == 4`:                                        true,
		`outcome.result.count - 1 == 2`:                                        true,
		`outcome.result.count * outcome.result.ratio == 1.5`:                   true,
		`outcome.result.count / 2 == 1.5`:                                      true,
		`outcome.result.count // 2 == 1`:                                       true,
		`-7 // 2 == -4`:                                                        true,
		`-7 % 3 == 2`:                                                          true,
		`outcome.result.count % 3`:                                             false,
		`2 ** outcome.result.count == 8`:                                       true,
		`outcome.result.name + '!' == 'Ann!'`:                                  true,
		`outcome.result.name ~ 1 == 'Ann1'`:                                    true,
		`-outcome.result.count < 0`:                                            true,
		`outcome.meta.attempt == 2`:                                            true,
		`outcome.meta.duration_ms == 1500`:                                     true,
		`iter.page == 4`:                                                       true,
		`iter.page < workload.size`:                                            true,
		`outcome is mapping`:                                                   true,
		`rand() < 1`:                                                           true,
		`rand() >= 0`:                                                          true,
		`true if outcome.result.done else false`:                               true,
		`outcome.nosuch if false else 1`:                                       true,
		`outcome.status == 'success' and outcome.nosuch.x`:                     false,
		`outcome.status == 'error' or outcome.nosuch.x`:                        true,
		`[1, 2] == [1, 2]`:                                                     true,
		`{'a': 1}['a'] == 1`:                                                   true,
		`'{%' in 'a{%b'`:                                                       true,
		`9223372036854775807 + 1 > 0`:                                          true,
		`9223372036854775807 * 9223372036854775807 > 1000`:                     true,
		`outcome.result.nan < 1`:                                               false,
		`outcome.result.nan >= 1`:                                              false,
		`'b,a' | default(1, boolean=1 > 2) == 'b,a'`:                           true,
		`'a' in outcome.result.get('nosuch', ['a', 'b'])`:                      true,
		`[outcome.result.nan, [1], {'a': none}] | length == 3`:                 true,
		`6 is divisibleby 3`:                                                   true,
		`7 is divisibleby 3`:                                                   false,
		`'a' is lt 'b'`:                                                        true,
		`2 is gt 1.5`:                                                          true,
		`2 is le 1`:                                                            false,
		`2 is ge 2`:                                                            true,
		`2 is in [1, 2]`:                                                       true,
		`2 is not in [1, 2]`:                                                   false,
		`'b' is in 'abc'`:                                                      true,
		`[1, 7] | select('gt', 5) | list == [7]`:                               true,
		`[1, 7] | reject('gt', 5) | list == [1]`:                               true,
		`[{'a': 1}, {'a': 7}] | selectattr('a', 'gt', 5) | list | length == 1`: true,
		`[{'a': 1}, {'a': 7}] | rejectattr('a') | list`:                        false,
		`['1', '2'] | map('int') | sum == 3`:                                   true,
		`outcome.odd.keys`:                                                     true,
		`'}}' == '}}'`:                                                         true,
	} {
		got, err := condition(t, "{{ "+expr+" }}")(about())
		assert.NoError(t, err, expr)
		assert.Equal(t, want, got, expr)
	}
}

func TestConditionsThatCannotBeEvaluated(t *testing.T) {
	for expr, want := range map[string]string{
		`nosuch`:                                      `"nosuch"`,
		`outcome.nosuch`:                              `attribute 'nosuch' not found`,
		`not outcome.nosuch`:                          `attribute 'nosuch' not found`,
		`outcome.nosuch == 1`:                         `attribute 'nosuch' not found`,
		`outcome.nosuch in [1]`:                       `attribute 'nosuch' not found`,
		`outcome.nosuch not in [1]`:                   `attribute 'nosuch' not found`,
		`1 in outcome.nosuch`:                         `attribute 'nosuch' not found`,
		`outcome.nosuch is escaped`:                   `attribute 'nosuch' not found`,
		`1 | default(2, boolean=[outcome.nosuch])`:    `attribute 'nosuch' not found`,
		`1 | default([outcome.nosuch])`:               `attribute 'nosuch' not found`,
		`{'a': [outcome.nosuch] == 1}`:                `attribute 'nosuch' not found`,
		`outcome.pg.code.split(sep=[outcome.nosuch])`: `attribute 'nosuch' not found`,
		`outcome[[outcome.nosuch]]`:                   `does not evaluate to string or integer`,
		`[1, 2][[outcome.nosuch]:]`:                   `nosuch`,
		`-[outcome.nosuch]`:                           `attribute 'nosuch' not found`,
		`not [outcome.nosuch]`:                        `attribute 'nosuch' not found`,
		`[outcome.nosuch][0]`:                         `attribute 'nosuch' not found`,
		`[outcome.nosuch].a`:                          `attribute 'nosuch' not found`,
		`[outcome.nosuch] | length`:                   `attribute 'nosuch' not found`,
		`[{1: 2}]`:                                    `can not cast key 1 to string`,
		`1 in [outcome.nosuch]`:                       `attribute 'nosuch' not found`,
		`1 in (2, outcome.nosuch)`:                    `attribute 'nosuch' not found`,
		`1 in [[outcome.nosuch]]`:                     `attribute 'nosuch' not found`,
		`{'a': [outcome.nosuch]}`:                     `attribute 'nosuch' not found`,
		`outcome.nosuch is number`:                    `attribute 'nosuch' not found`,
		`outcome.nosuch is none`:                      `attribute 'nosuch' not found`,
		`outcome.nosuch | lower`:                      `attribute 'nosuch' not found`,
		`range(outcome.nosuch)`:                       `attribute 'nosuch' not found`,
		`'a' if outcome.nosuch else 'b'`:              `attribute 'nosuch' not found`,
		`'a' if false`:                                `there is no else`,
		`outcome.result.none.x`:                       `None`,
		`outcome.result.none >= 5`:                    `none cannot be compared with 5`,
		`outcome.result.none + 1`:                     `none and 1: cannot add them`,
		`outcome.http.headers['retry-after'] > 5`:     `text "7" cannot be compared with 5`,
		`'503' >= 500`:                                `text "503" cannot be compared with 500`,
		`outcome.result['items'] > 1`:                 `a list cannot be compared with 1`,
		`outcome.result > 1`:                          `a mapping cannot be compared with 1`,
		`500 <= outcome.http.status < 600`:            `True cannot be compared with 600`,
		`'a' + 1`:                                     `text "a" and 1: cannot add them`,
		`'a' * 1000000000000`:                         `text "a" and 1000000000000: cannot multiply them`,
		`1 % 0`:                                       `division by zero`,
		`1 // 0`:                                      `division by zero`,
		`1 / 0.0`:                                     `division by zero`,
		`'a' / 2`:                                     `text "a" cannot be divided by 2`,
		`-'a'`:                                        `Negative sign`,
		`rand`:                                        `it is a function: call it`,
		`rand(1)`:                                     `rand`,
		`range()`:                                     `range(stop)`,
		`range(1000000000)`:                           `more than 100000 numbers`,
		`range(-9223372036854775807, 9223372036854775807)`: `more than 100000 numbers`,
		`lipsum()`:        `lipsum`,
		`[1, 2] | random`: `use rand()`,
		`[1] | map(outcome.result.name) | list | length > 0`:           `there is no filter "Ann"`,
		`[1] | map('float') | map('int', nosuch=outcome.nosuch)`:       `attribute 'nosuch' not found`,
		`[1] | map('slice') | list`:                                    `slice`,
		`[1] | map('slice') | list | length > 0`:                       `slice`,
		`[1] | select(outcome.result.name) | list`:                     `there is no test "Ann"`,
		`[1] | reject(outcome.result.name) | list`:                     `there is no test "Ann"`,
		`['a'] | select('lt', 5) | list`:                               `text "a" cannot be compared with 5`,
		`['a'] | reject('lt', 5) | list`:                               `text "a" cannot be compared with 5`,
		`[{'a': 'b'}] | selectattr('a', 'gt', 5) | list`:               `text "b" cannot be compared with 5`,
		`[{'a': 'b'}] | rejectattr('a', 'gt', 5) | list | length == 0`: `text "b" cannot be compared with 5`,
		`outcome.odd.errors`:                                           `odd one`,
		`1 in none`:                                                    `1 cannot be in none`,
		`1 not in none`:                                                `1 cannot be in none`,
		`1 in 5`:                                                       `1 cannot be in 5`,
		`1 in true`:                                                    `1 cannot be in True`,
		`1 in 'a1'`:                                                    `1 cannot be in text "a1"`,
		`1 is in 'a1'`:                                                 `1 cannot be in text "a1"`,
		`1 is in 7`:                                                    `1 cannot be in 7`,
		`'a' is divisibleby 2`:                                         `text "a" cannot be divided by 2`,
		`4 is divisibleby 0`:                                           `division by zero`,
		`4 is divisibleby`:                                             `write one`,
		`'a' is lt 1`:                                                  `text "a" cannot be compared with 1`,
		`'a' is le 1`:                                                  `text "a" cannot be compared with 1`,
		`none is gt 1`:                                                 `none cannot be compared with 1`,
		`none is ge 1`:                                                 `none cannot be compared with 1`,
		`none is lessthan 1`:                                           `none cannot be compared with 1`,
		`none is greaterthan 1`:                                        `none cannot be compared with 1`,
		`outcome.pg.code.nosuch()`:                                     `nosuch`,
		`self`:                                                         `"self"`,
		`1 is divisibleby(outcome.nosuch)`:                             `attribute 'nosuch' not found`,
	} {
		source := "{{ " + expr + " }}"
		got, err := condition(t, source)(about())
		assert.False(t, got, expr)
		require.ErrorContains(t, err, want, expr)
		assert.ErrorContains(t, err, source+": ", "the expression is named")
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestExpressionsThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		``:                                       `expr: it is empty: write one {{ … }}`,
		`outcome.status`:                         `write exactly one {{ … }}`,
		`{{ 1 }}{{ 2 }}`:                         `write exactly one {{ … }}`,
		`{{ 1 }} {{ 2 }}`:                        `write exactly one {{ … }}`,
		`a {{ 1 }}`:                              `write exactly one {{ … }}`,
		`{{ 1 }} a`:                              `write exactly one {{ … }}`,
		`{{ }}`:                                  `expr: `,
		`{{`:                                     `expr: `,
		`}}`:                                     `write exactly one {{ … }}`,
		`{{ 1`:                                   `expr: `,
		`{{ 'a }}`:                               `expr: `,
		`{{ 1 + }}`:                              `expr: `,
		`{{ (1 }}`:                               `expr: `,
		`{{ 1e999 }}`:                            `expr: `,
		`{{ 99999999999999999999 }}`:             `expr: `,
		`{{ outcome.status | nosuchfilter }}`:    `there is no filter "nosuchfilter"`,
		`{{ outcome.status is nosuchtest }}`:     `there is no test "nosuchtest"`,
		`{{ outcome.status is not nosuchtest }}`: `there is no test "nosuchtest"`,
		`{{ not ([1] | nosuchfilter) == 1 }}`:    `there is no filter "nosuchfilter"`,
		`{{ 1 if 1 is nosuchtest else 2 }}`:      `there is no test "nosuchtest"`,
		`{{ outcome.result.l|map('nosuch')|list }}`:             `there is no filter "nosuch"`,
		`{{ outcome.result.l|map('nosuch')|list|length > 0 }}`:  `there is no filter "nosuch"`,
		`{{ outcome.result.l|select('nosuch')|list }}`:          `there is no test "nosuch"`,
		`{{ outcome.result.l|reject('nosuch')|list }}`:          `there is no test "nosuch"`,
		`{{ outcome.result.l|selectattr('a', 'nosuch')|list }}`: `there is no test "nosuch"`,
		`{{ outcome.result.l|rejectattr('a', 'nosuch')|list }}`: `there is no test "nosuch"`,
		`{# 1 #}`:                              `no statement and no comment`,
		`{# 1 #}{{ 1 }}`:                       `no statement and no comment`,
		`{% if true %}{{ 1 }}{% endif %}`:      `statements ({% … %}) are not allowed: write {{ … }}`,
		`{{ 1 }}{% include '/etc/hostname' %}`: `statements ({% … %}) are not allowed`,
		`{% import '/etc/hostname' as x %}`:    `statements ({% … %}) are not allowed`,
		`{% extends '/etc/hostname' %}`:        `statements ({% … %}) are not allowed`,
		`{% raw %}{{ 1 }}{% endraw %}`:         ``,
		`{% set x = 1 %}`:                      `statements ({% … %}) are not allowed`,
		`{{ ` + strings.Repeat("(", 9000):      `write at most 8192`,
		`{{ ` + strings.Repeat("(", 8000):      `expr: `,
		`{{ ` + strings.Repeat("[", 8000):      `expr: `,
		`{{ ` + strings.Repeat("not ", 2000):   `expr: `,
		`{{ ` + strings.Repeat("-", 8000):      `expr: `,
	} {
		_, err := noetl.ParseRules(fmt.Appendf(nil, "eval:\n- expr: %q\n  do: break\n", text), nil)
		require.ErrorContains(t, err, want, text)
		assert.ErrorContains(t, err, "noetl: line 2: expr: ", text)
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestWhitespaceAroundAnExpression(t *testing.T) {
	rules := rulesOf(t, "eval:\n- expr: >\n    {{ outcome.status ==\n    'error' }}\n  do: break\n- expr: |\n    {{- true -}}\n  do: break\n")
	for _, rule := range rules {
		holds, err := rule.When(about())
		assert.NoError(t, err)
		assert.True(t, holds)
	}
}

func TestNoFileIsRead(t *testing.T) {
	for _, yaml := range []string{
		`eval: [{expr: "{% include '/etc/hostname' %}", do: break}]`,
		`eval: [{else: {do: retry, delay: "{% include '/etc/hostname' %}"}}]`,
		`eval: [{else: {do: continue, set_iter: {a: "{% include '/etc/hostname' %}"}}}]`,
		`eval: [{else: {do: continue, set_iter: {a: [{b: "x{% include '/etc/hostname' %}"}]}}}]`,
		`retry: {max_attempts: 2, retry_when: "{% include '/etc/hostname' %}"}`,
	} {
		_, err := noetl.ParseRules([]byte(yaml), nil)
		assert.ErrorContains(t, err, "statements ({% … %}) are not allowed", yaml)
	}
}

func TestHeadersOfEachKind(t *testing.T) {
	for _, headers := range []any{
		map[string]any{"RETRY-AFTER": "7"},
		map[string]string{"Retry-After": "7"},
		map[string][]string{"Retry-after": {"7"}},
		http.Header{"Retry-After": {"7"}},
		textproto.MIMEHeader{"Retry-After": {"7"}},
	} {
		o := retryflow.Outcome{Data: map[string]any{"http": map[string]any{"headers": headers}}}
		holds, err := condition(t, "{{ outcome.http.headers['retry-after'] == '7' }}")(o)
		assert.NoError(t, err)
		assert.True(t, holds, "%T", headers)
	}
	o := retryflow.Outcome{Data: map[string]any{"http": map[string]any{"headers": http.Header{"Vary": {"a", "b"}}}}}
	holds, _ := condition(t, "{{ outcome.http.headers.vary == 'a, b' }}")(o)
	assert.True(t, holds)
	for _, odd := range []any{nil, "text", 1, map[string]any{"headers": nil}, map[string]any{"headers": 1}} {
		holds, err := condition(t, "{{ outcome.http == none or true }}")(retryflow.Outcome{Data: map[string]any{"http": odd}})
		assert.NoError(t, err)
		assert.True(t, holds)
	}
	two := map[string]any{"A": "1", "a": "2"}
	for range 20 {
		holds, _ := condition(t, "{{ outcome.http.headers.a == '2' }}")(retryflow.Outcome{Data: map[string]any{"http": map[string]any{"headers": two}}})
		assert.True(t, holds, "two names that become one: always the same")
	}
}

func TestOutcomeIsLeftAsItIs(t *testing.T) {
	headers := map[string]any{"Retry-After": "7"}
	details := map[string]any{"code": 1}
	o := retryflow.Outcome{Err: errors.New("no"), Data: map[string]any{"http": map[string]any{"headers": headers}, "error": details, "meta": "odd"}}
	holds, err := condition(t, "{{ outcome.http.headers['retry-after'] == '7' and outcome.error.message == 'no' and outcome.error.code == 1 and outcome.meta.attempt == 0 }}")(o)
	assert.NoError(t, err)
	assert.True(t, holds)
	assert.Equal(t, map[string]any{"http": map[string]any{"headers": map[string]any{"Retry-After": "7"}}, "error": map[string]any{"code": 1}, "meta": "odd"}, o.Data)
}

func TestWhatDataSaysBesideThePipeline(t *testing.T) {
	for name, row := range map[string]struct {
		o    retryflow.Outcome
		expr string
	}{
		"meta is the pipeline's":       {retryflow.Outcome{Attempt: 2, Took: time.Second, Data: map[string]any{"meta": map[string]any{"attempt": 9, "duration_ms": 9, "host": "a"}}}, "outcome.meta.attempt == 2 and outcome.meta.duration_ms == 1000 and outcome.meta.host == 'a'"},
		"meta that is no mapping":      {retryflow.Outcome{Attempt: 2, Data: map[string]any{"meta": "odd"}}, "outcome.meta.attempt == 2"},
		"text is the message":          {retryflow.Outcome{Err: errors.New("no"), Data: map[string]any{"error": "disk full"}}, "outcome.error.message == 'disk full'"},
		"text is the message, no Err":  {retryflow.Outcome{Data: map[string]any{"error": "disk full"}}, "outcome.error.message == 'disk full'"},
		"a mapping has its message":    {retryflow.Outcome{Err: errors.New("no"), Data: map[string]any{"error": map[string]any{"message": "yes"}}}, "outcome.error.message == 'yes'"},
		"a mapping without a message":  {retryflow.Outcome{Err: errors.New("no"), Data: map[string]any{"error": map[string]any{"code": 1}}}, "outcome.error.message == 'no' and outcome.error.code == 1"},
		"status and result are theirs": {retryflow.Outcome{Result: 1, Data: map[string]any{"status": "odd", "result": 2}}, "outcome.status == 'success' and outcome.result == 1"},
	} {
		holds, err := condition(t, "{{ "+row.expr+" }}")(row.o)
		assert.NoError(t, err, name)
		assert.True(t, holds, name)
	}
}

func TestFaultsOfExpressionsOnManyLinesAreOneLine(t *testing.T) {
	rules := rulesOf(t, "eval:\n- expr: |\n    {{ outcome.status ==\n       nosuch }}\n  do: break\n")
	_, err := rules[0].When(about())
	assert.ErrorContains(t, err, "{{ outcome.status == nosuch }}: ")
	assert.NotContains(t, err.Error(), "\n")
}

func TestTheTextOfSetIterKeepsItsSpaces(t *testing.T) {
	rules := rulesOf(t, `eval: [{else: {do: break, set_iter: {a: "  {{ 1 }} of {{ 2 }} ", b: " {{ 1 }}", c: "{{ 1 }}"}}}]`)
	state := retryflow.State{}
	require.NoError(t, rules[0].Set(state, retryflow.Outcome{State: state}))
	assert.Equal(t, map[string]any{"a": "  1 of 2 ", "b": " 1", "c": 1}, state["iter"])
}

// MaxDelay may be set on rules that were read, and bounds what a header says.
func TestMaxDelayBoundsADelayThatIsComputed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := rulesOf(t, `eval: [{else: {do: retry, attempts: 2, delay: "{{ 86400 }}"}}]`)
		rules[0].Policy.MaxDelay = time.Minute
		began := time.Now()
		p := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "t", Rules: rules, Run: func(context.Context, retryflow.State) retryflow.Outcome { return about() }}}}
		assert.Error(t, p.Run(t.Context(), nil))
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

func TestTheWaitForAJumpHasNoNameOnTheWire(t *testing.T) {
	e := retryflow.Event{Event: retry.Event{Kind: retry.RetryScheduled}, Directive: retryflow.Jump}
	assert.Nil(t, noetl.Wire(e))
	e.Directive = retryflow.Retry
	assert.Equal(t, "task.retry_scheduled", noetl.Wire(e)["event"])
}

// bomb panics when an expression calls it.
type bomb struct{}

func (bomb) Go() string { panic("boom") }

func TestPanicsAreFaults(t *testing.T) {
	o := retryflow.Outcome{Result: bomb{}, Err: errors.New("no")}
	for _, yaml := range []string{
		`eval: [{expr: "{{ outcome.result.Go() }}", do: break}]`,
		`eval: [{else: {do: retry, delay: "{{ outcome.result.Go() }}"}}]`,
		`eval: [{else: {do: continue, set_iter: {a: "{{ outcome.result.Go() }}"}}}]`,
		`eval: [{else: {do: continue, set_iter: {a: "a {{ outcome.result.Go() }}"}}}]`,
	} {
		rules := rulesOf(t, yaml)
		p := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "t", Rules: rules, Run: func(context.Context, retryflow.State) retryflow.Outcome { return o }}}}
		assert.ErrorContains(t, p.Run(t.Context(), nil), "the template engine panicked: boom", yaml)
	}
}

func TestDelaysOfEachKind(t *testing.T) {
	for delay, want := range map[string]time.Duration{
		`0`: 0, `2`: 2 * time.Second, `2.5`: 2500 * time.Millisecond, `"0.5"`: time.Second / 2, `" 3 "`: 3 * time.Second, `1e-3`: time.Millisecond, `3000000000`: 3000000000 * time.Second,
		`"{{ 2 }}"`:   2 * time.Second,
		`"{{ 2.5 }}"`: 2500 * time.Millisecond,
		`"{{ '4' }}"`: 4 * time.Second,
		`"{{ 0 }}"`:   0,
		`"{{ outcome.http.headers['retry-after'] }}"`:                                   7 * time.Second,
		`"{{ outcome.http.headers['retry-after'] | int + 1 }}"`:                         8 * time.Second,
		`"{{ [outcome.http.headers['retry-after'] | default(2) | float, 5.0] | min }}"`: 5 * time.Second,
		`"{{ iter.page }}"`:                 4 * time.Second,
		`"{{ 0.1 if iter.page else 9 }}"`:   100 * time.Millisecond,
		`"{{ outcome.nosuch|default(3) }}"`: 3 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			rules := rulesOf(t, "eval: [{else: {do: retry, attempts: 2, delay: "+delay+"}}]")
			began := time.Now()
			p := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "t", Rules: rules, Run: func(context.Context, retryflow.State) retryflow.Outcome { return about() }}}}
			_ = p.Run(t.Context(), about().State)
			assert.Equal(t, want, time.Since(began), delay)
		})
	}
}

func TestTheLongestDelay(t *testing.T) {
	rules := rulesOf(t, `eval: [{else: {do: retry, delay: 9223372036}}]`)
	assert.Equal(t, retry.Fixed(9223372036*time.Second), rules[0].Policy.Backoff)
}

func TestDelaysThatAreNone(t *testing.T) {
	for delay, want := range map[string]string{
		`.nan`: "line 1: delay is .nan: write seconds", `.inf`: "delay is .inf", `-1`: "delay is -1: write seconds", `"-1"`: "delay is the text", `-.inf`: "-.inf", `1e300`: "delay is 1e300", `9223372037`: "9223372037",
		`99999999999999999999999`: "write seconds", `"1s"`: `the text "1s"`, `"nan"`: `the text "nan"`, `"0x1p4"`: "0x1p4", `"1_0"`: "1_0", `true`: "delay is true", `[1]`: "a list", `{a: 1}`: "a mapping", `""`: `the text ""`, `null`: "delay is empty", `"rand()"`: "an expression in quotes",
		`"{{ 1 }}s"`: "write exactly one {{ … }}", `"{% x %}"`: "statements", `"{ 1 }"`: "write exactly one",
	} {
		_, err := noetl.ParseRules([]byte("eval: [{else: {do: retry, delay: "+delay+"}}]"), nil)
		require.ErrorContains(t, err, want, delay)
		assert.ErrorContains(t, err, "noetl: line 1: delay", delay)
	}
	for expr, want := range map[string]string{
		`'soon'`: `text "soon" is no number of seconds`, `'nan'`: `"nan"`, `'inf'`: `"inf"`, `''`: `""`, `none`: "none is no number", `true`: "True is no number", `[1]`: "a list is no number", `{}`: "a mapping is no number",
		`-1`: "-1 is no number of seconds from 0 to 9223372036", `1e300`: "1e+300 is no number of seconds", `10.0 ** 400`: "+Inf is no number", `outcome.nosuch`: "attribute 'nosuch' not found",
		`'Fri, 20 Nov 2026 10:00:00 GMT'`: "is no number of seconds", `9223372037`: "9.223372037e+09 is no number",
	} {
		for do, more := range map[string]string{"retry": "", "jump": ", to: t"} {
			rules := rulesOf(t, fmt.Sprintf("eval: [{else: {do: %s, delay: %q%s}}]", do, "{{ "+expr+" }}", more))
			runs := 0
			p := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "t", Rules: rules, Run: func(context.Context, retryflow.State) retryflow.Outcome { runs++; return about() }}}}
			err := p.Run(t.Context(), about().State)
			require.ErrorContains(t, err, want, expr)
			assert.ErrorContains(t, err, `task "t"`)
			assert.ErrorContains(t, err, "delay: {{ "+expr+" }}")
			assert.Equal(t, 1, runs)
		}
	}
}

func TestRandDrawsFromTheSource(t *testing.T) {
	const yaml = `eval: [{else: {do: retry, attempts: 5, delay: "{{ rand() }}"}}]`
	draws := func(seed uint64) (delays []time.Duration) {
		rules, err := noetl.ParseRules([]byte(yaml), rand.NewPCG(seed, seed))
		require.NoError(t, err)
		for range 100 {
			d, err := rules[0].Delay(about())
			require.NoError(t, err)
			require.True(t, 0 <= d && d < time.Second)
			delays = append(delays, d)
		}
		return delays
	}
	assert.Equal(t, draws(1), draws(1))
	assert.NotEqual(t, draws(1), draws(2))
	for source, want := range map[constant]time.Duration{0: 0, 1 << 63: time.Second / 2, 1<<64 - 1: time.Second} {
		rules, err := noetl.ParseRules([]byte(yaml), source)
		require.NoError(t, err)
		d, err := rules[0].Delay(about())
		require.NoError(t, err)
		assert.Equal(t, want, d, "rounded to the nanosecond")
	}
	rules := rulesOf(t, yaml)
	first, _ := rules[0].Delay(about())
	second, _ := rules[0].Delay(about())
	assert.NotEqual(t, first, second, "without a source")
}

type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }

func TestSetIter(t *testing.T) {
	rules := rulesOf(t, `
eval:
  - else:
      do: continue
      set_iter:
        page: "{{ iter.page + 1 }}"
        before: "{{ iter.page }}"
        url: "/pages/{{ iter.page }}?size={{ workload.size }}"
        plain: text
        number: 7
        list: ["{{ outcome.result.count }}", {deep: "{{ outcome.result.name | upper }}", count: "{{ outcome.result.count }}"}, null]
        whole: "{{ outcome.result['items'] }}"
        braces: "{ not one }"
`)
	before := map[string]any{"page": 4, "kept": true}
	o := about()
	state := retryflow.State{"iter": before, "workload": o.State["workload"]}
	o.State = state
	for _, count := range []int{3, 4} { // what is read once is evaluated any number of times
		state["iter"] = before
		o.Result.(map[string]any)["count"] = count
		require.NoError(t, rules[0].Set(state, o))
		assert.Equal(t, map[string]any{
			"page": 5, "before": 4, "kept": true, "url": "/pages/4?size=50", "plain": "text", "number": 7,
			"list": []any{count, map[string]any{"deep": "ANN", "count": count}, nil}, "whole": []any{1, 2.5, "x"}, "braces": "{ not one }",
		}, state["iter"])
	}
	assert.Equal(t, map[string]any{"page": 4, "kept": true}, before)

	state = retryflow.State{}
	rules = rulesOf(t, `eval: [{else: {do: break, set_iter: {a: 1}}}]`)
	require.NoError(t, rules[0].Set(state, retryflow.Outcome{State: state}))
	assert.Equal(t, retryflow.State{"iter": map[string]any{"a": 1}}, state)

	state = retryflow.State{"iter": 7}
	assert.EqualError(t, rules[0].Set(state, retryflow.Outcome{State: state}), "set_iter: iter in the state is int, no map[string]any")

	rules = rulesOf(t, `eval: [{else: {do: break, set_iter: {a: 1, b: "{{ nosuch }}"}}}]`)
	state = retryflow.State{}
	assert.ErrorContains(t, rules[0].Set(state, retryflow.Outcome{State: state}), "set_iter: b: {{ nosuch }}: ")
	assert.Empty(t, state, "all or nothing")

	for _, value := range []string{`[1, "{{ nosuch }}"]`, `{x: [{y: "{{ nosuch }}"}]}`} {
		rules = rulesOf(t, "eval: [{else: {do: break, set_iter: {deep: "+value+"}}}]")
		assert.ErrorContains(t, rules[0].Set(state, retryflow.Outcome{State: state}), "set_iter: deep: {{ nosuch }}: ")
		assert.Empty(t, state)
	}
}

func TestRulesAreSafeForConcurrentUse(t *testing.T) {
	rules := rulesOf(t, `
eval:
  - expr: "{{ outcome.http.status in [500, 503] and rand() >= 0 and iter.page < 3 }}"
    do: jump
    to: t
    delay: "{{ 0 * iter.page }}"
    set_iter: {page: "{{ iter.page + 1 }}"}
`)
	p := retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "t", Rules: rules, Run: func(context.Context, retryflow.State) retryflow.Outcome {
		return retryflow.Outcome{Data: map[string]any{"http": map[string]any{"status": 503}}}
	}}}}
	shared := map[string]any{"page": 0}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			state := retryflow.State{"iter": shared}
			assert.NoError(t, p.Run(context.Background(), state))
			assert.Equal(t, map[string]any{"page": 3}, state["iter"])
		})
	}
	wg.Wait()
	assert.Equal(t, map[string]any{"page": 0}, shared)
}
