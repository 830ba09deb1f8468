// Package retryasynq lets a [retry.Policy] decide on the tasks of asynq
// (github.com/hibiken/asynq): whether a task that failed runs again, when, and
// why not.
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
// Programs that enqueue tasks need no policy. They use [NewTask] in place of
// asynq.NewTask:
//
//	info, err := client.Enqueue(retryasynq.NewTask("email", payload))
//
// # What happens to a task
//
// Handlers return errors as always, and may mark them with [retry.Permanent] and
// [retry.After]. A task that is retried waits at least as long as the policy
// says: asynq stores whole seconds, so the delay ends at the next full one. A
// task that is not retried is archived at once, and [DeadLetterOf] reads why.
//
// asynq's own signals keep their meaning: an error that wraps asynq.SkipRetry is
// permanent, and a task whose error wraps asynq.RevokeTask is dropped. A panic of
// a handler is logged, counts as a failure, and does not end the process.
//
// # Limits
//
// The policy of the worker limits the attempts. asynq.MaxRetry lowers that limit
// for one task, to one attempt more than it says. A worker that is killed has
// used an attempt up. asynq hands its task out again one to two minutes later,
// and if that was the last attempt, the task is archived without running.
//
// Limit an attempt with [retry.Policy.AttemptTimeout], which waits until the
// handler has returned. asynq.Timeout and asynq.Deadline do not: asynq hands the
// task out again while the handler may still run, and any wait that the handler's
// error asks for is lost. NewTask turns asynq's own timeout of 30 minutes off.
//
// MaxElapsed counts from when NewTask made the task, or from the time in its
// ProcessAt or ProcessIn.
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
	limitHeader = "retry-max-attempts" // its own limit
	sinceHeader = "retry-since"        // when it may run first, for MaxElapsed
)

// noLimit is the MaxRetry of a task that has no limit of its own, the greatest
// that asynq can store.
const noLimit = math.MaxInt32

// NewTask returns a task for workers that use this package. It takes the options
// of asynq.NewTask. Give MaxRetry, ProcessAt and ProcessIn to NewTask and not to
// Enqueue, which does not tell the worker.
//
// Make a task for each Enqueue. For asynq.Scheduler, which enqueues one task
// again and again, use asynq.NewTask with MaxRetry and Timeout: MaxElapsed then
// sees each attempt alone.
func NewTask(typename string, payload []byte, opts ...asynq.Option) *asynq.Task {
	headers := map[string]string{}
	maxRetry := noLimit
	since := time.Now()
	for _, opt := range opts {
		switch value := opt.Value().(type) {
		case int:
			if opt.Type() == asynq.MaxRetryOpt && value < noLimit {
				headers[limitHeader] = strconv.Itoa(value + 1)
				maxRetry = value + 1 // so that a worker refuses it, and says why
			}
		case time.Time:
			if opt.Type() == asynq.ProcessAtOpt {
				since = value
			}
		case time.Duration:
			if opt.Type() == asynq.ProcessInOpt {
				since = time.Now().Add(value)
			}
		}
	}
	headers[sinceHeader] = since.UTC().Format(time.RFC3339Nano)
	opts = append([]asynq.Option{asynq.Timeout(math.MaxInt64)}, opts...)
	return asynq.NewTaskWithHeaders(typename, payload, headers, append(opts, asynq.MaxRetry(maxRetry))...)
}

// Retries applies policies to tasks. Its methods are safe for concurrent use
// once the policies are set.
type Retries struct {
	policy retry.Policy
	types  map[string]retry.Policy
	logger asynq.Logger
}

// New returns Retries that apply policy to tasks of every type. A policy that
// does not validate is an error.
func New(policy retry.Policy) (*Retries, error) {
	if err := policy.Validate(); err != nil {
		return nil, fmt.Errorf("retryasynq: %w", err)
	}
	return &Retries{policy: policy, types: map[string]retry.Policy{}}, nil
}

// SetType sets the policy for tasks of one type. Call it before the server
// starts.
func (r *Retries) SetType(typename string, policy retry.Policy) error {
	if err := policy.Validate(); err != nil {
		return fmt.Errorf("retryasynq: type %s: %w", typename, err)
	}
	r.types[typename] = policy
	return nil
}

// Configure prepares the configuration of a server for [Retries.Middleware]. It
// replaces RetryDelayFunc and IsFailure: a failure that did not count would be
// one that no limit ends. Without Configure the delays are asynq's own.
func (r *Retries) Configure(config *asynq.Config) {
	config.RetryDelayFunc = r.delay
	config.IsFailure = nil // asynq's own: every error is one
	r.logger = config.Logger
}

func (r *Retries) of(typename string) retry.Policy {
	if policy, ok := r.types[typename]; ok {
		return policy
	}
	return r.policy
}

// Middleware makes attempts of tasks by the policies. Give it to asynq.ServeMux's
// Use, or call it with a handler. Middleware around it must return its errors, and
// may wrap them by %w.
func (r *Retries) Middleware(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) (result error) {
		id, _ := asynq.GetTaskID(ctx)
		retried, _ := asynq.GetRetryCount(ctx)
		maxRetry, _ := asynq.GetMaxRetry(ctx)
		own, since, malformed := readHeaders(task)
		policy := r.of(task.Type()).ForJob(own)
		// asynq goes no further. A policy without a limit does not get one by that.
		if limit := policy.EffectiveMax(); limit > maxRetry || limit == retry.Unlimited && maxRetry < noLimit {
			policy = policy.ForJob(maxRetry + 1)
		}
		retryjob.Run(ctx, policy, retryjob.Job{Key: id, Attempt: retried + 1, Began: since}, func(ctx context.Context) error {
			if malformed != nil {
				return retry.Permanent(malformed)
			}
			return r.handle(ctx, next, task)
		}, func(o retryjob.Outcome) { result = resultOf(o) })
		return result
	})
}

// readHeaders returns a task's own limit, 0 for none, and when it was due first,
// the zero time if that is not known.
func readHeaders(task *asynq.Task) (limit int, since time.Time, err error) {
	if text, ok := task.Headers()[limitHeader]; ok {
		if limit, err = strconv.Atoi(text); err != nil {
			return 0, since, fmt.Errorf("header %s: %w", limitHeader, err)
		}
	}
	if text, ok := task.Headers()[sinceHeader]; ok {
		if since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return 0, since, fmt.Errorf("header %s: %w", sinceHeader, err)
		}
	}
	return limit, since, nil
}

// handle calls the handler. asynq recovers a panic too, but into an error that
// has no room for a decision.
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

// resultOf returns the error that tells asynq what follows.
func resultOf(o retryjob.Outcome) error {
	switch {
	case o.Err == nil:
		return nil
	case o.Interrupted():
		return o.Err
	case o.Retry():
		return &again{err: retry.LastError(o.Err), delay: o.Delay, due: time.Now().Add(o.Delay)}
	default:
		var failure *retry.Error
		errors.As(o.Err, &failure)
		return &dead{DeadLetter{o.Reason, failure.Attempts, o.Err.Error()}, o.Err}
	}
}

// An again is the error of an attempt that another follows.
type again struct {
	err   error
	delay time.Duration
	due   time.Time
}

// asynq cannot store a text that is not valid UTF-8, and so would keep the task
// active until its lease has expired.
func (a *again) Error() string { return strings.ToValidUTF8(a.err.Error(), "\uFFFD") }
func (a *again) Unwrap() error { return a.err }

// A dead is the error of a task that does not run again.
type dead struct {
	DeadLetter
	err error
}

func (d *dead) Error() string {
	text, err := json.Marshal(d.DeadLetter)
	if err != nil {
		return err.Error() // a Reason without a name, which retryjob does not have
	}
	return string(text)
}

func (d *dead) Unwrap() []error { return []error{d.err, asynq.SkipRetry} }

// A DeadLetter says why a task was archived. It is the task's last error in
// Redis, as JSON.
type DeadLetter struct {
	Reason   retry.Reason `json:"reason"`   // why the task does not run again
	Attempts int          `json:"attempts"` // that were made
	Error    string       `json:"error"`    // the text of the [*retry.Error], which ends in the last failure
}

// DeadLetterOf returns why a task was archived. It returns an error for a task
// that this package did not archive, such as one that an operator did.
func DeadLetterOf(task *asynq.TaskInfo) (d DeadLetter, err error) {
	if err := json.Unmarshal([]byte(task.LastErr), &d); err != nil {
		return DeadLetter{}, fmt.Errorf("retryasynq: last error %q of task %s is not that of a dead letter: %w", task.LastErr, task.ID, err)
	}
	return d, nil
}

// delay returns how long a task waits after it was retried n times.
func (r *Retries) delay(n int, err error, task *asynq.Task) time.Duration {
	var decided *again
	if errors.As(err, &decided) {
		return toFullSecond(decided.delay, decided.due)
	}
	// The worker is gone, or asynq did not wait for the handler, which may have
	// been given any delay up to the longest.
	own, _, _ := readHeaders(task) // what is malformed is reported where the task runs
	d := r.of(task.Type()).ForJob(own).Next(retry.Attempt{Number: n + 1})
	if !d.Retry() {
		return 0 // to be refused
	}
	return toFullSecond(d.Hi, time.Now().Add(d.Hi))
}

// toFullSecond returns how long it is until the first full second that is not
// before due. asynq cuts the time that it stores.
func toFullSecond(delay time.Duration, due time.Time) time.Duration {
	if delay <= 0 {
		return 0
	}
	second := due.Truncate(time.Second)
	if second.Before(due) {
		second = second.Add(time.Second)
	}
	return max(0, time.Until(second))
}
