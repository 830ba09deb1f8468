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
	"slices"
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

// rulesOf parses the rules of one task.
func rulesOf(t *testing.T, yaml string) retryflow.Rules {
	t.Helper()
	rules, err := noetl.ParseRules([]byte(yaml), nil)
	require.NoError(t, err)
	return rules
}

// one returns a pipeline of one task.
func one(rules retryflow.Rules, run func() retryflow.Outcome) retryflow.Pipeline {
	return retryflow.Pipeline{Tasks: []retryflow.Task{{Label: "t", Rules: rules, Run: func(context.Context, retryflow.State) retryflow.Outcome { return run() }}}}
}

// condition returns the When of a rule with this expression.
func condition(t *testing.T, expr string) func(retryflow.Outcome) (bool, error) {
	t.Helper()
	rules, err := noetl.ParseRules(fmt.Appendf(nil, "eval: [{expr: %q, do: break}]", expr), nil)
	require.NoError(t, err, expr)
	return rules[0].When
}

// about returns the outcome that the conditions in the tests read.
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

// These tests are about the names and the Go values that expressions can read. The tests of
// package jinja are about what expressions mean.
func TestConditions(t *testing.T) {
	for expr, want := range map[string]bool{
		`true`: true, `'false'`: true, `false`: false, `'{%' in 'a{%b'`: true, `'}}' == '}}'`: true,
		`outcome.status == 'error'`:                            true,
		`outcome.http.status in [429, 503]`:                    true,
		`outcome.http.headers['retry-after'] == '7'`:           true,
		`'Retry-After' in outcome.http.headers`:                false,
		`outcome.http.headers['x'] is none`:                    true,
		`outcome.result['items'][1] == 2.5`:                    true,
		`outcome.odd['keys'] and outcome.odd.keys`:             true,
		`outcome.result.items[1] == 2.5`:                       true,
		`(outcome.result.values | default([])) == []`:          true,
		`outcome.odd.errors`:                                   true,
		`outcome.result.nan < 1 or outcome.result.nan >= 1`:    false,
		`[outcome.result.nan, [1], {'a': none}] | length == 3`: true,
		`outcome.meta.attempt == 2`:                            true,
		`outcome.meta.duration_ms == 1500`:                     true,
		`outcome.nosuch is defined`:                            false,
		`iter.page < workload.size`:                            true,
		`rand() < 1 and rand() >= 0`:                           true,
		`_attempt == 2 and _task == 'fetch'`:                   true,
	} {
		got, err := condition(t, "{{ "+expr+" }}")(about())
		assert.NoError(t, err, expr)
		assert.Equal(t, want, got, expr)
	}
	for expr, want := range map[string]string{
		`nosuch`:              `nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`outcome.nosuch == 1`: `outcome.nosuch is undefined: ask "is defined" first, or add "| default(…)"`,
		`'503' >= 500`:        `cannot order text "503" and 500`,
	} {
		got, err := condition(t, "{{ "+expr+" }}")(about())
		assert.False(t, got, expr)
		assert.EqualError(t, err, "{{ "+expr+" }}: "+want)
	}
}

func TestExpressionsThatCannotBeParsed(t *testing.T) {
	for text, want := range map[string]string{
		`{{ range(3) }}`:                  `the function range is not supported: there is only rand`,
		`{{ [1, 2][1:] }}`:                `slices ([1:2]) are not supported: write the index of one member`,
		``:                                `it is empty: write one {{ … }}`,
		`{{ 1 }}{{ 2 }}`:                  `write exactly one {{ … }}`,
		`a {{ 1 }}`:                       `write exactly one {{ … }}`,
		`{{ 1 }} a`:                       `write exactly one {{ … }}`,
		`{{`:                              `the }} is missing`,
		`{{ 1`:                            `the }} is missing`,
		`{% include '/etc/hostname' %}`:   `statements ({% … %}) are not allowed: write {{ … }}`,
		`{# 1 #}`:                         `comments ({# … #}) are not allowed: write {{ … }}`,
		"{{ " + strings.Repeat("(", 9000): "the text has 9003 bytes: write at most 8192",
		"{{ " + strings.Repeat("[", 8000): "brackets are nested more than 100 deep",
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
	_, err := rulesOf(t, "eval:\n- expr: |\n    {{ outcome.status ==\n       nosuch }}\n  do: break\n")[0].When(about())
	assert.ErrorContains(t, err, "{{ outcome.status == nosuch }}: ", "the error is one line")
	assert.NotContains(t, err.Error(), "\n")
}

func TestHeadersOfEachGoType(t *testing.T) {
	odd := "outcome.http == none or true"
	for expr, all := range map[string][]any{
		"outcome.http.headers['retry-after'] == '7'": {
			map[string]any{"RETRY-AFTER": "7"}, map[string]string{"Retry-After": "7"}, map[string][]string{"Retry-after": {"7"}},
			http.Header{"Retry-After": {"7"}}, textproto.MIMEHeader{"Retry-After": {"7"}},
		},
		"outcome.http.headers.vary == 'a, b'": {http.Header{"Vary": {"a", "b"}}},
		"outcome.http.headers.a == '2'":       slices.Repeat([]any{map[string]any{"A": "1", "a": "2"}}, 20), // two names that become one name: always the same result
		odd:                                   {nil, 1},
	} {
		for _, headers := range all {
			holds, err := condition(t, "{{ "+expr+" }}")(retryflow.Outcome{Data: map[string]any{"http": map[string]any{"headers": headers}}})
			assert.NoError(t, err)
			assert.True(t, holds, "%s of %T", expr, headers)
		}
	}
	for _, http := range []any{nil, "text", 1} {
		holds, err := condition(t, "{{ "+odd+" }}")(retryflow.Outcome{Data: map[string]any{"http": http}})
		assert.NoError(t, err)
		assert.True(t, holds)
	}
}

func TestKeysOfDataThatThePipelineSetsToo(t *testing.T) {
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
		"names of headers in lower case":          {retryflow.Outcome{Data: map[string]any{"http": map[string]any{"headers": map[string]any{"Retry-After": "7"}}}}, "outcome.http.headers['retry-after'] == '7'"},
		"status and result come from the outcome": {retryflow.Outcome{Result: 1, Data: map[string]any{"status": "odd", "result": 2}}, "outcome.status == 'success' and outcome.result == 1"},
	} {
		before, err := json.Marshal(row.o.Data)
		require.NoError(t, err)
		holds, err := condition(t, "{{ "+row.expr+" }}")(row.o)
		assert.NoError(t, err, name)
		assert.True(t, holds, name)
		after, err := json.Marshal(row.o.Data)
		require.NoError(t, err)
		assert.Equal(t, string(before), string(after), "%s: Data is left as it is", name)
	}
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
		`outcome.result.Name == 'm1'`:           true,
		`outcome.result['Name'] == 'm1'`:        true,
		`outcome.result.Parts[0].Weight == 1.5`: true,
		`outcome.pointer.Name == 'm2'`:          true,
		`outcome.result.secret is defined`:      false,
		`outcome.result.engine is defined`:      false,
		`outcome.pointer.Power == 0`:            true,
		`outcome.result.Power is defined`:       false,
		`outcome.result.Explode is defined`:     false,
		`outcome.error.Error is defined`:        false,
		`outcome.func.Name is defined`:          false,
		`outcome.result.nosuch is defined`:      false,
		`outcome.result`:                        true,
	} {
		got, err := condition(t, "{{ "+expr+" }}")(o)
		assert.NoError(t, err, expr)
		assert.Equal(t, want, got, expr)
	}
	for expr, want := range map[string]string{
		`[outcome.result] | join`: "a value of Go's type noetl_test.machine has no text: write one of its fields",
		`outcome.result | string`: "a value of Go's type noetl_test.machine has no text: write one of its fields",
		`outcome.error | lower`:   "a value of Go's type noetl_test.engine has no text: write one of its fields",
		`outcome.result == 1`:     "cannot compare a value of Go's type noetl_test.machine and 1",
		`outcome.result in [1]`:   "cannot compare 1 and a value of Go's type noetl_test.machine",
		`outcome.result < 1`:      "cannot order a value of Go's type noetl_test.machine and 1",
		`outcome.result | length`: "a value of Go's type noetl_test.machine has no length",
		`outcome.result | tojson`: "a value of Go's type noetl_test.machine cannot be written as JSON",
		`outcome.func | upper`:    "a value of Go's type func() has no text: write one of its fields",
	} {
		_, err := condition(t, "{{ "+expr+" }}")(o)
		assert.EqualError(t, err, "{{ "+expr+" }}: "+want)
	}
	for _, expr := range []string{"outcome.result.Explode()", "outcome.error.Error()", "outcome.result.String()"} {
		_, err := noetl.ParseRules(fmt.Appendf(nil, "eval: [{expr: %q, do: break}]", "{{ "+expr+" }}"), nil)
		assert.ErrorContains(t, err, "is not supported", expr)
	}
}

func TestDelaysOfEachType(t *testing.T) {
	for delay, want := range map[string]time.Duration{
		`0`: 0, `2`: 2 * time.Second, `2.5`: 2500 * time.Millisecond, `"0.5"`: time.Second / 2, `" 3 "`: 3 * time.Second, `1e-3`: time.Millisecond, `3000000000`: 3000000000 * time.Second,
		`"{{ 2 }}"`:   2 * time.Second,
		`"{{ 2.5 }}"`: 2500 * time.Millisecond,
		`"{{ '4' }}"`: 4 * time.Second,
		`"{{ 0 }}"`:   0,
		`"{{ outcome.http.headers['retry-after'] }}"`:                                                           7 * time.Second,
		`"{{ outcome.http.headers['retry-after'] | int + 1 }}"`:                                                 8 * time.Second,
		`"{{ 5 if outcome.http.headers['retry-after'] | float > 5 else outcome.http.headers['retry-after'] }}"`: 5 * time.Second,
		`"{{ iter.page }}"`:                 4 * time.Second,
		`"{{ 0.1 if iter.page else 9 }}"`:   100 * time.Millisecond,
		`"{{ outcome.nosuch|default(3) }}"`: 3 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			rules := rulesOf(t, "eval: [{else: {do: retry, attempts: 2, delay: "+delay+"}}]")
			for _, most := range []time.Duration{0, time.Second} { // a program can set MaxDelay in rules that were parsed
				began := time.Now()
				rules[0].Policy.MaxDelay = most
				_ = one(rules, about).Run(t.Context(), about().State)
				if most > 0 {
					want = min(want, most)
				}
				assert.Equal(t, want, time.Since(began), delay)
			}
		})
	}
	assert.Equal(t, retry.Fixed(9223372036*time.Second), rulesOf(t, `eval: [{else: {do: retry, delay: 9223372036}}]`)[0].Policy.Backoff, "the longest delay")
}

// retry-after is the number of seconds that package retryhttp reads. A Retry-After that retryhttp
// ignores is missing, so that the default applies.
func TestRetryAfterOfEachForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := rulesOf(t, `eval: [{else: {do: retry, delay: "{{ outcome.http.headers['retry-after'] | default(2) }}"}}]`)[0].Delay
		for value, want := range map[string]time.Duration{
			"7": 7 * time.Second, "1.5": 1500 * time.Millisecond, "0": 0, " 3 ": 3 * time.Second, "3, 8": 8 * time.Second, "99999999999": 9223372036 * time.Second,
			"": 2 * time.Second, "abc": 2 * time.Second, "-1": 2 * time.Second,
			"Sat, 01 Jan 2000 00:01:00 GMT": time.Minute, "Sat, 01 Jan 2000 01:01:00 GMT": time.Hour + time.Minute, "Fri, 31 Dec 1999 00:00:00 GMT": 0,
		} {
			got, err := delay(retryflow.Outcome{Data: map[string]any{"http": map[string]any{"headers": http.Header{"Retry-After": {value}}}}})
			assert.NoError(t, err, value)
			assert.Equal(t, want, got, value)
		}
		got, err := delay(retryflow.Outcome{Data: map[string]any{"http": map[string]any{"headers": map[string]any{
			"Retry-After": "Sun, 22 Nov 2026 20:00:30 GMT", "Date": "Sun, 22 Nov 2026 20:00:00 GMT", "Age": "10",
		}}}})
		assert.NoError(t, err)
		assert.Equal(t, 20*time.Second, got, "measured from the Date of the response")
	})
}

func TestInvalidDelays(t *testing.T) {
	for delay, want := range map[string]string{
		`.nan`: "delay is .nan: write seconds", `.inf`: "delay is .inf", `-1`: "delay is -1: write seconds", `"-1"`: "delay is the text", `-.inf`: "-.inf", `1e300`: "delay is 1e300", `9223372037`: "9223372037",
		`99999999999999999999999`: "write seconds", `"1s"`: `the text "1s"`, `"nan"`: `the text "nan"`, `"0x1p4"`: "0x1p4", `"1_0"`: "1_0", `true`: "delay is true", `[1]`: "a list", `{a: 1}`: "a mapping", `""`: `the text ""`, `null`: "delay is null", `"rand()"`: `the text "rand()": write seconds, such as 1.5, or an expression: "{{ workload.delay }}"`,
		`"{{ 1 }}s"`: "write exactly one {{ … }}", `"{% x %}"`: "statements", `"{ 1 }"`: `the key of a mapping is "1"`,
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
			err := one(rules, func() retryflow.Outcome { runs++; return about() }).Run(t.Context(), about().State)
			require.ErrorContains(t, err, want, expr)
			assert.ErrorContains(t, err, `task "t"`)
			assert.ErrorContains(t, err, "delay: {{ "+expr+" }}")
			assert.Equal(t, 1, runs)
		}
	}
}

func TestRandDrawsFromTheSource(t *testing.T) {
	draws := func(source func() uint64) (delays []time.Duration) {
		rules, err := noetl.ParseRules([]byte(`eval: [{else: {do: retry, attempts: 5, delay: "{{ rand() }}"}}]`), source)
		require.NoError(t, err)
		for range 20 {
			d, err := rules[0].Delay(about())
			require.NoError(t, err)
			delays = append(delays, d)
		}
		return delays
	}
	assert.Equal(t, draws(rand.NewPCG(1, 1).Uint64), draws(rand.NewPCG(1, 1).Uint64))
	assert.NotEqual(t, draws(rand.NewPCG(1, 1).Uint64), draws(rand.NewPCG(2, 2).Uint64))
	assert.NotEqual(t, draws(nil), draws(nil), "without a source")
	for source, want := range map[uint64]time.Duration{0: 0, 1 << 63: time.Second / 2, 1<<64 - 1: time.Second} {
		assert.Equal(t, want, draws(func() uint64 { return source })[0], "rounded to the nanosecond")
	}
}

func TestSetIter(t *testing.T) {
	rules := rulesOf(t, `
eval:
  - else:
      do: continue
      set_iter:
        page: "{{ iter.page + 1 }}"
        before: "{{ iter.page }}"
        url: "/pages/{{ iter.page }}?size={{ workload.size }}"
        spaces: "  {{ 1 }} of {{ 2 }} "
        number_behind_a_space: " {{ 1 }}"
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
	for _, count := range []int{3, 4} { // rules are parsed once and can be evaluated again
		state["iter"] = before
		o.Result.(map[string]any)["count"] = count
		require.NoError(t, rules[0].Set(state, o))
		assert.Equal(t, map[string]any{
			"page": 5, "before": 4, "kept": true, "url": "/pages/4?size=50", "spaces": "  1 of 2 ", "number_behind_a_space": " 1", "plain": "text", "number": 7,
			"list": []any{count, map[string]any{"deep": "ANN", "count": count}, nil}, "whole": []any{1, 2.5, "x"}, "braces": "{ not one }",
		}, state["iter"])
	}
	assert.Equal(t, map[string]any{"page": 4, "kept": true}, before)

	for values, row := range map[string]struct {
		state retryflow.State
		want  any    // iter, if the rule sets it
		err   string // why the rule sets nothing
	}{
		`{a: 1}`:                             {retryflow.State{}, map[string]any{"a": 1}, ""},
		`{b: 1}`:                             {retryflow.State{"iter": 7}, 7, `set_iter.b: the key "iter" of the state has a value of type int: it must be a map[string]any`},
		`{a: 1, b: "{{ nosuch }}"}`:          {retryflow.State{}, nil, "set_iter.b: {{ nosuch }}: "},
		`{deep: [1, "{{ nosuch }}"]}`:        {retryflow.State{}, nil, "set_iter.deep: {{ nosuch }}: "},
		`{deep: {x: [{y: "{{ nosuch }}"}]}}`: {retryflow.State{}, nil, "set_iter.deep: {{ nosuch }}: "},
	} {
		err := rulesOf(t, "eval: [{else: {do: break, set_iter: "+values+"}}]")[0].Set(row.state, retryflow.Outcome{State: row.state})
		if assert.Equal(t, row.want, row.state["iter"], values); row.err != "" {
			assert.ErrorContains(t, err, row.err)
		} else {
			assert.NoError(t, err)
		}
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
	p := one(rules, func() retryflow.Outcome {
		return retryflow.Outcome{Data: map[string]any{"http": map[string]any{"status": 503}}}
	})
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
