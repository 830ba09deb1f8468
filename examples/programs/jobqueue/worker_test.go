package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The lease of a job is renewed while the job runs, so that no other worker gets the job.
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
		assert.Equal(b, got, b.row("job"), "the lease is not renewed after the job has ended")
	})
}

// If the claim of a job is lost, the context of the job ends, and the result of the job is refused.
func TestLostClaimEndsJob(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 0)
		var cause error
		w := Worker{Queue: b.queue, Lease: 3 * time.Minute, Poll: time.Hour, Run: func(ctx context.Context, _ *Job) error {
			b.exec("UPDATE jobs SET attempts = 2") // as the claim of another worker does
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}}
		require.ErrorIs(b, w.workOff(b.Context()), errIdle)
		assert.ErrorIs(b, cause, ErrLost)
		assert.Equal(b, time.Minute, time.Since(b.start), "the first renewal ends the context")
		got := b.row("job")
		assert.Equal(b, [...]any{"RUNNING", 2, ""}, [...]any{got.Status, got.Attempts, got.LastError})
	})
}

// If the lease of a job cannot be renewed, and the worker does not stop, the attempt counts.
func TestLostLeaseCounts(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("job", "", 1)
		b.around = func(_ context.Context, query string, do func(string) error) error {
			if strings.HasPrefix(query, "UPDATE jobs SET lease_until") {
				return errors.New("no connection")
			}
			return do(query)
		}
		runs := 0
		b.workOff(b.queue, func(ctx context.Context, _ *Job) error {
			if runs++; runs > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		assert.Equal(b, 1, runs)
		assert.Equal(b, 1, b.row("job").Attempts)
	})
}

// If a job goes on after its AttemptTimeout, another worker can claim the job, after the last
// renewed lease has ended.
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

// A job may go on for Grace. Then the worker gives the job back without counting the attempt, even
// in its last attempt.
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
			Status: "PENDING", EndedAt: b.at(time.Minute),
			LastError: "retry: canceled after 1 attempt (context canceled: the service stops): context canceled",
		}, b.row("job"))
	})
}

// The end of the worker's context does not interrupt a claim. Otherwise an attempt could be counted
// without being made. The worker lets this job end, and claims no other job.
func TestWorkEnds(t *testing.T) {
	inBubble(t, ticket4, func(b *bench) {
		b.enqueue("first", "", 0)
		b.enqueue("second", "", 0)
		ctx, end := context.WithCancel(b.Context())
		b.around = func(_ context.Context, query string, do func(string) error) error {
			if strings.Contains(query, "LIMIT 1") { // a claim
				end()
			}
			return do(query)
		}
		w := b.worker(func(ctx context.Context, _ *Job) error { return ctx.Err() })
		w.Grace = time.Minute
		require.NoError(b, w.Work(ctx))
		assert.Equal(b, "DONE", b.row("first").Status)
		require.NoError(b, w.Work(ctx), "the worker claims no job")
		assert.Equal(b, row{Status: "PENDING"}, b.row("second"))
	})
}
