package noetl_test

import (
	"context"
	"encoding/json"
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

// condition returns the When of a rule with this expression.
func condition(t *testing.T, expr string) func(retryflow.Outcome) (bool, error) {
	t.Helper()
	rules, err := noetl.ParseRules(fmt.Appendf(nil, "eval: [{expr: %q, do: break}]", expr), nil)
	require.NoError(t, err, expr)
	return rules[0].When
}

// about is the outcome that the conditions of the tests read.
func about() retryflow.Outcome {
	o := outcome(map[string]any{
		"status": "error",
		"result": map[string]any{"done": true, "items": []any{1, 2.5, "x"}, "none": nil, "empty": []any{}, "count": 3, "ratio": 0.5, "nan": math.NaN(), "name": "Ann"},
		"http":   map[string]any{"status": float64(503), "headers": map[string]any{"Retry-After": "7", "X": nil}},
		"odd":    map[string]any{"keys": map[int]string{1: "a"}, "errors": []any{[]any{errors.New("odd one")}}},
		"pg":     map[string]any{"code": "40P01"},
		"error":  map[string]any{"message": "read Timeout", "retryable": true},
	})
	o.Task, o.Attempt, o.Took = "fetch", 2, 1500*time.Millisecond
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
		`'../a b&c' | urlencode == '../a%20b%26c'`:                             true, // as in Jinja, for whole paths
		`{'q': '../x&y=1'} | urlencode == 'q=..%2Fx%26y%3D1'`:                  true,
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
		`outcome.http is defined and outcome.http.status > 1`:                  true,
		`outcome.nosuch | default(false)`:                                      false,
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
		`outcome.odd['keys']`:                                                  true,
		`outcome.nosuch is none`:                                               false,
		`[outcome.nosuch] | length == 1`:                                       true,
		`500 <= outcome.http.status < 600`:                                     true,
		`outcome.status == 'error' and 'timeout' in outcome.error.message | lower`: true,
		`_attempt == 2`:                            true,
		`_task == 'fetch'`:                         true,
		`outcome.nosuch is escaped`:                false,
		`1 | default(2, boolean=[outcome.nosuch])`: true,
		`1 | default([outcome.nosuch])`:            true,
		`{'a': [outcome.nosuch] == 1}`:             true,
		`not [outcome.nosuch]`:                     false,
		`[{1: 2}]`:                                 true,
		`1 in [[outcome.nosuch]]`:                  false,
		`{'a': [outcome.nosuch]}`:                  true,
		`outcome.nosuch is number`:                 false,
		`'a' if false`:                             false,
		`range(1000000000)`:                        true,
		`outcome.odd.errors`:                       true,
		`'}}' == '}}'`:                             true,
	} {
		got, err := condition(t, "{{ "+expr+" }}")(about())
		assert.NoError(t, err, expr)
		assert.Equal(t, want, got, expr)
	}
}

func TestConditionsThatCannotBeEvaluated(t *testing.T) {
	for expr, want := range map[string]string{
		`nosuch`:                                      `nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`outcome.nosuch`:                              `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`not outcome.nosuch`:                          `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`outcome.nosuch == 1`:                         `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`outcome.nosuch in [1]`:                       `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`outcome.nosuch not in [1]`:                   `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`1 in outcome.nosuch`:                         `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`outcome.pg.code.split(sep=[outcome.nosuch])`: `the argument sep is a list: write a text`,
		`outcome[[outcome.nosuch]]`:                   `outcome[…] is undefined: ask "is defined" first, or add "| default(…)"`,
		`[1, 2][[outcome.nosuch]:]`:                   `the bound a list of a slice is not a whole number`,
		`-[outcome.nosuch]`:                           `cannot put - before a list`,
		`[outcome.nosuch][0]`:                         `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`[outcome.nosuch].a`:                          `(…).a is undefined: ask "is defined" first, or add "| default(…)"`,
		`1 in [outcome.nosuch]`:                       `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`1 in (2, outcome.nosuch)`:                    `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`outcome.nosuch | lower`:                      `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`range(outcome.nosuch)`:                       `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`'a' if outcome.nosuch else 'b'`:              `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`outcome.result.none.x`:                       `outcome.result.none.x is undefined: ask "is defined" first, or add "| default(…)"`,
		`outcome.result.none >= 5`:                    `cannot order none and 5`,
		`outcome.result.none + 1`:                     `cannot add none and 1`,
		`outcome.http.headers['retry-after'] > 5`:     `cannot order text "7" and 5`,
		`'503' >= 500`:                                `cannot order text "503" and 500`,
		`outcome.result['items'] > 1`:                 `cannot order a list and 1`,
		`outcome.result > 1`:                          `cannot order a mapping and 1`,
		`'a' + 1`:                                     `cannot add text "a" and 1`,
		`'a' * 1000000000000`:                         `it makes values of more than 4194304 bytes`,
		`1 % 0`:                                       `division by zero`,
		`1 // 0`:                                      `division by zero`,
		`1 / 0.0`:                                     `division by zero`,
		`'a' / 2`:                                     `cannot divide text "a" and 2`,
		`-'a'`:                                        `cannot put - before text "a"`,
		`range(-9223372036854775807, 9223372036854775807)`:             `-9223372036854775807 cannot bound a range`,
		`['a'] | select('lt', 5) | list`:                               `cannot order text "a" and 5`,
		`['a'] | reject('lt', 5) | list`:                               `cannot order text "a" and 5`,
		`[{'a': 'b'}] | selectattr('a', 'gt', 5) | list`:               `cannot order text "b" and 5`,
		`[{'a': 'b'}] | rejectattr('a', 'gt', 5) | list | length == 0`: `cannot order text "b" and 5`,
		`1 in none`:                        `1 cannot be in none`,
		`1 not in none`:                    `1 cannot be in none`,
		`1 in 5`:                           `1 cannot be in 5`,
		`1 in true`:                        `1 cannot be in True`,
		`1 in 'a1'`:                        `1 cannot be in text "a1"`,
		`1 is in 'a1'`:                     `1 cannot be in text "a1"`,
		`1 is in 7`:                        `1 cannot be in 7`,
		`'a' is divisibleby 2`:             `formatting a text with % is not supported`,
		`4 is divisibleby 0`:               `division by zero`,
		`'a' is lt 1`:                      `cannot order text "a" and 1`,
		`'a' is le 1`:                      `cannot order text "a" and 1`,
		`none is gt 1`:                     `cannot order none and 1`,
		`none is ge 1`:                     `cannot order none and 1`,
		`none is lessthan 1`:               `cannot order none and 1`,
		`none is greaterthan 1`:            `cannot order none and 1`,
		`1 is divisibleby(outcome.nosuch)`: `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
	} {
		got, err := condition(t, "{{ "+expr+" }}")(about())
		assert.False(t, got, expr)
		assert.EqualError(t, err, "{{ "+expr+" }}: "+want)
	}
}

func TestExpressionsThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		`{{ rand }}`:            `rand is a function: call it`,
		`{{ rand(1) }}`:         `the function rand takes at most 0 arguments, got 1`,
		`{{ range() }}`:         `the function range needs its argument start`,
		`{{ lipsum() }}`:        `lipsum is not supported`,
		`{{ [1, 2] | random }}`: `the filter random does not draw from the Source of the policy: use rand()`,
		`{{ [1] | map(outcome.result.name) | list | length > 0 }}`:     `the filter map needs the name of a filter as a text`,
		`{{ [1] | map('float') | map('int', nosuch=outcome.nosuch) }}`: `the filter int has no argument "nosuch"`,
		`{{ [1] | map('slice') | list }}`:                              `the filter slice needs its argument slices`,
		`{{ [1] | map('slice') | list | length > 0 }}`:                 `the filter slice needs its argument slices`,
		`{{ [1] | select(outcome.result.name) | list }}`:               `the filter select needs the name of a test as a text`,
		`{{ [1] | reject(outcome.result.name) | list }}`:               `the filter reject needs the name of a test as a text`,
		`{{ 4 is divisibleby }}`:                                       `the test divisibleby needs its argument num`,
		`{{ outcome.pg.code.nosuch() }}`:                               `unknown method "nosuch"`,
		`{{ self }}`:                                                   `self is not supported`,
		``:                                                             `it is empty: write one {{ … }}`,
		`{{ 1 }}{{ 2 }}`:                                               `write exactly one {{ … }}`,
		`{{ 1 }} {{ 2 }}`:                                              `write exactly one {{ … }}`,
		`a {{ 1 }}`:                                                    `write exactly one {{ … }}`,
		`{{ 1 }} a`:                                                    `write exactly one {{ … }}`,
		`{{ }}`:                                                        `there is nothing between {{ and }}`,
		`{{`:                                                           `the }} is missing`,
		`}}`:                                                           `there is nothing between {{ and }}`,
		`{{ 1`:                                                         `the }} is missing`,
		`{{ 'a }}`:                                                     `a text has no closing '`,
		`{{ 1 + }}`:                                                    `unexpected the end of the expression`,
		`{{ (1 }}`:                                                     `expected ")", got "}"`,
		`{{ 1e999 }}`:                                                  `the number 1e999 is too large`,
		`{{ outcome.status | nosuchfilter }}`:                          `unknown filter "nosuchfilter"`,
		`{{ outcome.status is nosuchtest }}`:                           `unknown test "nosuchtest"`,
		`{{ outcome.status is not nosuchtest }}`:                       `unknown test "nosuchtest"`,
		`{{ not ([1] | nosuchfilter) == 1 }}`:                          `unknown filter "nosuchfilter"`,
		`{{ 1 if 1 is nosuchtest else 2 }}`:                            `unknown test "nosuchtest"`,
		`{{ outcome.result.l|map('nosuch')|list }}`:                    `unknown filter "nosuch"`,
		`{{ outcome.result.l|map('nosuch')|list|length > 0 }}`:  `unknown filter "nosuch"`,
		`{{ outcome.result.l|select('nosuch')|list }}`:          `unknown test "nosuch"`,
		`{{ outcome.result.l|reject('nosuch')|list }}`:          `unknown test "nosuch"`,
		`{{ outcome.result.l|selectattr('a', 'nosuch')|list }}`: `unknown test "nosuch"`,
		`{{ outcome.result.l|rejectattr('a', 'nosuch')|list }}`: `unknown test "nosuch"`,
		`{# 1 #}`:                                     `comments ({# … #}) are not allowed: write {{ … }}`,
		`{# 1 #}{{ 1 }}`:                              `comments ({# … #}) are not allowed: write {{ … }}`,
		`{% if true %}{{ 1 }}{% endif %}`:             `statements ({% … %}) are not allowed: write {{ … }}`,
		`{{ 1 }}{% include '/etc/hostname' %}`:        `statements ({% … %}) are not allowed: write {{ … }}`,
		`{% import '/etc/hostname' as x %}`:           `statements ({% … %}) are not allowed: write {{ … }}`,
		`{% extends '/etc/hostname' %}`:               `statements ({% … %}) are not allowed: write {{ … }}`,
		`{% raw %}{{ 1 }}{% endraw %}`:                `statements ({% … %}) are not allowed: write {{ … }}`,
		`{% set x = 1 %}`:                             `statements ({% … %}) are not allowed: write {{ … }}`,
		"{{ " + strings.Repeat("(", 9000):             "it has 9003 bytes: write at most 8192",
		"{{ " + strings.Repeat("(", 8000):             "brackets are nested more than 100 deep",
		"{{ " + strings.Repeat("[", 8000):             "brackets are nested more than 100 deep",
		"{{ " + strings.Repeat("not ", 2000) + "1 }}": "it is nested more than 100 deep",
		"{{ " + strings.Repeat("-", 8000) + "1 }}":    "it is nested more than 100 deep",
		"{{ outcome.result.items }}":                  "items is a method of mappings: write ['items'] for the key, or items() to call it",
		"{{ outcome.__class__ }}":                     "the attribute __class__ is not supported",
		"{{ outcome['__class__'] }}":                  "the attribute __class__ is not supported",
		"{{ outcome.status | safe }}":                 `unknown filter "safe"`,
		"{{ x is sameas 1 }}":                         "sameas can tell true, false and none alone: write ==",
		"{{ -1 ** iter.page }}":                       "Jinja misreads a negative number before **: write a positive one",
		"{{ range(*x) }}":                             "* in a call is not supported",
		"{{ (1).bit_length }}":                        "the attribute bit_length of a number is not supported",
	} {
		_, err := noetl.ParseRules(fmt.Appendf(nil, "eval:\n- expr: %q\n  do: break\n", text), nil)
		require.Error(t, err, text)
		assert.True(t, strings.HasPrefix(err.Error(), "noetl: line 2: eval[0]: expr: "), err)
		assert.True(t, strings.HasSuffix(err.Error(), want), "%v, want %s", err, want)
		assert.NotContains(t, err.Error(), "\n")
		assert.Less(t, len(err.Error()), 400)
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
		"meta is the pipeline's":                  {retryflow.Outcome{Attempt: 2, Took: time.Second, Data: map[string]any{"meta": map[string]any{"attempt": 9, "duration_ms": 9, "host": "a"}}}, "outcome.meta.attempt == 2 and outcome.meta.duration_ms == 1000 and outcome.meta.host == 'a'"},
		"meta that is not a mapping":              {retryflow.Outcome{Attempt: 2, Data: map[string]any{"meta": "odd"}}, "outcome.meta.attempt == 2"},
		"text is the message":                     {retryflow.Outcome{Err: errors.New("no"), Data: map[string]any{"error": "disk full"}}, "outcome.error.message == 'disk full'"},
		"text is the message, no Err":             {retryflow.Outcome{Data: map[string]any{"error": "disk full"}}, "outcome.error.message == 'disk full'"},
		"a mapping has its message":               {retryflow.Outcome{Err: errors.New("no"), Data: map[string]any{"error": map[string]any{"message": "yes"}}}, "outcome.error.message == 'yes'"},
		"a mapping without a message":             {retryflow.Outcome{Err: errors.New("no"), Data: map[string]any{"error": map[string]any{"code": 1}}}, "outcome.error.message == 'no' and outcome.error.code == 1"},
		"status and result come from the outcome": {retryflow.Outcome{Result: 1, Data: map[string]any{"status": "odd", "result": 2}}, "outcome.status == 'success' and outcome.result == 1"},
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

// You can set MaxDelay on rules that were parsed, and it bounds the wait from a
// header.
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

// A machine is a Go value that expressions may read, but not change.
type machine struct {
	Name   string
	Parts  []part
	secret string
	*engine
}

type part struct{ Weight float64 }

type engine struct{ Power int }

func (machine) Explode() string { panic("a method was called") }
func (machine) String() string  { panic("a method was called") }
func (*engine) Error() string   { panic("a method was called") }

func TestNoGoMethodAndNoUnexportedFieldCanBeReached(t *testing.T) {
	o := retryflow.Outcome{Result: machine{Name: "m1", Parts: []part{{1.5}}, secret: "s"}, Data: map[string]any{"pointer": &machine{Name: "m2", engine: &engine{}}, "error": &engine{7}, "func": func() {}}}
	for expr, want := range map[string]bool{
		`outcome.result.Name == 'm1'`:                                    true,
		`outcome.result['Name'] == 'm1'`:                                 true,
		`outcome.result.Parts[0].Weight == 1.5`:                          true,
		`outcome.pointer.Name == 'm2'`:                                   true,
		`outcome.result.secret is defined`:                               false,
		`outcome.result['secret'] is defined`:                            false,
		`outcome.result.engine is defined`:                               false,
		`outcome.pointer.Power == 0`:                                     true,
		`outcome.result.Power is defined`:                                false,
		`outcome.result.Explode is defined`:                              false,
		`outcome.result['Explode'] is defined`:                           false,
		`outcome.error.Error is defined`:                                 false,
		`outcome.func.Name is defined`:                                   false,
		`outcome.result.nosuch is defined`:                               false,
		`outcome.result`:                                                 true,
		`outcome.result is string`:                                       false,
		`outcome.result.Parts | map(attribute='Weight') | list == [1.5]`: true,
	} {
		got, err := condition(t, "{{ "+expr+" }}")(o)
		assert.NoError(t, err, expr)
		assert.Equal(t, want, got, expr)
	}
	for expr, want := range map[string]string{
		`outcome.result ~ ''`:      "a value of Go's type noetl_test.machine has no text: write one of its fields",
		`outcome.result | string`:  "a value of Go's type noetl_test.machine has no text: write one of its fields",
		`outcome.error | lower`:    "a value of Go's type noetl_test.engine has no text: write one of its fields",
		`outcome.result == 1`:      "cannot compare a value of Go's type noetl_test.machine and 1",
		`outcome.result in [1]`:    "cannot compare 1 and a value of Go's type noetl_test.machine",
		`outcome.result < 1`:       "cannot order a value of Go's type noetl_test.machine and 1",
		`outcome.result | list`:    "a value of Go's type noetl_test.machine has no members",
		`outcome.result | tojson`:  "a value of Go's type noetl_test.machine cannot be written as JSON",
		`outcome.result.lower()`:   "a value of Go's type noetl_test.machine has no method lower",
		`[outcome.result] | join`:  "a value of Go's type noetl_test.machine has no text: write one of its fields",
		`outcome.func | urlencode`: "a value of Go's type func() has no text: write one of its fields",
	} {
		_, err := condition(t, "{{ "+expr+" }}")(o)
		assert.EqualError(t, err, "{{ "+expr+" }}: "+want)
	}
	for _, expr := range []string{"outcome.result.Explode()", "outcome.error.Error()", "outcome.result.String()"} {
		_, err := noetl.ParseRules(fmt.Appendf(nil, "eval: [{expr: %q, do: break}]", "{{ "+expr+" }}"), nil)
		assert.ErrorContains(t, err, "unknown method", expr)
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
		`.nan`: "delay is .nan: write seconds", `.inf`: "delay is .inf", `-1`: "delay is -1: write seconds", `"-1"`: "delay is the text", `-.inf`: "-.inf", `1e300`: "delay is 1e300", `9223372037`: "9223372037",
		`99999999999999999999999`: "write seconds", `"1s"`: `the text "1s"`, `"nan"`: `the text "nan"`, `"0x1p4"`: "0x1p4", `"1_0"`: "1_0", `true`: "delay is true", `[1]`: "a list", `{a: 1}`: "a mapping", `""`: `the text ""`, `null`: "delay is null", `"rand()"`: `the text "rand()": write seconds, such as 1.5, or an expression: "{{ workload.delay }}"`,
		`"{{ 1 }}s"`: "write exactly one {{ … }}", `"{% x %}"`: "statements", `"{ 1 }"`: `expected ":", got "}"`,
	} {
		_, err := noetl.ParseRules([]byte("eval: [{else: {do: retry, delay: "+delay+"}}]"), nil)
		require.ErrorContains(t, err, want, delay)
		assert.ErrorContains(t, err, "noetl: line 1: eval[0].else: delay", delay)
	}
	for expr, want := range map[string]string{
		`'soon'`: `text "soon" is not a number of seconds`, `'nan'`: `"nan"`, `'inf'`: `"inf"`, `''`: `""`, `none`: "none is not a number", `true`: "true is not a number", `[1]`: "a list is not a number", `{}`: "a mapping is not a number",
		`-1`: "-1 is not a number of seconds from 0 to 9223372036", `1e300`: "1e+300 is not a number of seconds", `1e308 * 10`: "+Inf is not a number", `outcome.nosuch`: "outcome.nosuch is undefined",
		`'Fri, 20 Nov 2026 10:00:00 GMT'`: "is not a number of seconds", `9223372037`: "9.223372037e+09 is not a number",
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
		rules, err := noetl.ParseRules([]byte(yaml), rand.NewPCG(seed, seed).Uint64)
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
	for source, want := range map[uint64]time.Duration{0: 0, 1 << 63: time.Second / 2, 1<<64 - 1: time.Second} {
		rules, err := noetl.ParseRules([]byte(yaml), constant(source))
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

func constant(n uint64) func() uint64 { return func() uint64 { return n } }

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
	for _, count := range []int{3, 4} { // rules are parsed once and evaluated any number of times
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
	assert.EqualError(t, rules[0].Set(state, retryflow.Outcome{State: state}), "set_iter.a: iter in the state is int, not map[string]any")

	rules = rulesOf(t, `eval: [{else: {do: break, set_iter: {a: 1, b: "{{ nosuch }}"}}}]`)
	state = retryflow.State{}
	assert.ErrorContains(t, rules[0].Set(state, retryflow.Outcome{State: state}), "set_iter.b: {{ nosuch }}: ")
	assert.Empty(t, state, "all or nothing")

	for _, value := range []string{`[1, "{{ nosuch }}"]`, `{x: [{y: "{{ nosuch }}"}]}`} {
		rules = rulesOf(t, "eval: [{else: {do: break, set_iter: {deep: "+value+"}}}]")
		assert.ErrorContains(t, rules[0].Set(state, retryflow.Outcome{State: state}), "set_iter.deep: {{ nosuch }}: ")
		assert.Empty(t, state)
	}
}

// An integer that no Go integer can hold is a json.Number, which expressions read
// as the same integer.
func TestIntegersBeyondInt64InTheState(t *testing.T) {
	for expr, want := range map[string]any{
		"2 ** 63 - 1": int64(math.MaxInt64), "-(2 ** 63)": int64(math.MinInt64), "2 ** 63": json.Number("9223372036854775808"),
		"-(2 ** 63) - 1": json.Number("-9223372036854775809"), "2 ** 70": json.Number("1180591620717411303424"),
	} {
		rules := rulesOf(t, fmt.Sprintf(`eval: [{expr: "{{ iter.n is defined and iter.n == %s and iter.n is integer }}", do: break}, {else: {do: continue, set_iter: {n: "{{ %[1]s }}"}}}]`, expr))
		state := retryflow.State{}
		require.NoError(t, rules[1].Set(state, retryflow.Outcome{State: state}))
		assert.EqualValues(t, want, state["iter"].(map[string]any)["n"], expr)
		same, err := rules[0].When(retryflow.Outcome{State: state})
		assert.NoError(t, err, expr)
		assert.True(t, same, expr)
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
