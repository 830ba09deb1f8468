package main

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The numbers can be compared only if every library does the same work.

func TestEveryLibraryMakesTheSameCalls(t *testing.T) {
	tests := []struct {
		name     string
		plan     plan
		failures int
		n        int
		want     int // attempts
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
				attempts := 0
				op := failing(test.failures)
				err := l.prepare(test.plan).run(t.Context(), test.n, func(ctx context.Context) error {
					attempts++
					assert.NoError(t, ctx.Err())
					return op(ctx)
				})
				assert.Equal(t, test.want, attempts)
				if test.err == nil {
					assert.NoError(t, err)
				} else {
					assert.ErrorIs(t, err, test.err)
					assert.Equal(t, 1, strings.Count(err.Error(), test.err.Error()), "only the last error is kept")
				}
			})
		}
	}
}

func TestEveryLibraryReturnsTheValue(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			attempts := 0
			v, err := l.prepare(noDelay).value(t.Context(), 2, func(context.Context) (int, error) {
				attempts++
				if attempts%3 != 0 {
					return 0, errFailed
				}
				return 40 + attempts/3, nil
			})
			require.NoError(t, err)
			assert.Equal(t, 6, attempts, "each of the two calls fails twice")
			assert.Equal(t, 42, v, "of the second call")

			attempts = 0
			_, err = l.prepare(noDelay).value(t.Context(), 1, func(context.Context) (int, error) { attempts++; return 0, errFailed })
			assert.ErrorIs(t, err, errFailed)
			assert.Equal(t, noDelay.attempts, attempts)
		})
	}
}

// TestEveryLibraryCallsOneClosure checks what calls.run promises about the
// operation. Otherwise some libraries would pay for more calls through a func value
// than others.
func TestEveryLibraryCallsOneClosure(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			var callers []string
			note := func() {
				pcs := make([]uintptr, 2)
				frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)]) // the callers of op
				for frame, more := frames.Next(); more; frame, more = frames.Next() {
					callers = append(callers, frame.Function)
				}
			}
			calls := l.prepare(ordinary)
			require.NoError(t, calls.run(t.Context(), 1, func(context.Context) error { note(); return nil }))
			_, err := calls.value(t.Context(), 1, func(context.Context) (int, error) { note(); return 42, nil })
			require.NoError(t, err)
			assert.Len(t, callers, 2)
			for _, caller := range callers {
				assert.Regexp(t, `^github.com/goretry/retry/benchmarks\..*func\d+\.\d+\.\d+$`, caller)
			}
		})
	}
}

// within asserts that d is the delay of the plan after this attempt, give or take
// the jitter. Jitter that is only added passes as well.
func within(t *testing.T, p plan, attempt int, d time.Duration) {
	t.Helper()
	want := float64(min(p.base<<(attempt-1), p.most))
	assert.InDelta(t, want, float64(d), want*p.jitter+1, "after attempt %d", attempt)
}

// capped is like ordinary, but reaches its longest delay. Without it no test would
// notice a library that ignores the longest delay.
var capped = plan{attempts: 5, base: 200 * time.Millisecond, most: 300 * time.Millisecond, jitter: 0.2}

// plansFor returns the plans that the delays of a library are checked with. k8s
// has no Cap, for the reason given there.
func plansFor(l library) []plan {
	if l.name == k8s.name {
		return []plan{ordinary}
	}
	return []plan{ordinary, capped}
}

// waitsAsPlanned asserts that calls wait for the delays of a plan, and that
// those have jitter.
func waitsAsPlanned(t *testing.T, p plan, run func(ctx context.Context, n int, op opFunc) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		first := map[time.Duration]bool{}
		for range 20 {
			var at []time.Time
			err := run(t.Context(), 1, func(context.Context) error { at = append(at, time.Now()); return errFailed })
			require.ErrorIs(t, err, errFailed)
			require.Len(t, at, p.attempts)
			for i := range at[1:] {
				within(t, p, i+1, at[i+1].Sub(at[i]))
			}
			first[at[1].Sub(at[0])] = true
		}
		assert.Greater(t, len(first), 1, "the delays have no jitter")
	})
}

func TestEveryLibraryWaitsAsLong(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			for _, p := range plansFor(l) {
				calls := l.prepare(p)
				waitsAsPlanned(t, p, calls.run)
				waitsAsPlanned(t, p, func(ctx context.Context, n int, op opFunc) error {
					_, err := calls.value(ctx, n, func(ctx context.Context) (int, error) { return 42, op(ctx) })
					return err
				})
			}
		})
	}
}

// TestNobodyWaitsForNoDelay checks that no settings in this program cause a delay
// of a few nanoseconds. A timer for a delay of 0 is the library's own cost.
func TestNobodyWaitsForNoDelay(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				calls := l.prepare(noDelay)
				require.ErrorIs(t, calls.run(t.Context(), 1, failing(always)), errFailed)
				_, err := calls.value(t.Context(), 1, func(context.Context) (int, error) { return 0, errFailed })
				require.ErrorIs(t, err, errFailed)
				assert.Zero(t, time.Since(start))
			})
		})
	}
}

func TestEveryDelayIsThatOfTheLoop(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			for _, p := range plansFor(l) {
				calls := l.prepare(p)
				if calls.delay == nil {
					continue
				}
				for attempt := 1; attempt < p.attempts; attempt++ {
					within(t, p, attempt, calls.delay(1, attempt))
					within(t, p, attempt, calls.delay(3, attempt))
				}
				first := map[time.Duration]bool{}
				for range 20 {
					first[calls.delay(1, 1)] = true
				}
				assert.Greater(t, len(first), 1, "the delays have no jitter")
			}
		})
	}
}

// TestADecisionIsThatOfTheSeed checks that the seed is set. Without one, decide
// would also draw a seed, which is different work.
func TestADecisionIsThatOfTheSeed(t *testing.T) {
	for _, p := range plansFor(ours) {
		decide := ours.prepare(p).decide
		for attempt := 1; attempt < p.attempts; attempt++ {
			within(t, p, attempt, decide(2, attempt))
			assert.Equal(t, decide(1, attempt), decide(1, attempt))
		}
	}
}

// TestWhoLooksAtTheContextFirst checks what README.md says about the context and
// the first attempt.
func TestWhoLooksAtTheContextFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var others []string
	for _, l := range libraries {
		calls := l.prepare(ordinary)
		attempts := 0
		err := calls.run(ctx, 1, func(context.Context) error { attempts++; return errFailed })
		assert.ErrorIs(t, err, context.Canceled, l.name)
		_, err = calls.value(ctx, 1, func(context.Context) (int, error) { attempts++; return 0, errFailed })
		assert.ErrorIs(t, err, context.Canceled, l.name)
		if attempts > 0 {
			assert.Equal(t, 2, attempts, l.name)
			others = append(others, l.name)
		}
	}
	assert.Equal(t, []string{"cenkalti-v4", "cenkalti-v5", "cenkalti-v7", "failsafe", "eapache"}, others)
}
