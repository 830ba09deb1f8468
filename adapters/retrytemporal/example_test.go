package retrytemporal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrytemporal"
	"github.com/goretry/retry/retryjob"
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
		dead, _ := retrytemporal.DeadLetterOf(err)
		fmt.Println(dead.Reason, "-", dead.Err)
		return nil
	})
	// Output:
	// attempt 1 after 0s
	// attempt 2 after 1s
	// attempt 3 after 2s
	// attempt 4 after 4s
	// attempts_exhausted - retry: attempts exhausted after 4 attempts: no stock
}

// Temporal has no dead letters. This program starts failed workflows again, with their first input,
// spread over an hour. It may be killed, and run again: Temporal starts a workflow ID again only if
// its last run has failed.
func Example_redrive() {
	ctx := context.Background()
	c, err := client.Dial(client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var page []byte
	for {
		failed, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: "WorkflowType = 'Order' AND ExecutionStatus = 'Failed'", NextPageToken: page})
		if err != nil {
			log.Fatal(err)
		}
		for _, w := range failed.Executions {
			id := w.Execution.WorkflowId
			first, err := c.GetWorkflowHistory(ctx, id, w.Execution.RunId, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
			if err != nil {
				log.Fatal(err)
			}
			var input []any
			for _, p := range first.GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads() {
				input = append(input, converter.NewRawValue(p))
			}
			_, err = c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
				ID:                    id,
				TaskQueue:             w.TaskQueue,
				StartDelay:            retryjob.Spread(id, time.Hour),
				WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
				// Without this, a workflow that already runs again would look like one that was just
				// started.
				WorkflowExecutionErrorWhenAlreadyStarted: true,
			}, w.Type.Name, input...)
			var again *serviceerror.WorkflowExecutionAlreadyStarted
			if err != nil && !errors.As(err, &again) {
				log.Fatal(err)
			}
		}
		if page = failed.NextPageToken; len(page) == 0 {
			return
		}
	}
}
