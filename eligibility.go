package retry

import (
	"fmt"
	"math/bits"
	"slices"
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

// An Attempt is a failed attempt to decide on, see [Policy.Next].
type Attempt struct {
	Number  int           // 1 for the first attempt: how many were made; below 1 counts as 1
	Err     error         // what it failed with; nil: decided by count and time alone
	Elapsed time.Duration // since the first attempt began; below 0 counts as 0
	Seed    uint64        // picks the delay within the jitter's window; 0: drawn from Source
}

// A Decision says what follows a failed attempt, and what its Delay was made
// from. Write one with field names: it may get more fields.
type Decision struct {
	// Delay is the wait after this attempt, for every Reason except
	// ReasonInvalid. A scheduler that keeps a count of its own must not read a
	// stop as "at once". With ReasonRetryAfter it is what the server asked for.
	Delay time.Duration

	Reason Reason // ReasonRetry: try again after Delay; anything else: do not

	Lo, Hi time.Duration // the window that Delay was drawn from; equal where nothing was drawn
	Hint   time.Duration // the wait a server asked for; 0: none
	Seed   uint64        // what drew Delay; 0: nothing was drawn
}

// Retry reports whether to try again, after Delay. It is false for the zero
// Decision.
func (d Decision) Retry() bool { return d.Reason == ReasonRetry }

// A Reason says why an operation is, or is not, attempted again. The zero
// Reason is none.
type Reason uint8

// The reasons, in brackets the text that String and JSON have for each.
const (
	ReasonRetry        Reason = iota + 1 // try again [retry]
	ReasonSuccess                        // it did not fail [success]
	ReasonExhausted                      // all the attempts that the policy allows were made [attempts_exhausted]
	ReasonNonRetryable                   // the policy is NonRetryable [not_retryable]
	ReasonPermanent                      // the error is marked by Permanent, or is that of an invalid inner call [permanent_error]
	ReasonRejected                       // RetryIf said no [rejected]
	ReasonRetryAfter                     // a server asks for a longer wait than MaxRetryAfter [retry_after_too_long]
	ReasonElapsed                        // the retry would start later than MaxElapsed allows [elapsed]
	ReasonDeadline                       // the context's deadline has passed, or would before the retry [deadline]
	ReasonCanceled                       // the context was canceled [canceled]
	ReasonBudget                         // a Budget, of the policy or the context, has no retry left [budget_exhausted]
	ReasonInvalid                        // the policy, or the call, is not valid [invalid]
	ReasonLeft                           // the body of a Loop was left with its error [left]
)

var reasonNames = []string{"", "retry", "success", "attempts_exhausted", "not_retryable", "permanent_error", "rejected",
	"retry_after_too_long", "elapsed", "deadline", "canceled", "budget_exhausted", "invalid", "left"}

// String returns the name of r: "" for none, "retry", "attempts_exhausted".
func (r Reason) String() string { return nameOf("Reason", r, reasonNames) }

// MarshalText returns the name of r, or an error if it has none.
func (r Reason) MarshalText() ([]byte, error) { return marshalName("Reason", r, reasonNames) }

// UnmarshalText sets r to the reason of that name.
func (r *Reason) UnmarshalText(text []byte) error {
	return unmarshalName("Reason", r, reasonNames, text)
}

// Next returns what follows a failed attempt: whether to try again, when, and
// why not. Next makes the same decision as [Do], except for the context and the
// Budget: it reads no clock, has no context, and leaves every Budget alone. Next
// is pure if Seed is set, or if no Jitter applies. Otherwise it draws one number
// from Source.
//
// The first of these that applies is the Reason: p is invalid; the error is
// marked [Permanent]; RetryIf says no; p is NonRetryable; the attempts are
// used up; a server asks for a longer wait than MaxRetryAfter (see [After]);
// the wait would end later than MaxElapsed. In a loop an ended context comes
// second, and the context's deadline and the Budgets come last.
//
// Select is called after RetryIf, if there is an error. The policy it returns
// replaces Backoff, MaxDelay, Jitter and MaxRetryAfter for this decision. Its
// limits can lower the number of attempts, never raise it, and its NonRetryable
// ends them with ReasonNonRetryable. All else stays with p. If the returned
// policy is not valid, or never waits where p has no limit either, the Reason is
// ReasonInvalid.
func (p Policy) Next(a Attempt) (d Decision) {
	limit, f := p.judge()
	if f != nil {
		d.Reason = ReasonInvalid
		return d
	}
	if _, fault := d.decide(&p, limit, max(1, a.Number), a.Err, a.Seed); fault == nil {
		d.within(p.MaxElapsed, a.Elapsed)
	}
	return d
}

// decide fills in a zero d with what follows an attempt under a policy that is
// valid and allows limit attempts. It leaves MaxElapsed to within, because a
// loop reads its clock once everything here has returned. With ReasonRetryAfter
// maxWait is the longest wait that a server may ask for, with ReasonInvalid fault
// is what is wrong.
func (d *Decision) decide(p *Policy, limit, attempt int, err error, seed uint64) (maxWait time.Duration, fault error) {
	q := p // whose delay it is: p's own, or that of the policy that Select returns
	permanent, hint := marks(err)
	switch {
	case err == nil:
	case permanent:
		d.Reason = ReasonPermanent
	case p.RetryIf != nil && !p.RetryIf(err):
		d.Reason = ReasonRejected
	case p.Select != nil:
		if q, limit, fault = p.selected(err, limit); fault != nil {
			d.Reason = ReasonInvalid
			return 0, fault
		}
	}
	d.Hint = hint
	switch {
	case d.Reason != 0:
	case p.NonRetryable || q.NonRetryable:
		d.Reason = ReasonNonRetryable
	case limit != Unlimited && attempt >= limit:
		d.Reason = ReasonExhausted
	case hint > q.maxRetryAfter():
		d.Reason = ReasonRetryAfter
		d.Delay, d.Lo, d.Hi = hint, hint, hint
		return q.maxRetryAfter(), nil
	default:
		d.Reason = ReasonRetry
	}
	if q.Backoff != nil || q.Jitter != nil || hint > 0 { // else the window is 0, found a tenth faster
		d.Lo, d.Hi = q.window(attempt, hint)
		d.Delay = d.Lo
	}
	if d.Lo < d.Hi {
		if seed == 0 {
			seed = p.seed()
		}
		d.Seed = seed
		d.Delay = draw(seed, attempt, d.Lo, d.Hi)
	}
	return 0, nil
}

// within stops a retry that would start later than maxElapsed allows.
func (d *Decision) within(maxElapsed, elapsed time.Duration) {
	if d.Reason == ReasonRetry && tooLate(maxElapsed, elapsed, d.Delay) {
		d.Reason = ReasonElapsed
	}
}

// tooLate reports whether a retry after delay starts later than maxElapsed
// allows.
func tooLate(maxElapsed, elapsed, delay time.Duration) bool {
	return maxElapsed > 0 && saturate.Add(max(0, elapsed), delay) > maxElapsed
}

// selected returns the policy that Select returns for err and the attempts
// that it and p allow together, or what is wrong with the pair.
func (p *Policy) selected(err error, limit int) (*Policy, int, error) {
	q := p.Select(err)
	if q == nil {
		return p, limit, nil
	}
	limit = tighter(tighter(limit, q.count()), q.AttemptCap)
	if q.NonRetryable {
		limit = 1
	}
	f := q.fieldFaults()
	if limit == Unlimited {
		if err := p.hot(q.Backoff); err != nil {
			f = append(f, err)
		}
	}
	if f != nil {
		return q, limit, &selectError{f}
	}
	return q, limit, nil
}

// A selectError is what is wrong with a policy that Select returned.
type selectError struct{ faults }

func (e *selectError) Error() string { return invalidPolicyText + " returned by Select: " + e.list() }

// draw picks the delay of an attempt from its window, lo <= hi, both included.
// It multiplies instead of taking a remainder, which would favor the low end:
// Lemire, "Fast Random Integer Generation in an Interval" (2019).
func draw(seed uint64, attempt int, lo, hi time.Duration) time.Duration {
	n, _ := bits.Mul64(mix(seed, uint64(attempt)), uint64(hi-lo)+1)
	return lo + time.Duration(n)
}

// window returns the least and the greatest delay after an attempt: the curve,
// cut to the cap, spread by the jitter inside the cap, raised to what a server
// asked for.
func (p *Policy) window(attempt int, hint time.Duration) (lo, hi time.Duration) {
	if p.Backoff != nil {
		lo = p.capped(max(0, p.Backoff.Delay(attempt)))
	}
	hi = lo
	if p.Jitter != nil {
		lo, hi = p.spread(lo)
	}
	if hi > p.capped(hi) {
		if lo >= p.MaxDelay {
			lo = max(0, p.MaxDelay-(hi-lo))
		}
		hi = p.MaxDelay
	}
	if hint > lo {
		// Clients that were told the same wait must not return together, and
		// none may return early: the jitter only adds.
		width := time.Duration(0)
		if p.Jitter != nil {
			from, to := p.spread(hint)
			width = p.capped(to - from)
		}
		lo, hi = hint, max(hi, saturate.Add(hint, width))
	}
	return lo, hi
}

// capped returns d, or MaxDelay if that is shorter.
func (p *Policy) capped(d time.Duration) time.Duration {
	if p.MaxDelay > 0 && p.MaxDelay < d {
		return p.MaxDelay
	}
	return d
}

// spread returns the jitter's window around d, corrected where a
// custom Jitter returns one that is reversed or negative.
func (p *Policy) spread(d time.Duration) (lo, hi time.Duration) {
	lo, hi = p.Jitter.Window(d)
	return max(0, min(lo, hi)), max(0, lo, hi)
}

// nameOf returns the name of a constant, its place in names.
func nameOf[T ~uint8](kind string, v T, names []string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

func marshalName[T ~uint8](kind string, v T, names []string) ([]byte, error) {
	if int(v) < len(names) {
		return []byte(names[v]), nil
	}
	return nil, fmt.Errorf("retry: %s(%d) has no name", kind, v)
}

func unmarshalName[T ~uint8](kind string, v *T, names []string, text []byte) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("retry: unknown %s %.40q: write one of %q", kind, text, names)
	}
	*v = T(i)
	return nil
}
