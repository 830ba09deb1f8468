// Package queues is what the README shows of queues, as code: where River,
// asynq and NATS JetStream take a policy, and what a queue of one's own does
// with it.
package queues

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/riverqueue/river"

	"github.com/goretry/retry"
)

// p is the policy of the hooks below. They give its delays; how often a job
// runs is River's MaxAttempts and asynq's MaxRetry, so a hook has a delay for
// attempts beyond the policy's limit too.
var p = retry.Policy{
	MaxAttempts: 5,
	Backoff:     retry.Exponential{Base: time.Second},
	MaxDelay:    5 * time.Second,
	Jitter:      retry.Proportional(0.2),
}

// Validate is for the start of a program: the hooks have nowhere to report
// that the policy is invalid, and then there is no delay.
func Validate() error { return p.Validate() }

// A is the arguments of a River job.
type A struct{}

// Kind names the job.
func (A) Kind() string { return "a" }

// W is a River worker.
type W struct{ river.WorkerDefaults[A] }

// Work does the job.
func (w *W) Work(context.Context, *river.Job[A]) error { return nil }

// NextRetry is asked by River after each attempt that failed and is not the
// last. It is not told the error: a wait that the error asks for is
// river.JobSnooze.
func (w *W) NextRetry(j *river.Job[A]) time.Time {
	return time.Now().Add(p.Next(retry.Attempt{Number: j.Attempt}).Delay)
}

// AsynqConfig is for asynq.NewServer. Its n is the number of retries so far, 0
// after the first execution.
func AsynqConfig() asynq.Config {
	return asynq.Config{
		RetryDelayFunc: func(n int, err error, _ *asynq.Task) time.Duration {
			return p.Next(retry.Attempt{Number: n + 1, Err: err}).Delay
		},
	}
}

// ConsumerConfig is for CreateConsumer of a stream of NATS. The list stands for
// AckWait: a delay runs from the delivery, so it must be longer than the work
// takes, and the last one repeats. After a first delay of 0 the server does not
// deliver again. Nak does not wait, NakWithDelay brings a delay of its own.
func ConsumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{MaxDeliver: p.EffectiveMax(), BackOff: p.Delays(10)}
}

// A Job is a row of a queue of one's own.
type Job struct {
	ID          string
	Attempts    int // executions so far
	MaxAttempts int // 0: the policy's

	State string    // "scheduled" or "dead"
	RunAt time.Time // of a scheduled job
	Note  string    // why a job is dead
}

// Failed writes to a job's row what follows the execution that failed with err.
func Failed(policy retry.Policy, job *Job, err error, now time.Time) {
	d := policy.ForJob(job.MaxAttempts).Next(retry.Attempt{
		Number: job.Attempts, // executions so far, this one included
		Err:    err,
		Seed:   retry.SeedOf(job.ID),
	})
	if d.Retry() {
		runAgainAt(job, now.Add(d.Delay))
	} else {
		deadLetter(job, d.Reason, err)
	}
}

func runAgainAt(job *Job, at time.Time) {
	job.State, job.RunAt = "scheduled", at
}

func deadLetter(job *Job, reason retry.Reason, err error) {
	job.State, job.Note = "dead", fmt.Sprintf("%v: %v", reason, err)
}

// What to do about a call that has ended.
const (
	Nothing       = "nothing"
	GiveUp        = "give up"
	TryLater      = "try later"
	MendThePolicy = "mend the policy"
	MendTheCall   = "mend the call"
)

// WhatNow tells it from the error of [retry.Do].
func WhatNow(err error) string {
	switch retry.ReasonOf(err) {
	case retry.ReasonSuccess: // err is nil
		return Nothing
	case retry.ReasonCanceled, retry.ReasonDeadline: // our own context; errors.Is finds its error, and its cause if it has ended
		return GiveUp
	case retry.ReasonExhausted, retry.ReasonElapsed, retry.ReasonBudget, retry.ReasonRetryAfter: // it might work later
		return TryLater
	case retry.ReasonInvalid: // the policy is wrong, the text says how
		return MendThePolicy
	default: // a retry would not help: errors.Is and errors.As find what failed
		return MendTheCall
	}
}
