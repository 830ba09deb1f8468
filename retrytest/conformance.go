package retrytest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goretry/retry"
)

// TestBackoff checks that b meets the contract of [retry.Backoff]. If Delay is called
// several times for the same attempt, it must return the same delay each time. This must hold in
// whatever order the attempts come, and if several goroutines call Delay at once. Delay must not
// return a negative delay and must not panic. If you run the test with -race, it also
// finds data races.
//
// If Delay does not return within 10 seconds, TestBackoff fails, and the goroutine that called
// Delay goes on. In a bubble of [testing/synctest], the test hangs instead.
func TestBackoff(t testing.TB, b retry.Backoff) {
	t.Helper()
	if b == nil {
		t.Errorf("retrytest: the Backoff is nil")
		return
	}
	var attempts []int
	for n := 1; n <= 100; n++ {
		attempts = append(attempts, n)
	}
	attempts = append(attempts, 1000, math.MaxInt32-1, math.MaxInt32)
	attempts = append(attempts, math.MaxInt-1, math.MaxInt, 0, -1, math.MinInt)

	runProbe(t, &prober{
		inputs: len(attempts),
		name:   func(i int) string { return fmt.Sprintf("%T: Delay(%d)", b, attempts[i]) },
		call:   func(i int) window { d := b.Delay(attempts[i]); return window{d, d} },
	})
}

// TestJitter checks that j meets the contract of [retry.Jitter]. If Window is called
// several times for the same duration, it must return the same window each time. This must hold in
// whatever order the durations come, and if several goroutines call Window at once. Neither lo nor
// hi may be negative, and lo must not be above hi. Window must not panic. If you run the
// test with -race, it also finds data races.
//
// If Window does not return within 10 seconds, TestJitter fails, and the goroutine that called
// Window goes on. In a bubble of [testing/synctest], the test hangs instead.
func TestJitter(t testing.TB, j retry.Jitter) {
	t.Helper()
	if j == nil {
		t.Errorf("retrytest: the Jitter is nil")
		return
	}
	delays := []time.Duration{0}
	for d := time.Duration(1); d > 0; d *= 2 {
		delays = append(delays, d, d+d/3)
	}
	delays = append(delays, math.MaxInt64-1, math.MaxInt64, -1, -time.Second, math.MinInt64)

	runProbe(t, &prober{
		inputs: len(delays),
		name:   func(i int) string { return fmt.Sprintf("%T: Window(%v)", j, delays[i]) },
		call:   func(i int) window { lo, hi := j.Window(delays[i]); return window{lo, hi} },
	})
}

const (
	callers  = 8                // how many goroutines call the function at once
	patience = 10 * time.Second // how long runProbe waits until p.probe returns
)

// runProbe runs p.probe, and calls t.Errorf once for each line that p.probe returns. It also calls
// t.Errorf if p.probe does not return.
func runProbe(t testing.TB, p *prober) {
	t.Helper()
	result := make(chan []string, 1)
	go func() {
		defer close(result) // the tested function may call runtime.Goexit
		result <- p.probe()
	}()
	var lines []string
	var returned bool
	overdue := time.NewTimer(patience)
	defer overdue.Stop()
	select {
	case lines, returned = <-result:
	case <-overdue.C:
	}
	if !returned {
		lines = []string{p.name(int(p.current.Load())) + " does not return"}
	}
	for _, line := range lines {
		t.Errorf("retrytest: %s", line)
	}
}

// A prober calls a function with a list of inputs. For each rule, it records the first input
// that breaks the rule.
type prober struct {
	inputs int
	name   func(input int) string // returns the text for the call with this input, such as "Delay(3)"
	call   func(input int) window

	current atomic.Int64 // the index of the input of the running call

	mu     sync.Mutex // guards the fields below
	rules  map[string]bool
	broken []string
}

// An outcome is the result of one call of the function that a prober tests.
type outcome struct {
	window
	ok bool // whether the call returned without a panic
}

// probe calls the tested function with all inputs: in order, in reverse order, and from several
// goroutines. It returns a line for each rule that the function breaks.
func (p *prober) probe() []string {
	forwards := make([]outcome, p.inputs)
	for i := range forwards {
		forwards[i] = p.ask(i)
	}
	backwards := make([]outcome, p.inputs)
	for i := range slices.Backward(backwards) {
		backwards[i] = p.ask(i)
	}
	for i, a := range forwards {
		again := backwards[i]
		if !a.ok || !again.ok {
			continue
		}
		switch {
		case a.lo < 0 || a.hi < 0:
			p.addFault("sign", i, "is %v: it must not be negative", a)
		case a.lo > a.hi:
			p.addFault("order", i, "is %v: lo must not be above hi", a)
		}
		if again.window != a.window {
			p.addFault("pure", i, "is %v, and %v when called again: "+onlyInput, a, again)
		}
	}
	if p.broken != nil {
		return p.broken // the check with several goroutines would only find these faults again
	}

	var together sync.WaitGroup
	for c := range callers {
		together.Go(func() {
			for k := range forwards {
				i := (k + c*p.inputs/callers) % p.inputs
				if a := p.ask(i); a.ok && a.window != forwards[i].window {
					p.addFault("concurrent", i, "is %v, and %v when several goroutines call: "+
						onlyInput, forwards[i], a)
				}
			}
		})
	}
	together.Wait()
	return p.broken
}

const onlyInput = "it must depend only on its argument"

func (p *prober) ask(i int) (a outcome) {
	p.current.Store(int64(i))
	defer func() {
		if r := recover(); r != nil {
			p.addFault("panic", i, "panics: %v", r)
		}
	}()
	a.window = p.call(i)
	a.ok = true
	return a
}

// addFault records that an input breaks a rule. It does nothing if an earlier input broke the same
// rule.
func (p *prober) addFault(rule string, i int, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rules[rule] {
		return
	}
	if p.rules == nil {
		p.rules = map[string]bool{}
	}
	p.rules[rule] = true
	p.broken = append(p.broken, p.name(i)+" "+fmt.Sprintf(format, args...))
}
