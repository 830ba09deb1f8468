package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestClassifyInTheLoop(t *testing.T) {
	errThrottled := errors.New("throttled")
	for _, row := range []struct {
		name    string
		class   *retry.Policy
		reason  retry.Reason
		runs    int
		elapsed time.Duration
		cause   string
	}{
		{"nil: the policy itself", nil, retry.ReasonExhausted, 3, 2 * time.Second, ""},
		{"stricter", &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 2, time.Minute, ""},
		{"stricter by MaxRetries", &retry.Policy{MaxRetries: 1, Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 2, time.Minute, ""},
		{"stricter by AttemptCap", &retry.Policy{MaxAttempts: 9, AttemptCap: 2}, retry.ReasonExhausted, 2, 0, ""},
		{"stricter by NonRetryable", &retry.Policy{NonRetryable: true, MaxAttempts: 9}, retry.ReasonNonRetryable, 1, 0, ""},
		{"looser: the call's limit holds", &retry.Policy{MaxAttempts: 100, Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 3, 2 * time.Minute, ""},
		{"unlimited: the call's limit holds", &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 3, 2 * time.Minute, ""},
		{"without a limit: the call's limit holds", &retry.Policy{Backoff: retry.Fixed(time.Minute)}, retry.ReasonExhausted, 3, 2 * time.Minute, ""},
		{"its MaxElapsed, AttemptTimeout, HealthyAfter, Budget, Wait, RetryIf and Classify are not used", &retry.Policy{
			Backoff: retry.Fixed(time.Minute), MaxElapsed: 1, AttemptTimeout: 1, HealthyAfter: time.Millisecond, Budget: &retry.Budget{Size: 1},
			RetryIf: func(error) bool { panic("RetryIf") }, Classify: func(error) *retry.Class { panic("Classify") },
			Wait:    func(context.Context, time.Duration) (time.Duration, error) { panic("Wait") },
			OnEvent: func(context.Context, retry.Event) { panic("OnEvent") },
		}, retry.ReasonExhausted, 3, 2 * time.Minute, ""},
		{"invalid", &retry.Policy{MaxAttempts: -2, MaxDelay: -1}, retry.ReasonInvalid, 1, 0,
			`invalid policy of class "": MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; MaxDelay is -1ns: write 0 for none, or a positive duration`},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			p := everySecond
			p.Classify = func(err error) *retry.Class {
				assert.Same(t, errThrottled, err)
				if row.class == nil {
					return nil
				}
				return &retry.Class{Policy: row.class}
			}
			var before retry.Policy
			if row.class != nil {
				before = *row.class
			}
			start, runs := time.Now(), 0
			err := call(t.Context(), p, func(context.Context) error {
				if runs++; runs > 100 {
					return nil // instead of running forever
				}
				return errThrottled
			})
			e := stopped(t, err)
			assert.Equal(t, row.reason, e.Reason)
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.elapsed, time.Since(start))
			assert.ErrorIs(t, err, errThrottled)
			if row.cause == "" {
				assert.NoError(t, e.Cause)
			} else {
				assert.EqualError(t, e.Cause, row.cause)
				assert.Zero(t, e.Delay)
			}
			if row.class != nil {
				assert.Equal(t, fmt.Sprintf("%#v", before), fmt.Sprintf("%#v", *row.class), "what Classify returns is never modified")
			}
		})
	}
	everyWay(t, "a hot pair", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}
		p.Classify = unnamed(&retry.Policy{})
		require.NoError(t, p.Validate())
		runs := 0
		err := call(t.Context(), p, func(context.Context) error {
			if runs++; runs > 100 {
				return nil // instead of running forever
			}
			return errDial
		})
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.ErrorIs(t, err, errDial)
		assert.ErrorContains(t, err, `retry: invalid policy after 1 attempt (class "": unlimited attempts without a delay`)
		assert.Equal(t, 1, runs)
	})
	everyWay(t, "a pair is not hot if the call's policy has a limit", func(t *testing.T, call caller) {
		p := everySecond
		p.Classify = unnamed(&retry.Policy{MaxAttempts: retry.Unlimited})
		start, runs := time.Now(), 0
		err := call(t.Context(), p, fails(&runs))
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.Equal(t, 3, runs)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "a context that is done goes before an invalid class", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		p := everySecond
		p.Classify = unnamed(&retry.Policy{MaxAttempts: -2})
		err := call(ctx, p, func(context.Context) error { cancel(); return errDial })
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
	})
	everyWay(t, "Classify is called for each failure", func(t *testing.T, call caller) {
		p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Second)}
		slow := &retry.Class{Policy: &retry.Policy{Backoff: retry.Fixed(time.Minute)}}
		p.Classify = func(err error) *retry.Class {
			if errors.Is(err, errThrottled) {
				return slow
			}
			return nil
		}
		start, runs := time.Now(), 0
		err := call(t.Context(), p, func(context.Context) error {
			if runs++; runs%2 == 0 {
				return errThrottled
			}
			return errDial
		})
		assert.ErrorIs(t, err, errDial)
		assert.Equal(t, 5, runs)
		assert.Equal(t, 2*time.Minute+2*time.Second, time.Since(start))
	})
	everyWay(t, "RetryIf is called first", func(t *testing.T, call caller) {
		p := everySecond
		p.RetryIf = func(error) bool { return false }
		p.Classify = func(error) *retry.Class { panic("Classify is called with an error that RetryIf rejects") }
		runs := 0
		assert.Equal(t, retry.ReasonRejected, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
	})
}

func TestAClassGivesTheDelay(t *testing.T) {
	boom := errors.New("boom")
	inner := retry.Policy{
		Backoff: retry.Fixed(time.Minute), MaxDelay: 30 * time.Second, Jitter: retry.EqualJitter, MaxRetryAfter: 40 * time.Second,
	}
	p := retry.Policy{
		MaxAttempts: 5, Backoff: retry.Fixed(time.Second), MaxDelay: 2 * time.Second, Jitter: retry.FullJitter, MaxRetryAfter: 3 * time.Second,
		Classify: unnamed(&inner),
	}
	lo, hi := windowOf(p, retry.Attempt{Number: 1, Err: boom})
	assert.Equal(t, []time.Duration{15 * time.Second, 30 * time.Second}, []time.Duration{lo, hi}, "its curve, cap and jitter")
	assert.Equal(t, retry.ReasonRetry, p.Next(retry.Attempt{Number: 1, Err: retry.After(40*time.Second, boom), Seed: 1}).Reason, "its MaxRetryAfter")
	assert.Equal(t, retry.ReasonRetryAfter, p.Next(retry.Attempt{Number: 1, Err: retry.After(40*time.Second+1, boom), Seed: 1}).Reason)

	inner = retry.Policy{}
	assert.Equal(t, retry.Decision{Reason: retry.ReasonRetry}, p.Next(retry.Attempt{Number: 1, Err: boom}),
		"a field that it does not set is zero, not that of the call's policy")
	assert.Equal(t, retry.ReasonRetry, p.Next(retry.Attempt{Number: 1, Err: retry.After(time.Minute, boom)}).Reason, "the default MaxRetryAfter")
	assert.Equal(t, retry.ReasonRetryAfter, p.Next(retry.Attempt{Number: 1, Err: retry.After(time.Minute+1, boom)}).Reason)

	p.Classify = func(error) *retry.Class { return nil }
	lo, hi = windowOf(p, retry.Attempt{Number: 1, Err: boom})
	assert.Equal(t, []time.Duration{0, time.Second}, []time.Duration{lo, hi}, "nil means the call's policy")
}

func TestAClassLeavesTheRestWithTheCallsPolicy(t *testing.T) {
	boom := errors.New("boom")
	inner := retry.Policy{
		MaxElapsed: 1, AttemptTimeout: 1, Budget: &retry.Budget{Size: 1}, Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter,
		Source:   func() uint64 { panic("the Source of the class was called") },
		RetryIf:  func(error) bool { panic("RetryIf of the class was called") },
		Classify: func(error) *retry.Class { panic("Classify of the class was called") },
	}
	p := retry.Policy{
		MaxAttempts: 5, MaxElapsed: time.Hour, Classify: unnamed(&inner),
		Source: constant(42),
	}
	next := p.Next(retry.Attempt{Number: 1, Err: boom, Elapsed: time.Minute})
	assert.Equal(t, retry.ReasonRetry, next.Reason, "the call's MaxElapsed applies")
	assert.Equal(t, p.Next(retry.Attempt{Number: 1, Err: boom, Seed: 42}), next, "the call's Source draws")
}

func TestClassifyIsAskedOnceAndItsClassNeverModified(t *testing.T) {
	boom := errors.New("boom")
	inner := retry.Default()
	before := inner
	var asked []error
	class := &retry.Class{Policy: &inner}
	p := retry.Policy{MaxAttempts: 5, Classify: func(err error) *retry.Class { asked = append(asked, err); return class }}
	for attempt := range 7 {
		p.Next(retry.Attempt{Number: attempt, Err: boom, Seed: 1})
	}
	assert.Equal(t, slices.Repeat([]error{boom}, 7), asked)
	assert.Equal(t, before, inner)

	asked = nil
	p.Next(retry.Attempt{Number: 1})
	p.Next(retry.Attempt{Number: 1, Err: retry.Permanent(boom)})
	p.RetryIf = func(error) bool { return false }
	p.Next(retry.Attempt{Number: 1, Err: boom})
	assert.Empty(t, asked, "neither for nil nor for a failure that is not retried anyway")
}

func TestAClassThatIsInvalid(t *testing.T) {
	boom := errors.New("boom")
	sleepy := retry.Fixed(time.Second)
	for _, row := range []struct {
		name  string
		outer retry.Policy
		inner retry.Policy
		want  retry.Reason
	}{
		{"its own fault", retry.Policy{MaxAttempts: 5}, retry.Policy{MaxDelay: -1}, retry.ReasonInvalid},
		{"what is not looked at is not judged: durations", retry.Policy{MaxAttempts: 5}, retry.Policy{MaxElapsed: -1, AttemptTimeout: -1, HealthyAfter: -1}, retry.ReasonRetry},
		{"what is not looked at is not judged: an empty Budget", retry.Policy{MaxAttempts: 5}, retry.Policy{Budget: new(retry.Budget)}, retry.ReasonRetry},
		{"no limit in the policy of the call, no delay in the class", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{}, retry.ReasonInvalid},
		{"a schedule that ends in a hot loop", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{Backoff: retry.Schedule{time.Second, 0}}, retry.ReasonInvalid},
		{"no limit in either, no delay in the class", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{MaxAttempts: -1}, retry.ReasonInvalid},
		{"the class's MaxElapsed is not used", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{MaxElapsed: time.Second}, retry.ReasonInvalid},
		{"the class's Budget is not used", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{Budget: &retry.Budget{Size: 1}}, retry.ReasonInvalid},

		{"hot alone, limited by the policy of the call", retry.Policy{MaxAttempts: 5, Backoff: sleepy}, retry.Policy{MaxAttempts: -1}, retry.ReasonRetry},
		{"no delay, bounded by the call's MaxElapsed alone", retry.Policy{MaxElapsed: time.Minute, Backoff: sleepy}, retry.Policy{}, retry.ReasonInvalid},
		{"hot alone, bounded by the call's Budget", retry.Policy{MaxAttempts: -1, Budget: &retry.Budget{Size: 1}}, retry.Policy{MaxAttempts: -1}, retry.ReasonRetry},
		{"no delay, limited by its MaxAttempts", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{MaxAttempts: 2}, retry.ReasonRetry},
		{"no delay, limited by its AttemptCap", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{AttemptCap: 2}, retry.ReasonRetry},
		{"no delay, limited by NonRetryable", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{NonRetryable: true}, retry.ReasonNonRetryable},
		{"a custom Backoff is trusted", retry.Policy{MaxAttempts: -1, Backoff: sleepy}, retry.Policy{Backoff: retry.BackoffFunc(func(int) time.Duration { return 0 })}, retry.ReasonRetry},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.NoError(t, row.outer.Validate())
			row.outer.Classify = unnamed(&row.inner)
			assert.Equal(t, row.want, row.outer.Next(retry.Attempt{Number: 1, Err: boom}).Reason)
		})
	}
}

// A class cannot raise a limit, nor can its delay.
func TestAClassCanOnlyTighten(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		outer, inner retry.Policy
		limit        int
	}{
		{retry.Policy{MaxAttempts: 3}, retry.Policy{MaxAttempts: 10}, 3},
		{retry.Policy{MaxAttempts: 10}, retry.Policy{MaxAttempts: 3}, 3},
		{retry.Policy{MaxAttempts: 10}, retry.Policy{MaxRetries: 3}, 4},
		{retry.Policy{MaxAttempts: 10}, retry.Policy{}, 10},
		{retry.Policy{MaxAttempts: 10}, retry.Policy{AttemptCap: 2}, 2},
		{retry.Policy{MaxAttempts: 10}, retry.Policy{NonRetryable: true, MaxAttempts: 5}, 1},
		{retry.Policy{MaxAttempts: 10, AttemptCap: 4}, retry.Policy{MaxAttempts: -1}, 4},
		{retry.Policy{NonRetryable: true}, retry.Policy{MaxAttempts: -1}, 1},
		{retry.Policy{}, retry.Policy{MaxAttempts: 5}, 1},
		{retry.Policy{MaxAttempts: -1, Backoff: retry.Fixed(1)}, retry.Policy{MaxAttempts: 7}, 7},
	} {
		t.Run(fmt.Sprintf("%v with the class %v", row.outer, row.inner), func(t *testing.T) {
			row.outer.Classify = unnamed(&row.inner)
			for attempt := 1; attempt <= 12; attempt++ {
				assert.Equal(t, attempt < row.limit, row.outer.Next(retry.Attempt{Number: attempt, Err: boom}).Retry(), "after %d", attempt)
			}
		})
	}
}

// In some other libraries a limit of 0 for one kind of error wraps around, or
// becomes a sentinel, and lifts the limit.
func TestTrapLimitOfZeroForOneError(t *testing.T) {
	for _, class := range []retry.Policy{
		{},
		{MaxAttempts: 0, Backoff: retry.Fixed(time.Second)},
	} {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Classify: unnamed(&class)}
		for attempt, want := range map[int]retry.Reason{1: retry.ReasonRetry, 2: retry.ReasonRetry, 3: retry.ReasonExhausted, 50: retry.ReasonExhausted} {
			assert.Equal(t, want, p.Next(retry.Attempt{Number: attempt, Err: errors.New("boom")}).Reason, "after %d", attempt)
		}
	}
}
