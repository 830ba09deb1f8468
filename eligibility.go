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

// EffectiveMax returns how many attempts p allows in all. The result is at least 1, or it is
// [Unlimited].
//
//   - If MaxAttempts is set, the result is MaxAttempts. If MaxRetries is set, the result is
//     MaxRetries + 1. If both are set, it is the smaller number.
//   - If only MaxElapsed is set, the result is Unlimited.
//   - If AttemptCap is set, a higher result is lowered to AttemptCap.
//   - If no limit is set, the result is 1. The same holds if p is NonRetryable or invalid.
func (p Policy) EffectiveMax() int {
	if p.faults() != nil {
		return 1
	}
	return p.limit()
}

// The method `limit` returns the EffectiveMax of a valid policy.
func (p *Policy) limit() int {
	limit := p.declared()
	if p.NonRetryable || limit == 0 {
		return 1
	}
	return tighter(limit, p.AttemptCap)
}

// The method `declared` returns the limit on attempts that p has before AttemptCap lowers it. The
// limit is the result of the method `count`, or Unlimited if only MaxElapsed is set. If p sets no
// limit, `declared` returns 0. Then p makes one attempt.
func (p *Policy) declared() int {
	if n := p.count(); n != 0 || p.MaxElapsed <= 0 {
		return n
	}
	return Unlimited
}

// The method `count` returns how many attempts MaxAttempts and MaxRetries allow. If both are set,
// it returns the smaller number. If neither is set, it returns 0.
func (p *Policy) count() int {
	switch {
	case p.MaxRetries == 0:
		return p.MaxAttempts
	case p.MaxRetries < 0:
		return tighter(p.MaxAttempts, Unlimited)
	default:
		return tighter(p.MaxAttempts, next(p.MaxRetries))
	}
}

// tighter returns the smaller of two limits on attempts. A limit of 0 is not set, so `tighter`
// returns the other limit. Unlimited is larger than any number.
func tighter(a, b int) int {
	if a == 0 || a == Unlimited && b != 0 || b > 0 && b < a {
		return b
	}
	return a
}

// endless reports whether the attempts of a call may be unlimited. This is so if EffectiveMax is
// Unlimited, or if p has a HealthyAfter, which can make the count of attempts begin anew. `endless`
// ignores MaxElapsed.
func (p *Policy) endless() bool { return p.HealthyAfter > 0 || p.limit() == Unlimited }

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

// Retry reports whether a retry follows. The field Delay is the wait before this retry. For the
// zero Decision, Retry returns false.
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
// If Took reaches HealthyAfter, the call begins anew: the decision is made for attempt 1, so Number
// is 1, and Reset is true. Do not take this retry from a Budget. If the retry fails too, call Next
// with Number 2 and a new Seed. In that call, Classes counts only the failure of the attempt that
// ran past HealthyAfter, and Elapsed is the time since the end of that attempt.
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
	var e Error // the methods `decide` and `draw` write details into e, which Next does not need
	d := Decision{Reset: reset}
	d.decide(&p, f, p.limit(), number, ofClass, &e)
	d.draw(&p, number, a.Seed, elapsed, saturate.Max, &e)
	return d
}

// healthy reports whether a failed attempt makes the call begin anew. The parameter `took` is how
// long the attempt ran. p must be valid.
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

// The method `ask` inspects err, and calls RetryIf and Classify with err.
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

// The method `decide` sets the Reason and the window of a decision. p must be valid, and `limit`
// must be the limit on attempts of p. The parameter `number` counts all failures, and `ofClass`
// counts the failures of the same class. `decide` writes details for the text of an Error into e.
// It does not set the Delay of a retry: the method `draw` sets it, after the caller has read the
// clock. The caller reads the clock between `decide` and `draw`, because `decide` calls Backoff and
// Jitter, and the time that these functions take counts as elapsed.
func (d *Decision) decide(p *Policy, f failure, limit, number, ofClass int, e *Error) {
	q, nth, class := p, number, f.class // the delays will come from q.window(nth, ...)
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
