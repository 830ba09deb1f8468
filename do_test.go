package retry_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestCallers(t *testing.T) {
	everyWay(t, "a first attempt that succeeds is not repeated", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		require.NoError(t, call(t.Context(), everySecond, func(context.Context) error { runs++; return nil }))
		assert.Equal(t, 1, runs)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "success at the third attempt", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		require.NoError(t, call(t.Context(), everySecond, func(context.Context) error {
			if runs++; runs < 3 {
				return errDial
			}
			return nil
		}))
		assert.Equal(t, 3, runs)
		assert.Equal(t, 2*time.Second, time.Since(start))
	})
	everyWay(t, "every attempt fails", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		e := stopped(t, call(t.Context(), everySecond, fails(&runs)))
		assert.Equal(t, 3, runs)
		assert.Equal(t, 2*time.Second, time.Since(start), "there is no sleep after the last attempt")
		assert.Equal(t, retry.ReasonExhausted, e.Reason)
		assert.Equal(t, 3, e.Attempts)
		assert.Equal(t, 2*time.Second, e.Waited)
		assert.Equal(t, time.Second, e.Delay)
		assert.Same(t, errDial, e.Err)
		assert.NoError(t, e.Cause)
	})
	everyWay(t, "without a delay retries take no time", func(t *testing.T, call caller) {
		start, runs := time.Now(), 0
		e := stopped(t, call(t.Context(), retry.Policy{MaxAttempts: 1000}, fails(&runs)))
		assert.Equal(t, 1000, runs)
		assert.Zero(t, time.Since(start))
		assert.Zero(t, e.Waited)
	})
}

func TestDoValue(t *testing.T) {
	type answer struct{ text string }
	value := &answer{"partial"}

	t.Run("the value of the attempt that succeeded", func(t *testing.T) {
		runs := 0
		got, err := retry.DoValue(t.Context(), retry.Policy{MaxAttempts: 3}, func(context.Context) (int, error) {
			if runs++; runs < 3 {
				return -runs, errDial
			}
			return 7, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 7, got)
	})
	t.Run("zero if there is an error", func(t *testing.T) {
		got, err := retry.DoValue(t.Context(), retry.Policy{MaxAttempts: 3}, func(context.Context) (*answer, error) { return value, errDial })
		require.ErrorIs(t, err, errDial)
		assert.Nil(t, got)
	})
	t.Run("zero struct if there is an error", func(t *testing.T) {
		got, err := retry.DoValue(t.Context(), retry.Policy{}, func(context.Context) (answer, error) { return *value, errDial })
		require.ErrorIs(t, err, errDial)
		assert.Zero(t, got)
	})
	t.Run("zero if the context ends in the attempt", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got, err := retry.DoValue(ctx, retry.Policy{MaxAttempts: 3}, func(context.Context) (int, error) { cancel(); return 7, errDial })
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, got)
	})
	t.Run("zero if nothing ran", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got, err := retry.DoValue(ctx, retry.Policy{MaxAttempts: 3}, func(context.Context) (int, error) { return 7, nil })
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, got)
	})
	t.Run("the value under an invalid policy", func(t *testing.T) {
		got, err := retry.DoValue(t.Context(), retry.Policy{MaxAttempts: -2}, func(context.Context) (int, error) { return 7, nil })
		require.NoError(t, err)
		assert.Equal(t, 7, got)
	})
	t.Run("the value is returned even if the context is done", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got, err := retry.DoValue(ctx, retry.Policy{MaxAttempts: 3}, func(context.Context) (int, error) { cancel(); return 7, nil })
		require.NoError(t, err)
		assert.Equal(t, 7, got)
	})
}

func TestMaxRetriesAloneIsALimit(t *testing.T) {
	err := retry.Do(t.Context(), retry.Policy{MaxRetries: 1}, func(context.Context) error { return errDial })
	assert.EqualError(t, err, "retry: attempts exhausted after 2 attempts: dial tcp: connection refused")
}

func TestTwoMillionAttemptsDoNotGrowTheHeap(t *testing.T) {
	const attempts = 2_000_000
	for _, c := range callers {
		t.Run(c.name, func(t *testing.T) {
			runs := 0
			p := retry.Policy{MaxAttempts: attempts}
			fn := fails(&runs)
			ctx := t.Context()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			err := c.call(ctx, p, fn)
			runtime.ReadMemStats(&after)
			assert.Equal(t, attempts, runs)
			assert.Equal(t, attempts, stopped(t, err).Attempts)
			assert.Less(t, after.Mallocs-before.Mallocs, uint64(100), "allocations of all attempts together")
			assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(64<<10))
		})
	}
}

func TestOnePolicyForManyGoroutines(t *testing.T) {
	type key struct{}
	everyWay(t, "the same seed gives the same delays", func(t *testing.T, call caller) {
		const goroutines = 100
		p := retry.Policy{
			MaxAttempts: 10, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, MaxDelay: 3 * time.Second, Jitter: retry.FullJitter,
			MaxElapsed: time.Hour, AttemptTimeout: time.Minute, Source: constant(7), Budget: &retry.Budget{Size: goroutines * 9, Ratio: .5},
			RetryIf: func(error) bool { return true }, Classify: func(error) *retry.Class { return nil },
			OnEvent: func(ctx context.Context, e retry.Event) {
				if e.Kind == retry.RetryScheduled {
					delays := ctx.Value(key{}).(*[]time.Duration)
					*delays = append(*delays, e.Delay)
				}
			},
		}
		var want []time.Duration
		for n := 1; n < 10; n++ {
			want = append(want, p.Next(retry.Attempt{Number: n, Err: errDial, Seed: 7}).Delay)
		}
		var all sync.WaitGroup
		got := make([][]time.Duration, goroutines)
		for i := range got {
			all.Go(func() {
				err := call(context.WithValue(t.Context(), key{}, &got[i]), p, func(context.Context) error { return errDial })
				assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
			})
		}
		all.Wait()
		for _, delays := range got {
			assert.Equal(t, want, delays)
		}
	})
	everyWay(t, "without a Source the schedules differ", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour), Jitter: retry.FullJitter}
		waited := make(map[time.Duration]bool)
		for range 100 {
			runs := 0
			waited[stopped(t, call(t.Context(), p, fails(&runs))).Waited] = true
		}
		assert.Len(t, waited, 100)
	})
}
