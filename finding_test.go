package retry_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

var (
	goWord  = regexp.MustCompile(`\b[A-Z][a-z]+[A-Z][a-z]|\b(Backoff|Jitter|Budget|Schedule|Fixed|Linear|Exponential|Fibonacci|Proportional|Spread|nil)\b`)
	keyWord = regexp.MustCompile(`\b[a-z]+_[a-z_]+\b|retryable: false`)
)

// assertBothTexts checks that String and InKeys of a finding each return one line. The text for Go
// must contain no keys, and the text for keys must contain no names of Go.
func assertBothTexts(t *testing.T, f retry.Finding) {
	t.Helper()
	for _, text := range []string{f.String(), f.InKeys()} {
		assert.NotEmpty(t, text)
		assert.NotRegexp(t, `[\n{}]|%!`, text)
	}
	assert.NotRegexp(t, keyWord, f.String())
	if f.Key != "" {
		assert.NotRegexp(t, goWord, f.InKeys())
	}
}

func TestFindings(t *testing.T) {
	second := retry.Fixed(time.Second)
	doubling := retry.Exponential{Base: time.Second}
	type finding struct{ code, field, key, inKeys string }
	for name, row := range map[string]struct {
		policy retry.Policy
		want   finding
	}{
		"NonRetryable with a limit": {retry.Policy{NonRetryable: true, MaxAttempts: 3}, finding{"unused_limit", "NonRetryable", "retryable",
			"retryable: false allows only one attempt: the limit of 3 attempts by max_attempts, max_retries or max_elapsed has no effect"}},
		"a Backoff without a limit": {retry.Policy{Backoff: second}, finding{"no_limit", "Backoff", "backoff",
			"backoff without a limit: there is only one attempt, and no delay; set max_attempts, max_retries or max_elapsed"}},
		"AttemptCap without a limit": {retry.Policy{AttemptCap: 3}, finding{"no_limit", "AttemptCap", "attempt_cap",
			"attempt_cap without a limit: there is only one attempt; set max_attempts, max_retries or max_elapsed"}},
		"Classify without a limit": {retry.Policy{Classify: always(retry.Class{})}, finding{"no_limit", "Classify", "",
			"Classify without a limit: there is only one attempt, whatever a class allows; set max_attempts, max_retries or max_elapsed"}},
		"no attempt runs past HealthyAfter": {retry.Policy{AttemptTimeout: time.Second, HealthyAfter: time.Minute}, finding{"never_healthy", "AttemptTimeout", "attempt_timeout",
			"attempt_timeout of 1s ends every attempt before healthy_after of 1m0s: a call never begins anew"}},
		"two limits": {retry.Policy{MaxAttempts: 5, MaxRetries: 2, Backoff: second}, finding{"two_limits", "MaxAttempts", "max_attempts",
			"max_attempts and max_retries are both set: the lower limit applies, 3 attempts; set one"}},
		"delays that are never used": {retry.Policy{MaxAttempts: 2, Backoff: retry.Schedule{1, 2}}, finding{"unused_delays", "Backoff", "backoff.delays",
			"a list of 2 delays is too long for 2 attempts: the delay of 2ns and all delays after it are never used; max_attempts counts the first attempt"}},
		"unlimited without a Backoff": {retry.Policy{MaxAttempts: -1}, finding{"no_backoff", "Backoff", "backoff", "unlimited attempts without a backoff: each wait is 10ms; set a backoff"}},
		"HealthyAfter without a Backoff": {retry.Policy{MaxAttempts: 2, HealthyAfter: time.Minute}, finding{"no_backoff", "Backoff", "backoff",
			"healthy_after without a backoff: each wait is 10ms; set a backoff"}},
		"unlimited, short delays": {retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(1)}, finding{"short_delays", "Backoff", "backoff",
			"unlimited attempts with delays below 10ms: such a wait is 10ms instead"}},
		"HealthyAfter, short delays": {retry.Policy{MaxAttempts: 2, HealthyAfter: time.Minute, Backoff: retry.Fixed(1)}, finding{"short_delays", "Backoff", "backoff",
			"healthy_after with delays below 10ms: such a wait is 10ms instead"}},
		"at once": {retry.Policy{MaxAttempts: 3}, finding{"no_backoff", "Backoff", "backoff",
			"3 attempts without a backoff: the attempts follow each other at once; set a backoff, or a fixed backoff of 0s for no delay"}},
		"growing": {retry.Policy{MaxAttempts: -1, Backoff: doubling}, finding{"growing_delays", "Backoff", "backoff",
			"unlimited attempts on a backoff that grows: the delays reach years; set max_delay"}},
		"no time": {retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second}, finding{"no_time", "MaxElapsed", "max_elapsed",
			"max_elapsed of 1s is shorter than the first delay of at least 1m0s: there is no retry"}},
		"attempts that never run": {retry.Policy{MaxAttempts: 9, Backoff: second, MaxElapsed: 2 * time.Second}, finding{"unused_attempts", "MaxElapsed", "max_elapsed",
			"at most 3 of 9 attempts fit into max_elapsed of 2s: attempt 4 and all attempts after it never run"}},
		"long attempts": {retry.Policy{MaxElapsed: time.Minute, AttemptTimeout: time.Hour, Backoff: second}, finding{"long_attempts", "AttemptTimeout", "attempt_timeout",
			"attempt_timeout of 1h0m0s is longer than max_elapsed of 1m0s: after one attempt that uses it up there is no retry"}},
		"years": {retry.Policy{MaxAttempts: 30, Backoff: doubling}, finding{"too_long", "MaxDelay", "max_delay",
			"30 attempts take up to 149130h48m31s: set max_delay or max_elapsed"}},
		"a short MaxDelay": {retry.Policy{MaxAttempts: 3, Backoff: second, MaxDelay: 1}, finding{"short_max_delay", "MaxDelay", "max_delay",
			"max_delay of 1ns is shorter than the first delay of 1s: it cuts even the first delay"}},
		"no Ratio": {retry.Policy{MaxAttempts: 2, Backoff: second, Budget: &retry.Budget{Size: 1, Remember: time.Minute}}, finding{"no_ratio", "Budget.Ratio", "budget.ratio",
			"budget.remember of 1m0s without a budget.ratio: successes put nothing back; set budget.ratio"}},

		"an invalid number":   {retry.Policy{MaxAttempts: -2}, finding{"invalid_value", "MaxAttempts", "max_attempts", "max_attempts is -2: write how many, 0 for not set, or -1 for unlimited"}},
		"an invalid Fixed":    {retry.Policy{Backoff: retry.Fixed(-1)}, finding{"invalid_value", "Backoff", "backoff.base", "backoff.base is -1ns: write 0 for no delay, or a positive duration"}},
		"an invalid Factor":   {retry.Policy{Backoff: retry.Exponential{Factor: .5}}, finding{"invalid_value", "Backoff.Factor", "backoff.factor", "backoff.factor is 0.5: write 0 for 2, or a finite number of at least 1"}},
		"an invalid Schedule": {retry.Policy{Backoff: retry.Schedule{0, -1}}, finding{"invalid_value", "Backoff", "backoff.delays[1]", "backoff.delays[1] is -1ns: write 0 for no delay, or a positive duration"}},
		"an invalid Jitter":   {retry.Policy{Jitter: retry.Spread(7)}, finding{"invalid_value", "Jitter", "jitter", "jitter is 7: write full, equal, or 0 for none"}},
		"an invalid share":    {retry.Policy{Jitter: retry.Proportional(2)}, finding{"invalid_value", "Jitter", "jitter", "jitter is 2: write a share between 0 and 1: 0.2 is ±20 %"}},
		"an invalid mode":     {retry.Policy{RetryAfter: "{MaxDelay} %d"}, finding{"invalid_value", "RetryAfter", "retry_after", `retry_after is "{MaxDelay} %d": write spread, at_least or exact`}},
		"an invalid Budget":   {retry.Policy{Budget: &retry.Budget{}}, finding{"invalid_value", "Budget.Size", "budget.size", "budget.size is 0: write how many retries it holds, at least 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := row.policy.Lint()
			if err := row.policy.Validate(); err != nil {
				found = findingsOf(t, err)
			}
			require.NotEmpty(t, found)
			f := found[0]
			assert.Equal(t, row.want, finding{f.Code, f.Field, f.Key, f.InKeys()})
		})
	}
}

// findingsOf returns the findings of a PolicyError.
func findingsOf(t *testing.T, err error) []retry.Finding {
	t.Helper()
	var invalid *retry.PolicyError
	require.ErrorAs(t, err, &invalid)
	return invalid.Findings()
}

func TestFindingsOfValidate(t *testing.T) {
	for fault, p := range invalidPolicies() {
		found := findingsOf(t, p.Validate())
		var texts []string
		for _, f := range found {
			texts = append(texts, f.String())
			if !strings.Contains(fault, `"`) {
				assertBothTexts(t, f)
			}
		}
		assert.Equal(t, fault, strings.Join(texts, "; "))
	}
	t.Run("at most 20", func(t *testing.T) {
		err := retry.Policy{Backoff: make(retry.Schedule, 25)}.Validate()
		require.NoError(t, err)
		wrong := slices.Repeat(retry.Schedule{-1}, 25)
		err = retry.Policy{Backoff: wrong, MaxDelay: -1}.Validate()
		assert.Len(t, findingsOf(t, err), 20)
		assert.ErrorContains(t, err, "Schedule[19] is -1ns: write 0 for no delay, or a positive duration; and 6 more")
	})
	t.Run("the Cause of a call has the findings", func(t *testing.T) {
		err := retry.Do(t.Context(), retry.Policy{MaxAttempts: -2}, failWith(errDial))
		assert.Equal(t, "MaxAttempts", findingsOf(t, err)[0].Field)
	})
	t.Run("an invalid class", func(t *testing.T) {
		err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 2, Classify: always(retry.Class{MaxDelay: -1})}, failWith(errDial))
		f := findingsOf(t, err)[0]
		assert.Equal(t, [3]string{"invalid_value", "MaxDelay", ""}, [3]string{f.Code, f.Field, f.Key}, "a class has no text form")
		assert.Equal(t, f.String(), f.InKeys())
	})
	t.Run("the caller gets a copy", func(t *testing.T) {
		err := retry.Policy{MaxAttempts: -2}.Validate()
		findingsOf(t, err)[0].Field = "changed"
		assert.Equal(t, "MaxAttempts", findingsOf(t, err)[0].Field)
	})
}

func TestFindingsOfDecoding(t *testing.T) {
	type finding struct{ code, field, key, text string }
	for name, row := range map[string]struct {
		text string
		want []finding
	}{
		"unknown keys": {`{"max_delive": 1, "x": 2}`, []finding{
			{"unknown_key", "", "max_delive", `unknown key "max_delive": the keys of a policy are ` + strings.Join(topKeys(), ", ")},
			{"unknown_key", "", "x", `unknown key "x": the keys of a policy are ` + strings.Join(topKeys(), ", ")},
		}},
		"an unknown key of a backoff": {`{"backoff": {"type": "fixed", "base": "1s", "factor": 2}}`, []finding{
			{"unknown_key", "Backoff.Factor", "backoff.factor", `unknown key "backoff.factor": the keys of a backoff of type fixed are type, base`},
		}},
		"wrong values": {`{"max_attempts": 0, "backoff": {"type": "schedule", "delays": ["1s", 2]}, "budget": {"size": 1, "refill_every": 3}}`, []finding{
			{"invalid_value", "MaxAttempts", "max_attempts", "max_attempts is 0: write how many attempts in all: 1 for no retry, -1 for unlimited"},
			{"invalid_value", "Backoff", "backoff.delays[1]", `backoff.delays[1] is 2: write a duration as text, such as "200ms" or "1m30s"`},
			{"invalid_value", "Budget.RefillEvery", "budget.refill_every", `budget.refill_every is 3: write a duration such as "1m", at least 1ms, or "0s" for never`},
		}},
		"a key that is missing": {`{"budget": {}}`, []finding{{"missing_key", "Budget.Size", "budget.size", "budget.size is missing: write how many retries it holds, at least 1"}}},
		"a duplicate key":       {`{"jitter": 0, "jitter": 1}`, []finding{{"duplicate_key", "Jitter", "jitter", `duplicate key "jitter"`}}},
		"not a mapping":         {`[]`, []finding{{"invalid_value", "", "", `got [], want a mapping such as {"max_attempts": 5}`}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []finding
			for _, f := range findingsOf(t, json.Unmarshal([]byte(row.text), new(retry.Policy))) {
				assert.Equal(t, f.InKeys(), f.String())
				got = append(got, finding{f.Code, f.Field, f.Key, f.InKeys()})
			}
			assert.Equal(t, row.want, got)
		})
	}
	t.Run("invalid JSON keeps its error", func(t *testing.T) {
		err := new(retry.Policy).UnmarshalText([]byte(`{`))
		assert.NotEmpty(t, findingsOf(t, err))
		var syntax *json.SyntaxError
		assert.ErrorAs(t, err, &syntax)
	})
	t.Run("a null as text", func(t *testing.T) {
		assert.NotEmpty(t, findingsOf(t, new(retry.Policy).UnmarshalText([]byte("null"))))
	})
	t.Run("an error of a YAML library", func(t *testing.T) {
		err := new(retry.Policy).UnmarshalYAML(func(any) error { return errBoom })
		assert.Equal(t, "boom", findingsOf(t, err)[0].InKeys())
		assert.ErrorIs(t, err, errBoom)
	})
}

// topKeys are the keys of a policy, without the keys inside a mapping.
func topKeys() []string {
	return slices.DeleteFunc(retry.Keys(), func(key string) bool { return strings.Contains(key, ".") })
}

func TestFindingWithText(t *testing.T) {
	f := retry.Finding{Code: "unknown_key", Key: "retries"}.WithText(`unknown key "retries"`)
	assert.Equal(t, `unknown key "retries"`, f.String())
	assert.Equal(t, `unknown key "retries"`, f.InKeys())
	assert.Equal(t, "retries", f.Key)
}

// docs/compatibility.md lists the codes of this package: each code in lint.go, and the codes of
// decoding.
func TestFindingCodesAreDocumented(t *testing.T) {
	source, err := os.ReadFile("lint.go")
	require.NoError(t, err)
	codes := []string{"invalid_value", "unknown_key", "duplicate_key", "missing_key"}
	for _, code := range regexp.MustCompile(`(?m)^\t\t"([a-z_]+)", "`).FindAllStringSubmatch(string(source), -1) {
		codes = append(codes, code[1])
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	require.Len(t, codes, 18)
	page, err := os.ReadFile("docs/compatibility.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "## Codes of findings")
	section, _, _ = strings.Cut(section, "\n## ")
	section, _, _ = strings.Cut(section, "\n### ")
	var documented []string
	for _, code := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(section, -1) {
		documented = append(documented, code[1])
	}
	assert.ElementsMatch(t, codes, documented)
}
