package retry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestOrderOfTheReasons(t *testing.T) {
	// Each row removes the reason that the row above it stops for.
	empty := &retry.Budget{Size: 1}
	require.True(t, empty.Take())
	p := retry.Policy{
		MaxAttempts: -2, NonRetryable: true, Backoff: retry.Fixed(2 * time.Second), MaxRetryAfter: time.Minute, MaxElapsed: time.Second,
		RetryIf: func(error) bool { return false }, Budget: empty,
	}
	fail := retry.Permanent(retry.After(time.Hour, errDial))
	ended := true
	deadline := time.Second
	for _, row := range []struct {
		reason retry.Reason
		remove func()
	}{
		{retry.ReasonInvalid, func() { p.MaxAttempts = 1 }},
		{retry.ReasonCanceled, func() { ended = false }},
		{retry.ReasonPermanent, func() { fail = retry.After(time.Hour, errDial) }},
		{retry.ReasonRejected, func() { p.RetryIf = nil }},
		{retry.ReasonNonRetryable, func() { p.NonRetryable = false }},
		{retry.ReasonExhausted, func() { p.MaxAttempts = 2 }},
		{retry.ReasonRetryAfter, func() { fail = errDial }},
		{retry.ReasonElapsed, func() { p.MaxElapsed = 0 }},
		{retry.ReasonDeadline, func() { deadline = time.Hour }},
		{retry.ReasonBudget, func() { p.Budget = nil }},
	} {
		everyWay(t, string(row.reason), func(t *testing.T, call caller) {
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
			assert.Zero(t, time.Since(start), "a stop is decided before the sleep it would need")
		})
		row.remove()
	}
	everyWay(t, "nothing is left to stop for", func(t *testing.T, call caller) {
		runs := 0
		require.NoError(t, call(t.Context(), p, func(context.Context) error {
			if runs++; runs < 2 {
				return fail
			}
			return nil
		}))
	})
}

// A verdict is one reason to stop, and a function that makes it apply to a
// policy and an attempt, whatever other reasons they have.
type verdict struct {
	reason retry.Reason
	apply  func(*retry.Policy, *retry.Attempt)
}

// verdicts are the reasons to stop that Next knows. The first that applies
// wins.
var verdicts = []verdict{
	{retry.ReasonInvalid, func(p *retry.Policy, _ *retry.Attempt) { p.MaxDelay = -1 }},
	{retry.ReasonPermanent, func(_ *retry.Policy, a *retry.Attempt) { a.Err = retry.Permanent(a.Err) }},
	{retry.ReasonRejected, func(p *retry.Policy, _ *retry.Attempt) { p.RetryIf = func(error) bool { return false } }},
	{retry.ReasonNonRetryable, func(p *retry.Policy, _ *retry.Attempt) { p.NonRetryable = true }},
	{retry.ReasonExhausted, func(_ *retry.Policy, a *retry.Attempt) { a.Number = 5 }},
	{retry.ReasonRetryAfter, func(_ *retry.Policy, a *retry.Attempt) { a.Err = retry.After(time.Hour, a.Err) }},
	{retry.ReasonElapsed, func(p *retry.Policy, a *retry.Attempt) { p.MaxElapsed, a.Elapsed = time.Second, time.Minute }},
}

// In every subset of the reasons to stop, the earliest one wins.
func TestNextOrderOfReasons(t *testing.T) {
	for subset := range 1 << len(verdicts) {
		p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Millisecond)}
		a := retry.Attempt{Number: 1, Err: errors.New("boom")}
		var order []string
		for i, v := range verdicts {
			if subset&(1<<i) != 0 {
				v.apply(&p, &a)
				order = append(order, string(v.reason))
			}
		}
		order = append(order, "retry")
		t.Run(strings.Join(order, " before "), func(t *testing.T) {
			assert.Equal(t, order[0], string(p.Next(a).Reason))
		})
	}
}

// Classify is called after RetryIf, and before NonRetryable, the limits and
// MaxRetryAfter of the class are checked.
func TestNextOrderOfReasonsUnderAClass(t *testing.T) {
	boom := errors.New("boom")
	invalid := &retry.Policy{MaxDelay: -1, NonRetryable: true}
	for _, row := range []struct {
		name   string
		change func(*retry.Policy, *retry.Attempt)
		class  *retry.Policy
		want   retry.Reason
	}{
		{"invalid before the class", verdicts[0].apply, &retry.Policy{NonRetryable: true}, retry.ReasonInvalid},
		{"permanent before an invalid class", verdicts[1].apply, invalid, retry.ReasonPermanent},
		{"rejected before an invalid class", verdicts[2].apply, invalid, retry.ReasonRejected},
		{"an invalid class before non-retryable", verdicts[3].apply, invalid, retry.ReasonInvalid},
		{"an invalid class before exhausted", verdicts[4].apply, invalid, retry.ReasonInvalid},
		{"an invalid class before a Retry-After", verdicts[5].apply, invalid, retry.ReasonInvalid},
		{"a class that is non-retryable before exhausted", verdicts[4].apply, &retry.Policy{NonRetryable: true}, retry.ReasonNonRetryable},
		{"a class that is exhausted before a Retry-After", verdicts[5].apply, &retry.Policy{MaxAttempts: 1}, retry.ReasonExhausted},
		{"a Retry-After too long for the class before elapsed", func(p *retry.Policy, a *retry.Attempt) {
			verdicts[6].apply(p, a)
			a.Err = retry.After(2*time.Second, a.Err)
		}, &retry.Policy{MaxRetryAfter: time.Second}, retry.ReasonRetryAfter},
		{"elapsed by the delay of the class", func(p *retry.Policy, _ *retry.Attempt) { p.MaxElapsed = time.Second },
			&retry.Policy{Backoff: retry.Fixed(time.Minute)}, retry.ReasonElapsed},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Millisecond), Classify: unnamed(row.class)}
			a := retry.Attempt{Number: 1, Err: boom}
			row.change(&p, &a)
			assert.Equal(t, row.want, p.Next(a).Reason)
		})
	}
}

func TestNextDelayIsFilledWhateverTheReason(t *testing.T) {
	for _, v := range verdicts {
		t.Run(string(v.reason), func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}
			a := retry.Attempt{Number: 1, Err: errors.New("boom")}
			v.apply(&p, &a)
			next := p.Next(a)
			require.Equal(t, v.reason, next.Reason)
			switch v.reason {
			case retry.ReasonInvalid:
				assert.Zero(t, next.Delay)
			case retry.ReasonRetryAfter:
				assert.Equal(t, time.Hour, next.Delay, "what the server asked for")
			default:
				assert.Equal(t, time.Second, next.Delay)
			}
		})
	}

	t.Run("with a jitter and a Retry-After", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.FullJitter}
		goOn := p.Next(retry.Attempt{Number: 1, Err: retry.After(7*time.Second, errors.New("boom")), Seed: 42})
		p.MaxAttempts = 1
		stop := p.Next(retry.Attempt{Number: 1, Err: retry.After(7*time.Second, errors.New("boom")), Seed: 42})
		assert.Equal(t, retry.ReasonRetry, goOn.Reason)
		assert.Equal(t, retry.ReasonExhausted, stop.Reason)
		assert.Equal(t, goOn.Delay, stop.Delay, "a scheduler with its own count can wait as if there were a retry")
	})

	t.Run("jitter does not change a Retry-After that is too long", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.FullJitter}
		next := p.Next(retry.Attempt{Number: 1, Err: retry.After(time.Hour, errors.New("boom")), Seed: 42})
		assert.Equal(t, askedFor(time.Hour, retry.ReasonRetryAfter), next)
	})

	t.Run("the Retry-After of an exhausted attempt, however long", func(t *testing.T) {
		next := retry.Policy{}.Next(retry.Attempt{Number: 1, Err: retry.After(time.Hour, errors.New("boom"))})
		assert.Equal(t, askedFor(time.Hour, retry.ReasonExhausted), next)
	})

	t.Run("where there is a class", func(t *testing.T) {
		class := retry.Policy{NonRetryable: true, Backoff: retry.Fixed(time.Minute)}
		p := retry.Policy{MaxAttempts: 3, Classify: unnamed(&class)}
		next := p.Next(retry.Attempt{Number: 1, Err: errors.New("boom")})
		assert.Equal(t, drawnFrom(time.Minute, retry.ReasonNonRetryable), next)
		class.MaxDelay = -1
		assert.Equal(t, retry.Decision{Reason: retry.ReasonInvalid}, p.Next(retry.Attempt{Number: 1, Err: errors.New("boom")}))
	})
}

func TestReasonOf(t *testing.T) {
	inner := &retry.Error{Reason: retry.ReasonBudget, Err: errDial}
	for name, row := range map[string]struct {
		err  error
		want retry.Reason
	}{
		"nil is success":                    {nil, retry.ReasonSuccess},
		"no Error in it":                    {errDial, ""},
		"an Error":                          {inner, retry.ReasonBudget},
		"an Error that is wrapped":          {fmt.Errorf("get /: %w", inner), retry.ReasonBudget},
		"an Error that is joined":           {errors.Join(errDial, inner), retry.ReasonBudget},
		"the outermost of two":              {&retry.Error{Reason: retry.ReasonExhausted, Err: inner}, retry.ReasonExhausted},
		"the outermost, wrapped":            {fmt.Errorf("get /: %w", &retry.Error{Reason: retry.ReasonExhausted, Err: inner}), retry.ReasonExhausted},
		"a typed nil *Error":                {(*retry.Error)(nil), ""},
		"a typed nil *Error that is joined": {errors.Join((*retry.Error)(nil), errDial), ""},
		"a mark":                            {retry.Permanent(errDial), ""},
		"a mark around an Error":            {retry.Permanent(inner), retry.ReasonBudget},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, retry.ReasonOf(row.err)) })
	}
}
