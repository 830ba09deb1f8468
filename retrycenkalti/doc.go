// Package retrycenkalti converts a BackOff of github.com/cenkalti/backoff/v4 into a
// retry.Policy, and a Policy into a BackOff.
//
//	policy, err := retrycenkalti.Policy(backoff.NewExponentialBackOff())
//
// [Policy] turns a BackOff into a policy, for code that moves to this module. [New] turns a
// policy into a BackOff, for code that stays with v4 and for libraries that expect a BackOff.
// [Translate] takes an error that is permanent in one of the two libraries, and makes it
// permanent in both.
//
// # What differs
//
// The cap. v4 applies MaxInterval before jitter, so its longest delay is MaxInterval * (1 +
// RandomizationFactor): 90 s with the defaults. In a Policy, MaxDelay applies after jitter. For
// example, 6 s ±50 % under a cap of 8 s is between 3 s and 9 s in v4, and between 3 s and 8 s here.
// v4 does not apply MaxInterval to the first delay. MaxDelay limits the first delay too.
//
// The context. v4 runs the operation even if the context is already done, and may run it once more
// after the context was canceled. It does not pass the context to the operation. If the context's
// deadline comes before the next attempt, v4 waits until the deadline. Do makes no attempt after
// the context is done, passes the context to the operation, and does not wait for an attempt that
// would begin after the deadline. If the context ended the call, v4 returns the error of the
// context in place of the error of the operation. The error of Do contains both errors. From the
// error of Do, [retry.Unwrap] returns the same error as v4. If the context was canceled with a
// cause, as by context.WithCancelCause, Unwrap returns this cause.
//
// Results. backoff.Retry returns the error of the operation itself, and removes the
// backoff.PermanentError around it. Do wraps the error in a [*retry.Error], so replace == with
// errors.Is. If a call fails, RetryWithData also returns the last value, and DoValue returns
// the zero value.
//
// Permanent errors without a cause. v4 counts a backoff.PermanentError whose Err is nil as a
// success. Under a policy whose RetryIf is Retryable, such an error stops the call, and
// printing the error of the call panics. Pass such errors through Translate.
//
// Nested loops. An inner backoff.Retry removes the backoff.PermanentError, so the outer loop
// retries. If all loops are calls of Do, an error of retry.Permanent stops the loop that gets
// it and every loop around it. An error of backoff.Permanent does the same if each policy has
// Retryable as its RetryIf, or if the error went through Translate.
//
// Retry-After. If an error has a method RetryAfter() time.Duration, Do waits at least as long
// as the method says (see [retry.After]). v4 ignores the method.
//
// Tickers. A backoff.Ticker measures each delay from the start of an attempt, and Do measures
// it from the end. A Ticker never sees the error of an attempt, so no error stops it.
package retrycenkalti
