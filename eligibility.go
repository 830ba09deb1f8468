package retry

import (
	"fmt"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Eligible reports whether an operation may be attempted after this many
// attempts, by count alone: if it has not been attempted, if there is no limit,
// and otherwise while attempts is below EffectiveMax. Time is not considered:
// under MaxElapsed alone every operation is eligible, whatever its age.
func (p Policy) Eligible(attempts int) bool {
	limit := p.EffectiveMax()
	return limit == Unlimited || attempts < limit
}

// An Attempt is a failed attempt to decide on, see [Policy.Next], or one that is
// to be made, see [Once]. Write it with field names: it may get more fields.
type Attempt struct {
	Number int // 1 for the first attempt; below 1 is treated as 1

	// Classes has the number of earlier failures of each class, by its name; nil: none.
	// A caller that does not store them makes each failure the first of its class: no
	// MaxAttempts of a class above 1 is ever reached, and a Backoff of a class stays at
	// its first delay.
	Classes map[string]int

	Err  error         // what it failed with, for Next; nil: count and time decide
	Took time.Duration // how long it ran, for Next and HealthyAfter

	// Elapsed is the time since the first attempt began, for MaxElapsed. Once adds what
	// the attempt takes. Below 0 is treated as 0.
	Elapsed time.Duration

	Seed uint64 // picks the delay within its window; 0: drawn from Source
}

// A Class is a kind of failure, as Policy.Classify returns it. What it leaves
// zero is the policy's. This allows one retry after a 401, whatever else failed
// before, and waits as the policy says:
//
//	&retry.Class{Name: "unauthorized", MaxAttempts: 2}
//
// The limits of the policy count all failures, so a class can only stop a call
// earlier, and a policy without a limit still makes one attempt. Negative numbers
// are invalid: the call stops with ReasonInvalid.
type Class struct {
	// Failures are counted by Name. "": this class has no count of its own, and
	// MaxAttempts and Backoff count all failures. A call counts the first 8 names
	// that it sees; failures of any other name are counted as if it were "".
	Name string

	MaxAttempts  int  // stops the call at this many failures of Name; 0: never
	NonRetryable bool // never retry this failure

	// Backoff is the curve for this class: its first delay follows the first failure of
	// Name. nil: the policy's, which goes by all failures. Fixed(0) is no delay.
	Backoff Backoff

	// SkipBudget makes the retry after this failure take nothing from Policy.Budget, such as
	// the retry after a 401, for which a new token is fetched. The Budgets of WithBudget
	// still give that retry, or refuse it.
	SkipBudget bool

	MaxDelay time.Duration // 0: the policy's, even where the Backoff is its own
	Jitter   Jitter        // nil: the policy's; Proportional(0): none

	// Cause says why NonRetryable stops the call. It becomes the Cause of the [Error]
	// and of the CallFinished. nil: none.
	Cause error
}

// maxClasses is how many names of classes a call counts.
const maxClasses = 8

// A Decision says what to do after a failed attempt, and what its Delay was made
// from. Write one with field names: it may get more fields.
type Decision struct {
	Reason Reason // ReasonRetry: try again after Delay; anything else: do not

	// Delay is the wait after this attempt, set even if Retry() is false: do not read
	// a stop as "at once". With ReasonRetryAfter it is what the server asked for. It is 0
	// for ReasonInvalid, for ReasonSuccess, and if Once did not call its function.
	Delay time.Duration

	// Lo and Hi are the window of Delay, which is Draw(Seed, Number, Lo, Hi).
	Lo, Hi time.Duration

	// Number is that of the attempt, counted from the last healthy attempt on, which has
	// Number 1. Limits and delays go by it. It is 0 if nothing failed and if p is invalid.
	Number int

	RetryAfter time.Duration // what a server asked for; 0: nothing
	Seed       uint64        // what Delay was drawn with; 0: Delay is not random
	Class      string        // the name of the failure's class; "": none
	Reset      bool          // this attempt was healthy, so the call begins anew
}

// Retry reports whether to try again, after Delay. It is false for the zero
// Decision.
func (d Decision) Retry() bool { return d.Reason == ReasonRetry }

// Next returns what to do after a failed attempt: whether to try again, when, and
// why not. It makes the same decision as [Do], except for the context and the
// Budget: it reads no clock, has no context, takes nothing from a Budget, and
// does not wait.
//
// Next calls Backoff, Jitter, RetryIf and Classify. If a delay is random and a has no
// Seed, it draws one from Source. If Seed is set and these functions are
// pure, so is Next.
//
// The first of these that applies is the Reason: p is invalid; the error is
// marked [Permanent]; RetryIf says no; the class is invalid; p or the class is
// NonRetryable; the attempts of p or of the class are used up; a server asks for a
// longer wait than MaxRetryAfter (see [After]); the wait would end later than
// MaxElapsed. Do also checks that ctx is not done, after the validity of p, and the
// deadline of ctx and the Budgets at the end.
//
// Classify is called after RetryIf, and not for a nil Err. A failure that is
// permanent or rejected has no class.
//
// If Took reaches HealthyAfter, the decision is for attempt 1 of a call that begins
// anew: Number is 1, and Reset is true. Then take nothing from a
// Budget, and go on with Number 2, no earlier Classes, Elapsed from the end of this
// attempt, and a new Seed.
func (p Policy) Next(a Attempt) Decision {
	if p.faults() != nil {
		return Decision{Reason: ReasonInvalid}
	}
	number, elapsed := max(1, a.Number), a.Elapsed
	reset := p.healthy(a.Took)
	if reset {
		number, elapsed, a.Classes = 1, 0, nil
	}
	f, of := p.ask(a.Err), number
	if f.class != nil {
		of = failuresOf(f.class.Name, a.Classes, number)
	}
	var e Error // not looked at
	d := Decision{Reset: reset}
	d.decide(&p, f, p.limit(), number, of, &e)
	d.draw(&p, number, a.Seed, elapsed, saturate.Max, &e)
	return d
}

// healthy reports whether an attempt that ran this long and failed begins the
// call anew, where p is valid.
func (p *Policy) healthy(took time.Duration) bool {
	inTime := p.AttemptTimeout <= 0 || took < p.AttemptTimeout
	return p.HealthyAfter > 0 && took >= p.HealthyAfter && inTime
}

// A failure is what an error says, and what the functions of the policy say of it.
type failure struct {
	reason     Reason        // ReasonPermanent or ReasonRejected; "": neither
	class      *Class        // nil: none
	retryAfter time.Duration // what a server asked for
	unmade     bool          // NotAttempted marks it
	ended      bool          // it is nothing but a timeout or the end of a context
}

// ask asks for it.
func (p *Policy) ask(err error) (f failure) {
	m := marks(err)
	f.retryAfter, f.ended, f.unmade = m.retryAfter, !m.said, m.unmade
	switch {
	case m.permanent:
		f.reason = ReasonPermanent
	case err == nil:
	case p.RetryIf != nil && !p.RetryIf(err):
		f.reason = ReasonRejected
	case p.Classify != nil:
		f.class = p.Classify(err)
	}
	return f
}

// failuresOf returns how many failures of a class there are with this one, the
// number-th of all, which counts where there are too many names.
func failuresOf(class string, earlier map[string]int, number int) int {
	names := 0
	for name, failures := range earlier {
		if failures > 0 && name != "" {
			names++
		}
	}
	before := max(0, earlier[class])
	if class == "" || before == 0 && names >= maxClasses {
		return number
	}
	return next(before)
}

// decide decides on the number-th failure of a call, the of-th of its class, where p
// is valid and allows limit attempts. What an Error says besides goes into e. The Delay
// is left to draw, because a call reads its clock in between.
func (d *Decision) decide(p *Policy, f failure, limit, number, of int, e *Error) {
	q, nth, class := p, number, f.class // the policy whose delay it is, and which one
	if class != nil {
		if e.Cause = class.fault(); e.Cause != nil {
			d.Reason = ReasonInvalid
			return
		}
		d.Class = class.Name
		own := p.under(class)
		if q = &own; class.Backoff != nil {
			nth = of
		}
	}
	d.Number, d.RetryAfter = number, f.retryAfter
	switch {
	case f.reason != "":
		d.Reason = f.reason
	case p.NonRetryable:
		d.Reason = ReasonNonRetryable
	case class != nil && class.NonRetryable:
		d.Reason, e.Cause = ReasonNonRetryable, class.Cause
	case limit != Unlimited && number >= limit:
		d.Reason = ReasonExhausted
	case class != nil && class.MaxAttempts > 0 && of >= class.MaxAttempts:
		d.Reason, e.of = ReasonExhausted, of
	case d.RetryAfter > p.maxRetryAfter():
		d.Reason, e.bound = ReasonRetryAfter, p.maxRetryAfter()
		d.Delay, d.Lo, d.Hi = d.RetryAfter, d.RetryAfter, d.RetryAfter
		return
	default:
		d.Reason = ReasonRetry
	}
	if q.Backoff != nil || q.Jitter != nil || d.RetryAfter != 0 || p.endless() {
		d.Lo, d.Hi = q.window(nth, d.RetryAfter)
	}
}

// under returns p as it is for a failure of class c.
func (p *Policy) under(c *Class) Policy {
	q := *p
	if c.Backoff != nil {
		q.Backoff = c.Backoff
	}
	if c.MaxDelay != 0 {
		q.MaxDelay = c.MaxDelay
	}
	if c.Jitter != nil {
		q.Jitter = c.Jitter
	}
	return q
}

// draw picks the Delay from its window, and stops a retry that would start later
// than MaxElapsed or the context's deadline allows, which leaves left. A seed of 0 is
// drawn from Source, where there is a choice.
func (d *Decision) draw(p *Policy, number int, seed uint64, elapsed, left time.Duration, e *Error) {
	elapsed = max(0, elapsed)
	if d.RetryAfter > saidZero && d.Lo == d.RetryAfter { // above that there is only the curve
		// The spread above what a server asked for must not end a call that has time
		// for the wait itself. It is cut to what is left of MaxElapsed, and to half of
		// what the wait leaves of the deadline, because the attempt needs time too.
		if within := p.MaxElapsed - elapsed; p.MaxElapsed > 0 && d.Lo <= within {
			d.Hi = min(d.Hi, within)
		}
		if left < saturate.Max && d.Lo < left {
			d.Hi = min(d.Hi, d.Lo+(left-d.Lo)/2)
		}
	}
	if d.Lo < d.Hi {
		if d.Seed = seed; seed == 0 {
			d.Seed = p.seed()
		}
	}
	d.Delay = Draw(d.Seed, number, d.Lo, d.Hi)
	if p.RetryAfter == RetryAfterAtLeast && d.Delay < d.RetryAfter {
		d.Delay, d.Lo, d.Hi = d.RetryAfter, d.RetryAfter, d.RetryAfter
	}
	switch {
	case d.Reason != ReasonRetry:
	case tooLate(p.MaxElapsed, elapsed, d.Delay):
		d.Reason, e.bound, e.elapsed = ReasonElapsed, p.MaxElapsed, elapsed
	case left < saturate.Max && left <= d.Delay:
		d.Reason, e.Cause = ReasonDeadline, &aheadError{max(0, left)}
	}
}

// tooLate reports whether a retry after delay starts later than maxElapsed
// allows.
func tooLate(maxElapsed, elapsed, delay time.Duration) bool {
	return maxElapsed > 0 && saturate.Add(elapsed, delay) > maxElapsed
}

// fault returns what is wrong with c.
func (c *Class) fault() error {
	var f faults
	check(&f, c.MaxAttempts < 0, "MaxAttempts", c.MaxAttempts,
		"write how many, or 0 for the policy's limits alone")
	f.addBackoff(c.Backoff)
	check(&f, c.MaxDelay < 0, "MaxDelay", c.MaxDelay,
		"write 0 for the policy's, or a positive duration")
	f.addJitter(c.Jitter)
	if f == nil {
		return nil
	}
	for i := range f.named() { // a class has no text form
		f[i].Key, f[i].inKeys = "", f[i].inGo
	}
	return &PolicyError{of: fmt.Sprintf("class %q", c.Name), faults: f}
}
