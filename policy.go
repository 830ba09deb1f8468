package retry

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// Unlimited is the MaxAttempts or MaxRetries of a policy that has no limit on attempts.
const Unlimited = -1

// A Policy describes how often an operation is attempted, how long the waits between attempts
// are, and how long the retries may take in all. [Default] returns a Policy for ordinary calls.
//
// A field that is zero does nothing. If MaxAttempts, MaxRetries and MaxElapsed are all zero,
// there is only one attempt. So Policy{} never retries. If several limits are set, the call
// ends at the first limit that it reaches. If only MaxElapsed is set, the call retries until
// this time is up.
//
// A Policy is a value. To derive a policy, copy it and set fields of the copy. Any number of
// goroutines may share a Policy. Its functions run in the goroutine of the caller, so the
// functions of a shared policy may run concurrently. These functions should return soon,
// because the call waits for them. The time that OnEvent takes for a RetryScheduled is part of
// the wait.
//
//   - If AttemptTimeout is set, the context of an attempt is canceled when the attempt returns.
//     So read the body of a response, or commit a transaction, inside the attempt.
//   - Use MaxAttempts or MaxRetries, not both, because the lower limit applies. If a file sets
//     max_retries to 2, a MaxAttempts of 5 in code has no effect. For a limit from a flag or
//     the environment, use [Policy.WithMaxAttempts].
//   - If the attempts are unlimited, or if HealthyAfter is set, short delays are raised: if the
//     longest delay that may be drawn is below 10ms, the wait is 10ms. This holds even if
//     Backoff is nil or MaxDelay is shorter.
//
// Negative numbers are invalid, except Unlimited in MaxAttempts and MaxRetries. An invalid
// policy never retries: each call makes one attempt, and its error says why the policy is
// invalid. To check a policy before any call, use [Policy.Validate].
type Policy struct {
	// MaxAttempts is the limit on all attempts, including the first. 0: not set. Unlimited (-1):
	// there is no limit.
	MaxAttempts int

	// MaxRetries is the limit on the attempts after the first. 0: not set. Unlimited (-1): there
	// is no limit.
	MaxRetries int

	// AttemptCap lets an operator lower the limit on attempts. Every higher limit is lowered to
	// AttemptCap. AttemptCap alone causes no retries: if MaxAttempts, MaxRetries and MaxElapsed are
	// all zero, there is only one attempt. 0: not set.
	AttemptCap int

	// NonRetryable allows one attempt and no retry, whatever the limits are. In the text form,
	// write "retryable": false. There is no field Retryable in Go, because then a Policy would
	// need Retryable: true to retry at all.
	NonRetryable bool

	Backoff Backoff // the curve of delays; nil: no delay

	// MaxDelay is the longest delay that Backoff and Jitter may give. 0: no limit. A wait is longer
	// than MaxDelay in two cases: if a server asks for a longer wait, and if a short wait is raised to
	// 10ms (see the documentation of Policy). MaxRetryAfter limits the wait that a server may ask for.
	MaxDelay time.Duration

	Jitter     Jitter         // widens each delay to a window; nil: no jitter
	RetryAfter RetryAfterMode // how to combine a server's Retry-After with Backoff and Jitter

	// MaxRetryAfter is the longest Retry-After that a call waits for. A longer Retry-After ends the
	// call. If MaxRetryAfter is 0, the default is a minute for a call, and a day for a job (see
	// ForJob). If MaxDelay is longer than this default, MaxDelay is the limit. The wait itself may
	// be longer, because jitter is added to the Retry-After.
	MaxRetryAfter time.Duration

	// Source returns the seed of a call, from which its delays are drawn. If goroutines share the
	// policy, they call Source concurrently. If Source is nil, the seed comes from math/rand/v2.
	Source func() uint64

	// MaxElapsed limits how late a retry may start, counted from the start of the first attempt.
	// 0: no limit. If the next retry would start later, the call ends without waiting. For
	// example, take a job with a MaxElapsed of a day. If a server asks for a wait of 48h, the job
	// becomes a dead letter at once.
	MaxElapsed time.Duration

	// AttemptTimeout is how long an attempt may run before its context is canceled. 0: no timeout.
	AttemptTimeout time.Duration

	// HealthyAfter is for operations that run for a long time: a connection, a watch, a stream. If an
	// attempt runs past HealthyAfter and then fails, the call begins anew. For example, take a policy
	// with MaxAttempts 5 and a HealthyAfter of 1m. If a connection is lost after an hour, this attempt
	// counts as attempt 1 again, so up to four retries follow.
	//
	// When a call begins anew, the earlier failures of all classes are forgotten, and a new seed is
	// drawn. MaxElapsed counts from the end of the attempt. The retry takes nothing from any Budget.
	// An attempt that AttemptTimeout ended does not make the call begin anew. If a session ended
	// without an error and should be opened again, return an error, because nil ends the call. 0: the
	// call never begins anew. Any other value below 1ms is invalid.
	HealthyAfter time.Duration

	RetryIf  func(error) bool   // reports whether to retry after an error; nil: always retry
	Classify func(error) *Class // returns the class of an error; nil: no error has a class
	Budget   *Budget            // limits the retries of all calls that share it; nil: no limit

	// Wait waits before a retry. If Wait is nil, a timer waits. Do calls Wait once before each retry,
	// after the RetryScheduled. Do calls Wait even if d is 0. The argument ctx is the context of the
	// call, and d is the part of the delay that has not passed yet. Wait may return before d has
	// passed, for example when the network is back. Then the retry starts at once. If Wait took longer
	// than d, MaxElapsed and the context's deadline are checked again.
	//
	// If Wait returns an error while ctx is not done, the call stops with ReasonWait. The error is
	// then the Cause of the [*Error] that the call returns. In a test, Wait may skip time. Then it
	// returns how much time it skipped, from 0 to d, and the clock of the call moves on by this time.
	// [Policy.Next] and [Once] never call Wait.
	Wait func(ctx context.Context, d time.Duration) (skipped time.Duration, err error)

	// Enter is called before each attempt, after the wait. It may be nil. It gets the
	// AttemptStarted that OnEvent will get next. Enter may hold the attempt back, for example to
	// limit concurrency. MaxElapsed counts the time in Enter. AttemptTimeout, HealthyAfter, Took
	// and Waited do not count it. If Enter took a millisecond or more, MaxElapsed and the context
	// are checked again. If one of them then ends the call, OnEvent gets CallFinished without an
	// AttemptStarted, so give back in CallFinished what Enter has taken for this attempt.
	//
	// If Enter returns an error, the call stops without this attempt. If the error is an [*Error], the
	// call takes the Reason, Cause, Err and Delay of that Error. For any other error, the Reason is
	// ReasonWait and the Cause is the error. If the context is done when Enter returns, the Reason is
	// ReasonCanceled or ReasonDeadline instead. [Policy.Next] and [Once] never call Enter.
	Enter func(context.Context, Event) error

	OnEvent func(context.Context, Event) // called for each event, in order; nil: no callback
}

// A RetryAfterMode says how a policy combines two waits: the wait that a server asks for (its
// Retry-After), and the delay of the policy's own curve. See [After]. The text form writes
// RetryAfterSpread as "spread". In Go, RetryAfterMode("spread") is the same as
// RetryAfterSpread.
//
//   - [RetryAfterSpread]: the delay is at least the Retry-After. The jitter only adds to it, so
//     that clients do not return at the same time.
//   - [RetryAfterAtLeast]: the delay is the Retry-After, or the delay drawn from the curve if
//     that delay is longer. No jitter is added to the Retry-After.
//   - [RetryAfterExact]: the delay is exactly the Retry-After, even if the delay of the curve is
//     longer. A Retry-After below 10ms becomes 10ms.
type RetryAfterMode string

const (
	RetryAfterSpread  RetryAfterMode = ""
	RetryAfterAtLeast RetryAfterMode = "at_least"
	RetryAfterExact   RetryAfterMode = "exact"

	spreadInText RetryAfterMode = "spread" // the same as RetryAfterSpread
)

// Default returns a policy for a call to a nearby service: 5 attempts with delays of 200ms,
// 400ms, 800ms and 1.6s. Jitter makes each delay up to 50 % shorter or longer. MaxDelay is 5s.
func Default() Policy {
	return Policy{
		MaxAttempts: 5,
		Backoff:     Exponential{Base: 200 * time.Millisecond, Factor: 2},
		MaxDelay:    5 * time.Second,
		Jitter:      Proportional(0.5),
	}
}

// WithMaxAttempts returns p with another limit on attempts, for example from a flag or the
// environment. n is the number of all attempts, including the first, or [Unlimited]. For a
// limit of r retries, pass r + 1. WithMaxAttempts replaces both MaxAttempts and MaxRetries.
// AttemptCap and MaxElapsed still apply.
//
// If n is 0 or below -1, WithMaxAttempts returns an error and p unchanged. It does not accept 0,
// because a MaxAttempts of 0 means "not set". With a MaxElapsed and a MaxAttempts of 0, p would
// have unlimited attempts.
func (p Policy) WithMaxAttempts(n int) (Policy, error) {
	if n == 0 || n < Unlimited {
		const write = "write 1 for no retry, or -1 for unlimited"
		return p, fmt.Errorf("retry: max attempts is %d: %s", n, write)
	}
	p.MaxAttempts, p.MaxRetries = n, 0
	return p, nil
}

// ForJob returns p for a job in a queue. maxAttempts is the job's own limit on attempts. It can
// lower the limit of p, and cannot raise it. If p has neither MaxAttempts nor MaxRetries,
// maxAttempts is the limit. If maxAttempts is 0 or below, it is ignored. AttemptCap,
// NonRetryable and MaxElapsed still apply. ForJob returns an invalid policy unchanged.
//
// A job may wait long for a Retry-After, because no goroutine waits while a job is in its
// queue. So if p has no MaxRetryAfter, ForJob sets MaxRetryAfter to a day, or to MaxDelay if
// MaxDelay is longer.
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

// String describes p on one line for people to read, such as "5 attempts, exponential 200ms x2,
// at most 5s, ±50%". If p is invalid, String returns the error of [Policy.Validate].
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
