package retry

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Unlimited is the MaxAttempts or MaxRetries of a policy without a limit on attempts.
const Unlimited = -1

// A Policy describes how often an operation is attempted, how long each wait between two
// attempts is, and how long the retries may take in all. [Default] returns a Policy for
// ordinary calls.
//
// A zero field does nothing, and Policy{} allows one attempt. Every policy without
// MaxAttempts, MaxRetries and MaxElapsed allows one attempt. If several limits are set, the
// lowest limit applies. If only MaxElapsed is set, the call retries until the time is up.
//
// A Policy is a value. To derive a policy, copy it and set fields of the copy. Any number of
// goroutines may share a Policy. Its functions are called in the goroutine of the caller, so
// the functions of a shared policy are called concurrently. The functions should return soon,
// because their time is added to the call. Only the time that OnEvent takes for a
// RetryScheduled is part of the wait.
//
//   - An AttemptTimeout also cancels the context when the attempt returns. Read bodies and
//     commit inside the attempt.
//   - Use MaxAttempts or MaxRetries, not both: if a file sets max_retries, a larger
//     MaxAttempts set in code has no effect. For a limit from a flag or the environment
//     there is [Policy.WithMaxAttempts].
//   - A policy waits at least 10ms before each retry if its attempts are unlimited or if it
//     has a HealthyAfter. A window that ends below 10ms becomes 10ms, even if Backoff is nil
//     or MaxDelay is shorter.
//
// Negative numbers are invalid, except Unlimited in MaxAttempts and MaxRetries. An invalid
// policy never retries: each call makes one attempt, and its error says why the policy is
// invalid. [Policy.Validate] checks a policy before any call.
type Policy struct {
	// MaxAttempts is the limit on all attempts, with the first. 0: not set. Unlimited (-1): no
	// limit.
	MaxAttempts int

	// MaxRetries is the limit on attempts after the first. 0: not set. Unlimited: no limit.
	MaxRetries int

	// AttemptCap is an operator's ceiling on all attempts. It lowers every higher limit, and
	// sets no limit of its own. 0: no ceiling.
	AttemptCap int

	// NonRetryable allows one attempt and no retry, whatever the limits are. There is no field
	// Retryable, because a Policy that leaves it zero would never retry. The text form writes
	// "retryable": false.
	NonRetryable bool

	Backoff Backoff // the curve of delays; nil: no delay

	// MaxDelay is the longest delay that Backoff and Jitter may give. 0: no limit. A wait can
	// be longer than MaxDelay in two cases. A server may ask for a longer wait, up to
	// MaxRetryAfter. And if the policy waits at least 10ms (see above), it does so even if
	// MaxDelay is shorter.
	MaxDelay time.Duration

	Jitter     Jitter         // widens each delay to a window; nil: no jitter
	RetryAfter RetryAfterMode // how a server's Retry-After and the curve are combined

	// MaxRetryAfter is the longest Retry-After that a call waits for. A longer one ends the
	// call. 0: a minute, or a day for a job (see ForJob), or MaxDelay if MaxDelay is longer.
	MaxRetryAfter time.Duration

	// Source returns the seed of a call. A shared policy calls Source concurrently. nil:
	// math/rand/v2.
	Source func() uint64

	// No retry starts later than MaxElapsed after the first attempt began. 0: no bound. If the
	// next retry would start later, the call ends without waiting. For example, a job with a
	// MaxElapsed of a day becomes a dead letter as soon as a server asks for a wait of 48h.
	MaxElapsed time.Duration

	// AttemptTimeout is how long an attempt may run before its context is canceled. 0: no
	// timeout.
	AttemptTimeout time.Duration

	// HealthyAfter is for operations that last: a connection, a watch, a stream. If an attempt
	// ran past HealthyAfter and then fails, the call begins anew: the attempt gets number 1, no
	// class has failed before, MaxElapsed counts from the end of the attempt, a new seed is
	// drawn, and the retry takes nothing from any Budget. So MaxAttempts 5 with a HealthyAfter
	// of 1m gives up after five attempts that each failed within a minute. An attempt that its
	// AttemptTimeout ended does not count as past HealthyAfter. Return an error for a session
	// that ended in good order, too, because nil ends the call. 0: no call begins anew. Below
	// 1ms: invalid.
	HealthyAfter time.Duration

	RetryIf  func(error) bool   // reports whether to retry after this error; nil: always
	Classify func(error) *Class // returns limits and delays for this error; nil: the policy's
	Budget   *Budget            // a shared allowance of retries; nil: no allowance limits them

	// Wait waits before a retry. nil: a timer waits. Wait is called once for each retry,
	// even for a d of 0, after the RetryScheduled. ctx is the context of the call, and d is
	// the rest of the delay. Wait may return early, for example when the network is back. Then
	// the retry starts at once. A Wait that skips time in a test returns the time that it
	// skipped, from 0 to d, and the clock of the call runs ahead by that time. If Wait returns
	// an error while ctx is not done, the call stops with ReasonWait and the error as its
	// Cause. If Wait took longer than d, MaxElapsed and the context's deadline are checked
	// again. [Policy.Next] and [Once] never call Wait.
	Wait func(ctx context.Context, d time.Duration) (skipped time.Duration, err error)

	// Enter is called before each attempt, after the wait, with the AttemptStarted that will
	// follow. nil: not called. Enter may hold the attempt back, for example to limit
	// concurrency. MaxElapsed counts the time in Enter. AttemptTimeout, HealthyAfter, Took and
	// Waited do not count it. If Enter returns an error, the attempt is not made and the call
	// stops. If the error is an [*Error], the call has the Reason, Cause, Err and Delay of
	// that Error, and otherwise ReasonWait with the error as its Cause. MaxElapsed and the
	// context are checked again if Enter took a millisecond or more. [Policy.Next] and [Once]
	// never call Enter.
	Enter func(context.Context, Event) error

	OnEvent func(context.Context, Event) // called for each event, in order; nil: no callback
}

// A RetryAfterMode says how a policy combines the wait that a server asks for, its
// Retry-After, with the delay of its own curve. See [After]. The text form writes
// RetryAfterSpread as "spread", and RetryAfterMode("spread") is the same in Go.
//
//   - [RetryAfterSpread]: the delay is at least the Retry-After; the jitter only adds to it,
//     so that clients do not return at the same time
//   - [RetryAfterAtLeast]: the longer of the Retry-After and the delay drawn from the curve;
//     no jitter is added to the Retry-After
//   - [RetryAfterExact]: exactly the Retry-After, even if the curve is longer; 10ms if the
//     Retry-After is shorter
type RetryAfterMode string

const (
	RetryAfterSpread  RetryAfterMode = ""
	RetryAfterAtLeast RetryAfterMode = "at_least"
	RetryAfterExact   RetryAfterMode = "exact"

	spreadInText RetryAfterMode = "spread" // the same as RetryAfterSpread
)

// Default returns a policy for a call to a service nearby: 5 attempts with delays of 200ms,
// 400ms, 800ms and 1.6s. Jitter makes each delay up to 50 % shorter or longer, and MaxDelay
// is 5s.
func Default() Policy {
	return Policy{
		MaxAttempts: 5,
		Backoff:     Exponential{Base: 200 * time.Millisecond, Factor: 2},
		MaxDelay:    5 * time.Second,
		Jitter:      Proportional(0.5),
	}
}

// WithMaxAttempts returns p with another limit on attempts, for example from a flag or the
// environment. n is the number of all attempts, with the first, or [Unlimited]. For a limit
// of r retries, n is r + 1. n replaces both MaxAttempts and MaxRetries. AttemptCap and
// MaxElapsed still apply.
//
// If n is 0 or below -1, WithMaxAttempts returns an error and p unchanged. A MaxAttempts of 0
// would mean "not set": with a MaxElapsed, p would then have no limit on attempts.
func (p Policy) WithMaxAttempts(n int) (Policy, error) {
	if n == 0 || n < Unlimited {
		const write = "write 1 for no retry, or -1 for unlimited"
		return p, fmt.Errorf("retry: max attempts is %d: %s", n, write)
	}
	p.MaxAttempts, p.MaxRetries = n, 0
	return p, nil
}

// count returns how many attempts MaxAttempts and MaxRetries allow: the smaller number if both
// are set, or Unlimited. It returns 0 if neither is set.
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

// declared returns count, or Unlimited if only MaxElapsed is set. It returns 0 if p has no
// limit. Such a policy makes one attempt.
func (p *Policy) declared() int {
	if n := p.count(); n != 0 || p.MaxElapsed <= 0 {
		return n
	}
	return Unlimited
}

// endless reports whether a call may go on for ever, because no limit on attempts ends it.
func (p *Policy) endless() bool { return p.HealthyAfter > 0 || p.limit() == Unlimited }

// tighter returns the smaller of two limits on attempts. A limit of 0 is not set. Any number
// is smaller than Unlimited.
func tighter(a, b int) int {
	if a == 0 || a == Unlimited && b != 0 || b > 0 && b < a {
		return b
	}
	return a
}

// limit returns EffectiveMax of a valid policy.
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
//   - If MaxAttempts or MaxRetries is set: MaxAttempts or MaxRetries + 1. If both are set:
//     the smaller number.
//   - If only MaxElapsed is set: Unlimited.
//   - If AttemptCap is set: at most AttemptCap.
//   - If no limit is set, if p is NonRetryable, or if p is invalid: 1.
func (p Policy) EffectiveMax() int {
	if p.faults() != nil {
		return 1
	}
	return p.limit()
}

// ForJob returns p for a job in a queue. maxAttempts is the job's own limit on attempts. It
// can lower the limit of p and never raise it. A maxAttempts of 0 or below is not set. If p
// has neither MaxAttempts nor MaxRetries, maxAttempts is the limit. AttemptCap, NonRetryable
// and MaxElapsed still apply. ForJob returns an invalid policy unchanged.
//
// No goroutine waits while a job is in its queue. So if p has no MaxRetryAfter, ForJob sets
// MaxRetryAfter to a day, or to MaxDelay if MaxDelay is longer.
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

// String describes p on one line for people to read: "5 attempts, exponential 200ms x2, at
// most 5s, ±50%". If p is invalid, String returns the error of [Policy.Validate].
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

// attemptsText returns a limit on attempts as text.
func attemptsText(limit int) string {
	if limit == Unlimited {
		return "unlimited attempts"
	}
	return plural(limit, "attempt")
}

// plural returns a count and a noun, with an s if n is not 1.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
