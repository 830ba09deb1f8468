// Package retrytemporal retries the activities of Temporal workflows according to a
// retry.Policy. After each attempt, an [Interceptor] in the worker decides whether and when
// the activity is retried. Temporal's server waits and starts the next attempt.
//
//	w := worker.New(client, "orders", worker.Options{
//		Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: policy}},
//	})
//
//	// In the workflow: limits for the server, from the same policy.
//	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
//		StartToCloseTimeout: time.Minute,
//		RetryPolicy:         retrytemporal.Server(policy),
//	})
//
// # What the interceptor does
//
// If an attempt fails, the interceptor returns an ApplicationError with the type and the message of
// the failure. If the policy allows a retry, the NextRetryDelay of the error is the policy's delay.
// If the policy allows no retry, the error is non-retryable. The last detail of the error is a
// [retryjob.DeadLetter] with the reason and the number of attempts. Temporal's user interface shows
// this dead letter, and a workflow can read it with [DeadLetterOf].
//
// You can use features that Temporal's own policy lacks: jitter, Fibonacci, RetryIf, Classify,
// MaxElapsed, Retry-After and Budgets. For the MaxAttempts and the Backoff of a [retry.Class], all
// failures of the activity count, not only the failures of this class.
//
// If a policy is invalid, each activity runs once. If the activity fails, its error is
// non-retryable, and the reason is ReasonInvalid. Validate policies before the worker starts.
//
// The SDK cannot send text that is not UTF-8. If an error contains such text, the interceptor
// replaces the invalid bytes and leaves out the causes of the error. If an activity returns an
// ApplicationError whose details the interceptor cannot read, the interceptor returns a new
// ApplicationError. The cause of the new error is the error of the activity.
//
// Temporal counts the attempts. MaxElapsed counts from the time when the activity was
// scheduled, so the time in which the activity waits for a worker counts as well. The seed of
// an activity's delays is computed from its workflow ID, run ID and activity ID, so every
// worker computes the same delays.
//
// The special errors of Temporal have their usual effect. A non-retryable ApplicationError is not
// retried, even if it is wrapped. An error whose type is in the NonRetryableErrorTypes of the
// server's policy is not retried. The NextRetryDelay of an ApplicationError has the same effect as
// [retry.After].
//
// The interceptor returns two errors unchanged: the error of an activity that the workflow has
// canceled, and activity.ErrResultPending. If a worker stops during an attempt, the server starts
// the next attempt at once. No dead letter is written for the stopped attempt. A panic of an
// activity is a failed attempt.
package retrytemporal

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// An Interceptor decides after each attempt of a worker's activities whether a retry follows.
// Do not change its fields after the worker has started.
type Interceptor struct {
	interceptor.WorkerInterceptorBase

	// Policy applies to each activity whose type is not in Activities.
	Policy retry.Policy

	// Activities maps the name of an activity type to the policy for activities of this type.
	Activities map[string]retry.Policy
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (i *Interceptor) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	return &inbound{interceptor.ActivityInboundInterceptorBase{Next: next}, i}
}

type inbound struct {
	interceptor.ActivityInboundInterceptorBase
	i *Interceptor
}

// ExecuteActivity makes one attempt. If the attempt fails, the returned error contains the
// decision for the server.
func (a *inbound) ExecuteActivity(
	ctx context.Context, in *interceptor.ExecuteActivityInput,
) (result any, err error) {
	info := activity.GetInfo(ctx)
	p, ok := a.i.Activities[info.ActivityType.Name]
	if !ok {
		p = a.i.Policy
	}
	var failure error // first the error of the attempt, and later the error that the server gets
	job := jobOf(info)
	retryjob.Run(ctx, p, job, func(ctx context.Context) error {
		result, failure = a.execute(ctx, in)
		if failure == activity.ErrResultPending { // == as in the SDK, not errors.Is
			return nil
		}
		return mark(failure, info.RetryPolicy)
	}, func(o retryjob.Outcome) {
		if o.Err != nil {
			result, failure = nil, answer(ctx, job, o, failure)
		}
	})
	return result, failure
}

// `mark` wraps the error of an attempt with retry.Permanent or retry.After, if Temporal's own
// errors or the server's policy require this.
func mark(err error, server *temporal.RetryPolicy) error {
	if err == nil {
		return nil
	}
	unmarked := retry.Unwrap(&retry.Error{Err: err})
	final := server != nil && slices.Contains(server.NonRetryableErrorTypes, typeOf(unmarked))
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		final = final || app.NonRetryable()
		err = retry.After(app.NextRetryDelay(), err)
	}
	if final {
		return retry.Permanent(err)
	}
	return err
}

// execute runs the activity, and turns a panic into an error, so that the policy decides. The
// SDK would also turn the panic into an error, but then the server would decide. The SDK drops
// the details of an error with the type PanicError. So the returned error has the type Panic,
// and only its cause has the type PanicError.
func (a *inbound) execute(
	ctx context.Context, in *interceptor.ExecuteActivityInput,
) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			text := fmt.Sprint(p)
			activity.GetLogger(ctx).Error("Activity panic.",
				"PanicError", text, "PanicStack", string(debug.Stack()))
			cause := temporal.NewApplicationError(text, "PanicError")
			result, err = nil, temporal.NewApplicationErrorWithCause(text, "Panic", cause)
		}
	}()
	return a.Next.ExecuteActivity(ctx, in)
}
