// Package retry calls a function again when it fails, according to a [Policy].
//
//	policy := retry.Default() // 5 attempts: 200ms -> 400ms -> 800ms -> 1.6s, each ±50 %
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return call(ctx)
//	})
//
// [Do] retries after every error, with two exceptions: an error that [Permanent] has wrapped,
// and an error that Policy.RetryIf rejects. You do not have to wrap an error to get a retry.
// Use Do only for a function that may run twice. [DoValue] does the same for a function that
// also returns a value.
//
// # Packages
//
//   - [github.com/goretry/retry/retryhttp] retries requests of any http.Client
//   - [github.com/goretry/retry/retrysql] runs transactions again
//   - [github.com/goretry/retry/retryjob] runs one attempt of a job from a queue
//   - [github.com/goretry/retry/retrynet] reports whether a network error is temporary
//   - [github.com/goretry/retry/retrylog] logs, counts and explains retries
//   - [github.com/goretry/retry/retrytest] tests code that retries, without waiting
//
// Adapters for queues, RPC and metrics:
// https://github.com/goretry/retry/blob/main/docs/packages.md
//
// # Attempts
//
// An attempt is one call of the function. The first attempt has number 1. MaxAttempts limits
// all attempts, including the first. MaxRetries limits only the attempts after the first. If
// MaxAttempts, MaxRetries and MaxElapsed are all zero, there is only one attempt.
//
// The function does not get the number of its attempt. If you need this number, count the
// attempts in a variable: see the example AttemptNumber of Do.
//
// # Delays
//
//  1. Backoff computes the delay after a failed attempt. MaxDelay limits this delay.
//  2. Jitter widens the delay to a window: a Jitter of ±50 % makes a window from 1s to 3s out
//     of a delay of 2s. MaxDelay limits the window too.
//  3. If a server asks for a longer wait (see [After]), the window starts at this wait: with a
//     Jitter of ±50 %, a wait of 2s gives a window from 2s to 4s. Policy.RetryAfter can change
//     this rule.
//  4. The delay is drawn at random from the window, where all values are equally likely.
//     [Draw] computes the same delay again from the fields of an [Event].
//
// # Time
//
// The context limits the time of the whole call, with all attempts and waits. MaxElapsed
// limits how late a retry may start. AttemptTimeout limits the time of each attempt: it cancels
// the context that the function gets. A function that ignores its context cannot be stopped.
// If the next wait would end too late for another attempt, the call returns without waiting.
//
// # Errors
//
// If a call fails, it returns an [*Error]. [ReasonOf] returns the reason why the call stopped.
// errors.Is and errors.As find the error of the last attempt. To compare an error with ==, or
// to use a type switch, call [Unwrap] first.
//
// errors.Is(err, context.DeadlineExceeded) is also true if an attempt timed out while the
// context of the call was not done. To know whether that context ended the call, compare the
// reason with ReasonDeadline.
//
// # Configuration
//
// You can write a Policy as JSON or YAML:
//
//	{"max_attempts": 5, "backoff": {"type": "exponential", "base": "200ms"},
//	 "max_delay": "5s", "jitter": 0.5}
//
// All keys: https://github.com/goretry/retry/blob/main/docs/text-form.md
//
// # Promises
//
// A Policy is safe for concurrent use. This package starts no goroutine, recovers no panic,
// and keeps no global state.
package retry
