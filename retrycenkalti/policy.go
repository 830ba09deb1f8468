package retrycenkalti

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// Policy returns a policy with which [retry.Do] does what v4 does with b, except for the
// differences that the package documentation lists. b must be an *ExponentialBackOff, a
// *ConstantBackOff, a *ZeroBackOff or a *StopBackOff of v4, or a [*BackOff] of this package. For
// a [*BackOff], Policy returns the policy that was passed to New. Policy does not change b, and
// ignores earlier calls of b.NextBackOff.
//
// In v4 the number of attempts is unlimited, unless b is a *StopBackOff. The policy does not limit
// this number either, so set MaxAttempts. Without a limit, each wait of the policy is at least
// 10ms. v4 retries without a wait if b is a *ZeroBackOff, or if its Interval or InitialInterval is
// 0.
//
// The RetryIf of the policy is [Retryable], so an error of backoff.Permanent stops the call with
// ReasonRejected. An outer loop retries this error, unless the RetryIf of its policy is Retryable
// too. To make the error permanent for every loop, pass it through [Translate].
//
// If Policy cannot convert b, it returns an error that names every fault of b and says what to
// write instead. These are faults:
//
//   - a nil b
//   - a field that is valid in v4 and invalid in a policy, such as a Multiplier below 1
//   - a result of WithMaxRetries or WithContext, because it hides the BackOff inside it
//   - a BackOff of any other type, because Policy cannot read its state
//
// Rounding. v4 rounds each delay down to a nanosecond before it multiplies the delay again. A
// Policy rounds each delay once. The difference grows with the delay. With the defaults, it is
// one nanosecond for the delays of 28.8 s and 43.2 s. With an InitialInterval of 1 µs, the
// difference is 11 ms for the delay of 56 s. With an InitialInterval of 1 ns, the delay never
// grows in v4.
//
// # What to write instead
//
// The left column of this table lists the names of v4. The right column contains Go code to paste,
// in which p is a [retry.Policy]. If no code is needed, the right column contains a comment.
//
//	v4                                  instead
//
//	Retry(op, b)                        retry.Do(ctx, p, fn)
//	RetryWithData(op, b)                retry.DoValue(ctx, p, fn)
//	RetryNotify(op, b, notify)          p.OnEvent = onRetry(notify) // see below
//	RetryNotifyWithData(op, b, notify)  p.OnEvent = onRetry(notify) // with retry.DoValue
//	RetryNotifyWithTimer                // retry.Do in a bubble of testing/synctest
//	RetryNotifyWithTimerAndData         // retry.DoValue in a bubble of testing/synctest
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
//	WithMultiplier(m)                   p.Backoff = retry.Exponential{
//	                                        Base: 500 * time.Millisecond, Factor: m,
//	                                    }
//	WithMaxInterval(d)                  p.MaxDelay = d
//	WithRandomizationFactor(f)          p.Jitter = retry.Proportional(f)
//	WithMaxElapsedTime(d)               p.MaxElapsed = d
//	WithRetryStopDuration(d)            // nothing: a Decision has a Reason and a Delay
//	WithClockProvider(c)                // testing/synctest
//	NewConstantBackOff(d)               retry.Policy{
//	ConstantBackOff{Interval: d}            MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(d),
//	                                    }
//	ZeroBackOff{}                       retry.Policy{MaxAttempts: n}
//	                                    // without a limit, each wait is 10ms
//	StopBackOff{}                       retry.Policy{}
//	WithMaxRetries(b, n)                p.MaxAttempts = int(n) + 1
//	WithContext(b, ctx)                 retry.Do(ctx, p, fn)
//	BackOffContext                      // the ctx of retry.Do
//
//	BackOff                             retry.Backoff // a pure function of the number of failures
//	b.NextBackOff()                     d := p.Next(retry.Attempt{
//	                                        Number: n, Err: err, Elapsed: elapsed, Seed: seed,
//	                                    })
//	                                    // after n failures; all delays of a call have one seed,
//	                                    // which is any number except 0
//	Stop                                !d.Retry() // d is the result of Next; see d.Reason
//	b.Reset()                           // nothing: a Policy keeps no state
//	b.GetElapsedTime()                  time.Since(began) // or Event.Elapsed
//	NewTicker(b)                        retry.Do(ctx, p, fn)
//	                                    // fn is the body of the loop over ticker.C
//	NewTickerWithTimer(b, timer)        // retry.Do in a bubble of testing/synctest
//	Ticker                              // the fn of retry.Do: return nil in place of Stop
//
//	Permanent(err)                      retry.Permanent(err)
//	PermanentError{Err: err}            retry.Permanent(err)
//	errors.As(err, &permanent)          // for the error of an operation: nothing
//	                                    // for the error of retry.Do: retry.ReasonOf(err)
//	                                    // is retry.ReasonPermanent, or retry.ReasonRejected
//	                                    // if Retryable found a PermanentError
//
// The code in the table above calls the following function onRetry, which you can copy into your
// program. The function returns an OnEvent that calls a Notify of v4:
//
//	func onRetry(notify func(error, time.Duration)) func(context.Context, retry.Event) {
//		return func(_ context.Context, e retry.Event) {
//			if e.Kind == retry.RetryScheduled {
//				notify(e.Err, e.Delay)
//			}
//		}
//	}
func Policy(b backoff.BackOff) (retry.Policy, error) {
	p, fault := policyOf(b)
	if fault != "" {
		return retry.Policy{}, fmt.Errorf("retrycenkalti: %T: %s", b, fault)
	}
	return p, nil
}

// policyOf returns the policy that does what v4 does with b. If there is no such policy, the result
// `fault` lists what is wrong with b.
func policyOf(b backoff.BackOff) (p retry.Policy, fault string) {
	if v := reflect.ValueOf(b); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return p, "the BackOff is nil: write backoff.NewExponentialBackOff()"
	}
	switch b := b.(type) {
	case *backoff.ExponentialBackOff:
		return exponential(b)
	case *backoff.ConstantBackOff:
		if b.Interval < 0 {
			return p, fmt.Sprintf("Interval is %v: "+
				"write a duration of at least 0, or a StopBackOff for no retry", b.Interval)
		}
		return retry.Policy{
			MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(b.Interval), RetryIf: Retryable,
		}, ""
	case *backoff.ZeroBackOff:
		return retry.Policy{MaxAttempts: retry.Unlimited, RetryIf: Retryable}, ""
	case *backoff.StopBackOff:
		return retry.Policy{NonRetryable: true, RetryIf: Retryable}, ""
	case *BackOff:
		return b.policy, ""
	}
	switch reflect.TypeOf(b) {
	case reflect.TypeOf(backoff.WithContext(nil, context.Background())),
		reflect.TypeOf(backoff.WithMaxRetries(nil, 0)):
		return p, "it hides the BackOff inside it: convert the innermost BackOff, " +
			"pass the ctx of WithContext to retry.Do, " +
			"and set MaxAttempts to int(n) + 1 for the n of WithMaxRetries"
	default:
		return p, "the state of this type cannot be read: write the delay after the n-th failure " +
			"as a retry.BackoffFunc, and set it as Policy.Backoff"
	}
}

func exponential(b *backoff.ExponentialBackOff) (p retry.Policy, fault string) {
	var faults []string
	check := func(valid bool, field string, value any, write string) {
		if !valid {
			faults = append(faults, fmt.Sprintf("%s is %v: %s", field, value, write))
		}
	}
	check(b.InitialInterval >= 0,
		"InitialInterval", b.InitialInterval,
		"write the first delay")
	check(b.Multiplier >= 1 && b.Multiplier <= math.MaxFloat64,
		"Multiplier", b.Multiplier,
		"write a finite number of at least 1")
	check(b.RandomizationFactor >= 0 && b.RandomizationFactor <= 1,
		"RandomizationFactor", b.RandomizationFactor,
		"write a number from 0 to 1")
	check(b.MaxInterval > 0,
		"MaxInterval", b.MaxInterval,
		"write the longest delay, or math.MaxInt64 for no cap: "+
			"with 0 v4 waits once and then retries without a pause")
	check(b.MaxElapsedTime >= 0,
		"MaxElapsedTime", b.MaxElapsedTime,
		"write for how long to retry, or 0 for no bound")
	if b.MaxElapsedTime > 0 {
		check(b.Stop == backoff.Stop,
			"Stop", b.Stop,
			"write backoff.Stop: with any other value v4 goes on after MaxElapsedTime")
		check(b.Clock == nil || b.Clock == backoff.SystemClock,
			"Clock", fmt.Sprintf("a %T", b.Clock),
			"leave it out: a policy reads the system's clock, "+
				"and in a test the clock of testing/synctest")
	}
	p = retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Exponential{Base: b.InitialInterval, Factor: b.Multiplier},
		MaxDelay:    b.MaxInterval,
		MaxElapsed:  b.MaxElapsedTime,
		RetryIf:     Retryable,
	}
	if b.RandomizationFactor != 0 {
		p.Jitter = retry.Proportional(b.RandomizationFactor)
	}
	return p, strings.Join(faults, "; ")
}
