package retrytemporal_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/temporal"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrytemporal"
)

func TestServer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		want   temporal.RetryPolicy
	}{
		{"no limit is one attempt", retry.Policy{Backoff: retry.Fixed(time.Second)}, temporal.RetryPolicy{MaximumAttempts: 1}},
		{"NonRetryable", retry.Policy{MaxAttempts: 3, NonRetryable: true}, temporal.RetryPolicy{MaximumAttempts: 1}},
		{"invalid", retry.Policy{MaxAttempts: -2}, temporal.RetryPolicy{MaximumAttempts: 1}},
		{"Default", retry.Default(), temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 1600 * time.Millisecond, MaximumAttempts: 5}},
		{"a factor", retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second, Factor: 1.5}},
			temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 1.5, MaximumInterval: 1500 * time.Millisecond, MaximumAttempts: 3}},
		{"fixed", retry.Policy{MaxRetries: 4, Backoff: retry.Fixed(time.Second)},
			temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Second, MaximumAttempts: 5}},
		{"a schedule that shrinks", retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{time.Hour, time.Second}},
			temporal.RetryPolicy{InitialInterval: time.Hour, BackoffCoefficient: 2, MaximumInterval: time.Hour, MaximumAttempts: 4}},
		{"no delay", retry.Policy{MaxAttempts: 4},
			temporal.RetryPolicy{InitialInterval: time.Millisecond, BackoffCoefficient: 2, MaximumInterval: time.Millisecond, MaximumAttempts: 4}},
		{"unlimited", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: time.Minute},
			temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute}},
		{"MaxElapsed alone", retry.Policy{MaxElapsed: time.Hour, Backoff: retry.Linear(time.Second)},
			temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 100 * time.Second}},
		{"more attempts than an int32", retry.Policy{MaxAttempts: math.MaxInt, Backoff: retry.Fixed(time.Second)},
			temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Second, MaximumAttempts: math.MaxInt32}},
	} {
		assert.Equal(t, tc.want, *retrytemporal.Server(tc.policy), tc.name)
	}
}
