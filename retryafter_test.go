package retry_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// The spread above a Retry-After is cut to the time that is left: what a server
// asked for fits, so the retry is made.
func TestTheSpreadAboveARetryAfterDoesNotEndTheCall(t *testing.T) {
	full := retry.Default()
	full.Jitter = retry.FullJitter
	exporter := retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Exponential{Base: 5 * time.Second, Factor: 1.5}, MaxDelay: 30 * time.Second, Jitter: retry.Proportional(0.5)}
	for _, row := range []struct {
		name       string
		policy     retry.Policy
		timeout    time.Duration // of the context; 0: none
		retryAfter time.Duration
		most       time.Duration // the latest retry
	}{
		{"Default, 5s, Retry-After 4s", retry.Default(), 5 * time.Second, 4 * time.Second, 4500 * time.Millisecond},
		{"Default, 10s, Retry-After 8s", retry.Default(), 10 * time.Second, 8 * time.Second, 9 * time.Second},
		{"Default with FullJitter, 55s, Retry-After 30s", full, 55 * time.Second, 30 * time.Second, 35 * time.Second},
		{"an exporter, MaxElapsed 60s, Retry-After 45s", exporter, 0, 45 * time.Second, time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spread := map[time.Duration]int{}
				for range 2000 {
					ctx, cancel := t.Context(), func() {}
					if row.timeout > 0 {
						ctx, cancel = context.WithTimeout(ctx, row.timeout)
					}
					var scheduled retry.Event
					row.policy.OnEvent = func(_ context.Context, e retry.Event) {
						if e.Kind == retry.RetryScheduled {
							scheduled = e
						}
					}
					attempts := 0
					err := retry.Do(ctx, row.policy, func(context.Context) error {
						if attempts++; attempts == 1 {
							return retry.After(row.retryAfter, errBoom)
						}
						return nil
					})
					cancel()
					require.NoError(t, err)
					require.GreaterOrEqual(t, scheduled.Delay, row.retryAfter)
					require.LessOrEqual(t, scheduled.Delay, row.most)
					require.Equal(t, scheduled.Delay, retry.Draw(scheduled.Seed, 1, scheduled.Lo, scheduled.Hi))
					spread[scheduled.Delay]++
				}
				assert.Greater(t, len(spread), 1900, "clients do not come back at once")
			})
		})
	}
}

func TestTheCutAboveARetryAfter(t *testing.T) {
	const second = time.Second
	base := retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(10 * second), Jitter: retry.Proportional(0.5), MaxElapsed: 100 * second}
	for _, row := range []struct {
		name       string
		retryAfter time.Duration
		elapsed    time.Duration
		lo, hi     time.Duration
		reason     retry.Reason
	}{
		{"enough time: not cut", 20 * second, 0, 20 * second, 40 * second, retry.ReasonRetry},
		{"cut to what is left", 20 * second, 70 * second, 20 * second, 30 * second, retry.ReasonRetry},
		{"exactly as much as is left", 20 * second, 80 * second, 20 * second, 20 * second, retry.ReasonRetry},
		{"a nanosecond too long: not cut, and too late", 20*second + 1, 80 * second, 20*second + 1, 40*second + 1, retry.ReasonElapsed},
		{"equal to the low end of the curve", 5 * second, 92 * second, 5 * second, 8 * second, retry.ReasonRetry},
		{"shorter than the curve: not cut", 5*second - 1, 92 * second, 5 * second, 15 * second, ""},
		{"none: not cut", 0, 92 * second, 5 * second, 15 * second, ""},
		{"an Elapsed below 0", 60 * second, -50 * second, 60 * second, 100 * second, retry.ReasonRetry},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := base.Next(retry.Attempt{Number: 1, Err: retry.After(row.retryAfter, errBoom), Elapsed: row.elapsed, Seed: 7})
			assert.Equal(t, []time.Duration{row.lo, row.hi}, []time.Duration{d.Lo, d.Hi})
			assert.Equal(t, retry.Draw(7, 1, d.Lo, d.Hi), d.Delay)
			if row.reason != "" {
				assert.Equal(t, row.reason, d.Reason)
			}
			assert.Equal(t, row.lo == row.hi, d.Seed == 0, "a seed stands for a random delay")
		})
	}
	t.Run("a deadline leaves half of what the wait leaves to the attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for left, want := range map[time.Duration]time.Duration{
				80 * second: 40 * second, 61 * second: 40 * second, 60 * second: 40 * second, 59 * second: 39500 * time.Millisecond,
				21 * second: 20500 * time.Millisecond, 20*second + 2: 20*second + 1, 20*second + 1: 20 * second,
			} {
				ctx, cancel := context.WithTimeout(t.Context(), left)
				p := base
				p.MaxElapsed = 0
				var hi time.Duration
				p.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == retry.RetryScheduled {
						hi = e.Hi
						cancel()
					}
				}
				_ = retry.Do(ctx, p, func(context.Context) error { return retry.After(20*second, errBoom) })
				assert.Equal(t, want, hi, "%v left", left)
				cancel()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*second)
			defer cancel()
			err := retry.Do(ctx, base, func(context.Context) error { return retry.After(20*second, errBoom) })
			assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err), "the wait itself does not fit")
		})
	})
	t.Run("Once is not bound by the context's deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 21*second)
			defer cancel()
			d, _ := retry.Once(ctx, base, retry.Attempt{Number: 1}, func(context.Context) error { return retry.After(20*second, errBoom) })
			assert.Equal(t, []any{retry.ReasonRetry, 40 * second}, []any{d.Reason, d.Hi})
		})
	})
}

func TestExactRetryAfter(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: 9, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.FullJitter, MaxDelay: 20 * time.Second,
		ExactRetryAfter: true, MaxRetryAfter: time.Minute, MaxElapsed: time.Hour,
	}
	const ms = time.Millisecond
	for _, row := range []struct {
		retryAfter time.Duration
		want       retry.Decision
	}{
		{time.Minute, retry.Decision{Reason: retry.ReasonRetry, Delay: time.Minute, Lo: time.Minute, Hi: time.Minute, RetryAfter: time.Minute}},
		{time.Minute + 1, retry.Decision{Reason: retry.ReasonRetryAfter, Delay: time.Minute + 1, Lo: time.Minute + 1, Hi: time.Minute + 1, RetryAfter: time.Minute + 1}},
		{time.Second, retry.Decision{Reason: retry.ReasonRetry, Delay: time.Second, Lo: time.Second, Hi: time.Second, RetryAfter: time.Second}},
		{10 * ms, retry.Decision{Reason: retry.ReasonRetry, Delay: 10 * ms, Lo: 10 * ms, Hi: 10 * ms, RetryAfter: 10 * ms}},
		{10*ms - 1, retry.Decision{Reason: retry.ReasonRetry, Delay: retry.Draw(7, 1, 0, 10*time.Second), Hi: 10 * time.Second, Seed: 7}},
		{1, retry.Decision{Reason: retry.ReasonRetry, Delay: retry.Draw(7, 1, 0, 10*time.Second), Hi: 10 * time.Second, Seed: 7}},
		{0, retry.Decision{Reason: retry.ReasonRetry, Delay: retry.Draw(7, 1, 0, 10*time.Second), Hi: 10 * time.Second, Seed: 7}},
		{-time.Hour, retry.Decision{Reason: retry.ReasonRetry, Delay: retry.Draw(7, 1, 0, 10*time.Second), Hi: 10 * time.Second, Seed: 7}},
	} {
		t.Run(fmt.Sprint(row.retryAfter), func(t *testing.T) {
			assert.Equal(t, row.want, p.Next(retry.Attempt{Number: 1, Err: retry.After(row.retryAfter, errBoom), Seed: 7}))
		})
	}
	t.Run("of a class", func(t *testing.T) {
		exact, loose := retry.Policy{ExactRetryAfter: true}, p
		loose.ExactRetryAfter = false
		loose.Classify = func(error) *retry.Class { return &retry.Class{Policy: &exact} }
		assert.Equal(t, time.Second, loose.Next(retry.Attempt{Number: 1, Err: retry.After(time.Second, errBoom)}).Delay)
		p := p
		p.Classify = func(error) *retry.Class { return &retry.Class{Policy: &retry.Policy{Backoff: retry.Fixed(time.Hour)}} }
		assert.Equal(t, time.Hour, p.Next(retry.Attempt{Number: 1, Err: retry.After(time.Second, errBoom)}).Delay, "a zero of the class is off")
	})
}

// Under a peer that asks for 1ns, a policy without a curve would be a hot loop
// that only MaxAttempts ends.
func TestExactRetryAfterHasAFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{MaxElapsed: 100 * time.Millisecond, Backoff: retry.Fixed(10 * time.Millisecond), ExactRetryAfter: true}
		attempts := 0
		_ = retry.Do(t.Context(), p, func(context.Context) error { attempts++; return retry.After(1, errBoom) })
		assert.Equal(t, 11, attempts)
	})
}
