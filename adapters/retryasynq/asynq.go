// Package retryasynq retries the tasks of asynq (github.com/hibiken/asynq) according to a
// [retry.Policy]. If a task fails, the policy decides whether and when the task runs again.
// A task that is not retried is archived with the reason.
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
// Handlers return errors as usual, and may mark errors with [retry.Permanent] and
// [retry.After]. A task that is retried waits at least as long as the policy says. asynq
// stores times in whole seconds, so a task runs at the next full second. A task that is
// not retried is archived. [DeadLetterOf] returns why, and [Redrive] lets archived
// tasks run again. docs/queues.md in the library's repository describes what all queues
// share.
//
// asynq's own signals keep their meaning. An error that wraps asynq.SkipRetry is permanent.
// A task whose error wraps asynq.RevokeTask is dropped. [Retries.Configure] describes the
// effect of IsFailure.
//
// If a handler panics, the attempt has failed. The panic is logged, and the process goes on.
// Failures are not counted by class: each [retry.Class] is counted by all failures of the
// task.
//
// # Limits
//
// The policy of the worker limits the attempts. asynq.MaxRetry(n) in NewTask lowers the
// limit of one task to n + 1 attempts. If a worker is killed, its attempt counts, and asynq
// delivers the task again one to two minutes later. If that attempt was the last one, the
// task is archived without running again. A server that stops waits ShutdownTimeout, 8
// seconds by default, for its handlers. Then it cancels their contexts and gives their
// tasks back. Such an attempt does not count.
//
// To limit the time of an attempt, set [retry.Policy.AttemptTimeout], not asynq.Timeout or
// asynq.Deadline. At the end of a Timeout or Deadline, asynq does not wait for the handler. It
// delivers the task again while the handler may still be running, and loses the wait of a
// [retry.After]. NewTask disables asynq's default timeout of 30 minutes.
//
// MaxElapsed counts from the call of NewTask, or from the time in the task's ProcessAt or
// ProcessIn. If the task lacks this time, or the time is in the future, MaxElapsed counts the
// delays between the attempts.
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

// The headers of a task.
const (
	limitHeader = "retry-max-attempts" // the task's own limit on attempts
	sinceHeader = "retry-since"        // the earliest time of the first attempt, for MaxElapsed
	copyHeader  = "retry-redrive-of"   // the ID of the archived task, and when it ended
)

// noLimit is the MaxRetry of a task without its own limit. It is the greatest number that
// asynq can store.
const noLimit = math.MaxInt32

// NewTask returns a task for workers that use this package. It takes the same
// options as asynq.NewTask. Pass MaxRetry, ProcessAt and ProcessIn to NewTask and
// not to Enqueue, because this package does not see the options of Enqueue.
//
// Create a new task for each Enqueue. asynq.Scheduler enqueues one task repeatedly,
// so use asynq.NewTask with MaxRetry and Timeout for it.
func NewTask(typename string, payload []byte, opts ...asynq.Option) *asynq.Task {
	headers := map[string]string{}
	maxRetry := noLimit
	since := time.Now()
	for _, opt := range opts {
		switch opt.Type() {
		case asynq.MaxRetryOpt:
			if retries := opt.Value().(int); retries < noLimit {
				maxRetry = retries + 1 // in the additional run, a worker refuses the task with a reason
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

// Retries applies policies to tasks. Its methods are safe for concurrent use
// once the policies are set.
type Retries struct {
	policies  retryjob.Policies
	logger    asynq.Logger     // the Logger of the server's configuration; nil: slog.Default
	isFailure func(error) bool // the server's IsFailure; nil: every error is a failure
}

// New returns Retries that apply policy to tasks of every type. It returns an error
// if policy is invalid, or has none of MaxAttempts, MaxRetries and MaxElapsed.
func New(policy retry.Policy) (*Retries, error) {
	policies, err := retryjob.NewPolicies("retryasynq", policy)
	if err != nil {
		return nil, err
	}
	return &Retries{policies: policies}, nil
}

// SetType sets the policy for tasks of one type. It returns an error if policy is invalid, or
// has none of MaxAttempts, MaxRetries and MaxElapsed. Call it before the server starts.
func (r *Retries) SetType(typename string, policy retry.Policy) error {
	return r.policies.Set("retryasynq: type", typename, policy)
}

// Configure prepares the configuration of a server for [Retries.Middleware]. It replaces
// RetryDelayFunc. Without Configure, asynq's own delays apply. The Logger that config has at
// this point gets the panics of the handlers. If Configure is called more than once, the last
// call applies.
//
// The IsFailure that config has at this point judges the errors of the handlers. If it returns
// false for an error, such as "not ready yet", the attempt does not count, and the task runs
// again after the delay of the policy. MaxElapsed, MaxRetryAfter and RetryIf may still end the
// task. A log shows such an attempt as canceled.
func (r *Retries) Configure(config *asynq.Config) {
	config.RetryDelayFunc = r.delay
	r.logger, r.isFailure = config.Logger, config.IsFailure
	before := config.IsFailure
	if before == nil {
		return
	}
	config.IsFailure = func(err error) bool {
		var decided *again
		if errors.As(err, &decided) {
			return decided.failure
		}
		return before(err)
	}
}

// Middleware applies the policies to next. Pass Middleware to the Use of an asynq.ServeMux,
// or wrap a handler with it. Outer middleware must return the errors of Middleware unchanged,
// or wrapped with %w.
func (r *Retries) Middleware(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		retried, _ := asynq.GetRetryCount(ctx)
		maxRetry, _ := asynq.GetMaxRetry(ctx)
		return r.attempt(ctx, next, task, id, retried, maxRetry)
	})
}

// attempt makes one attempt of a task. retried is how often asynq has retried the task before.
func (r *Retries) attempt(
	ctx context.Context, next asynq.Handler, task *asynq.Task, id string, retried, maxRetry int,
) (result error) {
	own, since, malformed := readHeaders(task)
	if retried < 0 {
		malformed = fmt.Errorf("the count of retries is %d", retried)
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
			interrupt() // retryjob does not count an interrupted attempt either
		}
		return err
	}, func(o retryjob.Outcome) { result = resultOf(o, job, failure) })
	return result
}

// counts reports whether an attempt that returned err counts. If IsFailure rejects err, the
// attempt counts only if the policy ends the task for a reason other than the number of its
// attempts.
func (r *Retries) counts(policy retry.Policy, attempt int, began time.Time, err error) bool {
	if err == nil || r.isFailure == nil || r.isFailure(err) {
		return true
	}
	policy.MaxAttempts, policy.MaxRetries, policy.AttemptCap = attempt+1, 0, 0
	return !policy.Next(retry.Attempt{
		Number: attempt, Err: err, Elapsed: time.Since(began),
	}).Retry()
}

// readHeaders returns a task's own limit on attempts, and when the task was first due. The
// limit is 0 if the task has none. The time is zero if it is not known.
func readHeaders(task *asynq.Task) (limit int, since time.Time, err error) {
	if text := task.Headers()[limitHeader]; text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			return 0, since, fmt.Errorf("header %s is %.100q: "+
				"write a whole number from 1 on, or leave it out", limitHeader, text)
		}
	}
	if text, ok := task.Headers()[sinceHeader]; ok {
		if since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return 0, time.Time{}, fmt.Errorf("header %s: %w", sinceHeader, err)
		}
	}
	return limit, since, nil
}

// began returns when MaxElapsed starts to count. It returns since, unless since is zero or in
// the future. Then began estimates, because asynq stores no other time: the task has waited for
// the delays of its earlier attempts, so it is at least as old as the sum of these delays.
func began(policy retry.Policy, job retryjob.Job, since time.Time) time.Time {
	now := time.Now()
	if !since.IsZero() && !since.After(now) {
		return since
	}
	const most = 10_000 // without this bound, a forged count would keep the loop busy
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

// handle calls the handler. It recovers panics, because asynq would turn them into
// an error that cannot carry a decision.
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

// resultOf returns the error that tells asynq what was decided.
func resultOf(o retryjob.Outcome, job retryjob.Job, failure bool) error {
	switch {
	case o.Err == nil:
		return nil
	case o.Retry(), !failure:
		return &again{retry.Unwrap(o.Err), failure, time.Now().Add(o.Delay)}
	case o.Interrupted():
		return o.Err
	default:
		return &dead{o.DeadLetter(job), o.Err}
	}
}

// An again is the error of an attempt after which the task is retried.
type again struct {
	err     error
	failure bool      // false: asynq does not count the attempt
	due     time.Time // when the task runs again
}

// Error returns the text that asynq stores. asynq cannot store a text that is not UTF-8: it
// would keep the task active until the lease of the task expires.
func (a *again) Error() string { return retryjob.TextOf(a.err) }
func (a *again) Unwrap() error { return a.err }

// A dead is the error of a task that does not run again.
type dead struct {
	letter retryjob.DeadLetter
	err    error
}

func (d *dead) Error() string {
	text, _ := json.Marshal(d.letter) // a dead letter always has a JSON form
	return string(text)
}

func (d *dead) Unwrap() []error { return []error{d.err, asynq.SkipRetry} }

// DeadLetterOf returns why a task was archived. It reads the task's last error, which is the
// dead letter as JSON. It returns an error if this package did not archive the task, for
// example because an operator archived it.
func DeadLetterOf(task *asynq.TaskInfo) (d retryjob.DeadLetter, err error) {
	start := max(0, strings.Index(task.LastErr, `{"attempts":`)) // middleware may add text around it
	if err = json.NewDecoder(strings.NewReader(task.LastErr[start:])).Decode(&d); err != nil {
		err = fmt.Errorf("retryasynq: last error %q of task %s is not a dead letter: %w",
			task.LastErr, task.ID, err)
	}
	return d, err
}

// delay returns how long a task waits after n retries.
func (r *Retries) delay(n int, err error, task *asynq.Task) time.Duration {
	var decided *again
	if errors.As(err, &decided) {
		return toFullSecond(decided.due)
	}
	// The worker is gone, or asynq did not wait for the handler. The policy may have given the
	// attempt any delay up to d.Hi, so wait for d.Hi.
	own, _, _ := readHeaders(task) // the next run of the task reports a malformed header
	d := r.policies.Of(task.Type()).ForJob(own).Next(retry.Attempt{Number: n + 1})
	if !d.Retry() {
		return 0 // a worker refuses the task soon
	}
	return toFullSecond(time.Now().Add(d.Hi))
}

// toFullSecond returns the time until the first full second at or after due, 0 if due has
// passed.
func toFullSecond(due time.Time) time.Duration {
	if !due.After(time.Now()) {
		return 0
	}
	return time.Until(fullSecond(due))
}

// fullSecond returns the first full second at or after due. asynq truncates the times that
// it stores to seconds.
func fullSecond(due time.Time) time.Time {
	return due.Add(time.Second - time.Nanosecond).Truncate(time.Second)
}
