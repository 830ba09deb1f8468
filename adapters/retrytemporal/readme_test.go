package retrytemporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retrytemporal"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The tests below contain the snippets of the README and run each once.

func TestREADMEWorkerAndWorkflow(t *testing.T) {
	client, err := client.NewLazyClient(client.Options{Logger: quiet{}})
	require.NoError(t, err)
	policy, attempts := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}, 0
	readme := func(ctx workflow.Context) error {
		// The worker: the policy decides after each attempt of an activity.
		w := worker.New(client, "orders", worker.Options{
			Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: policy}},
		})

		// The workflow: bounds for the server, from the same policy.
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute,
			RetryPolicy:         retrytemporal.Server(policy),
		})

		assert.NotNil(t, w)
		assert.Error(t, workflow.ExecuteActivity(ctx, "Ship").Get(ctx, nil))
		return nil
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(context.Context) error { attempts++; return errBoom }, activity.RegisterOptions{Name: "Ship"})
	env.ExecuteWorkflow(readme)
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, 3, attempts, "the bounds of the server alone allow three")
}

func TestREADMEExport(t *testing.T) {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}

	exported, err := retrytemporal.Export(policy) // Fixed or Exponential, no Jitter, no MaxElapsed, …

	require.NoError(t, err)
	assert.Equal(t, int32(3), exported.MaximumAttempts)
}
