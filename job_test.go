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
	"github.com/goretry/retry/internal/hook"
)

// A jobSource makes a call one attempt of a job, as the Source of package
// retryjob does. The tests of retryjob cover the rest.
type jobSource struct {
	attempts int
	first    time.Time
	decided  []retry.Decision
}

func (s *jobSource) Uint64() uint64                   { return 42 }
func (s *jobSource) Begun(hook.Mark) (int, time.Time) { return s.attempts, s.first }
func (s *jobSource) Decided(_ hook.Mark, decided retry.Decision) {
	s.decided = append(s.decided, decided)
}

// attemptOf makes an attempt of a job that has made this many already, the
// first of them a minute ago.
func attemptOf(ctx context.Context, p retry.Policy, attempts int, fn func(context.Context) error) (s *jobSource, events []retry.Event, err error) {
	s = &jobSource{attempts: attempts, first: time.Now().Add(-time.Minute)}
	watch := p.OnEvent
	p.Source = s
	p.OnEvent = func(ctx context.Context, e retry.Event) {
		events = append(events, e)
		if watch != nil {
			watch(ctx, e)
		}
	}
	err = retry.Do(ctx, p, fn)
	return s, events, err
}

func kinds(events []retry.Event) (kinds []retry.EventKind) {
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestOneAttemptOfAJob(t *testing.T) {
	boom := errors.New("boom")
	fails := func(context.Context) error { return boom }
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter}

	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s, events, err := attemptOf(t.Context(), p, 1, fails)
		assert.Zero(t, time.Since(began), "it does not wait")
		d := p.Next(retry.Attempt{Number: 2, Err: boom, Seed: 42})
		assert.Equal(t, []retry.Decision{d}, s.decided)
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, retry.ReasonRetry, e.Reason)
		assert.Equal(t, 2, e.Attempts)
		assert.Equal(t, d.Delay, e.Delay)
		assert.Zero(t, e.Waited)
		assert.Contains(t, err.Error(), "retry: trying again after 2 attempts (the next delay is ")
		assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled}, kinds(events))
		for _, event := range events {
			assert.Equal(t, 2, event.Attempt)
			assert.Equal(t, time.Minute, event.Elapsed)
			assert.Equal(t, began, event.Time)
		}
	})

	_, events, err := attemptOf(t.Context(), p, 2, fails)
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.Stopped}, kinds(events))

	s, _, err := attemptOf(t.Context(), p, 2, func(context.Context) error { return nil })
	assert.NoError(t, err)
	assert.Empty(t, s.decided)
}

func TestAJobWithoutAttemptsLeft(t *testing.T) {
	for name, row := range map[string]struct {
		policy   retry.Policy
		attempts int
		reason   retry.Reason // 0 if the attempt runs
		made     int
	}{
		"one left":      {retry.Policy{MaxAttempts: 3}, 2, 0, 0},
		"none left":     {retry.Policy{MaxAttempts: 3}, 3, retry.ReasonExhausted, 3},
		"handed out":    {retry.Policy{MaxAttempts: 3}, 9, retry.ReasonExhausted, 3},
		"not retryable": {retry.Policy{MaxAttempts: 3, NonRetryable: true}, 1, retry.ReasonNonRetryable, 1},
		"unlimited":     {retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(1)}, 9, 0, 0},
		"invalid":       {retry.Policy{MaxAttempts: -2}, 1, retry.ReasonInvalid, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			_, events, err := attemptOf(t.Context(), row.policy, row.attempts, func(context.Context) error { ran = true; return nil })
			assert.Equal(t, row.reason == 0, ran)
			if row.reason == 0 {
				assert.NoError(t, err)
				return
			}
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, row.reason, e.Reason)
			assert.Equal(t, row.made, e.Attempts)
			assert.NoError(t, e.Err)
			assert.Equal(t, []retry.EventKind{retry.Stopped}, kinds(events))
		})
	}
}

// A deadline of the context bounds the attempt of a job, not the job: only a
// cancellation stops it.
func TestTheContextOfAJob(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // before the deadline, and after it
			s, _, err := attemptOf(ctx, p, 1, func(context.Context) error { return errors.New("boom") })
			if ctx.Err() != nil {
				assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err), "no attempt runs after the deadline")
				assert.Empty(t, s.decided)
				break
			}
			assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
			_, _, err = attemptOf(ctx, p, 1, wait)
			assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err), "the deadline passed in the attempt")
		}
		ctx, stop := context.WithCancel(t.Context())
		s, events, err := attemptOf(ctx, p, 1, func(ctx context.Context) error { stop(); return ctx.Err() })
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.Len(t, s.decided, 1)
		assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.Stopped}, kinds(events))
	})
}

// A later attempt of a job takes from the Budgets like a later attempt of a
// call, and it gives back only what it took.
func TestTheBudgetsOfAJob(t *testing.T) {
	fails := func(context.Context) error { return errors.New("boom") }
	own, outer := retry.NewBudget(3, 0), retry.NewBudget(2, 0)
	p := retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(1), Budget: own}
	ctx := retry.WithBudget(t.Context(), outer)
	for range 2 {
		_, _, err := attemptOf(ctx, p, 5, fails)
		assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
	}
	_, _, err := attemptOf(ctx, p, 5, fails)
	assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
	assert.Equal(t, 1, own.Left())
	assert.Zero(t, outer.Left())

	for kind, left := range map[retry.EventKind]int{retry.AttemptStarted: 1, retry.RetryScheduled: 1} {
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == kind {
				panic("oh")
			}
		}
		assert.PanicsWithValue(t, "oh", func() { _, _, _ = attemptOf(t.Context(), p, 5, fails) })
		assert.Equal(t, left, own.Left(), kind)
	}
}
