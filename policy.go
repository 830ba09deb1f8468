package retry

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Unlimited is the MaxAttempts or MaxRetries of a policy that never stops by
// count.
const Unlimited = -1

// A Policy describes how often an operation is attempted, how long to wait
// between two attempts, and for how long in all. [Default] is one that is ready
// to use.
//
// A zero field does nothing, and Policy{} allows one attempt. So does every policy
// with none of MaxAttempts, MaxRetries and MaxElapsed. Where several limits are
// set, the lowest applies. MaxElapsed alone means: retry until the time is up.
//
// A Policy is a value. Derive one by copying it and setting fields, and share it
// among any number of goroutines. Its functions are called in the caller's
// goroutine, and concurrently where the policy is shared. They should return
// soon: the time that they take is added to the call. Only the time that OnEvent
// takes for a RetryScheduled is part of the wait.
//
//   - An AttemptTimeout also cancels the context when the attempt returns. Read
//     bodies and commit inside the attempt.
//   - Use MaxAttempts or MaxRetries, not both: if a file sets max_retries, a
//     larger MaxAttempts set in code has no effect. For a limit from a flag or the
//     environment there is [Policy.WithMaxAttempts].
//   - A policy whose attempts are unlimited, or that has a HealthyAfter, waits at least
//     10ms: a window that ends earlier becomes 10ms, even if Backoff is nil or MaxDelay
//     is shorter.
//
// Negative numbers are invalid, except Unlimited in MaxAttempts and MaxRetries. An
// invalid policy never retries: each call makes one attempt, and its error says what
// is wrong with the policy. [Policy.Validate] says so in advance.
type Policy struct {
	MaxAttempts  int  // attempts in all, with the first; 0: not set; Unlimited
	MaxRetries   int  // attempts after the first; 0: not set; Unlimited
	AttemptCap   int  // the operator's ceiling on attempts, over every other limit; 0: none
	NonRetryable bool // never retry a failure

	Backoff    Backoff        // the curve of delays; nil: no delay
	MaxDelay   time.Duration  // no delay of the curve is longer, jitter included; 0: no cap
	Jitter     Jitter         // spreads each delay over a window; nil: none
	RetryAfter RetryAfterMode // how a wait that a server asks for joins the curve

	// MaxRetryAfter is the longest such wait; 0: a minute, for a job a day (see ForJob),
	// or MaxDelay if that is longer.
	MaxRetryAfter time.Duration

	// Source draws the seed of a call, concurrently where the policy is shared; nil:
	// math/rand/v2.
	Source func() uint64

	// No retry starts later than MaxElapsed after the first attempt began; 0: no bound. Where the
	// next retry would, the call ends at once: a Retry-After of 48h is not waited for, and makes
	// a dead letter of a job in its first hours, under a MaxElapsed of a day as under
	// MaxRetryAfter.
	MaxElapsed time.Duration

	AttemptTimeout time.Duration // after it the context of an attempt is canceled; 0: never

	// HealthyAfter is for operations that last: a connection, a watch, a stream. An
	// attempt that ran at least this long was healthy. If it fails, the call begins
	// anew: it is attempt 1, no class has failed before, MaxElapsed counts from its
	// end, a new seed is drawn, and the retry takes nothing from any Budget. So
	// MaxAttempts 5 with a HealthyAfter of 1m gives up after five attempts that each
	// failed within a minute. An attempt that its AttemptTimeout ended was not
	// healthy. Return an error for a session that ended in good order, too: nil ends
	// the call. 0: never; below 1ms: invalid.
	HealthyAfter time.Duration

	RetryIf  func(error) bool   // reports whether to retry after this failure; nil: always
	Classify func(error) *Class // limits and delays of its own; nil, or a nil result: none
	Budget   *Budget            // shared allowance of retries; nil: none

	// Wait waits before a retry; nil: a timer. It is called once for each retry,
	// even for a d of 0, after the RetryScheduled, with the call's context and what
	// is left of the delay. It may return early, as when the network is back: the
	// retry then starts at once. A Wait that only pretends, for tests, returns what
	// it skipped, 0 to d, and the clock of the call runs ahead by it. If it returns
	// an error while ctx is not done, the call stops with ReasonWait and that error
	// as its Cause. If it took longer than d, MaxElapsed and the context's deadline
	// are checked again. [Policy.Next] and [Once] never call it.
	Wait func(ctx context.Context, d time.Duration) (skipped time.Duration, err error)

	// Enter is called before each attempt of a call, after the wait, with the AttemptStarted
	// that will follow; nil: not called. It may hold the attempt back, as a gate or a limit on
	// concurrency does. MaxElapsed counts that time; AttemptTimeout, HealthyAfter, Took and
	// Waited do not. If it returns an error, the attempt is not made and the call stops: with
	// ReasonWait and that error as its Cause, or, if the error is an [*Error], with its Reason,
	// Cause, Err and Delay. MaxElapsed and the context are checked again if Enter took a
	// millisecond or more. [Policy.Next] and [Once] never call it.
	Enter func(context.Context, Event) error

	OnEvent func(context.Context, Event) // called for each event, in order; nil: no callback
}

// A RetryAfterMode says what becomes of the wait that a server asks for, beside the
// curve of a policy; see [After]. The text form writes RetryAfterSpread as "spread", and
// RetryAfterMode("spread") is the same in Go.
//
//   - [RetryAfterSpread]: at least that wait; the jitter adds to it, so that clients
//     return apart
//   - [RetryAfterAtLeast]: the longer of that wait and the delay drawn from the curve;
//     nothing is added
//   - [RetryAfterExact]: exactly that wait, even if the curve is longer; 10ms if it is
//     shorter
type RetryAfterMode string

const (
	RetryAfterSpread  RetryAfterMode = ""
	RetryAfterAtLeast RetryAfterMode = "at_least"
	RetryAfterExact   RetryAfterMode = "exact"

	spreadInText RetryAfterMode = "spread" // the same as RetryAfterSpread
)

// Default returns a policy for a call to a service nearby: 5 attempts, delays
// of 200ms, 400ms, 800ms and 1.6s, at most 5s, each ±50 %.
func Default() Policy {
	return Policy{
		MaxAttempts: 5,
		Backoff:     Exponential{Base: 200 * time.Millisecond, Factor: 2},
		MaxDelay:    5 * time.Second,
		Jitter:      Proportional(0.5),
	}
}

// WithMaxAttempts returns p with a limit that comes from outside, such as from a flag or
// the environment. n is how many attempts there are in all, with the first, or
// [Unlimited]. It replaces MaxAttempts and MaxRetries, whichever of them p had; AttemptCap
// and MaxElapsed still apply. A limit on retries is n + 1 attempts.
//
// An n of 0 or below -1 is an error, and p is returned as it was: written into the field,
// a 0 would be no limit at all where p has a MaxElapsed.
func (p Policy) WithMaxAttempts(n int) (Policy, error) {
	if n == 0 || n < Unlimited {
		const write = "write 1 for no retry, or -1 for unlimited"
		return p, fmt.Errorf("retry: max attempts is %d: %s", n, write)
	}
	p.MaxAttempts, p.MaxRetries = n, 0
	return p, nil
}

// count returns the attempts that MaxAttempts and MaxRetries allow, the smaller
// of the two, or Unlimited; 0 if neither is set.
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

// declared returns the limit that p has: count, or Unlimited where MaxElapsed alone
// is set; 0 if it has none, which makes one attempt.
func (p *Policy) declared() int {
	if n := p.count(); n != 0 || p.MaxElapsed <= 0 {
		return n
	}
	return Unlimited
}

// endless reports whether p may go on for ever, because no limit on attempts is reached.
func (p *Policy) endless() bool { return p.HealthyAfter > 0 || p.limit() == Unlimited }

// tighter returns the smaller of two limits on attempts. 0 is not set, and
// Unlimited loses to any number.
func tighter(a, b int) int {
	if a == 0 || a == Unlimited && b != 0 || b > 0 && b < a {
		return b
	}
	return a
}

// limit returns EffectiveMax of a policy that is valid.
func (p *Policy) limit() int {
	limit := p.declared()
	if p.NonRetryable || limit == 0 {
		return 1
	}
	return tighter(limit, p.AttemptCap)
}

// EffectiveMax returns how many attempts p allows in all: at least 1, or
// [Unlimited].
//
//   - If MaxAttempts or MaxRetries is set: MaxAttempts or MaxRetries + 1, the
//     smaller if both are. If only MaxElapsed is set: Unlimited.
//   - In both cases at most AttemptCap, if that is set.
//   - 1 if no limit is set, if p is NonRetryable, and if p is invalid.
func (p Policy) EffectiveMax() int {
	if p.faults() != nil {
		return 1
	}
	return p.limit()
}

// ForJob returns p for a job of a queue that has its own limit on attempts, which can lower
// the limit of p and never raise it. A maxAttempts of 0 or below is not set. If p has
// neither MaxAttempts nor MaxRetries, the job's limit is the limit. AttemptCap,
// NonRetryable and MaxElapsed still apply. An invalid policy stays as it is.
//
// No goroutine waits while a job is in its queue. So if p has no MaxRetryAfter, it becomes a day,
// or MaxDelay if that is longer.
func (p Policy) ForJob(maxAttempts int) Policy {
	if p.faults() != nil {
		return p
	}
	if maxAttempts > 0 {
		p.MaxAttempts = tighter(p.count(), maxAttempts)
		p.MaxRetries = 0
	}
	p.MaxRetryAfter = cmp.Or(p.MaxRetryAfter, max(24*time.Hour, p.MaxDelay))
	return p
}

// maxRetryAfter returns the longest Retry-After that p waits for.
func (p *Policy) maxRetryAfter() time.Duration {
	return cmp.Or(p.MaxRetryAfter, max(time.Minute, p.MaxDelay))
}

// String describes p on one line, for people: "5 attempts, exponential 200ms
// x2, at most 5s, ±50%".
func (p Policy) String() string {
	if err := p.Validate(); err != nil {
		return err.Error()
	}
	parts := []string{attemptsText(p.limit())}
	say := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, saturate.Texts(args)...))
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
	case Spread:
		say(j != 0, "%v jitter", j)
	default:
		say(true, "jitter %T", j)
	}
	say(p.MaxElapsed > 0, "within %v", p.MaxElapsed)
	say(p.AttemptTimeout > 0, "%v for each", p.AttemptTimeout)
	say(p.HealthyAfter > 0, "healthy after %v", p.HealthyAfter)
	switch longest := p.maxRetryAfter(); p.RetryAfter {
	case RetryAfterExact:
		say(true, "Retry-After exactly, at most %v", longest)
	case RetryAfterAtLeast:
		say(true, "Retry-After without jitter, at most %v", longest)
	default:
		say(p.MaxRetryAfter > 0, "Retry-After at most %v", longest)
	}
	return strings.Join(parts, ", ")
}

// attemptsText writes a limit on attempts.
func attemptsText(limit int) string {
	if limit == Unlimited {
		return "unlimited attempts"
	}
	return plural(limit, "attempt")
}

// plural writes how many there are of something.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
