package retry_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// untouchable is a custom Backoff and Jitter that must not be called.
type untouchable struct{}

func (untouchable) Delay(int) time.Duration { panic("the Backoff was called") }

func (untouchable) Window(time.Duration) (lo, hi time.Duration) {
	panic("the Jitter was called")
}

// invalidPolicies returns policies with one fault each, and a policy that has as many faults as
// possible. The key is the text that Validate returns for the policy.
func invalidPolicies() map[string]retry.Policy {
	const (
		count = "write how many, 0 for not set, or -1 for unlimited"
		above = "write 0 for none, or a positive duration"
		delay = "write 0 for no delay, or a positive duration"
		size  = "write how many retries it holds, at least 1"
		ratio = "write a share between 0 and 1: 0.1 is one retry for ten successes"
		every = "write 0 for never, or at least 1ms"
		share = "write a share between 0 and 1: 0.2 is ±20 %"
		grow  = "write 0 for 2, or a finite number of at least 1"
	)
	exponential := func(factor float64) retry.Policy {
		return retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second, Factor: factor}}
	}
	policies := map[string]retry.Policy{
		"MaxAttempts is -2: " + count:                                          {MaxAttempts: -2},
		fmt.Sprintf("MaxAttempts is %d: %s", math.MinInt, count):               {MaxAttempts: math.MinInt},
		"MaxRetries is -2: " + count:                                           {MaxRetries: -2},
		"AttemptCap is -1: write 0 for no cap, or how many attempts it allows": {AttemptCap: -1},
		"Backoff: Fixed is -1ns: " + delay:                                     {Backoff: retry.Fixed(-1)},
		"Backoff: Linear is -1s: " + delay:                                     {Backoff: retry.Linear(-time.Second)},
		"Backoff: Fibonacci is -1s: " + delay:                                  {Backoff: retry.Fibonacci(-time.Second)},
		"Backoff: Exponential.Base is -1s: " + delay:                           {Backoff: retry.Exponential{Base: -time.Second}},
		"Backoff: Exponential.Factor is 0.5: " + grow:                          exponential(.5),
		"Backoff: Exponential.Factor is 0.9999999999999999: " + grow:           exponential(math.Nextafter(1, 0)),
		"Backoff: Exponential.Factor is 5e-324: " + grow:                       exponential(math.SmallestNonzeroFloat64),
		"Backoff: Exponential.Factor is NaN: " + grow:                          exponential(math.NaN()),
		"Backoff: Exponential.Factor is +Inf: " + grow:                         exponential(math.Inf(1)),
		"Backoff: Exponential.Factor is -Inf: " + grow:                         exponential(math.Inf(-1)),
		"Backoff: Schedule[2] is -3ns: " + delay:                               {Backoff: retry.Schedule{1, 2, -3}},
		"MaxDelay is -1ns: " + above:                                           {MaxDelay: -1},
		"Jitter: Proportional is -0.1: " + share:                               {Jitter: retry.Proportional(-.1)},
		"Jitter: Proportional is 1.1: " + share:                                {Jitter: retry.Proportional(1.1)},
		"Jitter: Proportional is NaN: " + share:                                {Jitter: retry.Proportional(math.NaN())},
		"Jitter: Proportional is +Inf: " + share:                               {Jitter: retry.Proportional(math.Inf(1))},
		"MaxRetryAfter is -1ns: write 0 for one minute or MaxDelay, whichever is longer, or a positive duration": {MaxRetryAfter: -1},
		"MaxElapsed is -1ns: " + above:                                                        {MaxElapsed: -1},
		"AttemptTimeout is -1ns: " + above:                                                    {AttemptTimeout: -1},
		"Budget.Size is 0: " + size:                                                           {Budget: &retry.Budget{Ratio: .1}},
		fmt.Sprintf("Budget.Size is %d: %s", math.MinInt, size):                               {Budget: &retry.Budget{Size: math.MinInt, Ratio: .1}},
		"Budget.Size is -1: " + size:                                                          {Budget: &retry.Budget{Size: -1}},
		"Budget.Ratio is -0.1: " + ratio:                                                      {Budget: &retry.Budget{Size: 1, Ratio: -.1}},
		"Budget.Ratio is 1.1: " + ratio:                                                       {Budget: &retry.Budget{Size: 1, Ratio: 1.1}},
		"Budget.Ratio is NaN: " + ratio:                                                       {Budget: &retry.Budget{Size: 1, Ratio: math.NaN()}},
		"Budget.RefillEvery is -1ns: " + every:                                                {Budget: &retry.Budget{Size: 1, RefillEvery: -1}},
		"Budget.Grace is 999.999µs: " + every:                                                 {Budget: &retry.Budget{Size: 1, Grace: time.Millisecond - 1}},
		"Budget.Remember is 999.999µs: " + every:                                              {Budget: &retry.Budget{Size: 1, Remember: time.Millisecond - 1}},
		"Budget.RefillEvery is 999.999µs: " + every:                                           {Budget: &retry.Budget{Size: 1, RefillEvery: time.Millisecond - 1}},
		"HealthyAfter is -1ns: " + every:                                                      {HealthyAfter: -1},
		"HealthyAfter is 1ns: " + every:                                                       {HealthyAfter: 1},
		"HealthyAfter is 999µs: " + every:                                                     {HealthyAfter: 999 * time.Microsecond},
		`RetryAfter is "later": write RetryAfterSpread, RetryAfterAtLeast or RetryAfterExact`: {RetryAfter: "later"},
	}
	absurd := retry.Policy{
		MaxAttempts: -2, MaxRetries: -3, AttemptCap: -4,
		Backoff: retry.Schedule{-5, time.Second, -6}, MaxDelay: -7, Jitter: retry.Proportional(-8), MaxRetryAfter: -9, RetryAfter: "Exact\n",
		MaxElapsed: -10, AttemptTimeout: -11, HealthyAfter: -12, Budget: &retry.Budget{Size: -13, Ratio: -14, RefillEvery: -15, Remember: -16, Grace: -17},
	}
	policies[strings.Join([]string{
		"MaxAttempts is -2: " + count, "MaxRetries is -3: " + count, "AttemptCap is -4: write 0 for no cap, or how many attempts it allows",
		"Backoff: Schedule[0] is -5ns: " + delay, "Backoff: Schedule[2] is -6ns: " + delay, "MaxDelay is -7ns: " + above, "Jitter: Proportional is -8: " + share,
		"MaxRetryAfter is -9ns: write 0 for one minute or MaxDelay, whichever is longer, or a positive duration",
		`RetryAfter is "Exact\n": write RetryAfterSpread, RetryAfterAtLeast or RetryAfterExact`,
		"MaxElapsed is -10ns: " + above, "AttemptTimeout is -11ns: " + above, "HealthyAfter is -12ns: " + every,
		"Budget.Size is -13: " + size, "Budget.Ratio is -14: " + ratio, "Budget.RefillEvery is -15ns: " + every, "Budget.Remember is -16ns: " + every, "Budget.Grace is -17ns: " + every,
	}, "; ")] = absurd
	policies["Backoff: Exponential.Base is -1ns: "+delay+"; Backoff: Exponential.Factor is 0.5: "+grow] = retry.Policy{
		MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: -1, Factor: .5},
	}
	for fault, p := range policies {
		if p.MaxAttempts == 0 && p.MaxRetries == 0 {
			p.MaxAttempts = 5 // so that only the fault prevents a retry
			policies[fault] = p
		}
	}
	return policies
}

// An invalid policy names every fault at once, on one line.
func TestValidateNamesEachFault(t *testing.T) {
	for fault, p := range invalidPolicies() {
		t.Run(fault, func(t *testing.T) {
			require.EqualError(t, p.Validate(), "invalid policy: "+fault)
			assertInvalid(t, p)
		})
	}
}

// assertInvalid checks the result of each method for an invalid policy.
func assertInvalid(t *testing.T, p retry.Policy) {
	t.Helper()
	assert.Equal(t, 1, p.EffectiveMax())
	assert.True(t, p.Eligible(0))
	assert.False(t, p.Eligible(1))
	for _, number := range []int{math.MinInt, 0, 1, 2, math.MaxInt} {
		assert.Equal(t, retry.Decision{Reason: retry.ReasonInvalid}, p.Next(retry.Attempt{Number: number, Seed: 1}))
	}
	assert.Equal(t, p.Validate(), p.ForJob(3).Validate())
	assert.Nil(t, p.Lint())
	assert.Equal(t, p.Validate().Error(), p.String())
}

func TestValidateSound(t *testing.T) {
	negativeZero := math.Copysign(0, -1)
	for name, p := range map[string]retry.Policy{
		"zero":    {},
		"default": retry.Default(),
		"the largest value of every field": {
			MaxAttempts: math.MaxInt, MaxRetries: math.MaxInt, AttemptCap: math.MaxInt, Backoff: retry.Exponential{Base: math.MaxInt64, Factor: math.MaxFloat64},
			MaxDelay: math.MaxInt64, Jitter: retry.Proportional(1),
			MaxRetryAfter: math.MaxInt64, MaxElapsed: math.MaxInt64, AttemptTimeout: math.MaxInt64, HealthyAfter: math.MaxInt64, Budget: &retry.Budget{Size: math.MaxInt, Ratio: 1, RefillEvery: math.MaxInt64, Remember: math.MaxInt64},
		},
		"the smallest values above zero": {
			MaxAttempts: 1, AttemptCap: 1, Backoff: retry.Exponential{Base: 1, Factor: 1},
			MaxDelay: 1, Jitter: retry.Proportional(math.SmallestNonzeroFloat64),
			MaxRetryAfter: 1, MaxElapsed: 1, AttemptTimeout: 1, HealthyAfter: time.Millisecond, Budget: &retry.Budget{Size: 1, RefillEvery: time.Millisecond, Remember: time.Millisecond, Grace: time.Millisecond},
		},
		"a factor of minus zero is 0": {MaxAttempts: 2, Backoff: retry.Exponential{Base: 1, Factor: negativeZero}},
		"a jitter of minus zero is 0": {MaxAttempts: 2, Jitter: retry.Proportional(negativeZero)},
		"a Fibonacci of 0":            {MaxAttempts: 2, Backoff: retry.Fibonacci(0)},
		"no delay, but a limit":       {MaxAttempts: 1_000_000},
		"no delay and no limit":       {MaxAttempts: retry.Unlimited},
		"no delay, by MaxElapsed":     {MaxElapsed: time.Minute},
	} {
		t.Run(name, func(t *testing.T) { assert.NoError(t, p.Validate()) })
	}
}

// The methods that only inspect a policy call none of its functions and no method of a custom type.
func TestValidateCallsNoFunction(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: retry.Unlimited, Backoff: untouchable{}, Jitter: untouchable{}, MaxDelay: time.Second, MaxElapsed: time.Second,
		Source:   func() uint64 { panic("the Source was called") },
		Wait:     func(context.Context, time.Duration) (time.Duration, error) { panic("Wait was called") },
		RetryIf:  func(error) bool { panic("RetryIf was called") },
		Classify: func(error) *retry.Class { panic("Classify was called") },
	}
	for _, b := range []retry.Backoff{untouchable{}, &untouchable{}, retry.BackoffFunc(untouchable{}.Delay)} {
		p.Backoff = b
		assert.NoError(t, p.Validate())
		assert.Empty(t, p.Lint())
		assert.NotEmpty(t, p.String())
		assert.Equal(t, retry.Unlimited, p.EffectiveMax())
		assert.True(t, p.Eligible(1_000_000))
		assert.Equal(t, 3, p.ForJob(3).EffectiveMax())
	}
}

// The errors of Validate can be compared with ==.
func TestValidateErrorsCanBeCompared(t *testing.T) {
	a, b := retry.Policy{MaxAttempts: -2}.Validate(), retry.Policy{MaxAttempts: -3}.Validate()
	assert.NotPanics(t, func() { assert.False(t, a == b) })
	assert.ErrorIs(t, fmt.Errorf("wrapped: %w", a), a)
}

func TestInvalidPolicyInAContextThatEnds(t *testing.T) {
	everyWay(t, "canceled in the only attempt: the Reason is still ReasonInvalid", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := call(ctx, retry.Policy{MaxAttempts: -2}, func(context.Context) error { cancel(errShutdown); return errDial })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		for _, is := range []error{context.Canceled, errShutdown, errDial} {
			assert.ErrorIs(t, err, is)
		}
		assert.ErrorContains(t, err, "MaxAttempts is -2")
	})
	everyWay(t, "an invalid policy keeps its AttemptTimeout", func(t *testing.T, call caller) {
		start := time.Now()
		err := call(t.Context(), retry.Policy{MaxAttempts: -2, AttemptTimeout: time.Second}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestInvalidCalls(t *testing.T) {
	for _, nilFn := range []struct {
		name string
		call func(context.Context, retry.Policy) error
	}{
		{"Do", func(ctx context.Context, p retry.Policy) error { return retry.Do(ctx, p, nil) }},
		{"DoValue", func(ctx context.Context, p retry.Policy) error {
			value, err := retry.DoValue[int](ctx, p, nil)
			assert.Zero(t, value)
			return err
		}},
	} {
		bubble(t, "nil fn/"+nilFn.name, func(t *testing.T) {
			for _, p := range []retry.Policy{{}, everySecond, {MaxAttempts: 3, MaxElapsed: time.Minute}, {MaxAttempts: 3, OnEvent: new(watch).event}} {
				err := nilFn.call(t.Context(), p)
				assert.EqualError(t, err, "retry: invalid call before the first attempt (nil function)")
				assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Cause: stopped(t, err).Cause}, plain(err))
			}
			err := nilFn.call(t.Context(), retry.Policy{MaxAttempts: -2})
			assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
			assert.ErrorContains(t, err, "nil function")
			assert.ErrorContains(t, err, "MaxAttempts is -2")
		})
	}

	bubble(t, "a nil fn and a context that is done: the Error reports the nil fn", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(retry.Do(ctx, everySecond, nil)))
	})
	everyWay(t, "nil context", func(t *testing.T, call caller) {
		var told watch
		for _, p := range []retry.Policy{{}, everySecond, {MaxAttempts: 3, MaxElapsed: 1}, {MaxAttempts: 3, AttemptTimeout: 1}, {MaxAttempts: 3, OnEvent: told.event}} {
			runs := 0
			err := call(noContext, p, fails(&runs))
			assert.Zero(t, runs)
			assert.EqualError(t, err, "retry: invalid call before the first attempt (nil context)")
			assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		}
		assert.Equal(t, counts{0, 0, 0, 1}, told.counts())
		assert.NotNil(t, told.contexts[0], "OnEvent never gets a nil context")
		err := call(noContext, retry.Policy{MaxAttempts: -2}, func(context.Context) error { return nil })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.ErrorContains(t, err, "nil context")
		assert.ErrorContains(t, err, "MaxAttempts is -2")
	})

	everyWay(t, "the longest delay can be interrupted", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(math.MaxInt64)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start, runs := time.Now(), 0
		err := call(hidden{ctx}, p, fails(&runs))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, time.Hour, time.Since(start))
		assert.Equal(t, 1, runs)
	})
}
