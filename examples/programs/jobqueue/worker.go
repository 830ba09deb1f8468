package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// A Worker runs the jobs of a queue, one at a time. To run several jobs at the same time, start
// several workers.
type Worker struct {
	Queue *Queue

	// Run runs a job. The context of Run is canceled when the claim is lost. It is also canceled if
	// the job still runs when the time in the field Grace has passed since the end of the context of
	// Work.
	Run func(context.Context, *Job) error

	Lease time.Duration // how long a claim is valid after its last renewal, at least 1s
	Poll  time.Duration // how long the worker waits if no job is runnable; must be above 0
	Grace time.Duration // how long a job may go on after the context of Work is done
}

// errIdle means that no job is runnable.
var errIdle = errors.New("jobqueue: no job is runnable")

// Work runs jobs until ctx ends. A job that is running at this time may go on for the time w.Grace.
// Then the context of the job is canceled. If the job fails after that, Work returns the job to the
// queue. Work returns nil, or an error of the database that is not transient.
//
// Work uses retry.Do to wait for the next job. An attempt of retry.Do runs all runnable jobs. Then
// the attempt fails with errIdle or with an error of the database, and retry.Do waits.
func (w *Worker) Work(ctx context.Context) error {
	if w.Lease < time.Second {
		return fmt.Errorf("jobqueue: Lease is %v: "+
			"write at least 1s, because a claim has only an eighth of the lease to finish", w.Lease)
	}
	if w.Poll <= 0 {
		return fmt.Errorf("jobqueue: Poll is %v: write a positive duration", w.Poll)
	}
	passes := func(err error) bool {
		return errors.Is(err, errIdle) || errors.Is(err, ctx.Err()) || transient(err)
	}
	err := retry.Do(ctx, retry.Policy{
		MaxRetries: retry.Unlimited,
		Backoff:    retry.Fixed(w.Poll),
		Jitter:     retry.Proportional(0.2),
		RetryIf:    passes,
		OnEvent: func(ctx context.Context, e retry.Event) {
			if e.Err != nil && e.Err != ctx.Err() && !errors.Is(e.Err, errIdle) {
				slog.WarnContext(ctx, "jobqueue: the database fails", "err", e.Err)
			}
		},
	}, w.workOff)
	var e *retry.Error
	if errors.As(err, &e) && (e.Err == nil || passes(e.Err)) {
		return nil
	}
	return err
}

// workOff runs all jobs that are runnable. The end of ctx does not interrupt a claim: otherwise an
// attempt could be counted without being made.
func (w *Worker) workOff(ctx context.Context) error {
	for ctx.Err() == nil {
		job, err := w.claim(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		if job == nil {
			return errIdle
		}
		if err := w.execute(ctx, job); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *Worker) claim(ctx context.Context) (*Job, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Lease/8)
	defer cancel()
	return w.Queue.Claim(ctx, w.Lease)
}

// The method `execute` makes one attempt at a claimed job and writes the result. It renews the
// lease until the result is written.
func (w *Worker) execute(ctx context.Context, job *Job) (err error) {
	claimed := time.Now()
	running, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(w.Grace, func() { end(context.Cause(ctx)) })
	})
	defer stop()
	var keeper sync.WaitGroup
	keeper.Go(func() { end(w.keep(running, job)) })
	defer func() { // deferred, in case a caller of Work recovers a panic of Run
		end(nil)
		keeper.Wait() // no renewal may run after Work has returned
	}()
	of := retryjob.Job{
		Key:         job.ID,
		Attempt:     job.Attempts,
		MaxAttempts: job.MaxAttempts,
		Classes:     job.Classes,

		// Began must be on the clock of this process, which may differ from the database's clock.
		Began: claimed.Add(job.FirstRunAt.Sub(job.ClaimedAt)),
	}
	attempt := func(ctx context.Context) error { return w.Run(ctx, job) }
	retryjob.Run(running, w.Queue.policy, of, attempt, func(o retryjob.Outcome) {
		stops := ctx.Err() != nil
		err = w.write(context.WithoutCancel(ctx), job, o, o.DeadLetter(of), stops)
	})
	return err
}

// The method `keep` renews the lease of a job until ctx ends. If the lease is lost, `keep` returns
// the reason. If a job still runs when the time AttemptTimeout + w.Lease has passed, `keep` stops
// renewing the lease. Then another worker can claim the job.
//
// If a renewal fails, `keep` returns before the lease ends. The claim takes at most 1/8 of the
// lease. A renewal begins after 1/3 of the lease. The renewal is attempted for another 1/3 of the
// lease, and its last attempt takes at most 1/6 of the lease. The sum of these times is less than
// the lease.
func (w *Worker) keep(ctx context.Context, job *Job) error {
	if timeout := w.Queue.policy.AttemptTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout+w.Lease)
		defer cancel()
	}
	tick := time.NewTicker(w.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := retry.Do(ctx, w.statement(), func(ctx context.Context) error {
			return w.Queue.Renew(ctx, job, w.Lease)
		})
		if err != nil {
			return err
		}
	}
}

// The method `write` writes the result of an attempt. An attempt is interrupted if this worker
// stops or has lost the lease. Then the job does not become a dead letter. If the worker stops, the
// attempt does not count. If only the lease was lost, the attempt counts. Without this count, a job
// that hangs until its lease is lost would be run again forever.
func (w *Worker) write(
	ctx context.Context, job *Job, o retryjob.Outcome, letter retryjob.DeadLetter, stops bool,
) error {
	err := retry.Do(ctx, w.statement(), func(ctx context.Context) error {
		switch {
		case o.Err == nil:
			return w.Queue.Finish(ctx, job)
		case o.Interrupted() && stops:
			return w.Queue.GiveBack(ctx, job, o.Err)
		case o.Interrupted():
			return w.Queue.Fail(ctx, job, o.Err, o.Classes, o.Delay)
		case o.Retry():
			return w.Queue.Fail(ctx, job, retry.Unwrap(o.Err), o.Classes, o.Delay)
		default:
			return w.Queue.Bury(ctx, job, o.Ran, retry.Unwrap(o.Err), letter)
		}
	})
	if errors.Is(err, ErrLost) {
		slog.WarnContext(ctx,
			"jobqueue: the result came too late, or was written and the answer was lost",
			"err", err, "failure", o.Err)
		return nil
	}
	return err
}

// The method `statement` returns the policy for an SQL statement that must end before the lease
// ends.
func (w *Worker) statement() retry.Policy {
	return retry.Policy{
		MaxRetries:     retry.Unlimited,
		MaxElapsed:     w.Lease / 3,
		AttemptTimeout: w.Lease / 6,
		Backoff:        retry.Exponential{Base: w.Lease / 1000},
		MaxDelay:       w.Lease / 20,
		Jitter:         retry.EqualJitter,
		RetryIf:        transient,
	}
}

// errWorkerDied is the error of an attempt whose lease has expired.
var errWorkerDied = errors.New("the lease expired: the worker died or lost the database")
