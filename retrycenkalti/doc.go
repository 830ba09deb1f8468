// Package retrycenkalti leads from github.com/cenkalti/backoff/v4 to a
// [retry.Policy] and back.
//
// [Policy] makes a policy of a BackOff, for code that moves to this module.
// [New] makes a BackOff of a policy, for code that stays with v4 or that hides
// a v4 loop and takes a BackOff. [Translate] makes an error that either
// library marks as permanent stop the loops of both.
//
// # What to write instead
//
// The left column is v4, the right one Go to paste: p is a [retry.Policy], and
// a comment stands where there is nothing to write.
//
//	v4                                  instead
//
//	Retry(op, b)                        retry.Do(ctx, p, fn)
//	RetryWithData(op, b)                retry.DoValue(ctx, p, fn)
//	RetryNotify(op, b, notify)          p.OnEvent = onRetry(notify) // see below; one for each call
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
//	NewTicker(b)                        retry.Loop(ctx, p, &err)
//	NewTickerWithTimer(b, timer)        // retry.Loop in a bubble of testing/synctest
//	Ticker                              // range over retry.Loop; break where Stop was called
//
//	Permanent(err)                      retry.Permanent(err)
//	PermanentError{Err: err}            retry.Permanent(err)
//	errors.As(err, &permanent)          // of the error of an operation: nothing
//	                                    // of that of retry.Do: retry.ReasonOf(err) is retry.ReasonPermanent,
//	                                    // or retry.ReasonRejected where Retryable found the mark of v4
//
// An OnEvent that calls a Notify keeps the error of one event for the next:
//
//	func onRetry(notify func(error, time.Duration)) func(context.Context, retry.Event) {
//		var err error
//		return func(_ context.Context, e retry.Event) {
//			switch e.Kind {
//			case retry.AttemptFinished:
//				err = e.Err
//			case retry.RetryScheduled:
//				notify(err, e.Delay)
//			}
//		}
//	}
//
// # What differs
//
// The cap. MaxInterval of v4 is a cap before jitter and leaks by 1 +
// RandomizationFactor: the longest delay is that many times MaxInterval, 90 s
// with the defaults. MaxDelay holds with jitter included, and cuts each window
// that reaches beyond it: 6 s ±50 % under a cap of 8 s is between 3 s and 9 s
// in v4, between 3 s and 8 s here. An InitialInterval longer than MaxInterval
// is the first delay of v4 as it is; MaxDelay cuts it.
//
// Rounding. v4 rounds each delay down to the nanosecond before it multiplies it
// again; a Policy rounds once. A lost fraction grows with the delay: a BackOff
// with the defaults differs by a nanosecond at 28.8 s and 43.2 s, one from 1 µs
// by 11 ms at 56 s, and one from 1 ns never grows in v4.
//
// The context. v4 executes the operation although the context has ended before,
// hands it no context, may execute it once more after the context has ended,
// waits for a deadline that comes before the next try, and returns the
// context's error in place of the operation's. Do does none of this, and
// returns both errors.
//
// Results. Retry returns the operation's error as it is, but without the mark of
// backoff.Permanent. Do returns a [*retry.Error] around it: where you compared
// with ==, write errors.Is. RetryWithData returns the last value beside its
// error, DoValue the zero value. The operation's backoff.PermanentError with a
// nil Err is a success to v4; a policy with Retryable is stopped by it, and the
// text of its error panics as that of the PermanentError does: use Translate.
//
// Nested loops. An inner Retry strips the mark of backoff.Permanent, so the
// outer one tries again. Here a mark stops every loop around the one that met
// it: retry.Permanent always, backoff.Permanent where each policy has Retryable
// as its RetryIf or the error went through Translate.
//
// What a server asks for. Do waits as long as an error with a method
// RetryAfter() time.Duration says, see [retry.After]; v4 does not ask.
//
// Tickers. The wait of a Ticker begins with an execution, that of a Loop when
// the execution has ended; and a Ticker knows no error, so nothing is permanent
// to it.
//
// State. A BackOff keeps the state of one call; a Policy is a value that any
// number of goroutines share.
package retrycenkalti
