package retrytemporal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrytemporal"
)

// fails returns an activity that always fails with err.
func fails(err error) func(context.Context, int) (string, error) {
	return func(context.Context, int) (string, error) { return "", err }
}

func TestTheServerWaitsWhatThePolicySays(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		waits  []time.Duration
	}{
		{"Fibonacci", retry.Policy{MaxAttempts: 6, Backoff: retry.Fibonacci(time.Second)}, []time.Duration{1e9, 1e9, 2e9, 3e9, 5e9}},
		{"Schedule", retry.Policy{MaxAttempts: 4, Backoff: retry.Schedule{time.Hour, time.Second}}, []time.Duration{3600e9, 1e9, 1e9}},
		{"without a delay", retry.Policy{MaxAttempts: 3}, []time.Duration{1e6, 1e6}},
		{"a delay below a millisecond", retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(1)}, []time.Duration{1e6}},
		{"Retry-After beyond MaxDelay", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), MaxDelay: time.Second}, []time.Duration{60e9, 60e9}},
	} {
		err := errBoom
		if tc.policy.MaxDelay > 0 {
			err = retry.After(time.Minute, errBoom)
		}
		e := activityCall{policy: tc.policy, do: fails(err)}
		_, err = e.run(t)
		require.Error(t, err, tc.name)
		assert.Equal(t, tc.waits, e.waits(), tc.name)
	}
}

func TestErrorsOfTheWorkflow(t *testing.T) {
	three := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}
	for _, tc := range []struct {
		name     string
		policy   retry.Policy
		err      error
		attempts int
		want     said
		typ      string
		message  string
	}{
		{"a plain error", three, errBoom, 3,
			said{retry.ReasonExhausted, 3, "retry: attempts exhausted after 3 attempts: boom"}, "errorString", "boom"},
		{"an error of another type", three, &fs.PathError{Op: "open", Path: "/x", Err: errBoom}, 3,
			said{retry.ReasonExhausted, 3, "retry: attempts exhausted after 3 attempts: open /x: boom"}, "PathError", "open /x: boom"},
		{"Permanent", three, retry.Permanent(errBoom), 1,
			said{retry.ReasonPermanent, 1, "retry: permanent error after 1 attempt: boom"}, "errorString", "boom"},
		{"a wait that is too long", three, retry.After(25*time.Hour, errBoom), 1,
			said{retry.ReasonRetryAfter, 1, "retry: gave up after 1 attempt (Retry-After is 25h0m0s, MaxRetryAfter is 24h0m0s): boom"}, "errorString", "boom"},
		{"an ApplicationError", three, temporal.NewApplicationError("no stock", "Stock"), 3,
			said{retry.ReasonExhausted, 3, "retry: attempts exhausted after 3 attempts: no stock (type: Stock, retryable: true)"}, "Stock", "no stock"},
		{"a non-retryable error", three, temporal.NewNonRetryableApplicationError("no stock", "Stock", nil), 1,
			said{retry.ReasonPermanent, 1, "retry: permanent error after 1 attempt: no stock (type: Stock, retryable: false)"}, "Stock", "no stock"},
		{"a non-retryable error, wrapped", three, fmt.Errorf("ship: %w", temporal.NewNonRetryableApplicationError("no stock", "Stock", nil)), 1,
			said{retry.ReasonPermanent, 1, "retry: permanent error after 1 attempt: ship: no stock (type: Stock, retryable: false)"}, "wrapError", "ship: no stock (type: Stock, retryable: false)"},
		{"a panic", three, nil, 3,
			said{retry.ReasonExhausted, 3, "retry: attempts exhausted after 3 attempts: no stock (type: Panic, retryable: true): no stock (type: PanicError, retryable: true)"}, "Panic", "no stock"},
		{"an invalid policy", retry.Policy{MaxAttempts: -2}, errBoom, 1,
			said{retry.ReasonInvalid, 1, "retry: invalid policy after 1 attempt (MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited): boom"}, "errorString", "boom"},
	} {
		e := activityCall{policy: tc.policy, do: fails(tc.err)}
		if tc.err == nil {
			e.do = func(context.Context, int) (string, error) { panic("no stock") }
		}
		_, err := e.run(t)
		assert.Len(t, e.times, tc.attempts, tc.name)
		var panicked *temporal.PanicError
		assert.Equal(t, tc.err == nil, errors.As(err, &panicked), tc.name)
		detail, ok := retrytemporal.DeadLetterOf(err)
		assert.True(t, ok, tc.name)
		assert.Equal(t, tc.want, said{detail.Reason, detail.Attempts, detail.Err}, tc.name)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, tc.name)
		assert.Equal(t, tc.typ, app.Type(), tc.name)
		assert.Equal(t, tc.message, app.Message(), tc.name)
		assert.True(t, app.NonRetryable(), tc.name)
	}
}

// `said` has the fields of a dead letter, without the times.
type said struct {
	reason   retry.Reason
	attempts int
	err      string
}

// A text that is not UTF-8 cannot be sent. Without an answer, the attempt would be lost and
// made again.
func TestATextThatIsNotUTF8(t *testing.T) {
	raw := errors.New("no stock \xff")
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"of the error":          {raw, "no stock \uFFFD"},
		"of the error it wraps": {fmt.Errorf("ship: %w", raw), "ship: no stock \uFFFD"},
		"of a cause alone":      {silent{fmt.Errorf("ship: %w", raw)}, "silent"},
		"of an ApplicationError": {temporal.NewApplicationErrorWithOptions("no stock \xff", "Stock",
			temporal.ApplicationErrorOptions{Cause: raw}), "no stock \uFFFD"},
	} {
		e := activityCall{policy: retry.Policy{}, do: fails(tc.err)}
		_, err := e.run(t)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, name)
		assert.Equal(t, tc.want, app.Message(), name)
		assert.NoError(t, errors.Unwrap(app), name)
		detail, ok := retrytemporal.DeadLetterOf(err)
		assert.True(t, ok, name)
		assert.Equal(t, retry.ReasonExhausted, detail.Reason, name)
	}
}

// A `silent` error does not reveal the error that it wraps.
type silent struct{ error }

func (silent) Error() string   { return "silent" }
func (s silent) Unwrap() error { return s.error }

// The details, the cause and the category of the activity's ApplicationError reach the
// workflow, even if the activity got the error from another process. A nil among the details
// cannot be read. In this case, the error becomes the cause.
func TestDetailsOfTheActivityAreKept(t *testing.T) {
	type order struct{ Items []string }
	id, raw := int64(1<<53+1), converter.NewRawValue(&common.Payload{Metadata: map[string][]byte{"encoding": []byte("moon")}, Data: []byte{0xff}})
	for name, details := range map[string][]any{"ours": {order{[]string{"a", "b"}}, id, raw}, "arrived": {order{[]string{"a", "b"}}, id, raw}, "nil": {order{[]string{"a", "b"}}, id, raw, nil}} {
		failure := temporal.NewApplicationErrorWithOptions("no stock", "Stock", temporal.ApplicationErrorOptions{Details: details, Cause: errBoom, Category: temporal.ApplicationErrorCategoryBenign})
		if name == "arrived" {
			failure = sent(t, failure)
		}
		e := activityCall{policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}, do: fails(failure)}
		_, err := e.run(t)
		letter, ok := retrytemporal.DeadLetterOf(err)
		assert.True(t, ok, name)
		assert.Equal(t, 2, letter.Attempts, name)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, name)
		assert.Equal(t, []any{"Stock", "no stock", temporal.ApplicationErrorCategoryBenign}, []any{app.Type(), app.Message(), app.Category()}, name)
		if name == "nil" {
			require.ErrorAs(t, errors.Unwrap(app), &app, name)
		}
		var got order
		var gotID int64
		var gotRaw converter.RawValue
		require.NoError(t, app.Details(&got, &gotID, &gotRaw), name)
		assert.Equal(t, []any{details[0], id, raw.Payload().Data}, []any{got, gotID, gotRaw.Payload().Data}, name)
		assert.ErrorContains(t, errors.Unwrap(app), "boom", name)
	}
}

// sent returns err as it arrives in another process.
func sent(t *testing.T, err error) error {
	t.Helper()
	failures := temporal.GetDefaultFailureConverter()
	arrived := failures.FailureToError(failures.ErrorToFailure(err))
	require.EqualError(t, arrived, err.Error())
	return arrived
}

// workflowOf runs a workflow of a worker with an interceptor, and its activities.
func workflowOf(t testing.TB, i retrytemporal.Interceptor, activities map[string]func(context.Context) (string, error), run func(workflow.Context) error, options ...func(*testsuite.TestWorkflowEnvironment)) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&i}})
	for name, do := range activities {
		env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
	for _, option := range options {
		option(env)
	}
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		return run(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 24 * time.Hour, HeartbeatTimeout: 24 * time.Hour, WaitForCancellation: true}))
	})
	require.NoError(t, env.GetWorkflowError())
}

func TestPoliciesOfActivities(t *testing.T) {
	attempts, policy := map[string]int{}, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	fail := func(name string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { attempts[name]++; return "", errBoom }
	}
	workflowOf(t, retrytemporal.Interceptor{Policy: policy, Activities: map[string]retry.Policy{"Charge": {}}},
		map[string]func(context.Context) (string, error){"Charge": fail("Charge"), "Ship": fail("Ship")},
		func(ctx workflow.Context) error {
			for _, name := range []string{"Charge", "Ship"} {
				assert.Error(t, workflow.ExecuteActivity(ctx, name).Get(ctx, nil))
			}
			ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: retrytemporal.Server(policy)})
			letter, ok := retrytemporal.DeadLetterOf(workflow.ExecuteLocalActivity(ctx, fail("local")).Get(ctx, nil))
			assert.True(t, ok)
			assert.Equal(t, retry.ReasonExhausted, letter.Reason)
			return nil
		})
	assert.Equal(t, map[string]int{"Charge": 1, "Ship": 3, "local": 3}, attempts)
}

// An activity that will be completed elsewhere has neither failed nor succeeded. If the
// workflow cancels an activity, the activity is canceled.
func TestPendingAndCanceledActivities(t *testing.T) {
	var token []byte
	attempts := 0
	workflowOf(t, retrytemporal.Interceptor{Policy: retry.Policy{MaxAttempts: 3}}, map[string]func(context.Context) (string, error){
		"Later": func(ctx context.Context) (string, error) {
			token = activity.GetInfo(ctx).TaskToken
			return "", activity.ErrResultPending
		},
		"Ship": func(ctx context.Context) (string, error) { attempts++; <-ctx.Done(); return "", ctx.Err() },
	}, func(ctx workflow.Context) error {
		var result string
		assert.NoError(t, workflow.ExecuteActivity(ctx, "Later").Get(ctx, &result))
		assert.Equal(t, "later", result)
		ctx, cancel := workflow.WithCancel(ctx)
		shipping := workflow.ExecuteActivity(ctx, "Ship")
		cancel()
		err := shipping.Get(ctx, nil)
		assert.True(t, temporal.IsCanceledError(err), "%v", err)
		return nil
	}, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { assert.NoError(t, env.CompleteActivity(token, "later", nil)) }, time.Hour)
	})
	assert.LessOrEqual(t, attempts, 1)
}

// attemptOf makes one attempt of an activity under ctx, the context of its worker.
func attemptOf(ctx context.Context, p retry.Policy, do func(context.Context) error) error {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx, Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: p}}})
	env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: "Ship"})
	_, err := env.ExecuteActivity("Ship")
	return err
}

// The context of a worker can contain a Budget for all its activities. The error of an attempt
// says whether a retry follows.
func TestBudgetOfTheWorker(t *testing.T) {
	ctx := retry.WithBudget(t.Context(), &retry.Budget{Size: 1})
	for _, want := range []retry.Reason{retry.ReasonRetry, retry.ReasonBudget} {
		err := attemptOf(ctx, retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(7 * time.Second)}, func(context.Context) error { return errBoom })
		letter, ok := retrytemporal.DeadLetterOf(err)
		assert.True(t, ok)
		assert.Equal(t, []any{want, 1}, []any{letter.Reason, letter.Attempts})
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		assert.Equal(t, want != retry.ReasonRetry, app.NonRetryable())
		assert.Equal(t, want == retry.ReasonRetry, app.NextRetryDelay() == 7*time.Second)
	}
}

// If the worker stops during an attempt or before the attempt, the next attempt follows at
// once. If the server cancels an attempt, the activity is canceled.
func TestInterruptedAttempts(t *testing.T) {
	for _, before := range []bool{false, true} {
		for _, cause := range []error{worker.ErrWorkerShutdown, temporal.NewCanceledError()} {
			ctx, cancel := context.WithCancelCause(context.Background())
			if before {
				cancel(cause)
			}
			err := attemptOf(ctx, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}, func(ctx context.Context) error {
				assert.False(t, before)
				cancel(cause)
				<-ctx.Done()
				return ctx.Err()
			})
			_, ok := retrytemporal.DeadLetterOf(err)
			assert.False(t, ok, "%v", err)
			if cause != worker.ErrWorkerShutdown {
				assert.ErrorContains(t, err, "canceled")
				continue
			}
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			assert.False(t, app.NonRetryable())
			assert.Equal(t, time.Millisecond, app.NextRetryDelay())
			assert.False(t, app.HasDetails(), "the SDK may lose them")
			assert.Equal(t, "worker is now shutdown", app.Message())
		}
	}
}

// The test environment does not pass the server's policy to an activity, so the
// server ends the activity without a decision of the worker.
func TestALimitOfTheServer(t *testing.T) {
	p := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Second)}
	for n, server := range map[int]*temporal.RetryPolicy{
		2: retrytemporal.Server(p.ForJob(2)), 4: {MaximumAttempts: 9}, 1: {NonRetryableErrorTypes: []string{"errorString"}}} {
		e := activityCall{policy: p, do: fails(errBoom), options: workflow.ActivityOptions{RetryPolicy: server}}
		_, err := e.run(t)
		require.Error(t, err)
		assert.Len(t, e.times, n)
	}
}
