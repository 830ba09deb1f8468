package main

import (
	"bytes"
	"context"
	"errors"
	stdlog "log"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// The lease of a job is renewed while it runs, so that no other worker gets it.
func TestLeaseIsRenewed(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		const lease = 3 * time.Minute
		w := b.worker(func(context.Context, *Job) error {
			for range 10 {
				time.Sleep(lease / 3)
				synctest.Wait()
				assert.Equal(b, b.at(time.Since(b.start)+lease), b.row("job").LeaseUntil)
				assert.Nil(b, b.claim(), "no other worker gets the job")
			}
			return nil
		})
		w.Lease = lease
		require.ErrorIs(b, w.workOff(b.Context()), errIdle)
		got := b.row("job")
		assert.Equal(b, [...]any{"DONE", 1, ""}, [...]any{got.Status, got.Attempts, got.LastError})
		time.Sleep(lease)
		assert.Equal(b, got, b.row("job"), "and not any more when it has ended")
	})
}

// The context of a job whose claim is lost ends, and its result is refused.
func TestLostClaimEndsJob(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		var cause error
		w := Worker{Queue: b.queue, Lease: 3 * time.Minute, Poll: time.Hour, Run: func(ctx context.Context, _ *Job) error {
			b.exec("UPDATE jobs SET attempts = 2") // as another worker's claim does
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}}
		require.ErrorIs(b, w.workOff(b.Context()), errIdle)
		assert.ErrorIs(b, cause, ErrLost)
		assert.Equal(b, time.Minute, time.Since(b.start), "by the first renewal")
		got := b.row("job")
		assert.Equal(b, [...]any{"RUNNING", 2, ""}, [...]any{got.Status, got.Attempts, got.LastError})
	})
}

// isRenewal and isClaim tell statements apart.
func isRenewal(query string) bool { return strings.Contains(query, "SET lease_until =") }
func isClaim(query string) bool   { return strings.Contains(query, "LIMIT 1") }

// If the lease cannot be renewed, the job's context ends, and its error says why. If
// the job succeeds anyway, it is done.
func TestLeaseCannotBeRenewed(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("fails", "", 0)
		b.enqueue("succeeds", "", 0)
		b.around = func(_ context.Context, query string, do func(string) error) error {
			if isRenewal(query) {
				return errors.New("no disk")
			}
			return do(query)
		}
		b.workOff(b.queue, func(ctx context.Context, job *Job) error {
			<-ctx.Done()
			if job.ID == "succeeds" {
				return nil
			}
			return ctx.Err()
		})
		assert.Equal(b, "DONE", b.row("succeeds").Status)
		assert.Equal(b, "PENDING", b.row("fails").Status)
		assert.Equal(b, "retry: canceled after 1 attempt (context canceled: retry: rejected by RetryIf after 1 attempt: "+
			"job fails, attempt 1: no disk): context canceled", b.row("fails").LastError)
	})
}

// The job ends before its lease does, even if everything takes as long as it may:
// the claim's answer is late, renewals fail for a third of the lease, and the last
// one hangs. The delays between them are short.
func TestJobEndsBeforeItsLease(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		const lease = time.Hour
		var renewals []time.Time
		b.around = func(ctx context.Context, query string, do func(string) error) error {
			if isRenewal(query) {
				renewals = append(renewals, time.Now())
				if time.Since(renewals[0]) > lease/3-lease/20 {
					<-ctx.Done()
					return ctx.Err()
				}
				return syscall.ECONNRESET
			}
			err := do(query)
			if deadline, ok := ctx.Deadline(); ok && isClaim(query) {
				time.Sleep(time.Until(deadline) - time.Nanosecond)
			}
			return err
		}
		var ended time.Duration
		w := Worker{Queue: b.queue, Lease: lease, Poll: time.Hour, Run: func(ctx context.Context, _ *Job) error {
			<-ctx.Done()
			ended = time.Since(b.start)
			b.around = untouched
			return nil
		}}
		require.ErrorIs(b, w.workOff(b.Context()), errIdle)
		assert.Positive(b, ended)
		assert.Less(b, ended, lease)
		for i := range renewals[:len(renewals)-1] {
			assert.LessOrEqual(b, renewals[i+1].Sub(renewals[i]), lease/20)
		}
		assert.Equal(b, "DONE", b.row("job").Status)
	})
}

// A renewal that is under way when its job ends has ended before the worker goes on.
func TestNoRenewalOutlivesItsJob(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		var underWay atomic.Int64
		begun := make(chan struct{}, 100)
		b.around = func(ctx context.Context, query string, do func(string) error) error {
			if !isRenewal(query) {
				return do(query)
			}
			underWay.Add(1)
			defer underWay.Add(-1)
			begun <- struct{}{}
			<-ctx.Done()
			time.Sleep(time.Second) // as long as the database takes to notice
			return ctx.Err()
		}
		w := b.worker(func(context.Context, *Job) error {
			<-begun
			return nil
		})
		require.ErrorIs(b, w.workOff(b.Context()), errIdle)
		assert.Zero(b, underWay.Load())
		assert.Equal(b, "DONE", b.row("job").Status)
	})
}

// A job that panics has failed: its result is written, and the panic goes on.
func TestPanic(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		w := b.worker(func(context.Context, *Job) error { panic("a bug") })
		assert.PanicsWithValue(b, "a bug", func() { _ = w.Work(b.Context()) })
		assert.Equal(b, row{
			Status: "PENDING", Attempts: 1, RunAt: b.at(300 * time.Second), EndedAt: b.at(0), LastError: "the attempt panicked",
		}, b.row("job"))
	})
}

// A job that goes on after its AttemptTimeout is left to another worker, which
// has to wait until it is sure that nothing renews the lease.
func TestHungJob(t *testing.T) {
	timed := ticket4
	timed.AttemptTimeout = 10 * time.Minute
	inBubble(t, timed, func(b *bench) {
		b.enqueue("job", "", 0)
		var asked, free time.Duration
		w := b.worker(func(ctx context.Context, _ *Job) error {
			<-ctx.Done()
			asked = time.Since(b.start)
			for b.claim() == nil {
				time.Sleep(time.Second)
			}
			free = time.Since(b.start)
			return ctx.Err()
		})
		require.ErrorIs(b, w.workOff(b.Context()), errIdle)
		assert.Equal(b, 10*time.Minute, asked)
		assert.Greater(b, free, 11*time.Minute)
		assert.LessOrEqual(b, free, 12*time.Minute)
		assert.Equal(b, 2, b.row("job").Attempts)
	})
}

// A job may go on for Grace. Then it is given back, also in its last attempt.
func TestGrace(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 1)
		ctx, end := context.WithCancelCause(b.Context())
		w := Worker{Queue: b.queue, Lease: time.Hour, Poll: time.Hour, Grace: time.Minute, Run: func(ctx context.Context, _ *Job) error {
			end(errors.New("the service stops"))
			<-ctx.Done()
			return ctx.Err()
		}}
		require.NoError(b, w.Work(ctx))
		assert.Equal(b, row{
			Status: "PENDING", Attempts: 1, RunAt: b.at(360 * time.Second), EndedAt: b.at(time.Minute),
			LastError: "retry: canceled after 1 attempt (context canceled: the service stops): context canceled",
		}, b.row("job"))
	})
}

// A claim that is under way when the worker's context ends is not interrupted,
// because its attempt would be lost. The worker lets its job end, and claims no other.
func TestWorkEnds(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("first", "", 0)
		b.enqueue("second", "", 0)
		ctx, end := context.WithCancel(b.Context())
		b.around = func(_ context.Context, query string, do func(string) error) error {
			if isClaim(query) {
				end()
			}
			return do(query)
		}
		w := b.worker(func(ctx context.Context, _ *Job) error { return ctx.Err() })
		w.Grace = time.Minute
		require.NoError(b, w.Work(ctx))
		assert.Equal(b, "DONE", b.row("first").Status)
		require.NoError(b, w.Work(ctx), "it claims nothing at all")
		assert.Equal(b, row{Status: "PENDING"}, b.row("second"))
	})
}

// An error of the database is logged, and idleness is not. This test is not parallel,
// because the log is the program's.
func TestWorkLogs(t *testing.T) {
	var log bytes.Buffer
	stdlog.SetOutput(&log)
	defer stdlog.SetOutput(os.Stderr)
	synctest.Test(t, func(t *testing.T) {
		s := server{dialect: sqliteDialect, place: filepath.Join(t.TempDir(), "jobs.db")}
		queue, _ := s.queue(t)
		w := Worker{Queue: queue, Lease: time.Minute, Poll: time.Second}
		idle := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, w.Work(ctx))
		}
		idle()
		require.NoError(t, queue.Enqueue(t.Context(), "outlives the worker", "", 0, 0))
		w.Run = func(context.Context, *Job) error { time.Sleep(2 * time.Minute); return nil }
		idle()
		assert.Empty(t, log.String())
		queue.db = through(t, queue.db, func(context.Context, string, func(string) error) error { return syscall.ECONNRESET })
		idle()
		assert.Contains(t, log.String(), `WARN jobqueue: the database fails err="connection reset by peer"`)
	})
}

func TestWorkFails(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		assert.EqualError(b, (&Worker{Queue: b.queue, Lease: time.Second - 1, Poll: time.Second}).Work(b.Context()),
			"jobqueue: Lease is 999.999999ms: write at least 1s, because a claim may take an eighth of it")
		assert.EqualError(b, (&Worker{Queue: b.queue, Lease: time.Second}).Work(b.Context()),
			"jobqueue: Poll is 0s: write a positive duration")

		b.enqueue("job", "", 0)
		ctx, end := context.WithCancel(b.Context())
		err := b.worker(func(context.Context, *Job) error {
			b.exec("DROP TABLE jobs")
			end()
			return nil
		}).Work(ctx)
		assert.Equal(b, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.ErrorContains(b, err, "jobs", "the end of the worker does not hide an error of the database")

		err = b.worker(nil).Work(b.Context())
		assert.Equal(b, retry.ReasonRejected, retry.ReasonOf(err), "an error that will not pass is not retried")
		assert.ErrorContains(b, err, "jobs")
	})
}
