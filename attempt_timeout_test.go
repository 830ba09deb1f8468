package retry_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestAttemptTimeout(t *testing.T) {
	type key struct{}
	everyWay(t, "each attempt has its own context", func(t *testing.T, call caller) {
		p := everySecond
		p.AttemptTimeout = time.Minute
		var attempts []context.Context
		err := call(context.WithValue(t.Context(), key{}, "value"), p, func(ctx context.Context) error {
			for _, earlier := range attempts {
				assert.ErrorIs(t, earlier.Err(), context.Canceled, "the context of an attempt ends when fn returns")
			}
			attempts = append(attempts, ctx)
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, time.Minute, time.Until(deadline))
			assert.Equal(t, "value", ctx.Value(key{}))
			return errDial
		})
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		require.Len(t, attempts, 3)
		assert.ErrorIs(t, attempts[2].Err(), context.Canceled, "the context of an attempt ends when fn returns")
	})
	everyWay(t, "the timeout is an ordinary error", func(t *testing.T, call caller) {
		p := everySecond
		p.AttemptTimeout = time.Minute
		start, runs := time.Now(), 0
		err := call(t.Context(), p, func(ctx context.Context) error { runs++; <-ctx.Done(); return ctx.Err() })
		assert.Equal(t, &retry.Error{
			Reason: retry.ReasonExhausted, Attempts: 3, Waited: 2 * time.Second, Delay: time.Second, Err: context.DeadlineExceeded,
		}, plain(err))
		assert.Equal(t, 3, runs)
		assert.Equal(t, 3*time.Minute+2*time.Second, time.Since(start))
	})
	everyWay(t, "a success after the timeout is a success", func(t *testing.T, call caller) {
		p := everySecond
		p.AttemptTimeout = time.Minute
		require.NoError(t, call(t.Context(), p, func(ctx context.Context) error { <-ctx.Done(); return nil }))
	})
	everyWay(t, "the context ends after a success too", func(t *testing.T, call caller) {
		var attempt context.Context
		require.NoError(t, call(t.Context(), retry.Policy{AttemptTimeout: time.Minute}, func(ctx context.Context) error { attempt = ctx; return nil }))
		assert.ErrorIs(t, attempt.Err(), context.Canceled)
	})
	everyWay(t, "an earlier deadline of the caller applies and is the reason", func(t *testing.T, call caller) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errShutdown)
		defer cancel()
		p := everySecond
		p.AttemptTimeout = time.Hour
		start, runs := time.Now(), 0
		err := call(ctx, p, func(attempt context.Context) error {
			runs++
			want, _ := ctx.Deadline()
			got, _ := attempt.Deadline()
			assert.Equal(t, want, got)
			<-attempt.Done()
			return attempt.Err()
		})
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.ErrorIs(t, err, errShutdown)
		assert.Equal(t, 1, runs)
		assert.Equal(t, time.Minute, time.Since(start))
	})
	everyWay(t, "a cancellation by the caller reaches the attempt", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := everySecond
		p.AttemptTimeout = time.Hour
		err := call(ctx, p, func(attempt context.Context) error {
			cancel(errShutdown)
			assert.ErrorIs(t, attempt.Err(), context.Canceled)
			return context.Cause(attempt)
		})
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.Same(t, errShutdown, stopped(t, err).Err)
	})
	everyWay(t, "0: the attempt has the caller's context", func(t *testing.T, call caller) {
		ctx := context.WithValue(t.Context(), key{}, "value")
		require.NoError(t, call(ctx, everySecond, func(attempt context.Context) error {
			assert.True(t, ctx == attempt)
			return nil
		}))
	})
	everyWay(t, "a panic ends the context", func(t *testing.T, call caller) {
		var attempt context.Context
		assert.Panics(t, func() {
			_ = call(t.Context(), retry.Policy{AttemptTimeout: time.Minute}, func(ctx context.Context) error { attempt = ctx; panic("fn") })
		})
		assert.ErrorIs(t, attempt.Err(), context.Canceled)
	})
}
