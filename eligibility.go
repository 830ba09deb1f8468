package retry

import (
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Eligible reports whether the limit on attempts allows another attempt. attempts is how many
// attempts have been made: 0 or below is always eligible, and so is any number if p has no
// limit. Otherwise attempts must be below EffectiveMax. Eligible does not look at the time:
// if only MaxElapsed is set, every operation is eligible, whatever its age.
func (p Policy) Eligible(attempts int) bool {
	limit := p.EffectiveMax()
	return limit == Unlimited || attempts < limit
}

// An Attempt describes an attempt whose count somebody else keeps. [Policy.Next] decides on
// an attempt that has failed, and [Once] makes an attempt. Write an Attempt with field names,
// because it may get more fields.
type Attempt struct {
	// Number is the number of this attempt, which is the count of all attempts with this one.
	// The first attempt has number 1. Below 1 is treated as 1.
	Number int

	// Classes counts the earlier failures of each class by the name of the class. nil: there
	// were none. If a caller does not store the counts, each failure looks like the first
	// failure of its class: a MaxAttempts of a class above 1 is never reached, and the
	// Backoff of a class always gives its first delay.
	Classes map[string]int

	// Err is the error of the attempt, for Next. nil: only the limits and the time decide.
	Err error

	Took time.Duration // how long the attempt ran, for Next and HealthyAfter

	// Elapsed is the time since the first attempt began, for MaxElapsed. Once adds the time
	// that its attempt takes. Below 0 is treated as 0.
	Elapsed time.Duration

	Seed uint64 // picks the delay in its window; 0: Policy.Source draws a seed
}

// A Class is a kind of failure with its own limits and delays. Policy.Classify returns it for
// an error. The policy's value applies for each field that is zero. This class allows one
// retry after a 401, whatever other failures came before, and waits according to the policy:
//
//	&retry.Class{Name: "unauthorized", MaxAttempts: 2}
//
// The limits of the policy count all failures. So a class can only stop a call earlier, and
// a policy without a limit still makes one attempt. Negative numbers are invalid: the call
// stops with ReasonInvalid.
type Class struct {
	// Name is the name under which failures are counted. "": this class has no count of its
	// own, and its MaxAttempts and Backoff count all failures. A call counts the first 8
	// names. A later name has no count of its own either.
	Name string

	MaxAttempts  int  // stops the call at this many failures of Name; 0: no limit of its own
	NonRetryable bool // stops the call at this failure

	// Backoff is the curve for this class. Its first delay follows the first failure of
	// Name. nil: the policy's curve, which counts all failures. Fixed(0) is no delay.
	Backoff Backoff

	// SkipBudget makes the retry after this failure take nothing from Policy.Budget. An
	// example is the retry with a new token after a 401. The Budgets of WithBudget
	// still give that retry, or refuse it.
	SkipBudget bool

	MaxDelay time.Duration // 0: the policy's MaxDelay, also for the Backoff of this class
	Jitter   Jitter        // nil: the policy's Jitter; Proportional(0): no jitter

	// Cause says why NonRetryable stops the call. It becomes the Cause of the [Error]
	// and of the CallFinished. nil: there is no Cause.
	Cause error
}

// maxClasses is how many names of classes a call counts.
const maxClasses = 8

// A Decision says whether to retry after a failed attempt, after which delay, and how the
// delay was computed. [Decision.Retry] is a method: write d.Retry(), not d.Retry. Write a
// Decision with field names, because it may get more fields.
type Decision struct {
	// Reason says why to retry or not. Only ReasonRetry means a retry: see the method Retry.
	Reason Reason

	// Delay is the wait after this attempt. It is also set if Retry() is false: such a Delay
	// does not mean that a retry follows. With ReasonRetryAfter it is the wait that the server
	// asked for. It is 0 for ReasonInvalid, for ReasonSuccess, and if Once did not call its
	// function.
	Delay time.Duration

	// Lo and Hi are the window of the delay: Delay is Draw(Seed, Number, Lo, Hi).
	Lo, Hi time.Duration

	// Number is the number of the attempt: the count of all attempts so far. If an attempt ran
	// past HealthyAfter, the count begins anew and this attempt has Number 1. Limits and
	// delays depend on Number. It is 0 if nothing failed and if p is invalid.
	Number int

	RetryAfter time.Duration // the wait that a server asked for; 0: no server asked
	Seed       uint64        // the seed that Delay was drawn with; 0: Delay is not random
	Class      string        // the name of the failure's class; "": the failure has no class
	Reset      bool          // this attempt ran past HealthyAfter, so the call begins anew
}

// Retry reports whether to retry after Delay. It is false for the zero Decision.
func (d Decision) Retry() bool { return d.Reason == ReasonRetry }

// Next decides what follows a failed attempt: a retry after a delay, or a stop for a Reason.
// Next makes the same decision as [Do], except that it has no context, reads no clock, takes
// nothing from a Budget, and does not wait.
//
// Next calls Backoff, Jitter, RetryIf and Classify. If a delay is random and a.Seed is 0, Next
// draws a seed from Source. If a.Seed is not 0 and these functions are pure, Next is pure.
//
// The Reason is the first in this list that applies:
//
//  1. ReasonInvalid: p is invalid
//  2. ReasonPermanent: [Permanent] has wrapped the error
//  3. ReasonRejected: RetryIf returns false
//  4. ReasonInvalid: the class is invalid
//  5. ReasonNonRetryable: p or the class is NonRetryable
//  6. ReasonExhausted: the attempts of p or of the class are used up
//  7. ReasonRetryAfter: a server asks for a longer wait than MaxRetryAfter (see [After])
//  8. ReasonElapsed: the wait would end later than MaxElapsed
//  9. ReasonRetry
//
// Do also checks after step 1 that ctx is not done, and after step 8 the deadline of ctx and
// the Budgets.
//
// Classify is called after RetryIf. It is not called for a nil Err. A failure that is
// permanent or rejected has no class.
//
// If Took reaches HealthyAfter, the decision is for attempt 1 of a call that begins anew:
// Number is 1, and Reset is true. Then take nothing from a Budget. For the next attempt, pass
// Number 2, no Classes, Elapsed since the end of this attempt, and a new Seed.
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
	var e Error // decide and draw write facts for its text, which nobody reads here
	d := Decision{Reset: reset}
	d.decide(&p, f, p.limit(), number, of, &e)
	d.draw(&p, number, a.Seed, elapsed, saturate.Max, &e)
	return d
}

// healthy reports whether a failed attempt that ran this long makes the call begin anew. p must
// be valid.
func (p *Policy) healthy(took time.Duration) bool {
	inTime := p.AttemptTimeout <= 0 || took < p.AttemptTimeout
	return p.HealthyAfter > 0 && took >= p.HealthyAfter && inTime
}

// A failure is what an error and the functions of the policy say about a failed attempt.
type failure struct {
	reason     Reason        // ReasonPermanent or ReasonRejected; "": neither applies
	class      *Class        // nil: the failure has no class
	retryAfter time.Duration // the wait that a server asked for
	unmade     bool          // NotAttempted wraps the error
	ended      bool          // the error is nothing but a timeout or the end of a context
}

// ask inspects err and asks RetryIf and Classify about err.
func (p *Policy) ask(err error) (f failure) {
	in := inspect(err)
	f.retryAfter, f.ended, f.unmade = in.retryAfter, !in.said, in.unmade
	switch {
	case in.permanent:
		f.reason = ReasonPermanent
	case err == nil:
	case p.RetryIf != nil && !p.RetryIf(err):
		f.reason = ReasonRejected
	case p.Classify != nil:
		f.class = p.Classify(err)
	}
	return f
}

// failuresOf returns how many failures a class has, with the last failure. earlier counts the
// failures before. number is the count of all failures, which failuresOf returns for a class
// without a name and for a class after the first 8.
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

// decide sets the Reason and the window of a decision. p must be valid and allow limit
// attempts. number is the count of all failures, and of is the count of failures of the same
// class. decide writes the facts for the text of an Error into e. It does not set the Delay
// of a retry: a call first reads its clock and then calls draw.
func (d *Decision) decide(p *Policy, f failure, limit, number, of int, e *Error) {
	q, nth, class := p, number, f.class // q.window(nth) will be the window
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

// under returns p with the Backoff, MaxDelay and Jitter that c sets.
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

// draw draws the Delay from the window. It stops a retry that would start later than
// MaxElapsed allows, or after the context's deadline. left is the time until that deadline.
// If seed is 0 and the window has more than one delay, the policy's Source draws a seed.
func (d *Decision) draw(p *Policy, number int, seed uint64, elapsed, left time.Duration, e *Error) {
	elapsed = max(0, elapsed)
	if d.RetryAfter > saidZero && d.Lo == d.RetryAfter { // the window starts at the Retry-After
		// The jitter must not end a call that has time for the Retry-After itself. So the
		// window ends at MaxElapsed, and takes at most half of the time between the
		// Retry-After and the deadline, because the attempt needs time too.
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

// tooLate reports whether a retry after delay would start later than maxElapsed allows.
func tooLate(maxElapsed, elapsed, delay time.Duration) bool {
	return maxElapsed > 0 && saturate.Add(elapsed, delay) > maxElapsed
}
