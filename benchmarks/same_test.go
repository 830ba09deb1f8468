package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The numbers can be compared only if every library does the same work.

func TestEveryLibraryMakesTheSameCalls(t *testing.T) {
	for _, row := range []struct {
		name            string
		plan            plan
		failures        int // how often each call fails before it succeeds
		calls, attempts int
	}{
		{"success on the first try", ordinary, 0, 1, 1},
		{"three calls that succeed", ordinary, 0, 3, 3},
		{"the last attempt succeeds", noDelay, 9, 1, 10},
		{"ten failures, twice over", noDelay, 99, 2, 20},
	} {
		for _, l := range append([]library{bare, retryDo}, peers...) {
			t.Run(l.name+"/"+row.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began, attempts := time.Now(), 0
					err := l.prepare(row.plan)(t.Context(), row.calls, func(context.Context) error {
						if attempts++; attempts%(row.failures+1) == 0 {
							return nil
						}
						return errFailed
					})
					assert.Equal(t, row.attempts, attempts)
					assert.Zero(t, time.Since(began))
					if row.failures > 9 {
						require.ErrorIs(t, err, errFailed)
						assert.Equal(t, 1, strings.Count(err.Error(), errFailed.Error()), "only the last error is kept")
					} else {
						assert.NoError(t, err)
					}
				})
			})
		}
	}
}

func TestEveryLibraryWaitsAsLongAndUntilItIsCanceled(t *testing.T) {
	for _, l := range append([]library{bare, retryDo}, peers...) {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := map[time.Duration]bool{}
				for range 20 {
					var at []time.Time
					err := l.prepare(ordinary)(t.Context(), 1, func(context.Context) error { at = append(at, time.Now()); return errFailed })
					require.ErrorIs(t, err, errFailed)
					require.Len(t, at, 5)
					for i := range at[1:] {
						want := float64(ordinary.base << i)
						assert.InDelta(t, want, float64(at[i+1].Sub(at[i])), want*jitter+1) // avast and k8s only add jitter
					}
					first[at[1].Sub(at[0])] = true
				}
				assert.Greater(t, len(first), 1, "the delays have no jitter")

				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(30*time.Minute, cancel)
				began := time.Now()
				assert.ErrorIs(t, l.prepare(hourly)(ctx, 1, func(context.Context) error { return errFailed }), context.Canceled)
				assert.Equal(t, 30*time.Minute, time.Since(began))
			})
		})
	}
}
