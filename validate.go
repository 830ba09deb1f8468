package retry

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Validate returns nil if p is valid. Otherwise it returns an error that names
// every fault at once, each with the field, its value and what to write instead;
// of more than 20 faults it names 20 and counts the rest. It calls none of p's
// functions. It trusts a custom Backoff or Jitter and never calls it; a pointer
// to a built-in type is treated as a custom one.
func (p Policy) Validate() error {
	return p.faults().err()
}

// faults is what is wrong with a policy, a sentence each.
type faults []error

// add adds one: the field, its value, and what to write instead. Its forms below
// are not inlined, because a call that waits keeps its small stack only if the
// frames that find nothing wrong are small.
func (f *faults) add(field string, value any, write string) {
	*f = append(*f, fmt.Errorf("%s is %v: %s", field, value, write))
}

//go:noinline
func (f *faults) addCount(field string, n int, write string) { f.add(field, n, write) }

//go:noinline
func (f *faults) addDuration(field string, d time.Duration, write string) { f.add(field, d, write) }

//go:noinline
func (f *faults) addEntry(i int, d time.Duration, write string) {
	f.add(fmt.Sprintf("Backoff: Schedule[%d]", i), d, write)
}

//go:noinline
func (f *faults) addFloat(field string, n float64, write string) { f.add(field, n, write) }

// err returns f as an error, nil if it is empty.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &policyError{faults: f}
}

// list returns the faults on one line.
func (f faults) list() string {
	const most = 20 // a Schedule may have a million wrong delays
	var b strings.Builder
	for i, err := range f {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(f)-most)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	return b.String()
}

// A policyError says that a policy is invalid. It is the Cause of an [Error] with
// ReasonInvalid, whose text says what kind of fault it is by this type.
type policyError struct {
	faults  faults
	also    error  // what stopped the call besides; nil: nothing
	ofClass bool   // it is the policy of a class, and not the call's own
	class   string // the name of that class
}

func (e *policyError) Error() string {
	if e.ofClass {
		return "invalid policy of " + e.what()
	}
	return "invalid policy: " + e.what()
}

// what returns the text of e without its first words, which the text of an Error
// begins with too.
func (e *policyError) what() string {
	text := e.faults.list()
	if e.ofClass {
		text = fmt.Sprintf("class %q: %s", e.class, text)
	}
	if e.also != nil {
		text += "; " + e.also.Error()
	}
	return text
}

func (e *policyError) Unwrap() error { return e.also }

// faults returns what is wrong with p.
func (p *Policy) faults() faults {
	_, f := p.judge()
	return f
}

// judge returns the attempts that p allows, and what is wrong with it. It
// allocates nothing where that is nothing, so every decision can afford to ask.
func (p *Policy) judge() (limit int, f faults) {
	limit, f = p.limit(), p.fieldFaults()
	if limit == Unlimited && p.MaxRetries >= Unlimited && p.hot(p.Backoff) {
		f = append(f, p.hotFault())
	}
	if f != nil {
		limit = 1
	}
	return limit, f
}

// hot reports whether p, unlimited and with this curve, would retry without a
// pause until something else stops it. MaxElapsed is no excuse: in a minute such
// retries are many million calls.
func (p *Policy) hot(b Backoff) bool {
	return !waits(b) && (p.Budget == nil || p.Budget.RefillEvery > 0)
}

// hotFault says what is wrong with a policy that is hot.
func (p *Policy) hotFault() error {
	if p.Budget != nil {
		return errors.New("unlimited attempts without a delay, and RefillEvery refills the Budget: set MaxAttempts, MaxRetries or a Backoff (Fixed(10*time.Millisecond))")
	}
	return errors.New("unlimited attempts without a delay: set MaxAttempts, MaxRetries, a Budget or a Backoff (Fixed(10*time.Millisecond))")
}

// waits reports whether a curve keeps waiting: a built-in one is called for the
// delay that it ends with, a custom one is trusted and never called.
func waits(b Backoff) bool {
	if f, ok := b.(BackoffFunc); ok {
		return f != nil
	}
	return b != nil && (!builtIn(b) || b.Delay(math.MaxInt) > 0)
}

// builtIn reports whether b is a curve of this package, which is safe to call.
func builtIn(b Backoff) bool {
	switch b.(type) {
	case Fixed, Linear, Fibonacci, Exponential, Schedule:
		return true
	default:
		return false
	}
}

const writeDuration = "write 0 for none, or a positive duration"

// fieldFaults returns what is wrong with the fields of p, each by itself.
func (p *Policy) fieldFaults() faults { return p.otherFaults(p.paceFaults()) }

// otherFaults adds to f what is wrong with the fields that only the policy of a
// call has a say in.
func (p *Policy) otherFaults(f faults) faults {
	if p.MaxElapsed < 0 {
		f.addDuration("MaxElapsed", p.MaxElapsed, writeDuration)
	}
	if p.AttemptTimeout < 0 {
		f.addDuration("AttemptTimeout", p.AttemptTimeout, writeDuration)
	}
	if p.HealthyAfter != 0 && p.HealthyAfter < leastHealthy {
		f.addDuration("HealthyAfter", p.HealthyAfter, "write 0 for never, or at least 1ms")
	}
	if b := p.Budget; b != nil {
		if b.Size < 1 {
			f.addCount("Budget: Size", b.Size, "write how many retries it holds, at least 1")
		}
		if !(b.Ratio >= 0 && b.Ratio <= 1) {
			f.addFloat("Budget: Ratio", b.Ratio, "write a share between 0 and 1: 0.1 is one retry for ten successes")
		}
		if b.RefillEvery != 0 && b.RefillEvery < leastRefill {
			f.addDuration("Budget: RefillEvery", b.RefillEvery, "write 0 for never, or at least 1ms")
		}
	}
	return f
}

// leastHealthy is the shortest HealthyAfter: one of 1ns would make every attempt
// healthy, and no limit would ever be reached.
const leastHealthy = time.Millisecond

// paceFaults returns what is wrong with the fields that the policy of a class has
// a say in: limits and delays.
func (p *Policy) paceFaults() (f faults) {
	const (
		count = "write how many, 0 for not set, or -1 for unlimited"
		delay = "write 0 for no delay, or a positive duration"
	)
	if p.MaxAttempts < Unlimited {
		f.addCount("MaxAttempts", p.MaxAttempts, count)
	}
	if p.MaxRetries < Unlimited {
		f.addCount("MaxRetries", p.MaxRetries, count)
	}
	if p.AttemptCap < 0 {
		f.addCount("AttemptCap", p.AttemptCap, "write 0 for no cap, or how many attempts it allows")
	}
	switch b := p.Backoff.(type) {
	case Fixed:
		if b < 0 {
			f.addDuration("Backoff: Fixed", time.Duration(b), delay)
		}
	case Linear:
		if b < 0 {
			f.addDuration("Backoff: Linear", time.Duration(b), delay)
		}
	case Fibonacci:
		if b < 0 {
			f.addDuration("Backoff: Fibonacci", time.Duration(b), delay)
		}
	case Exponential:
		if b.Base < 0 {
			f.addDuration("Backoff: Exponential.Base", b.Base, delay)
		}
		if b.Factor != 0 && b.Factor != b.factor() {
			f.addFloat("Backoff: Exponential.Factor", b.Factor, "write 0 for 2, or a finite number of at least 1")
		}
	case Schedule:
		for i, d := range b {
			if d < 0 {
				f.addEntry(i, d, delay)
			}
		}
	}
	if p.MaxDelay < 0 {
		f.addDuration("MaxDelay", p.MaxDelay, writeDuration)
	}
	switch j := p.Jitter.(type) {
	case Proportional:
		if !(j >= 0 && j <= 1) {
			f.addFloat("Jitter: Proportional", float64(j), "write a share between 0 and 1: 0.2 is ±20 %")
		}
	case Spread:
		if j != FullJitter && j != EqualJitter {
			f.addCount("Jitter: Spread", int(j), "write FullJitter, EqualJitter, or nil for none")
		}
	}
	if p.MaxRetryAfter < 0 {
		f.addDuration("MaxRetryAfter", p.MaxRetryAfter, "write 0 for one minute or MaxDelay, whichever is longer, or a positive duration")
	}
	return f
}
