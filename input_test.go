package retry_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

type jitterFunc func(time.Duration) (lo, hi time.Duration)

func (f jitterFunc) Window(d time.Duration) (lo, hi time.Duration) { return f(d) }

func TestBadInput(t *testing.T) {
	for _, row := range []struct {
		name  string
		call  func(context.Context, retry.Policy) error
		when  string
		told  counts
		ended retry.Reason // if the context has already ended
	}{
		{"Do", func(ctx context.Context, p retry.Policy) error {
			return retry.Do(ctx, p, nil)
		}, "before the first attempt", counts{0, 0, 0, 1}, retry.ReasonInvalid},
		{"DoValue", func(ctx context.Context, p retry.Policy) error {
			value, err := retry.DoValue[int](ctx, p, nil)
			assert.Zero(t, value)
			return err
		}, "after 1 attempt", counts{1, 1, 0, 1}, retry.ReasonCanceled},
	} {
		bubble(t, "nil fn/"+row.name, func(t *testing.T) {
			var told watch
			for _, p := range []retry.Policy{{}, everySecond, {MaxAttempts: 3, MaxElapsed: time.Minute}, {MaxAttempts: 3, OnEvent: told.event}} {
				err := row.call(t.Context(), p)
				assert.EqualError(t, err, "retry: invalid call "+row.when+" (nil function)")
				assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
			}
			assert.Equal(t, row.told, told.counts())
			assert.EqualError(t, told.events[len(told.events)-1].Cause, "nil function")
			for _, e := range told.of(retry.AttemptFinished) {
				assert.EqualError(t, e.Err, "nil function", "it does not count as a success")
			}
		})
		bubble(t, "nil fn in a context that has ended/"+row.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			assert.Equal(t, row.ended, retry.ReasonOf(row.call(ctx, everySecond)))
		})
		bubble(t, "nil fn under an invalid policy/"+row.name, func(t *testing.T) {
			err := row.call(t.Context(), retry.Policy{MaxAttempts: -2})
			assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
			assert.ErrorContains(t, err, "nil function")
			assert.ErrorContains(t, err, "MaxAttempts is -2")
		})
	}

	everyWay(t, "nil context", func(t *testing.T, call caller) {
		var told watch
		for _, p := range []retry.Policy{{}, everySecond, {MaxAttempts: 3, MaxElapsed: 1}, {MaxAttempts: 3, AttemptTimeout: 1}, {MaxAttempts: 3, OnEvent: told.event}} {
			runs := 0
			err := call(noContext, p, fails(&runs))
			assert.Zero(t, runs)
			assert.EqualError(t, err, "retry: invalid call before the first attempt (nil context)")
			assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		}
		assert.Equal(t, counts{0, 0, 0, 1}, told.counts())
		assert.NotNil(t, told.contexts[0], "OnEvent never gets a nil context")
	})
	everyWay(t, "nil context under an invalid policy", func(t *testing.T, call caller) {
		err := call(noContext, retry.Policy{MaxAttempts: -2}, func(context.Context) error { return nil })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.ErrorContains(t, err, "nil context")
		assert.ErrorContains(t, err, "MaxAttempts is -2")
	})

	everyWay(t, "a custom Backoff that returns negative delays does not wait", func(t *testing.T, call caller) {
		for _, d := range []time.Duration{-1, -time.Hour, math.MinInt64} {
			for _, j := range []retry.Jitter{nil, retry.Proportional(1), retry.FullJitter, retry.EqualJitter} {
				start, runs := time.Now(), 0
				p := retry.Policy{MaxAttempts: 3, Backoff: retry.BackoffFunc(func(int) time.Duration { return d }), Jitter: j}
				e := stopped(t, call(t.Context(), p, fails(&runs)))
				assert.Equal(t, 3, runs)
				assert.Zero(t, time.Since(start))
				assert.Zero(t, e.Waited)
				assert.Zero(t, e.Delay)
			}
		}
	})
	everyWay(t, "a nil BackoffFunc does not wait", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		stopped(t, call(t.Context(), retry.Policy{MaxAttempts: 3, Backoff: retry.BackoffFunc(nil)}, fails(&runs)))
		assert.Equal(t, 3, runs)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "a panic in a custom Backoff, Jitter, RetryIf or Select passes through", func(t *testing.T, call caller) {
		for name, p := range map[string]retry.Policy{
			"Backoff": {MaxAttempts: 3, Backoff: retry.BackoffFunc(func(int) time.Duration { panic("Backoff") })},
			"Jitter":  {MaxAttempts: 3, Jitter: jitterFunc(func(time.Duration) (lo, hi time.Duration) { panic("Jitter") })},
			"RetryIf": {MaxAttempts: 3, RetryIf: func(error) bool { panic("RetryIf") }},
			"Select":  {MaxAttempts: 3, Select: func(error) *retry.Policy { panic("Select") }},
		} {
			p.Budget = retry.NewBudget(1, 0)
			runs := 0
			assert.PanicsWithValue(t, name, func() { _ = call(t.Context(), p, fails(&runs)) })
			assert.Equal(t, 1, runs)
			assert.True(t, p.Budget.Take(), "%s: a retry that was not made took a token", name)
		}
	})
	everyWay(t, "a custom Jitter's reversed window is corrected", func(t *testing.T, call caller) {
		for _, row := range []struct{ lo, hi, least, most time.Duration }{
			{2 * time.Second, time.Second, time.Second, 2 * time.Second},
			{time.Second, -time.Second, 0, time.Second},
			{-time.Second, -2 * time.Second, 0, 0},
			{time.Hour, time.Hour - time.Second, time.Minute - time.Second, time.Minute}, // above the cap
		} {
			for range 100 {
				start := time.Now()
				p := retry.Policy{MaxAttempts: 2, MaxDelay: time.Minute, Jitter: jitterFunc(func(time.Duration) (lo, hi time.Duration) { return row.lo, row.hi })}
				e := stopped(t, call(t.Context(), p, func(context.Context) error { return errDial }))
				assert.Equal(t, e.Waited, time.Since(start))
				assert.GreaterOrEqual(t, e.Waited, row.least)
				assert.LessOrEqual(t, e.Waited, row.most)
			}
		}
	})
	everyWay(t, "the longest delay can be interrupted", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(math.MaxInt64)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start, runs := time.Now(), 0
		err := call(hidden{ctx}, p, fails(&runs))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, time.Hour, time.Since(start))
		assert.Equal(t, 1, runs)
	})
}
