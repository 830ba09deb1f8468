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

// faults is what is wrong with a policy.
type faults []error

// add adds one: the field, its value, and what to write instead.
func (f *faults) add(field string, value any, write string) {
	*f = append(*f, fmt.Errorf("%s is %v: %s", field, value, write))
}

// err returns f as an error, nil if it is empty. It is a pointer because errors
// are compared with ==, which panics on slices.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	found := f
	return &found
}

// invalidPolicyText begins the errors about a policy. An [Error] leaves it out
// where its reason has said so.
const invalidPolicyText = "invalid policy"

// Error names the faults on one line.
func (f faults) Error() string { return invalidPolicyText + ": " + f.list() }

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

// faults returns what is wrong with p.
func (p *Policy) faults() faults {
	_, f := p.judge()
	return f
}

// judge returns the attempts that p allows, and what is wrong with it. It
// allocates nothing where that is nothing, so every decision can afford to ask.
func (p *Policy) judge() (limit int, f faults) {
	limit, f = p.attempts(), p.fieldFaults()
	if limit == Unlimited && p.MaxRetries >= Unlimited {
		if err := p.hot(p.Backoff); err != nil {
			f = append(f, err)
		}
	}
	return limit, f
}

var (
	errHot      = errors.New("unlimited attempts without a delay: set MaxAttempts, MaxRetries, a Budget or a Backoff (Fixed(10*time.Millisecond))")
	errRefilled = errors.New("unlimited attempts without a delay, and RefillEvery refills the Budget: set MaxAttempts, MaxRetries or a Backoff (Fixed(10*time.Millisecond))")
)

// hot returns an error if p, unlimited and with this curve, would retry without
// a pause until something else stops it. MaxElapsed is no excuse: in a
// minute such retries are many million calls.
func (p *Policy) hot(b Backoff) error {
	switch {
	case waits(b):
		return nil
	case p.Budget == nil:
		return errHot
	case p.Budget.every > 0:
		return errRefilled
	default:
		return nil
	}
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

// fieldFaults returns what is wrong with the fields of p, each by itself.
func (p *Policy) fieldFaults() (f faults) {
	const (
		count    = "write how many, 0 for not set, or -1 for unlimited"
		duration = "write 0 for none, or a positive duration"
		delay    = "write 0 for no delay, or a positive duration"
	)
	if p.MaxAttempts < Unlimited {
		f.add("MaxAttempts", p.MaxAttempts, count)
	}
	if p.MaxRetries < Unlimited {
		f.add("MaxRetries", p.MaxRetries, count)
	}
	if p.AttemptCap < 0 {
		f.add("AttemptCap", p.AttemptCap, "write 0 for no cap, or how many attempts it allows")
	}
	switch b := p.Backoff.(type) {
	case Fixed:
		if b < 0 {
			f.add("Backoff: Fixed", time.Duration(b), delay)
		}
	case Linear:
		if b < 0 {
			f.add("Backoff: Linear", time.Duration(b), delay)
		}
	case Fibonacci:
		if b < 0 {
			f.add("Backoff: Fibonacci", time.Duration(b), delay)
		}
	case Exponential:
		if b.Base < 0 {
			f.add("Backoff: Exponential.Base", b.Base, delay)
		}
		if b.Factor != 0 && b.Factor != b.factor() {
			f.add("Backoff: Exponential.Factor", b.Factor, "write 0 for 2, or a finite number of at least 1")
		}
	case Schedule:
		for i, d := range b {
			if d < 0 {
				f.add(fmt.Sprintf("Backoff: Schedule[%d]", i), d, delay)
			}
		}
	}
	if p.MaxDelay < 0 {
		f.add("MaxDelay", p.MaxDelay, duration)
	}
	switch j := p.Jitter.(type) {
	case Proportional:
		if !(j >= 0 && j <= 1) {
			f.add("Jitter: Proportional", float64(j), "write a share between 0 and 1: 0.2 is ±20 %")
		}
	case Spread:
		if j != FullJitter && j != EqualJitter {
			f.add("Jitter: Spread", uint8(j), "write FullJitter, EqualJitter, or nil for none")
		}
	}
	if p.MaxRetryAfter < 0 {
		f.add("MaxRetryAfter", p.MaxRetryAfter, "write 0 for one minute or MaxDelay, whichever is longer, or a positive duration")
	}
	if p.MaxElapsed < 0 {
		f.add("MaxElapsed", p.MaxElapsed, duration)
	}
	if p.AttemptTimeout < 0 {
		f.add("AttemptTimeout", p.AttemptTimeout, duration)
	}
	if b := p.Budget; b != nil {
		if b.size < 1 {
			f.add("Budget: size", b.size, "write NewBudget(size, ratio) with a size of at least 1")
		}
		if !(b.ratio >= 0 && b.ratio <= 1) {
			f.add("Budget: ratio", b.ratio, "write NewBudget(size, ratio) with a ratio between 0 and 1")
		}
		if b.every != 0 && b.every < leastRefill {
			f.add("Budget: RefillEvery", b.every, "write 0 for off, or at least 1ms")
		}
	}
	return f
}

// Lint reports settings that are valid but probably unintended, one line each,
// with the name of each field in Go and in the text form. It returns nil if it
// finds none, and if p does not validate.
func (p Policy) Lint() []string {
	if p.faults() != nil {
		return nil
	}
	var lint []string
	say := func(format string, args ...any) { lint = append(lint, fmt.Sprintf(format, args...)) }

	const setLimit = "set MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed)"
	limit := p.limit() // 0: none, so there is one attempt
	retries := p.attempts() - 1
	first := time.Duration(0) // the delay of the curve after the first attempt
	if builtIn(p.Backoff) {
		first = p.Backoff.Delay(1)
	}
	switch {
	case p.NonRetryable && (limit == Unlimited || limit > 1):
		say("NonRetryable (retryable: false) beside a limit of %s, by MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed): there is only one attempt", attemptsText(limit))
	case p.NonRetryable:
	case limit == 0 && p.Backoff != nil:
		say("Backoff (backoff) without a limit: there is only one attempt, and no delay; " + setLimit)
	case limit == 0 && p.AttemptCap > 0:
		say("AttemptCap (attempt_cap) without a limit: there is only one attempt; " + setLimit)
	}
	if p.MaxAttempts != 0 && p.MaxRetries != 0 {
		say("MaxAttempts (max_attempts) and MaxRetries (max_retries) are both set: the smaller counts, %s; set one", attemptsText(p.count()))
	}
	if s, ok := p.Backoff.(Schedule); ok && limit != 0 && !p.NonRetryable && retries >= 0 && len(s) > retries {
		say("a Schedule (delays) of %d beside %s: the delay of %v and those after it are never used; MaxAttempts (max_attempts) counts the first attempt", len(s), attemptsText(retries+1), s[retries])
	}
	if p.Backoff == nil && p.Select == nil && retries != 0 {
		say("%s without a Backoff (backoff): they follow each other at once; set one, or Fixed(0) for no delay", attemptsText(retries+1))
	}
	if grows(p.Backoff) && retries < 0 && p.MaxDelay == 0 && p.MaxElapsed == 0 {
		say("unlimited attempts on a Backoff (backoff) that grows: the delays reach years; set MaxDelay (max_delay)")
	}
	if least := p.leastFirst(first); p.MaxElapsed > 0 && least > p.MaxElapsed && retries != 0 {
		say("MaxElapsed (max_elapsed) of %v is shorter than the first delay of at least %v: there is no retry", p.MaxElapsed, least)
	}
	if p.MaxDelay > 0 && first > p.MaxDelay {
		say("MaxDelay (max_delay) of %v is shorter than the first delay of %v: it cuts even that one", p.MaxDelay, first)
	}
	return lint
}

// leastFirst returns the low end of the first delay's window, where first is
// what the curve says. A custom Jitter is not called: it may say 0.
func (p *Policy) leastFirst(first time.Duration) time.Duration {
	switch j := p.Jitter.(type) {
	case nil:
	case Proportional, Spread:
		lo, _ := j.Window(p.capped(first))
		return lo
	default:
		return 0
	}
	return p.capped(first)
}

// grows reports whether a built-in curve grows without end.
func grows(b Backoff) bool {
	switch b := b.(type) {
	case Linear, Fibonacci, Exponential:
		return b.Delay(math.MaxInt) > b.Delay(1)
	default:
		return false
	}
}
