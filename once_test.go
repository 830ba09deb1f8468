package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// once makes an attempt of a job that has made this many already, the first of
// them a minute ago, and returns the decision and the events.
func once(ctx context.Context, p retry.Policy, attempts int, fn func(context.Context) error) (d retry.Decision, events []retry.Event, err error) {
	watch := p.OnEvent
	p.OnEvent = func(ctx context.Context, e retry.Event) {
		events = append(events, e)
		if watch != nil {
			watch(ctx, e)
		}
	}
	d, err = retry.Once(ctx, p, retry.Attempt{Number: attempts + 1, Elapsed: time.Minute, Seed: 42}, fn)
	return d, events, err
}

func kinds(events []retry.Event) (kinds []retry.EventKind) {
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func failAlways(context.Context) error { return errDial }

func TestOnce(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter}
	bubble(t, "an attempt that a retry follows", func(t *testing.T) {
		began := time.Now()
		d, events, err := once(t.Context(), p, 1, failAlways)
		assert.Zero(t, time.Since(began), "it does not wait")
		assert.Equal(t, p.Next(retry.Attempt{Number: 2, Err: errDial, Seed: 42}), d)
		assert.True(t, d.Retry())
		assert.Equal(t, &retry.Error{Reason: retry.ReasonRetry, Attempts: 2, Delay: d.Delay, Err: errDial}, plain(err))
		assert.ErrorContains(t, err, "retry: trying again after 2 attempts (the next delay is ")
		assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled}, kinds(events))
		for _, event := range events {
			assert.Equal(t, 2, event.Attempt)
			assert.Equal(t, time.Minute, event.Elapsed)
			assert.Equal(t, began, event.Time)
		}
		scheduled := events[2]
		assert.Equal(t, began.Add(d.Delay), scheduled.Due)
		assert.Equal(t, d.Delay, retry.Draw(scheduled.Seed, scheduled.Attempt, scheduled.Lo, scheduled.Hi))
	})
	bubble(t, "the last attempt", func(t *testing.T) {
		d, events, err := once(t.Context(), p, 2, failAlways)
		assert.Equal(t, retry.ReasonExhausted, d.Reason)
		assert.Equal(t, &retry.Error{Reason: retry.ReasonExhausted, Attempts: 3, Delay: d.Delay, Err: errDial}, plain(err))
		assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.Stopped}, kinds(events))
	})
	bubble(t, "a success", func(t *testing.T) {
		d, events, err := once(t.Context(), p, 2, func(context.Context) error { return nil })
		assert.NoError(t, err)
		assert.Equal(t, retry.Decision{Reason: retry.ReasonSuccess}, d)
		assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.Stopped}, kinds(events))
	})
	t.Run("a Number below 1 is the first attempt", func(t *testing.T) {
		for _, number := range []int{1, 0, -7} {
			_, err := retry.Once(t.Context(), p, retry.Attempt{Number: number}, failAlways)
			assert.Equal(t, 1, stopped(t, err).Attempts)
		}
	})
	t.Run("nil context and nil function", func(t *testing.T) {
		d, err := retry.Once(noContext, p, retry.Attempt{Number: 1}, failAlways)
		assert.EqualError(t, err, "retry: invalid call before the first attempt (nil context)")
		assert.Equal(t, retry.Decision{Reason: retry.ReasonInvalid}, d)
		d, err = retry.Once(t.Context(), p, retry.Attempt{Number: 1}, nil)
		assert.EqualError(t, err, "retry: invalid call before the first attempt (nil function)")
		assert.Equal(t, retry.Decision{Reason: retry.ReasonInvalid}, d)
	})
}

func TestOnceWithoutAnAttemptLeft(t *testing.T) {
	for name, row := range map[string]struct {
		policy   retry.Policy
		attempts int
		reason   retry.Reason // "" if the attempt runs
		made     int
	}{
		"one left":      {retry.Policy{MaxAttempts: 3}, 2, "", 0},
		"none left":     {retry.Policy{MaxAttempts: 3}, 3, retry.ReasonExhausted, 3},
		"handed out":    {retry.Policy{MaxAttempts: 3}, 9, retry.ReasonExhausted, 3},
		"not retryable": {retry.Policy{MaxAttempts: 3, NonRetryable: true}, 1, retry.ReasonNonRetryable, 1},
		"unlimited":     {retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(1)}, 9, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			d, events, err := once(t.Context(), row.policy, row.attempts, func(context.Context) error { ran = true; return nil })
			assert.Equal(t, row.reason == "", ran)
			if row.reason == "" {
				assert.NoError(t, err)
				return
			}
			assert.Equal(t, row.reason, d.Reason)
			assert.Equal(t, &retry.Error{Reason: row.reason, Attempts: row.made}, plain(err))
			assert.Equal(t, []retry.EventKind{retry.Stopped}, kinds(events))
		})
	}
}

// A bad configuration must not bury the jobs in flight without a run.
func TestOnceUnderAnInvalidPolicyRuns(t *testing.T) {
	p := retry.Policy{MaxAttempts: -2}
	for _, attempts := range []int{0, 1, 9} {
		d, events, err := once(t.Context(), p, attempts, failAlways)
		assert.Equal(t, retry.Decision{Reason: retry.ReasonInvalid}, d)
		assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Attempts: attempts + 1, Err: errDial, Cause: stopped(t, err).Cause}, plain(err))
		assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.Stopped}, kinds(events))

		d, _, err = once(t.Context(), p, attempts, func(context.Context) error { return nil })
		assert.NoError(t, err)
		assert.Equal(t, retry.ReasonSuccess, d.Reason)
	}
}

// A deadline of the context bounds the attempt, not the job: only a cancellation
// stops it.
func TestOnceInAContext(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}
	bubble(t, "the deadline comes before the retry", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d, _, err := once(ctx, p, 1, failAlways)
		assert.Equal(t, drawnFrom(time.Hour, retry.ReasonRetry), d)
		assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
	})
	bubble(t, "the deadline passes in the attempt", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d, _, err := once(ctx, p, 1, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		assert.Equal(t, drawnFrom(time.Hour, retry.ReasonRetry), d)
		assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
	})
	bubble(t, "the deadline has passed: no attempt runs", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		d, events, err := once(ctx, p, 1, func(context.Context) error { panic("fn runs") })
		assert.Equal(t, retry.Decision{Reason: retry.ReasonDeadline}, d)
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, []retry.EventKind{retry.Stopped}, kinds(events))
	})
	bubble(t, "canceled in the attempt", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		d, events, err := once(ctx, p, 1, func(context.Context) error { cancel(errShutdown); return errDial })
		assert.Equal(t, drawnFrom(time.Hour, retry.ReasonCanceled), d, "with the delay that it would have had")
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.ErrorIs(t, err, errShutdown)
		assert.ErrorIs(t, err, errDial)
		assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.Stopped}, kinds(events))
	})
	bubble(t, "an AttemptTimeout is an ordinary failure", func(t *testing.T) {
		p := p
		p.AttemptTimeout = time.Minute
		start := time.Now()
		d, _, err := once(t.Context(), p, 0, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		assert.Equal(t, drawnFrom(time.Hour, retry.ReasonRetry), d)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// A later attempt of a job takes from the Budgets like a later attempt of a call,
// and it gives back only what it took.
func TestOnceTakesFromTheBudgets(t *testing.T) {
	own, outer := &retry.Budget{Size: 3, Ratio: 1}, &retry.Budget{Size: 2}
	p := retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(1), Budget: own}
	ctx := retry.WithBudget(t.Context(), outer)
	for range 2 {
		_, _, err := once(ctx, p, 5, failAlways)
		assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
	}
	d, _, err := once(ctx, p, 5, failAlways)
	assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
	assert.Equal(t, drawnFrom(1, retry.ReasonBudget), d)
	assert.Equal(t, 1, own.Left())
	assert.Zero(t, outer.Left())

	for _, kind := range []retry.EventKind{retry.AttemptStarted, retry.RetryScheduled} {
		watched := p
		watched.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == kind {
				panic("oh")
			}
		}
		assert.PanicsWithValue(t, "oh", func() { _, _, _ = once(t.Context(), watched, 5, failAlways) })
		assert.Equal(t, 1, own.Left(), kind)
	}

	_, _, err = once(ctx, p, 5, func(context.Context) error { return nil })
	require.NoError(t, err)
	assert.Equal(t, 2, own.Left(), "a success of an attempt is a success")
	assert.Zero(t, outer.Left(), "but puts nothing back into a Budget of the context")
}

func TestOnceNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(time.Hour)}
		p.Wait = func(context.Context, time.Duration) (time.Duration, error) { return 0, errors.New("Wait was called") }
		start := time.Now()
		d, err := retry.Once(t.Context(), p, retry.Attempt{Number: 1}, failAlways)
		assert.Equal(t, drawnFrom(time.Hour, retry.ReasonRetry), d)
		assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
		assert.Zero(t, time.Since(start))
	})
}
