package retry_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// absurd is a policy with every fault that does not need another policy.
var absurd = retry.Policy{
	MaxAttempts: math.MinInt, MaxRetries: math.MinInt, AttemptCap: math.MinInt, Backoff: retry.Exponential{Base: math.MinInt64, Factor: math.NaN()},
	MaxDelay: math.MinInt64, Jitter: retry.Proportional(math.NaN()), MaxRetryAfter: math.MinInt64, MaxElapsed: math.MinInt64,
	AttemptTimeout: math.MinInt64, HealthyAfter: math.MinInt64,
	Budget: &retry.Budget{Size: math.MinInt, Ratio: math.NaN(), RefillEvery: math.MinInt64},
}

func invalidPolicies() map[string]retry.Policy {
	return map[string]retry.Policy{
		"MaxAttempts below -1":      {MaxAttempts: -2},
		"MaxRetries below -1":       {MaxRetries: -2},
		"AttemptCap negative":       {MaxAttempts: 5, AttemptCap: -1},
		"MaxDelay negative":         {MaxAttempts: 5, MaxDelay: -1},
		"MaxRetryAfter negative":    {MaxAttempts: 5, MaxRetryAfter: -1},
		"MaxElapsed negative":       {MaxAttempts: 5, MaxElapsed: -1},
		"AttemptTimeout negative":   {MaxAttempts: 5, AttemptTimeout: -1},
		"Fixed negative":            {MaxAttempts: 5, Backoff: retry.Fixed(-1)},
		"Linear negative":           {MaxAttempts: 5, Backoff: retry.Linear(-1)},
		"Fibonacci negative":        {MaxAttempts: 5, Backoff: retry.Fibonacci(-1)},
		"Exponential negative":      {MaxAttempts: 5, Backoff: retry.Exponential{Base: -1}},
		"Schedule negative":         {MaxAttempts: 5, Backoff: retry.Schedule{time.Second, -1}},
		"Factor NaN":                {MaxAttempts: 5, Backoff: retry.Exponential{Base: 1, Factor: math.NaN()}},
		"Factor below 1":            {MaxAttempts: 5, Backoff: retry.Exponential{Base: 1, Factor: .5}},
		"Factor infinite":           {MaxAttempts: 5, Backoff: retry.Exponential{Base: 1, Factor: math.Inf(1)}},
		"Proportional above 1":      {MaxAttempts: 5, Jitter: retry.Proportional(1.1)},
		"Proportional NaN":          {MaxAttempts: 5, Jitter: retry.Proportional(math.NaN())},
		"Budget without a size":     {MaxAttempts: 5, Budget: &retry.Budget{Ratio: .1}},
		"Budget ratio above 1":      {MaxAttempts: 5, Budget: &retry.Budget{Size: 1, Ratio: 2}},
		"Budget that is empty":      {MaxAttempts: 5, Budget: new(retry.Budget)},
		"Budget refilled below 1ms": {MaxAttempts: 5, Budget: &retry.Budget{Size: 1, RefillEvery: 1}},
		"HealthyAfter below 1ms":    {MaxAttempts: 5, HealthyAfter: time.Millisecond - 1},
		"HealthyAfter negative":     {MaxAttempts: 5, HealthyAfter: -1},
		"hot loop":                  {MaxAttempts: retry.Unlimited},
		"everything absurd":         absurd,
	}
}

func TestInvalidPolicyInADeadContext(t *testing.T) {
	for name, p := range invalidPolicies() {
		everyWay(t, name, func(t *testing.T, call caller) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errShutdown)
			runs := 0
			err := call(ctx, p, fails(&runs))
			e := stopped(t, err)
			assert.Zero(t, runs)
			assert.Equal(t, &retry.Error{Reason: retry.ReasonInvalid, Cause: e.Cause}, plain(err))
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, errShutdown)
			assert.ErrorContains(t, err, strings.TrimPrefix(p.Validate().Error(), "invalid policy: "))
			assert.NotContains(t, err.Error(), "\n")
		})
	}
	everyWay(t, "the context ends in the only attempt", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		err := call(ctx, retry.Policy{MaxAttempts: -2}, func(context.Context) error { cancel(); return errDial })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	})
	everyWay(t, "an invalid policy keeps its AttemptTimeout", func(t *testing.T, call caller) {
		start := time.Now()
		err := call(t.Context(), retry.Policy{MaxAttempts: -2, AttemptTimeout: time.Second}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.Equal(t, time.Second, time.Since(start))
	})
	everyWay(t, "unlimited attempts with a Budget or a custom Backoff are no hot loop", func(t *testing.T, call caller) {
		for _, p := range []retry.Policy{
			{MaxAttempts: retry.Unlimited, Budget: &retry.Budget{Size: 10}},
			{MaxAttempts: retry.Unlimited, Backoff: retry.BackoffFunc(func(int) time.Duration { return 0 })},
		} {
			runs := 0
			require.NoError(t, call(t.Context(), p, func(context.Context) error {
				if runs++; runs <= 10 {
					return errDial
				}
				return nil
			}))
			assert.Equal(t, 11, runs)
		}
	})
}

// An invalid policy does not hide why a call stopped: if the context is done too,
// its error is found as well.
func TestInvalidPolicyDoesNotHideTheContext(t *testing.T) {
	everyWay(t, "canceled in the only attempt", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := call(ctx, retry.Policy{MaxAttempts: -2}, func(context.Context) error { cancel(errShutdown); return errDial })
		e := stopped(t, err)
		assert.Equal(t, retry.ReasonInvalid, e.Reason)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errShutdown)
		assert.ErrorIs(t, err, errDial)
		assert.ErrorContains(t, err, "MaxAttempts is -2")
	})
}
