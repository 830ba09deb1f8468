// Package retry runs an operation again when it fails, according to a [Policy].
//
// Most programs need [Do] and [Default]:
//
//	policy := retry.Default() // 5 attempts: 200ms -> 400ms -> 800ms -> 1.6s, each ±20 %
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return call(ctx)
//	})
//
// [DoValue] is Do for a function that returns a value, and [Loop] is Do for a
// range statement. A job queue that keeps a count of its own calls
// [Policy.Eligible] and [Policy.Next] instead. They make the same decision
// without running anything, which suits tests as well.
//
// # Attempts
//
// An attempt is one execution of the operation. The first one is number 1, and
// every count includes it: MaxAttempts 3 allows three attempts, MaxRetries 3
// allows four. A zero field of a Policy is off. A policy with none of
// MaxAttempts, MaxRetries and MaxElapsed makes one attempt.
//
// # Delays
//
// The delay after a failed attempt is computed in five steps:
//
//  1. Backoff gives the delay for this attempt.
//  2. MaxDelay cuts it.
//  3. Jitter turns it into a window, which MaxDelay cuts too.
//  4. A server's wait ([After]) raises the window to start at that wait.
//  5. One delay is drawn from the window, uniformly.
//
// All draws of a call come from one 64-bit seed, so anyone who knows the seed
// can compute the delays again, on any platform. No arithmetic overflows.
//
// # Time
//
// A context bounds a call with all its retries. MaxElapsed bounds when the last
// retry may start. AttemptTimeout bounds each attempt. If waiting would be
// pointless because no attempt could follow, the call returns at once.
//
// # Errors
//
// A call that fails returns an [*Error]. [ReasonOf] returns why it stopped,
// [LastError] what the last attempt failed with, and errors.Is and errors.As
// find both. Check the Reason first: errors.Is(err, context.DeadlineExceeded) is
// also true when only the operation timed out. Type switches and == do not see
// through an *Error: use errors.As and errors.Is, or LastError.
//
// [Permanent] marks an error as not worth retrying.
//
// # Promises
//
// A Policy is safe for concurrent use. The package starts no goroutine,
// recovers no panic and keeps no global state. A call that succeeds at its first
// attempt allocates nothing, except for the context that AttemptTimeout needs.
// If a Backoff, Jitter, Source or function of yours panics, so does the call.
package retry
