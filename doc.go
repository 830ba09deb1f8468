// Package retry runs an operation again when it fails, according to a [Policy].
//
// Most programs need [Do] and [Default]:
//
//	policy := retry.Default() // 5 attempts: 200ms -> 400ms -> 800ms -> 1.6s, each ±20 %
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return call(ctx)
//	})
//
// [DoValue] is Do for a function that returns a value. A job queue that keeps a
// count of its own calls [Once] for each attempt, or [Policy.Eligible] and
// [Policy.Next], which make the same decision without running anything. That
// suits tests as well.
//
// # Attempts
//
// An attempt is one execution of the operation. Attempts are numbered from 1.
// MaxAttempts counts all of them, MaxRetries all but the first: MaxAttempts 3
// allows three attempts, MaxRetries 3 allows four. With none of MaxAttempts,
// MaxRetries and MaxElapsed set, there is one attempt.
//
// # Delays
//
// The delay after a failed attempt is computed in five steps:
//
//  1. Backoff gives the delay for this attempt.
//  2. MaxDelay cuts it.
//  3. Jitter turns it into a window, which MaxDelay cuts too.
//  4. A server's Retry-After ([After]) raises the window to start there, or replaces
//     it under ExactRetryAfter.
//  5. One delay is drawn from the window, uniformly.
//
// All draws of a call come from one 64-bit seed, until a healthy attempt begins the
// call anew. Each delay can be computed again
// from the seed, the attempt and the window that stand beside it in an [Event], on
// any platform: see [Draw]. No arithmetic overflows.
//
// # Time
//
// A context bounds a call with all its retries. MaxElapsed bounds when the last
// wait may end. AttemptTimeout cancels the context of each attempt, which the
// operation must heed. If waiting would be pointless because no attempt could
// follow, the call returns at once.
//
// # Which failures
//
// [Permanent] marks an error that is not worth retrying, and Policy.RetryIf judges
// those of others. Policy.Classify gives a kind of failure limits and delays of
// its own: see [Class]. Retry only what may be done twice.
//
// # Errors
//
// A call that fails returns an [*Error]. [ReasonOf] returns why it stopped,
// [LastError] what the last attempt failed with, and errors.Is and errors.As find
// both. Check the Reason first: errors.Is(err, context.DeadlineExceeded) is also
// true when only the operation timed out. Type switches and == do not see through
// an *Error: use errors.As and errors.Is, or LastError. [Plain] is for callers that
// do not know this package.
//
// # Text form
//
// A Policy reads and writes JSON and YAML as an operator writes it:
//
//	{
//	  "max_attempts": 5,
//	  "backoff": {"type": "exponential", "base": "200ms", "factor": 2},
//	  "max_delay": "5s",
//	  "jitter": 0.2
//	}
//
// A key that is left out is zero:
//
//	key                value          zero             what it says
//	max_attempts       whole number   an error         attempts in all, with the first; -1: unlimited
//	max_retries        whole number   one attempt      attempts after the first; -1: unlimited
//	attempt_cap        whole number   none             the ceiling on attempts, over every other limit
//	retryable          true or false  -                false: never retry a failure; true if left out
//	backoff            a mapping      -                the curve of delays
//	max_delay          duration       no cap           no delay of the curve is longer, jitter included
//	jitter             text, number   none             how far a delay is spread
//	max_retry_after    duration       1m or max_delay  the longest Retry-After that is waited for
//	exact_retry_after  true or false  false            wait exactly what a server asks for
//	max_elapsed        duration       no bound         no retry whose delay ends later than this after the first attempt began
//	attempt_timeout    duration       none             ends the context of each attempt
//	healthy_after      duration       never            an attempt that ran this long begins the call anew if it fails
//
// A duration is text: "200ms", "1m30s". A jitter is "full" (from nothing to the
// delay), "equal" (from half of it), or a number from 0 to 1, a share of the
// delay: 0.2 is ±20 %. A backoff is one of these, where factor is at least 1, and 2
// if it is left out:
//
//	{"type": "fixed", "base": "1s"}
//	{"type": "linear", "base": "1s"}
//	{"type": "exponential", "base": "200ms", "factor": 1.5}
//	{"type": "fibonacci", "base": "1s"}
//	{"type": "schedule", "delays": ["5m", "15m", "1h"]}
//
// [Policy.UnmarshalJSON] says how it is read.
//
// # Packages
//
// In this module:
//
//   - retryhttp: an http.RoundTripper that retries and honors Retry-After
//   - retrysql: transactions that are run again, and SQL for queues in a table
//   - retrynet: which errors of package net are temporary
//   - retryjob: one attempt of a job, for queues
//   - retrylog: log lines, counters, and a log that is read, replayed and checked
//   - retrytest: tests of policies and of code that retries, without waiting
//   - retrycenkalti: converts policies to and from cenkalti/backoff v4
//
// Only retrycenkalti needs more than the standard library.
//
// Modules of their own are retryflow (rules over the outcomes of tasks),
// retrydialect (the settings of other systems), the adapters for queues, RPC and
// metrics, and cmd/retry, the operator's tool.
//
// # Promises
//
// A Policy is safe for concurrent use. The package starts no goroutine (package
// context starts one where an AttemptTimeout meets a context that is not its own),
// recovers no panic and keeps no global state. A call that succeeds at its first
// attempt allocates nothing, except for the context that AttemptTimeout needs. If
// a function of yours panics, so does the call.
package retry
