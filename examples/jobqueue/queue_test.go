package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// ticket4 is the policy of one of the five systems that the project was made for:
// delays of 5, 15 and 60 minutes, counted when a worker claims the job.
var ticket4 = retry.Policy{
	MaxAttempts: 4,
	Backoff:     retry.Schedule{300 * time.Second, 900 * time.Second, 3600 * time.Second},
}

// An explicit schedule, run to its end: three delays need four attempts.
func TestTicket4(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("job", "", 4)
		now, runs := int64(noon), 0
		var runAt sql.NullInt64
		fail := func(context.Context, *Job) error {
			runs++
			return fmt.Errorf("failure %d", runs)
		}
		for _, want := range []struct {
			status string
			delay  time.Duration
			reason string
		}{
			{status: "PENDING", delay: 300 * time.Second},
			{status: "PENDING", delay: 900 * time.Second},
			{status: "PENDING", delay: 3600 * time.Second},
			{status: "FAILED", reason: "attempts_exhausted"},
		} {
			before := runs
			b.workOff(b.queue, fail)
			require.Equal(t, before+1, runs)
			if want.status == "PENDING" {
				runAt = at(now + want.delay.Microseconds())
			}
			require.Equal(t, row{
				Status: want.status, Attempts: runs, RunAt: runAt, EndedAt: at(now),
				LastError: fmt.Sprintf("failure %d", runs), Reason: want.reason,
			}, b.row("job"))

			// Not a microsecond early.
			b.setClock(now + want.delay.Microseconds() - 1)
			b.workOff(b.queue, fail)
			require.Equal(t, before+1, runs)
			now += want.delay.Microseconds()
			b.setClock(now)
		}
		b.pass(math.MaxInt32 * time.Second)
		b.workOff(b.queue, fail)
		assert.Equal(t, 4, runs)
		letters, err := b.queue.DeadLetters(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []DeadLetter{{ID: "job", Reason: string(retry.ReasonExhausted), Attempts: 4, Error: "failure 4"}}, letters)
	})
}

// With three attempts the delay of an hour is never reached.
func TestTicket4OldBug(t *testing.T) {
	assert.Empty(t, ticket4.Lint())
	assert.NoError(t, ticket4.Validate())
	old := ticket4
	old.MaxAttempts = 3
	require.Len(t, old.Lint(), 1)
	assert.Contains(t, old.Lint()[0], "the delay of 1h0m0s and those after it are never used")
	assert.Len(t, ticket4.ForJob(3).Lint(), 1, "the limit of a job counts as much")
}

func TestClaim(t *testing.T) {
	for _, r := range []struct {
		name     string
		status   string
		attempts int
		runAt    any
		lease    any
		claimed  bool
		died     bool
	}{
		{name: "run_at NULL is runnable now", status: "PENDING", claimed: true},
		{name: "run_at equal to now is runnable", status: "PENDING", runAt: noon, claimed: true},
		{name: "run_at before now is runnable", status: "PENDING", runAt: noon - 1, attempts: 2, claimed: true},
		{name: "run_at before 1970 is runnable", status: "PENDING", runAt: -1, claimed: true},
		{name: "run_at after now is not", status: "PENDING", runAt: noon + 1, attempts: 2},
		{name: "with a lease is not", status: "RUNNING", lease: noon + 1, attempts: 1},
		{name: "with a lease is not, whatever run_at", status: "RUNNING", runAt: noon - 1, lease: noon + 1, attempts: 1},
		{name: "with a lease that ends now is reclaimed, and its attempt stays counted", status: "RUNNING", lease: noon, attempts: 1, claimed: true, died: true},
		{name: "done is not", status: "DONE", attempts: 1},
		{name: "a dead letter is not", status: "FAILED", attempts: 1},
	} {
		t.Run(r.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s server) {
				b := newBench(t, s, ticket4)
				b.enqueue("job", "the payload", 3)
				b.exec("UPDATE jobs SET status = $1, attempts = $2, run_at = $3, lease_until = $4", r.status, r.attempts, r.runAt, r.lease)
				before := b.row("job")
				job := b.claim()
				if !r.claimed {
					assert.Nil(t, job)
					assert.Equal(t, before, b.row("job"))
					return
				}
				require.NotNil(t, job)
				assert.Equal(t, [...]any{"job", "the payload", 3, r.attempts + 1}, [...]any{job.ID, job.Payload, job.MaxAttempts, job.Attempts})
				assert.Equal(t, int64(noon), job.ClaimedAt.UnixMicro())
				assert.Equal(t, int64(noon), job.FirstRunAt.UnixMicro())
				after := before
				after.Status, after.Attempts, after.LeaseUntil = "RUNNING", r.attempts+1, at(noon+60_000_000)
				if r.died {
					after.LastError, after.EndedAt = errWorkerDied.Error(), at(noon)
				}
				assert.Equal(t, after, b.row("job"))
				assert.Nil(t, b.claim(), "it is claimed once")
			})
		})
	}
}

// The job that has been due the longest goes first, then the jobs without a time.
// Of equals the first by id goes first.
func TestClaimOrder(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		for _, r := range []struct {
			id    string
			runAt any
			lease any
		}{{"f", noon, nil}, {"e", nil, nil}, {"d", noon - 9, noon - 1}, {"c", nil, nil}, {"b", noon - 2, nil}, {"a", noon, nil}} {
			b.enqueue(r.id, "", 0)
			b.exec("UPDATE jobs SET run_at = $1, lease_until = $2 WHERE id = $3", r.runAt, r.lease, r.id)
			if r.lease != nil {
				b.exec("UPDATE jobs SET status = 'RUNNING', attempts = 1 WHERE id = $1", r.id)
			}
		}
		order := ""
		for job := b.claim(); job != nil; job = b.claim() {
			order += job.ID
		}
		assert.Equal(t, "bdafce", order)
	})
}

func TestTwoWorkersOneRow(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		other, err := NewQueue(s.open(t), b.dialect, ticket4)
		require.NoError(t, err)
		for i := range 50 {
			id := fmt.Sprint("job ", i)
			b.enqueue(id, "", 0)
			var claimed [2]*Job
			var errs [2]error
			var workers sync.WaitGroup
			together := make(chan struct{})
			for k, q := range []*Queue{b.queue, other} {
				workers.Go(func() {
					<-together
					for claimed[k], errs[k] = q.Claim(t.Context(), time.Minute); transient(errs[k]); {
						claimed[k], errs[k] = q.Claim(t.Context(), time.Minute)
					}
				})
			}
			close(together)
			workers.Wait()
			require.NoError(t, errors.Join(errs[:]...))
			require.True(t, (claimed[0] == nil) != (claimed[1] == nil), "%v", claimed)
			require.Equal(t, 1, b.row(id).Attempts)
		}
	})
}

// A claim does not wait for a row that another worker is just claiming.
func TestClaimSkipsLockedRows(t *testing.T) {
	t.Parallel()
	url := postgresURL(t)
	b := newBench(t, server{dialect: postgresDialect, url: url, place: newSchema(t, url)}, ticket4)
	b.enqueue("a", "", 0)
	b.enqueue("b", "", 0)
	tx, err := b.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	_, err = tx.ExecContext(t.Context(), "SELECT 1 FROM jobs WHERE id = 'a' FOR UPDATE")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	job, err := b.queue.Claim(ctx, time.Minute)
	require.NoError(t, err)
	require.NotNil(t, job)
	assert.Equal(t, "b", job.ID)
}

// TestTaskHarborMax runs a job until it is dead, by its own limit and the
// policy's.
func TestTaskHarborMax(t *testing.T) {
	for _, r := range []struct {
		name           string
		job, effective int
		policy         *retrydialect.TaskHarbor
	}{
		{"the job's is smaller", 5, 5, &retrydialect.TaskHarbor{MaxAttempts: 25}},
		{"the policy's alone", 0, 25, &retrydialect.TaskHarbor{MaxAttempts: 25}},
		{"the policy's is smaller", 20, 10, &retrydialect.TaskHarbor{MaxAttempts: 10}},
		{"the job's alone", 10, 10, &retrydialect.TaskHarbor{}},
		{"neither", 0, 1, &retrydialect.TaskHarbor{}},
		{"neither, below zero", -1, 1, &retrydialect.TaskHarbor{MaxAttempts: -1}},
		{"50 and 25", 50, 25, &retrydialect.TaskHarbor{MaxAttempts: 25}},
		{"20 and 15", 20, 15, &retrydialect.TaskHarbor{MaxAttempts: 15}},
		{"none and 15", 0, 15, &retrydialect.TaskHarbor{MaxAttempts: 15}},
		{"4 and below zero", 4, 4, &retrydialect.TaskHarbor{MaxAttempts: -1}},
		{"no policy", 5, 1, nil},
		{"no policy and no limit", 0, 1, nil},
	} {
		t.Run(r.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s server) {
				policy, err := r.policy.Policy()
				require.NoError(t, err)
				b := newBench(t, s, policy)
				b.enqueue("job", "", r.job)
				runs := 0
				b.workOff(b.queue, func(context.Context, *Job) error { // no delay: all at once
					runs++
					return errors.New("down")
				})
				assert.Equal(t, r.effective, runs)
				assert.Equal(t, "FAILED", b.row("job").Status)
				assert.Equal(t, r.effective, b.row("job").Attempts)
			})
		})
	}
}

// TestTaskHarborDeadLetter makes a job fail this often and checks whether it is
// dead.
func TestTaskHarborDeadLetter(t *testing.T) {
	for _, r := range []struct {
		max, policy, failures int
		err                   error
		reason                string // empty: it is not dead
	}{
		{max: 5, policy: 25, failures: 4, err: errors.New("down")},
		{max: 5, policy: 25, failures: 5, err: errors.New("down"), reason: "attempts_exhausted"},
		{max: 20, policy: 10, failures: 9, err: errors.New("down")},
		{max: 20, policy: 10, failures: 10, err: errors.New("down"), reason: "attempts_exhausted"},
		{max: 5, policy: 25, failures: 1, err: retry.Permanent(errors.New("unrecoverable")), reason: "permanent_error"},
	} {
		t.Run(fmt.Sprintf("%d of %d, policy %d, %v", r.failures, r.max, r.policy, r.err), func(t *testing.T) {
			onEach(t, func(t *testing.T, s server) {
				policy, err := (&retrydialect.TaskHarbor{BaseDelay: time.Second, MaxAttempts: r.policy}).Policy()
				require.NoError(t, err)
				b := newBench(t, s, policy)
				b.enqueue("job", "", r.max)
				for range r.failures {
					b.pass(1000 * time.Hour)
					b.workOff(b.queue, func(context.Context, *Job) error { return r.err })
				}
				got := b.row("job")
				assert.Equal(t, r.failures, got.Attempts)
				assert.Equal(t, r.err.Error(), got.LastError)
				assert.Equal(t, r.reason, got.Reason)
				want := "PENDING"
				if r.reason != "" {
					want = "FAILED"
				}
				assert.Equal(t, want, got.Status)
			})
		})
	}
}

// What a failure stores, to the microsecond: the delay is rounded up, never early.
func TestTaskHarborRecord(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, retry.Policy{MaxAttempts: 25, Backoff: retry.Fixed(200*time.Millisecond + 1999)})
		b.enqueue("job", "", 5)
		job := b.claim()
		assert.Equal(t, row{Status: "RUNNING", Attempts: 1, LeaseUntil: at(noon + 60_000_000)}, b.row("job"))
		b.pass(3 * time.Second)
		w := failing(b)
		require.NoError(t, w.execute(t.Context(), job))
		assert.Equal(t, row{
			Status: "PENDING", Attempts: 1, RunAt: at(noon + 3_200_002), EndedAt: at(noon + 3_000_000), LastError: "down",
		}, b.row("job"))
	})
}

func TestTasker(t *testing.T) {
	yes, no := true, false
	number := func(n int) *int { return &n }
	for _, r := range []struct {
		retryable   *bool
		maxAttempts *int
		attempts    int
		eligible    bool
	}{
		{&yes, number(0), 0, true},
		{&yes, number(0), 1, false},
		{&yes, number(1), 0, true},
		{&yes, number(1), 1, false},
		{&yes, number(3), 0, true},
		{&yes, number(3), 1, true},
		{&yes, number(3), 2, true},
		{&yes, number(3), 3, false},
		{&no, number(1), 0, true},
		{&no, number(1), 1, false},
		{&no, number(3), 0, true},
		{&no, number(3), 1, false},
		{&no, number(3), 2, false},
		{&yes, number(999999), 0, true},
		{&yes, number(999999), 1, true},
		{&yes, number(999999), 999998, true},
		{&yes, number(999999), 999999, false},
		{nil, nil, 0, true},
		{nil, nil, 2, true},
		{nil, nil, 3, false},
	} {
		name := fmt.Sprintf("%s of %s, attempts %d", show(r.retryable), show(r.maxAttempts), r.attempts)
		t.Run(name, func(t *testing.T) {
			if r.maxAttempts != nil && *r.maxAttempts == 0 {
				r.maxAttempts = number(1) // a row may hold 0, which also means one attempt
			}
			policy, err := retrydialect.Tasker{Retryable: r.retryable, MaxAttempts: r.maxAttempts}.Policy()
			require.NoError(t, err)
			onEach(t, func(t *testing.T, s server) {
				b := newBench(t, s, policy)
				b.enqueue("job", "", 0)
				b.exec("UPDATE jobs SET attempts = $1", r.attempts)
				ran := false
				b.workOff(b.queue, func(context.Context, *Job) error { ran = true; return nil })
				assert.Equal(t, r.eligible, ran)
				if r.eligible {
					assert.Equal(t, r.attempts+1, b.row("job").Attempts)
					assert.Equal(t, "DONE", b.row("job").Status)
				} else {
					reason := "attempts_exhausted"
					if r.retryable == &no {
						reason = "not_retryable"
					}
					assert.Equal(t, r.attempts, b.row("job").Attempts)
					assert.Equal(t, "FAILED", b.row("job").Status)
					assert.Equal(t, reason, b.row("job").Reason)
				}
			})
		})
	}
}

func show[T any](p *T) string {
	if p == nil {
		return "null"
	}
	return fmt.Sprint(*p)
}

// The lease expires while the job runs, and another worker claims the job. Whatever
// result the first worker writes then is refused.
func TestLateResult(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("job", "", 4)
		late := b.claim()
		b.pass(time.Minute)
		job := b.claim()
		require.Equal(t, 2, job.Attempts)
		held := b.row("job")
		for name, write := range writes {
			assert.ErrorIs(t, write(b.queue, t.Context(), late), ErrLost, name)
			assert.EqualError(t, write(b.queue, t.Context(), late), "job job, attempt 1: jobqueue: the claim is lost", name)
			assert.Equal(t, held, b.row("job"), name)
		}
		require.NoError(t, writes["finish"](b.queue, t.Context(), job))
		done := b.row("job")
		assert.Equal(t, row{Status: "DONE", Attempts: 2, EndedAt: at(noon + 60_000_000), LastError: errWorkerDied.Error()}, done)
		for name, write := range writes {
			assert.ErrorIs(t, write(b.queue, t.Context(), late), ErrLost, name)
			assert.ErrorIs(t, write(b.queue, t.Context(), job), ErrLost, name+", a second result")
			assert.Equal(t, done, b.row("job"), name)
		}
	})
}

// failing returns a worker whose jobs fail.
func failing(b *bench) *Worker {
	return &Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour, Run: func(context.Context, *Job) error { return errors.New("down") }}
}

var writes = map[string]func(*Queue, context.Context, *Job) error{
	"renew":  func(q *Queue, ctx context.Context, j *Job) error { return q.Renew(ctx, j, time.Minute) },
	"finish": func(q *Queue, ctx context.Context, j *Job) error { return q.Finish(ctx, j) },
	"fail": func(q *Queue, ctx context.Context, j *Job) error {
		return q.Fail(ctx, j, errors.New("down"), 0)
	},
	"bury": func(q *Queue, ctx context.Context, j *Job) error {
		return q.Bury(ctx, j, true, errors.New("down"), retry.ReasonPermanent)
	},
}

// A worker that dies in the last attempt of a job leaves a dead letter.
func TestWorkerDiesInLastAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("job", "", 2)
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("an earlier failure") })
		b.pass(300 * time.Second)
		require.NotNil(t, b.claim())
		b.pass(time.Minute - time.Microsecond)
		b.workOff(b.queue, nil)
		require.Equal(t, "RUNNING", b.row("job").Status)
		b.pass(time.Microsecond)
		b.workOff(b.queue, nil) // there is nothing to run
		now := int64(noon + 360_000_000)
		assert.Equal(t, row{
			Status: "FAILED", Attempts: 2, RunAt: at(noon + 300_000_000), EndedAt: at(now),
			LastError: "the lease expired: the worker died or lost the database", Reason: "attempts_exhausted",
		}, b.row("job"))
	})
}

// A limit that is lowered also applies to jobs that already wait.
func TestLowerLimit(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("job", "", 0)
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("down") })
		b.pass(time.Hour)
		lower := ticket4
		lower.AttemptCap = 1
		b.workOff(b.queueFor(lower), nil)
		got := b.row("job")
		assert.Equal(t, [...]any{"FAILED", 1, "attempts_exhausted", "down"}, [...]any{got.Status, got.Attempts, got.Reason, got.LastError})
	})
}

func TestRequeue(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		unrecoverable := func(context.Context, *Job) error { return retry.Permanent(errors.New("no such user")) }
		b.enqueue("job", "", 2)
		b.workOff(b.queue, unrecoverable)
		b.pass(time.Hour)

		require.NoError(t, b.queue.Requeue(t.Context(), "job", false))
		assert.Equal(t, row{Status: "PENDING", Attempts: 1, EndedAt: at(noon)}, b.row("job"))
		job := b.claim()
		require.NotNil(t, job, "it is runnable at once")
		assert.Equal(t, 2, job.Attempts)
		require.NoError(t, writes["bury"](b.queue, t.Context(), job))

		used := b.row("job")
		assert.EqualError(t, b.queue.Requeue(t.Context(), "job", false),
			`jobqueue: "job" is not a dead letter, or has no attempts left: requeue it with reset`)
		assert.Equal(t, used, b.row("job"))

		require.NoError(t, b.queue.Requeue(t.Context(), "job", true))
		assert.Equal(t, 0, b.row("job").Attempts)
		job = b.claim()
		require.NotNil(t, job)
		assert.Equal(t, 1, job.Attempts)
		assert.Equal(t, job.ClaimedAt, job.FirstRunAt, "its clock starts again")
		require.NoError(t, writes["finish"](b.queue, t.Context(), job))

		for _, id := range []string{"job", "no such job"} {
			for _, reset := range []bool{false, true} {
				assert.ErrorContains(t, b.queue.Requeue(t.Context(), id, reset), "is not a dead letter")
			}
		}
		assert.Equal(t, "DONE", b.row("job").Status)
	})
}

// A requeued job begins MaxElapsed again, even if it keeps its count of attempts.
func TestRequeueAfterMaxElapsed(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second})
		b.enqueue("job", "", 0)
		down := func(context.Context, *Job) error { return errors.New("down") }
		b.workOff(b.queue, down)
		require.Equal(t, "elapsed", b.row("job").Reason)
		b.pass(time.Hour)
		require.NoError(t, b.queue.Requeue(t.Context(), "job", false))
		job := b.claim()
		require.NotNil(t, job)
		assert.Equal(t, 2, job.Attempts)
		assert.Equal(t, job.ClaimedAt, job.FirstRunAt)
	})
}

func TestDeadLetters(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		for _, id := range []string{"c", "b", "a"} {
			b.enqueue(id, "payload of "+id, 0)
			b.workOff(b.queue, func(context.Context, *Job) error { return retry.Permanent(errors.New("no such user")) })
			if id == "c" {
				b.pass(time.Microsecond)
			}
		}
		letters, err := b.queue.DeadLetters(t.Context())
		require.NoError(t, err)
		var want []DeadLetter
		for _, id := range []string{"c", "a", "b"} {
			want = append(want, DeadLetter{ID: id, Payload: "payload of " + id, Reason: string(retry.ReasonPermanent), Attempts: 1, Error: "no such user"})
		}
		assert.Equal(t, want, letters)
	})
}

// A worker writes the result of the first attempt of a job that has meanwhile died,
// been requeued with all its attempts, and is in its first attempt again.
func TestLateResultOfAnEarlierLife(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("job", "", 1)
		late := b.claim()
		b.pass(time.Minute)
		b.workOff(b.queue, nil)
		require.Equal(t, "FAILED", b.row("job").Status)
		require.NoError(t, b.queue.Requeue(t.Context(), "job", true))
		job := b.claim()
		require.Equal(t, late.Attempts, job.Attempts)
		for name, write := range writes {
			assert.ErrorIs(t, write(b.queue, t.Context(), late), ErrLost, name)
		}
		assert.NoError(t, writes["finish"](b.queue, t.Context(), job))
	})
}

// If the clock is set back, what waits is delayed, and no job is claimed twice.
func TestClockSetBack(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		elapsed := ticket4
		elapsed.MaxElapsed = 2 * time.Hour
		b := newBench(t, s, elapsed)
		b.enqueue("runs", "", 0)
		b.enqueue("waits", "", 0)
		running := b.claim()
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("down") })
		b.setClock(noon - 3_600_000_000)

		assert.Nil(t, b.claim(), "the lease holds, and the other waits")
		require.NoError(t, b.queue.Renew(t.Context(), running, time.Minute))
		assert.Nil(t, b.claim())
		w := failing(b)
		require.NoError(t, w.execute(t.Context(), running))
		assert.Equal(t, at(noon-3_300_000_000), b.row("runs").RunAt, "the delay is counted from the clock as it is")

		b.pass(300 * time.Second)
		job := b.claim() // less than nothing has elapsed since its first attempt
		require.Equal(t, "runs", job.ID)
		assert.Negative(t, job.ClaimedAt.Sub(job.FirstRunAt))
		require.NoError(t, w.execute(t.Context(), job))
		assert.Equal(t, at(noon-2_400_000_000), b.row("runs").RunAt)

		b.setClock(noon + 300_000_000 - 1)
		assert.Equal(t, "runs", b.claim().ID)
		assert.Nil(t, b.claim())
		b.setClock(noon + 300_000_000)
		job = b.claim()
		assert.Equal(t, [...]any{"waits", 2}, [...]any{job.ID, job.Attempts})
	})
}

// A job that was enqueued to run now runs, even if the clock is set back.
func TestClockSetBackBeforeTheFirstAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		for _, id := range []string{"a", "b"} {
			b.enqueue(id, "", 0)
		}
		b.setClock(noon - 3_600_000_000)
		runs := 0
		b.workOff(b.queue, func(context.Context, *Job) error { runs++; return nil })
		assert.Equal(t, 2, runs)
	})
}

// A dead letter that an operator changed by hand does not hide the others.
func TestDeadLettersWithoutAReason(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		for _, id := range []string{"a", "b", "c"} {
			b.enqueue(id, "", 1)
		}
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("down") })
		b.exec("UPDATE jobs SET reason = NULL, last_error = NULL WHERE id = 'a'")
		b.exec("UPDATE jobs SET reason = 'by hand' WHERE id = 'b'")
		letters, err := b.queue.DeadLetters(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []DeadLetter{
			{ID: "a", Attempts: 1},
			{ID: "b", Reason: "by hand", Attempts: 1, Error: "down"},
			{ID: "c", Reason: "attempts_exhausted", Attempts: 1, Error: "down"},
		}, letters)
	})
}

// If the clock is set ahead, all leases end. A job that fails then waits longer once
// the clock is right again, and a job that runs gets its lease back by renewal.
func TestClockSetAhead(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("fails", "", 0)
		b.enqueue("runs", "", 0)
		before := []*Job{b.claim(), b.claim()}
		b.pass(time.Hour)
		fails, runs := b.claim(), b.claim()
		for i, job := range []*Job{fails, runs} {
			require.Equal(t, [...]any{before[i].ID, 2}, [...]any{job.ID, job.Attempts})
			for name, write := range writes {
				assert.ErrorIs(t, write(b.queue, t.Context(), before[i]), ErrLost, name)
			}
		}
		w := failing(b)
		require.NoError(t, w.execute(t.Context(), fails))
		b.setClock(noon)

		require.NoError(t, b.queue.Renew(t.Context(), runs, time.Minute))
		assert.Equal(t, at(noon+60_000_000), b.row("runs").LeaseUntil)
		b.pass(time.Minute)
		assert.Equal(t, "runs", b.claim().ID)
		b.setClock(noon + 3_600_000_000 + 900_000_000 - 1)
		assert.Equal(t, "runs", b.claim().ID)
		assert.Nil(t, b.claim())
		b.pass(time.Microsecond)
		assert.Equal(t, "fails", b.claim().ID)
	})
}

// MaxElapsed counts from the first attempt, in whatever process that was.
func TestMaxElapsed(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(time.Minute), MaxElapsed: 3 * time.Minute})
		b.enqueue("job", "", 0)
		w := failing(b)
		for _, want := range []row{{Status: "PENDING", Attempts: 1}, {Status: "PENDING", Attempts: 2}, {Status: "FAILED", Attempts: 3, Reason: "elapsed"}} {
			require.NoError(t, w.execute(t.Context(), b.claim()))
			got := b.row("job")
			assert.Equal(t, want, row{Status: got.Status, Attempts: got.Attempts, Reason: got.Reason})
			b.pass(time.Minute)
		}
	})
}

// The delays of a job are the same whichever worker computes them.
func TestRestartedWorkerComputesSameDelays(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		policy := retry.Policy{MaxAttempts: 9, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.Proportional(0.5)}
		b := newBench(t, s, policy)
		var delays [2][]int64
		for life := range delays {
			id := "job 17"
			for k := range 8 {
				if k == 0 {
					b.exec("DELETE FROM jobs")
					b.enqueue(id, "", 0)
				}
				// A new queue each time, as in a new process.
				b.workOff(b.queueFor(policy), func(context.Context, *Job) error { return errors.New("down") })
				r := b.row(id)
				delays[life] = append(delays[life], r.RunAt.Int64-r.EndedAt.Int64)
				b.setClock(r.RunAt.Int64)
			}
		}
		assert.Equal(t, delays[0], delays[1])
		for k, us := range delays[0] {
			d := policy.Next(retry.Attempt{Number: k + 1, Seed: retry.SeedOf("job 17")})
			assert.Equal(t, (d.Delay + time.Microsecond - 1).Microseconds(), us)
		}
	})
}

func TestEnqueue(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		require.NoError(t, b.queue.Enqueue(t.Context(), "later", "first", 3, 1999*time.Nanosecond))
		assert.Equal(t, row{Status: "PENDING", RunAt: at(noon + 2)}, b.row("later"))
		assert.Nil(t, b.claim())
		require.NoError(t, b.queue.Enqueue(t.Context(), "later", "second", 9, 0), "enqueueing it again is not an error")
		assert.Equal(t, row{Status: "PENDING", RunAt: at(noon + 2)}, b.row("later"))
		b.pass(2 * time.Microsecond)
		job := b.claim()
		assert.Equal(t, [...]any{"first", 3}, [...]any{job.Payload, job.MaxAttempts})
		require.NoError(t, b.queue.Enqueue(t.Context(), "later", "third", 9, 0))
		assert.Equal(t, "RUNNING", b.row("later").Status)
	})
}

// A job ends even if its error has text that a database refuses.
func TestErrorText(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("fails", "", 2)
		b.enqueue("is buried", "", 1)
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("a\x00b\xffc 'd' $1") })
		assert.Equal(t, "a\uFFFDb\uFFFDc 'd' $1", b.row("fails").LastError)
		assert.Equal(t, "a\uFFFDb\uFFFDc 'd' $1", b.row("is buried").LastError)
	})
}

func TestNewQueueRefuses(t *testing.T) {
	_, err := NewQueue(nil, sqliteDialect, retry.Policy{MaxAttempts: -2})
	assert.ErrorContains(t, err, "MaxAttempts is -2")
}
