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

	// Classes has the number of earlier failures of each class, by its name. Empty:
	// there were none. nil: not known, and every class is counted by all failures.
	Classes map[string]int

	Err     error         // Next: what it failed with; nil: decided by count and time alone. Once does not read it
	Took    time.Duration // Next: how long it ran, for HealthyAfter. Once does not read it
	Elapsed time.Duration // since the first attempt began, for MaxElapsed; Once adds what the attempt takes. Below 0 is treated as 0
	Seed    uint64        // picks the delay within its window; 0: drawn from Source
}

// A Class is a kind of failure with limits and delays of its own, as
// Policy.Classify returns it. This allows one retry after a 401, whatever else
// failed before, if the call's policy has an attempt left:
//
//	&retry.Class{Name: "unauthorized", Policy: &retry.Policy{MaxAttempts: 2}}
//
// The limits of the call's policy hold over all failures, so that policy needs one.
type Class struct {
	// Failures are counted by Name: the limits and the curve of Policy apply to the
	// failures of this name. "": they apply to all failures. A call knows at most 8 names; a ninth is ReasonInvalid.
	Name string

	// Policy has the limits (MaxAttempts, MaxRetries, AttemptCap), the curve
	// (Backoff, MaxDelay, Jitter), MaxRetryAfter, ExactRetryAfter and NonRetryable
	// for this class. A zero there is none, not the call's: without a Backoff there is
	// no delay. Without a limit only those of the call apply. Its other fields have
	// no effect. nil: failures of this class are counted, and decided by the call's
	// policy.
	Policy *Policy

	// Cause says why the NonRetryable of Policy stops the call. It becomes the Cause
	// of the [Error] and of the Stopped. nil: none.
	Cause error
}

// maxClasses is how many names of classes a call knows. The failures of one more count
// as tooMany.
const (
	maxClasses = 8
	tooMany    = -1
)

// A Decision says what to do after a failed attempt, and what its Delay was made
// from. Write one with field names: it may get more fields.
type Decision struct {
	Reason Reason // ReasonRetry: try again after Delay; anything else: do not

	// Delay is the wait after this attempt, set even if Retry() is false: do not read
	// a stop as "at once". With ReasonRetryAfter it is what the server asked for. It is 0
	// for ReasonInvalid, for ReasonSuccess, and if Once did not call its function.
	Delay time.Duration

	Lo, Hi     time.Duration // the window of Delay, which is Draw(Seed, Number, Lo, Hi), with 1 for Number after a Reset
	RetryAfter time.Duration // what a server asked for; 0: nothing
	Seed       uint64        // what Delay was drawn with; 0: Delay is not random
	Class      string        // the name of the failure's class; "": none
	Reset      bool          // the call began anew with this attempt, by HealthyAfter
}

// Retry reports whether to try again, after Delay. It is false for the zero
// Decision.
func (d Decision) Retry() bool { return d.Reason == ReasonRetry }

// A Reason says why an operation is, or is not, attempted again. The zero Reason
// is none. More may be added: a switch needs a default.
type Reason string

const (
	ReasonRetry        Reason = "retry"                     // try again
	ReasonSuccess      Reason = "success"                   // it did not fail
	ReasonExhausted    Reason = "attempts_exhausted"        // all the attempts that the policy, or the failure's class, allows were made
	ReasonNonRetryable Reason = "not_retryable"             // the policy, or the failure's class, is NonRetryable
	ReasonPermanent    Reason = "permanent_error"           // the error is marked by Permanent, or comes from an inner call whose policy is invalid
	ReasonRejected     Reason = "rejected"                  // RetryIf said no
	ReasonRetryAfter   Reason = "retry_after_too_long"      // a server asks for a longer wait than MaxRetryAfter
	ReasonElapsed      Reason = "elapsed"                   // the retry would start later than MaxElapsed allows
	ReasonDeadline     Reason = "deadline"                  // the context's deadline has passed, or would before the retry
	ReasonCanceled     Reason = "canceled"                  // the context was canceled
	ReasonBudget       Reason = "budget_exhausted"          // a Budget, of the policy or the context, has no retry left
	ReasonBorrowed     Reason = "borrowed_budget_exhausted" // the same, of a Budget that is Borrowed: the caller lent no more
	ReasonWait         Reason = "wait_failed"               // the policy's Wait returned an error
	ReasonInvalid      Reason = "invalid"                   // the policy, a class, or the call is invalid
)

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
// Classify is called after RetryIf, and not for a nil Err. If it returns a
// [Class] with a Policy, that policy says how long to wait, and both its limits and
// those of p apply. A failure that is permanent or rejected has no class.
//
// If Took reaches HealthyAfter, the decision is for attempt 1 of a call that begins
// anew, and Reset is true: Delay is Draw(Seed, 1, Lo, Hi). Then take nothing from a
// Budget, and go on with Number 2, no earlier Classes, Elapsed from the end of this
// attempt, and a new Seed.
func (p Policy) Next(a Attempt) Decision {
	limit, f := p.judge()
	if f != nil {
		return Decision{Reason: ReasonInvalid}
	}
	number, elapsed := max(1, a.Number), a.Elapsed
	var v verdict
	if v.Reset = p.healthy(a.Took); v.Reset {
		number, elapsed, a.Classes = 1, 0, nil // nil: the first of all is the first of its class
	}
	v.decide(&p, limit, number, a.Err, a.Seed, &a, nil)
	v.draw(&p, number, elapsed, saturate.Max)
	return v.Decision
}

// failuresOf returns how many failures of a named class there are with this one,
// the number-th of all; tooMany if the name is one too many.
func (a *Attempt) failuresOf(class string, number int) int {
	if a.Classes == nil {
		return number
	}
	others := 0
	for name, failures := range a.Classes {
		if failures > 0 && name != "" && name != class {
			others++
		}
	}
	if others >= maxClasses {
		return tooMany
	}
	return next(max(0, a.Classes[class]))
}

// healthy reports whether an attempt that ran this long and failed begins the
// call anew.
func (p *Policy) healthy(took time.Duration) bool {
	return p.HealthyAfter > 0 && took >= p.HealthyAfter && (p.AttemptTimeout <= 0 || took < p.AttemptTimeout) && p.faults() == nil
}

// A verdict is a Decision, and what the loop and the text of an Error need beside
// it.
type verdict struct {
	Decision
	cause error // ReasonInvalid: what is wrong; ReasonNonRetryable: the Cause of the class

	class *Class // of the failure; nil: none
	of    int    // how many failures of the class there are, with this one; of all if it has no name

	now  time.Time     // when it was drawn; zero without a clock
	left time.Duration // ReasonDeadline: what the context's deadline leaves
}

// decide decides what to do after the number-th failure of a call, where p is valid
// and allows limit attempts. The failures of a class are counted by a, or where
// that is nil by c. It leaves the Delay to draw, because a loop reads its clock
// once all functions of p have returned.
func (v *verdict) decide(p *Policy, limit, number int, err error, seed uint64, a *Attempt, c *call) {
	permanent, retryAfter := marks(err)
	switch {
	case permanent:
		v.Reason = ReasonPermanent
	case err != nil && (p.RetryIf != nil || p.Classify != nil):
		v.ask(p, limit, number, err, a, c)
		if v.Reason == ReasonInvalid {
			return
		}
	}
	// q is the policy whose delay it is. It must not be a result of a function, nor
	// passed on where p is: that moves every Policy to the heap.
	q, nth, classLimit := p, number, 0
	if v.class != nil && v.class.Policy != nil {
		q, nth, classLimit = v.class.Policy, v.of, v.class.Policy.classLimit()
	}
	v.RetryAfter = q.heeds(retryAfter)
	switch {
	case v.Reason != "":
	case p.NonRetryable:
		v.Reason = ReasonNonRetryable
	case q.NonRetryable:
		v.Reason, v.cause = ReasonNonRetryable, v.class.Cause
	case limit != Unlimited && number >= limit:
		v.Reason, v.of = ReasonExhausted, 0
	case classLimit > 0 && nth >= classLimit:
		v.Reason = ReasonExhausted
	case v.RetryAfter > q.maxRetryAfter():
		v.Reason = ReasonRetryAfter
		v.Delay, v.Lo, v.Hi = v.RetryAfter, v.RetryAfter, v.RetryAfter
		return
	default:
		v.Reason = ReasonRetry
	}
	if q.Backoff != nil || q.Jitter != nil || v.RetryAfter != 0 { // else the window is 0, found a tenth faster
		v.Lo, v.Hi = q.window(nth, v.RetryAfter)
		v.Delay = v.Lo
	}
	if v.Lo < v.Hi {
		if v.Seed = seed; seed == 0 {
			v.Seed = p.seed()
		}
	}
}

// ask asks the functions of p about a failure. It sets the Reason of one that is
// rejected or whose class is invalid, and otherwise its class, if it has one.
func (v *verdict) ask(p *Policy, limit, number int, err error, a *Attempt, c *call) {
	if p.RetryIf != nil && !p.RetryIf(err) {
		v.Reason = ReasonRejected
		return
	}
	if p.Classify == nil {
		return
	}
	class := p.Classify(err)
	if class == nil {
		return
	}
	v.class, v.of = class, number
	switch {
	case class.Name == "":
	case a != nil:
		v.of = a.failuresOf(class.Name, number)
	default:
		v.of = c.failuresOf(class.Name)
	}
	if v.of == tooMany || c == nil || c.rare == nil || c.rare.valid != class.Policy { // else it was judged for an earlier failure
		if v.cause = p.classFault(class, limit, v.of); v.cause != nil {
			v.Reason = ReasonInvalid
			return
		}
	}
	v.Class = class.Name
	if c != nil && c.rare != nil {
		c.rare.valid = class.Policy
	}
}

// draw picks the Delay from its window, and stops a retry that would start later
// than MaxElapsed allows. left is how long the context's deadline is away,
// saturate.Max if it has none.
func (v *verdict) draw(p *Policy, number int, elapsed, left time.Duration) {
	if v.RetryAfter > 0 && v.Lo == v.RetryAfter && v.Lo != v.Hi {
		v.cut(p.MaxElapsed, max(0, elapsed), left)
	}
	if v.Lo != v.Hi {
		v.Delay = Draw(v.Seed, number, v.Lo, v.Hi)
	}
	if v.Reason == ReasonRetry && tooLate(p.MaxElapsed, elapsed, v.Delay) {
		v.Reason = ReasonElapsed
	}
}

// cut shortens the spread above a Retry-After, which must not end a call that has
// time for the wait itself: to what is left of MaxElapsed, and to half of what the
// wait leaves of the deadline, because the attempt needs time too.
func (v *verdict) cut(maxElapsed, elapsed, left time.Duration) {
	if within := maxElapsed - elapsed; maxElapsed > 0 && v.Lo <= within {
		v.Hi = min(v.Hi, within)
	}
	if left < saturate.Max && v.Lo < left {
		v.Hi = min(v.Hi, v.Lo+(left-v.Lo)/2)
	}
	if v.Lo == v.Hi {
		v.Seed = 0
	}
}

// tooLate reports whether a retry after delay starts later than maxElapsed
// allows.
func tooLate(maxElapsed, elapsed, delay time.Duration) bool {
	return maxElapsed > 0 && saturate.Add(max(0, elapsed), delay) > maxElapsed
}

// classLimit returns how many failures of its class p allows, with the last: 0 or
// Unlimited if it sets no limit.
func (p *Policy) classLimit() int { return tighter(p.count(), p.AttemptCap) }

// classFault returns what is wrong with a class whose failure is the of-th, where
// p allows limit attempts.
func (p *Policy) classFault(class *Class, limit, of int) error {
	if of == tooMany {
		return faults{fmt.Errorf("Classify returned %q, one name of a class too many: a call knows at most %d", class.Name, maxClasses)}.err()
	}
	q := class.Policy
	if q == nil {
		return nil
	}
	f := q.paceFaults()
	if limit == Unlimited && !q.NonRetryable && q.classLimit() <= 0 && p.hot(q.Backoff) {
		f = append(f, p.hotFault())
	}
	if f == nil {
		return nil
	}
	return &policyError{ofClass: true, class: class.Name, faults: f}
}
