package retrytemporal_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

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
			temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 1500 * time.Millisecond, MaximumAttempts: 3}},
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

// sayable returns a random policy that Temporal can express. It has at most nine
// attempts, because without a limit the test environment sets one of ten.
func sayable(r *rand.Rand) retry.Policy {
	p := retry.Policy{MaxAttempts: 1 + r.IntN(9)}
	base := time.Duration(math.Exp(r.Float64() * math.Log(float64(24*time.Hour))))
	p.Backoff = retry.Exponential{Base: base, Factor: 1 + r.Float64()*r.Float64()*5}
	if r.IntN(4) == 0 {
		p.Backoff = retry.Fixed(base)
	}
	if r.IntN(2) == 0 {
		p.MaxDelay = base/2 + 1 + time.Duration(r.Int64N(int64(100*base)))
	}
	return p
}

// The SDK's own retries, in virtual time, wait as long as the policy. The SDK uses
// them for local activities and in its test environment.
func TestTheSDKDecidesAsThePolicy(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 3))
	for range 200 {
		p := sayable(r)
		exported, err := retrytemporal.Export(p)
		require.NoError(t, err, "%v", p)

		var suite testsuite.WorkflowTestSuite
		suite.SetLogger(quiet{})
		env := suite.NewTestWorkflowEnvironment()
		env.SetTestTimeout(time.Minute)
		var times []time.Time
		env.RegisterActivityWithOptions(func(context.Context) error {
			times = append(times, env.Now())
			return errBoom
		}, activity.RegisterOptions{Name: "Ship"})
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Hour, RetryPolicy: exported})
			assert.Error(t, workflow.ExecuteActivity(ctx, "Ship").Get(ctx, nil))
			return nil
		})
		require.NoError(t, env.GetWorkflowError())
		require.Len(t, times, p.EffectiveMax(), "%v", p)
		for i, delay := range p.Delays(-1) {
			gap := times[i+1].Sub(times[i])
			require.LessOrEqual(t, (gap - delay).Abs(), 1+delay>>50, "%v: delay %d is %v, want %v", p, i+1, gap, delay)
		}
	}
}
