package jobtest_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/jobtest"
	"github.com/goretry/retry/retryjob"
)

func TestExample(t *testing.T) {
	jobtest.Run(t, jobtest.Engine{
		Open: open, Unit: 50 * time.Millisecond, Late: 30 * time.Second, Classes: true, InProcess: true, Uncounted: true,
	})
}

// A queue keeps its jobs in memory. The adapter of a real queue would be a package of its own.
type queue struct {
	mu      sync.Mutex
	waiting map[string]waiting
	running map[string]bool
	dead    map[string]retryjob.DeadLetter
}

// The type `waiting` is a job that is due at the time in the field `due`. The field Attempt of the
// job counts its deliveries.
type waiting struct {
	job retryjob.Job
	due time.Time
}

var queues sync.Map // the open queues, by their names

func open(_ context.Context, name string) (jobtest.Queue, error) {
	q, _ := queues.LoadOrStore(name, &queue{
		waiting: map[string]waiting{}, running: map[string]bool{}, dead: map[string]retryjob.DeadLetter{},
	})
	return q.(*queue), nil
}

func (q *queue) Enqueue(_ context.Context, key string, maxAttempts int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting[key] = waiting{job: retryjob.Job{Key: key, MaxAttempts: maxAttempts, Classes: map[string]int{}}}
	return nil
}

func (q *queue) Work(
	ctx context.Context, p retry.Policy, do func(ctx context.Context, key string, attempt int) error,
) error {
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if job, ok := q.claim(); ok {
					attempt := func(ctx context.Context) error { return do(ctx, job.Key, job.Attempt) }
					retryjob.Run(ctx, p, job, attempt, func(o retryjob.Outcome) { q.settle(job, o) })
				} else {
					time.Sleep(5 * time.Millisecond) // the interval at which this queue is polled
				}
			}
		})
	}
	workers.Wait()
	return nil
}

// The method `claim` delivers a job that is due. It counts the attempt before the attempt runs.
func (q *queue) claim() (job retryjob.Job, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, w := range q.waiting {
		if time.Now().Before(w.due) {
			continue
		}
		delete(q.waiting, key)
		q.running[key] = true
		job = w.job
		job.Attempt++
		if job.Began.IsZero() {
			job.Began = time.Now()
		}
		return job, true
	}
	return job, false
}

// The method `settle` stores the outcome of an attempt.
func (q *queue) settle(job retryjob.Job, o retryjob.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, job.Key)
	job.Classes = o.Classes
	switch {
	case o.Err == nil:
	case o.Retry():
		q.waiting[job.Key] = waiting{job, time.Now().Add(o.Delay)}
	case o.Interrupted(): // the worker is shutting down: the attempt does not count
		job.Attempt--
		q.waiting[job.Key] = waiting{job, time.Now()}
	default:
		q.dead[job.Key] = o.DeadLetter(job)
	}
}

func (q *queue) Open(context.Context) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) + len(q.running), nil
}

func (q *queue) Dead(context.Context) (map[string]retryjob.DeadLetter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.dead), nil
}

func (q *queue) Close(_ context.Context, remove bool) error { return nil }
