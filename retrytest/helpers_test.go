package retrytest_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A recorder stands for a *testing.T. It stores the failures, so that a test can check them. Every
// method except Helper and Errorf panics, because the TB inside is nil.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	helpers  map[string]bool
	failures []string
	at       string // the function in which the last failure is reported
}

func (r *recorder) Helper() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.helpers == nil {
		r.helpers = map[string]bool{}
	}
	r.helpers[caller(func(string) bool { return true })] = true
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
	r.at = caller(func(name string) bool { return !r.helpers[name] })
}

// caller returns the name of the innermost calling function for which the argument is returns true.
func caller(is func(name string) bool) string {
	pcs := make([]uintptr, 20)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if !more || is(frame.Function) {
			return frame.Function
		}
	}
}

// fails requires that a check reports one failure with these lines, at the place where the test
// calls the check.
func fails(t *testing.T, check func(t testing.TB), lines ...string) {
	t.Helper()
	r := new(recorder)
	check(r)
	require.Len(t, r.failures, 1)
	assert.Equal(t, strings.Join(lines, "\n    "), r.failures[0])
	assert.Contains(t, r.at, "/retrytest_test.", "the failure names the line that called the check")
}
