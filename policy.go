package retry

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// Unlimited is the MaxAttempts or MaxRetries of a policy that never stops by
// count.
const Unlimited = -1

// A Policy describes how often an operation is attempted, how long to wait
// between two attempts, and for how long in all. A field that is zero is off:
// Policy{} calls once. [Default] is a policy that is ready to use.
//
// A Policy is a value: derive one by copying it and setting fields, and share
// it among any number of goroutines. Negative numbers other than Unlimited are
// not valid. A policy that does not pass [Policy.Validate] never retries: each
// call makes one attempt, and its error includes what is wrong with the policy.
type Policy struct {
	// How many attempts. A policy without any of MaxAttempts, MaxRetries and
	// MaxElapsed makes one; of several limits the tightest counts.

	MaxAttempts  int  // attempts in all, the first included; 0: not set; Unlimited
	MaxRetries   int  // attempts after the first; 0: not set; Unlimited
	AttemptCap   int  // the operator's ceiling on attempts, over every other limit; 0: none
	NonRetryable bool // never retry a failure

	// How long between two attempts. A server's wait (see [After]) raises a
	// delay, beyond MaxDelay if need be, and a Jitter spreads it upwards only:
	// with FullJitter a wait of 1m becomes up to 2m, or 1m10s under a MaxDelay
	// of 10s. A Source must be safe for concurrent use where its Policy is.

	Backoff       Backoff       // the curve of delays; nil: no delay
	MaxDelay      time.Duration // no delay of the curve is longer, jitter included; 0: no cap
	Jitter        Jitter        // spreads each delay over a window; nil: none
	MaxRetryAfter time.Duration // the longest wait a server may ask for; 0: max(1m, MaxDelay)
	Source        Source        // draws the seed of a call; nil: math/rand/v2

	// How long in all. AttemptTimeout limits one attempt. Its context also ends
	// when the attempt returns, so read bodies and commit inside it.

	MaxElapsed     time.Duration // no retry starts later than this after the first attempt began; 0: no bound
	AttemptTimeout time.Duration // ends the context of each attempt; 0: none

	// Which failures are retried, what retries cost, and who watches. The
	// functions are called in the caller's goroutine, and concurrently where
	// the policy is shared. They should return soon: a wait includes the time
	// that OnEvent takes after RetryScheduled, and no other.

	RetryIf func(error) bool             // reports whether to retry after this failure; nil: always
	Select  func(error) *Policy          // a stricter policy for this failure, see Next; nil: this one
	Budget  *Budget                      // shared allowance of retries; nil: none
	OnEvent func(context.Context, Event) // called for each event, in order; nil: no callback
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
// negative. Use it for numbers that come from a flag or a row, where 0 retries
// means one attempt; a MaxRetries of 0 is not set. Elsewhere a negative number
// may mean none: go-retryablehttp's RetryMax of -1 is MaxAttempts 1.
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

// count returns the attempts that MaxAttempts and MaxRetries allow, the smaller
// of the two, or Unlimited; 0 if neither is set.
func (p *Policy) count() int {
	if p.MaxRetries == 0 {
		return p.MaxAttempts
	}
	return tighter(p.MaxAttempts, Retries(p.MaxRetries))
}

// limit returns count, or Unlimited where MaxElapsed alone is set; 0 if there
// is no limit at all, which makes one attempt.
func (p *Policy) limit() int {
	if n := p.count(); n != 0 || p.MaxElapsed <= 0 {
		return n
	}
	return Unlimited
}

// tighter returns the smaller of two limits on attempts. 0 is not set, and
// Unlimited loses to any number.
func tighter(a, b int) int {
	if a == 0 || a == Unlimited && b != 0 || b > 0 && b < a {
		return b
	}
	return a
}

// attempts returns EffectiveMax of a policy that is valid.
func (p *Policy) attempts() int {
	limit := p.limit()
	if p.NonRetryable || limit == 0 {
		return 1
	}
	return tighter(limit, p.AttemptCap)
}

// EffectiveMax returns how many attempts p allows in all: at least 1, or
// [Unlimited]. It is the smaller of MaxAttempts and MaxRetries + 1 where they
// are set, Unlimited where neither is but MaxElapsed is, and at most AttemptCap.
// It is 1 if there is no limit, if p is NonRetryable, and if p does not validate.
func (p Policy) EffectiveMax() int {
	limit, f := p.judge()
	if f != nil {
		return 1
	}
	return limit
}

// ForJob returns p with a job's own limit on attempts, which can lower that of
// p and never raise it. A maxAttempts of 0 or below is not set. Where p has
// neither MaxAttempts nor MaxRetries the job decides alone. AttemptCap,
// NonRetryable and MaxElapsed still apply. A policy that does not validate stays
// as it is.
func (p Policy) ForJob(maxAttempts int) Policy {
	if maxAttempts > 0 && p.faults() == nil {
		p.MaxAttempts = tighter(p.count(), maxAttempts)
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

// String describes p on one line, for people: "5 attempts, exponential 200ms
// x2, at most 5s, ±20%".
func (p Policy) String() string {
	if err := p.Validate(); err != nil {
		return err.Error()
	}
	parts := []string{attemptsText(p.attempts())}
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
	case Spread:
		say(true, "%v jitter", j)
	default:
		say(true, "jitter %T", j)
	}
	say(p.MaxElapsed > 0, "within %v", p.MaxElapsed)
	say(p.AttemptTimeout > 0, "%v for each", p.AttemptTimeout)
	say(p.MaxRetryAfter > 0, "a server's wait at most %v", p.MaxRetryAfter)
	return strings.Join(parts, ", ")
}

// attemptsText writes a number of attempts.
func attemptsText(n int) string {
	switch n {
	case Unlimited:
		return "unlimited attempts"
	case 1:
		return "1 attempt"
	default:
		return fmt.Sprintf("%d attempts", n)
	}
}
