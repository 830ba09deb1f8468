// Package retry calls a function again when it fails, according to a Policy.
//
//	policy := retry.Default() // 5 attempts: 200ms -> 400ms -> 800ms -> 1.6s, each ±50 %
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return call(ctx)
//	})
//
// [Do] retries after every error, except an error that [Permanent] has wrapped or that
// Policy.RetryIf rejects. Use Do only for a function that may run twice. [DoValue] is for a
// function that also returns a value.
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
// MaxAttempts, MaxRetries and MaxElapsed are all zero, there is only one attempt. If the
// function needs the number of its attempt, see the example AttemptNumber of Do.
//
// # Delays
//
//  1. Backoff computes the delay after a failed attempt.
//  2. Jitter widens the delay to a window: ±50 % of a delay of 2s is a window from 1s to 3s.
//     MaxDelay limits both the delay and the window.
//  3. If a server asks for a wait (see [After]), no delay in the window is shorter than this
//     wait. The jitter then only adds to the wait: with ±50 %, a wait of 10s gives a window
//     from 10s to 20s. Policy.RetryAfter can choose another rule for such a wait.
//  4. The delay is drawn from the window, where all delays are equally likely. [Draw] computes
//     the same delay again from the fields of an [Event].
//
// # Time
//
// The context limits the whole call. MaxElapsed limits how late a retry may start.
// AttemptTimeout cancels the context of an attempt. The function must return when its context
// is canceled, because nothing else can stop it. If the next wait would end too late for
// another attempt, the call returns without waiting.
//
// # Errors
//
// A call that fails returns an [*Error]. [ReasonOf] says why the call stopped.
// errors.Is and errors.As find the error of the last attempt. Before a type switch or a
// comparison with ==, call [Unwrap]. If the context stopped the call, the reason is
// ReasonCanceled or ReasonDeadline. Do not use errors.Is(err, context.DeadlineExceeded) to
// check this: it is also true if only an attempt timed out.
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
