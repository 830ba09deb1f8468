package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// Libraries differ in how they handle these cases. The tests pin what this one
// does.
func TestEdgeCases(t *testing.T) {
	everyWay(t, "a limit of 0 is not set: one attempt", func(t *testing.T, call caller) {
		for _, p := range []retry.Policy{{}, {Backoff: retry.Fixed(1)}, {MaxAttempts: 1}, {MaxAttempts: retry.Retries(0)}} {
			runs := 0
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
			assert.Equal(t, 1, runs)
		}
	})
	everyWay(t, "a limit below -1 is a fault: one attempt", func(t *testing.T, call caller) {
		for _, p := range []retry.Policy{{MaxAttempts: -5}, {MaxRetries: -5}} {
			runs := 0
			assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
			assert.Equal(t, 1, runs)
		}
	})
	everyWay(t, "a nil context is an error even if fn would succeed", func(t *testing.T, call caller) {
		err := call(noContext, everySecond, func(context.Context) error { panic("fn runs without a context") })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	})
	everyWay(t, "a panic in fn propagates with its own value", func(t *testing.T, call caller) {
		assert.PanicsWithValue(t, errShutdown, func() { _ = call(t.Context(), everySecond, func(context.Context) error { panic(errShutdown) }) })
	})
	everyWay(t, "a context that is canceled before the call: fn does not run", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := call(ctx, everySecond, func(context.Context) error { panic("fn runs") })
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
	})
	everyWay(t, "canceled in the sleep: the last error and the cause, limited or not", func(t *testing.T, call caller) {
		for _, limit := range []int{2, retry.Unlimited} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second/2, func() { cancel(errShutdown) })
			p := everySecond
			p.MaxAttempts = limit
			runs := 0
			err := call(ctx, p, fails(&runs))
			for _, is := range []error{context.Canceled, errShutdown, errDial} {
				assert.ErrorIs(t, err, is)
			}
		}
	})
	everyWay(t, "DeadlineExceeded is found beside a custom cause", func(t *testing.T, call caller) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, errShutdown)
		defer cancel()
		runs := 0
		err := call(hidden{ctx}, everySecond, fails(&runs))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, errShutdown)
		assert.NotErrorIs(t, err, context.Canceled)
	})
	everyWay(t, "exhausted: the last error as fn returned it, with its wrapping", func(t *testing.T, call caller) {
		wrapped := fmt.Errorf("get /: %w", errDial)
		err := call(t.Context(), everySecond, func(context.Context) error { return wrapped })
		assert.Same(t, wrapped, stopped(t, err).Err)
		assert.NoError(t, errors.Unwrap(err), "an Error wraps two, so Unwrap of package errors gives neither")
	})
	everyWay(t, "a Retry-After above MaxDelay is kept, and never shortened by jitter", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxDelay = 5 * time.Second
		p.Jitter = retry.FullJitter
		for range 200 {
			runs := 0
			e := stopped(t, call(t.Context(), p, func(context.Context) error { runs++; return retry.After(30*time.Second, errDial) }))
			assert.Equal(t, 3, runs)
			assert.GreaterOrEqual(t, e.Waited, 2*30*time.Second)
			assert.LessOrEqual(t, e.Waited, 2*(30+5)*time.Second, "jitter adds at most MaxDelay")
		}
	})
	everyWay(t, "a Retry-After above MaxRetryAfter stops the call instead of being cut", func(t *testing.T, call caller) {
		for _, row := range []struct {
			asked, most time.Duration
			runs        int
		}{
			{time.Minute, 0, 3},
			{time.Minute + 1, 0, 1},
			{time.Hour, time.Hour, 3},
			{time.Hour + 1, time.Hour, 1},
			{math.MaxInt64, time.Hour, 1},
		} {
			p := everySecond
			p.MaxRetryAfter = row.most
			start, runs := time.Now(), 0
			e := stopped(t, call(t.Context(), p, func(context.Context) error { runs++; return retry.After(row.asked, errDial) }))
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.asked, e.Delay)
			assert.Equal(t, time.Duration(row.runs-1)*row.asked, time.Since(start))
			if row.runs == 1 {
				assert.Equal(t, retry.ReasonRetryAfter, e.Reason)
			}
		}
	})
	everyWay(t, "a Retry-After beyond MaxElapsed stops the call before the sleep", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxElapsed = 10 * time.Second
		start := time.Now()
		e := stopped(t, call(t.Context(), p, func(context.Context) error { return retry.After(30*time.Second, errDial) }))
		assert.Equal(t, retry.ReasonElapsed, e.Reason)
		assert.Equal(t, 30*time.Second, e.Delay)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "a policy that is used again starts from the beginning", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}, MaxElapsed: time.Minute}
		for range 3 {
			start, runs := time.Now(), 0
			stopped(t, call(t.Context(), p, fails(&runs)))
			assert.Equal(t, 4, runs)
			assert.Equal(t, 7*time.Second, time.Since(start))
		}
	})
}

// These mistakes were found in other retry loops.
func TestMistakesOfOthers(t *testing.T) {
	everyWay(t, "no hidden time limit stops an unlimited loop", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		require.NoError(t, call(t.Context(), retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Hour)}, func(context.Context) error {
			if runs++; runs <= 10_000 {
				return errDial
			}
			return nil
		}))
		assert.Equal(t, 10_000*time.Hour, time.Since(start))
	})
	everyWay(t, "a stop never looks like a delay of 0", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxElapsed = time.Second / 2
		runs := 0
		e := stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Equal(t, retry.ReasonElapsed, e.Reason)
		assert.Equal(t, time.Second, e.Delay)
	})
	everyWay(t, "the first attempt counts against MaxElapsed: a long one is not retried", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxElapsed = 15 * time.Minute
		runs := 0
		err := call(t.Context(), p, func(context.Context) error { runs++; time.Sleep(16 * time.Minute); return errDial })
		assert.Equal(t, 1, runs)
		assert.EqualError(t, err, "retry: out of time after 1 attempt (16m0s have passed, MaxElapsed is 15m0s): dial tcp: connection refused")
	})
	everyWay(t, "Permanent is the reason even with a limit of one", func(t *testing.T, call caller) {
		err := call(t.Context(), retry.Policy{MaxAttempts: 1}, func(context.Context) error { return retry.Permanent(errDial) })
		assert.EqualError(t, err, "retry: permanent error after 1 attempt: dial tcp: connection refused")
		assert.ErrorIs(t, err, errDial)
	})
	everyWay(t, "Permanent goes before a RetryIf that returns true, limited or not", func(t *testing.T, call caller) {
		for _, limit := range []int{3, retry.Unlimited} {
			p := everySecond
			p.MaxAttempts = limit
			p.RetryIf = func(error) bool { return true }
			runs := 0
			err := call(t.Context(), p, func(context.Context) error { runs++; return retry.Permanent(errDial) })
			assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
			assert.Equal(t, 1, runs)
		}
	})
	everyWay(t, "After keeps the error that it marks", func(t *testing.T, call caller) {
		start := time.Now()
		err := call(t.Context(), retry.Policy{MaxAttempts: 2}, func(context.Context) error { return retry.After(30*time.Second, errDial) })
		assert.ErrorIs(t, err, errDial)
		assert.ErrorContains(t, err, "connection refused")
		assert.Equal(t, 30*time.Second, time.Since(start))
	})
	everyWay(t, "a typed nil *Error is an ordinary failure", func(t *testing.T, call caller) {
		runs := 0
		err := call(t.Context(), everySecond, func(context.Context) error { runs++; return (*retry.Error)(nil) })
		assert.Equal(t, 3, runs)
		assert.EqualError(t, err, "retry: attempts exhausted after 3 attempts (2s waited): <nil>")
	})
	everyWay(t, "after many attempts the error is that of the last one", func(t *testing.T, call caller) {
		runs := 0
		err := call(t.Context(), retry.Policy{MaxAttempts: 1500}, func(context.Context) error { runs++; return fmt.Errorf("failure %d", runs) })
		assert.EqualError(t, stopped(t, err).Err, "failure 1500")
	})
	everyWay(t, "an empty Budget: the error has the delay, and shows that no server asked for it", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = &retry.Budget{Size: 1}
		tokens(p.Budget)
		runs := 0
		err := call(t.Context(), p, fails(&runs))
		assert.EqualError(t, err, "retry: retry budget exhausted after 1 attempt (the next delay is 1s): dial tcp: connection refused")
		assert.Equal(t, time.Second, stopped(t, err).Delay)
	})
	everyWay(t, "a zero policy does not loop forever", func(t *testing.T, call caller) {
		runs := 0
		err := call(t.Context(), retry.Policy{}, fails(&runs))
		assert.Equal(t, 1, runs)
		assert.EqualError(t, err, "retry: gave up after 1 attempt (no limit is set, so there is no retry): dial tcp: connection refused")
	})
	everyWay(t, "no goroutine is left waiting for a context that never ends", func(t *testing.T, call caller) {
		before := runtime.NumGoroutine() // goroutines of other tests may be about to end
		most := 0
		p := everySecond
		p.AttemptTimeout = time.Minute
		p.OnEvent = func(context.Context, retry.Event) { most = max(most, runtime.NumGoroutine()) }
		err := call(context.Background(), p, func(context.Context) error { most = max(most, runtime.NumGoroutine()); return errDial })
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.LessOrEqual(t, most, before)
	})
}
