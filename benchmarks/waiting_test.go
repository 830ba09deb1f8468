package main

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryWaiterWaitsAsLong(t *testing.T) {
	for _, w := range waiters() {
		t.Run(w.name, func(t *testing.T) { waitsAsPlanned(t, hourly, w.run) })
	}
}

// TestOnlyHealthyAfterStartsOver checks that of the ways to call this library the one
// with HealthyAfter goes on after more failures than the plan allows, because each
// attempt ran for two minutes.
func TestOnlyHealthyAfterStartsOver(t *testing.T) {
	for _, w := range ourWaiters {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				_ = w.run(t.Context(), 1, func(context.Context) error {
					if attempts++; attempts == 9 {
						return nil
					}
					time.Sleep(2 * time.Minute)
					return errFailed
				})
				want := hourly.attempts
				if w.name == "retry-Do-HealthyAfter" {
					want = 9
				}
				assert.Equal(t, want, attempts)
			})
		})
	}
}

func TestEveryWaiterWaitsUntilItIsCancelled(t *testing.T) {
	for _, w := range waiters() {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const wait = 30 * time.Minute // the first delay is 48 minutes at least
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(wait, cancel)
				attempts := 0
				start := time.Now()
				err := w.run(ctx, 1, func(context.Context) error { attempts++; return errFailed })
				assert.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, 1, attempts)
				assert.Equal(t, wait, time.Since(start))
			})
		})
	}
}

func TestMeasureCancelsEveryCall(t *testing.T) {
	const n = 50
	var failed, canceled atomic.Int64
	w := waiter{run: func(ctx context.Context, times int, op opFunc) error {
		assert.Equal(t, 1, times)
		assert.Equal(t, errFailed, op(ctx))
		failed.Add(1)
		<-ctx.Done()
		canceled.Add(1)
		return ctx.Err()
	}}
	w.measure(n)
	assert.EqualValues(t, n, failed.Load())
	assert.EqualValues(t, n, canceled.Load())
}

func TestPoolsAreNotInUse(t *testing.T) {
	before := inUse()
	var pool sync.Pool
	pool.Put(new([64 << 20]byte))
	assert.Less(t, inUse()-before, float64(32<<20))
}

// TestMeasureApart checks that one call of the bare loop holds a stack of 2 KiB and
// a few KiB of heap, most of it for a timer.
func TestMeasureApart(t *testing.T) {
	got, err := measureApart("bare", 1000)
	require.NoError(t, err)
	assert.Greater(t, got.Bytes, 2.0*1024)
	assert.Less(t, got.Bytes, 8.0*1024)
	assert.Positive(t, got.Cancel)

	_, err = measureApart("nobody", 1)
	assert.EqualError(t, err, "waiter nobody: exit status 1")
	assert.EqualError(t, answer("1 nobody", io.Discard), `unknown waiter "nobody"`)
	assert.ErrorContains(t, answer("bare", io.Discard), `write it as "100000 bare"`)
}
