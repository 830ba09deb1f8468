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

func TestValidateNamesEachFault(t *testing.T) {
	const (
		count = "write how many, 0 for not set, or -1 for unlimited"
		above = "write 0 for none, or a positive duration"
		delay = "write 0 for no delay, or a positive duration"
		size  = "write how many retries it holds, at least 1"
		ratio = "write a share between 0 and 1: 0.1 is one retry for ten successes"
		every = "write 0 for never, or at least 1ms"
		share = "write a share between 0 and 1: 0.2 is ±20 %"
		grow  = "write 0 for 2, or a finite number of at least 1"
		hot   = "unlimited attempts without a delay: set MaxAttempts, MaxRetries, a Budget or a Backoff (Fixed(10*time.Millisecond))"
	)
	exponential := func(factor float64) retry.Policy {
		return retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second, Factor: factor}}
	}
	for _, row := range []struct {
		policy retry.Policy
		fault  string
	}{
		{retry.Policy{MaxAttempts: -2}, "MaxAttempts is -2: " + count},
		{retry.Policy{MaxAttempts: math.MinInt}, fmt.Sprintf("MaxAttempts is %d: %s", math.MinInt, count)},
		{retry.Policy{MaxRetries: -2}, "MaxRetries is -2: " + count},
		{retry.Policy{MaxRetries: math.MinInt}, fmt.Sprintf("MaxRetries is %d: %s", math.MinInt, count)},
		{retry.Policy{AttemptCap: -1}, "AttemptCap is -1: write 0 for no cap, or how many attempts it allows"},
		{retry.Policy{Backoff: retry.Fixed(-1)}, "Backoff: Fixed is -1ns: " + delay},
		{retry.Policy{Backoff: retry.Fixed(math.MinInt64)}, "Backoff: Fixed is -2562047h47m16.854775808s: " + delay},
		{retry.Policy{Backoff: retry.Linear(-time.Second)}, "Backoff: Linear is -1s: " + delay},
		{retry.Policy{Backoff: retry.Fibonacci(-time.Second)}, "Backoff: Fibonacci is -1s: " + delay},
		{retry.Policy{Backoff: retry.Exponential{Base: -time.Second}}, "Backoff: Exponential.Base is -1s: " + delay},
		{exponential(.5), "Backoff: Exponential.Factor is 0.5: " + grow},
		{exponential(math.Nextafter(1, 0)), "Backoff: Exponential.Factor is 0.9999999999999999: " + grow},
		{exponential(math.SmallestNonzeroFloat64), "Backoff: Exponential.Factor is 5e-324: " + grow},
		{exponential(-2), "Backoff: Exponential.Factor is -2: " + grow},
		{exponential(math.NaN()), "Backoff: Exponential.Factor is NaN: " + grow},
		{exponential(math.Inf(1)), "Backoff: Exponential.Factor is +Inf: " + grow},
		{exponential(math.Inf(-1)), "Backoff: Exponential.Factor is -Inf: " + grow},
		{retry.Policy{Backoff: retry.Schedule{1, 2, -3}}, "Backoff: Schedule[2] is -3ns: " + delay},
		{retry.Policy{MaxDelay: -1}, "MaxDelay is -1ns: " + above},
		{retry.Policy{Jitter: retry.Proportional(-.1)}, "Jitter: Proportional is -0.1: " + share},
		{retry.Policy{Jitter: retry.Proportional(1.1)}, "Jitter: Proportional is 1.1: " + share},
		{retry.Policy{Jitter: retry.Proportional(20)}, "Jitter: Proportional is 20: " + share},
		{retry.Policy{Jitter: retry.Proportional(math.NaN())}, "Jitter: Proportional is NaN: " + share},
		{retry.Policy{Jitter: retry.Proportional(math.Inf(1))}, "Jitter: Proportional is +Inf: " + share},
		{retry.Policy{MaxRetryAfter: -1}, "MaxRetryAfter is -1ns: write 0 for one minute or MaxDelay, whichever is longer, or a positive duration"},
		{retry.Policy{MaxElapsed: -1}, "MaxElapsed is -1ns: " + above},
		{retry.Policy{AttemptTimeout: -1}, "AttemptTimeout is -1ns: " + above},
		{retry.Policy{Budget: &retry.Budget{Ratio: .1}}, "Budget: Size is 0: " + size},
		{retry.Policy{Budget: &retry.Budget{}}, "Budget: Size is 0: " + size},
		{retry.Policy{Budget: &retry.Budget{Size: math.MinInt, Ratio: .1}}, fmt.Sprintf("Budget: Size is %d: %s", math.MinInt, size)},
		{retry.Policy{Budget: &retry.Budget{Size: -1}}, "Budget: Size is -1: " + size},
		{retry.Policy{Budget: &retry.Budget{Size: 1, Ratio: -.1}}, "Budget: Ratio is -0.1: " + ratio},
		{retry.Policy{Budget: &retry.Budget{Size: 1, Ratio: 1.1}}, "Budget: Ratio is 1.1: " + ratio},
		{retry.Policy{Budget: &retry.Budget{Size: 1, Ratio: math.NaN()}}, "Budget: Ratio is NaN: " + ratio},
		{retry.Policy{Budget: &retry.Budget{Size: 1, Ratio: math.Inf(1)}}, "Budget: Ratio is +Inf: " + ratio},
		{retry.Policy{Budget: &retry.Budget{Size: 1, RefillEvery: -1}}, "Budget: RefillEvery is -1ns: " + every},
		{retry.Policy{Budget: &retry.Budget{Size: 1, RefillEvery: time.Millisecond - 1}}, "Budget: RefillEvery is 999.999µs: " + every},
		{retry.Policy{HealthyAfter: -1}, "HealthyAfter is -1ns: " + every},
		{retry.Policy{HealthyAfter: 1}, "HealthyAfter is 1ns: " + every},
		{retry.Policy{HealthyAfter: 999 * time.Microsecond}, "HealthyAfter is 999µs: " + every},
		{retry.Policy{MaxAttempts: retry.Unlimited}, hot},
		{retry.Policy{MaxRetries: retry.Unlimited}, hot},
	} {
		t.Run(row.fault, func(t *testing.T) {
			require.EqualError(t, row.policy.Validate(), "invalid policy: "+row.fault)
			assertInvalid(t, row.policy)
		})
	}
}

// assertInvalid checks what every method returns for an invalid policy.
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

func TestValidateNamesEveryFaultAtOnce(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: -2, MaxRetries: -3, AttemptCap: -4,
		Backoff: retry.Schedule{-5, time.Second, -6}, MaxDelay: -7, Jitter: retry.Proportional(-8), MaxRetryAfter: -9,
		MaxElapsed: -10, AttemptTimeout: -11, HealthyAfter: -12, Budget: &retry.Budget{Size: -13, Ratio: -14, RefillEvery: -15},
	}
	err := p.Validate()
	require.Error(t, err)
	want := []string{
		"MaxAttempts is -2", "MaxRetries is -3", "AttemptCap is -4",
		"Backoff: Schedule[0] is -5ns", "Backoff: Schedule[2] is -6ns", "MaxDelay is -7ns", "Jitter: Proportional is -8", "MaxRetryAfter is -9ns",
		"MaxElapsed is -10ns", "AttemptTimeout is -11ns", "HealthyAfter is -12ns",
		"Budget: Size is -13", "Budget: Ratio is -14", "Budget: RefillEvery is -15ns",
	}
	var got []string
	for fault := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "invalid policy: "), "; ") {
		field, write, _ := strings.Cut(fault, ": write ")
		assert.NotEmpty(t, write, "%s: what to write instead", fault)
		got = append(got, field)
	}
	assert.Equal(t, want, got)
	assert.NotContains(t, err.Error(), "\n")
	assertInvalid(t, p)

	p = retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: -1, Factor: .5}}
	assert.EqualError(t, p.Validate(), "invalid policy: "+
		"Backoff: Exponential.Base is -1ns: write 0 for no delay, or a positive duration; "+
		"Backoff: Exponential.Factor is 0.5: write 0 for 2, or a finite number of at least 1; "+
		"unlimited attempts without a delay: set MaxAttempts, MaxRetries, a Budget or a Backoff (Fixed(10*time.Millisecond))")
}

func TestValidateSound(t *testing.T) {
	negativeZero := math.Copysign(0, -1)
	for name, p := range map[string]retry.Policy{
		"zero":                             {},
		"default":                          retry.Default(),
		"the largest value of every field": {MaxAttempts: math.MaxInt, MaxRetries: math.MaxInt, AttemptCap: math.MaxInt, Backoff: retry.Exponential{Base: math.MaxInt64, Factor: math.MaxFloat64}, MaxDelay: math.MaxInt64, Jitter: retry.Proportional(1), MaxRetryAfter: math.MaxInt64, MaxElapsed: math.MaxInt64, AttemptTimeout: math.MaxInt64, HealthyAfter: math.MaxInt64, Budget: &retry.Budget{Size: math.MaxInt, Ratio: 1, RefillEvery: math.MaxInt64}},
		"the smallest values above zero":   {MaxAttempts: 1, AttemptCap: 1, Backoff: retry.Exponential{Base: 1, Factor: 1}, MaxDelay: 1, Jitter: retry.Proportional(math.SmallestNonzeroFloat64), MaxRetryAfter: 1, MaxElapsed: 1, AttemptTimeout: 1, HealthyAfter: time.Millisecond, Budget: &retry.Budget{Size: 1, RefillEvery: time.Millisecond}},
		"a factor of minus zero is 0":      {MaxAttempts: 2, Backoff: retry.Exponential{Base: 1, Factor: negativeZero}},
		"a jitter of minus zero is 0":      {MaxAttempts: 2, Jitter: retry.Proportional(negativeZero)},
		"no delay, but a limit":            {MaxAttempts: 1_000_000},
		"fixed 0, but a limit":             {MaxAttempts: 3, Backoff: retry.Fixed(0)},
		"linear 0, but a limit":            {MaxAttempts: 3, Backoff: retry.Linear(0)},
		"fibonacci 0, but a limit":         {MaxAttempts: 3, Backoff: retry.Fibonacci(0)},
		"exponential 0, but a limit":       {MaxAttempts: 3, Backoff: retry.Exponential{}},
		"schedule of 0, but a limit":       {MaxAttempts: 3, Backoff: retry.Schedule{0, 0}},
		"an empty schedule":                {MaxAttempts: 3, Backoff: retry.Schedule{}},
		"full jitter":                      {MaxAttempts: 3, Jitter: retry.FullJitter},
		"equal jitter":                     {MaxAttempts: 3, Jitter: retry.EqualJitter},
	} {
		t.Run(name, func(t *testing.T) { assert.NoError(t, p.Validate()) })
	}
}

func TestValidateHotLoop(t *testing.T) {
	unlimited := func(b retry.Backoff) retry.Policy { return retry.Policy{MaxAttempts: retry.Unlimited, Backoff: b} }
	with := func(change func(*retry.Policy)) retry.Policy {
		p := unlimited(nil)
		change(&p)
		return p
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		hot    bool
	}{
		{"no Backoff", unlimited(nil), true},
		{"unlimited by MaxRetries", retry.Policy{MaxRetries: retry.Unlimited}, true},
		{"unlimited by both", retry.Policy{MaxAttempts: retry.Unlimited, MaxRetries: retry.Unlimited}, true},
		{"Fixed 0", unlimited(retry.Fixed(0)), true},
		{"Linear 0", unlimited(retry.Linear(0)), true},
		{"Fibonacci 0", unlimited(retry.Fibonacci(0)), true},
		{"Exponential 0", unlimited(retry.Exponential{Factor: 3}), true},
		{"Schedule nil", unlimited(retry.Schedule(nil)), true},
		{"Schedule empty", unlimited(retry.Schedule{}), true},
		{"Schedule 0", unlimited(retry.Schedule{0, 0}), true},
		{"Schedule that ends in a hot loop", unlimited(retry.Schedule{time.Second, 0}), true},
		{"BackoffFunc nil", unlimited(retry.BackoffFunc(nil)), true},
		{"a cap and a jitter add no delay", with(func(p *retry.Policy) { p.MaxDelay, p.Jitter = time.Second, retry.FullJitter }), true},
		{"AttemptTimeout limits no attempts", with(func(p *retry.Policy) { p.AttemptTimeout = time.Second }), true},
		{"RetryIf limits no attempts", with(func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }), true},

		{"Schedule that begins without a delay", unlimited(retry.Schedule{0, 0, time.Nanosecond}), false},
		{"Fixed 1ns", unlimited(retry.Fixed(1)), false},
		{"Exponential 1ns", unlimited(retry.Exponential{Base: 1, Factor: 1}), false},
		{"a BackoffFunc is trusted", unlimited(retry.BackoffFunc(untouchable{}.Delay)), false},
		{"a custom Backoff is trusted", unlimited(untouchable{}), false},
		{"MaxRetries", with(func(p *retry.Policy) { p.MaxRetries = 3 }), false},
		{"AttemptCap", with(func(p *retry.Policy) { p.AttemptCap = 3 }), false},
		{"NonRetryable", with(func(p *retry.Policy) { p.NonRetryable = true }), false},
		{"MaxElapsed", with(func(p *retry.Policy) { p.MaxElapsed = 1 }), true},
		{"MaxElapsed alone", retry.Policy{MaxElapsed: time.Minute}, true},
		{"MaxElapsed alone, ends in 0", retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Schedule{1, 0}}, true},
		{"MaxElapsed alone, waiting", retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Fixed(1)}, false},
		{"MaxElapsed alone, with a cap", retry.Policy{MaxElapsed: time.Minute, AttemptCap: 9}, false},
		{"MaxElapsed alone, NonRetryable", retry.Policy{MaxElapsed: time.Minute, NonRetryable: true}, false},
		{"MaxElapsed alone, with a Budget", retry.Policy{MaxElapsed: time.Minute, Budget: &retry.Budget{Size: 1}}, false},
		{"a Budget that is refilled", with(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1, RefillEvery: time.Hour} }), true},
		{"Budget", with(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1} }), false},
		{"no limit set", retry.Policy{}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.policy.Validate()
			if !row.hot {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "unlimited attempts without a delay")
			assertInvalid(t, row.policy)
		})
	}
}

// No method that only inspects a policy calls a custom type.
func TestValidateCallsNobody(t *testing.T) {
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

// Validation errors can be compared with ==.
func TestValidateErrorsCanBeCompared(t *testing.T) {
	a, b := retry.Policy{MaxAttempts: -2}.Validate(), retry.Policy{MaxAttempts: -3}.Validate()
	assert.NotPanics(t, func() { assert.False(t, a == b) })
	assert.ErrorIs(t, fmt.Errorf("wrapped: %w", a), a)
}

// Other libraries accept NaN, a negative number or a jitter above 1 without an
// error, and panic or loop later.
func TestTrapUnvalidatedNumbers(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"a jitter of 300 %":       {MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.Proportional(3)},
		"a factor that is NaN":    {MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second, Factor: math.NaN()}},
		"a negative fixed delay":  {MaxAttempts: 3, Backoff: retry.Fixed(-1)},
		"a negative jitter":       {MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.Proportional(-1)},
		"unlimited without delay": {MaxAttempts: retry.Unlimited, Backoff: retry.Schedule{}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, p.Validate())
			assertInvalid(t, p)
			for attempt := range 100 {
				for _, d := range []time.Duration{p.Backoff.Delay(attempt), p.Backoff.Delay(-attempt)} {
					assert.GreaterOrEqual(t, d, time.Duration(0))
					if p.Jitter != nil {
						lo, hi := p.Jitter.Window(d)
						assert.True(t, 0 <= lo && lo <= hi && hi <= 2*d, "window of %v: %v, %v", d, lo, hi)
					}
				}
			}
		})
	}
}

func TestLint(t *testing.T) {
	second := retry.Fixed(time.Second)
	doubling := retry.Exponential{Base: time.Second}
	const (
		noLimit      = "Backoff (backoff) without a limit: there is only one attempt, and no delay; set MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed)"
		noClassLimit = "Classify without a limit: there is only one attempt, whatever a class allows; set MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed)"
		capAlone     = "AttemptCap (attempt_cap) without a limit: there is only one attempt; set MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed)"
		atOnce       = " without a Backoff (backoff): they follow each other at once; set one, or Fixed(0) for no delay"
		bothLimits   = "MaxAttempts (max_attempts) and MaxRetries (max_retries) are both set: the lower applies, "
		nonRetryable = "NonRetryable (retryable: false) beside a limit of "
		growing      = "unlimited attempts on a Backoff (backoff) that grows: the delays reach years; set MaxDelay (max_delay)"
	)
	for _, row := range []struct {
		name   string
		policy retry.Policy
		lint   []string
	}{
		{"nothing set", retry.Policy{}, nil},
		{"default", retry.Default(), nil},

		{"a Backoff without a limit", retry.Policy{Backoff: second}, []string{noLimit}},
		{"a custom Backoff without a limit", retry.Policy{Backoff: untouchable{}}, []string{noLimit}},
		{"a Backoff with MaxElapsed alone", retry.Policy{Backoff: second, MaxElapsed: time.Minute}, nil},
		{"a Backoff with AttemptCap and no limit", retry.Policy{Backoff: second, AttemptCap: 5}, []string{noLimit}},
		{"a Schedule without a limit", retry.Policy{Backoff: retry.Schedule{1, 2}}, []string{noLimit}},
		{"a first delay above MaxDelay, without a limit", retry.Policy{Backoff: second, MaxDelay: 1}, []string{noLimit, "MaxDelay (max_delay) of 1ns is shorter than the first delay of 1s: it cuts even that one"}},
		{"AttemptCap alone", retry.Policy{AttemptCap: 5}, []string{capAlone}},
		{"AttemptCap of 1 alone", retry.Policy{AttemptCap: 1}, []string{capAlone}},

		{"Classify without a limit", retry.Policy{Classify: unnamed(&retry.Policy{MaxAttempts: 2})}, []string{noClassLimit}},
		{"Classify and a Backoff without a limit", retry.Policy{Classify: unnamed(nil), Backoff: second}, []string{noLimit, noClassLimit}},
		{"Classify and AttemptCap without a limit", retry.Policy{Classify: unnamed(nil), AttemptCap: 3}, []string{capAlone, noClassLimit}},
		{"Classify with MaxAttempts", retry.Policy{Classify: unnamed(nil), MaxAttempts: 2}, nil},
		{"Classify with MaxRetries", retry.Policy{Classify: unnamed(nil), MaxRetries: 2}, nil},
		{"Classify with MaxElapsed alone", retry.Policy{Classify: unnamed(nil), Backoff: second, MaxElapsed: time.Minute}, nil},
		{"Classify that is unlimited", retry.Policy{Classify: unnamed(nil), MaxAttempts: -1, Backoff: second}, nil},
		{"Classify with NonRetryable", retry.Policy{Classify: unnamed(nil), NonRetryable: true}, nil},

		{"AttemptTimeout below HealthyAfter", retry.Policy{AttemptTimeout: time.Second, HealthyAfter: time.Minute},
			[]string{"AttemptTimeout (attempt_timeout) of 1s ends every attempt before HealthyAfter (healthy_after) of 1m0s: none is ever healthy"}},
		{"AttemptTimeout at HealthyAfter", retry.Policy{AttemptTimeout: time.Minute, HealthyAfter: time.Minute},
			[]string{"AttemptTimeout (attempt_timeout) of 1m0s ends every attempt before HealthyAfter (healthy_after) of 1m0s: none is ever healthy"}},
		{"AttemptTimeout above HealthyAfter", retry.Policy{AttemptTimeout: time.Minute + 1, HealthyAfter: time.Minute}, nil},
		{"HealthyAfter without AttemptTimeout", retry.Policy{HealthyAfter: time.Minute}, nil},
		{"AttemptTimeout without HealthyAfter", retry.Policy{AttemptTimeout: time.Minute}, nil},

		{"several attempts at once", retry.Policy{MaxAttempts: 3}, []string{"3 attempts" + atOnce}},
		{"several retries at once", retry.Policy{MaxRetries: 1}, []string{"2 attempts" + atOnce}},
		{"unlimited at once, with a Budget", retry.Policy{MaxRetries: -1, Budget: &retry.Budget{Size: 1}}, []string{"unlimited attempts" + atOnce}},
		{"several attempts at once, on purpose", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(0)}, nil},
		{"several attempts, the classes have the delays", retry.Policy{MaxAttempts: 3, Classify: func(error) *retry.Class { panic("called") }}, nil},
		{"one attempt without a Backoff", retry.Policy{MaxAttempts: 1}, nil},
		{"a Backoff with MaxAttempts", retry.Policy{Backoff: second, MaxAttempts: 2}, nil},
		{"a Backoff with MaxAttempts 1, which says so", retry.Policy{Backoff: second, MaxAttempts: 1}, nil},
		{"a Backoff with MaxRetries", retry.Policy{Backoff: second, MaxRetries: 1}, nil},
		{"a Backoff that is unlimited", retry.Policy{Backoff: second, MaxRetries: -1}, nil},
		{"a Backoff with NonRetryable", retry.Policy{Backoff: second, NonRetryable: true}, nil},

		{"both limits", retry.Policy{MaxAttempts: 5, MaxRetries: 2, Backoff: second}, []string{bothLimits + "3 attempts; set one"}},
		{"both limits, unlimited", retry.Policy{MaxAttempts: 5, MaxRetries: -1, Backoff: second}, []string{bothLimits + "5 attempts; set one"}},
		{"both limits, both unlimited", retry.Policy{MaxAttempts: -1, MaxRetries: -1, Backoff: second}, []string{bothLimits + "unlimited attempts; set one"}},
		{"a limit and a cap", retry.Policy{MaxAttempts: 5, AttemptCap: 3, Backoff: second}, nil},

		{"a delay that no retry reaches", retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute, time.Hour}},
			[]string{"a Schedule (delays) of 3 beside 3 attempts: the delay of 1h0m0s and those after it are never used; MaxAttempts (max_attempts) counts the first attempt"}},
		{"a delay that no retry reaches, by MaxRetries", retry.Policy{MaxRetries: 1, Backoff: retry.Schedule{1, 2, 3}},
			[]string{"a Schedule (delays) of 3 beside 2 attempts: the delay of 2ns and those after it are never used; MaxAttempts (max_attempts) counts the first attempt"}},
		{"a delay that no retry reaches, by AttemptCap", retry.Policy{MaxAttempts: 9, AttemptCap: 2, Backoff: retry.Schedule{1, 2, 3}},
			[]string{"a Schedule (delays) of 3 beside 2 attempts: the delay of 2ns and those after it are never used; MaxAttempts (max_attempts) counts the first attempt"}},
		{"a delay that no retry reaches, unlimited except for AttemptCap", retry.Policy{MaxAttempts: -1, AttemptCap: 2, Backoff: retry.Schedule{1, 2, 3}},
			[]string{"a Schedule (delays) of 3 beside 2 attempts: the delay of 2ns and those after it are never used; MaxAttempts (max_attempts) counts the first attempt"}},
		{"a delay beside one attempt", retry.Policy{MaxAttempts: 1, Backoff: retry.Schedule{time.Second}},
			[]string{"a Schedule (delays) of 1 beside 1 attempt: the delay of 1s and those after it are never used; MaxAttempts (max_attempts) counts the first attempt"}},
		{"a Schedule that is reached", retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{1, 2, 3}}, nil},
		{"a Schedule that repeats its last", retry.Policy{MaxAttempts: 9, Backoff: retry.Schedule{1, 2, 3}}, nil},
		{"a Schedule that is unlimited", retry.Policy{MaxAttempts: -1, Backoff: retry.Schedule{1, 2, 3}}, nil},
		{"an empty Schedule", retry.Policy{MaxAttempts: 1, Backoff: retry.Schedule{}}, nil},

		{"NonRetryable beside attempts", retry.Policy{NonRetryable: true, MaxAttempts: 3}, []string{nonRetryable + "3 attempts, by MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed): there is only one attempt"}},
		{"NonRetryable beside retries", retry.Policy{NonRetryable: true, MaxRetries: 3}, []string{nonRetryable + "4 attempts, by MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed): there is only one attempt"}},
		{"NonRetryable beside unlimited", retry.Policy{NonRetryable: true, MaxAttempts: -1}, []string{nonRetryable + "unlimited attempts, by MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed): there is only one attempt"}},
		{"NonRetryable beside a Schedule", retry.Policy{NonRetryable: true, MaxAttempts: 2, Backoff: retry.Schedule{1, 2, 3}}, []string{nonRetryable + "2 attempts, by MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed): there is only one attempt"}},
		{"NonRetryable beside MaxElapsed alone", retry.Policy{NonRetryable: true, MaxElapsed: time.Minute}, []string{nonRetryable + "unlimited attempts, by MaxAttempts (max_attempts), MaxRetries (max_retries) or MaxElapsed (max_elapsed): there is only one attempt"}},
		{"NonRetryable beside one attempt", retry.Policy{NonRetryable: true, MaxAttempts: 1}, nil},
		{"NonRetryable alone", retry.Policy{NonRetryable: true}, nil},
		{"NonRetryable beside a cap", retry.Policy{NonRetryable: true, AttemptCap: 10}, nil},

		{"one attempt and exponential", retry.Policy{MaxAttempts: 1, Backoff: doubling}, nil},
		{"unlimited and exponential", retry.Policy{MaxAttempts: -1, Backoff: doubling}, []string{growing}},
		{"unlimited and linear", retry.Policy{MaxRetries: -1, Backoff: retry.Linear(1)}, []string{growing}},
		{"unlimited and fibonacci", retry.Policy{MaxAttempts: -1, Backoff: retry.Fibonacci(1)}, []string{growing}},
		{"unlimited and growing, with a Budget", retry.Policy{MaxAttempts: -1, Backoff: doubling, Budget: &retry.Budget{Size: 1, Ratio: 1}}, []string{growing}},
		{"unlimited and growing, with MaxDelay", retry.Policy{MaxAttempts: -1, Backoff: doubling, MaxDelay: time.Minute}, nil},
		{"unlimited and growing, with MaxElapsed", retry.Policy{MaxAttempts: -1, Backoff: doubling, MaxElapsed: time.Minute}, nil},
		{"unlimited and growing, with AttemptCap", retry.Policy{MaxAttempts: -1, Backoff: doubling, AttemptCap: 9}, nil},
		{"unlimited and fixed", retry.Policy{MaxAttempts: -1, Backoff: second}, nil},
		{"unlimited and a factor of one", retry.Policy{MaxAttempts: -1, Backoff: retry.Exponential{Base: time.Second, Factor: 1}}, nil},
		{"unlimited and a Schedule", retry.Policy{MaxAttempts: -1, Backoff: retry.Schedule{1, 2, 3}}, nil},
		{"unlimited and custom", retry.Policy{MaxAttempts: -1, Backoff: untouchable{}}, nil},
		{"growing, with MaxElapsed alone", retry.Policy{Backoff: doubling, MaxElapsed: time.Minute}, nil},

		{"the first delay is beyond MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second},
			[]string{"MaxElapsed (max_elapsed) of 1s is shorter than the first delay of at least 1m0s: there is no retry"}},
		{"the first delay is beyond MaxElapsed, but a class may have a shorter one", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second, Classify: unnamed(&retry.Policy{})}, nil},
		{"the first delay is beyond MaxElapsed, but a server may ask for a shorter one", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second, ExactRetryAfter: true}, nil},
		{"the first delay is beyond a MaxElapsed of 1ns", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(2), MaxElapsed: 1},
			[]string{"MaxElapsed (max_elapsed) of 1ns is shorter than the first delay of at least 2ns: there is no retry"}},
		{"the first delay is MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: second, MaxElapsed: time.Second}, nil},
		{"half of the first delays are beyond MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.FullJitter, MaxElapsed: 5 * time.Second}, nil},
		{"even the shortest first delay is beyond MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.Proportional(.2), MaxElapsed: 8*time.Second - 1},
			[]string{"MaxElapsed (max_elapsed) of 7.999999999s is shorter than the first delay of at least 8s: there is no retry"}},
		{"the shortest first delay is MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.EqualJitter, MaxElapsed: 5 * time.Second}, nil},
		{"a custom Jitter may return 0", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Second), Jitter: untouchable{}, MaxElapsed: time.Second}, nil},
		{"a custom Backoff may return 0", retry.Policy{MaxAttempts: 3, Backoff: untouchable{}, MaxElapsed: time.Second}, nil},
		{"a first delay beyond MaxElapsed of one attempt", retry.Policy{MaxAttempts: 1, Backoff: second, MaxElapsed: 1}, nil},
		{"the second delay is beyond MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: doubling, MaxElapsed: time.Second}, nil},

		{"MaxDelay is below the first delay", retry.Policy{MaxAttempts: 3, Backoff: doubling, MaxDelay: time.Second - 1},
			[]string{"MaxDelay (max_delay) of 999.999999ms is shorter than the first delay of 1s: it cuts even that one"}},
		{"MaxDelay of 1ns is below the first delay", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(2), MaxDelay: 1},
			[]string{"MaxDelay (max_delay) of 1ns is shorter than the first delay of 2ns: it cuts even that one"}},
		{"MaxDelay is the first delay", retry.Policy{MaxAttempts: 3, Backoff: doubling, MaxDelay: time.Second}, nil},
		{"MaxDelay cuts the first delay to less than MaxElapsed", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxDelay: time.Second, MaxElapsed: 10 * time.Second},
			[]string{"MaxDelay (max_delay) of 1s is shorter than the first delay of 1m0s: it cuts even that one"}},

		{"several at once", retry.Policy{MaxAttempts: 3, MaxRetries: 9, Backoff: retry.Schedule{time.Minute, 2, 3}, MaxElapsed: time.Second},
			[]string{
				bothLimits + "3 attempts; set one",
				"a Schedule (delays) of 3 beside 3 attempts: the delay of 3ns and those after it are never used; MaxAttempts (max_attempts) counts the first attempt",
				"MaxElapsed (max_elapsed) of 1s is shorter than the first delay of at least 1m0s: there is no retry",
			}},
		{"an invalid policy", retry.Policy{MaxAttempts: -2, MaxRetries: 3, Backoff: second}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.lint, row.policy.Lint())
			for _, line := range row.policy.Lint() {
				assert.NotContains(t, line, "\n")
			}
		})
	}
}
