// Package retrycenkalti converts a BackOff of github.com/cenkalti/backoff/v4 into a
// [retry.Policy], and a Policy into a BackOff.
//
//	policy, err := retrycenkalti.Policy(backoff.NewExponentialBackOff())
//
// [Policy] turns a BackOff into a policy, for code that moves to this module. [New] turns a
// policy into a BackOff, for code that stays with v4, or that takes a BackOff and runs the loop
// of v4 itself. [Translate] makes an error that one library marks as permanent stop the loops
// of both libraries.
//
// # What differs
//
// The cap. v4 applies MaxInterval before jitter, so the longest delay is MaxInterval times
// 1 + RandomizationFactor, which is 90 s with the defaults. MaxDelay is the longest delay with
// jitter included. It cuts a jitter window that reaches above it: 6 s ±50 % under a cap of 8 s
// is between 3 s and 9 s in v4, and between 3 s and 8 s here. v4 does not cut a first delay
// that is longer than MaxInterval. MaxDelay cuts the first delay too.
//
// The context. v4 runs the operation even if the context is already done, does not pass the
// context to the operation, and may run it once more after the context was canceled. If a
// deadline comes before the next attempt, v4 waits until the deadline. It returns the error of
// the context in place of the error of the operation. Do does none of this, and returns both
// errors. [retry.Unwrap] returns the same error as v4, or the cause of the context if the cause
// is another error.
//
// Results. Retry returns the error of the operation itself, without the mark of
// backoff.Permanent. Do wraps it in a [*retry.Error]: where you compared with ==, write
// errors.Is. With an error, RetryWithData also returns the last value, and DoValue returns the
// zero value. If the operation returns a backoff.PermanentError whose Err is nil, v4 counts it
// as a success. Under a policy with Retryable it stops the call, and printing the error panics,
// because the Error method of such a PermanentError panics: use Translate.
//
// Nested loops. An inner Retry removes the mark of backoff.Permanent, so the outer Retry
// retries. Here a mark stops the loop that gets the error and every loop around it. This is
// always true of retry.Permanent. It is true of backoff.Permanent if each policy has Retryable
// as its RetryIf, or if the error went through Translate.
//
// Retry-After. If an error has a method RetryAfter() time.Duration, Do waits at least this long
// (see [retry.After]). v4 ignores the method.
//
// Tickers. A Ticker counts its wait from the start of an attempt, and Do from the end. A Ticker
// never gets an error, so no error stops it.
package retrycenkalti
