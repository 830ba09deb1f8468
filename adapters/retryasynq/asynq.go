// Package retryasynq retries the tasks of asynq (github.com/hibiken/asynq) according to a
// retry.Policy. If a task fails, the policy decides whether and when the task runs again. A
// failed task that is not retried is archived with the reason.
//
//	retries, err := retryasynq.New(policy)
//	if err != nil {
//		return err
//	}
//	config := asynq.Config{Concurrency: 10}
//	retries.Configure(&config)
//	mux := asynq.NewServeMux()
//	mux.Use(retries.Middleware)
//	mux.HandleFunc("email", sendEmail)
//	return asynq.NewServer(redis, config).Run(mux)
//
// Programs that enqueue tasks need no policy. They call [NewTask] instead of
// asynq.NewTask:
//
//	info, err := client.Enqueue(retryasynq.NewTask("email", payload))
//
// # What happens to a task
//
// Handlers return errors as usual, and may wrap errors with [retry.Permanent] and
// [retry.After]. A task that is retried waits at least as long as the policy says. asynq stores
// times in whole seconds, so the package rounds the time of the next run up to a whole second. A
// failed task that is not retried is archived. [DeadLetterOf] returns the reason, and [Redrive]
// runs archived tasks again. docs/queues.md in the library's repository explains what all adapters
// for queues have in common.
//
// The special errors of asynq have their usual effect. An error that wraps asynq.SkipRetry is
// permanent. If an error wraps asynq.RevokeTask, asynq drops the task. [Retries.Configure]
// describes the effect of asynq's IsFailure.
//
// If a handler panics, the attempt has failed. The panic is logged, and the process goes on.
// For the MaxAttempts and the Backoff of a [retry.Class], all failures of the task count, not only
// the failures of this class.
//
// # Limits
//
// The policy of the worker limits the attempts. asynq.MaxRetry(n) in NewTask lowers the limit of
// one task to n + 1 attempts. If a worker is killed, its attempt counts, and asynq delivers the
// task again one to two minutes later. If the killed attempt was the last attempt, the task does
// not run again, and is archived.
//
// When a server of asynq stops, it waits until its handlers have returned, but no longer
// than the ShutdownTimeout (8 seconds by default). Then the server cancels the contexts of
// the handlers that still run, and gives their tasks back to the queue. An attempt that is
// interrupted in this way does not count.
//
// To limit the time of an attempt, set [retry.Policy.AttemptTimeout], not asynq.Timeout or
// asynq.Deadline. At the end of a Timeout or Deadline, asynq does not wait for the handler. It
// delivers the task again, even if the handler is still running. After a Timeout or Deadline, asynq
// also ignores a [retry.After] that the handler returns. NewTask disables asynq's default timeout
// of 30 minutes.
//
// MaxElapsed counts from the call of NewTask, or from the time that the option ProcessAt or
// ProcessIn sets. NewTask stores this time in a header of the task. If the header is missing,
// or the time is in the future, MaxElapsed counts only the delays between the attempts.
package retryasynq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// NewTask and Redrive set these headers of a task.
const (
	limitHeader = "retry-max-attempts" // the task's own limit on attempts
	sinceHeader = "retry-since"        // the time from which MaxElapsed counts
	copyHeader  = "retry-redrive-of"   // the ID of the archived task, and when its last attempt ended
)

// noLimit is the MaxRetry of a task that has no limit of its own. asynq cannot store a greater
// number.
const noLimit = math.MaxInt32

// NewTask returns a task for workers that use this package. It takes the same
// options as asynq.NewTask. Pass MaxRetry, ProcessAt and ProcessIn to NewTask and
// not to Enqueue, because this package does not see the options of Enqueue.
//
// Create a new task for each Enqueue, because MaxElapsed counts from the call of NewTask.
// asynq.Scheduler enqueues the same task again and again. So give the Scheduler a task from
// asynq.NewTask. Set MaxRetry and Timeout for this task, because asynq's defaults of 25 retries and
// 30 minutes apply otherwise.
func NewTask(typename string, payload []byte, opts ...asynq.Option) *asynq.Task {
	headers := map[string]string{}
	maxRetry := noLimit
	since := time.Now()
	for _, opt := range opts {
		switch opt.Type() {
		case asynq.MaxRetryOpt:
			if retries := opt.Value().(int); retries < noLimit {
				// If a worker is killed in the last attempt, the additional run archives the task.
				maxRetry = retries + 1
				headers[limitHeader] = strconv.Itoa(maxRetry)
			}
		case asynq.ProcessAtOpt:
			since = opt.Value().(time.Time)
		case asynq.ProcessInOpt:
			since = time.Now().Add(opt.Value().(time.Duration))
		}
	}
	headers[sinceHeader] = since.UTC().Format(time.RFC3339Nano)
	opts = append([]asynq.Option{asynq.Timeout(math.MaxInt64)}, opts...)
	opts = append(opts, asynq.MaxRetry(maxRetry))
	return asynq.NewTaskWithHeaders(typename, payload, headers, opts...)
}

// Retries applies policies to tasks. After the calls of SetType and Configure, the methods of
// Retries are safe for concurrent use.
type Retries struct {
	policies  retryjob.Policies
	logger    asynq.Logger     // the Logger of the server's configuration; nil means slog.Default
	isFailure func(error) bool // the server's IsFailure; if it is nil, every error is a failure
}

// New returns Retries that apply the policy to tasks of every type. It returns an error if the
// policy is invalid or has no limit, as [retryjob.NewPolicies] does.
func New(policy retry.Policy) (*Retries, error) {
	policies, err := retryjob.NewPolicies("retryasynq", policy)
	if err != nil {
		return nil, err
	}
	return &Retries{policies: policies}, nil
}

// SetType sets the policy for tasks of one type. It returns an error if the policy is invalid or
// has no limit, as [retryjob.NewPolicies] does. Call SetType before the server starts.
func (r *Retries) SetType(typename string, policy retry.Policy) error {
	return r.policies.Set("retryasynq: type", typename, policy)
}

// Configure prepares the configuration of a server for [Retries.Middleware]. Configure replaces
// RetryDelayFunc. Without Configure, asynq's own delays apply. Set config.Logger and
// config.IsFailure before you call Configure. The Logger gets the panics of the handlers. If you
// call Configure more than once, the last call applies.
//
// If config.IsFailure returns false for the error of an attempt, the attempt does not count. For
// example, IsFailure may return false for an error that says "not ready yet". The task then runs
// again after the delay of the policy, unless MaxElapsed, MaxRetryAfter or RetryIf ends the task.
// The last event of such an attempt has ReasonCanceled.
func (r *Retries) Configure(config *asynq.Config) {
	config.RetryDelayFunc = r.delay
	r.logger, r.isFailure = config.Logger, config.IsFailure
	before := config.IsFailure
	if before == nil {
		return
	}
	config.IsFailure = func(err error) bool {
		var decided *retryError
		if errors.As(err, &decided) {
			return decided.failure
		}
		return before(err)
	}
}

// Middleware returns a handler that calls `handler` and applies the policies to its errors. Pass
// Middleware to the method Use of an asynq.ServeMux, or call Middleware with a handler. Other
// middleware around the returned handler must return the errors of the returned handler unchanged,
// or wrapped with %w.
func (r *Retries) Middleware(handler asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		retried, _ := asynq.GetRetryCount(ctx)
		maxRetry, _ := asynq.GetMaxRetry(ctx)
		return r.attempt(ctx, handler, task, id, retried, maxRetry)
	})
}

// The method `attempt` makes one attempt of a task. The parameter `retried` is the number of times
// that asynq has retried the task before this attempt.
func (r *Retries) attempt(
	ctx context.Context, next asynq.Handler, task *asynq.Task, id string, retried, maxRetry int,
) (result error) {
	own, since, malformed := readHeaders(task)
	if retried < 0 {
		malformed = fmt.Errorf("the count of retries is %d, but it must be at least 0", retried)
	}
	policy := r.policies.Of(task.Type()).ForJob(own)
	if maxRetry < noLimit { // asynq makes at most maxRetry retries
		policy = policy.ForJob(max(0, maxRetry) + 1)
	}
	job := retryjob.Job{Key: id, Attempt: max(0, retried) + 1}
	job.Began = began(policy, job, since)
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	failure := true
	retryjob.Run(ctx, policy, job, func(ctx context.Context) error {
		if malformed != nil {
			return retry.Permanent(malformed)
		}
		err := r.handle(ctx, next, task)
		if failure = r.counts(policy, retried+1, job.Began, err); !failure {
			interrupt() // this attempt must not count, and an interrupted attempt does not count
		}
		return err
	}, func(o retryjob.Outcome) { result = resultOf(o, job, failure) })
	return result
}

// The method `counts` reports whether asynq must count an attempt that returned err. If IsFailure
// returns false for err, the attempt usually does not count. But the attempt counts if the policy
// ends the task for a reason other than the number of attempts.
func (r *Retries) counts(policy retry.Policy, attempt int, began time.Time, err error) bool {
	if err == nil || r.isFailure == nil || r.isFailure(err) {
		return true
	}
	policy.MaxAttempts, policy.MaxRetries, policy.AttemptCap = attempt+1, 0, 0
	return !policy.Next(retry.Attempt{
		Number: attempt, Err: err, Elapsed: time.Since(began),
	}).Retry()
}

// readHeaders returns a task's own limit on attempts, and the time at which the task was first due.
// If the task has no limit of its own, the result `limit` is 0. If the time is unknown, the result
// `since` is the zero time.
func readHeaders(task *asynq.Task) (limit int, since time.Time, err error) {
	if text := task.Headers()[limitHeader]; text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			return 0, since, fmt.Errorf("header %s is %.100q: "+
				"write a whole number of at least 1, or leave the header out", limitHeader, text)
		}
	}
	if text, ok := task.Headers()[sinceHeader]; ok {
		if since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return 0, time.Time{}, fmt.Errorf("header %s: %w", sinceHeader, err)
		}
	}
	return limit, since, nil
}

// The function `began` returns the time from which MaxElapsed counts. Usually this is the parameter
// `since`. If `since` is zero or in the future, `began` returns an estimate. The task has waited
// for the delays of its earlier attempts, so it is at least as old as the sum of these delays.
func began(policy retry.Policy, job retryjob.Job, since time.Time) time.Time {
	now := time.Now()
	if !since.IsZero() && !since.After(now) {
		return since
	}
	const most = 10_000 // a higher count may be forged, and the loop would take too long
	if job.Attempt > most {
		return now.Add(-policy.MaxElapsed)
	}
	age, seed := time.Duration(0), retry.SeedOf(job.Key)
	for n := 1; n < job.Attempt; n++ {
		delay := policy.Next(retry.Attempt{Number: n, Seed: seed}).Delay
		age += min(delay, policy.MaxElapsed-age)
	}
	return now.Add(-age)
}

// The method `handle` calls the handler, and recovers a panic. If asynq recovered the panic, asynq
// would not learn the decision about the task.
func (r *Retries) handle(ctx context.Context, next asynq.Handler, task *asynq.Task) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", retryjob.ErrPanicked, value)
			text := fmt.Sprintf("retryasynq: task type %s: %v\n%s", task.Type(), err, debug.Stack())
			if r.logger != nil {
				r.logger.Error(text)
			} else {
				slog.Error(text)
			}
		}
	}()
	err = next.ProcessTask(ctx, task)
	if errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask) {
		err = retry.Permanent(err)
	}
	return err
}

// resultOf returns the error that tells asynq the decision about the task.
func resultOf(o retryjob.Outcome, job retryjob.Job, failure bool) error {
	switch {
	case o.Err == nil:
		return nil
	case o.Retry(), !failure:
		return &retryError{retry.Unwrap(o.Err), failure, time.Now().Add(o.Delay)}
	case o.Interrupted():
		return o.Err
	default:
		return &deadError{o.DeadLetter(job), o.Err}
	}
}

// A retryError is the error that tells asynq to run the task again.
type retryError struct {
	err     error
	failure bool      // whether asynq counts the attempt as a failure
	due     time.Time // when the task runs again
}

// Error returns the text that asynq stores, which must be UTF-8. With any other text, asynq
// would keep the task active until the lease of the task expires.
func (a *retryError) Error() string { return retryjob.TextOf(a.err) }
func (a *retryError) Unwrap() error { return a.err }

// A deadError is the error that tells asynq to archive the task.
type deadError struct {
	letter retryjob.DeadLetter
	err    error
}

func (d *deadError) Error() string {
	text, _ := json.Marshal(d.letter) // encoding a dead letter cannot fail
	return string(text)
}

func (d *deadError) Unwrap() []error { return []error{d.err, asynq.SkipRetry} }

// DeadLetterOf returns the dead letter of an archived task, which says why the task was
// archived. This package stores the dead letter as JSON in the task's field LastErr. DeadLetterOf
// returns an error if this package has not archived the task, for example because an operator has
// archived it.
func DeadLetterOf(task *asynq.TaskInfo) (d retryjob.DeadLetter, err error) {
	start := max(0, strings.Index(task.LastErr, `{"attempts":`)) // middleware may add text
	if err = json.NewDecoder(strings.NewReader(task.LastErr[start:])).Decode(&d); err != nil {
		err = fmt.Errorf("retryasynq: last error %q of task %s is not a dead letter: %w",
			task.LastErr, task.ID, err)
	}
	return d, err
}

// The method `delay` is the RetryDelayFunc that Configure sets. It returns how long a task that
// asynq has already retried n times waits for its next run.
func (r *Retries) delay(n int, err error, task *asynq.Task) time.Duration {
	var decided *retryError
	if errors.As(err, &decided) {
		return toFullSecond(decided.due)
	}
	// The error is not from this package, because the worker was killed or asynq did not wait for the
	// handler. The policy may choose any delay up to d.Hi after this attempt, so the task waits for
	// d.Hi.
	own, _, _ := readHeaders(task) // the next attempt reports a malformed header
	d := r.policies.Of(task.Type()).ForJob(own).Next(retry.Attempt{Number: n + 1})
	if !d.Retry() {
		return 0 // the next run archives the task
	}
	return toFullSecond(time.Now().Add(d.Hi))
}

// toFullSecond returns how long it takes until the time `due`, rounded up to a whole second. If
// `due` has passed, it returns 0.
func toFullSecond(due time.Time) time.Duration {
	if !due.After(time.Now()) {
		return 0
	}
	return time.Until(fullSecond(due))
}

// fullSecond returns the time `due`, rounded up to a whole second. asynq truncates the times that
// it stores to whole seconds, so without the rounding a task would run too early.
func fullSecond(due time.Time) time.Time {
	return due.Add(time.Second - time.Nanosecond).Truncate(time.Second)
}
