package retrytest_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

const ms = time.Millisecond

func TestSchedulePasses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		want   []time.Duration
	}{
		{"the zero policy calls once", retry.Policy{}, nil},
		{"an invalid policy calls once", retry.Policy{MaxAttempts: -2, Backoff: retry.Fixed(1)}, nil},
		{"no delays", retry.Policy{MaxRetries: 3}, []time.Duration{0, 0, 0}},
		{"exponential", plain, []time.Duration{time.Second, 2 * time.Second}},
		{"capped", retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: 200 * ms}, MaxDelay: 500 * ms}, []time.Duration{200 * ms, 400 * ms, 500 * ms, 500 * ms}},
		{"unlimited, with some delays in want", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Linear(10 * ms)}, []time.Duration{10 * ms, 20 * ms, 30 * ms}},
		{"unlimited, with an empty want", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Linear(10 * ms)}, nil},
		{"stopped by MaxElapsed", retry.Policy{MaxAttempts: 9, Backoff: retry.Linear(ms), MaxElapsed: 6 * ms}, []time.Duration{ms, 2 * ms, 3 * ms}},
		{"the longest waits", retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(math.MaxInt64), MaxElapsed: math.MaxInt64}, []time.Duration{math.MaxInt64, math.MaxInt64, math.MaxInt64}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, began := new(recorder), time.Now()
				retrytest.Schedule(r, tc.policy, tc.want...)
				assert.Empty(t, r.failures)
				assert.Zero(t, time.Since(began), "Schedule does not wait")
			})
		})
	}
}

func TestScheduleFails(t *testing.T) {
	unlimited := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Linear(10 * ms)}
	bounded := unlimited
	bounded.MaxElapsed = 30 * ms
	for _, tc := range []struct {
		name        string
		policy      retry.Policy
		want        []time.Duration
		waits, line string
	}{
		{"another delay", plain, []time.Duration{time.Second, time.Second},
			"waits 1s -> 2s, then stops: attempts_exhausted", "want  1s -> 1s"},
		{"far too few", retry.Policy{MaxAttempts: 9, Backoff: retry.Linear(ms)}, []time.Duration{ms},
			"waits 1ms -> 2ms, and more", "want  1ms"},
		{"too many", plain, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
			"waits 1s -> 2s, then stops: attempts_exhausted", "want  1s -> 2s -> 4s"},
		{"an empty want", plain, nil,
			"waits 1s, and more", "want  nothing"},
		{"no delay in the policy", retry.Policy{}, []time.Duration{0},
			"waits nothing, then stops: attempts_exhausted", "want  0s"},
		{"jitter", wide, []time.Duration{time.Second, time.Second},
			"waits 800ms to 1.1s -> 800ms to 1.1s, then stops: attempts_exhausted", "want  1s -> 1s"},
		{"unlimited", unlimited, []time.Duration{10 * ms, ms},
			"waits 10ms -> 20ms, and so on", "want  10ms -> 1ms"},
		{"stopped by MaxElapsed", bounded, []time.Duration{10 * ms, 20 * ms, 30 * ms},
			"waits 10ms -> 20ms, then stops: elapsed", "want  10ms -> 20ms -> 30ms"},
		{"not yet stopped by MaxElapsed", bounded, []time.Duration{10 * ms},
			"waits 10ms -> 20ms, then stops: elapsed", "want  10ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fails(t, func(t testing.TB) { retrytest.Schedule(t, tc.policy, tc.want...) },
				"retrytest: "+tc.policy.String(), tc.waits, tc.line)
		})
	}
}
