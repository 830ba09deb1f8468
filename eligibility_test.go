package retry_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// forever stands for Unlimited where the smallest of several limits is
// computed.
const forever = 1_000_000

// plainLimit computes EffectiveMax in the most obvious way: it collects every
// limit and takes the smallest. sound is false for a policy that is invalid.
// outer is the limit of a policy of which p is the class; beside it, a limit that
// is not set does not count.
func plainLimit(p retry.Policy, outer ...int) (limit int, sound bool) {
	if p.MaxAttempts < -1 || p.MaxRetries < -1 || p.AttemptCap < 0 {
		return 1, false
	}
	limits := outer
	if p.MaxAttempts == -1 {
		limits = append(limits, forever)
	}
	if p.MaxAttempts > 0 {
		limits = append(limits, p.MaxAttempts)
	}
	if p.MaxRetries == -1 {
		limits = append(limits, forever)
	}
	if p.MaxRetries > 0 {
		limits = append(limits, p.MaxRetries+1)
	}
	if len(limits) == 0 {
		limits = append(limits, 1)
	}
	if p.AttemptCap > 0 {
		limits = append(limits, p.AttemptCap)
	}
	if p.NonRetryable {
		limits = append(limits, 1)
	}
	limit = slices.Min(limits)
	if limit == forever && p.Backoff == nil {
		return 1, false
	}
	return limit, true
}

// limitedPolicies returns every combination of limits with these numbers, with
// a delay and without one.
func limitedPolicies(numbers ...int) (policies []retry.Policy) {
	for _, backoff := range []retry.Backoff{nil, retry.Fixed(time.Second)} {
		for _, nonRetryable := range []bool{false, true} {
			for _, maxAttempts := range numbers {
				for _, maxRetries := range numbers {
					for _, attemptCap := range numbers {
						policies = append(policies, retry.Policy{
							MaxAttempts: maxAttempts, MaxRetries: maxRetries, AttemptCap: attemptCap,
							NonRetryable: nonRetryable, Backoff: backoff,
						})
					}
				}
			}
		}
	}
	return policies
}

func TestEveryCombinationOfLimits(t *testing.T) {
	boom := errors.New("boom")
	for _, p := range limitedPolicies(-3, -2, -1, 0, 1, 2, 3, 4) {
		limit, sound := plainLimit(p)
		want := limit
		if limit == forever {
			want = retry.Unlimited
		}
		if got := p.EffectiveMax(); got != want || sound != (p.Validate() == nil) {
			t.Fatalf("%#v\nEffectiveMax = %d, want %d; sound: %v, Validate: %v", p, got, want, sound, p.Validate())
		}
		for attempts := -2; attempts <= 6; attempts++ {
			eligible := attempts <= 0 || attempts < limit
			if got := p.Eligible(attempts); got != eligible {
				t.Fatalf("%#v\nEligible(%d) = %v, want %v", p, attempts, got, eligible)
			}
			ran := max(1, attempts) // without a failed attempt there is no Next
			reason := retry.ReasonRetry
			switch {
			case !sound:
				reason = retry.ReasonInvalid
			case p.NonRetryable:
				reason = retry.ReasonNonRetryable
			case ran >= limit:
				reason = retry.ReasonExhausted
			}
			next := p.Next(retry.Attempt{Number: attempts, Err: boom})
			if next.Reason != reason || next.Retry() != (sound && ran < limit) {
				t.Fatalf("%#v\nNext after %d = %v, want %v", p, attempts, next.Reason, reason)
			}
		}
	}
}

func TestEveryCombinationOfLimitsUnderAClass(t *testing.T) {
	boom := errors.New("boom")
	inners := limitedPolicies(-2, -1, 0, 2)
	for _, p := range limitedPolicies(-1, 0, 1, 3) {
		outer, sound := plainLimit(p)
		for _, inner := range inners {
			limit, pairSound := plainLimit(inner, outer)
			p.Classify = unnamed(&inner)
			for _, attempts := range []int{0, 1, 2, 3, 5} {
				ran := max(1, attempts)
				reason := retry.ReasonRetry
				switch {
				case !sound || !pairSound:
					reason = retry.ReasonInvalid
				case p.NonRetryable || inner.NonRetryable:
					reason = retry.ReasonNonRetryable
				case ran >= limit:
					reason = retry.ReasonExhausted
				}
				next := p.Next(retry.Attempt{Number: attempts, Err: boom})
				if next.Reason != reason {
					t.Fatalf("%#v\nhas the class %#v\nNext after %d = %v, want %v", p, inner, attempts, next.Reason, reason)
				}
				if next.Retry() && !p.Eligible(attempts) {
					t.Fatalf("%#v\nhas the class %#v\nit is not eligible after %d attempts, but Next retries", p, inner, attempts)
				}
			}
		}
	}
}

func TestNextNumberBelowOneIsOne(t *testing.T) {
	asked := 0
	p := retry.Policy{
		MaxAttempts: 2, Jitter: retry.FullJitter,
		Backoff: retry.BackoffFunc(func(attempt int) time.Duration { asked = attempt; return time.Duration(attempt) * time.Hour }),
	}
	first := p.Next(retry.Attempt{Number: 1, Seed: 42})
	require.True(t, first.Retry())
	for _, number := range []int{0, -1, math.MinInt} {
		assert.Equal(t, first, p.Next(retry.Attempt{Number: number, Seed: 42}), "Number %d", number)
		assert.Equal(t, 1, asked, "a Backoff is never called with an attempt below 1")
	}
	assert.Equal(t, retry.ReasonExhausted, retry.Policy{}.Next(retry.Attempt{}).Reason)
}

func TestNextWithoutAnErrorDecidesByCountAndTime(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: 2, Backoff: retry.Fixed(time.Second),
		RetryIf:  func(error) bool { panic("RetryIf was called with nil") },
		Classify: func(error) *retry.Class { panic("Classify was called with nil") },
	}
	assert.Equal(t, drawnFrom(time.Second, retry.ReasonRetry), p.Next(retry.Attempt{Number: 1}))
	assert.Equal(t, drawnFrom(time.Second, retry.ReasonExhausted), p.Next(retry.Attempt{Number: 2}))
	p.MaxElapsed = time.Second
	assert.Equal(t, drawnFrom(time.Second, retry.ReasonElapsed), p.Next(retry.Attempt{Number: 1, Elapsed: 1}))
}

func TestNextRetryIf(t *testing.T) {
	worthIt, boom := errors.New("worth it"), errors.New("boom")
	asked := 0
	p := retry.Policy{MaxAttempts: 2, RetryIf: func(err error) bool { asked++; return errors.Is(err, worthIt) }}
	assert.Equal(t, retry.ReasonRetry, p.Next(retry.Attempt{Number: 1, Err: fmt.Errorf("wrapped: %w", worthIt)}).Reason)
	assert.Equal(t, retry.ReasonRejected, p.Next(retry.Attempt{Number: 1, Err: boom}).Reason)
	assert.Equal(t, 2, asked, "once for each failure")
	assert.Equal(t, retry.ReasonPermanent, p.Next(retry.Attempt{Number: 1, Err: retry.Permanent(worthIt)}).Reason, "RetryIf does not overrule a mark")
	assert.Equal(t, 2, asked, "RetryIf is not called")
}

func TestNextLeavesTheBudgetAlone(t *testing.T) {
	b := &retry.Budget{Size: 1, Ratio: 1}
	p := retry.Policy{MaxAttempts: 5, Budget: b}
	for range 10 {
		assert.True(t, p.Next(retry.Attempt{Number: 1, Err: errors.New("boom")}).Retry())
	}
	assert.True(t, b.Take(), "the token is still there")
	assert.True(t, p.Next(retry.Attempt{Number: 1, Err: errors.New("boom")}).Retry(), "Next does not use the Budget")
	assert.False(t, b.Take())
}

func TestMaxRetryAfterDefault(t *testing.T) {
	const minute = time.Minute
	for _, row := range []struct {
		policy  retry.Policy
		longest time.Duration
	}{
		{retry.Policy{}, minute},
		{retry.Policy{MaxDelay: 5 * time.Second}, minute},
		{retry.Policy{MaxDelay: minute}, minute},
		{retry.Policy{MaxDelay: 2 * minute}, 2 * minute},
		{retry.Policy{MaxDelay: 2 * minute, MaxRetryAfter: time.Second}, time.Second},
		{retry.Policy{MaxRetryAfter: 1}, 1},
		{retry.Policy{MaxRetryAfter: time.Hour}, time.Hour},
		{retry.Policy{MaxRetryAfter: math.MaxInt64 - 1}, math.MaxInt64 - 1},
	} {
		t.Run(fmt.Sprint(row.policy.MaxDelay, row.policy.MaxRetryAfter), func(t *testing.T) {
			row.policy.MaxAttempts = 2
			boom := errors.New("boom")
			assert.Equal(t, askedFor(row.longest, retry.ReasonRetry),
				row.policy.Next(retry.Attempt{Number: 1, Err: retry.After(row.longest, boom)}))
			assert.Equal(t, askedFor(row.longest+1, retry.ReasonRetryAfter),
				row.policy.Next(retry.Attempt{Number: 1, Err: retry.After(row.longest+1, boom)}))
		})
	}
}

// Other libraries sleep for an absurd Retry-After, or overflow it to none.
func TestTrapAbsurdRetryAfter(t *testing.T) {
	boom := errors.New("boom")
	p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}
	const epochTakenForAWait = 1_743_466_819 * time.Second
	for _, d := range []time.Duration{time.Hour, epochTakenForAWait, math.MaxInt64} {
		assert.Equal(t, askedFor(d, retry.ReasonRetryAfter), p.Next(retry.Attempt{Number: 1, Err: retry.After(d, boom)}))
	}
	for _, d := range []time.Duration{0, -1, -time.Hour, math.MinInt64} {
		assert.Equal(t, drawnFrom(time.Second, retry.ReasonRetry), p.Next(retry.Attempt{Number: 1, Err: retry.After(d, boom)}),
			"a wait of %v has no effect; it does not mean at once", d)
	}
}

func TestDecisionRetry(t *testing.T) {
	assert.False(t, retry.Decision{}.Retry(), "the zero Decision")
	for _, r := range append(reasons, "", "of a newer version") {
		assert.Equal(t, r == "retry", retry.Decision{Reason: r}.Retry(), r)
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	p := retry.Default()
	hint := retry.After(time.Second, errors.New("boom"))
	classes := p
	classes.Classify = unnamed(&retry.Policy{Backoff: retry.Fixed(time.Second)})
	named := p
	class := &retry.Class{Name: "throttled", Policy: &retry.Policy{MaxAttempts: 3}}
	named.Classify = func(error) *retry.Class { return class }
	counts := map[string]int{"throttled": 1, "other": 2}
	for name, next := range map[string]func() retry.Decision{
		"with a seed":        func() retry.Decision { return p.Next(retry.Attempt{Number: 3, Err: errors.ErrUnsupported, Seed: 42}) },
		"without a seed":     func() retry.Decision { return p.Next(retry.Attempt{Number: 3, Err: errors.ErrUnsupported}) },
		"without an error":   func() retry.Decision { return p.Next(retry.Attempt{Number: 3, Seed: 42}) },
		"with a Retry-After": func() retry.Decision { return p.Next(retry.Attempt{Number: 3, Err: hint, Seed: 42}) },
		"with a class":       func() retry.Decision { return classes.Next(retry.Attempt{Number: 3, Err: hint, Seed: 42}) },
		"with a class that has a name": func() retry.Decision {
			return named.Next(retry.Attempt{Number: 3, Err: hint, Seed: 42, Classes: counts})
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, next().Retry())
			assert.Zero(t, testing.AllocsPerRun(100, func() { next() }))
		})
	}
}

// A panic in a custom type is not recovered.
func TestNextPassesPanicsOn(t *testing.T) {
	boom := errors.New("boom")
	for message, p := range map[string]retry.Policy{
		"the Backoff was called": {MaxAttempts: 3, Backoff: untouchable{}},
		"the Jitter was called":  {MaxAttempts: 3, Backoff: retry.Fixed(1), Jitter: untouchable{}},
		"the Source was called":  {MaxAttempts: 3, Backoff: retry.Fixed(1), Jitter: retry.FullJitter, Source: func() uint64 { panic("the Source was called") }},
		"RetryIf was called":     {MaxAttempts: 3, RetryIf: func(error) bool { panic("RetryIf was called") }},
		"Classify was called":    {MaxAttempts: 3, Classify: func(error) *retry.Class { panic("Classify was called") }},
	} {
		t.Run(message, func(t *testing.T) {
			assert.PanicsWithValue(t, message, func() { p.Next(retry.Attempt{Number: 1, Err: boom}) })
		})
	}
}

// negative is a custom Backoff that returns negative delays.
type negative struct{}

func (negative) Delay(int) time.Duration { return math.MinInt64 }

func TestNextTakesANegativeDelayAsNone(t *testing.T) {
	for _, jitter := range []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(.5)} {
		p := retry.Policy{MaxAttempts: 3, Backoff: negative{}, MaxDelay: time.Second, Jitter: jitter}
		assert.Equal(t, retry.Decision{Reason: retry.ReasonRetry}, p.Next(retry.Attempt{Number: 1, Seed: 1}))
		hinted := p.Next(retry.Attempt{Number: 1, Seed: 1, Err: retry.After(time.Second, errors.New("boom"))})
		assert.True(t, hinted.Retry())
		assert.GreaterOrEqual(t, hinted.Delay, time.Second)
	}
}

// In some other libraries the retries stop once the delay has reached its cap.
func TestTrapTheCapDoesNotStopTheRetries(t *testing.T) {
	p := retry.Policy{MaxAttempts: 100, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 3 * time.Second}
	for attempt := 3; attempt < 100; attempt++ {
		assert.Equal(t, drawnFrom(3*time.Second, retry.ReasonRetry), p.Next(retry.Attempt{Number: attempt}))
	}
	assert.Equal(t, drawnFrom(3*time.Second, retry.ReasonExhausted), p.Next(retry.Attempt{Number: 100}))
}

// In some other libraries the next run of a job that failed often is in the
// past.
func TestTrapNextRunInThePast(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	fourth := retry.BackoffFunc(func(attempt int) time.Duration { return time.Duration(math.Pow(float64(attempt), 4)) * time.Second })
	for name, p := range map[string]retry.Policy{
		"exponential":     {MaxAttempts: -1, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 24 * time.Hour, Jitter: retry.Proportional(.1)},
		"fourth power":    {MaxAttempts: -1, Backoff: fourth, MaxDelay: 24 * time.Hour, Jitter: retry.Proportional(.1)},
		"linear, no cap":  {MaxAttempts: -1, Backoff: retry.Linear(time.Hour), Jitter: retry.Proportional(.1)},
		"fibonacci":       {MaxAttempts: -1, Backoff: retry.Fibonacci(time.Second), MaxDelay: 24 * time.Hour},
		"a century apart": {MaxAttempts: -1, Backoff: retry.Linear(876_000 * time.Hour), MaxDelay: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			for _, errorsSoFar := range []int{1, 30, 62, 63, 64, 65, 309, 310, 311, 1000, 1_000_000} {
				next := p.Next(retry.Attempt{Number: errorsSoFar, Seed: 7})
				assert.True(t, next.Retry())
				assert.False(t, now.Add(next.Delay).Before(now), "after %d errors: %v", errorsSoFar, next.Delay)
				if p.MaxDelay > 0 && errorsSoFar >= 30 && name != "fourth power" {
					assert.GreaterOrEqual(t, next.Delay, 9*p.MaxDelay/10, "after %d errors", errorsSoFar)
				}
			}
		})
	}
}

// fixedWindow is a custom Jitter that always returns the same window, even an
// invalid one.
type fixedWindow struct{ lo, hi time.Duration }

func (w fixedWindow) Window(time.Duration) (lo, hi time.Duration) { return w.lo, w.hi }

// FuzzNext checks one decision of any policy that these numbers can make.
func FuzzNext(f *testing.F) {
	add := func(maxAttempts, number, base int64, curve uint8, factor float64, jitter uint8, share float64, maxDelay, hint int64, classified bool) {
		f.Add(maxAttempts, int64(0), int64(0), false, curve, base, factor, maxDelay, jitter, share, int64(5), int64(-5), int64(0), int64(0), hint, int64(0), number, uint64(42), classified)
	}
	for curve := range uint8(8) {
		for jitter := range uint8(6) {
			add(5, 1, int64(time.Second), curve, 2, jitter, .2, int64(5*time.Second), 0, false)
			add(-1, math.MaxInt64, math.MaxInt64, curve, math.MaxFloat64, jitter, 1, 0, math.MaxInt64, true)
			add(3, 2, int64(time.Hour), curve, 1.5, jitter, .5, int64(time.Second), int64(30*time.Second), true)
			add(math.MinInt64, math.MinInt64, math.MinInt64, curve, math.NaN(), jitter, math.Inf(1), math.MinInt64, math.MinInt64, true)
		}
	}
	boom := errors.New("boom")
	f.Fuzz(func(t *testing.T, maxAttempts, maxRetries, attemptCap int64, nonRetryable bool,
		curve uint8, base int64, factor float64, maxDelay int64, jitter uint8, share float64, lo, hi int64,
		maxRetryAfter, maxElapsed, hint, elapsed, number int64, seed uint64, classified bool,
	) {
		p := retry.Policy{
			MaxAttempts: int(maxAttempts), MaxRetries: int(maxRetries), AttemptCap: int(attemptCap), NonRetryable: nonRetryable,
			MaxDelay: time.Duration(maxDelay), MaxRetryAfter: time.Duration(maxRetryAfter), MaxElapsed: time.Duration(maxElapsed),
		}
		d := time.Duration(base)
		p.Backoff = []retry.Backoff{
			nil, retry.Fixed(d), retry.Linear(d), retry.Fibonacci(d), retry.Exponential{Base: d, Factor: factor},
			retry.Schedule{d, d / 2, d / 3}, retry.BackoffFunc(func(attempt int) time.Duration { return d * time.Duration(attempt) }), negative{},
		}[curve%8]
		p.Jitter = []retry.Jitter{
			nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(share), fixedWindow{time.Duration(lo), time.Duration(hi)}, fixedWindow{time.Duration(hi), math.MaxInt64},
		}[jitter%6]
		delaysFrom := p // the policy whose delays are used
		if classified {
			p = retry.Policy{MaxAttempts: int(maxRetries), MaxElapsed: time.Duration(maxElapsed), Backoff: retry.Fixed(1), Classify: unnamed(&delaysFrom)}
		}
		a := retry.Attempt{Number: int(number), Err: retry.After(time.Duration(hint), boom), Elapsed: time.Duration(elapsed), Seed: max(1, seed)}

		next := p.Next(a)
		if next.Reason != retry.ReasonInvalid && retry.Draw(next.Seed, max(1, a.Number), next.Lo, next.Hi) != next.Delay {
			t.Fatalf("%+v: the delay is not drawn from its window", next)
		}
		if again := p.Next(a); again != next {
			t.Fatalf("first %v, then %v", next, again)
		}
		if next.Retry() && !p.Eligible(a.Number) {
			t.Fatalf("%v, but it is not eligible", next)
		}
		if p.Validate() != nil && next.Reason != retry.ReasonInvalid {
			t.Fatalf("%v, but the policy is invalid: %v", next, p.Validate())
		}
		switch {
		case next.Reason == retry.ReasonInvalid:
			if next.Delay != 0 {
				t.Fatalf("an invalid policy has a delay of %v", next.Delay)
			}
		case hint > 0 && next.Delay < time.Duration(hint):
			t.Fatalf("the delay %v is shorter than the Retry-After %v", next.Delay, time.Duration(hint))
		case next.Delay < 0:
			t.Fatalf("negative delay: %v", next.Delay)
		case hint <= 0 && delaysFrom.MaxDelay > 0 && next.Delay > delaysFrom.MaxDelay:
			t.Fatalf("the delay %v exceeds the cap %v", next.Delay, delaysFrom.MaxDelay)
		case next.Retry() && p.MaxElapsed > 0 && next.Delay > p.MaxElapsed:
			t.Fatalf("the delay %v exceeds MaxElapsed %v", next.Delay, p.MaxElapsed)
		}
		if least, greatest := windowOf(p, a); next.Delay < least || next.Delay > greatest {
			t.Fatalf("the delay %v is outside of %v to %v", next.Delay, least, greatest)
		}
	})
}

// The reported wait is the one that the server asked for, without jitter.
func TestRetryAfterTooLongHasTheRetryAfter(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter}
	d := p.Next(retry.Attempt{Number: 1, Err: retry.After(time.Hour, errDial), Seed: 42})
	assert.Equal(t, askedFor(time.Hour, retry.ReasonRetryAfter), d)
}
