// Package retry runs an operation again when it fails, according to a [Policy].
//
//	policy := retry.Default() // 5 attempts: 200ms -> 400ms -> 800ms -> 1.6s, each ±50 %
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return call(ctx)
//	})
//
// Every error is retried, except those marked with [Permanent] and those that
// RetryIf rejects. Retry only what may be done twice.
//
// [DoValue] is Do for a function that returns a value. A queue that counts
// attempts itself calls [Once]. [Policy.Next] decides without running anything.
//
// # Attempts
//
// An attempt is one execution of the operation, and the first is number 1.
// MaxAttempts counts all of them, MaxRetries all but the first. With none of
// MaxAttempts, MaxRetries and MaxElapsed set, there is one attempt.
//
// # Delays
//
//  1. Backoff gives the delay after a failed attempt, and MaxDelay cuts it.
//  2. Jitter turns it into a window, which MaxDelay cuts too.
//  3. A longer Retry-After ([After]) is where the window starts: After(2s) becomes 2s
//     to 4s under ±50 %. Policy.RetryAfter can say that it is exactly 2s.
//  4. One delay is drawn from the window, uniformly. [Draw] computes it again from
//     the seed, attempt and window in an [Event].
//
// # Time
//
// A context bounds a call with all its retries. MaxElapsed bounds when the last
// wait may end. AttemptTimeout cancels the context of each attempt, which the
// operation must heed. If no attempt could follow a wait, the call returns at once.
//
// # Errors
//
// A failed call returns an [*Error]. [ReasonOf] returns why it stopped, and
// errors.Is and errors.As find what the last attempt failed with. Type switches
// and == need [Unwrap] first. errors.Is(err, context.DeadlineExceeded) is also
// true if only the operation timed out: check the Reason.
//
// # Configuration
//
// A Policy reads and writes JSON and YAML:
//
//	{"max_attempts": 5, "backoff": {"type": "exponential", "base": "200ms"},
//	 "max_delay": "5s", "jitter": 0.5}
//
// Keys: https://github.com/goretry/retry/blob/main/docs/text-form.md
//
// Packages for HTTP, SQL, queues, logs and tests:
// https://github.com/goretry/retry/blob/main/docs/packages.md
//
// # Promises
//
// A Policy is safe for concurrent use. The package starts no goroutine, recovers no
// panic and keeps no global state. A call that succeeds at its first attempt allocates
// nothing, unless AttemptTimeout is set.
package retry
