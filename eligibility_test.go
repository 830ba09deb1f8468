package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// At the start, every reason to stop the call applies. Each row expects one reason, and then
// removes its cause. So the next row expects the next reason. Next returns the delay of the failure
// for every reason except ReasonInvalid.
func TestTheFirstReasonThatAppliesIsGiven(t *testing.T) {
	empty := &retry.Budget{Size: 1}
	require.True(t, empty.Take())
	class := retry.Class{MaxDelay: -1, NonRetryable: true, MaxAttempts: 1, Backoff: retry.Fixed(2 * time.Second)}
	p := retry.Policy{
		MaxAttempts: -2, NonRetryable: true, MaxElapsed: time.Second, RetryIf: func(error) bool { return false }, Budget: empty,
		Classify: func(error) *retry.Class { return &class },
	}
	asks := retry.After(time.Hour, errDial)
	fail, ended, deadline := retry.Permanent(asks), true, time.Second
	for _, row := range []struct {
		name   string
		reason retry.Reason
		delay  time.Duration // the Delay that Next returns; -1: Next never returns this reason
		remove func()
	}{
		{"an invalid policy", retry.ReasonInvalid, 0, func() { p.MaxAttempts = 1 }},
		{"a canceled context", retry.ReasonCanceled, -1, func() { ended = false }},
		{"a permanent error", retry.ReasonPermanent, time.Hour, func() { fail = asks }},
		{"RetryIf", retry.ReasonRejected, time.Hour, func() { p.RetryIf = nil }},
		{"an invalid class", retry.ReasonInvalid, 0, func() { class.MaxDelay = 0 }},
		{"NonRetryable", retry.ReasonNonRetryable, time.Hour, func() { p.NonRetryable = false }},
		{"NonRetryable of the class", retry.ReasonNonRetryable, time.Hour, func() { class.NonRetryable = false }},
		{"the limit", retry.ReasonExhausted, time.Hour, func() { p.MaxAttempts = 2 }},
		{"the limit of the class", retry.ReasonExhausted, time.Hour, func() { class.MaxAttempts = 0 }},
		{"a Retry-After", retry.ReasonRetryAfter, time.Hour, func() { fail = errDial }},
		{"the time", retry.ReasonElapsed, 2 * time.Second, func() { p.MaxElapsed = 0 }},
		{"the deadline", retry.ReasonDeadline, -1, func() { deadline = time.Hour }},
		{"the Budget", retry.ReasonBudget, -1, func() { p.Budget = nil }},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			start := time.Now()
			err := call(ctx, p, func(context.Context) error {
				if ended {
					cancel()
				}
				return fail
			})
			assert.Equal(t, row.reason, retry.ReasonOf(err))
			assert.Zero(t, time.Since(start), "the call stops without waiting")
			if row.delay >= 0 {
				next := p.Next(retry.Attempt{Number: 1, Err: fail})
				assert.Equal(t, []any{row.reason, row.delay}, []any{next.Reason, next.Delay})
			}
		})
		row.remove()
	}
	everyWay(t, "without all of these causes, only the limit stops the call", func(t *testing.T, call caller) {
		runs := 0
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
		assert.Equal(t, 2, runs)
	})
}

func TestDecisionRetry(t *testing.T) {
	assert.False(t, retry.Decision{}.Retry(), "the zero Decision")
	for _, r := range append(reasons, "", "of a newer version") {
		assert.Equal(t, r == "retry", retry.Decision{Reason: r}.Retry(), r)
	}
}

// A Number below 1 is treated as 1.
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
	assert.Equal(t, drawnFrom(1, time.Second, retry.ReasonRetry), p.Next(retry.Attempt{Number: 1}))
	assert.Equal(t, drawnFrom(2, time.Second, retry.ReasonExhausted), p.Next(retry.Attempt{Number: 2}))
	p.MaxElapsed = time.Second
	assert.Equal(t, drawnFrom(1, time.Second, retry.ReasonElapsed), p.Next(retry.Attempt{Number: 1, Elapsed: 1}))
}

func TestNextRetryIf(t *testing.T) {
	worthIt, asked := errors.New("worth it"), 0
	p := retry.Policy{MaxAttempts: 2, RetryIf: func(err error) bool { asked++; return errors.Is(err, worthIt) }}
	assert.Equal(t, retry.ReasonRetry, p.Next(retry.Attempt{Number: 1, Err: fmt.Errorf("wrapped: %w", worthIt)}).Reason)
	assert.Equal(t, retry.ReasonRejected, p.Next(retry.Attempt{Number: 1, Err: errDial}).Reason)
	assert.Equal(t, 2, asked, "RetryIf is called once for each failure")
	assert.Equal(t, retry.ReasonPermanent, p.Next(retry.Attempt{Number: 1, Err: retry.Permanent(worthIt)}).Reason, "RetryIf does not overrule retry.Permanent")
	assert.Equal(t, 2, asked, "RetryIf is not called")
}

func TestNextLeavesTheBudgetAlone(t *testing.T) {
	p := retry.Policy{MaxAttempts: 5, Budget: &retry.Budget{Size: 1}}
	for _, left := range []int{1, 0} {
		assert.True(t, p.Next(retry.Attempt{Number: 1, Err: errDial}).Retry(), "Next does not use the Budget")
		assert.Equal(t, left, tokens(p.Budget))
	}
}

// After a Retry-After of centuries, some other libraries wait for centuries, and in others the wait
// overflows, so they do not wait at all.
func TestMaxRetryAfter(t *testing.T) {
	const minute, epochTakenForAWait = time.Minute, 1_743_466_819 * time.Second
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
			p := row.policy
			p.MaxAttempts = 2
			assert.Equal(t, askedFor(row.longest, retry.ReasonRetry), p.Next(retry.Attempt{Number: 1, Err: retry.After(row.longest, errDial)}))
			for _, d := range []time.Duration{row.longest + 1, max(row.longest+1, epochTakenForAWait), math.MaxInt64} {
				assert.Equal(t, askedFor(d, retry.ReasonRetryAfter), p.Next(retry.Attempt{Number: 1, Err: retry.After(d, errDial)}))
			}
			for _, d := range []time.Duration{0, -1, math.MinInt64} {
				assert.Equal(t, drawnFrom(1, 0, retry.ReasonRetry), p.Next(retry.Attempt{Number: 1, Err: retry.After(d, errDial)}), "%v has no effect", d)
			}
		})
	}
}

// A panic in a function of the policy is not recovered. If the panic prevents a retry, the
// retry takes nothing from the Budget.
func TestPanicsOfAPolicyPassThrough(t *testing.T) {
	for message, p := range map[string]retry.Policy{
		"the Backoff was called": {Backoff: untouchable{}},
		"the Jitter was called":  {Backoff: retry.Fixed(1), Jitter: untouchable{}},
		"the Source was called":  {Backoff: retry.Fixed(1), Jitter: retry.FullJitter, Source: func() uint64 { panic("the Source was called") }},
		"RetryIf was called":     {RetryIf: func(error) bool { panic("RetryIf was called") }},
		"Classify was called":    {Classify: func(error) *retry.Class { panic("Classify was called") }},
	} {
		everyWay(t, message, func(t *testing.T, call caller) {
			p := p
			p.MaxAttempts, p.Budget = 3, &retry.Budget{Size: 1}
			assert.PanicsWithValue(t, message, func() { p.Next(retry.Attempt{Number: 1, Err: errDial}) })
			runs := 0
			assert.PanicsWithValue(t, message, func() { _ = call(t.Context(), p, fails(&runs)) })
			assert.Equal(t, 1, runs)
			assert.Equal(t, 1, p.Budget.Left())
		})
	}
}

// negative is a custom Backoff that returns negative delays.
type negative struct{}

func (negative) Delay(int) time.Duration { return math.MinInt64 }

// FuzzNext checks one decision of any policy that these numbers can make.
func FuzzNext(f *testing.F) {
	for kind := range uint8(9) {
		for jitter := range uint8(7) {
			f.Add(5, 0, 0, false, kind, int64(time.Second), 2.0, int64(5*time.Second), jitter, .2, int64(0), int64(0), 1, uint64(42), false)
			f.Add(-1, 0, 0, false, kind, int64(math.MaxInt64), math.MaxFloat64, int64(0), jitter, 1.0, int64(math.MaxInt64), int64(0), math.MaxInt, uint64(42), true)
			f.Add(3, 0, 0, false, kind, int64(time.Hour), 1.5, int64(10*time.Second), jitter, .5, int64(3*time.Second), int64(1), 2, uint64(42), true)
			f.Add(math.MinInt, 0, 0, false, kind, int64(math.MinInt64), math.NaN(), int64(math.MinInt64), jitter, math.Inf(1), int64(math.MinInt64), int64(0), 1, uint64(42), true)
			for _, n := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
				f.Add(int(n), 0, 0, false, kind, n, 2.0, n, jitter, .5, n, int64(0), int(n), uint64(math.MaxUint64), false)
				f.Add(3, 0, 0, false, kind, n, float64(n), n, jitter, float64(n), n, n, 64, uint64(math.MaxUint64), false)
			}
		}
	}
	f.Fuzz(func(t *testing.T, attempts, retries, ceiling int, nonRetryable bool, kind uint8, base int64, factor float64, rest int64, jitter uint8, share float64,
		hint, elapsed int64, number int, seed uint64, classified bool,
	) {
		p := policyFrom(attempts, retries, ceiling, nonRetryable, kind, base, factor, rest, jitter, share)
		delaysFrom := p // the policy whose delays are used
		if classified {
			class := retry.Class{Backoff: p.Backoff, MaxDelay: p.MaxDelay, Jitter: p.Jitter}
			p = retry.Policy{MaxAttempts: retries, MaxElapsed: p.MaxElapsed, RetryAfter: p.RetryAfter, Classify: always(class)}
		}
		a := retry.Attempt{Number: number, Err: retry.After(time.Duration(hint), errDial), Elapsed: time.Duration(elapsed), Seed: max(1, seed)}
		least, greatest := windowOf(p, a)
		next := p.Next(a)
		asked := hint > 0
		_, _ = p.Lint(), p.String() // they must not panic either
		unlimited := p.EffectiveMax() == retry.Unlimited
		for claim, holds := range map[string]bool{
			"the delay is drawn from its window":        next.Reason == retry.ReasonInvalid || retry.Draw(next.Seed, max(1, number), next.Lo, next.Hi) == next.Delay,
			"the delay is inside of the window":         least <= next.Delay && next.Delay <= greatest,
			"the same Attempt gives the same decision":  p.Next(a) == next,
			"a retry is eligible":                       !next.Retry() || p.Eligible(number),
			"an invalid policy is the reason":           p.Validate() == nil || next.Reason == retry.ReasonInvalid,
			"an invalid policy or class gives no delay": next.Reason != retry.ReasonInvalid || next.Delay == 0,
			"never shorter than the Retry-After":        next.Reason == retry.ReasonInvalid || !asked || next.Delay >= time.Duration(hint),
			"never negative":                            next.Delay >= 0,
			"never above the cap":                       asked || delaysFrom.MaxDelay <= 0 || next.Delay <= delaysFrom.MaxDelay || unlimited && next.Delay == 10*time.Millisecond,
			"no hot loop":                               next.Reason == retry.ReasonInvalid || !unlimited || next.Hi >= 10*time.Millisecond,
			"never above MaxElapsed":                    !next.Retry() || p.MaxElapsed <= 0 || next.Delay <= p.MaxElapsed,
		} {
			require.True(t, holds, "%s: %+v of %+v after %+v", claim, next, delaysFrom, a)
		}
	})
}

// In other libraries, 0, 1 and -1 have other meanings, and the limit counts other attempts. Most
// names below say that this library does not read a number as another library does.
func TestEffectiveMax(t *testing.T) {
	for _, row := range []struct {
		name   string
		policy retry.Policy
		limit  int
	}{
		{"no limit set is not unlimited, not three attempts and not none", retry.Policy{}, 1},
		{"MaxAttempts 1 is not one retry", retry.Policy{MaxAttempts: 1}, 1},
		{"MaxAttempts 3 is not three retries", retry.Policy{MaxAttempts: 3}, 3},
		{"MaxAttempts -1 is not one attempt", retry.Policy{MaxAttempts: -1}, retry.Unlimited},
		{"MaxAttempts -5 is not unlimited", retry.Policy{MaxAttempts: -5}, 1},
		{"MaxRetries 3 is not three attempts", retry.Policy{MaxRetries: 3}, 4},
		{"MaxRetries -1 is unlimited, although -1 + 1 is 0", retry.Policy{MaxRetries: -1}, retry.Unlimited},
		{"MaxRetries -2 is not unlimited, although -2 + 1 is -1", retry.Policy{MaxRetries: -2}, 1},
		{"MaxRetries -1 does not remove the limit of MaxAttempts", retry.Policy{MaxAttempts: 2, MaxRetries: -1}, 2},
		{"AttemptCap lowers the limit and never raises it", retry.Policy{MaxAttempts: 3, AttemptCap: 10}, 3},
		{"an AttemptTimeout is not a limit on attempts", retry.Policy{AttemptTimeout: time.Minute}, 1},
		{"a Budget is not a limit on attempts", retry.Policy{Budget: &retry.Budget{Size: 9}}, 1},
		{"the greatest MaxAttempts", retry.Policy{MaxAttempts: math.MaxInt}, math.MaxInt},
		{"the greatest MaxRetries does not wrap around", retry.Policy{MaxRetries: math.MaxInt}, math.MaxInt},
		{"the greatest of both", retry.Policy{MaxAttempts: math.MaxInt, MaxRetries: math.MaxInt}, math.MaxInt},
		{"the greatest number with unlimited", retry.Policy{MaxAttempts: -1, MaxRetries: math.MaxInt}, math.MaxInt},
		{"the greatest AttemptCap", retry.Policy{MaxAttempts: -1, MaxRetries: -1, AttemptCap: math.MaxInt}, math.MaxInt},
		{"the least of all", retry.Policy{MaxAttempts: math.MinInt, MaxRetries: math.MinInt, AttemptCap: math.MinInt}, 1},
		{"the greatest limit of a job", retry.Policy{}.ForJob(math.MaxInt), math.MaxInt},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := row.policy
			p.Backoff = retry.Fixed(time.Second)
			assert.Equal(t, row.limit, p.EffectiveMax())
			for _, attempts := range []int{math.MinInt, -1, 0} {
				assert.True(t, p.Eligible(attempts), "Eligible(%d)", attempts)
			}
			assert.Equal(t, row.limit == retry.Unlimited, p.Eligible(math.MaxInt))
			assert.Equal(t, row.limit == retry.Unlimited, p.Next(retry.Attempt{Number: math.MaxInt}).Retry())
			if row.limit > 1 {
				assert.True(t, p.Next(retry.Attempt{Number: row.limit - 1}).Retry())
				assert.False(t, p.Next(retry.Attempt{Number: row.limit}).Retry())
			}
		})
	}
}
