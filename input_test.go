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
	for _, nilFn := range []struct {
		name     string
		when     string
		attempts int
		call     func(context.Context, retry.Policy) error
	}{
		{"Do", "before the first attempt", 0, func(ctx context.Context, p retry.Policy) error { return retry.Do(ctx, p, nil) }},
		{"DoValue", "after 1 attempt", 1, func(ctx context.Context, p retry.Policy) error {
			value, err := retry.DoValue[int](ctx, p, nil)
			assert.Zero(t, value)
			return err
		}},
	} {
		bubble(t, "nil fn/"+nilFn.name, func(t *testing.T) {
			for _, p := range []retry.Policy{{}, everySecond, {MaxAttempts: 3, MaxElapsed: time.Minute}, {MaxAttempts: 3, OnEvent: new(watch).event}} {
				err := nilFn.call(t.Context(), p)
				assert.EqualError(t, err, "retry: invalid call "+nilFn.when+" (nil function)")
				assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Attempts: nilFn.attempts, Cause: stopped(t, err).Cause}, plain(err))
			}
		})
		bubble(t, "nil fn under an invalid policy/"+nilFn.name, func(t *testing.T) {
			err := nilFn.call(t.Context(), retry.Policy{MaxAttempts: -2})
			assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
			assert.ErrorContains(t, err, "nil function")
			assert.ErrorContains(t, err, "MaxAttempts is -2")
		})
	}

	bubble(t, "the Cause of an inner call without fn is a failure like any other", func(t *testing.T) {
		err := retry.Do(t.Context(), retry.Policy{}, func(ctx context.Context) error { return retry.Plain(retry.Do(ctx, everySecond, nil)) })
		assert.EqualError(t, err, "retry: gave up after 1 attempt (no limit is set, so there is no retry): nil function")
	})
	bubble(t, "nil fn goes before a context that is done", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(retry.Do(ctx, everySecond, nil)))
	})
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
	everyWay(t, "a panic in a custom Backoff, Jitter, Source, RetryIf or Classify passes through", func(t *testing.T, call caller) {
		for name, p := range map[string]retry.Policy{
			"Backoff":  {MaxAttempts: 3, Backoff: retry.BackoffFunc(func(int) time.Duration { panic("Backoff") })},
			"Jitter":   {MaxAttempts: 3, Jitter: jitterFunc(func(time.Duration) (lo, hi time.Duration) { panic("Jitter") })},
			"RetryIf":  {MaxAttempts: 3, RetryIf: func(error) bool { panic("RetryIf") }},
			"Classify": {MaxAttempts: 3, Classify: func(error) *retry.Class { panic("Classify") }},
			"Source":   {MaxAttempts: 3, Backoff: retry.Fixed(1), Jitter: retry.FullJitter, Source: func() uint64 { panic("Source") }},
		} {
			p.Budget = &retry.Budget{Size: 1}
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
