//go:build soak

package retrytemporal_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest"
	"github.com/goretry/retry/adapters/jobtest/servers"
	"github.com/goretry/retry/adapters/retrytemporal"
	"github.com/goretry/retry/retryjob"
)

// These tests need Temporal's own server. ".ci/soak temporal" starts one, and tells its
// address and a namespace in RETRY_TEST_TEMPORAL: "127.0.0.1:7233/default".

func TestEngine(t *testing.T) { jobtest.Run(t, engine(10*time.Second)) }

func TestLoad(t *testing.T) {
	jobtest.Load(t, engine(time.Minute), servers.Amount(t, "RETRY_JOBS", 500))
}

func TestKills(t *testing.T) {
	jobtest.Kills(t, engine(10*time.Second), servers.Amount(t, "RETRY_KILLS", 25))
}

// If a worker stops, the server starts its attempts again at once, although the policy and the
// server's bounds have a delay of an hour.
func TestAWorkerThatStops(t *testing.T) {
	q, err := open(t.Context(), "stopping", time.Minute)
	require.NoError(t, err)
	const jobs = 10
	for i := range jobs {
		require.NoError(t, q.Enqueue(t.Context(), fmt.Sprint("job-", i), 0))
	}
	p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)}

	working, stop := context.WithCancel(t.Context())
	var began atomic.Int32
	require.NoError(t, q.Work(working, p, func(ctx context.Context, _ string, _ int) error {
		if began.Add(1) == jobs {
			stop()
		}
		<-ctx.Done()
		return ctx.Err()
	}))

	working, stop = context.WithTimeout(t.Context(), 30*time.Second)
	var another sync.WaitGroup
	another.Go(func() {
		assert.NoError(t, q.Work(working, p, func(_ context.Context, _ string, attempt int) error {
			if attempt != 2 {
				return fmt.Errorf("attempt %d", attempt)
			}
			return nil
		}))
	})
	for key, job := range q.all() {
		assert.NoError(t, job.Get(working, nil), key)
	}
	stop()
	another.Wait()
	require.NoError(t, q.Close(t.Context(), true))
}

// late is how late an attempt may start: up to a second because of the server's
// timers, the rest because the machine may be busy.
const late = 10 * time.Second

// engine returns an engine whose server considers an attempt lost after lease.
func engine(lease time.Duration) jobtest.Engine {
	return jobtest.Engine{
		Open:  func(ctx context.Context, name string) (jobtest.Queue, error) { return open(ctx, name, lease) },
		Unit:  time.Second,
		Late:  late,
		Lease: lease + 2*time.Second,
	}
}

// A queue is a task queue. A job is a workflow with one activity, and a dead
// letter is a workflow that has failed.
type queue struct {
	name   string
	lease  time.Duration
	client client.Client

	mu   sync.Mutex                    // guards jobs
	jobs map[string]client.WorkflowRun // by key
}

func open(ctx context.Context, name string, lease time.Duration) (*queue, error) {
	address, namespace, _ := strings.Cut(os.Getenv("RETRY_TEST_TEMPORAL"), "/")
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Namespace: namespace, Logger: quiet{}})
	return &queue{name: name, lease: lease, client: c, jobs: map[string]client.WorkflowRun{}}, err
}

func (q *queue) Enqueue(ctx context.Context, key string, maxAttempts int) error {
	job, err := q.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: q.name + "." + key, TaskQueue: q.name, WorkflowTaskTimeout: q.lease,
	}, "Job", key, maxAttempts)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs[key] = job
	return nil
}

func (q *queue) Work(ctx context.Context, p retry.Policy, do func(context.Context, string, int) error) error {
	w := worker.New(q.client, q.name, worker.Options{
		MaxConcurrentActivityExecutionSize: 10,
		StickyScheduleToStartTimeout:       time.Second, // so that workflows of killed workers move on soon
		Interceptors: []interceptor.WorkerInterceptor{&retrytemporal.Interceptor{
			Policy:     p,
			Activities: map[string]retry.Policy{"Bury": {MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}},
		}},
	})
	var running sync.WaitGroup
	w.RegisterActivityWithOptions(func(ctx context.Context, key string) error {
		running.Add(1)
		defer running.Done()
		return do(ctx, key, int(activity.GetInfo(ctx).Attempt))
	}, activity.RegisterOptions{Name: "Attempt"})
	w.RegisterActivityWithOptions(func(ctx context.Context, lost retryjob.Job) (retryjob.DeadLetter, error) {
		return bury(ctx, p, lost)
	}, activity.RegisterOptions{Name: "Bury"})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, key string, maxAttempts int) error {
		return job(ctx, p.ForJob(maxAttempts), key, q.lease)
	}, workflow.RegisterOptions{Name: "Job"})

	if err := w.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	w.Stop() // cancels the activities but does not wait for them
	running.Wait()
	return nil
}

// job is the workflow of a job. If the last attempt is lost with its worker, the
// server ends the activity and no worker decides. The workflow then runs Bury to
// make the job a dead letter.
func job(ctx workflow.Context, p retry.Policy, key string, lease time.Duration) error {
	bounds := retrytemporal.Server(p)
	options := workflow.ActivityOptions{ActivityID: key, StartToCloseTimeout: lease, RetryPolicy: bounds}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), "Attempt", key).Get(ctx, nil)
	var failed *temporal.ActivityError
	if !errors.As(err, &failed) || failed.RetryState() != enums.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED {
		return err
	}
	info := workflow.GetInfo(ctx)
	lost := retryjob.Job{
		Key:     fmt.Sprintf("%s/%s/%s", info.WorkflowExecution.ID, info.WorkflowExecution.RunID, key),
		Attempt: int(bounds.MaximumAttempts) + 1,
		Began:   info.WorkflowStartTime,
	}
	var letter retryjob.DeadLetter
	options = workflow.ActivityOptions{StartToCloseTimeout: lease}
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), "Bury", lost).Get(ctx, &letter); err != nil {
		return err
	}
	return temporal.NewApplicationErrorWithOptions("lost", "Lost", temporal.ApplicationErrorOptions{NonRetryable: true, Cause: err, Details: []any{letter}})
}

// bury returns the dead letter of a job whose attempts are used up.
func bury(ctx context.Context, p retry.Policy, lost retryjob.Job) (letter retryjob.DeadLetter, err error) {
	p = p.ForJob(lost.Attempt - 1)
	retryjob.Run(ctx, p, lost, func(context.Context) error { return errors.New("an attempt beyond the limit") }, func(o retryjob.Outcome) {
		if o.Ran {
			err = fmt.Errorf("the attempts are not used up: %+v", o)
			return
		}
		letter = o.DeadLetter(lost)
	})
	return letter, err
}

func (q *queue) all() map[string]client.WorkflowRun {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.jobs)
}

// isOpen reports whether a job has not ended.
func (q *queue) isOpen(ctx context.Context, job client.WorkflowRun) (bool, error) {
	d, err := q.client.DescribeWorkflowExecution(ctx, job.GetID(), job.GetRunID())
	return err == nil && d.WorkflowExecutionInfo.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, err
}

func (q *queue) Open(ctx context.Context) (n int, err error) {
	for _, job := range q.all() {
		open, err := q.isOpen(ctx, job)
		if err != nil {
			return 0, err
		}
		if open {
			n++
		}
	}
	return n, nil
}

func (q *queue) Dead(ctx context.Context) (map[string]retryjob.DeadLetter, error) {
	letters := map[string]retryjob.DeadLetter{}
	for key, job := range q.all() {
		if open, err := q.isOpen(ctx, job); open || err != nil { // Get would wait for its end
			if err != nil {
				return nil, err
			}
			continue
		}
		var failed *temporal.WorkflowExecutionError
		switch err := job.Get(ctx, nil); {
		case err == nil:
		case !errors.As(err, &failed):
			return nil, err
		default:
			letter, ok := retrytemporal.DeadLetterOf(err)
			if !ok {
				return nil, fmt.Errorf("no dead letter in the failure of %s: %w", key, err)
			}
			letters[key] = letter
		}
	}
	return letters, nil
}

func (q *queue) Close(context.Context, bool) error {
	q.client.Close() // nothing to remove: the server keeps its data in memory
	return nil
}
