package retrytemporal_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrytemporal"
)

// A real program uses client.Dial and worker.New. The example uses the SDK's test
// environment, whose clock skips the waits.
func Example() {
	policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Fibonacci(time.Second)}

	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{
		Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: policy}},
	})
	start := env.Now()
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		fmt.Printf("attempt %d after %v\n", activity.GetInfo(ctx).Attempt, env.Now().Sub(start))
		return errors.New("no stock")
	}, activity.RegisterOptions{Name: "Ship"})

	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute,
			RetryPolicy:         retrytemporal.Server(policy),
		})
		err := workflow.ExecuteActivity(ctx, "Ship").Get(ctx, nil)
		detail, _ := retrytemporal.DetailOf(err)
		fmt.Println(detail.Reason, "-", detail.Text)
		return nil
	})
	// Output:
	// attempt 1 after 0s
	// attempt 2 after 1s
	// attempt 3 after 2s
	// attempt 4 after 4s
	// attempts_exhausted - retry: attempts exhausted after 4 attempts: no stock
}

func ExampleExport() {
	exported, err := retrytemporal.Export(retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: time.Minute})
	fmt.Println(exported.InitialInterval, exported.BackoffCoefficient, exported.MaximumInterval, exported.MaximumAttempts, err)

	_, err = retrytemporal.Export(retry.Default())
	fmt.Println(err)
	// Output:
	// 1s 2 8s 5 <nil>
	// retrydialect: Temporal: Jitter (jitter) is 0.2: write nil (0), because Temporal has none
}
