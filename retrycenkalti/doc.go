// Package retrycenkalti converts between github.com/cenkalti/backoff/v4 and
// [retry.Policy].
//
// [Policy] turns a BackOff into a policy, for code that moves to this module.
// [New] turns a policy into a BackOff, for code that stays with v4, or that
// takes a BackOff and runs the loop of v4 itself. With [Translate] an error that
// one of the libraries marks as permanent stops the loops of both.
//
// # What to write instead
//
// The left column is v4. The right one is Go to paste: p is a [retry.Policy],
// and where there is nothing to write, a comment says so.
//
//	v4                                  instead
//
//	Retry(op, b)                        retry.Do(ctx, p, fn)
//	RetryWithData(op, b)                retry.DoValue(ctx, p, fn)
//	RetryNotify(op, b, notify)          p.OnEvent = onRetry(notify) // see below
//	RetryNotifyWithData(op, b, notify)  p.OnEvent = onRetry(notify) // likewise, and retry.DoValue
//	RetryNotifyWithTimer                // retry.Do in a bubble of testing/synctest
//	RetryNotifyWithTimerAndData         // retry.DoValue, likewise
//	Operation                           func(context.Context) error
//	OperationWithData[T]                func(context.Context) (T, error)
//	Notify                              func(context.Context, retry.Event)
//	Timer, Clock, SystemClock           // testing/synctest
//
//	NewExponentialBackOff()             retry.Policy{
//	                                        MaxAttempts: retry.Unlimited,
//	  DefaultInitialInterval                Backoff: retry.Exponential{Base: 500 * time.Millisecond,
//	  DefaultMultiplier                         Factor: 1.5},
//	  DefaultMaxInterval                    MaxDelay: time.Minute,
//	  DefaultRandomizationFactor            Jitter: retry.Proportional(0.5),
//	  DefaultMaxElapsedTime                 MaxElapsed: 15 * time.Minute,
//	                                    }
//	ExponentialBackOff                  // that policy, and with each ExponentialBackOffOpts:
//	ExponentialBackOffOpts              // a Policy is copied, and its fields are set
//	WithInitialInterval(d)              p.Backoff = retry.Exponential{Base: d, Factor: 1.5}
//	WithMultiplier(m)                   p.Backoff = retry.Exponential{Base: 500 * time.Millisecond, Factor: m}
//	WithMaxInterval(d)                  p.MaxDelay = d
//	WithRandomizationFactor(f)          p.Jitter = retry.Proportional(f)
//	WithMaxElapsedTime(d)               p.MaxElapsed = d
//	WithRetryStopDuration(d)            // nothing: a Decision has a Reason beside its Delay
//	WithClockProvider(c)                // testing/synctest
//	NewConstantBackOff(d)               retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(d)}
//	ConstantBackOff{Interval: d}        retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(d)}
//	ZeroBackOff{}                       retry.Policy{MaxAttempts: n} // it needs a limit: this, MaxElapsed or a Budget
//	StopBackOff{}                       retry.Policy{}
//	WithMaxRetries(b, n)                p.MaxAttempts = retry.Retries(int(n))
//	WithContext(b, ctx)                 retry.Do(ctx, p, fn)
//	BackOffContext                      // the ctx of retry.Do
//
//	BackOff                             retry.Backoff // a pure function of the number of failures
//	b.NextBackOff()                     p.Next(retry.Attempt{Number: n, Err: err, Elapsed: elapsed, Seed: seed})
//	                                    // after n failures; Seed: any number but 0, the same for all delays of a call
//	Stop                                !d.Retry() // d is what Next returned, d.Reason says why
//	b.Reset()                           // nothing: a Policy keeps no state
//	b.GetElapsedTime()                  time.Since(began) // or Event.Elapsed
//	NewTicker(b)                        retry.Do(ctx, p, fn) // fn is the body of the loop over ticker.C
//	NewTickerWithTimer(b, timer)        // retry.Do in a bubble of testing/synctest
//	Ticker                              // the fn of retry.Do: return nil where Stop was called
//
//	Permanent(err)                      retry.Permanent(err)
//	PermanentError{Err: err}            retry.Permanent(err)
//	errors.As(err, &permanent)          // of the error of an operation: nothing
//	                                    // of the error of retry.Do: retry.ReasonOf(err) is retry.ReasonPermanent,
//	                                    // or retry.ReasonRejected where Retryable found the mark of v4
//
// This OnEvent calls a Notify:
//
//	func onRetry(notify func(error, time.Duration)) func(context.Context, retry.Event) {
//		return func(_ context.Context, e retry.Event) {
//			if e.Kind == retry.RetryScheduled {
//				notify(e.Err, e.Delay)
//			}
//		}
//	}
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
// Rounding. v4 rounds each delay down to the nanosecond before it multiplies it
// again; a Policy rounds once. The lost fraction grows with the delay: with the
// defaults the difference is a nanosecond at 28.8 s and 43.2 s, and with an
// InitialInterval of 1 µs it is 11 ms at 56 s. An InitialInterval of 1 ns never
// grows in v4.
//
// The context. v4 runs the operation even if the context is already done, does
// not pass the context to it, and may run it once more after the context was
// canceled. If a deadline comes before the next attempt, v4 waits for it. It
// returns the context's error in place of the operation's. Do does none of this,
// and returns both errors.
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
//
// State. A BackOff keeps the state of one call. A Policy is a value that any
// number of goroutines can share.
package retrycenkalti
