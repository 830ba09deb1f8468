// Package retry calls a function again when it fails, according to a [Policy].
//
//	policy := retry.Default() // 5 attempts: 200ms -> 400ms -> 800ms -> 1.6s, each ±50 %
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return call(ctx)
//	})
//
// [Do] retries every error, except an error that [Permanent] has wrapped and an error that
// RetryIf rejects. No error has to be wrapped as retryable. Retry only a function that may
// run twice. [DoValue] is Do for a function that returns a value.
//
// # Packages
//
//   - [github.com/goretry/retry/retryhttp] retries requests of any http.Client
//   - [github.com/goretry/retry/retrysql] runs transactions again
//   - [github.com/goretry/retry/retryjob] runs one attempt of a job from a queue
//   - [github.com/goretry/retry/retrynet] tells temporary network errors from others
//   - [github.com/goretry/retry/retrylog] logs, counts and explains retries
//   - [github.com/goretry/retry/retrytest] tests code that retries, without waiting
//
// Adapters for queues, RPC and metrics:
// https://github.com/goretry/retry/blob/main/docs/packages.md
//
// # Attempts
//
// An attempt is one call of the function. The first attempt has number 1. MaxAttempts is
// the limit on the count of all attempts. MaxRetries leaves the first attempt out. A policy
// without MaxAttempts, MaxRetries and MaxElapsed makes one attempt. The function counts in
// a variable if it needs the number of its attempt: see the example AttemptNumber of Do.
//
// # Delays
//
//  1. Backoff gives the delay after a failed attempt, and MaxDelay limits the delay.
//  2. Jitter widens the delay to a window, and MaxDelay limits the window too.
//  3. A Retry-After ([After]) that is longer moves the start of the window: under ±50 %,
//     After(2s) gives a window from 2s to 4s. Policy.RetryAfter can change this.
//  4. One delay is drawn from the window, uniformly. [Draw] computes the delay again from
//     the fields of an [Event].
//
// # Time
//
// The context bounds a call with all its retries. MaxElapsed bounds the start of the last
// retry. AttemptTimeout cancels the context of an attempt. The function must heed its
// context. If no attempt could follow a wait, the call returns without waiting.
//
// # Errors
//
// A failed call returns an [*Error]. [ReasonOf] returns the reason why the call stopped.
// errors.Is and errors.As find the error of the last attempt. Call [Unwrap] before a type
// switch or ==. errors.Is(err, context.DeadlineExceeded) is also true if only the function
// timed out, so check the Reason.
//
// # Configuration
//
// A Policy reads and writes JSON and YAML:
//
//	{"max_attempts": 5, "backoff": {"type": "exponential", "base": "200ms"},
//	 "max_delay": "5s", "jitter": 0.5}
//
// All keys: https://github.com/goretry/retry/blob/main/docs/text-form.md
//
// # Promises
//
// A Policy is safe for concurrent use. The package starts no goroutine, recovers no panic
// and keeps no global state.
package retry
