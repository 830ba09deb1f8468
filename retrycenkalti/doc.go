// Package retrycenkalti converts between github.com/cenkalti/backoff/v4 and
// [retry.Policy].
//
//	policy, err := retrycenkalti.Policy(backoff.NewExponentialBackOff())
//
// [Policy] turns a BackOff into a policy, for code that moves to this module.
// [New] turns a policy into a BackOff, for code that stays with v4, or that
// takes a BackOff and runs the loop of v4 itself. With [Translate] an error that
// one of the libraries marks as permanent stops the loops of both.
//
// # What differs
//
// The cap. v4 applies MaxInterval before jitter, so the longest delay is
// MaxInterval times 1 + RandomizationFactor, which is 90 s with the defaults.
// MaxDelay holds with jitter included, and cuts each window that reaches beyond
// it: 6 s ±50 % under a cap of 8 s is between 3 s and 9 s in v4, and between 3 s
// and 8 s here. v4 does not cut a first delay that is longer than MaxInterval;
// MaxDelay cuts that one too.
//
// The context. v4 runs the operation even if the context is already done, does
// not pass the context to it, and may run it once more after the context was
// canceled. If a deadline comes before the next attempt, v4 waits for it. It
// returns the context's error in place of the operation's. Do does none of this,
// and returns both errors; [retry.Unwrap] returns v4's, or the cause of the
// context if it has another.
//
// Results. Retry returns the operation's error itself, without the mark of
// backoff.Permanent. Do wraps it in a [*retry.Error]: where you compared with ==,
// write errors.Is. RetryWithData returns the last value beside its error,
// DoValue the zero value. If the operation returns a backoff.PermanentError whose
// Err is nil, v4 takes it as success. Under a policy with Retryable it stops the
// call, and printing the error panics, because the Error method of such a
// PermanentError does: use Translate.
//
// Nested loops. An inner Retry strips the mark of backoff.Permanent, so the
// outer one retries. Here a mark stops every loop around the one that met it:
// retry.Permanent always does, and backoff.Permanent does if each policy has
// Retryable as its RetryIf or the error went through Translate.
//
// Retry-After. If an error has a method RetryAfter() time.Duration, Do waits at
// least that long, see [retry.After]; v4 ignores it.
//
// Tickers. A Ticker waits from the start of an attempt, Do from its end. A Ticker
// never sees an error, so no error is permanent for it.
package retrycenkalti
