package jobtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrylog"
)

// Run runs a table of jobs. Each row of the table is one job in its own queue. A row has a
// policy, errors for the attempts, and the outcome that must follow. Up to twelve rows run at
// once. For each row, Run checks that
//
//   - exactly the required attempts run, numbered from 1;
//   - each attempt begins when it is due or later, but at most Engine.Late later;
//   - the job succeeds or becomes a dead letter, as the row requires;
//   - the dead letter has the required Reason, the number of attempts, the last error (at most 8
//     KiB of it), and the times when the job began and ended;
//   - if the events of the job are read with retrylog.Replay, the policy makes the same
//     decisions.
//
// The rows are:
//
//   - success in the first attempt and in a later attempt;
//   - jobs that use up the limit of the policy, their own limit, or AttemptCap;
//   - NonRetryable, Permanent, RetryIf, an empty Budget, AttemptTimeout, and MaxElapsed over
//     the whole life of a job;
//   - classes of errors: a class with a limit and delays, a class with its own count, and an
//     invalid class;
//   - a wait of retry.After that is shorter than MaxRetryAfter, a wait that is longer, and a wait
//     of five hours;
//   - a policy without delays, and more attempts than queues allow by default;
//   - errors of 1 MiB, and errors with control characters and invalid UTF-8;
//   - a worker that stops, a worker whose attempt panics, and workers that are killed in the
//     first attempt, a later attempt and the last attempt.
//
// Every policy of the table has a limit or is NonRetryable. So an adapter may refuse other
// policies.
func Run(t *testing.T, e Engine) {
	must(t, e.check("Run", !e.InProcess))
	obey(e)
	rows := slices.DeleteFunc(table(e), func(r row) bool { return e.InProcess && r.endsProcess() })
	observed := make([]observation, len(rows))
	atOnce := make(chan struct{}, 12) // two processors are fast enough to run twelve rows at once
	var running sync.WaitGroup
	for i := range rows {
		directory := t.TempDir()
		running.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			observed[i] = rows[i].observe(t.Context(), e, starterOf(t.Name()), directory)
		})
	}
	running.Wait()
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			for _, fault := range r.judge(e, observed[i]) {
				t.Error(fault)
			}
			if len(observed[i].waits) > 0 {
				t.Log(observed[i].waits)
			}
		})
	}
}

// An observation contains what happened to the job of one row of the table: its runs, its events
// and its dead letters.
type observation struct {
	runs    []run
	log     []retrylog.Record
	waits   waits
	letters map[string]retryjob.DeadLetter
	err     error // why the test of this row failed before its end
}

// Each row of the table has a queue of its own with a single job. The key of this job is `key`.
const key = "job-1"

// The method `observe` runs the job of the row r until the job has ended, and returns what
// happened.
func (r *row) observe(
	ctx context.Context, e Engine, start starter, directory string,
) (o observation) {
	// After an error, `observe` still returns what has happened so far.
	fail := func(err error) {
		if err != nil && o.err == nil {
			o.err = err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, e.Lease+20*e.Unit+2*time.Minute)
	defer cancel()
	j, err := openJournal(directory)
	if err != nil {
		return observation{err: err}
	}
	defer func() { fail(j.close()) }()
	name := newName()
	q, err := e.Open(ctx, name)
	if err != nil {
		return observation{err: err}
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		fail(q.Close(ctx, true))
	}()

	fail(q.Enqueue(ctx, key, r.limit))
	ordered := order{Row: r.name, Queue: name, Directory: directory}
	if o.err == nil {
		fail(r.work(ctx, e, q, j, start, ordered))
	}
	runs, err := j.readRuns()
	fail(err)
	o.runs = runs[key]
	o.log, err = j.readLog()
	fail(err)
	o.waits = waitsOf(o.log)
	o.letters, err = q.Dead(context.WithoutCancel(ctx))
	fail(err)
	if o.err != nil {
		o.err = fmt.Errorf("%w\n%s", o.err, ordered.output())
	}
	return o
}

// The method `work` runs the workers that the row needs, until the job has ended.
func (r *row) work(
	ctx context.Context, e Engine, q Queue, j *journal, start starter, o order,
) error {
	began := func(n int) func() (bool, error) {
		return func() (bool, error) {
			runs, err := j.readRuns()
			return len(runs[key]) >= n, err
		}
	}
	ended := func() (bool, error) {
		if r.want == retry.ReasonRetry {
			log, err := j.readLog()
			return len(log) > 0 && log[len(log)-1].Event.Kind == retry.RetryScheduled, err
		}
		return over(ctx, q, j, 1)
	}

	switch {
	case r.killIn > 0:
		p, err := start(ctx, o)
		if err != nil {
			return err
		}
		if err := errors.Join(until(ctx, began(r.killIn)), p.kill()); err != nil {
			return fmt.Errorf("while waiting to kill the worker in run %d: %w", r.killIn, err)
		}
	case r.panicIn > 0:
		p, err := start(ctx, o)
		if err != nil {
			return err
		}
		err = until(ctx, func() (bool, error) {
			select {
			case <-p.exited:
				return true, nil
			default:
			}
			over, err := ended()
			if !over || err != nil || r.want == retry.ReasonSuccess {
				return over, err
			}
			// The process writes the last event of the job before it reports the result to the queue.
			letters, err := q.Dead(ctx)
			return len(letters) > 0, err
		})
		if err := errors.Join(err, p.kill()); err != nil {
			return fmt.Errorf("while waiting for the panic in run %d: %w", r.panicIn, err)
		}
	case r.stopIn > 0:
		if err := r.worker(ctx, q, j, began(r.stopIn)); err != nil {
			return fmt.Errorf("while waiting to stop the worker in run %d: %w", r.stopIn, err)
		}
	}
	if err := r.worker(ctx, q, j, ended); err != nil {
		return fmt.Errorf("%s: %w", unfinished(ctx, q, j), err)
	}
	// A faulty queue may deliver a job that has already ended. After this wait, the test sees such a
	// delivery.
	time.Sleep(3 * e.Unit)
	return nil
}

// The method `worker` runs the job of the row r in this process until `done` returns true or an
// error.
func (r *row) worker(ctx context.Context, q Queue, j *journal, done func() (bool, error)) error {
	p := r.policy
	p.OnEvent = j.events.OnEvent
	return work(ctx, q, p, r.do(j), done)
}

// `do` returns the function that a worker calls for each attempt of the job in the row r.
func (r *row) do(j *journal) func(ctx context.Context, key string, attempt int) error {
	return func(ctx context.Context, key string, attempt int) error {
		return j.around(key, attempt, func() error {
			runs, err := j.readRuns()
			if err != nil {
				return err
			}
			return r.script[min(len(runs[key]), len(r.script))-1](ctx)
		})
	}
}

// The function `work` runs the jobs of the queue q until `done` returns true or an error.
func work(
	ctx context.Context, q Queue, p retry.Policy,
	do func(context.Context, string, int) error, done func() (bool, error),
) error {
	if ended, err := done(); ended || err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	go func() {
		err := q.Work(working, p, do)
		switch {
		case err == nil && working.Err() == nil:
			err = errors.New("Work returned before its context was done")
		case errors.Is(err, working.Err()):
			err = nil
		}
		stop()
		result <- err
	}()
	err := until(working, done)
	if working.Err() != nil {
		err = nil // err says only that `working` is done; the error of Work or of ctx says why
	}
	stop()
	return errors.Join(err, <-result, ctx.Err())
}

// `until` calls `done` every 20 ms until `done` returns true or an error.
func until(ctx context.Context, done func() (bool, error)) error {
	return retry.Do(ctx, retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Fixed(20 * time.Millisecond),
		RetryIf:     func(err error) bool { return err == errNotYet },
	}, func(context.Context) error {
		switch ok, err := done(); {
		case err != nil:
			return err
		case !ok:
			return errNotYet
		default:
			return nil
		}
	})
}

var errNotYet = errors.New("not yet")

// `over` reports whether the number of jobs that have ended is exactly `jobs`, and no job is open.
func over(ctx context.Context, q Queue, j *journal, jobs int) (bool, error) {
	log, err := j.readLog()
	if err != nil || !stopped(log, jobs) {
		return false, err
	}
	open, err := q.Open(ctx)
	return open == 0, err
}

// The function `unfinished` describes the state of a job that did not end in time.
func unfinished(ctx context.Context, q Queue, j *journal) string {
	last := "there are no events"
	log, err := j.readLog()
	if len(log) > 0 {
		e := log[len(log)-1].Event
		last = fmt.Sprintf("the last event is %v of attempt %d", e.Kind, e.Attempt)
	}
	open, failed := q.Open(context.WithoutCancel(ctx))
	if err := errors.Join(err, failed); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("the job has not ended: the queue says that %d are open, and %s", open, last)
}
