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
		retry.Fixed(0), retry.Fixed(time.Second), retry.Fixed(math.MaxInt64), retry.Fixed(math.MinInt64),
		retry.Linear(0), retry.Linear(time.Second), retry.Linear(math.MaxInt64), retry.Linear(-1),
		retry.Fibonacci(0), retry.Fibonacci(1), retry.Fibonacci(math.MaxInt64), retry.Fibonacci(math.MinInt64),
		retry.Exponential{}, retry.Exponential{Base: time.Second}, retry.Exponential{Base: 1, Factor: 1},
		retry.Exponential{Base: 1, Factor: math.MaxFloat64}, retry.Exponential{Base: math.MaxInt64, Factor: 1.0000001},
		retry.Exponential{Base: 1, Factor: math.NaN()}, retry.Exponential{Base: 1, Factor: math.Inf(1)}, retry.Exponential{Base: 1, Factor: -3},
		retry.Exponential{Base: math.MinInt64, Factor: 2},
		retry.Schedule(nil), retry.Schedule{-1, 0, 1}, retry.Schedule{time.Second, math.MaxInt64, math.MinInt64},
		retry.BackoffFunc(nil), retry.BackoffFunc(func(n int) time.Duration { return time.Duration(max(0, n)) }),
	} {
		retrytest.TestBackoff(t, b)
	}
}

func TestOurJittersConform(t *testing.T) {
	for _, j := range []retry.Jitter{
		retry.Proportional(0), retry.Proportional(0.2), retry.Proportional(1), retry.Proportional(-1), retry.Proportional(7),
		retry.Proportional(math.NaN()), retry.Proportional(math.Inf(1)), retry.Proportional(math.Inf(-1)), retry.Proportional(math.SmallestNonzeroFloat64),
		retry.FullJitter, retry.EqualJitter, retry.FullJitter + 7,
	} {
		retrytest.TestJitter(t, j)
	}
}

func TestConformanceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		retrytest.TestBackoff(t, retry.Exponential{Base: time.Second})
		retrytest.TestJitter(t, retry.FullJitter)
		assert.Zero(t, time.Since(began))
	})
}

// How long a call takes is not judged: a busy machine can hold up any.
func TestBackoffThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes(t, func(t testing.TB) {
			retrytest.TestBackoff(t, retry.BackoffFunc(func(int) time.Duration { time.Sleep(11 * time.Millisecond); return 0 }))
		})
	})
}

// stateful counts its calls, like curves that are asked for the next delay.
type stateful struct{ calls time.Duration }

func (s *stateful) Delay(int) time.Duration { s.calls++; return s.calls }

// forgetful is right as long as nobody else asks meanwhile.
type forgetful struct {
	mu      sync.Mutex
	attempt int
}

func (f *forgetful) set(attempt int) { f.mu.Lock(); defer f.mu.Unlock(); f.attempt = attempt }
func (f *forgetful) get() int        { f.mu.Lock(); defer f.mu.Unlock(); return f.attempt }

func (f *forgetful) Delay(attempt int) time.Duration {
	f.set(max(0, attempt))
	runtime.Gosched()
	return time.Duration(f.get())
}

func TestBackoffsThatDoNotConform(t *testing.T) {
	const name = "retrytest: retry.BackoffFunc: Delay"
	for _, tc := range []struct {
		name    string
		backoff retry.Backoff
		line    string
	}{
		{"nil", nil, "retrytest: the Backoff is nil"},
		{"negative", retry.BackoffFunc(func(n int) time.Duration { return min(0, 3-time.Duration(n)) }),
			name + "(4) is -1ns: it must not be negative"},
		{"overflows", retry.BackoffFunc(func(n int) time.Duration { return time.Second << max(0, n-1) & (math.MinInt64 | math.MaxInt32) }),
			name + "(35) is -2562047h47m16.854775808s: it must not be negative"},
		{"panics on the first", retry.BackoffFunc(func(n int) time.Duration { return []time.Duration{0, 0}[min(1, n)] }),
			name + "(-1) panics: runtime error: index out of range [-1]"},
		{"panics late", retry.BackoffFunc(func(n int) time.Duration { return make([]time.Duration, 100)[max(1, n)-1] }),
			name + "(1000) panics: runtime error: index out of range [999] with length 100"},
		{"remembers", new(stateful),
			"retrytest: *retrytest_test.stateful: Delay(1) is 1ns, and 216ns when called again: it must depend on nothing else"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fails(t, func(t testing.TB) { retrytest.TestBackoff(t, tc.backoff) }, tc.line)
		})
	}
}

func TestBackoffThatSharesState(t *testing.T) {
	r := new(recorder)
	retrytest.TestBackoff(r, new(forgetful))
	require.Len(t, r.failures, 1)
	assert.Regexp(t, `^retrytest: \*retrytest_test\.forgetful: Delay\(.+\) is .+, and .+ when several goroutines call: it must depend on nothing else$`, r.failures[0])
}

// Each rule that is broken is reported once.
func TestBackoffThatBreaksSeveralRules(t *testing.T) {
	r := new(recorder)
	calls := time.Duration(0)
	retrytest.TestBackoff(r, retry.BackoffFunc(func(n int) time.Duration {
		if n == 1 {
			panic("no such attempt")
		}
		calls--
		return calls
	}))
	assert.Equal(t, []string{
		"retrytest: retry.BackoffFunc: Delay(1) panics: no such attempt",
		"retrytest: retry.BackoffFunc: Delay(2) is -1ns: it must not be negative",
		"retrytest: retry.BackoffFunc: Delay(2) is -1ns, and -214ns when called again: it must depend on nothing else",
	}, r.failures)
}

// A call that panics has no answer that another could differ from.
func TestBackoffThatPanicsWhenAskedAgain(t *testing.T) {
	calls := 0
	fails(t, func(t testing.TB) {
		retrytest.TestBackoff(t, retry.BackoffFunc(func(int) time.Duration {
			if calls++; calls > 108 {
				panic("asked again")
			}
			return time.Second
		}))
	}, fmt.Sprintf("retrytest: retry.BackoffFunc: Delay(%d) panics: asked again", math.MinInt))
}

func TestBackoffThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		fails(t, func(t testing.TB) {
			retrytest.TestBackoff(t, retry.BackoffFunc(func(n int) time.Duration {
				if n == 7 {
					<-release
				}
				return 0
			}))
		}, "retrytest: retry.BackoffFunc: Delay(7) does not return")
	})
}

func TestBackoffThatEndsItsGoroutine(t *testing.T) {
	fails(t, func(t testing.TB) {
		retrytest.TestBackoff(t, retry.BackoffFunc(func(n int) time.Duration {
			if n == 7 {
				runtime.Goexit()
			}
			return 0
		}))
	}, "retrytest: retry.BackoffFunc: Delay(7) does not return")
}

// A panic that only several callers meet is reported, too.
func TestBackoffThatPanicsUnderSeveralCallers(t *testing.T) {
	var calls atomic.Int64
	r := new(recorder)
	retrytest.TestBackoff(r, retry.BackoffFunc(func(int) time.Duration {
		if calls.Add(1) == 300 { // after 108 calls forwards and as many backwards
			panic("concurrent map writes")
		}
		return 0
	}))
	require.Len(t, r.failures, 1)
	assert.Contains(t, r.failures[0], "panics: concurrent map writes")
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
		{"upside down", windowFunc(func(d time.Duration) (lo, hi time.Duration) { d = max(0, d); return d, d / 2 }),
			name + "(1ns) is 1ns to 0s: lo must not be above hi"},
		{"negative", windowFunc(func(d time.Duration) (lo, hi time.Duration) { d = max(0, d); return d/2 - 1, d }),
			name + "(0s) is -1ns to 0s: it must not be negative"},
		{"overflows", windowFunc(func(d time.Duration) (lo, hi time.Duration) { d = max(0, d); return d, d + d/5 }),
			name + "(2562047h47m16.854775806s) is 2562047h47m16.854775806s to -2049638h13m49.483820649s: it must not be negative"},
		{"a negative delay", windowFunc(func(d time.Duration) (lo, hi time.Duration) { return 0, d }),
			name + "(-1ns) is 0s to -1ns: it must not be negative"},
		{"panics", windowFunc(func(d time.Duration) (lo, hi time.Duration) { return 0, max(0, d) / (d % 2) }),
			name + "(0s) panics: runtime error: integer divide by zero"},
		{"draws", windowFunc(func(time.Duration) (lo, hi time.Duration) { calls++; return 0, calls }),
			name + "(0s) is 0s to 1ns, and 0s to 264ns when called again: it must depend on nothing else"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fails(t, func(t testing.TB) { retrytest.TestJitter(t, tc.jitter) }, tc.line)
		})
	}
}
