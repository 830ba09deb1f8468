package retrytemporal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrytemporal"
	"github.com/goretry/retry/retryjob"
)

// fails returns an activity that always fails with err.
func fails(err error) func(context.Context, int) (string, error) {
	return func(context.Context, int) (string, error) { return "", err }
}

// failTimes returns an activity that fails n times and then succeeds.
func failTimes(n int, err error) func(context.Context, int) (string, error) {
	return func(_ context.Context, attempt int) (string, error) {
		if attempt <= n {
			return "", err
		}
		return fmt.Sprint("attempt ", attempt), nil
	}
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

// With jitter, the events report the same delays that the server gets.
func TestTheServerWaitsWhatTheEventsSay(t *testing.T) {
	var delays []time.Duration
	p := retry.Policy{MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter}
	p.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			delays = append(delays, e.Delay)
		}
	}
	e := activityCall{policy: p, do: fails(errBoom)}
	_, err := e.run(t)
	require.Error(t, err)
	require.Len(t, delays, 4)
	for i, delay := range delays {
		assert.Equal(t, max(time.Millisecond, delay), e.waits()[i])
	}
}

func TestWhatTheWorkflowGets(t *testing.T) {
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
		{"a non-retryable one", three, temporal.NewNonRetryableApplicationError("no stock", "Stock", nil), 1,
			said{retry.ReasonPermanent, 1, "retry: permanent error after 1 attempt: no stock (type: Stock, retryable: false)"}, "Stock", "no stock"},
		{"a non-retryable one, wrapped", three, fmt.Errorf("ship: %w", temporal.NewNonRetryableApplicationError("no stock", "Stock", nil)), 1,
			said{retry.ReasonPermanent, 1, "retry: permanent error after 1 attempt: ship: no stock (type: Stock, retryable: false)"}, "wrapError", "ship: no stock (type: Stock, retryable: false)"},
		{"an invalid policy", retry.Policy{MaxAttempts: -2}, errBoom, 1,
			said{retry.ReasonInvalid, 1, "retry: invalid policy after 1 attempt (MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited): boom"}, "errorString", "boom"},
	} {
		e := activityCall{policy: tc.policy, do: fails(tc.err)}
		_, err := e.run(t)
		assert.Len(t, e.times, tc.attempts, tc.name)
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

// said is what a dead letter says, without its times.
type said struct {
	reason   retry.Reason
	attempts int
	err      string
}

// The details, cause and category of the activity's ApplicationError reach the
// workflow.
func TestTheDetailsOfTheActivityStay(t *testing.T) {
	type order struct {
		ID    int
		Items []string
	}
	want := order{7, []string{"a", "b"}}
	e := activityCall{policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}, do: fails(temporal.NewApplicationErrorWithOptions("no stock", "Stock",
		temporal.ApplicationErrorOptions{Details: []any{want, "second"}, Cause: errBoom, Category: temporal.ApplicationErrorCategoryBenign}))}
	_, err := e.run(t)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	var got order
	var second string
	require.NoError(t, app.Details(&got, &second))
	assert.Equal(t, want, got)
	assert.Equal(t, "second", second)
	assert.Equal(t, temporal.ApplicationErrorCategoryBenign, app.Category())
	assert.ErrorContains(t, errors.Unwrap(app), "boom")
	detail, ok := retrytemporal.DeadLetterOf(err)
	assert.True(t, ok)
	assert.Equal(t, 2, detail.Attempts)
}

// A nil among the details cannot be read. Then the activity's error becomes the
// cause.
func TestDetailsThatCannotBeRead(t *testing.T) {
	e := activityCall{policy: retry.Policy{}, do: fails(temporal.NewApplicationError("no stock", "Stock", "first", nil, "third"))}
	_, err := e.run(t)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	assert.Equal(t, "Stock", app.Type())
	detail, ok := retrytemporal.DeadLetterOf(err)
	assert.True(t, ok)
	assert.Equal(t, retry.ReasonExhausted, detail.Reason)
	require.ErrorAs(t, errors.Unwrap(app), &app)
	var first, third string
	var second any
	require.NoError(t, app.Details(&first, &second, &third))
	assert.Equal(t, []any{"first", nil, "third"}, []any{first, second, third})
}

// A text that is not UTF-8 cannot be sent: without an answer the attempt would be
// lost, and made again.
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

// silent does not say what it wraps.
type silent struct{ error }

func (silent) Error() string   { return "silent" }
func (s silent) Unwrap() error { return s.error }

func TestDeadLetterOfOtherErrors(t *testing.T) {
	for name, err := range map[string]error{
		"nil":                           nil,
		"a plain error":                 errBoom,
		"one without details":           temporal.NewApplicationError("x", "X"),
		"one with details of its own":   temporal.NewApplicationError("x", "X", 7, "text"),
		"one with a mapping of its own": temporal.NewApplicationError("x", "X", map[string]int{"a": 1}),
		"one with a reason of its own":  sent(t, temporal.NewApplicationError("x", "X", map[string]string{"reason": "no stock"})),
		"a last attempt that was lost":  temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, temporal.NewApplicationError("x", "X", retryjob.DeadLetter{Reason: retry.ReasonRetry, Attempts: 1})),
	} {
		detail, ok := retrytemporal.DeadLetterOf(err)
		assert.False(t, ok, name)
		assert.Zero(t, detail.Attempts, name)
	}
}

// What a history has as details: any number, in any encoding, before the letter or in its
// place.
func TestDetailsOfAHistory(t *testing.T) {
	garbage := &common.Payload{Metadata: map[string][]byte{"encoding": []byte("moon")}, Data: []byte{0xff}}
	letter := retryjob.DeadLetter{Reason: retry.ReasonExhausted, Attempts: 4}
	for name, tc := range map[string]struct {
		details []any
		ok      bool
	}{
		"a letter":                  {[]any{letter}, true},
		"garbage before it":         {[]any{converter.NewRawValue(garbage), letter}, true},
		"100,000 before it":         {append(slices.Repeat([]any{7}, 100_000), letter), true},
		"null before it":            {[]any{nil, letter}, true},
		"garbage":                   {[]any{letter, converter.NewRawValue(garbage)}, false},
		"null":                      {[]any{letter, nil}, false},
		"no attempts":               {[]any{map[string]any{"reason": "deadline"}}, false},
		"negative attempts":         {[]any{map[string]any{"reason": "deadline", "attempts": -1}}, false},
		"attempts beyond an int":    {[]any{map[string]any{"reason": "deadline", "attempts": 1e300}}, false},
		"a reason that is no text":  {[]any{map[string]any{"reason": 7, "attempts": 1}}, false},
		"a time of the year 10,000": {[]any{map[string]any{"reason": "deadline", "attempts": 1, "began": "10000-01-01T00:00:00Z"}}, false},
	} {
		_, ok := retrytemporal.DeadLetterOf(sent(t, temporal.NewApplicationError("x", "X", tc.details...)))
		assert.Equal(t, tc.ok, ok, name)
	}

	// An activity passes on what it got from another workflow, as it was.
	id := int64(1<<53 + 1)
	e := activityCall{do: fails(sent(t, temporal.NewApplicationError("x", "X", id, converter.NewRawValue(garbage))))}
	_, err := e.run(t)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	var gotID int64
	var got converter.RawValue
	require.NoError(t, app.Details(&gotID, &got))
	assert.Equal(t, id, gotID)
	assert.Equal(t, garbage.Data, got.Payload().Data)
	_, ok := retrytemporal.DeadLetterOf(err)
	assert.True(t, ok)
}

// A dead letter of a newer version may have a reason that this one does not know.
func TestDeadLetterOfANewerVersion(t *testing.T) {
	detail, ok := retrytemporal.DeadLetterOf(sent(t, temporal.NewApplicationError("x", "X", map[string]any{"reason": "too_tired", "attempts": 4, "err": "boom", "moon": "full"})))
	assert.True(t, ok)
	assert.Equal(t, said{"too_tired", 4, "boom"}, said{detail.Reason, detail.Attempts, detail.Err})
}

// sent returns err as it arrives in another process.
func sent(t *testing.T, err error) error {
	t.Helper()
	failures := temporal.GetDefaultFailureConverter()
	arrived := failures.FailureToError(failures.ErrorToFailure(err))
	require.EqualError(t, arrived, err.Error())
	return arrived
}

func TestAnAttemptThatAnotherFollowsSaysSo(t *testing.T) {
	env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(7 * time.Second)}
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: p}}})
	env.RegisterActivityWithOptions(func(context.Context) error { return errBoom }, activity.RegisterOptions{Name: "Ship"})
	_, err := env.ExecuteActivity("Ship")
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	assert.False(t, app.NonRetryable())
	assert.Equal(t, 7*time.Second, app.NextRetryDelay())
	detail, ok := retrytemporal.DeadLetterOf(err)
	assert.True(t, ok)
	assert.Equal(t, retry.ReasonRetry, detail.Reason)
	assert.Equal(t, 1, detail.Attempts)
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

func TestAPanicIsAFailure(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{time.Minute, time.Second}}
	e := activityCall{policy: p, do: func(context.Context, int) (string, error) { panic("no stock") }}
	_, err := e.run(t)
	assert.Equal(t, []time.Duration{time.Minute, time.Second}, e.waits())
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	assert.Equal(t, "Panic", app.Type())
	assert.Equal(t, "no stock", app.Message())
	var panicked *temporal.PanicError
	assert.ErrorAs(t, err, &panicked)
	detail, _ := retrytemporal.DeadLetterOf(err)
	assert.Equal(t, retry.ReasonExhausted, detail.Reason)
	assert.Equal(t, 3, detail.Attempts)
}

func TestTheResultStays(t *testing.T) {
	e := activityCall{policy: retry.Policy{MaxAttempts: 3}, do: failTimes(2, errBoom)}
	result, err := e.run(t)
	require.NoError(t, err)
	assert.Equal(t, "attempt 3", result)
}

func TestPoliciesOfActivities(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{
		Policy:     retry.Policy{MaxAttempts: 3},
		Activities: map[string]retry.Policy{"Charge": {}},
	}}})
	attempts := map[string]int{}
	for _, name := range []string{"Charge", "Ship"} {
		env.RegisterActivityWithOptions(func(context.Context) error { attempts[name]++; return errBoom }, activity.RegisterOptions{Name: name})
	}
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		for _, name := range []string{"Charge", "Ship"} {
			assert.Error(t, workflow.ExecuteActivity(ctx, name).Get(ctx, nil))
		}
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, map[string]int{"Charge": 1, "Ship": 3}, attempts)
}

func TestLocalActivities(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: p}}})
	attempts := 0
	ship := func(context.Context) error { attempts++; return errBoom }
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute, RetryPolicy: retrytemporal.Server(p)})
		err := workflow.ExecuteLocalActivity(ctx, ship).Get(ctx, nil)
		detail, ok := retrytemporal.DeadLetterOf(err)
		assert.True(t, ok, "%v", err)
		assert.Equal(t, retry.ReasonExhausted, detail.Reason)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, 3, attempts)
}

// An activity that will be completed elsewhere has neither failed nor succeeded.
func TestResultPending(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: retry.Policy{MaxAttempts: 3}}}})
	var token []byte
	env.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		token = activity.GetInfo(ctx).TaskToken
		return "", activity.ErrResultPending
	}, activity.RegisterOptions{Name: "Ship"})
	env.RegisterDelayedCallback(func() { assert.NoError(t, env.CompleteActivity(token, "later", nil)) }, time.Hour)
	env.ExecuteWorkflow(func(ctx workflow.Context) (result string, err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 24 * time.Hour})
		err = workflow.ExecuteActivity(ctx, "Ship").Get(ctx, &result)
		return result, err
	})
	require.NoError(t, env.GetWorkflowError())
	var result string
	require.NoError(t, env.GetWorkflowResult(&result))
	assert.Equal(t, "later", result)
}

// The context of a worker can carry a Budget for all its activities.
func TestBudgetOfTheWorker(t *testing.T) {
	budget := &retry.Budget{Size: 1}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{
		BackgroundActivityContext: retry.WithBudget(context.Background(), budget),
		Interceptors:              []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: retry.Policy{MaxAttempts: 9}}},
	})
	env.RegisterActivityWithOptions(func(context.Context) error { return errBoom }, activity.RegisterOptions{Name: "Ship"})
	for _, want := range []retry.Reason{retry.ReasonRetry, retry.ReasonBudget} {
		_, err := env.ExecuteActivity("Ship")
		detail, ok := retrytemporal.DeadLetterOf(err)
		assert.True(t, ok)
		assert.Equal(t, want, detail.Reason)
	}
	assert.Zero(t, budget.Left())
}

// interrupted makes one attempt of an activity and cancels its context with cause,
// before or during the attempt. It returns the error of the attempt.
func interrupted(t *testing.T, cause error, before bool) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{
		BackgroundActivityContext: ctx,
		Interceptors:              []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}}},
	})
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		assert.False(t, before)
		cancel(cause)
		<-ctx.Done()
		return ctx.Err()
	}, activity.RegisterOptions{Name: "Ship"})
	if before {
		cancel(cause)
	}
	_, err := env.ExecuteActivity("Ship")
	return err
}

// If the worker stops during an attempt, the next one follows at once. If the server
// cancels an attempt, the activity is canceled.
func TestInterruptedAttempts(t *testing.T) {
	for _, before := range []bool{false, true} {
		err := interrupted(t, worker.ErrWorkerShutdown, before)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		assert.False(t, app.NonRetryable())
		assert.Equal(t, time.Millisecond, app.NextRetryDelay())
		assert.False(t, app.HasDetails(), "the SDK may lose them")
		assert.Equal(t, "worker is now shutdown", app.Message())

		err = interrupted(t, temporal.NewCanceledError(), before)
		_, ok := retrytemporal.DeadLetterOf(err)
		assert.False(t, ok, "%v", err)
		assert.ErrorContains(t, err, "canceled")
	}
}

// A workflow that cancels its activity gets the cancellation.
func TestCancellationByTheWorkflow(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: retry.Policy{MaxAttempts: 3}}}})
	attempts := 0
	env.RegisterActivityWithOptions(func(ctx context.Context) error { attempts++; <-ctx.Done(); return ctx.Err() }, activity.RegisterOptions{Name: "Ship"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		options := workflow.ActivityOptions{StartToCloseTimeout: time.Hour, HeartbeatTimeout: time.Minute, WaitForCancellation: true}
		ctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, options))
		shipping := workflow.ExecuteActivity(ctx, "Ship")
		cancel()
		err := shipping.Get(ctx, nil)
		assert.True(t, temporal.IsCanceledError(err), "%v", err)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	assert.LessOrEqual(t, attempts, 1)
}
