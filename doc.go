// Package retry executes operations that fail now and then again. A [Policy]
// is data, one pure function decides from it, and one loop carries the
// decision out.
//
//	policy := retry.Default() // 5 attempts: 200ms -> 400ms -> 800ms -> 1.6s, each ±20 %
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return call(ctx)
//	})
//
// [Do], [DoValue] and [Loop] execute and wait. [Policy.Next] and
// [Policy.Eligible] only answer, for a job queue or a test; the answers are
// the same. Counts are executions, the first included: MaxAttempts 3 is three
// executions, MaxRetries 3 is four, and a zero field is off.
//
// # Delays
//
// A delay is made in this order: the curve of Backoff, cut to MaxDelay, spread
// to the window of Jitter inside MaxDelay, raised to what a server asked for
// ([After]), and then one draw from that window. All draws of a call come from
// one seed, so that whoever knows it can compute the delays again. No
// arithmetic overflows, whatever the numbers.
//
// # Errors
//
// What fails comes back as an [*Error]: ask [ReasonOf] why it stopped, and
// errors.Is and errors.As what failed. Ask the Reason first: an operation may
// fail with context.DeadlineExceeded of its own while the caller's context
// lives. [Permanent] marks an error that no retry can mend.
//
// # Time
//
// A context bounds a call with all its retries, MaxElapsed when the last retry
// may start, AttemptTimeout each execution. A wait that cannot be followed by
// an execution is not begun.
//
// # Text form
//
// A policy is written and read as JSON, as YAML and as text ([Policy.UnmarshalJSON]),
// by these keys:
//
//	key              value          left out         zero             what it says
//	max_attempts     whole number   not set          an error         executions in all, the first included; -1: unlimited
//	max_retries      whole number   not set          one execution    executions after the first; -1: unlimited
//	attempt_cap      whole number   none             none             the ceiling on executions, over every other limit
//	retryable        true or false  true             -                false: never run again after a failure
//	backoff          a mapping      no delay         -                the curve of delays
//	max_delay        duration       no cap           no cap           no delay of the curve is longer, jitter included
//	jitter           text, number   none             none             how far a delay is moved
//	max_retry_after  duration       1m or max_delay  1m or max_delay  the longest wait a server may ask for
//	max_elapsed      duration       no bound         no bound         no retry starts later than this after the first execution began
//	attempt_timeout  duration       none             none             the context of each execution ends after this
//
// # Promises
//
// A Policy is safe for concurrent use. The package starts no goroutine,
// recovers no panic, keeps no global state, and allocates nothing for a call
// that succeeds at once, unless it is watched by OnEvent or bounded by
// MaxElapsed or AttemptTimeout. Where a Backoff, Jitter, Source or function of
// yours panics, so does the call.
package retry
