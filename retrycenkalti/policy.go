package retrycenkalti

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/cenkalti/backoff/v4"

	"github.com/goretry/retry"
)

// Policy returns the policy whose loop does what that of v4 does with b, but
// for what the package documentation lists. b is an *ExponentialBackOff, a
// *ConstantBackOff, a *ZeroBackOff, a *StopBackOff, or a [*BackOff] of this
// package. It is only read. What it has counted so far is left out, as Retry
// leaves it out.
//
// The policy has no limit on executions where b has none: set MaxAttempts. One
// that neither waits nor stops, as that of a *ZeroBackOff, is not valid before
// that. RetryIf is [Retryable].
//
// An error names each fault of b at once and says what to write instead. There
// is one for a nil b; for a field that v4 takes and no policy does, such as a
// Multiplier below 1; for WithMaxRetries and WithContext, which show nobody
// what they hold; and for any other type, whose state is not known here.
func Policy(b backoff.BackOff) (retry.Policy, error) {
	p, err := policyOf(b)
	if err != nil {
		return retry.Policy{}, fmt.Errorf("retrycenkalti: %T: %w", b, err)
	}
	return p, nil
}

func policyOf(b backoff.BackOff) (retry.Policy, error) {
	if v := reflect.ValueOf(b); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return retry.Policy{}, errors.New("the BackOff is nil: write backoff.NewExponentialBackOff()")
	}
	switch b := b.(type) {
	case *backoff.ExponentialBackOff:
		return exponential(b)
	case *backoff.ConstantBackOff:
		return constant(b)
	case *backoff.ZeroBackOff:
		return retry.Policy{MaxAttempts: retry.Unlimited, RetryIf: Retryable}, nil
	case *backoff.StopBackOff:
		return retry.Policy{NonRetryable: true}, nil
	case *BackOff:
		return b.policy, nil
	case backoff.BackOffContext:
		return retry.Policy{}, errors.New("it hides the BackOff of WithContext: convert that one, and give the context to retry.Do")
	}
	if reflect.TypeOf(b) == reflect.TypeOf(backoff.WithMaxRetries(nil, 0)) {
		return retry.Policy{}, errors.New("it hides the BackOff and the limit of WithMaxRetries: convert that one, and set MaxAttempts to retry.Retries(n)")
	}
	return retry.Policy{}, errors.New("the state of this type is not known here: write the delay after the n-th failure as a retry.BackoffFunc, and set it as Policy.Backoff")
}

func exponential(b *backoff.ExponentialBackOff) (retry.Policy, error) {
	var f faults
	f.check(b.InitialInterval >= 0, "InitialInterval", b.InitialInterval, "write the first delay")
	f.check(b.Multiplier >= 1 && b.Multiplier <= math.MaxFloat64, "Multiplier", b.Multiplier, "write a finite number of at least 1")
	f.check(b.RandomizationFactor >= 0 && b.RandomizationFactor <= 1, "RandomizationFactor", b.RandomizationFactor, "write a number from 0 to 1")
	f.check(b.MaxInterval > 0, "MaxInterval", b.MaxInterval, "write the longest delay, or math.MaxInt64 for no cap: with less than 1 ns v4 waits once and never again")
	f.check(b.MaxElapsedTime >= 0, "MaxElapsedTime", b.MaxElapsedTime, "write for how long to retry, or 0 for no bound")
	if b.MaxElapsedTime > 0 {
		f.check(b.Stop == backoff.Stop, "Stop", b.Stop, "write backoff.Stop: with anything else v4 goes on after MaxElapsedTime")
		system := b.Clock == nil || reflect.TypeOf(b.Clock) == reflect.TypeOf(backoff.SystemClock)
		f.check(system, "Clock", fmt.Sprintf("a %T", b.Clock), "leave it out: a policy is timed by the system's clock, and in a test by that of testing/synctest")
	}
	p := retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Exponential{Base: b.InitialInterval, Factor: b.Multiplier},
		MaxDelay:    b.MaxInterval,
		MaxElapsed:  b.MaxElapsedTime,
		RetryIf:     Retryable,
	}
	if b.RandomizationFactor != 0 {
		p.Jitter = retry.Proportional(b.RandomizationFactor)
	}
	return p, f.err()
}

func constant(b *backoff.ConstantBackOff) (retry.Policy, error) {
	var f faults
	f.check(b.Interval >= 0, "Interval", b.Interval, "write a duration of at least 0, or a StopBackOff for no retry")
	return retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(b.Interval), RetryIf: Retryable}, f.err()
}

// faults is what is wrong with the fields of a BackOff.
type faults []string

// check adds a fault unless all is well: the field, its value, and what to
// write instead.
func (f *faults) check(well bool, field string, value any, write string) {
	if !well {
		*f = append(*f, fmt.Sprintf("%s is %v: %s", field, value, write))
	}
}

func (f faults) err() error {
	if f == nil {
		return nil
	}
	return errors.New(strings.Join(f, "; "))
}
