// Package retrytemporal lets a [retry.Policy] decide about the activities of
// Temporal workflows: an [Interceptor] for workers decides after each attempt, and
// the server carries the decision out.
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
// [Export] writes a policy as a retry policy of Temporal's own instead, for a
// server that decides alone, and for workflows. It is exact, or an error.
//
// # What the interceptor does
//
// An attempt that fails is answered with an ApplicationError of the same type and
// message. Where another follows, it carries the delay of the decision as
// NextRetryDelay; where none does, it is non-retryable. The last of its details
// is a [Detail] with the reason and the number of attempts, which the workflow
// reads with [DetailOf] and Temporal's user interface shows. Jitter, Fibonacci,
// RetryIf, Select, MaxElapsed, servers' waits and a Budget work, which Temporal's
// own policy has not.
//
// MaxElapsed counts from when the activity was scheduled, its wait for a worker
// included. The number of an attempt is Temporal's. The delays of an activity are
// drawn by its workflow, run and activity IDs, so that each worker decides the
// same.
//
// The activity's own errors bind: a non-retryable ApplicationError is not
// retried, nor is one of the NonRetryableErrorTypes of the server's policy, and a
// NextRetryDelay is the server's wait, see [retry.After]. A wrapped
// ApplicationError binds too. A cancellation that the workflow requested passes
// through, and so does activity.ErrResultPending. An attempt whose worker stops
// is handed out again at once. A panic is an attempt that failed.
//
// # What stays with the server
//
// The MaximumAttempts of the server's policy is a limit beside the policy's own.
// Where an attempt is lost with its worker or runs into its StartToCloseTimeout,
// the server decides without the worker, by the bounds of [Server]: no more
// attempts than the policy has, and delays that grow up to its longest. If that
// was the last attempt, the workflow gets a TimeoutError, and OnEvent is not
// called. An AttemptTimeout shorter than the StartToCloseTimeout leaves the
// decision to the worker.
//
// A delay of zero becomes 1ms, because Temporal takes zero for none. A delay below
// a second may take a second, because Temporal's timers are no finer.
package retrytemporal

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// An Interceptor decides about the activities of a worker. Do not change its
// fields once it is in use.
type Interceptor struct {
	interceptor.WorkerInterceptorBase

	// Policy is for every activity that Activities does not name.
	Policy retry.Policy

	// Activities are the policies of single activities, by their types.
	Activities map[string]retry.Policy
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (i *Interceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &inbound{interceptor.ActivityInboundInterceptorBase{Next: next}, i}
}

type inbound struct {
	interceptor.ActivityInboundInterceptorBase
	i *Interceptor
}

// ExecuteActivity makes an attempt and answers with what follows.
func (a *inbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (result any, err error) {
	info := activity.GetInfo(ctx)
	p, ok := a.i.Activities[info.ActivityType.Name]
	if !ok {
		p = a.i.Policy
	}
	var failure error // what the attempt returned
	retryjob.Run(ctx, p, jobOf(info), func(ctx context.Context) error {
		result, failure = a.execute(ctx, in)
		if failure == activity.ErrResultPending { // which the SDK compares in the same way
			return nil
		}
		return mark(failure, info.RetryPolicy)
	}, func(o retryjob.Outcome) {
		if o.Err != nil {
			result, failure = nil, answer(ctx, o, failure)
		}
	})
	return result, failure
}

// jobOf returns an activity as retryjob has it. Began is by this machine's clock;
// the info has the server's.
func jobOf(info activity.Info) retryjob.Job {
	job := retryjob.Job{
		Key:     fmt.Sprintf("%s/%s/%s", info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID),
		Attempt: int(info.Attempt),
		Began:   time.Now().Add(-info.StartedTime.Sub(info.ScheduledTime)),
	}
	if info.WorkflowExecution.ID == "" { // no workflow has started it
		job.Key = info.ActivityID + "/" + info.ActivityRunID
	}
	if info.RetryPolicy != nil {
		job.MaxAttempts = int(info.RetryPolicy.MaximumAttempts)
	}
	return job
}

// execute runs the activity. A panic in it is an error, as for the SDK, which
// would leave the decision to the server. The SDK makes a PanicError of every
// error of that type, which has no details: it is the cause here.
func (a *inbound) execute(ctx context.Context, in *interceptor.ExecuteActivityInput) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			text := fmt.Sprint(p)
			activity.GetLogger(ctx).Error("Activity panic.", "PanicError", text, "PanicStack", string(debug.Stack()))
			result, err = nil, temporal.NewApplicationErrorWithCause(text, "Panic", temporal.NewApplicationError(text, "PanicError"))
		}
	}()
	return a.Next.ExecuteActivity(ctx, in)
}

// mark marks what an attempt failed with by what Temporal says of it.
func mark(err error, server *temporal.RetryPolicy) error {
	if err == nil {
		return nil
	}
	unmarked := retry.LastError(&retry.Error{Err: err})
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
