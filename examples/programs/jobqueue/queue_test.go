package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
	"github.com/goretry/retry/retrytest"
)

// ticket4 is a policy with delays of 5, 15 and 60 minutes. Its attempts are counted when a worker
// claims the job.
var ticket4 = retry.Policy{
	MaxAttempts: 4,
	Backoff:     retry.Schedule{300 * time.Second, 900 * time.Second, 3600 * time.Second},
}

func unrecoverable(context.Context, *Job) error { return retry.Permanent(errors.New("no such user")) }

// The claim counts the attempt that begins. retryjob.Run expects this count.
func TestJobCount(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		retrytest.JobCount(b, ticket4, func(p retry.Policy, fn func(context.Context) error) {
			b.workOff(b.queueFor(p), func(ctx context.Context, _ *Job) error { return fn(ctx) })
		})
	})
}

func TestClaim(t *testing.T) {
	for _, r := range []struct {
		name     string
		status   string
		attempts int
		runAt    time.Duration // the time from now to run_at; `never` means that run_at is NULL
		lease    time.Duration
		claimed  bool
		died     bool
	}{
		{name: "run_at NULL is runnable now", status: "PENDING", runAt: never, lease: never, claimed: true},
		{name: "run_at equal to now is runnable", status: "PENDING", lease: never, claimed: true},
		{name: "run_at before now is runnable", status: "PENDING", runAt: -1000, lease: never, attempts: 2, claimed: true},
		{name: "run_at before 1970 is runnable", status: "PENDING", runAt: -100 * 366 * 24 * time.Hour, lease: never, claimed: true},
		{name: "run_at after now is not runnable", status: "PENDING", runAt: 1000, lease: never, attempts: 2},
		{name: "a job with a lease is not runnable", status: "RUNNING", runAt: -1000, lease: 1000, attempts: 1},
		{name: "a job whose lease ends now is claimed again, and its attempt counts", status: "RUNNING", runAt: never, attempts: 1, claimed: true, died: true},
		{name: "a job that is done is not runnable", status: "DONE", runAt: never, lease: never, attempts: 1},
		{name: "a dead letter is not runnable", status: "FAILED", runAt: never, lease: never, attempts: 1},
	} {
		t.Run(r.name, func(t *testing.T) {
			inBubble(t, ticket4, func(b *bench) {
				b.enqueue("job", "the payload", 3)
				b.exec("UPDATE jobs SET status = $1, attempts = $2, run_at = $3, lease_until = $4", r.status, r.attempts, b.at(r.runAt), b.at(r.lease))
				want := b.row("job")
				job := b.claim()
				if r.claimed {
					assert.Equal(b, &Job{ID: "job", Payload: "the payload", MaxAttempts: 3, Attempts: r.attempts + 1, ClaimedAt: b.start, FirstRunAt: b.start, Classes: map[string]int{}}, job)
					want.Status, want.Attempts, want.LeaseUntil = "RUNNING", r.attempts+1, b.at(time.Minute)
					assert.Nil(b, b.claim(), "the job is claimed once")
				} else {
					assert.Nil(b, job)
				}
				if r.died {
					want.LastError, want.EndedAt = errWorkerDied.Error(), b.at(0)
				}
				assert.Equal(b, want, b.row("job"))
			})
		})
	}
}

// The job that has been due for the longest time is claimed first. Jobs without a time come last.
// Of equal jobs, the first by id is claimed first.
func TestClaimOrder(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		for _, r := range []struct {
			id, status   string
			runAt, lease time.Duration
		}{
			{"f", "PENDING", 0, never}, {"e", "PENDING", never, never}, {"d", "RUNNING", -9000, -1000},
			{"c", "PENDING", never, never}, {"b", "PENDING", -2000, never}, {"a", "PENDING", 0, never},
		} {
			b.enqueue(r.id, "", 0)
			b.exec("UPDATE jobs SET status = $1, run_at = $2, lease_until = $3 WHERE id = $4", r.status, b.at(r.runAt), b.at(r.lease), r.id)
		}
		order := ""
		for job := b.claim(); job != nil; job = b.claim() {
			order += job.ID
		}
		assert.Equal(b, "bdafce", order)
	})
}

var writes = map[string]func(*Queue, context.Context, *Job) error{
	"renew":  func(q *Queue, ctx context.Context, j *Job) error { return q.Renew(ctx, j, time.Minute) },
	"finish": func(q *Queue, ctx context.Context, j *Job) error { return q.Finish(ctx, j) },
	"fail":   func(q *Queue, ctx context.Context, j *Job) error { return q.Fail(ctx, j, errors.New("down"), nil, 0) },
	"give back": func(q *Queue, ctx context.Context, j *Job) error {
		return q.GiveBack(ctx, j, errors.New("down"))
	},
	"bury": func(q *Queue, ctx context.Context, j *Job) error {
		return q.Bury(ctx, j, true, errors.New("down"), retryjob.DeadLetter{Reason: retry.ReasonPermanent})
	},
}

// The lease expires while the job runs, and another worker claims the job. Then each result of the
// first worker is refused. Each result is also refused if the job has become a dead letter, has
// been requeued with all its attempts, and is in its first attempt again.
func TestLateResult(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		refuses := func(late *Job) {
			held := b.row("job")
			for name, write := range writes {
				err := write(b.queue, b.Context(), late)
				assert.ErrorIs(b, err, ErrLost, name)
				assert.EqualError(b, err, fmt.Sprintf("job job, attempt %d: jobqueue: this worker no longer holds the claim of the job", late.Attempts), name)
				assert.Equal(b, held, b.row("job"), name)
			}
		}
		b.enqueue("job", "", 2)
		late := b.claim()
		time.Sleep(time.Minute)
		later := b.claim()
		refuses(late)
		time.Sleep(time.Minute)
		b.workOff(b.queue, nil)
		require.NoError(b, b.queue.Requeue(b.Context(), "job", true))
		job := b.claim()
		require.Equal(b, late.Attempts, job.Attempts)
		refuses(late)
		refuses(later)
		require.NoError(b, b.queue.Finish(b.Context(), job))
		assert.Equal(b, row{Status: "DONE", Attempts: 1, EndedAt: b.at(2 * time.Minute)}, b.row("job"))
		refuses(job)
	})
}

// After an attempt that does not count, the next claim has the same attempt number. Then each
// result of the first worker is refused, even a GiveBack whose answer was lost.
func TestLateResultAfterGiveBack(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 1)
		late := b.claim()
		require.NoError(b, b.queue.GiveBack(b.Context(), late, errors.New("the service stops")))
		job := b.claim()
		require.NotNil(b, job, "a job that was given back is runnable at once")
		require.Equal(b, late.Attempts, job.Attempts)
		held := b.row("job")
		for name, write := range writes {
			assert.ErrorIs(b, write(b.queue, b.Context(), late), ErrLost, name)
			assert.Equal(b, held, b.row("job"), name)
		}
		require.NoError(b, b.queue.Finish(b.Context(), job))
	})
}

func TestRequeue(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 2)
		b.workOff(b.queue, unrecoverable)
		time.Sleep(time.Hour)

		require.NoError(b, b.queue.Requeue(b.Context(), "job", false))
		assert.Equal(b, row{Status: "PENDING", Attempts: 1, EndedAt: b.at(0)}, b.row("job"))
		job := b.claim()
		require.NotNil(b, job, "a requeued job is runnable at once")
		assert.Equal(b, 2, job.Attempts)
		assert.Equal(b, job.ClaimedAt, job.FirstRunAt, "MaxElapsed starts from zero")
		require.NoError(b, writes["bury"](b.queue, b.Context(), job))

		used := b.row("job")
		assert.EqualError(b, b.queue.Requeue(b.Context(), "job", false),
			`jobqueue: "job" is not a dead letter, or has no attempts left: if it has no attempts left, requeue it with reset = true`)
		assert.Equal(b, used, b.row("job"))

		time.Sleep(time.Hour)
		require.NoError(b, b.queue.Requeue(b.Context(), "job", true))
		job = b.claim()
		require.NotNil(b, job)
		assert.Equal(b, 1, job.Attempts)
		assert.Equal(b, job.ClaimedAt, job.FirstRunAt, "MaxElapsed starts from zero")
		require.NoError(b, b.queue.Finish(b.Context(), job))

		for _, id := range []string{"job", "no such job"} {
			for _, reset := range []bool{false, true} {
				assert.ErrorContains(b, b.queue.Requeue(b.Context(), id, reset), "is not a dead letter")
			}
		}
		assert.Equal(b, "DONE", b.row("job").Status)
	})
}
