// Package retrytemporal retries the activities of Temporal workflows according to a
// [retry.Policy]. An [Interceptor] in the worker decides after each attempt. Temporal's
// server waits, and starts the next attempt.
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
// If an attempt fails, the interceptor returns an ApplicationError of the same type and
// message. If the policy retries, the error carries the delay as NextRetryDelay. Otherwise
// the error is non-retryable. The last of its details is a [retryjob.DeadLetter] with the
// reason and the number of attempts. The workflow reads it with [DeadLetterOf], and
// Temporal's user interface shows it.
//
// Jitter, Fibonacci, RetryIf, Classify, MaxElapsed, Retry-After and Budgets work, although
// Temporal's own policy has none of them. Failures are not counted by class: each
// [retry.Class] is counted by all failures of the activity.
//
// If a policy is invalid, each activity runs once, and its error is non-retryable
// (ReasonInvalid). Validate policies before the worker starts.
//
// The SDK cannot send text that is not UTF-8. The interceptor replaces invalid bytes, and
// leaves out the causes of the error. If the details of an ApplicationError cannot be read,
// that error becomes the cause of the returned error.
//
// MaxElapsed counts from when the activity was scheduled, so it includes the wait for a
// worker. Temporal counts the attempts. The seed of an activity's delays comes from its
// workflow, run and activity IDs, so every worker computes the same delays.
//
// The activity's errors keep their meaning in Temporal. A non-retryable ApplicationError is
// not retried, even if it is wrapped. An error whose type is in the NonRetryableErrorTypes
// of the server's policy is not retried either. The NextRetryDelay of an ApplicationError is
// treated as a Retry-After, see [retry.After].
//
// A cancellation by the workflow and activity.ErrResultPending are passed on unchanged. If a
// worker stops during an attempt, the server starts the next attempt at once, and the stopped
// attempt has no dead letter. A panic is a failed attempt.
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

// An Interceptor decides about the retries of a worker's activities. Do not change its
// fields once it is in use.
type Interceptor struct {
	interceptor.WorkerInterceptorBase

	// Policy applies to every activity that Activities does not name.
	Policy retry.Policy

	// Activities holds policies for single activities, by activity type.
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

// ExecuteActivity makes one attempt. If the attempt fails, the error has the decision for the
// server.
func (a *inbound) ExecuteActivity(
	ctx context.Context, in *interceptor.ExecuteActivityInput,
) (result any, err error) {
	info := activity.GetInfo(ctx)
	p, ok := a.i.Activities[info.ActivityType.Name]
	if !ok {
		p = a.i.Policy
	}
	var failure error // first the error of the attempt, then the error for the server
	job := jobOf(info)
	retryjob.Run(ctx, p, job, func(ctx context.Context) error {
		result, failure = a.execute(ctx, in)
		if failure == activity.ErrResultPending { // the SDK compares this error in the same way
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

// jobOf returns the job of an activity. The times in info come from the server's clock, and
// Began is a time of this machine's clock. If the server did not send a time, it is in 1970.
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
	if workflow.ID == "" { // the activity was started without a workflow
		job.Key = info.ActivityID + "/" + info.ActivityRunID
	}
	if info.RetryPolicy != nil {
		job.MaxAttempts = int(info.RetryPolicy.MaximumAttempts)
	}
	return job
}

// execute runs the activity. It turns a panic into an error, so that the policy decides. The SDK
// would also do this, but would leave the decision to the server. In the SDK an error of the type
// PanicError loses its details, so only the cause has this type here.
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

// mark marks the error of an attempt as permanent or with a wait. Temporal's own errors and the
// server's policy ask for these marks.
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

// Server returns a RetryPolicy for the server. Set it in the ActivityOptions of a workflow
// if the worker has an [Interceptor] with the policy p. The RetryPolicy allows as many
// attempts as p. Its delays apply if the server decides alone, because a worker was lost or
// too slow. They start with the first delay of p, and grow by the Factor of an Exponential,
// or else by 2, up to the longest of the first hundred delays of p.
//
// For a job with its own limit, write Server(p.ForJob(limit)). If p is invalid, the
// RetryPolicy allows one attempt.
//
// # What the server decides
//
// The MaximumAttempts of the server's policy lowers the policy's limit. If the policy has
// neither MaxAttempts nor MaxRetries, MaximumAttempts is the limit. To forbid retries whatever
// the server's policy says, set MaxAttempts to 1, or NonRetryable.
//
// If an attempt is lost with its worker or exceeds its StartToCloseTimeout, the server decides
// alone, within the bounds of Server: no more attempts than the policy allows, and delays up to
// the longest delay of the policy. If this was the last attempt, the workflow gets a
// TimeoutError, and OnEvent is not called. To let the worker decide about slow attempts, set an
// AttemptTimeout that is shorter than the StartToCloseTimeout.
//
// A delay of zero becomes 1ms, because a NextRetryDelay of zero means that no delay is set. A
// delay below a second may take up to a second, because Temporal's timers are not more precise.
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
