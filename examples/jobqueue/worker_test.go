package main

import (
	"bytes"
	"context"
	"errors"
	stdlog "log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// The lease of a job is renewed while it runs, so that no other worker gets it.
func TestLeaseIsRenewed(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		const lease = 3 * time.Minute
		run := func(ctx context.Context, _ *Job) error {
			for range 10 {
				time.Sleep(lease / 3)
				synctest.Wait()
				if b.row("job").LeaseUntil != at(time.Now().Add(lease).UnixMicro()) {
					return errors.New("it is not renewed")
				}
				if job, err := b.queue.Claim(ctx, lease); job != nil || err != nil {
					return errors.New("another worker has the job")
				}
			}
			return nil
		}
		w := Worker{Queue: b.queue, Run: run, Lease: lease, Poll: time.Hour}
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
		began := time.Now()
		w := Worker{Queue: b.queue, Lease: 3 * time.Minute, Poll: time.Hour, Run: func(ctx context.Context, _ *Job) error {
			b.exec("UPDATE jobs SET attempts = 2") // as another worker's claim does
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}}
		require.ErrorIs(b, w.workOff(b.Context()), errIdle)
		assert.ErrorIs(b, cause, ErrLost)
		assert.Equal(b, time.Minute, time.Since(began), "by the first renewal")
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
	for _, r := range []struct {
		name      string
		ends      func(context.Context) error
		status    string
		lastError string
	}{
		{"fails", context.Context.Err, "PENDING",
			"retry: canceled after 1 attempt (context canceled: retry: rejected by RetryIf after 1 attempt: job job, attempt 1: no disk): context canceled"},
		{"succeeds", func(context.Context) error { return nil }, "DONE", ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			inBubble(t, ticket4, func(b *bench) {
				b.enqueue("job", "", 0)
				b.around = func(_ context.Context, query string, do func(string) error) error {
					if isRenewal(query) {
						return errors.New("no disk")
					}
					return do(query)
				}
				w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour, Run: func(ctx context.Context, _ *Job) error {
					<-ctx.Done()
					return r.ends(ctx)
				}}
				require.ErrorIs(b, w.workOff(b.Context()), errIdle)
				got := b.row("job")
				assert.Equal(b, [...]any{r.status, r.lastError}, [...]any{got.Status, got.LastError})
			})
		})
	}
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
		claimed := time.Now()
		var ended time.Duration
		w := Worker{Queue: b.queue, Lease: lease, Poll: time.Hour, Run: func(ctx context.Context, _ *Job) error {
			<-ctx.Done()
			ended = time.Since(claimed)
			b.around = func(_ context.Context, query string, do func(string) error) error { return do(query) }
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
		w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour, Run: func(context.Context, *Job) error {
			<-begun
			return nil
		}}
		require.ErrorIs(b, w.workOff(b.Context()), errIdle)
		assert.Zero(b, underWay.Load())
		assert.Equal(b, "DONE", b.row("job").Status)
	})
}

// A job that panics, or ends its goroutine, has failed: its policy decides, and
// the panic goes on.
func TestPanic(t *testing.T) {
	for name, r := range map[string]struct {
		end    func()
		passes any
	}{"panic": {func() { panic("a bug") }, "a bug"}, "Goexit": {runtime.Goexit, nil}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, ticket4, func(b *bench) {
				b.enqueue("job", "", 0)
				w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour, Run: func(context.Context, *Job) error {
					r.end()
					return nil
				}}
				ended := make(chan any)
				go func() {
					defer func() { ended <- recover() }()
					_ = w.Work(b.Context())
				}()
				assert.Equal(b, r.passes, <-ended)
				now := time.Now().UnixMicro()
				assert.Equal(b, row{
					Status: "PENDING", Attempts: 1, RunAt: at(now + 300_000_000), EndedAt: at(now), LastError: "the attempt panicked",
				}, b.row("job"))
			})
		})
	}
}

// A job that goes on after its AttemptTimeout is left to another worker, which
// has to wait until it is sure that nothing renews the lease.
func TestHungJob(t *testing.T) {
	timed := ticket4
	timed.AttemptTimeout = 10 * time.Minute
	inBubble(t, timed, func(b *bench) {
		b.enqueue("job", "", 0)
		begin := time.Now()
		var asked, free time.Duration
		w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour, Run: func(ctx context.Context, _ *Job) error {
			<-ctx.Done()
			asked = time.Since(begin)
			for b.claim() == nil {
				time.Sleep(time.Second)
			}
			free = time.Since(begin)
			return ctx.Err()
		}}
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
		var stopped time.Time
		w := Worker{Queue: b.queue, Lease: time.Hour, Poll: time.Hour, Grace: time.Minute, Run: func(ctx context.Context, _ *Job) error {
			end(errors.New("the service stops"))
			stopped = time.Now()
			<-ctx.Done()
			return ctx.Err()
		}}
		require.NoError(b, w.Work(ctx))
		assert.Equal(b, time.Minute, time.Since(stopped))
		now := time.Now().UnixMicro()
		assert.Equal(b, row{
			Status: "PENDING", Attempts: 1, RunAt: at(now + 300_000_000), EndedAt: at(now),
			LastError: "retry: canceled after 1 attempt (context canceled: the service stops): context canceled",
		}, b.row("job"))
	})
}

// When its context ends, a worker lets its job end first, and claims no other.
func TestWorkEnds(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		b.enqueue("first", "", 0)
		b.enqueue("second", "", 0)
		ctx, end := context.WithCancel(t.Context())
		w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour, Grace: time.Hour, Run: func(ctx context.Context, job *Job) error {
			end()
			return ctx.Err()
		}}
		require.NoError(t, w.Work(ctx))
		assert.Equal(t, "DONE", b.row("first").Status)
		assert.Equal(t, row{Status: "PENDING"}, b.row("second"))
		require.NoError(t, w.Work(ctx), "it claims nothing at all")
		assert.Equal(t, 0, b.row("second").Attempts)
	})
}

// A worker whose context would end before the next poll returns at once.
func TestWorkEndsWhereNothingIsRunnable(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, (&Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour}).Work(ctx))
		assert.NoError(t, ctx.Err())
	})
}

// A claim that is under way when the worker's context ends is not interrupted,
// because its attempt would be lost.
func TestWorkEndsInClaim(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		ctx, end := context.WithCancel(b.Context())
		b.around = func(_ context.Context, query string, do func(string) error) error {
			if isClaim(query) {
				end()
			}
			return do(query)
		}
		w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Hour, Grace: time.Minute, Run: func(context.Context, *Job) error { return nil }}
		require.NoError(b, w.Work(ctx))
		assert.Equal(b, "DONE", b.row("job").Status)
	})
}

// Work polls while nothing is runnable.
func TestWorkPolls(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		ctx, end := context.WithCancel(b.Context())
		due := time.Now().Add(time.Minute)
		var late time.Duration
		w := Worker{Queue: b.queue, Lease: time.Minute, Poll: time.Second, Run: func(context.Context, *Job) error {
			late = time.Since(due)
			end()
			return nil
		}}
		require.NoError(b, b.queue.Enqueue(ctx, "job", "", 0, time.Minute))
		require.NoError(b, w.Work(ctx))
		assert.Less(b, late, 1200*time.Millisecond)
		assert.Equal(b, "DONE", b.row("job").Status)
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
		down := false
		db := through(t, s.open(t), func(_ context.Context, query string, do func(string) error) error {
			if down {
				return syscall.ECONNRESET
			}
			return do(query)
		})
		queue, err := NewQueue(db, s.dialect, ticket4)
		require.NoError(t, err)
		require.NoError(t, queue.Create(t.Context()))
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
		down = true
		idle()
		assert.Contains(t, log.String(), `WARN jobqueue: the database fails err="connection reset by peer"`)
	})
}

func TestWorkFails(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		b := newBench(t, s, ticket4)
		ended, end := context.WithCancel(t.Context())
		end()
		assert.EqualError(t, (&Worker{Queue: b.queue, Lease: time.Second - 1, Poll: time.Second}).Work(ended),
			"jobqueue: Lease is 999.999999ms: write at least 1s, because a claim may take an eighth of it")
		assert.EqualError(t, (&Worker{Queue: b.queue, Lease: time.Second}).Work(ended),
			"jobqueue: Poll is 0s: write a positive duration")

		// The end of the worker does not hide an error of the database.
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
		assert.Equal(t, retry.ReasonRejected, retry.ReasonOf(err), "an error that will not pass is not retried")
		assert.ErrorContains(t, err, "jobs")
	})
}

// The log of a job is that of one call, although several processes make its
// attempts, and every decision in it can be made again.
func TestLog(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		var log retrylog.Recorder
		policy := retry.Policy{
			MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.Proportional(0.5), OnEvent: log.OnEvent,
		}
		b := newBench(t, s, policy)
		b.enqueue("job", "", 3)
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("down") })
		b.setClock(b.row("job").RunAt.Int64 + 1_000_000) // because this clock stood still while the attempt ran
		b.workOff(b.queueFor(policy), func(context.Context, *Job) error {
			return retry.After(-time.Second, retry.After(time.Minute, errors.New("busy"))) // the negative wait has no effect
		})
		b.setClock(b.row("job").RunAt.Int64 + 1_000_000) // because this clock stood still while the attempt ran
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("down still") })

		calls, err := retrylog.Replay(log.Records())
		require.NoError(t, err)
		require.Len(t, calls, 1)
		call := calls[0]
		assert.NoError(t, call.Check(policy.ForJob(3)))
		assert.Error(t, call.Check(policy), "the limit is the job's")
		assert.Equal(t, [...]any{"job", 3, retry.ReasonExhausted, 3}, [...]any{call.Key, call.Max, call.Reason, len(call.Attempts)})
		assert.Equal(t, time.Minute, call.Attempts[1].RetryAfter)
		assert.Equal(t, retry.SeedOf("job"), call.Attempts[0].Seed)
		elapsed := time.Duration(b.row("job").EndedAt.Int64-noon) * time.Microsecond
		assert.InDelta(t, elapsed, call.Records[len(call.Records)-1].Event.Elapsed, float64(time.Second), "the attempts are a minute apart for the log too")
	})
}

// A retry that was decided just before MaxElapsed is written after it. The decision
// is still right.
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
		assert.Zero(t, calls[0].Attempts[0].Seed, "nothing was drawn")
		assert.Equal(t, retry.ReasonSuccess, calls[0].Reason)
	})
}

// The log has the seed even if the jitter is that of a class.
func TestLogOfAClass(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		var log retrylog.Recorder
		busy := retry.Policy{Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.Proportional(0.5)}
		policy := retry.Policy{MaxAttempts: 2, Classify: func(error) *retry.Class { return &retry.Class{Policy: &busy} }, OnEvent: log.OnEvent}
		b := newBench(t, s, policy)
		b.enqueue("job", "", 0)
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("busy") })

		calls, err := retrylog.Replay(log.Records())
		require.NoError(t, err)
		require.Len(t, calls, 1)
		assert.NoError(t, calls[0].Check(policy))
	})
}

// A job that is requeued with the attempts it has left begins a new call in the log,
// with its next attempt.
func TestLogOfRequeuedJob(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		var log retrylog.Recorder
		policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), OnEvent: log.OnEvent}
		b := newBench(t, s, policy)
		b.enqueue("job", "", 0)
		b.workOff(b.queue, func(context.Context, *Job) error { return retry.Permanent(errors.New("no such user")) })
		b.pass(time.Hour)
		require.NoError(t, b.queue.Requeue(t.Context(), "job", false))
		b.workOff(b.queue, func(context.Context, *Job) error { return errors.New("down") })
		b.pass(2 * time.Second)
		b.workOff(b.queue, func(context.Context, *Job) error { return nil })

		calls, err := retrylog.Replay(log.Records())
		require.NoError(t, err)
		require.Len(t, calls, 2)
		for i, want := range []struct {
			reason   retry.Reason
			attempts []int
		}{{retry.ReasonPermanent, []int{1}}, {retry.ReasonSuccess, []int{2, 3}}} {
			assert.NoError(t, calls[i].Check(policy))
			assert.Equal(t, want.reason, calls[i].Reason)
			var attempts []int
			for _, a := range calls[i].Attempts {
				attempts = append(attempts, a.Number)
			}
			assert.Equal(t, want.attempts, attempts)
		}
	})
}
