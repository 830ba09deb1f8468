package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// The function `once` makes an attempt of a job. The parameter `attempts` is the number of earlier
// attempts. The first attempt was a minute ago. The results are the decision, the events and the
// error of Once.
func once(ctx context.Context, p retry.Policy, attempts int, fn func(context.Context) error) (retry.Decision, []retry.Event, error) {
	var told watch
	p.OnEvent = told.event
	d, err := retry.Once(ctx, p, retry.Attempt{Number: attempts + 1, Elapsed: time.Minute, Seed: 42}, fn)
	return d, told.events, err
}

func kinds(events []retry.Event) (kinds []retry.EventKind) {
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestOnce(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter}
	bubble(t, "a retry follows the attempt", func(t *testing.T) {
		began := time.Now()
		d, events, err := once(t.Context(), p, 1, failWith(errDial))
		assert.Zero(t, time.Since(began), "Once does not wait")
		assert.Equal(t, p.Next(retry.Attempt{Number: 2, Err: errDial, Seed: 42}), d)
		assert.True(t, d.Retry())
		assert.Equal(t, &retry.Error{Reason: retry.ReasonRetry, Attempts: 2, Delay: d.Delay, Err: errDial}, plain(err))
		assert.ErrorContains(t, err, "retry: trying again after 2 attempts (the next delay is ")
		assert.Equal(t, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled}, kinds(events))
		for _, event := range events {
			assert.Equal(t, []any{2, time.Minute, began}, []any{event.Attempt, event.Elapsed, event.Time})
		}
		scheduled := events[2]
		assert.Equal(t, began.Add(d.Delay), scheduled.Due)
		assert.Equal(t, d.Delay, retry.Draw(scheduled.Seed, scheduled.Attempt, scheduled.Lo, scheduled.Hi))
	})
	t.Run("a Number below 1 is the first attempt", func(t *testing.T) {
		for _, number := range []int{1, 0, -7} {
			_, err := retry.Once(t.Context(), p, retry.Attempt{Number: number}, failWith(errDial))
			assert.Equal(t, 1, stopped(t, err).Attempts)
		}
	})
	t.Run("a done context, without OnEvent and Enter", func(t *testing.T) {
		d, err := retry.Once(canceledBy(errShutdown)(t.Context()), p, retry.Attempt{}, func(context.Context) error { panic("it ran") })
		assert.Equal(t, retry.Decision{Reason: retry.ReasonCanceled}, d)
		assert.ErrorIs(t, err, errShutdown)
	})
	bubble(t, "an AttemptTimeout without OnEvent", func(t *testing.T) {
		p := p
		p.AttemptTimeout = time.Second
		_, err := retry.Once(t.Context(), p, retry.Attempt{}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
	})
	t.Run("nil context and nil function", func(t *testing.T) {
		for _, row := range []struct {
			ctx  context.Context
			fn   func(context.Context) error
			want string
		}{{noContext, failWith(errDial), "nil context"}, {t.Context(), nil, "nil function"}} {
			d, err := retry.Once(row.ctx, p, retry.Attempt{Number: 1}, row.fn)
			assert.EqualError(t, err, "retry: invalid call before the first attempt ("+row.want+")")
			assert.Equal(t, retry.Decision{Reason: retry.ReasonInvalid}, d)
		}
	})
}

func TestOnceStops(t *testing.T) {
	three := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}
	for _, row := range []struct {
		name     string
		policy   retry.Policy
		attempts int // how many attempts were made before
		fail     error
		want     retry.Decision
		ran      bool
		made     int
	}{
		{"the last attempt fails", three, 2, errDial, drawnFrom(3, time.Second, retry.ReasonExhausted), true, 3},
		{"the last attempt succeeds", three, 2, nil, retry.Decision{Reason: retry.ReasonSuccess}, true, 3},
		{"the attempts are used up", three, 3, nil, retry.Decision{Reason: retry.ReasonExhausted}, false, 3},
		{"the queue delivers the job again and again", three, 9, nil, retry.Decision{Reason: retry.ReasonExhausted}, false, 3},
		{"not retryable", retry.Policy{MaxAttempts: 3, NonRetryable: true}, 1, nil, retry.Decision{Reason: retry.ReasonNonRetryable}, false, 1},
		{"unlimited", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(1)}, 9, nil, retry.Decision{Reason: retry.ReasonSuccess}, true, 10},
		// A wrong configuration must not end a job before it has made an attempt.
		{"invalid, the first", retry.Policy{MaxAttempts: -2}, 0, errDial, retry.Decision{Reason: retry.ReasonInvalid}, true, 1},
		{"invalid, the tenth", retry.Policy{MaxAttempts: -2}, 9, errDial, retry.Decision{Reason: retry.ReasonInvalid}, true, 10},
		{"invalid, the tenth succeeds", retry.Policy{MaxAttempts: -2}, 9, nil, retry.Decision{Reason: retry.ReasonSuccess}, true, 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			ran := false
			d, events, err := once(t.Context(), row.policy, row.attempts, func(context.Context) error { ran = true; return row.fail })
			assert.Equal(t, row.want, d)
			assert.Equal(t, row.ran, ran)
			want := []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.CallFinished}
			if !row.ran {
				want = want[2:]
			}
			assert.Equal(t, want, kinds(events))
			assert.Equal(t, row.made, events[len(events)-1].Attempt)
			if d.Reason == retry.ReasonSuccess {
				assert.NoError(t, err)
				return
			}
			assert.Equal(t, &retry.Error{
				Reason: d.Reason, Attempts: row.made, Delay: d.Delay, Err: row.fail, Cause: stopped(t, err).Cause,
			}, plain(err))
			assert.Equal(t, d.Reason == retry.ReasonInvalid, stopped(t, err).Cause != nil)
		})
	}
}

// If the deadline of the context ends the attempt, a retry may follow. If the context is canceled,
// the Reason is ReasonCanceled.
func TestOnceInAContext(t *testing.T) {
	hour := drawnFrom(2, time.Hour, retry.ReasonRetry)
	untilDone := func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }
	for _, row := range []struct {
		name    string
		timeout time.Duration // the timeout of the context
		fn      func(ctx context.Context, cancel func()) error
		want    retry.Decision
		events  int
		took    time.Duration
		is      []error
	}{
		{"the deadline comes before the retry", time.Second, func(context.Context, func()) error { return errDial }, hour, 3, 0, []error{errDial}},
		{"the deadline passes in the attempt", time.Second, untilDone, hour, 3, time.Second, []error{context.DeadlineExceeded}},
		{"an AttemptTimeout is an ordinary failure", time.Hour, untilDone, hour, 3, time.Minute, []error{context.DeadlineExceeded}},
		{"the deadline has passed: no attempt runs", 0, nil, retry.Decision{Reason: retry.ReasonDeadline}, 1, 0, []error{context.DeadlineExceeded}},
		{"canceled in the attempt: the Decision has the delay of the retry", time.Hour, func(_ context.Context, cancel func()) error { cancel(); return errDial },
			drawnFrom(2, time.Hour, retry.ReasonCanceled), 3, 0, []error{context.Canceled, errShutdown, errDial}},
	} {
		bubble(t, row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(within(t.Context(), row.timeout, nil))
			start := time.Now()
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour), AttemptTimeout: time.Minute}
			d, events, err := once(ctx, p, 1, func(ctx context.Context) error { return row.fn(ctx, func() { cancel(errShutdown) }) })
			assert.Equal(t, row.want, d)
			assert.Equal(t, row.want.Reason, retry.ReasonOf(err))
			assert.Len(t, events, row.events)
			assert.Equal(t, row.took, time.Since(start))
			for _, is := range row.is {
				assert.ErrorIs(t, err, is)
			}
		})
	}
}

// If a retry follows, Once takes it from the Budgets, as Do does. If OnEvent panics, Once gives
// back only the retry that it took.
func TestOnceTakesFromTheBudgets(t *testing.T) {
	own, outer := &retry.Budget{Size: 3, Ratio: 1}, &retry.Budget{Size: 2}
	p := retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(1), Budget: own}
	ctx := retry.WithBudget(t.Context(), outer)
	for range 2 {
		_, _, err := once(ctx, p, 5, failWith(errDial))
		assert.Equal(t, retry.ReasonRetry, retry.ReasonOf(err))
	}
	d, _, err := once(ctx, p, 5, failWith(errDial))
	assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
	assert.Equal(t, drawnFrom(6, 1, retry.ReasonBudget), d)
	assert.Equal(t, 1, own.Left())
	assert.Zero(t, outer.Left())

	for _, kind := range []retry.EventKind{retry.AttemptStarted, retry.RetryScheduled} {
		watched := p
		watched.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == kind {
				panic("oh")
			}
		}
		assert.PanicsWithValue(t, "oh", func() { _, _ = retry.Once(t.Context(), watched, retry.Attempt{Number: 6}, failWith(errDial)) })
		assert.Equal(t, 1, own.Left(), kind)
	}

	_, _, err = once(ctx, p, 5, failWith(nil))
	require.NoError(t, err)
	assert.Equal(t, 2, own.Left(), "a success puts back the Ratio into the policy's Budget")
	assert.Zero(t, outer.Left(), "a success puts nothing back into a Budget of the context")
}

// Once never calls Wait. It ignores HealthyAfter, because the queue counts the attempts.
func TestOnceLooksNeitherAtWaitNorAtHealthyAfter(t *testing.T) {
	bubble(t, "an attempt of an hour", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 3, HealthyAfter: time.Minute, Backoff: retry.Fixed(time.Second)}
		p.Wait = func(context.Context, time.Duration) (time.Duration, error) { panic("Wait was called") }
		for number, want := range map[int]retry.Reason{1: retry.ReasonRetry, 3: retry.ReasonExhausted} {
			var told watch
			p.OnEvent = told.event
			d, err := retry.Once(t.Context(), p, retry.Attempt{Number: number, Took: time.Hour}, running(time.Hour))
			assert.Equal(t, drawnFrom(number, time.Second, want), d)
			assert.Equal(t, number, stopped(t, err).Attempts)
			for _, e := range told.events {
				assert.False(t, e.Reset)
			}
		}
	})
}
