package retry

import (
	"fmt"
	"slices"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Eligible reports whether an operation that has been executed this often may
// be executed, by count alone: always if it has not been, or if there is no
// limit, and else while attempts is below EffectiveMax.
func (p Policy) Eligible(attempts int) bool {
	limit := p.EffectiveMax()
	return limit == Unlimited || attempts < limit
}

// An Attempt is an execution that failed, as [Policy.Next] is asked about it.
type Attempt struct {
	Number  int           // 1 for the first execution: how many have run; below 1 counts as 1
	Err     error         // what it failed with; nil: decided by count and time alone
	Elapsed time.Duration // since the first execution began; below 0 counts as 0
	Seed    uint64        // picks the delay within the jitter's window; 0: drawn from Source
}

// A Decision says what follows a failed execution.
type Decision struct {
	// Delay is the wait after this attempt. It is there whatever the Reason,
	// but for ReasonInvalid, so that a scheduler that keeps a count of its own
	// may use it alone. With ReasonRetryAfter it is what the server asked for.
	Delay time.Duration

	Reason Reason // ReasonRetry: run again after Delay; anything else: do not
}

// Retry reports whether to run again, after Delay. It is false for the zero
// Decision.
func (d Decision) Retry() bool { return d.Reason == ReasonRetry }

// A Reason says why an operation is, or is not, executed again. The zero
// Reason is none.
type Reason uint8

// The reasons, in brackets the text that String and JSON have for each.
const (
	ReasonRetry        Reason = iota + 1 // run again [retry]
	ReasonSuccess                        // it did not fail [success]
	ReasonExhausted                      // as many executions as the policy allows [attempts_exhausted]
	ReasonNonRetryable                   // the policy is NonRetryable [not_retryable]
	ReasonPermanent                      // the error is marked by Permanent [permanent_error]
	ReasonRejected                       // RetryIf says no [rejected]
	ReasonRetryAfter                     // a server asks for a longer wait than MaxRetryAfter [retry_after_too_long]
	ReasonElapsed                        // the retry would start later than MaxElapsed allows [elapsed]
	ReasonDeadline                       // the context's deadline has passed, or would before the retry [deadline]
	ReasonCanceled                       // the context was canceled [canceled]
	ReasonBudget                         // the Budget has no retry left [budget_exhausted]
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

// Next returns what follows a failed execution: whether to run again, when,
// and why not. It is the decision that [Do] takes, but for what only a loop
// knows: it reads no clock, has no context, and leaves the Budget alone.
// Where Seed is 0 and a Jitter applies, that of p or of the policy that Select
// picks, Source is asked for one number; else Next is pure.
//
// The first of these that applies is the Reason: p is invalid; the error is
// marked [Permanent]; RetryIf says no; p is NonRetryable; the attempts are
// used up; a server asks for a longer wait than MaxRetryAfter (see [After]);
// the wait would end later than MaxElapsed. In a loop an ended context comes
// second, and last come the context's deadline and the Budget.
//
// Select is asked after RetryIf. The policy it returns gives the delay, by
// its Backoff, MaxDelay, Jitter and MaxRetryAfter, and can lower the number of
// executions, never raise it; NonRetryable is a limit of one. All else stays
// with p. If it is not valid, or never waits where p has no limit either, the
// Reason is ReasonInvalid.
func (p Policy) Next(a Attempt) Decision {
	limit, f := p.judge()
	if f != nil {
		return Decision{Reason: ReasonInvalid}
	}
	var r ruling
	r.decide(&p, limit, max(1, a.Number), a.Err, a.Elapsed, a.Seed)
	return r.Decision
}

// A ruling is a Decision with what it was made from.
type ruling struct {
	Decision
	hint    time.Duration // what a server asked for; 0: nothing
	maxHint time.Duration // ReasonRetryAfter: the longest that it may ask for
	seed    uint64        // what drew the delay; 0: there was nothing to draw
	fault   error         // ReasonInvalid: what is wrong
}

// decide fills in a zero r with what follows the attempt-th execution under a
// policy that is sound and allows limit executions.
func (r *ruling) decide(p *Policy, limit, attempt int, err error, elapsed time.Duration, seed uint64) {
	q := p // whose delay it is: p's own, or that of the policy that Select picks
	permanent, hint := marks(err)
	switch {
	case err == nil:
	case permanent:
		r.Reason = ReasonPermanent
	case p.RetryIf != nil && !p.RetryIf(err):
		r.Reason = ReasonRejected
	case p.Select != nil:
		if q, limit, r.fault = p.selected(err, limit); r.fault != nil {
			r.Reason = ReasonInvalid
			return
		}
	}

	lo, hi := q.window(attempt, hint)
	if lo < hi {
		if seed == 0 {
			seed = p.seed()
		}
		r.seed = seed
		lo = draw(seed, attempt, lo, hi)
	}
	r.Delay, r.hint = lo, hint

	switch {
	case r.Reason != 0:
	case p.NonRetryable || q.NonRetryable:
		r.Reason = ReasonNonRetryable
	case limit != Unlimited && attempt >= limit:
		r.Reason = ReasonExhausted
	case hint > q.maxRetryAfter():
		r.Reason = ReasonRetryAfter
		r.Delay, r.maxHint = hint, q.maxRetryAfter()
	case p.MaxElapsed > 0 && saturate.Add(max(0, elapsed), r.Delay) > p.MaxElapsed:
		r.Reason = ReasonElapsed
	default:
		r.Reason = ReasonRetry
	}
}

// selected returns the policy that Select picks for err and the executions
// that it and p allow together, or what is wrong with the pair.
func (p *Policy) selected(err error, limit int) (*Policy, int, error) {
	q := p.Select(err)
	if q == nil {
		return p, limit, nil
	}
	limit = tighter(tighter(limit, q.limit()), q.AttemptCap)
	if q.NonRetryable {
		limit = 1
	}
	f := q.fieldFaults()
	if p.hot(limit, q.Backoff) {
		f = append(f, errHot)
	}
	if f != nil {
		return q, limit, fmt.Errorf("the policy that Select picks: %w", f.err())
	}
	return q, limit, nil
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
		return fmt.Errorf("retry: %q is no %s: write one of %q", text, kind, names)
	}
	*v = T(i)
	return nil
}
