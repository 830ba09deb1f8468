package noetl_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl"
)

// If the condition of a rule cannot be evaluated, the pipeline ends. The error names the rule,
// its expression and the reason. No later rule is tried.
func TestRulesThatCannotBeEvaluated(t *testing.T) {
	for expression, want := range map[string]string{
		`'deadlock' in outcome.error.message | lower`:   "the expression makes values of more than 4194304 bytes",
		`outcome.result.all in [outcome.result.all]`:    "the expression takes more than 200000 steps",
		`outcome.result.itself == outcome.result.twin`:  "a value is nested more than 100 deep, or contains itself",
		`outcome.result.large > 0`:                      "a whole number is larger than 64 bits can hold",
		`outcome.error.message >= 500`:                  `cannot order text "` + strings.Repeat("x", 40) + `" and 500`,
		`outcome.http.status + '3' == 5033`:             `cannot add 503 and text "3"`,
		`(outcome.result | string) == ''`:               "a mapping has no text here: write | tojson, or name a member",
		`nosuch is defined or outcome.http.status < ''`: `cannot order 503 and text ""`,
	} {
		itself, twin := map[string]any{}, map[string]any{}
		itself["self"], twin["self"] = itself, twin
		message := strings.Repeat("x", 100)
		if strings.Contains(want, "4194304") {
			message = strings.Repeat("x", 5<<20)
		}
		o := retryflow.Outcome{Err: errors.New(message), Data: map[string]any{"http": map[string]any{"status": 503}}, Result: map[string]any{
			"itself": itself, "twin": twin, "large": uint64(1 << 63), "all": make([]any, 250_000),
		}}
		for _, form := range []string{
			`eval: [{expr: "{{ nosuch }}", do: break}, {expr: "{{ %s }}", do: fail}, {else: {do: %s}}]`,
			`spec: {policy: {rules: [{when: "{{ nosuch }}", then: {do: break}}, {when: "{{ %s }}", then: {do: fail}}, {else: {then: {do: %s}}}]}}`,
		} {
			for _, otherwise := range []string{"continue", "break", "jump, to: t", "retry"} {
				runs := 0
				rules := rulesOf(t, fmt.Sprintf(form, expression, otherwise))
				p := one(rules, func() retryflow.Outcome { runs++; return o })
				p.MaxJumps = 2
				err := p.Run(t.Context(), nil)
				assert.ErrorContains(t, err, "not retryable after 1 attempt: rule 1: when: {{ "+expression+" }}: "+want)
				assert.ErrorContains(t, err, "; rule 0: when: {{ nosuch }}: nosuch is undefined")
				assert.ErrorIs(t, err, o.Err)
				assert.Equal(t, 1, runs)
			}
		}
		for _, key := range []string{"retry_when", "stop_when"} {
			err := one(rulesOf(t, fmt.Sprintf(`retry: {%s: "{{ %s }}"}`, key, expression)), func() retryflow.Outcome { return o }).Run(t.Context(), nil)
			assert.ErrorContains(t, err, "rule 0: when: {{ "+expression+" }}: "+want, key)
		}
	}
}

// If a name in a condition is missing, the rule only does not match.
func TestRulesWithAMissingName(t *testing.T) {
	for _, expression := range []string{
		"nosuch", "nosuch == 1", "not nosuch", "outcome.nosuch.deeper", "outcome.result.nosuch | lower", "nosuch in [1]", "1 + nosuch", "-nosuch",
		"nosuch | tojson", "[nosuch] | join", "nosuch | first", "([] | last) == 1", "nosuch | int", "outcome.http['nosuch'] and true", "outcome.result[3]",
	} {
		rules := rulesOf(t, fmt.Sprintf(`eval: [{expr: "{{ %s }}", do: fail}, {else: {do: break}}]`, expression))
		matches, err := rules[0].When(retryflow.Outcome{Data: map[string]any{"http": map[string]any{}}, Result: []any{}})
		assert.False(t, matches)
		assert.ErrorIs(t, err, retryflow.ErrNoMatch, expression)
		assert.ErrorContains(t, err, " is undefined: ", expression)
	}
	rules := rulesOf(t, `retry: {max_attempts: "{{ nosuch }}", retry_when: "{{ attempt < max_attempts }}"}`)
	_, err := rules[0].When(retryflow.Outcome{Err: errors.New("no")})
	assert.ErrorIs(t, err, retryflow.ErrNoMatch, "a name whose value is computed from a missing name")
}

// In random rules and outcomes, longer texts in the outcome never turn a failure into a
// success. The texts grow by spaces, and no condition reads spaces. So only the cost of the
// evaluation changes.
func TestLongerTextsNeverCauseASuccess(t *testing.T) {
	conditions := []string{
		"outcome.status == 'error'", "outcome.status != 'error'", "outcome.http.status in [429, 503]", "outcome.result.nosuch == 1", "true", "false",
		"'timeout' in outcome.error.message", "'timeout' in (outcome.error.message | lower)", "'TIMEOUT' not in (outcome.error.message | upper)",
		"'reset' in (outcome.result.text | default('') | replace('-', ''))", "'reset' in (outcome.result | tojson)", "outcome.result.text in outcome.error.message",
		"(outcome.error.message + outcome.result.text) != ''", "(outcome.result.number | int) == 7", "(outcome.result.number | float) > 8",
		"'x' in ([outcome.error.message, outcome.result.text] | join(outcome.result.text))", "outcome.result.text | string | upper | lower | length > 0",
		"outcome.http.headers['retry-after'] | default(3) | int > 5", "outcome.http.headers['retry-after'] is defined", "outcome.http.headers.etag is defined",
	}
	directives := []string{"continue", "break", "fail", "retry, attempts: 2, delay: 0", "continue, set_iter: {a: '{{ outcome.result.text | upper }}'}", "retry, attempts: 2, delay: '{{ outcome.result.number }}'"}
	failed, bounded := 0, 0
	lists := 20
	if os.Getenv("RETRY_LONG") != "" {
		lists = 1000
	}
	for i := range lists {
		source := rand.New(rand.NewPCG(uint64(i), 1))
		pick := func(from []string) string { return from[source.IntN(len(from))] }
		var list strings.Builder
		for range 1 + source.IntN(4) {
			fmt.Fprintf(&list, "- {expr: \"{{ %s }}\", do: %s}\n", pick(conditions), pick(directives))
		}
		rules, err := noetl.ParseRules([]byte("eval:\n"+list.String()), nil)
		require.NoError(t, err, list.String())
		if source.IntN(4) == 0 {
			rules = rulesOf(t, fmt.Sprintf(`retry: {max_attempts: 2, retry_when: "{{ %s }}", stop_when: "{{ %s }}"}`, pick(conditions), pick(conditions)))
		}
		texts := []string{pick([]string{"Timeout", "timeout", "refused"}), pick([]string{"reset", "re-set", "x"}), pick([]string{"7", "9.5", "soon"}), pick([]string{"7", "soon"})}
		fails, status := source.IntN(3) > 0, 200+303*source.IntN(2)
		run := func(texts []string) (err error) {
			synctest.Test(t, func(t *testing.T) {
				err = one(rules, func() retryflow.Outcome {
					o := retryflow.Outcome{Result: map[string]any{"text": texts[1], "number": texts[2]}, Data: map[string]any{"error": texts[0], "http": map[string]any{"status": status, "headers": http.Header{"Retry-After": {texts[3]}, "Etag": {texts[1]}}}}}
					if fails {
						o.Err = errors.New("the task failed")
					}
					return o
				}).Run(t.Context(), nil)
			})
			return err
		}
		if run(texts) == nil {
			continue
		}
		failed++
		for at := range texts {
			for _, more := range []int{1, 5 << 20} {
				longer := append([]string{}, texts...)
				longer[at] += strings.Repeat(" ", more)
				err := run(longer)
				require.Error(t, err, "text %d, %d bytes more\n%s", at, more, list.String())
				if strings.Contains(err.Error(), "the expression makes values of more than") {
					bounded++
					assert.Regexp(t, `rule \d: (when|set|delay): .*\{\{ .* \}\}: the expression makes values of more than`, err.Error())
				}
			}
		}
	}
	assert.Greater(t, failed, lists/3)
	assert.Greater(t, bounded, lists/3)
}
