package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

func TestLint(t *testing.T) {
	second := retry.Fixed(time.Second)
	doubling := retry.Exponential{Base: time.Second}
	const (
		noLimit      = "Backoff without a limit: there is only one attempt, and no delay; set MaxAttempts, MaxRetries or MaxElapsed"
		noClassLimit = "Classify without a limit: there is only one attempt, whatever a class allows; set MaxAttempts, MaxRetries or MaxElapsed"
		capAlone     = "AttemptCap without a limit: there is only one attempt; set MaxAttempts, MaxRetries or MaxElapsed"
		least        = 10 * time.Millisecond
		below        = "unlimited attempts with delays below 10ms: such a wait is 10ms instead"
		atOnce       = " without a Backoff: the attempts follow each other at once; set a Backoff, or Fixed(0) for no delay"
		bothLimits   = "MaxAttempts and MaxRetries are both set: the lower limit applies, "
		nonRetryable = "NonRetryable allows only one attempt: the limit of "
		growing      = "unlimited attempts on a Backoff that grows: the delays reach years; set MaxDelay"
	)
	for _, row := range []struct {
		name   string
		policy retry.Policy
		lint   []string
	}{
		{"nothing set", retry.Policy{}, nil},
		{"default", retry.Default(), nil},

		{"a Backoff without a limit", retry.Policy{Backoff: second}, []string{noLimit}},
		{"a Backoff with MaxElapsed alone", retry.Policy{Backoff: second, MaxElapsed: time.Minute}, nil},
		{"a Backoff with AttemptCap and no limit", retry.Policy{Backoff: second, AttemptCap: 5}, []string{noLimit}},
		{"a first delay above MaxDelay, without a limit", retry.Policy{Backoff: second, MaxDelay: 1}, []string{noLimit, "MaxDelay of 1ns is shorter than the first delay of 1s: it cuts even the first delay"}},
		{"AttemptCap alone", retry.Policy{AttemptCap: 5}, []string{capAlone}},

		{"Classify without a limit", retry.Policy{Classify: always(retry.Class{MaxAttempts: 2})}, []string{noClassLimit}},
		{"Classify and a Backoff without a limit", retry.Policy{Classify: always(retry.Class{}), Backoff: second}, []string{noLimit, noClassLimit}},
		{"Classify and AttemptCap without a limit", retry.Policy{Classify: always(retry.Class{}), AttemptCap: 3}, []string{capAlone, noClassLimit}},
		{"Classify with MaxAttempts", retry.Policy{Classify: always(retry.Class{}), MaxAttempts: 2}, nil},

		{"AttemptTimeout below HealthyAfter", retry.Policy{AttemptTimeout: time.Second, HealthyAfter: time.Minute},
			[]string{"AttemptTimeout of 1s ends every attempt before HealthyAfter of 1m0s: a call never begins anew"}},
		{"AttemptTimeout at HealthyAfter", retry.Policy{AttemptTimeout: time.Minute, HealthyAfter: time.Minute},
			[]string{"AttemptTimeout of 1m0s ends every attempt before HealthyAfter of 1m0s: a call never begins anew"}},
		{"AttemptTimeout above HealthyAfter", retry.Policy{AttemptTimeout: time.Minute + 1, HealthyAfter: time.Minute}, nil},

		{"AttemptTimeout above MaxElapsed", retry.Policy{MaxElapsed: time.Minute, AttemptTimeout: time.Minute + 1, Backoff: second},
			[]string{"AttemptTimeout of 1m0.000000001s is longer than MaxElapsed of 1m0s: after one attempt that uses it up there is no retry"}},
		{"AttemptTimeout at MaxElapsed", retry.Policy{MaxElapsed: time.Minute, AttemptTimeout: time.Minute, Backoff: second}, nil},
		{"AttemptTimeout above MaxElapsed, one attempt", retry.Policy{MaxAttempts: 1, MaxElapsed: time.Minute, AttemptTimeout: time.Hour}, nil},
		{"years", retry.Policy{MaxAttempts: 30, Backoff: doubling}, []string{"30 attempts take up to 149130h48m31s: set MaxDelay or MaxElapsed"}},
		{"more attempts than a plan has", retry.Policy{MaxAttempts: 10_002, Backoff: retry.Fixed(time.Hour)}, []string{"10002 attempts take more than 10000h0m0s: set MaxDelay or MaxElapsed"}},
		{"as many attempts as a plan has", retry.Policy{MaxAttempts: 10_001, Backoff: retry.Fixed(time.Hour)}, []string{"10001 attempts take up to 10000h0m0s: set MaxDelay or MaxElapsed"}},
		{"centuries", retry.Policy{MaxAttempts: 99, Backoff: doubling}, []string{"99 attempts take more than 292 years: set MaxDelay or MaxElapsed"}},
		{"years by a custom Jitter", retry.Policy{MaxAttempts: 30, Backoff: doubling, Jitter: untouchable{}}, nil},
		{"a month", retry.Policy{MaxAttempts: 32, Backoff: retry.Fixed(24 * time.Hour)}, nil},
		{"a month and a bit", retry.Policy{MaxAttempts: 32, Backoff: retry.Fixed(24*time.Hour + 1)},
			[]string{"32 attempts take up to 744h0m0.000000031s: set MaxDelay or MaxElapsed"}},

		{"several attempts at once", retry.Policy{MaxAttempts: 3}, []string{"3 attempts" + atOnce}},
		{"Remember without a Ratio", retry.Policy{MaxAttempts: 2, Backoff: second, Budget: &retry.Budget{Size: 1, Remember: time.Minute}},
			[]string{"Budget.Remember of 1m0s without a Budget.Ratio: successes put nothing back; set Budget.Ratio"}},
		{"Remember with a Ratio", retry.Policy{MaxAttempts: 2, Backoff: second, Budget: &retry.Budget{Size: 1, Ratio: 0.1, Remember: time.Minute}}, nil},
		{"a Ratio of 0 without Remember", retry.Policy{MaxAttempts: 2, Backoff: second, Budget: &retry.Budget{Size: 1}}, nil},
		{"unlimited without a Backoff", retry.Policy{MaxRetries: -1, Budget: &retry.Budget{Size: 1}}, []string{"unlimited attempts without a Backoff: each wait is 10ms; set a Backoff"}},
		{"HealthyAfter without a Backoff", retry.Policy{MaxAttempts: 3, HealthyAfter: time.Minute}, []string{"HealthyAfter without a Backoff: each wait is 10ms; set a Backoff"}},
		{"HealthyAfter with short delays", retry.Policy{MaxAttempts: 3, HealthyAfter: time.Minute, Backoff: retry.Fixed(9 * time.Millisecond)},
			[]string{"HealthyAfter with delays below 10ms: such a wait is 10ms instead"}},
		{"HealthyAfter with delays", retry.Policy{MaxAttempts: 3, HealthyAfter: time.Minute, Backoff: retry.Fixed(10 * time.Millisecond)}, nil},
		{"HealthyAfter and one attempt", retry.Policy{MaxAttempts: 1, HealthyAfter: time.Minute}, nil},
		{"several attempts at once, on purpose", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(0)}, nil},
		{"several attempts, the classes have the delays", retry.Policy{MaxAttempts: 3, Classify: func(error) *retry.Class { panic("called") }}, nil},
		{"a Backoff with MaxAttempts 1, which is probably intended", retry.Policy{Backoff: second, MaxAttempts: 1}, nil},
		{"a Backoff with NonRetryable", retry.Policy{Backoff: second, NonRetryable: true}, nil},

		{"both limits", retry.Policy{MaxAttempts: 5, MaxRetries: 2, Backoff: second}, []string{bothLimits + "3 attempts; set one"}},
		{"both limits, unlimited", retry.Policy{MaxAttempts: 5, MaxRetries: -1, Backoff: second}, []string{bothLimits + "5 attempts; set one"}},
		{"a limit and a cap", retry.Policy{MaxAttempts: 5, AttemptCap: 3, Backoff: second}, nil},

		{"a delay that no retry reaches", retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute, time.Hour}},
			[]string{"a Schedule of 3 delays is too long for 3 attempts: the delay of 1h0m0s and all delays after it are never used; MaxAttempts counts the first attempt"}},
		{"a delay that no retry reaches, unlimited except for AttemptCap", retry.Policy{MaxAttempts: -1, AttemptCap: 2, Backoff: retry.Schedule{1, 2, 3}},
			[]string{"a Schedule of 3 delays is too long for 2 attempts: the delay of 2ns and all delays after it are never used; MaxAttempts counts the first attempt"}},
		{"a Schedule that is reached", retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{1, 2, 3}}, nil},
		{"an empty Schedule", retry.Policy{MaxAttempts: 1, Backoff: retry.Schedule{}}, nil},

		{"NonRetryable with attempts", retry.Policy{NonRetryable: true, MaxAttempts: 3}, []string{nonRetryable + "3 attempts by MaxAttempts, MaxRetries or MaxElapsed has no effect"}},
		{"NonRetryable with unlimited attempts", retry.Policy{NonRetryable: true, MaxAttempts: -1}, []string{nonRetryable + "unlimited attempts by MaxAttempts, MaxRetries or MaxElapsed has no effect"}},
		{"NonRetryable with one attempt", retry.Policy{NonRetryable: true, MaxAttempts: 1}, nil},
		{"NonRetryable with a cap", retry.Policy{NonRetryable: true, AttemptCap: 10}, nil},

		{"unlimited and exponential", retry.Policy{MaxAttempts: -1, Backoff: doubling}, []string{growing}},
		{"unlimited and linear", retry.Policy{MaxRetries: -1, Backoff: retry.Linear(1)}, []string{growing}},
		{"unlimited and fibonacci", retry.Policy{MaxAttempts: -1, Backoff: retry.Fibonacci(1)}, []string{growing}},
		{"unlimited and growing, with MaxDelay", retry.Policy{MaxAttempts: -1, Backoff: doubling, MaxDelay: time.Minute}, nil},
		{"unlimited and growing, with MaxElapsed", retry.Policy{MaxAttempts: -1, Backoff: doubling, MaxElapsed: time.Minute}, nil},
		{"unlimited and growing, with AttemptCap", retry.Policy{MaxAttempts: -1, Backoff: doubling, AttemptCap: 9}, nil},
		{"unlimited and fixed", retry.Policy{MaxAttempts: -1, Backoff: second}, nil},
		{"unlimited and a factor of one", retry.Policy{MaxAttempts: -1, Backoff: retry.Exponential{Base: time.Second, Factor: 1}}, nil},
		{"unlimited and a Schedule", retry.Policy{MaxAttempts: -1, Backoff: retry.Schedule{1, 2, least}}, nil},
		{"unlimited and a Schedule that ends below 10ms", retry.Policy{MaxAttempts: -1, Backoff: retry.Schedule{time.Second, least - 1}}, []string{below}},
		{"unlimited and Fixed(0)", retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(0)}, []string{below}},
		{"unlimited and a MaxDelay below 10ms", retry.Policy{MaxAttempts: -1, Backoff: second, MaxDelay: least - 1}, []string{below, "MaxDelay of 9.999999ms is shorter than the first delay of 1s: it cuts even the first delay"}},
		{"unlimited and a jitter that reaches 10ms", retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(least / 2), Jitter: retry.Proportional(1)}, nil},
		{"unlimited and a jitter that does not reach 10ms", retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(least/2 - 1), Jitter: retry.Proportional(1)}, []string{below}},
		{"unlimited and short, with a custom jitter", retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(1), Jitter: untouchable{}}, nil},
		{"unlimited and short, with classes", retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(1), Classify: always(retry.Class{})}, nil},
		{"unlimited and short, except for AttemptCap", retry.Policy{MaxAttempts: -1, AttemptCap: 9, Backoff: retry.Fixed(1)}, nil},
		{"unlimited and custom", retry.Policy{MaxAttempts: -1, Backoff: untouchable{}}, nil},
		{"one attempt, and growing", retry.Policy{MaxAttempts: 1, Backoff: doubling}, nil},

		{"the first delay is beyond MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second},
			[]string{"MaxElapsed of 1s is shorter than the first delay of at least 1m0s: there is no retry"}},
		{"the first delay is beyond MaxElapsed, but a class may have a shorter delay", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second, Classify: always(retry.Class{})}, nil},
		{"the first delay is beyond MaxElapsed, but a server may ask for a shorter wait", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second, RetryAfter: retry.RetryAfterExact}, nil},
		{"the first delay is MaxElapsed", retry.Policy{MaxAttempts: 2, Backoff: second, MaxElapsed: time.Second}, nil},
		{"half of the first delays are beyond MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.FullJitter, MaxElapsed: 5 * time.Second}, nil},
		{"even the shortest first delay is beyond MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.Proportional(.2), MaxElapsed: 8*time.Second - 1},
			[]string{"MaxElapsed of 7.999999999s is shorter than the first delay of at least 8s: there is no retry"}},
		{"the shortest first delay is MaxElapsed", retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.EqualJitter, MaxElapsed: 5 * time.Second}, nil},
		{"a custom Jitter may return 0", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Second), Jitter: untouchable{}, MaxElapsed: time.Second}, nil},
		{"a custom Backoff may return 0", retry.Policy{MaxAttempts: 3, Backoff: untouchable{}, MaxElapsed: time.Second}, nil},

		{"attempts that MaxElapsed never lets run", retry.Policy{MaxAttempts: 100, Backoff: second, MaxElapsed: 5 * time.Second},
			[]string{"at most 6 of 100 attempts fit into MaxElapsed of 5s: attempt 7 and all attempts after it never run"}},
		{"one attempt that MaxElapsed never lets run", retry.Policy{MaxAttempts: 7, Backoff: second, MaxElapsed: 6*time.Second - 1},
			[]string{"at most 6 of 7 attempts fit into MaxElapsed of 5.999999999s: attempt 7 and all attempts after it never run"}},
		{"MaxElapsed lets all attempts run", retry.Policy{MaxAttempts: 7, Backoff: second, MaxElapsed: 6 * time.Second}, nil},
		{"attempts that never run, with an AttemptCap", retry.Policy{MaxAttempts: -1, AttemptCap: 9, Backoff: doubling, MaxElapsed: time.Minute},
			[]string{"at most 6 of 9 attempts fit into MaxElapsed of 1m0s: attempt 7 and all attempts after it never run"}},
		{"even after the shortest delays, one attempt never runs", retry.Policy{MaxRetries: 9, Backoff: second, Jitter: retry.EqualJitter, MaxElapsed: 4 * time.Second},
			[]string{"at most 9 of 10 attempts fit into MaxElapsed of 4s: attempt 10 and all attempts after it never run"}},
		{"the shortest delays are 0", retry.Policy{MaxAttempts: 100, Backoff: second, Jitter: retry.FullJitter, MaxElapsed: 2 * time.Second}, nil},
		{"more retries than a plan has", retry.Policy{MaxAttempts: 20_000, Backoff: retry.Fixed(time.Millisecond), MaxElapsed: 11 * time.Second}, nil},
		{"a class may have a shorter delay", retry.Policy{MaxAttempts: 100, Backoff: second, MaxElapsed: 5 * time.Second, Classify: always(retry.Class{})}, nil},
		{"a server may ask for a shorter delay", retry.Policy{MaxAttempts: 100, Backoff: second, MaxElapsed: 5 * time.Second, RetryAfter: retry.RetryAfterExact}, nil},
		{"a Wait may return early", retry.Policy{MaxAttempts: 100, Backoff: second, MaxElapsed: 5 * time.Second, Wait: func(context.Context, time.Duration) (time.Duration, error) { panic("called") }}, nil},
		{"a custom Jitter", retry.Policy{MaxAttempts: 100, Backoff: second, Jitter: untouchable{}, MaxElapsed: 5 * time.Second}, nil},

		{"MaxDelay is below the first delay", retry.Policy{MaxAttempts: 3, Backoff: doubling, MaxDelay: time.Second - 1},
			[]string{"MaxDelay of 999.999999ms is shorter than the first delay of 1s: it cuts even the first delay"}},
		{"MaxDelay is the first delay", retry.Policy{MaxAttempts: 3, Backoff: doubling, MaxDelay: time.Second}, nil},

		{"several findings", retry.Policy{MaxAttempts: 3, MaxRetries: 9, Backoff: retry.Schedule{time.Minute, 2, 3}, MaxElapsed: time.Second},
			[]string{
				bothLimits + "3 attempts; set one",
				"a Schedule of 3 delays is too long for 3 attempts: the delay of 3ns and all delays after it are never used; MaxAttempts counts the first attempt",
				"MaxElapsed of 1s is shorter than the first delay of at least 1m0s: there is no retry",
			}},
		{"an invalid policy", retry.Policy{MaxAttempts: -2, MaxRetries: 3, Backoff: second}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var lint []string
			for _, finding := range row.policy.Lint() {
				lint = append(lint, finding.String())
				assertBothTexts(t, finding)
			}
			assert.Equal(t, row.lint, lint)
		})
	}
}
