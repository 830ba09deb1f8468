// Package retrytemporal retries the activities of Temporal workflows according to a
// retry.Policy. An [Interceptor] in the worker decides after each attempt. Temporal's server
// waits and starts the next attempt.
//
//	w := worker.New(client, "orders", worker.Options{
//		Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{Policy: policy}},
//	})
//
//	// In the workflow: bounds for the server, from the same policy.
//	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
//		StartToCloseTimeout: time.Minute,
//		RetryPolicy:         retrytemporal.Server(policy),
//	})
//
// # What the interceptor does
//
// If an attempt fails, the interceptor returns an ApplicationError with the type and the
// message of the failure. If the policy allows a retry, the NextRetryDelay of the error is the
// policy's delay. Otherwise the error is non-retryable. The last detail of the error is a
// [retryjob.DeadLetter] with the reason and the number of attempts. Temporal's user interface
// shows this dead letter, and a workflow can read it with [DeadLetterOf].
//
// You can use features that Temporal's own policy lacks: jitter, Fibonacci, RetryIf, Classify,
// MaxElapsed, Retry-After and Budgets. The MaxAttempts and the Backoff of a [retry.Class] count
// all failures of the activity, not only the failures of this class.
//
// If a policy is invalid, each activity runs once. If the activity fails, its error is
// non-retryable, and the reason is ReasonInvalid. Validate policies before the worker starts.
//
// The SDK cannot send text that is not UTF-8. If an error contains such text, the interceptor
// replaces the invalid bytes and leaves out the causes of the error. If the details of an
// ApplicationError cannot be read, this ApplicationError becomes the cause of the returned
// error.
//
// Temporal counts the attempts. MaxElapsed counts from the time when the activity was
// scheduled, so the time in which the activity waits for a worker counts as well. The seed of
// an activity's delays is computed from its workflow ID, run ID and activity ID, so every
// worker computes the same delays.
//
// The special errors of Temporal have their usual effect. A non-retryable ApplicationError is
// not retried, even if it is wrapped. An error whose type is in the NonRetryableErrorTypes of the
// server's policy is not retried. The NextRetryDelay of an ApplicationError has the effect of a
// [retry.After].
//
// The interceptor does not change the error of an activity that the workflow has canceled, and
// does not change activity.ErrResultPending. If a worker stops during an attempt, the server
// starts the next attempt at once, and the stopped attempt has no dead letter. If an activity
// panics, the attempt has failed.
package retrytemporal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

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

	// Activities contains the policies for single types of activities, by the name of the type.
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
		if failure == activity.ErrResultPending { // the SDK also compares with ==
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

// jobOf returns the retryjob.Job of an activity. The times in info are from the server's clock,
// but Job.Began must be from this machine's clock. A time that the server did not send is in
// 1970.
func jobOf(info activity.Info) retryjob.Job {
	var waited time.Duration
	if info.ScheduledTime.Unix() > 0 {
		waited = max(0, info.StartedTime.Sub(info.ScheduledTime))
	}
	workflow := info.WorkflowExecution
	job := retryjob.Job{
		Key:     fmt.Sprintf("%s/%s/%s", workflow.ID, workflow.RunID, info.ActivityID),
		Attempt: int(info.Attempt),
		Began:   time.Now().Add(-waited),
	}
	if workflow.ID == "" { // the activity runs outside a workflow
		job.Key = info.ActivityID + "/" + info.ActivityRunID
	}
	if info.RetryPolicy != nil {
		job.MaxAttempts = int(info.RetryPolicy.MaximumAttempts)
	}
	return job
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

// Server returns a RetryPolicy for the server. Set it in the ActivityOptions of a workflow if
// the worker has an [Interceptor] with the policy p. The RetryPolicy allows as many attempts as
// p.
//
// The delays of the RetryPolicy apply only if the server decides alone, because a worker was
// lost or too slow. The first of these delays is the first delay of p. Each further delay is
// the previous delay, multiplied by the Factor of p's Exponential. For any other Backoff, the
// factor is 2. No delay is longer than the longest of the first hundred delays of p.
//
// For a job with its own limit, write Server(p.ForJob(limit)). If p is invalid, the
// RetryPolicy allows one attempt.
//
// # What the server decides
//
// The MaximumAttempts of the server's policy can lower the limit of the interceptor's policy.
// If the interceptor's policy has neither MaxAttempts nor MaxRetries, MaximumAttempts is the
// limit. To forbid retries in any case, set MaxAttempts to 1 in the interceptor's policy, or
// set NonRetryable.
//
// The server decides alone if an attempt is lost with its worker, or exceeds its
// StartToCloseTimeout. In these cases, the server uses the RetryPolicy from the function
// Server. So the server starts no more attempts than p allows, and no delay is longer than the
// longest delay of p. If this was the last attempt, the workflow gets a TimeoutError, and
// OnEvent is not called. The worker can decide about slow attempts if you set an AttemptTimeout
// that is shorter than the StartToCloseTimeout.
//
// A delay of zero becomes 1ms, because a NextRetryDelay of zero means that no delay is set. A
// delay below a second may take up to a second, because Temporal's timers have a precision of
// about a second.
func Server(p retry.Policy) *temporal.RetryPolicy {
	limit := p.EffectiveMax()
	if limit == 1 {
		return &temporal.RetryPolicy{MaximumAttempts: 1}
	}
	delays := p.Delays(100)
	first := max(leastDelay, delays[0])
	bounds := &temporal.RetryPolicy{
		InitialInterval:    first,
		BackoffCoefficient: 2,
		MaximumInterval:    max(first, slices.Max(delays)),
	}
	if b, ok := p.Backoff.(retry.Exponential); ok && b.Factor != 0 {
		bounds.BackoffCoefficient = b.Factor
	}
	if limit != retry.Unlimited {
		bounds.MaximumAttempts = int32(min(limit, math.MaxInt32))
	}
	return bounds
}
