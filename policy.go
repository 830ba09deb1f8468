package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Unlimited is the MaxAttempts or MaxRetries of a policy that never stops by
// count.
const Unlimited = -1

// A Policy says how often an operation is executed, how long to wait between
// two executions, and for how long in all. A field that is zero is off:
// Policy{} calls once. [Default] is a policy that is ready to use.
//
// A Policy is a value: derive one by copying it and setting fields, and share
// it among any number of goroutines. Negative numbers other than Unlimited are
// not valid. A policy that does not pass [Policy.Validate] never retries: its
// calls run once, and report the fault where they fail.
type Policy struct {
	// How many executions.

	MaxAttempts  int  // executions in all, the first included; 0: not set; Unlimited
	MaxRetries   int  // executions after the first; 0: not set; Unlimited
	AttemptCap   int  // the operator's ceiling on executions, over every other limit; 0: none
	NonRetryable bool // never run again after a failure

	// How long between two executions.

	Backoff       Backoff       // the curve of delays; nil: no delay
	MaxDelay      time.Duration // no delay of the curve is longer, jitter included; 0: no cap
	Jitter        Jitter        // moves each delay within its window; nil: none
	MaxRetryAfter time.Duration // the longest wait a server may ask for (see After); 0: one minute or MaxDelay, whichever is longer
	Source        Source        // draws the seed of a call, must be safe for concurrent use; nil: math/rand/v2

	// How long in all.

	MaxElapsed     time.Duration // no retry starts later than this after the first execution began; 0: no bound
	AttemptTimeout time.Duration // the context of each execution ends after this, and when the execution returns: read a body, finish a transaction inside; 0: none

	// What counts, who pays, who watches. The functions are called in the
	// caller's goroutine, and concurrently where the policy is shared. They
	// should return soon: the time they take comes on top of delays and bounds.

	RetryIf func(error) bool             // reports whether a failure is worth another try; nil: every failure is
	Select  func(error) *Policy          // a stricter policy for this failure, see Next; nil, or a nil result: this one
	Budget  *Budget                      // shared allowance of retries; nil: none
	OnEvent func(context.Context, Event) // is told of each event, in order; nil: nobody
}

// Default returns a policy for a call to a service nearby: 5 attempts, delays
// of 200ms, 400ms, 800ms and 1.6s, at most 5s, each ±20 %.
func Default() Policy {
	return Policy{
		MaxAttempts: 5,
		Backoff:     Exponential{Base: 200 * time.Millisecond, Factor: 2},
		MaxDelay:    5 * time.Second,
		Jitter:      Proportional(0.2),
	}
}

// Retries returns the MaxAttempts for n retries, n + 1, or Unlimited if n is
// negative. It is for numbers that come from a flag or a row, where 0 retries
// means one execution; a MaxRetries of 0 is not set.
func Retries(n int) int {
	switch {
	case n < 0:
		return Unlimited
	case n == math.MaxInt:
		return n
	default:
		return n + 1
	}
}

// limit returns the executions that MaxAttempts and MaxRetries allow, the
// smaller of the two, or Unlimited; 0 if neither is set.
func (p *Policy) limit() int {
	if p.MaxRetries == 0 {
		return p.MaxAttempts
	}
	return tighter(p.MaxAttempts, Retries(p.MaxRetries))
}

// tighter returns the smaller of two limits on executions. 0 is not set, and
// Unlimited loses to any number.
func tighter(a, b int) int {
	if a == 0 || a == Unlimited && b != 0 || b > 0 && b < a {
		return b
	}
	return a
}

// executions returns EffectiveMax of a policy that is sound.
func (p *Policy) executions() int {
	limit := p.limit()
	if p.NonRetryable || limit == 0 {
		return 1
	}
	return tighter(limit, p.AttemptCap)
}

// EffectiveMax returns how many executions p allows in all: at least 1, or
// [Unlimited]. It is the smaller of the limits that are set, and at most
// AttemptCap; 1 if no limit is set, if p is NonRetryable, or if p does not
// validate.
func (p Policy) EffectiveMax() int {
	limit, f := p.judge()
	if f != nil {
		return 1
	}
	return limit
}

// ForJob returns p with a job's own limit on executions, which can lower the
// one of p and never raise it. A maxAttempts of 0 or below is not set. The job
// decides alone where p sets no limit, but for AttemptCap and NonRetryable; a
// policy that does not validate stays as it is.
func (p Policy) ForJob(maxAttempts int) Policy {
	if maxAttempts > 0 && p.faults() == nil {
		p.MaxAttempts = tighter(p.limit(), maxAttempts)
		p.MaxRetries = 0
	}
	return p
}

// maxRetryAfter returns the longest wait that a server may ask for.
func (p *Policy) maxRetryAfter() time.Duration {
	if p.MaxRetryAfter > 0 {
		return p.MaxRetryAfter
	}
	return max(time.Minute, p.MaxDelay)
}

// Validate returns nil if p is sound, and else an error that names every fault
// at once: field, value, and what to write instead. It calls none of p's
// functions and no Backoff or Jitter that is not of this package, which is
// taken as sound; a pointer to one of ours counts as foreign.
func (p Policy) Validate() error {
	return p.faults().err()
}

// faults is what is wrong with a policy.
type faults []error

// add adds one: the field, its value, and what to write instead.
func (f *faults) add(field string, value any, write string) {
	*f = append(*f, fmt.Errorf("%s is %v: %s", field, value, write))
}

// err returns f as an error, nil if it is empty. It is a pointer, for errors are
// compared with ==, which panics on slices.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	found := f
	return &found
}

// Error names all the faults on one line.
func (f faults) Error() string {
	var b strings.Builder
	b.WriteString("invalid policy: ")
	for i, err := range f {
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

// judge returns the executions that p allows, and what is wrong with it. It
// allocates nothing where that is nothing, so every decision can afford to ask.
func (p *Policy) judge() (limit int, f faults) {
	limit, f = p.executions(), p.fieldFaults()
	if p.MaxRetries >= Unlimited && p.hot(limit, p.Backoff) {
		f = append(f, errHot)
	}
	return limit, f
}

var errHot = errors.New("no limit on executions and no delay that lasts: set MaxAttempts (max_attempts), MaxRetries (max_retries), MaxElapsed (max_elapsed), a Budget, or a Backoff (backoff) that goes on waiting")

// hot reports whether nothing would slow p down or stop it, had it this limit
// and this curve.
func (p *Policy) hot(limit int, b Backoff) bool {
	return limit == Unlimited && p.MaxElapsed == 0 && p.Budget == nil && !waits(b)
}

// waits reports whether a curve goes on waiting: one of ours is asked for the
// delay that it ends with, a third party's is trusted and never called.
func waits(b Backoff) bool {
	if f, ok := b.(BackoffFunc); ok {
		return f != nil
	}
	return b != nil && (!ours(b) || b.Delay(math.MaxInt) > 0)
}

// ours reports whether b is a curve of this package, which is safe to ask.
func ours(b Backoff) bool {
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
		duration = "write 0 for none, or a duration above it"
		delay    = "write 0 for no delay, or a duration above it"
	)
	if p.MaxAttempts < Unlimited {
		f.add("MaxAttempts", p.MaxAttempts, count)
	}
	if p.MaxRetries < Unlimited {
		f.add("MaxRetries", p.MaxRetries, count)
	}
	if p.AttemptCap < 0 {
		f.add("AttemptCap", p.AttemptCap, "write 0 for no cap, or how many executions it allows")
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
	if j, ok := p.Jitter.(Proportional); ok && !(j >= 0 && j <= 1) {
		f.add("Jitter: Proportional", float64(j), "write a share between 0 and 1: 0.2 is ±20 %")
	}
	if p.MaxRetryAfter < 0 {
		f.add("MaxRetryAfter", p.MaxRetryAfter, "write 0 for one minute or MaxDelay, whichever is longer, or a duration above it")
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
	}
	return f
}

// Lint returns what is sound in p but surely not meant, a line each, with the
// name of each field in Go and in the text form. It is nil if there is nothing
// to say, and if p does not validate.
func (p Policy) Lint() []string {
	if p.faults() != nil {
		return nil
	}
	var lint []string
	say := func(format string, args ...any) { lint = append(lint, fmt.Sprintf(format, args...)) }

	limit, retries := p.limit(), p.executions()-1
	first := time.Duration(0)
	if ours(p.Backoff) {
		first = p.Backoff.Delay(1)
	}
	if p.Backoff != nil && limit == 0 && !p.NonRetryable {
		say("Backoff (backoff) beside no limit: there is one execution and no delay; set MaxAttempts (max_attempts) or MaxRetries (max_retries)")
	}
	if p.MaxAttempts != 0 && p.MaxRetries != 0 {
		say("MaxAttempts (max_attempts) and MaxRetries (max_retries) are both set: the smaller counts, %s; set one", attempts(limit))
	}
	if p.NonRetryable && (limit == Unlimited || limit > 1) {
		say("NonRetryable (retryable: false) beside MaxAttempts (max_attempts) or MaxRetries (max_retries) for %s: there is one execution", attempts(limit))
	}
	if s, ok := p.Backoff.(Schedule); ok && limit != 0 && !p.NonRetryable && retries >= 0 && len(s) > retries {
		say("a Schedule (delays) of %d beside %s: the delay of %v and what follows is never reached; MaxAttempts (max_attempts) counts the first execution", len(s), attempts(retries+1), s[retries])
	}
	if grows(p.Backoff) && p.executions() == Unlimited && p.MaxDelay == 0 && p.MaxElapsed == 0 {
		say("unlimited attempts on a Backoff (backoff) that grows: the delays reach years; set MaxDelay (max_delay)")
	}
	if p.MaxElapsed > 0 && p.capped(first) > p.MaxElapsed {
		say("MaxElapsed (max_elapsed) of %v is shorter than the first delay of %v: there is no retry", p.MaxElapsed, p.capped(first))
	}
	if p.MaxDelay > 0 && first > p.MaxDelay {
		say("MaxDelay (max_delay) of %v is shorter than the first delay of %v: it cuts that already", p.MaxDelay, first)
	}
	return lint
}

// grows reports whether a curve of ours grows for ever.
func grows(b Backoff) bool {
	switch b := b.(type) {
	case Linear, Fibonacci, Exponential:
		return b.Delay(math.MaxInt) > b.Delay(1)
	default:
		return false
	}
}

// String describes p on one line, for people: "5 attempts, exponential 200ms
// x2, at most 5s, ±20%".
func (p Policy) String() string {
	if err := p.Validate(); err != nil {
		return err.Error()
	}
	parts := []string{attempts(p.executions())}
	say := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	switch b := p.Backoff.(type) {
	case nil:
	case Fixed:
		say(true, "fixed %v", time.Duration(b))
	case Linear:
		say(true, "linear %v", time.Duration(b))
	case Fibonacci:
		say(true, "fibonacci %v", time.Duration(b))
	case Exponential:
		say(true, "exponential %v x%v", b.Base, b.factor())
	case Schedule:
		say(true, "schedule %v", []time.Duration(b))
	default:
		say(true, "backoff %T", b)
	}
	say(p.MaxDelay > 0, "at most %v", p.MaxDelay)
	switch j := p.Jitter.(type) {
	case nil:
	case Proportional:
		say(true, "±%.4g%%", float64(j)*100)
	case spread:
		say(true, "%v jitter", j)
	default:
		say(true, "jitter %T", j)
	}
	say(p.MaxElapsed > 0, "within %v", p.MaxElapsed)
	say(p.AttemptTimeout > 0, "%v for each", p.AttemptTimeout)
	say(p.MaxRetryAfter > 0, "a server's wait at most %v", p.MaxRetryAfter)
	return strings.Join(parts, ", ")
}

// attempts writes a number of executions.
func attempts(n int) string {
	switch n {
	case Unlimited:
		return "unlimited attempts"
	case 1:
		return "1 attempt"
	default:
		return fmt.Sprintf("%d attempts", n)
	}
}
