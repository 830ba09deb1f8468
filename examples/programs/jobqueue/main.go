// Jobqueue is a queue of jobs in a database table. Its workers retry the jobs according to a
// policy. After each attempt, retryjob.Run decides what happens to the job. The attempts of a job
// may run in different processes.
//
//	go run .
//	DATABASE_URL=postgres://user:password@localhost/database go run .
//
// Without DATABASE_URL the program uses SQLite in a temporary file. Two workers run five jobs. One
// job succeeds, one job fails and then succeeds, two jobs use up their attempts, and one job has a
// permanent error. The program prints when and why each job ran, and checks every decision against
// the policy. Then it lists the dead letters and requeues one of them. After an error or a wrong
// decision, the program exits with status 1.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Getenv("DATABASE_URL"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "jobqueue:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, url string) (err error) {
	db, dialect, remove, err := openTemporary(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()

	var log bytes.Buffer
	policy := retry.Policy{
		MaxAttempts: 4, // the largest limit for any job
		Backoff:     retry.Exponential{Base: 50 * time.Millisecond},
		MaxDelay:    time.Second,
		Jitter:      retry.Proportional(0.2),

		AttemptTimeout: 10 * time.Second, // lets another worker claim a job that hangs
		OnEvent:        retrylog.NewWriter(&log).OnEvent,
	}
	queue, err := NewQueue(db, dialect, policy)
	if err != nil {
		return err
	}
	if err := enqueue(ctx, queue); err != nil {
		return err
	}
	var post post
	fmt.Fprintf(out, "%v\n\n", policy)
	if err := workUntilDone(ctx, queue, post.deliver); err != nil {
		return err
	}
	records, err := retrylog.Read(&log)
	if err != nil {
		return err
	}
	if err := explain(out, records, policy, map[string]int{"mail-3": 2, "mail-4": 50}); err != nil {
		return err
	}
	if err := list(ctx, out, queue); err != nil {
		return err
	}
	return requeueDave(ctx, out, queue, &post)
}

// The function `enqueue` creates the table and adds the jobs.
func enqueue(ctx context.Context, queue *Queue) error {
	if err := queue.Create(ctx); err != nil {
		return err
	}
	for _, j := range []struct {
		id, to      string
		maxAttempts int
	}{
		{"mail-1", "alice", 0},
		{"mail-2", "bob, whose server is busy", 0},
		{"mail-3", "carol, whose server is down", 2},
		{"mail-4", "carol, whose server is down", 50},
		{"mail-5", "dave, who has moved", 0},
	} {
		if err := queue.Enqueue(ctx, j.id, j.to, j.maxAttempts, 0); err != nil {
			return err
		}
	}
	return nil
}

// requeueDave requeues and runs the job for dave. Then it checks that only two dead letters remain.
func requeueDave(ctx context.Context, out io.Writer, queue *Queue, post *post) error {
	post.daveIsBack.Store(true)
	if err := queue.Requeue(ctx, "mail-5", true); err != nil {
		return err
	}
	fmt.Fprint(out, "dave has come back: mail-5 is requeued with all its attempts\n\n")
	if err := workUntilDone(ctx, queue, post.deliver); err != nil {
		return err
	}
	letters, err := queue.DeadLetters(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d dead letters are left\n", len(letters))
	if len(letters) != 2 {
		return errors.New("only the dead letters of carol's two jobs must be left")
	}
	return nil
}

// The type `post` is a mail service. The payload of a job is the address of the recipient.
type post struct{ daveIsBack atomic.Bool }

func (p *post) deliver(_ context.Context, job *Job) error {
	switch {
	case job.Payload == "bob, whose server is busy" && job.Attempts < 3:
		return retry.After(100*time.Millisecond, errors.New("450 busy, ask again in 100ms"))
	case job.Payload == "carol, whose server is down":
		return errors.New("dial tcp: connection refused")
	case job.Payload == "dave, who has moved" && !p.daveIsBack.Load():
		return retry.Permanent(errors.New("550 no such user"))
	default:
		return nil
	}
}

// workUntilDone runs two workers until all jobs are done or dead letters.
func workUntilDone(
	ctx context.Context, queue *Queue, deliver func(context.Context, *Job) error,
) error {
	worker := Worker{
		Queue: queue, Run: deliver,
		Lease: 30 * time.Second, Poll: 5 * time.Millisecond, Grace: 5 * time.Second,
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		workers.Go(func() {
			errs[i] = worker.Work(working)
			if errs[i] != nil {
				stop() // so that waitUntilDone does not wait for jobs that no worker runs
			}
		})
	}
	err := waitUntilDone(working, queue)
	stop()
	workers.Wait()
	return cmp.Or(errors.Join(errs...), err)
}

var errOpen = errors.New("jobs are open")

// waitUntilDone waits until all jobs are done or dead letters.
func waitUntilDone(ctx context.Context, queue *Queue) error {
	return retry.Do(ctx, retry.Policy{
		MaxRetries: retry.Unlimited,
		Backoff:    retry.Fixed(10 * time.Millisecond),
		RetryIf:    func(err error) bool { return err == errOpen || transient(err) },
	}, func(ctx context.Context) error {
		n, err := queue.Open(ctx)
		if err == nil && n > 0 {
			err = errOpen
		}
		return err
	})
}

// The function `explain` prints the log, sorted by jobs, and checks every decision in the log
// against the policy. Two workers have written the log, so the function first sorts the events by
// time.
func explain(
	out io.Writer, log []retrylog.Record, policy retry.Policy, limits map[string]int,
) error {
	slices.SortStableFunc(log, func(a, b retrylog.Record) int {
		return a.Event.Time.Compare(b.Event.Time)
	})
	calls, err := retrylog.Replay(log)
	if err != nil {
		return err
	}
	slices.SortFunc(calls, func(a, b retrylog.Call) int { return cmp.Compare(a.Key, b.Key) })
	for _, call := range calls {
		fmt.Fprintln(out, retrylog.Explain(call.Records))
		if err := call.Check(policy.ForJob(limits[call.Key])); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d jobs: every decision follows the policy\n\n", len(calls))
	return nil
}

func list(ctx context.Context, out io.Writer, queue *Queue) error {
	letters, err := queue.DeadLetters(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "dead letter  attempts  reason              final error")
	for _, l := range letters {
		fmt.Fprintf(out, "%-11s  %-8d  %-18v  %s\n", l.ID, l.Attempts, l.Reason, l.Err)
	}
	fmt.Fprintln(out)
	return nil
}
