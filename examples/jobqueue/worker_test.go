package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// The lease of a job is renewed while it runs, so that nobody else gets it.
func TestLeaseIsRenewed(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("job", "", 0)
		const lease = 3 * time.Second
		run := func(ctx context.Context, _ *Job) error {
			for range 2 {
				b.pass(lease - time.Microsecond)
				now := b.number("SELECT us FROM clock")
				renewed := retry.Do(ctx, retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(time.Millisecond)}, func(context.Context) error {
					if b.number("SELECT lease_until FROM jobs") == now+lease.Microseconds() {
						return nil
					}
					return errors.New("not yet")
				})
				if renewed != nil {
					return renewed
				}
				if job, err := b.queue.Claim(ctx, lease); job != nil || err != nil {
					return errors.New("another worker has the job")
				}
			}
			return nil
		}
		w := Worker{Queue: b.queue, Run: run, Lease: lease, Poll: time.Hour}
		require.ErrorIs(t, w.workOff(t.Context()), errIdle)
		got := b.row("job")
		assert.Equal(t, [...]any{"DONE", 1, ""}, [...]any{got.Status, got.Attempts, got.LastError})
	})
}

// A job whose claim is lost is told so, and its result is refused.
func TestLostClaimEndsJob(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("job", "", 0)
		var cause error
		w := Worker{Queue: b.queue, Lease: 3 * time.Second, Poll: time.Hour, Run: func(ctx context.Context, _ *Job) error {
			b.exec("UPDATE jobs SET attempts = 2") // as another worker's claim does
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}}
		require.ErrorIs(t, w.workOff(t.Context()), errIdle)
		assert.ErrorIs(t, cause, ErrLost)
		got := b.row("job")
		assert.Equal(t, [...]any{"RUNNING", 2, ""}, [...]any{got.Status, got.Attempts, got.LastError})
	})
}

// Where the lease cannot be renewed the job ends, and its failure says why.
func TestLeaseCannotBeRenewed(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("job", "", 0)
		renewing := b.queueFor(ticket4)
		w := Worker{Queue: renewing, Lease: 3 * time.Second, Poll: time.Hour, Run: func(ctx context.Context, _ *Job) error {
			b.exec("ALTER TABLE clock RENAME TO no_clock")
			<-ctx.Done()
			b.exec("ALTER TABLE no_clock RENAME TO clock")
			return ctx.Err()
		}}
		require.ErrorIs(t, w.workOff(t.Context()), errIdle)
		got := b.row("job")
		assert.Equal(t, "PENDING", got.Status)
		assert.Regexp(t, "^context canceled, for the lease could not be renewed: retry: rejected after [0-9]+ attempts?.*: job job, attempt 1: .*clock", got.LastError)
	})
}

// A worker that is told to end lets its job end first, and claims no other.
func TestWorkEnds(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("first", "", 0)
		b.enqueue("second", "", 0)
		ctx, end := context.WithCancel(t.Context())
		w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour, Run: func(ctx context.Context, job *Job) error {
			end()
			return ctx.Err()
		}}
		require.NoError(t, w.Work(ctx))
		assert.Equal(t, "DONE", b.row("first").Status)
		assert.Equal(t, row{Status: "PENDING", RunAt: at(noon)}, b.row("second"))
		require.NoError(t, w.Work(ctx), "it claims nothing at all")
		assert.Equal(t, 0, b.row("second").Attempts)
	})
}

// A worker whose time ends before the next look does not wait for either.
func TestWorkEndsWhereNothingIsRunnable(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, (&Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour}).Work(ctx))
		assert.NoError(t, ctx.Err())
	})
}

// Work polls while nothing is runnable.
func TestWorkPolls(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		ctx, end := context.WithCancel(t.Context())
		w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Millisecond, Run: func(context.Context, *Job) error {
			end()
			return nil
		}}
		require.NoError(t, b.queue.Enqueue(ctx, "job", "", 0, time.Hour))
		time.AfterFunc(20*time.Millisecond, func() { b.setClock(noon + 3_600_000_000) })
		require.NoError(t, w.Work(ctx))
		assert.Equal(t, "DONE", b.row("job").Status)
	})
}

func TestWorkFails(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		assert.EqualError(t, (&Worker{Queue: b.queue, Poll: time.Second}).Work(t.Context()),
			"jobqueue: Lease is 0s and Poll 1s: write durations above 0")
		assert.EqualError(t, (&Worker{Queue: b.queue, Lease: time.Second}).Work(t.Context()),
			"jobqueue: Lease is 1s and Poll 0s: write durations above 0")

		// The end of the worker hides no failure of the database.
		b.enqueue("job", "", 0)
		ctx, end := context.WithCancel(t.Context())
		err := (&Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour, Run: func(context.Context, *Job) error {
			b.exec("DROP TABLE jobs")
			end()
			return nil
		}}).Work(ctx)
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.ErrorContains(t, err, "jobs")

		err = (&Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Millisecond}).Work(t.Context())
		assert.Equal(t, retry.ReasonRejected, retry.ReasonOf(err), "what does not pass is not waited for")
		assert.ErrorContains(t, err, "jobs")
	})
}

// The log of a job is that of one call, though its attempts are in several
// processes, and every decision in it can be taken again.
func TestLog(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		var log retrylog.Recorder
		policy := retry.Policy{
			MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.Proportional(0.5), OnEvent: log.OnEvent,
		}
		b := newBench(t, s, policy)
		b.enqueue("job", "", 3)
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("down") })
		b.pass(time.Minute)
		b.workOff(b.queueFor(policy), func(context.Context, *Job) error { return retry.After(time.Minute, errors.New("busy")) })
		b.pass(time.Hour)
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("down still") })

		calls, err := retrylog.Replay(log.Records())
		require.NoError(t, err)
		require.Len(t, calls, 1)
		call := calls[0]
		assert.NoError(t, call.Check(policy.ForJob(3)))
		assert.Error(t, call.Check(policy), "the limit is the job's")
		assert.Equal(t, [...]any{"job", 3, retry.ReasonExhausted, 3}, [...]any{call.Key, call.Max, call.Reason, len(call.Attempts)})
		assert.Equal(t, time.Minute, call.Attempts[1].Hint)
		assert.Equal(t, retry.SeedOf("job"), call.Attempts[0].Seed)
		assert.Equal(t, time.UnixMicro(noon+60_000_000), call.Attempts[1].Started)
		assert.Equal(t, b.row("job").EndedAt.Int64, call.Records[len(call.Records)-1].Event.Time.UnixMicro())
	})
}

// A retry that was decided just before MaxElapsed is written after it: the
// decision is right all the same.
func TestLogNearMaxElapsed(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		var log retrylog.Recorder
		policy := retry.Policy{
			MaxRetries: retry.Unlimited, Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Hour, OnEvent: log.OnEvent,
		}
		b := newBench(t, s, policy)
		b.enqueue("job", "", 0)
		b.workOff(b.queue, func(context.Context, *Job) error {
			b.pass(time.Hour) // for the database, not for the worker
			return errors.New("down")
		})
		require.Equal(t, at(noon+3_660_000_000), b.row("job").RunAt)
		b.setClock(noon + 3_660_000_000)
		b.workOff(b.queue, func(context.Context, *Job) error { return nil })

		calls, err := retrylog.Replay(log.Records())
		require.NoError(t, err)
		require.Len(t, calls, 1)
		assert.NoError(t, calls[0].Check(policy))
		assert.Equal(t, retry.ReasonSuccess, calls[0].Reason)
	})
}

// An attempt whose worker died is in the log too, and the log is whole.
func TestLogOfDeadWorkers(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		var log retrylog.Recorder
		policy := retry.Policy{MaxAttempts: 2, OnEvent: log.OnEvent}
		b := newBench(t, s, policy)
		b.enqueue("job", "", 0)
		w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour}
		for range 3 {
			_, err := w.claim(t.Context())
			require.NoError(t, err)
			b.pass(time.Minute)
		}
		calls, err := retrylog.Replay(log.Records())
		require.NoError(t, err)
		require.Len(t, calls, 1)
		assert.NoError(t, calls[0].Check(policy))
		assert.Equal(t, retry.ReasonExhausted, calls[0].Reason)
		require.Len(t, calls[0].Attempts, 2)
		for _, a := range calls[0].Attempts {
			assert.Equal(t, errWorkerDied, a.Err)
		}
	})
}

func TestTransient(t *testing.T) {
	assert.False(t, transient(nil))
	assert.False(t, transient(errors.New("no")))
	assert.False(t, transient(context.Canceled))
	assert.False(t, transient(ErrLost))
	assert.True(t, transient(context.DeadlineExceeded))

	// SQLite's own: a database that another writer holds for too long.
	s := server{dialect: sqliteDialect, place: t.TempDir() + "/jobs.db"}
	holder, other := s.open(t), s.open(t)
	_, err := holder.Exec("CREATE TABLE t (x INTEGER); BEGIN IMMEDIATE")
	require.NoError(t, err)
	_, err = other.Exec("INSERT INTO t VALUES (1)")
	require.Error(t, err)
	assert.True(t, transient(err), err)
	_, err = other.Exec("INSERT INTO no_such_table VALUES (1)")
	require.Error(t, err)
	assert.False(t, transient(err), err)
}

// Who enqueues and requeues waits for a file that is locked.
func TestLockedFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, server{dialect: sqliteDialect, place: t.TempDir() + "/jobs.db"}, ticket4)
	holder := b.open(t)
	_, err := holder.Exec("BEGIN IMMEDIATE")
	require.NoError(t, err)
	time.AfterFunc(150*time.Millisecond, func() { _, _ = holder.Exec("COMMIT") })
	require.NoError(t, b.queue.Enqueue(t.Context(), "job", "", 0, 0))
	assert.Equal(t, "PENDING", b.row("job").Status)
}
