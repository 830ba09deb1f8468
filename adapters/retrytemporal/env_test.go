package retrytemporal_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryrpc/calltest"
	"github.com/goretry/retry/adapters/retrytemporal"
)

// An activityCall is one activity of a workflow, in the SDK's test environment,
// whose clock skips the waits.
type activityCall struct {
	policy  retry.Policy
	options workflow.ActivityOptions
	do      func(ctx context.Context, attempt int) (string, error)

	times []time.Time // when each attempt began
}

// run runs the workflow and returns the result and the error that it gets from the
// activity.
func (e *activityCall) run(t testing.TB) (result string, err error) {
	t.Helper()
	if e.options.StartToCloseTimeout == 0 {
		e.options.StartToCloseTimeout = time.Hour
	}
	if e.options.RetryPolicy == nil {
		e.options.RetryPolicy = retrytemporal.Server(e.policy)
	}
	var env *testsuite.TestWorkflowEnvironment
	workflowOf(t, retrytemporal.Interceptor{Policy: e.policy}, map[string]func(context.Context) (string, error){
		"Ship": func(ctx context.Context) (string, error) {
			e.times = append(e.times, env.Now())
			return e.do(ctx, int(activity.GetInfo(ctx).Attempt))
		},
	}, func(ctx workflow.Context) error {
		err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, e.options), "Ship").Get(ctx, &result)
		return nil
	}, func(of *testsuite.TestWorkflowEnvironment) { env = of })
	return result, err
}

// waits returns the times between the attempts.
func (e *activityCall) waits() (waits []time.Duration) {
	for i := 1; i < len(e.times); i++ {
		waits = append(waits, e.times[i].Sub(e.times[i-1]))
	}
	return waits
}

// quiet is a logger that logs nothing.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

var errBoom = errors.New("boom")

func TestTable(t *testing.T) {
	const server, once = "the server waits", "Once does not call Enter"
	calltest.Run(t, func(ctx context.Context, p retry.Policy, answer func(attempt int) calltest.Answer) (int, error) {
		e := activityCall{policy: p, do: func(ctx context.Context, attempt int) (string, error) {
			switch answer(attempt) {
			case calltest.OK:
				return "shipped", nil
			case calltest.Down:
				return "", errBoom
			case calltest.Busy:
				return "", temporal.NewApplicationErrorWithOptions("slow down", "Busy", temporal.ApplicationErrorOptions{NextRetryDelay: calltest.Wait})
			case calltest.Hang:
				<-ctx.Done()
				return "", ctx.Err()
			default:
				return "", temporal.NewNonRetryableApplicationError("forbidden", "Forbidden", nil)
			}
		}}
		result, err := e.run(t)
		assert.Equal(t, err == nil, result == "shipped")
		return len(e.times), asRetryError(t, err)
	}, map[string]string{"canceled before": server, "canceled in an attempt": server, "canceled in a wait": server,
		"Enter refuses the first attempt": once, "Enter refuses a retry": once})
}

// asRetryError converts the error that a workflow gets to an error like the errors of retry.Do.
func asRetryError(t testing.TB, err error) error {
	if err == nil {
		return nil
	}
	detail, ok := retrytemporal.DeadLetterOf(err)
	require.True(t, ok, "%v", err)
	e := &retry.Error{Reason: detail.Reason, Attempts: detail.Attempts, Err: err}
	if asked := regexp.MustCompile(`Retry-After is (\S+),`).FindStringSubmatch(detail.Err); asked != nil {
		e.Delay, err = time.ParseDuration(asked[1])
		require.NoError(t, err)
	}
	return e
}
