package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

// ticket4 is the policy of one of the five systems that the project was made for:
// delays of 5, 15 and 60 minutes, counted when a worker claims the job.
var ticket4 = retry.Policy{
	MaxAttempts: 4,
	Backoff:     retry.Schedule{300 * time.Second, 900 * time.Second, 3600 * time.Second},
}

func down(context.Context, *Job) error { return errors.New("down") }

func unrecoverable(context.Context, *Job) error { return retry.Permanent(errors.New("no such user")) }

// An explicit schedule, run to its end: three delays need four attempts.
func TestTicket4(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 4)
		due, runs := time.Duration(0), 0
		fail := func(context.Context, *Job) error {
			runs++
			return fmt.Errorf("failure %d", runs)
		}
		var want row
		for k, delay := range []time.Duration{300 * time.Second, 900 * time.Second, 3600 * time.Second, 0} {
			b.workOff(b.queue, fail)
			want.Status, want.Attempts, want.EndedAt, want.LastError = "PENDING", k+1, b.at(due), fmt.Sprintf("failure %d", k+1)
			due += delay
			if delay > 0 {
				want.RunAt = b.at(due)
			} else {
				want.Status, want.Reason = "FAILED", "attempts_exhausted"
			}
			require.Equal(b, want, b.row("job"))

			time.Sleep(delay - time.Microsecond)
			b.workOff(b.queue, fail)
			require.Equal(b, k+1, runs, "not a microsecond early")
			time.Sleep(time.Microsecond)
		}
		time.Sleep(math.MaxInt32 * time.Second)
		b.workOff(b.queue, fail)
		assert.Equal(b, 4, runs)
	})
}

func TestClaim(t *testing.T) {
	for _, r := range []struct {
		name     string
		status   string
		attempts int
		runAt    time.Duration // from now; never: NULL
		lease    time.Duration
		claimed  bool
		died     bool
	}{
		{name: "run_at NULL is runnable now", status: "PENDING", runAt: never, lease: never, claimed: true},
		{name: "run_at equal to now is runnable", status: "PENDING", lease: never, claimed: true},
		{name: "run_at before now is runnable", status: "PENDING", runAt: -1000, lease: never, attempts: 2, claimed: true},
		{name: "run_at before 1970 is runnable", status: "PENDING", runAt: -100 * 366 * 24 * time.Hour, lease: never, claimed: true},
		{name: "run_at after now is not", status: "PENDING", runAt: 1000, lease: never, attempts: 2},
		{name: "with a lease is not, whatever run_at", status: "RUNNING", runAt: -1000, lease: 1000, attempts: 1},
		{name: "with a lease that ends now is reclaimed, and its attempt stays counted", status: "RUNNING", runAt: never, attempts: 1, claimed: true, died: true},
		{name: "done is not", status: "DONE", runAt: never, lease: never, attempts: 1},
		{name: "a dead letter is not", status: "FAILED", runAt: never, lease: never, attempts: 1},
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
					assert.Nil(b, b.claim(), "it is claimed once")
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

// The job that has been due the longest goes first, then the jobs without a time.
// Of equals the first by id goes first.
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

// A claim does not wait for a row that another worker is just claiming.
func TestClaimSkipsLockedRows(t *testing.T) {
	t.Parallel()
	queue, db := postgresServer(t).queue(t)
	for _, id := range []string{"a", "b"} {
		require.NoError(t, queue.Enqueue(t.Context(), id, "", 0, 0))
	}
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	_, err = tx.ExecContext(t.Context(), "SELECT 1 FROM jobs WHERE id = 'a' FOR UPDATE")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	job, err := queue.Claim(ctx, time.Minute)
	require.NoError(t, err)
	require.NotNil(t, job)
	assert.Equal(t, "b", job.ID)
}

// One answer of the database in ten is lost: the statement is executed, but the
// worker gets an error. A job whose claim was lost that way waits for the end of its
// lease.
func TestLostAnswers(t *testing.T) {
	inBubble(t, retry.Policy{MaxAttempts: 4}, func(b *bench) {
		const jobs = 100
		for i := range jobs {
			b.enqueue(fmt.Sprint(i), []string{"succeeds", "fails"}[i%2], 0)
		}
		statements := 0
		b.around = func(_ context.Context, query string, do func(string) error) error {
			err := do(query)
			if statements++; err == nil && statements%10 == 0 {
				err = syscall.ECONNRESET
			}
			return err
		}
		runs := map[string][]int{} // the attempts by job
		w := b.worker(func(_ context.Context, job *Job) error {
			runs[job.ID] = append(runs[job.ID], job.Attempts)
			if job.Payload == "fails" {
				return errors.New("down")
			}
			return nil
		})
		for range 9 { // more often than an answer to a claim of one job is lost
			err := error(syscall.ECONNRESET)
			for transient(err) {
				err = w.workOff(b.Context())
			}
			require.ErrorIs(b, err, errIdle)
			time.Sleep(w.Lease)
		}
		b.around = untouched
		claims, made := 0, 0
		for i := range jobs {
			id := fmt.Sprint(i)
			got := b.row(id)
			claims, made = claims+got.Attempts, made+len(runs[id])
			for k, attempt := range runs[id] {
				assert.True(b, attempt <= 4 && (k == 0 || runs[id][k-1] < attempt), "job %s ran in the attempts %v", id, runs[id])
			}
			if got.Status == "DONE" {
				assert.Zero(b, i%2, "job %s cannot succeed", id)
				assert.Contains(b, runs[id], got.Attempts, "job %s", id)
			} else {
				assert.Equal(b, "FAILED attempts_exhausted", got.Status+" "+got.Reason, "job %s", id)
				assert.Contains(b, []string{"down", errWorkerDied.Error()}, got.LastError, "job %s", id)
			}
		}
		assert.Less(b, made, claims, "claims were lost")
	})
}

var writes = map[string]func(*Queue, context.Context, *Job) error{
	"renew":  func(q *Queue, ctx context.Context, j *Job) error { return q.Renew(ctx, j, time.Minute) },
	"finish": func(q *Queue, ctx context.Context, j *Job) error { return q.Finish(ctx, j) },
	"fail":   func(q *Queue, ctx context.Context, j *Job) error { return q.Fail(ctx, j, errors.New("down"), nil, 0) },
	"bury": func(q *Queue, ctx context.Context, j *Job) error {
		return q.Bury(ctx, j, true, errors.New("down"), retryjob.DeadLetter{Reason: retry.ReasonPermanent})
	},
}

// The lease expires while the job runs, and another worker claims the job. Whatever
// result the first worker writes then is refused, also if the job has meanwhile died,
// been requeued with all its attempts, and is in its first attempt again.
func TestLateResult(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		refuses := func(late *Job) {
			held := b.row("job")
			for name, write := range writes {
				err := write(b.queue, b.Context(), late)
				assert.ErrorIs(b, err, ErrLost, name)
				assert.EqualError(b, err, fmt.Sprintf("job job, attempt %d: jobqueue: the claim is lost", late.Attempts), name)
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

// A limit that is lowered also applies to jobs that already wait. The claim that
// finds this out is no attempt, and the error stays that of the last one.
func TestLowerLimit(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		b.workOff(b.queue, down)
		time.Sleep(time.Hour)
		lower := ticket4
		lower.AttemptCap = 1
		b.workOff(b.queueFor(lower), nil)
		got := b.row("job")
		assert.Equal(b, [...]any{"FAILED", 1, "attempts_exhausted", "down"}, [...]any{got.Status, got.Attempts, got.Reason, got.LastError})
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
		require.NotNil(b, job, "it is runnable at once")
		assert.Equal(b, 2, job.Attempts)
		assert.Equal(b, job.ClaimedAt, job.FirstRunAt, "MaxElapsed starts from zero")
		require.NoError(b, writes["bury"](b.queue, b.Context(), job))

		used := b.row("job")
		assert.EqualError(b, b.queue.Requeue(b.Context(), "job", false),
			`jobqueue: "job" is not a dead letter, or has no attempts left: requeue it with reset`)
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

// The dead letters are in the order in which they ended. One that an operator
// changed by hand does not hide the others.
func TestDeadLetters(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		for _, id := range []string{"c", "b", "a"} {
			b.enqueue(id, "payload of "+id, 1)
			b.workOff(b.queue, unrecoverable)
			if id == "c" {
				time.Sleep(time.Microsecond)
			}
		}
		b.exec("UPDATE jobs SET dead_letter = NULL WHERE id = 'a'")
		b.exec("UPDATE jobs SET dead_letter = 'by hand' WHERE id = 'b'")
		letters, err := b.queue.DeadLetters(b.Context())
		require.NoError(b, err)
		require.Len(b, letters, 3)
		text, err := json.Marshal(letters[0].DeadLetter)
		require.NoError(b, err)
		now := b.start.UTC().Format(time.RFC3339Nano)
		assert.JSONEq(b, `{"key":"c","reason":"permanent_error","attempts":1,"err":"retry: permanent error after 1 attempt: no such user",
			"began":"`+now+`","ended":"`+now+`"}`, string(text))
		assert.Equal(b, []DeadLetter{
			{DeadLetter: letters[0].DeadLetter, ID: "c", Payload: "payload of c"},
			{DeadLetter: retryjob.DeadLetter{Key: "a"}, ID: "a", Payload: "payload of a"},
			{DeadLetter: retryjob.DeadLetter{Key: "b"}, ID: "b", Payload: "payload of b"},
		}, letters)
	})
}

// Two redrivers at once move each job once, to its moment in the window. A job that has
// died again since the first one saw it stays.
func TestTwoRedrivers(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		for _, id := range []string{"a", "b"} {
			b.enqueue(id, "", 1)
		}
		b.workOff(b.queue, unrecoverable)
		inner := false
		outer, err := b.queue.Redrive(b.Context(), retryjob.RedriveOptions{Filter: func(d retryjob.DeadLetter) bool {
			if inner {
				return true
			}
			inner = true
			result, err := b.queue.Redrive(b.Context(), retryjob.RedriveOptions{Window: time.Hour})
			require.NoError(b, err)
			assert.Equal(b, retryjob.RedriveResult{Found: 2, Moved: 2}, result)
			for _, id := range []string{"a", "b"} {
				due := retryjob.Spread(id, time.Hour)
				assert.Equal(b, row{Status: "PENDING", RunAt: b.at((due + time.Microsecond - 1).Truncate(time.Microsecond)), EndedAt: b.at(0)}, b.row(id))
			}
			time.Sleep(time.Hour + time.Second)
			b.workOff(b.queue, unrecoverable)
			return true
		}})
		require.NoError(b, err)
		assert.Equal(b, retryjob.RedriveResult{Found: 2, Skipped: 2}, outer)
		assert.Equal(b, "FAILED", b.row("a").Status)
	})
}

func TestEnqueue(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		require.NoError(b, b.queue.Enqueue(b.Context(), "later", "first", 3, 1999*time.Nanosecond))
		assert.Nil(b, b.claim())
		require.NoError(b, b.queue.Enqueue(b.Context(), "later", "second", 9, 0), "enqueueing it again is not an error")
		assert.Equal(b, row{Status: "PENDING", RunAt: b.at(2 * time.Microsecond)}, b.row("later"))
		time.Sleep(2 * time.Microsecond)
		job := b.claim()
		assert.Equal(b, [...]any{"first", 3}, [...]any{job.Payload, job.MaxAttempts})
		require.NoError(b, b.queue.Enqueue(b.Context(), "later", "third", 9, 0))
		assert.Equal(b, "RUNNING", b.row("later").Status)
	})
}

func TestNewQueueRefuses(t *testing.T) {
	_, err := NewQueue(nil, sqliteDialect, retry.Policy{MaxAttempts: -2})
	assert.ErrorContains(t, err, "MaxAttempts is -2")
}
