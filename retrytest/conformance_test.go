package retrytest_test

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

func TestOurBackoffsConform(t *testing.T) {
	for _, b := range []retry.Backoff{
		retry.Fixed(math.MinInt64), retry.Linear(time.Second), retry.Fibonacci(math.MaxInt64), retry.Exponential{Base: 1, Factor: math.NaN()},
		retry.Schedule(nil), retry.BackoffFunc(func(n int) time.Duration { return time.Duration(max(0, n)) }),
	} {
		retrytest.TestBackoff(t, b)
	}
}

func TestOurJittersConform(t *testing.T) {
	for _, j := range []retry.Jitter{
		retry.Proportional(0.2), retry.Proportional(math.NaN()), retry.Proportional(math.Inf(1)), retry.FullJitter, retry.EqualJitter,
	} {
		retrytest.TestJitter(t, j)
	}
}

// forgetful returns the right delay only if no other goroutine calls Delay at the same time.
type forgetful struct {
	mu      sync.Mutex
	attempt int
}

func (f *forgetful) set(attempt int) { f.mu.Lock(); defer f.mu.Unlock(); f.attempt = attempt }
func (f *forgetful) get() int        { f.mu.Lock(); defer f.mu.Unlock(); return f.attempt }

func (f *forgetful) Delay(attempt int) time.Duration {
	f.set(max(0, attempt))
	time.Sleep(time.Millisecond) // in a bubble, all other callers have called set by then
	return time.Duration(f.get())
}

// Each broken rule is reported once. A slow call breaks no rule, because a busy machine can delay
// any call.
func TestBackoffsThatDoNotConform(t *testing.T) {
	const name = "retrytest: retry.BackoffFunc: Delay"
	var below, again time.Duration
	var together atomic.Int64
	for _, tc := range []struct {
		name    string
		backoff retry.Backoff
		lines   []string // a regular expression for each line of the failure
	}{
		{"nil", nil, []string{"retrytest: the Backoff is nil"}},
		{"negative", retry.BackoffFunc(func(n int) time.Duration { return min(0, 3-time.Duration(n)) }),
			[]string{name + `\(4\) is -1ns: it must not be negative`}},
		{"panics for a negative attempt", retry.BackoffFunc(func(n int) time.Duration { return []time.Duration{0, 0}[min(1, n)] }),
			[]string{name + `\(-1\) panics: runtime error: index out of range \[-1\]`}},
		{"panics only in a second call", retry.BackoffFunc(func(int) time.Duration {
			if again++; again > 108 {
				panic("asked again")
			}
			return time.Second
		}), []string{fmt.Sprintf(`%s\(%d\) panics: asked again`, name, math.MinInt)}},
		{"panics when several goroutines call", retry.BackoffFunc(func(int) time.Duration {
			if together.Add(1) == 300 { // after 108 calls forwards and as many backwards
				panic("concurrent map writes")
			}
			return 0
		}), []string{name + `\(.+\) panics: concurrent map writes`}},
		{"shares state", new(forgetful),
			[]string{`retrytest: \*retrytest_test\.forgetful: Delay\(.+\) is .+, and .+ when several goroutines call: it must depend only on its argument`}},
		{"breaks several rules", retry.BackoffFunc(func(n int) time.Duration {
			if n == 1 {
				panic("no such attempt")
			}
			below--
			return below
		}), []string{
			name + `\(1\) panics: no such attempt`,
			name + `\(2\) is -1ns: it must not be negative`,
			name + `\(2\) is -1ns, and -214ns when called again: it must depend only on its argument`,
		}},
		{"does not return", retry.BackoffFunc(func(n int) time.Duration {
			if n == 7 {
				time.Sleep(time.Hour)
			}
			return 0
		}), []string{name + `\(7\) does not return`}},
		{"ends its goroutine", retry.BackoffFunc(func(n int) time.Duration {
			if n == 7 {
				runtime.Goexit()
			}
			return 0
		}), []string{name + `\(7\) does not return`}},
		{"is slow", retry.BackoffFunc(func(int) time.Duration { time.Sleep(11 * time.Millisecond); return 0 }), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := new(recorder)
				retrytest.TestBackoff(r, tc.backoff)
				require.Len(t, r.failures, len(tc.lines))
				for i, line := range tc.lines {
					assert.Regexp(t, "^"+line+"$", r.failures[i])
					assert.Contains(t, r.at, "/retrytest_test.", "the failure names the line that called the check")
				}
				time.Sleep(24 * time.Hour) // until the slow call has returned
			})
		})
	}
}

type windowFunc func(time.Duration) (lo, hi time.Duration)

func (f windowFunc) Window(d time.Duration) (lo, hi time.Duration) { return f(d) }

func TestJittersThatDoNotConform(t *testing.T) {
	const name = "retrytest: retrytest_test.windowFunc: Window"
	calls := time.Duration(0)
	for _, tc := range []struct {
		name   string
		jitter retry.Jitter
		line   string
	}{
		{"nil", nil, "retrytest: the Jitter is nil"},
		{"lo above hi", windowFunc(func(d time.Duration) (lo, hi time.Duration) { d = max(0, d); return d, d / 2 }),
			name + "(1ns) is 1ns to 0s: lo must not be above hi"},
		{"overflows", windowFunc(func(d time.Duration) (lo, hi time.Duration) { d = max(0, d); return d, d + d/5 }),
			name + "(2562047h47m16.854775806s) is 2562047h47m16.854775806s to -2049638h13m49.483820649s: it must not be negative"},
		{"a negative delay", windowFunc(func(d time.Duration) (lo, hi time.Duration) { return 0, d }),
			name + "(-1ns) is 0s to -1ns: it must not be negative"},
		{"panics", windowFunc(func(d time.Duration) (lo, hi time.Duration) { return 0, max(0, d) / (d % 2) }),
			name + "(0s) panics: runtime error: integer divide by zero"},
		{"draws", windowFunc(func(time.Duration) (lo, hi time.Duration) { calls++; return 0, calls }),
			name + "(0s) is 0s to 1ns, and 0s to 264ns when called again: it must depend only on its argument"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fails(t, func(t testing.TB) { retrytest.TestJitter(t, tc.jitter) }, tc.line)
		})
	}
}
