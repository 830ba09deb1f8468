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
//	v4                                      instead
//
//	Retry(op, b)                            retry.Do(ctx, p, fn)
//	RetryWithData(op, b)                    retry.DoValue(ctx, p, fn)
//	RetryNotify(op, b, notify)              retry.Do, and Policy.OnEvent: RetryScheduled has the Delay,
//	                                        the AttemptFinished before it has the Err
//	RetryNotifyWithData(op, b, notify)      retry.DoValue, likewise
//	RetryNotifyWithTimer(op, b, notify, t)  retry.Do in a bubble of testing/synctest
//	RetryNotifyWithTimerAndData             retry.DoValue, likewise
//	Operation, OperationWithData            func(context.Context) error, func(context.Context) (T, error)
//	Notify                                  func(context.Context, retry.Event)
//	Timer, Clock, SystemClock               testing/synctest
//
//	ExponentialBackOff, by                  retry.Policy{
//	NewExponentialBackOff(), with               MaxAttempts: retry.Unlimited,
//	  DefaultInitialInterval                    Backoff: retry.Exponential{Base: 500 * time.Millisecond,
//	  DefaultMultiplier                             Factor: 1.5},
//	  DefaultMaxInterval                        MaxDelay: time.Minute,
//	  DefaultRandomizationFactor                Jitter: retry.Proportional(0.5),
//	  DefaultMaxElapsedTime                     MaxElapsed: 15 * time.Minute,
//	                                        }
//	ExponentialBackOffOpts                  the fields of a Policy:
//	  WithInitialInterval(d)                Backoff: retry.Exponential{Base: d}
//	  WithMultiplier(m)                     Backoff: retry.Exponential{Factor: m}
//	  WithMaxInterval(d)                    MaxDelay: d
//	  WithRandomizationFactor(f)            Jitter: retry.Proportional(f)
//	  WithMaxElapsedTime(d)                 MaxElapsed: d
//	  WithRetryStopDuration(d)              nothing: a Decision has a Reason beside its Delay
//	  WithClockProvider(c)                  testing/synctest
//	ConstantBackOff, NewConstantBackOff(d)  Backoff: retry.Fixed(d)
//	ZeroBackOff                             no Backoff; a limit is required
//	StopBackOff                             NonRetryable, or the zero Policy
//	WithMaxRetries(b, n)                    MaxAttempts: retry.Retries(n)
//	WithContext(b, ctx), BackOffContext     the ctx of retry.Do
//	BackOff                                 retry.Backoff, a pure function of the number of failures
//	b.NextBackOff(), Stop                   p.Next(retry.Attempt{Number: n, Err: err}), whose Reason says why
//	b.Reset()                               nothing: a Policy keeps no state
//	b.GetElapsedTime()                      Event.Elapsed
//	NewTicker(b), Ticker                    retry.Loop
//	NewTickerWithTimer(b, t)                retry.Loop in a bubble of testing/synctest
//
//	Permanent(err)                          retry.Permanent(err)
//	errors.As(err, &permanentError)         retry.ReasonOf(err) == retry.ReasonPermanent
//	PermanentError                          retry.Error
//
// # What differs
//
// MaxInterval of v4 is a cap before jitter: the longest delay is (1 +
// RandomizationFactor) * MaxInterval, 90 s with the defaults. MaxDelay holds
// with jitter included: where the curve has reached it, the delays are between
// (1 - RandomizationFactor) * MaxDelay and MaxDelay. An InitialInterval longer
// than MaxInterval is the first delay of v4 as it is; MaxDelay cuts it.
//
// v4 rounds each delay down to the nanosecond before it multiplies it again; a
// Policy rounds once. The delays are equal where the products are whole, and
// differ by nanoseconds where they are not.
//
// v4 executes the operation although the context has ended before, hands it no
// context, may execute it once more after the context has ended, waits for a
// deadline that comes before the next try, and returns the context's error in
// place of the operation's. Do does none of this, and returns a [retry.Error]
// with both.
//
// A BackOff keeps the state of one call; a Policy is a value that any number
// of goroutines share.
package retrycenkalti
