package retry_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

func TestWithMaxAttempts(t *testing.T) {
	byRetries := retry.Policy{MaxRetries: 2}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		n      int
		limit  int
		fault  string // "": there is no error
	}{
		{"0 does not make a policy with a MaxElapsed unlimited", retry.Policy{MaxAttempts: 3, MaxElapsed: time.Minute}, 0, 3, "retry: max attempts is 0: write 1 for no retry, or -1 for unlimited"},
		{"-2 is not unlimited", byRetries, -2, 3, "retry: max attempts is -2: write 1 for no retry, or -1 for unlimited"},
		{"the least number", byRetries, math.MinInt, 3, "retry: max attempts is " + strconv.Itoa(math.MinInt) + ": write 1 for no retry, or -1 for unlimited"},
		{"an unlimited MaxRetries does not raise the limit", retry.Policy{MaxRetries: retry.Unlimited}, 2, 2, ""},
		{"the limit of Default does not lower the limit", retry.Default(), 10, 10, ""},
		{"the greatest number", byRetries, math.MaxInt, math.MaxInt, ""},
		{"an AttemptCap still applies", retry.Policy{MaxAttempts: 2, AttemptCap: 5}, 9, 5, ""},
		{"NonRetryable still applies", retry.Policy{MaxAttempts: 2, NonRetryable: true}, 9, 1, ""},
		{"an invalid policy stays invalid", retry.Policy{MaxDelay: -1}, 9, 1, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, err := row.policy.WithMaxAttempts(row.n)
			assert.Equal(t, row.limit, p.EffectiveMax())
			if row.fault == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, row.fault)
			assert.Equal(t, row.policy, p, "after an error, the policy is unchanged")
		})
	}
}

func TestForJob(t *testing.T) {
	p := retry.Default()
	p.AttemptCap, p.MaxElapsed, p.Budget = 7, time.Minute, &retry.Budget{Size: 1, Ratio: .1}
	derived := p.ForJob(3)
	assert.Equal(t, 3, derived.EffectiveMax())
	assert.Equal(t, 5, p.EffectiveMax(), "p itself is not changed")
	derived.MaxAttempts, derived.MaxRetryAfter = p.MaxAttempts, 0
	assert.Equal(t, p, derived, "only the limits change")

	byRetries := retry.Policy{MaxRetries: 4, Backoff: retry.Fixed(time.Second), MaxRetryAfter: time.Second}
	for _, none := range []int{0, -1, math.MinInt} {
		assert.Equal(t, byRetries, byRetries.ForJob(none), "a job without a limit changes nothing")
	}
	assert.Equal(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), MaxRetryAfter: time.Second}, byRetries.ForJob(3), "one limit remains")
	bad := retry.Policy{MaxAttempts: -2}
	assert.Equal(t, bad, bad.ForJob(3), "the job's limit does not make a policy valid")
}

// No goroutine waits while a job is in its queue, so a server may ask a job for a wait of more than
// a minute.
func TestTheLongestRetryAfterOfAJob(t *testing.T) {
	const day = 24 * time.Hour
	long := func(set, delay time.Duration) retry.Policy {
		p := retry.Default()
		p.MaxRetryAfter, p.MaxDelay = set, delay
		return p
	}
	for _, row := range []struct {
		policy retry.Policy
		asked  time.Duration
		want   retry.Reason
	}{
		{retry.Default(), 90 * time.Second, retry.ReasonRetry},
		{retry.Default(), 5 * time.Hour, retry.ReasonRetry},
		{retry.Default(), day, retry.ReasonRetry},
		{retry.Default(), day + 1, retry.ReasonRetryAfter},
		{long(0, 2*day), 2 * day, retry.ReasonRetry},
		{long(0, 2*day), 2*day + 1, retry.ReasonRetryAfter},
		{long(time.Minute, 0), time.Minute, retry.ReasonRetry},
		{long(time.Minute, 2*day), time.Minute + 1, retry.ReasonRetryAfter},
		{long(7*day, 0), 7 * day, retry.ReasonRetry},
		{retry.Policy{MaxElapsed: time.Hour}, time.Hour, retry.ReasonRetry},
		{retry.Policy{MaxElapsed: time.Hour}, time.Hour + 1, retry.ReasonElapsed},
		{retry.Policy{MaxElapsed: day}, 2 * day, retry.ReasonRetryAfter},
		{retry.Policy{MaxElapsed: 3 * day, MaxRetryAfter: 3 * day}, 2 * day, retry.ReasonRetry},
	} {
		for _, limit := range []int{0, 3} {
			d := row.policy.ForJob(limit).Next(retry.Attempt{Number: 1, Err: retry.After(row.asked, errBoom), Seed: 1})
			assert.Equal(t, row.want, d.Reason, "%v after %v", row.policy, row.asked)
			assert.GreaterOrEqual(t, d.Delay, row.asked)
		}
	}
	assert.Equal(t, retry.ReasonRetryAfter, retry.Default().Next(retry.Attempt{Number: 1, Err: retry.After(90*time.Second, errBoom)}).Reason, "for a call, the limit is one minute")
}

func TestPolicyString(t *testing.T) {
	for _, row := range []struct {
		policy retry.Policy
		want   string
	}{
		{retry.Policy{}, "1 attempt"},
		{retry.Default(), "5 attempts, exponential 200ms x2, at most 5s, ±50%"},
		{retry.Policy{MaxRetries: 3, Backoff: retry.Exponential{Base: 200 * time.Millisecond}, MaxDelay: 5 * time.Second, Jitter: retry.Proportional(.2)},
			"4 attempts, exponential 200ms x2, at most 5s, ±20%"},
		{retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(time.Second)}, "unlimited attempts, fixed 1s"},
		{retry.Policy{MaxAttempts: -1, AttemptCap: 9, Backoff: retry.Linear(time.Second), Jitter: retry.FullJitter}, "9 attempts, linear 1s, full jitter"},
		{retry.Policy{MaxAttempts: 3, Backoff: retry.Fibonacci(time.Second), Jitter: retry.EqualJitter}, "3 attempts, fibonacci 1s, equal jitter"},
		{retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{time.Second, time.Minute}}, "3 attempts, schedule [1s 1m0s]"},
		{retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second, Factor: 1.5}, Jitter: retry.Proportional(.125)}, "3 attempts, exponential 1s x1.5, ±12.5%"},
		{retry.Policy{MaxAttempts: 3, Backoff: untouchable{}, Jitter: untouchable{}}, "3 attempts, backoff retry_test.untouchable, jitter retry_test.untouchable"},
		{retry.Policy{MaxAttempts: 3, MaxElapsed: time.Minute, AttemptTimeout: time.Second, MaxRetryAfter: time.Hour}, "3 attempts, within 1m0s, 1s for each, Retry-After at most 1h0m0s"},
		{retry.Policy{MaxAttempts: 3, HealthyAfter: time.Minute, RetryAfter: retry.RetryAfterExact}, "3 attempts, healthy after 1m0s, Retry-After exactly, at most 1m0s"},
		{retry.Policy{MaxAttempts: 3, RetryAfter: retry.RetryAfterAtLeast}, "3 attempts, Retry-After without jitter, at most 1m0s"},
		{retry.Policy{MaxAttempts: 3, MaxDelay: time.Hour, RetryAfter: retry.RetryAfterExact}, "3 attempts, at most 1h0m0s, Retry-After exactly, at most 1h0m0s"},
		{retry.Policy{Backoff: retry.Fixed(time.Second), MaxElapsed: time.Minute}, "unlimited attempts, fixed 1s, within 1m0s"},
		{retry.Policy{MaxAttempts: -2}, "invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited"},
	} {
		t.Run(row.want, func(t *testing.T) {
			assert.Equal(t, row.want, row.policy.String())
			assert.Equal(t, row.want, fmt.Sprint(row.policy))
		})
	}
}
