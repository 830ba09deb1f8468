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

// Policy returns a policy with which [retry.Do] does what v4 does with b, except
// for the differences in the package documentation. b is an
// *ExponentialBackOff, a *ConstantBackOff, a *ZeroBackOff or a *StopBackOff.
// Policy only reads it, and ignores what it has counted so far, as Retry does.
// For a [*BackOff] of this package it returns the policy that was passed to New.
//
// If b has no limit on attempts, the policy has none either: set MaxAttempts.
// Without it a policy that neither waits nor stops is invalid, and an invalid
// policy never retries: that of a *ZeroBackOff, and of an Interval or
// InitialInterval of 0, as a configuration may have it. RetryIf is [Retryable], so backoff.Permanent stops
// the call with ReasonRejected; a plain policy of an outer loop does not notice
// that mark. To have it treated like retry.Permanent, pass errors through
// [Translate].
//
// The error names every fault of b and says what to write instead. Faults are a
// nil b; a field that v4 accepts and no policy does, such as a Multiplier below
// 1; WithMaxRetries and WithContext, which do not show what they wrap; and any
// other type, whose state is not known here.
func Policy(b backoff.BackOff) (retry.Policy, error) {
	p, fault := policyOf(b)
	if fault != "" {
		return retry.Policy{}, fmt.Errorf("retrycenkalti: %T: %s", b, fault)
	}
	return p, nil
}

// policyOf returns the policy of b, or what is wrong with b.
func policyOf(b backoff.BackOff) (p retry.Policy, fault string) {
	if v := reflect.ValueOf(b); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return p, "the BackOff is nil: write backoff.NewExponentialBackOff()"
	}
	switch b := b.(type) {
	case *backoff.ExponentialBackOff:
		return exponential(b)
	case *backoff.ConstantBackOff:
		if b.Interval < 0 {
			return p, fmt.Sprintf("Interval is %v: write a duration of at least 0, or a StopBackOff for no retry", b.Interval)
		}
		return retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(b.Interval), RetryIf: Retryable}, ""
	case *backoff.ZeroBackOff:
		return retry.Policy{MaxAttempts: retry.Unlimited, RetryIf: Retryable}, ""
	case *backoff.StopBackOff:
		return retry.Policy{NonRetryable: true, RetryIf: Retryable}, ""
	case *BackOff:
		return b.policy, ""
	}
	switch reflect.TypeOf(b) {
	case reflect.TypeOf(backoff.WithContext(nil, context.Background())), reflect.TypeOf(backoff.WithMaxRetries(nil, 0)):
		return p, "it hides what it wraps: convert the innermost BackOff, " +
			"give the ctx of WithContext to retry.Do, and set MaxAttempts to retry.Retries(int(n)) for the n of WithMaxRetries"
	default:
		return p, "the state of this type is not known here: write the delay after the n-th failure as a retry.BackoffFunc, and set it as Policy.Backoff"
	}
}

func exponential(b *backoff.ExponentialBackOff) (p retry.Policy, fault string) {
	var faults []string
	check := func(well bool, field string, value any, write string) {
		if !well {
			faults = append(faults, fmt.Sprintf("%s is %v: %s", field, value, write))
		}
	}
	check(b.InitialInterval >= 0, "InitialInterval", b.InitialInterval, "write the first delay")
	check(b.Multiplier >= 1 && b.Multiplier <= math.MaxFloat64, "Multiplier", b.Multiplier, "write a finite number of at least 1")
	check(b.RandomizationFactor >= 0 && b.RandomizationFactor <= 1, "RandomizationFactor", b.RandomizationFactor, "write a number from 0 to 1")
	check(b.MaxInterval > 0, "MaxInterval", b.MaxInterval, "write the longest delay, or math.MaxInt64 for no cap: with 0 v4 waits once and then retries without a pause")
	check(b.MaxElapsedTime >= 0, "MaxElapsedTime", b.MaxElapsedTime, "write for how long to retry, or 0 for no bound")
	if b.MaxElapsedTime > 0 {
		check(b.Stop == backoff.Stop, "Stop", b.Stop, "write backoff.Stop: with anything else v4 goes on after MaxElapsedTime")
		check(b.Clock == nil || b.Clock == backoff.SystemClock, "Clock", fmt.Sprintf("a %T", b.Clock),
			"leave it out: a policy is timed by the system's clock, and in a test by that of testing/synctest")
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
