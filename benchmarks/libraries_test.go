package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is measured is checked first: every library does the same work.

func TestEveryLibraryMakesTheSameCalls(t *testing.T) {
	tests := []struct {
		name     string
		plan     plan
		failures int
		n        int
		want     int // executions
		err      error
	}{
		{"success on the first try", ordinary, 0, 1, 1, nil},
		{"three calls that succeed", ordinary, 0, 3, 3, nil},
		{"two failures, then success", noDelay, 2, 1, 3, nil},
		{"two failures, then success, twice over", noDelay, 2, 2, 6, nil},
		{"the last attempt succeeds", noDelay, 9, 1, 10, nil},
		{"ten failures", noDelay, always, 1, 10, errFailed},
		{"ten failures, twice over", noDelay, always, 2, 20, errFailed},
	}
	for _, l := range libraries {
		for _, test := range tests {
			t.Run(l.name+"/"+test.name, func(t *testing.T) {
				executions := 0
				op := failing(test.failures)
				err := l.prepare(test.plan).run(t.Context(), test.n, func(ctx context.Context) error {
					executions++
					assert.NoError(t, ctx.Err())
					return op(ctx)
				})
				assert.Equal(t, test.want, executions)
				if test.err == nil {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, test.err)
				}
			})
		}
	}
}

func TestEveryLibraryReturnsTheValue(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			executions := 0
			v, err := l.prepare(noDelay).value(t.Context(), 2, func(context.Context) (int, error) {
				executions++
				if executions%3 != 0 {
					return 0, errFailed
				}
				return 40 + executions/3, nil
			})
			require.NoError(t, err)
			assert.Equal(t, 6, executions, "each of the two calls fails twice")
			assert.Equal(t, 42, v, "of the second call")

			executions = 0
			_, err = l.prepare(noDelay).value(t.Context(), 1, func(context.Context) (int, error) { executions++; return 0, errFailed })
			assert.ErrorIs(t, err, errFailed)
			assert.Equal(t, noDelay.attempts, executions)
		})
	}
}

// within asserts that a delay is the attempt-th of the plan, jitter included.
// The peers whose jitter only adds are within it as well.
func within(t *testing.T, p plan, attempt int, d time.Duration) {
	t.Helper()
	want := float64(p.base) * float64(int(1)<<(attempt-1))
	assert.InDelta(t, want, float64(d), want*p.jitter+1, "after attempt %d", attempt)
}

func TestEveryLibraryWaitsAsLong(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var at []time.Time
				err := l.prepare(ordinary).run(t.Context(), 1, func(context.Context) error {
					at = append(at, time.Now())
					return errFailed
				})
				assert.ErrorIs(t, err, errFailed)
				require.Len(t, at, ordinary.attempts)
				for i := range at[1:] {
					within(t, ordinary, i+1, at[i+1].Sub(at[i]))
				}
			})
		})
	}
}

func TestEveryDelayIsThatOfTheLoop(t *testing.T) {
	for _, l := range libraries {
		calls := l.prepare(ordinary)
		for attempt := 1; attempt < ordinary.attempts; attempt++ {
			if calls.delay != nil {
				within(t, ordinary, attempt, calls.delay(1, attempt))
				within(t, ordinary, attempt, calls.delay(3, attempt))
			}
			if calls.decide != nil {
				within(t, ordinary, attempt, calls.decide(2, attempt))
			}
		}
	}
}

func TestEveryWaiterWaitsUntilItIsCancelled(t *testing.T) {
	for _, w := range waiters() {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const wait = 30 * time.Minute // the first delay is 48 minutes at least
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(wait, cancel)
				executions := 0
				start := time.Now()
				err := w.run(ctx, 1, func(context.Context) error { executions++; return errFailed })
				assert.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, 1, executions)
				assert.Equal(t, wait, time.Since(start))
			})
		})
	}
}

// TestWhoLooksAtTheContextFirst pins what README.md says of the first try.
func TestWhoLooksAtTheContextFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var others []string
	for _, l := range libraries {
		calls := l.prepare(ordinary)
		executions := 0
		err := calls.run(ctx, 1, func(context.Context) error { executions++; return errFailed })
		assert.ErrorIs(t, err, context.Canceled, l.name)
		_, err = calls.value(ctx, 1, func(context.Context) (int, error) { executions++; return 0, errFailed })
		assert.ErrorIs(t, err, context.Canceled, l.name)
		if executions > 0 {
			assert.Equal(t, 2, executions, l.name)
			others = append(others, l.name)
		}
	}
	assert.Equal(t, []string{"cenkalti-v4", "cenkalti-v5", "cenkalti-v7", "failsafe", "eapache"}, others)
}
