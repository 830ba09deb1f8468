package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A Worker runs the jobs of a queue, one at a time; for more at once start
// more.
type Worker struct {
	Queue *Queue
	Run   func(context.Context, *Job) error // its context ends when the claim is lost
	Lease time.Duration                     // how long a job stays with a worker that is not heard of
	Poll  time.Duration                     // how long to wait where nothing is runnable
}

// errIdle says that nothing is runnable.
var errIdle = errors.New("jobqueue: nothing is runnable")

// Work runs jobs until ctx ends, and then the one that it has begun to its
// end. It returns nil, or what the database failed with if that will not pass.
//
// Waiting for the next job is a retry like any other: an attempt works off
// what is runnable and fails with errIdle, or with what the database fails
// with, and the policy waits between two attempts.
func (w *Worker) Work(ctx context.Context) error {
	if w.Lease < time.Second {
		return fmt.Errorf("jobqueue: Lease is %v: write at least 1s, for a claim has an eighth of it", w.Lease)
	}
	if w.Poll <= 0 {
		return fmt.Errorf("jobqueue: Poll is %v: write a duration above 0", w.Poll)
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

// workOff runs what is runnable. The end of ctx interrupts neither a claim,
// whose attempt would be lost, nor a job.
func (w *Worker) workOff(ctx context.Context) error {
	for ctx.Err() == nil {
		job, err := w.claim(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		if job == nil {
			return errIdle
		}
		if job.status == "RUNNING" {
			if err := w.execute(retrylog.WithKey(context.WithoutCancel(ctx), job.ID), job); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (w *Worker) claim(ctx context.Context) (*Job, error) {
	ctx, cancel := context.WithTimeout(ctx, w.Lease/8)
	defer cancel()
	job, err := w.Queue.Claim(ctx, w.Lease)
	if job != nil {
		w.tellClaim(retrylog.WithKey(ctx, job.ID), job)
	}
	return job, err
}

// execute runs a claimed job, keeps its lease meanwhile, and writes how it
// ended; the lease is kept until that is written. A panic in the job passes
// through: as with a process that dies, the lease expires and the attempt is
// used up.
func (w *Worker) execute(ctx context.Context, job *Job) error {
	running, end := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { end(w.keep(running, job)) })
	defer func() { // after a panic too: a caller of Work may recover from it
		end(nil)
		keeper.Wait() // or a renewal would outlive Work
	}()
	began := time.Now()
	failure := w.Run(running, job)
	took := time.Since(began)
	if lost := context.Cause(running); failure != nil && lost != nil {
		failure = fmt.Errorf("%w, for the lease could not be renewed: %w", failure, lost)
	}
	return w.write(ctx, job, failure, took)
}

// keep renews the lease of job until ctx ends, or returns why it is lost. It
// does before the lease ends, of which the claim has taken an eighth: a renewal
// begins after a third, is tried for another, and its last try takes a sixth.
func (w *Worker) keep(ctx context.Context, job *Job) error {
	tick := time.NewTicker(w.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := retry.Do(ctx, w.statement(), func(ctx context.Context) error { return w.Queue.Renew(ctx, job, w.Lease) })
		if err != nil {
			return err
		}
	}
}

// write asks the policy what follows and writes that.
func (w *Worker) write(ctx context.Context, job *Job, failure error, took time.Duration) error {
	decision := retry.Decision{Reason: retry.ReasonSuccess}
	if failure != nil {
		decision = w.Queue.policy.ForJob(job.MaxAttempts).Next(retry.Attempt{
			Number:  job.Attempts,
			Err:     failure,
			Elapsed: job.ClaimedAt.Sub(job.FirstRunAt) + took,
			Seed:    retry.SeedOf(job.ID), // so that any worker computes the same delay
		})
	}
	var at time.Time
	err := retry.Do(ctx, w.statement(), func(ctx context.Context) (err error) {
		switch {
		case failure == nil:
			at, err = w.Queue.Finish(ctx, job)
		case decision.Retry():
			at, err = w.Queue.Fail(ctx, job, failure, decision.Delay)
		default:
			at, err = w.Queue.Bury(ctx, job, failure, decision.Reason)
		}
		return err
	})
	if errors.Is(err, ErrLost) {
		slog.WarnContext(ctx, "jobqueue: the result came too late, or is written and the answer was lost", "err", err, "failure", failure)
		return nil
	}
	if err == nil {
		w.tellEnd(ctx, job, at, failure, took, decision)
	}
	return err
}

// statement is the policy for a statement that must not wait for the next job.
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

// tellClaim and tellEnd write the log of a job as retry.Do would, with the
// database's times, though its attempts may be days and processes apart. They
// tell what has been written, so that another worker can be faster and tell of
// the next attempt before: sort a log of several by time. An attempt whose
// worker died has no end there, but for the last, whose job becomes a dead
// letter.

func (w *Worker) tellClaim(ctx context.Context, job *Job) {
	if job.status == "RUNNING" {
		w.tell(ctx, job, retry.Event{Kind: retry.AttemptStarted, Time: job.ClaimedAt})
		return
	}
	if job.lastError.String == errWorkerDied.Error() {
		w.tell(ctx, job, retry.Event{Kind: retry.AttemptFinished, Time: job.ClaimedAt, Err: errWorkerDied})
	}
	w.tell(ctx, job, retry.Event{Kind: retry.Stopped, Time: job.ClaimedAt, Reason: w.Queue.usedUp})
}

func (w *Worker) tellEnd(ctx context.Context, job *Job, at time.Time, failure error, took time.Duration, d retry.Decision) {
	// What had elapsed for the decision, not for its write. The clocks may
	// differ, though, and nothing is told of a time after that write.
	ended := job.ClaimedAt.Add(took)
	if ended.After(at) {
		ended = at
	}
	w.tell(ctx, job, retry.Event{Kind: retry.AttemptFinished, Time: ended, Err: failure, Took: took})
	if !d.Retry() {
		w.tell(ctx, job, retry.Event{Kind: retry.Stopped, Time: at, Reason: d.Reason})
		return
	}
	e := retry.Event{
		Kind: retry.RetryScheduled, Time: at, Delay: d.Delay, Due: at.Add(d.Delay),
		Hint: retry.Policy{}.Next(retry.Attempt{Err: failure}).Delay, // what any policy reads from it
	}
	if w.Queue.policy.Jitter != nil || w.Queue.policy.Select != nil { // what Select picks may have a Jitter, or none
		e.Seed = retry.SeedOf(job.ID)
	}
	w.tell(ctx, job, e)
}

func (w *Worker) tell(ctx context.Context, job *Job, e retry.Event) {
	if w.Queue.policy.OnEvent == nil {
		return
	}
	e.Attempt = job.Attempts
	e.Max = w.Queue.policy.ForJob(job.MaxAttempts).EffectiveMax()
	e.Elapsed = e.Time.Sub(job.FirstRunAt)
	w.Queue.policy.OnEvent(ctx, e)
}
