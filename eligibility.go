package retry

import (
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Eligible reports whether p allows another attempt after this number of attempts. It returns
// true if the number is below EffectiveMax, or if EffectiveMax is Unlimited. A negative number
// is treated as 0. Eligible does not look at the time: if only MaxElapsed is set, Eligible
// returns true for every number.
func (p Policy) Eligible(attempts int) bool {
	limit := p.EffectiveMax()
	return limit == Unlimited || attempts < limit
}

// An Attempt describes one attempt of an operation whose attempts you count yourself, such as a
// job in a queue. [Policy.Next] decides what follows a failed attempt, and [Once] makes an
// attempt. Use field names in an Attempt literal, because a later version may add fields.
type Attempt struct {
	// Number is 1 for the first attempt, 2 for the second attempt, and so on. A Number below 1 is
	// treated as 1.
	Number int

	// Classes contains the number of earlier failures for each name of a class. nil: no earlier
	// failure had a class.
	//
	// Store these counts between the attempts. If the counts are lost, each failure looks like the
	// first failure of its class. Then a MaxAttempts of 2 or more in a class has no effect, and the
	// Backoff of a class always gives its first delay.
	Classes map[string]int

	// Err is the error of the attempt. Only Next reads it. If Err is nil, only the limits and the
	// time decide.
	Err error

	Took time.Duration // how long the attempt ran; Next compares it with HealthyAfter

	// Elapsed is the time since the first attempt began. It is compared with MaxElapsed. Once adds
	// the time that this attempt takes. A negative Elapsed is treated as 0.
	Elapsed time.Duration

	Seed uint64 // selects the delay from the window; 0: Policy.Source draws a seed
}

// A Class is a kind of failure that has its own limits and delays. Policy.Classify returns the
// Class of an error. If a field of the Class is zero, the field of the policy applies. The
// Class below allows one retry after a 401, however many other failures came before. It sets no
// delays, so the delays of the policy apply.
//
//	&retry.Class{Name: "unauthorized", MaxAttempts: 2}
//
// The limits of the policy still count all failures. So a Class can only stop a call earlier.
// If the policy has no limit, there is only one attempt, whatever the Class allows. A negative
// number in a Class is invalid, and stops the call with ReasonInvalid.
type Class struct {
	// Name is the name of the class. Failures with the same Name are counted together. A call
	// keeps a count for each of the first 8 names. A class without a Name has no count of its own,
	// and neither has a class after the first 8. The MaxAttempts and the Backoff of such a class
	// count all failures of the call.
	Name string

	MaxAttempts  int  // the call ends after this many failures of the class; 0: no limit
	NonRetryable bool // true: the call ends after a failure of this class

	// Backoff is the curve of delays for this class. It counts only the failures of this class, so
	// its first delay follows the first failure of this class. If it is nil, the curve of the
	// policy applies, which counts all failures. For no delay, use Fixed(0).
	Backoff Backoff

	// If SkipBudget is true, the retry after this failure takes nothing from Policy.Budget. An
	// example is the retry with a new token after a 401. The retry still takes from the Budgets of
	// WithBudget, which may refuse it.
	SkipBudget bool

	MaxDelay time.Duration // the longest delay; 0: the policy's MaxDelay
	Jitter   Jitter        // widens the delay; nil: the policy's Jitter; Proportional(0): no jitter

	// Cause says why the class is NonRetryable. If NonRetryable ends the call, Cause becomes the
	// Cause of the [Error] and of the CallFinished. It may be nil.
	Cause error
}

// maxClasses is the number of class names for which a call keeps counts.
const maxClasses = 8

// A Decision says whether a retry follows a failed attempt, and after which delay. It also
// contains the values from which the delay was computed. [Decision.Retry] is a method: write
// d.Retry(), not d.Retry. Use field names in a Decision literal, because a later version may
// add fields.
type Decision struct {
	// Reason says why a retry follows, or why no retry follows. Only ReasonRetry means that a
	// retry follows: see the method Retry.
	Reason Reason

	// Delay is the wait after this attempt. Delay may be set even if no retry follows, so check
	// Retry() first. With ReasonRetryAfter, Delay is the wait that the server asked for. With
	// ReasonInvalid and ReasonSuccess, Delay is 0. It is also 0 if Once did not call its function.
	Delay time.Duration

	// Lo and Hi are the shortest and the longest delay of the window. Delay is Draw(Seed, Number,
	// Lo, Hi).
	Lo, Hi time.Duration

	// Number is the number of the attempt. Limits and delays depend on Number. It is the count of
	// all attempts so far. An attempt that ran past HealthyAfter begins a new count, and gets
	// Number 1. Number is 0 if no attempt failed, or if the policy is invalid.
	Number int

	RetryAfter time.Duration // the wait that a server asked for; 0: no server asked
	Seed       uint64        // the seed that Delay was drawn with; 0: Delay is not random
	Class      string        // the name of the failure's class; "": the failure has no class
	Reset      bool          // true: this attempt ran past HealthyAfter, so the call begins anew
}

// Retry reports whether a retry follows after Delay. For the zero Decision it returns false.
func (d Decision) Retry() bool { return d.Reason == ReasonRetry }

// Next decides what follows a failed attempt: a retry after a delay, or the end of the call.
// Next makes the same decision as [Do], with four differences. Next has no context, reads no
// clock, takes nothing from a Budget, and does not wait.
//
// Next calls Backoff, Jitter, RetryIf and Classify. If the delay is random and a.Seed is 0,
// Next calls Source for a seed. If a.Seed is not 0, and the functions of p are pure, Next
// always makes the same decision for the same Attempt.
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
// Do makes more checks. After step 1, Do checks that ctx is not done. After step 8, it checks
// the deadline of ctx, and then the Budgets.
//
// Classify is called after RetryIf. If Err is nil, Classify is not called. A failure has no
// class if it is permanent or if RetryIf rejects it.
//
// If Took reaches HealthyAfter, the call begins anew: the decision is made for attempt 1, so
// Number is 1, and Reset is true. Do not take this retry from a Budget. For the retry, pass
// Number 2, no Classes, a new Seed, and the time since the end of this attempt as Elapsed.
func (p Policy) Next(a Attempt) Decision {
	if p.faults() != nil {
		return Decision{Reason: ReasonInvalid}
	}
	number, elapsed := max(1, a.Number), a.Elapsed
	reset := p.healthy(a.Took)
	if reset {
		number, elapsed, a.Classes = 1, 0, nil
	}
	f, ofClass := p.ask(a.Err), number
	if f.class != nil {
		ofClass = failuresOf(f.class.Name, a.Classes, number)
	}
	var e Error // decide and draw fill e, which Next does not need
	d := Decision{Reset: reset}
	d.decide(&p, f, p.limit(), number, ofClass, &e)
	d.draw(&p, number, a.Seed, elapsed, saturate.Max, &e)
	return d
}

// healthy reports whether a failed attempt that ran this long makes the call begin anew. p must
// be valid.
func (p *Policy) healthy(took time.Duration) bool {
	inTime := p.AttemptTimeout <= 0 || took < p.AttemptTimeout
	return p.HealthyAfter > 0 && took >= p.HealthyAfter && inTime
}

// A failure contains what an error, RetryIf and Classify say about a failed attempt.
type failure struct {
	reason     Reason        // ReasonPermanent, ReasonRejected or ""
	class      *Class        // nil: the failure has no class
	retryAfter time.Duration // the wait that a server asked for
	unmade     bool          // true: NotAttempted has wrapped the error
	ended      bool          // true: the error is nothing but a timeout or the end of a context
}

// ask inspects err, and calls RetryIf and Classify with err.
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

// failuresOf returns how many failures a class has, including the last failure. earlier counts
// the failures before the last failure. number is the count of all failures. failuresOf returns
// number for a class that has no count of its own: a class without a name, and a class after
// the first 8.
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

// decide sets the Reason and the window of a decision. p must be valid, and limit must be its
// limit on attempts. number counts all failures, and ofClass counts the failures of the same
// class. decide writes details for the text of an Error into e. It does not set the Delay of a
// retry, because a call reads its clock first. After that, draw sets the Delay.
func (d *Decision) decide(p *Policy, f failure, limit, number, ofClass int, e *Error) {
	q, nth, class := p, number, f.class // the window will be q.window(nth)
	if class != nil {
		if e.Cause = class.fault(); e.Cause != nil {
			d.Reason = ReasonInvalid
			return
		}
		d.Class = class.Name
		own := p.under(class)
		if q = &own; class.Backoff != nil {
			nth = ofClass
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
	case class != nil && class.MaxAttempts > 0 && ofClass >= class.MaxAttempts:
		d.Reason, e.of = ReasonExhausted, ofClass
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

// draw picks the Delay from the window. It stops a retry that would start later than MaxElapsed
// allows, or after the context's deadline. untilDeadline is the time until the deadline, or
// saturate.Max if there is no deadline. If seed is 0 and the window has more than one delay,
// draw calls the policy's Source for a seed.
func (d *Decision) draw(
	p *Policy, number int, seed uint64, elapsed, untilDeadline time.Duration, e *Error,
) {
	elapsed = max(0, elapsed)
	if d.RetryAfter > saidZero && d.Lo == d.RetryAfter { // the window starts at the Retry-After
		// The jitter must not end a call that has time for the Retry-After itself. So the window ends
		// at MaxElapsed if MaxElapsed comes earlier. The window also takes at most half of the time
		// between the Retry-After and the deadline, because the attempt needs time too.
		if within := p.MaxElapsed - elapsed; p.MaxElapsed > 0 && d.Lo <= within {
			d.Hi = min(d.Hi, within)
		}
		if untilDeadline < saturate.Max && d.Lo < untilDeadline {
			d.Hi = min(d.Hi, d.Lo+(untilDeadline-d.Lo)/2)
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
	case untilDeadline < saturate.Max && untilDeadline <= d.Delay:
		d.Reason, e.Cause = ReasonDeadline, &aheadError{max(0, untilDeadline)}
	}
}

// tooLate reports whether a retry after delay would start later than maxElapsed allows.
func tooLate(maxElapsed, elapsed, delay time.Duration) bool {
	return maxElapsed > 0 && saturate.Add(elapsed, delay) > maxElapsed
}
