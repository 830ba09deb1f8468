package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

var errNetworkGone = errors.New("the network is gone")

// sleep is a Wait that waits for d, changed by change, and skips nothing.
func sleep(change func(time.Duration) time.Duration) func(context.Context, time.Duration) (time.Duration, error) {
	return func(ctx context.Context, d time.Duration) (time.Duration, error) {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(change(d)):
			return 0, nil
		}
	}
}

func exactly(d time.Duration) time.Duration { return d }

func TestWait(t *testing.T) {
	p := retry.Policy{MaxAttempts: 4, Backoff: retry.Linear(time.Second)}
	skip := func(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }
	for _, row := range []struct {
		name   string
		policy retry.Policy
		wait   func(context.Context, time.Duration) (time.Duration, error)
		took   time.Duration // by the clock of the bubble
		want   string
	}{
		{"as long as it is told", p, sleep(exactly), 6 * time.Second, "attempts exhausted after 4 attempts (6s waited)"},
		{"early: the network is back", p, sleep(func(d time.Duration) time.Duration { return d / 2 }), 3 * time.Second, "attempts exhausted after 4 attempts (3s waited)"},
		{"late", p, sleep(func(d time.Duration) time.Duration { return 2 * d }), 12 * time.Second, "attempts exhausted after 4 attempts (12s waited)"},
		{"skips all", p, skip, 0, "attempts exhausted after 4 attempts (6s waited)"},
		{"skips more than there is", p, func(_ context.Context, d time.Duration) (time.Duration, error) { return 10 * d, nil }, 0, "attempts exhausted after 4 attempts (6s waited)"},
		{"skips less than nothing", p, func(_ context.Context, d time.Duration) (time.Duration, error) { return -d, nil }, 0, "attempts exhausted after 4 attempts"},
		{"skips half and waits for half", p, func(_ context.Context, d time.Duration) (time.Duration, error) { time.Sleep(d / 2); return d / 2, nil }, 3 * time.Second, "attempts exhausted after 4 attempts (6s waited)"},
		{"skipped waits count for MaxElapsed", retry.Policy{MaxElapsed: 4 * time.Second, Backoff: retry.Fixed(time.Second)}, skip, 0, "out of time after 5 attempts (4s waited, the next delay of 1s would exceed MaxElapsed 4s)"},
		{"late beyond MaxElapsed", retry.Policy{MaxElapsed: 4 * time.Second, Backoff: retry.Fixed(time.Second)}, sleep(func(time.Duration) time.Duration { return time.Minute }), time.Minute, "out of time after 1 attempt (1m0s waited, 1m0s have passed, MaxElapsed is 4s)"},
		{"late without a delay", retry.Policy{MaxAttempts: 3, MaxElapsed: time.Second}, sleep(func(time.Duration) time.Duration { return time.Minute }), time.Minute, "out of time after 1 attempt (1m0s waited, 1m0s have passed, MaxElapsed is 1s)"},
		{"skips all, late", retry.Policy{MaxAttempts: 3, MaxElapsed: time.Minute, Backoff: retry.Fixed(time.Second)}, func(_ context.Context, d time.Duration) (time.Duration, error) { time.Sleep(time.Hour); return d, nil }, time.Hour, "out of time after 1 attempt (1h0m1s waited, 1h0m1s have passed, MaxElapsed is 1m0s)"},
		{"an error", p, func(context.Context, time.Duration) (time.Duration, error) { return 0, errNetworkGone }, 0, "the wait failed after 1 attempt (the next delay is 1s, the network is gone)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, watched := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					row.policy.Wait = row.wait
					if row.policy.OnEvent = nil; watched {
						row.policy.OnEvent = func(context.Context, retry.Event) {}
					}
					start := time.Now()
					err := retry.Do(t.Context(), row.policy, func(context.Context) error { return errBoom })
					assert.EqualError(t, err, "retry: "+row.want+": boom")
					assert.Equal(t, row.took, time.Since(start))
				})
			}
		})
	}
}

// It is called once for each retry, also for a delay of 0, after RetryScheduled,
// with what is left of the delay and the context of the call.
func TestWhenWaitIsCalled(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithValue(t.Context(), key{}, "the call's")
		var log []string
		p := retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{0, time.Second, time.Second}, AttemptTimeout: time.Hour}
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				log = append(log, fmt.Sprintf("scheduled %v", e.Delay))
				time.Sleep([]time.Duration{0, 400 * time.Millisecond, 2 * time.Second}[e.Attempt-1])
			}
		}
		p.Wait = func(ctx context.Context, d time.Duration) (time.Duration, error) {
			_, bounded := ctx.Deadline()
			log = append(log, fmt.Sprintf("wait %v, context %v, bounded %v", d, ctx.Value(key{}), bounded))
			return d, nil
		}
		err := retry.Do(ctx, p, func(context.Context) error { log = append(log, "attempt"); return errBoom })
		var failed *retry.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, []string{
			"attempt",
			"scheduled 0s", "wait 0s, context the call's, bounded false", "attempt",
			"scheduled 1s", "wait 600ms, context the call's, bounded false", "attempt",
			"scheduled 1s", "wait 0s, context the call's, bounded false", "attempt",
		}, log)
		assert.Equal(t, 2*time.Second, failed.Waited, "OnEvent took a part of it")
	})
}

// The clock of the call runs ahead by what is skipped, in events and for the
// context's deadline.
func TestTheClockOfSkippedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithDeadline(t.Context(), start.Add(10*time.Second))
		defer cancel()
		var log []string
		p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(3 * time.Second)}
		p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind != retry.AttemptFinished {
				log = append(log, fmt.Sprintf("%s at %v, elapsed %v, due %v", e.Kind, e.Time.Sub(start), e.Elapsed, max(0, e.Due.Sub(start))))
			}
		}
		err := retry.Do(ctx, p, func(context.Context) error { return errBoom })
		assert.EqualError(t, err, "retry: deadline too close after 4 attempts (9s waited, the next delay is 3s, 1s are left): boom")
		assert.Equal(t, []string{
			"attempt_started at 0s, elapsed 0s, due 0s",
			"retry_scheduled at 0s, elapsed 0s, due 3s",
			"attempt_started at 3s, elapsed 3s, due 0s",
			"retry_scheduled at 3s, elapsed 3s, due 6s",
			"attempt_started at 6s, elapsed 6s, due 0s",
			"retry_scheduled at 6s, elapsed 6s, due 9s",
			"attempt_started at 9s, elapsed 9s, due 0s",
			"stopped at 9s, elapsed 9s, due 0s",
		}, log)
		assert.Zero(t, time.Since(start))
	})
}

func TestAWaitThatFails(t *testing.T) {
	b := &retry.Budget{Size: 3}
	outer := &retry.Budget{Size: 3}
	ctx := retry.WithBudget(t.Context(), outer)
	p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Hour), Budget: b}
	left := func() []int { return []int{b.Left(), outer.Left()} }

	t.Run("stops the call with its error as Cause, and gives the retry back", func(t *testing.T) {
		p := p
		var stopped retry.Event
		p.OnEvent = func(_ context.Context, e retry.Event) { stopped = e }
		p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errNetworkGone }
		err := retry.Do(ctx, p, func(context.Context) error { return errBoom })
		assert.Equal(t, retry.ReasonWait, retry.ReasonOf(err))
		require.ErrorIs(t, err, errNetworkGone)
		assert.Equal(t, errBoom, retry.LastError(err))
		assert.Equal(t, errBoom, retry.Plain(err))
		assert.Equal(t, []any{retry.ReasonWait, errNetworkGone}, []any{stopped.Reason, stopped.Cause})
		assert.Equal(t, []int{3, 3}, left())
	})
	t.Run("binds no outer call", func(t *testing.T) {
		p := p
		p.Wait = func(context.Context, time.Duration) (time.Duration, error) {
			return 0, retry.Permanent(retry.After(time.Hour, errNetworkGone))
		}
		err := retry.Do(t.Context(), p, func(context.Context) error { return errBoom })
		assert.Equal(t, retry.Decision{Reason: retry.ReasonRetry}, retry.Policy{MaxAttempts: 2}.Next(retry.Attempt{Number: 1, Err: err}))
	})
	t.Run("a canceled context goes before its error", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		p := p
		p.Wait = func(context.Context, time.Duration) (time.Duration, error) { cancel(); return 0, errNetworkGone }
		err := retry.Do(ctx, p, func(context.Context) error { return errBoom })
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.NotErrorIs(t, err, errNetworkGone)
		assert.Equal(t, []int{3, 3}, left())
	})
	t.Run("a canceled context goes before a Wait that did not notice", func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		p := p
		p.Wait = func(context.Context, time.Duration) (time.Duration, error) { cancel(); return 0, nil }
		err := retry.Do(ctx, p, func(context.Context) error { return errBoom })
		assert.EqualError(t, err, "retry: canceled after 1 attempt (the next delay is 1h0m0s, context canceled): boom")
		assert.Equal(t, []int{3, 3}, left())
	})
	t.Run("a panic gives the retry back", func(t *testing.T) {
		p := p
		p.Wait = func(context.Context, time.Duration) (time.Duration, error) { panic("no network") }
		assert.PanicsWithValue(t, "no network", func() {
			_ = retry.Do(ctx, p, func(context.Context) error { return errBoom })
		})
		assert.Equal(t, []int{3, 3}, left())
	})
	t.Run("a deadline that passed meanwhile gives the retry back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := &retry.Budget{Size: 3}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			p := p
			p.Budget = b
			p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) {
				time.Sleep(3 * time.Hour)
				return 0, nil
			}
			err := retry.Do(ctx, p, func(context.Context) error { return errBoom })
			assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
			assert.Equal(t, 3, b.Left())
		})
	})
}

func TestOnceAndNextNeverWait(t *testing.T) {
	p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Hour)}
	p.Wait = func(context.Context, time.Duration) (time.Duration, error) { panic("called") }
	d, err := retry.Once(t.Context(), p, retry.Attempt{Number: 1}, func(context.Context) error { return errBoom })
	assert.Equal(t, d, p.Next(retry.Attempt{Number: 1, Err: errBoom}))
	assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
}
