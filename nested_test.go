package retry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func TestNestedLoops(t *testing.T) {
	outer := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute)}
	twice := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}
	empty := &retry.Budget{Size: 1}
	require.True(t, empty.Take())
	same := func(ctx context.Context) context.Context { return ctx }
	for _, row := range []struct {
		name    string
		inner   retry.Policy
		ctx     func(context.Context) context.Context // for the inner loop
		fail    error
		reasons [2]retry.Reason // for the inner and the outer loop
		runs    int
		elapsed time.Duration
	}{
		{"an inner Permanent stops the outer loop", twice, same, retry.Permanent(errDial), [2]retry.Reason{retry.ReasonPermanent, retry.ReasonPermanent}, 1, 0},
		{"an inner Permanent stops the outer loop, whatever stopped the inner loop", retry.Policy{NonRetryable: true}, same, retry.Permanent(errDial),
			[2]retry.Reason{retry.ReasonPermanent, retry.ReasonPermanent}, 1, 0},
		{"an inner After applies to the outer loop", twice, same, retry.After(20*time.Second, errDial), [2]retry.Reason{retry.ReasonExhausted, retry.ReasonExhausted}, 6,
			2*time.Minute + 3*20*time.Second}, // 20s in the inner loop, where the curve says 1s; a minute in the outer loop, where the curve says more than 20s
		{"an inner After applies if it is longer than the outer delay", retry.Policy{MaxAttempts: 2, MaxRetryAfter: time.Second}, same, retry.After(time.Minute-1, errDial),
			[2]retry.Reason{retry.ReasonRetryAfter, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"an inner After that is too long for both", twice, same, retry.After(time.Hour, errDial), [2]retry.Reason{retry.ReasonRetryAfter, retry.ReasonRetryAfter}, 1, 0},
		{"inner exhausted does not stop the outer loop", twice, same, errDial, [2]retry.Reason{retry.ReasonExhausted, retry.ReasonExhausted}, 6, 2*time.Minute + 3*time.Second},
		{"inner not retryable does not stop the outer loop", retry.Policy{NonRetryable: true}, same, errDial, [2]retry.Reason{retry.ReasonNonRetryable, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"inner rejected does not stop the outer loop", retry.Policy{MaxAttempts: 2, RetryIf: func(error) bool { return false }}, same, errDial,
			[2]retry.Reason{retry.ReasonRejected, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"inner elapsed does not stop the outer loop", retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(2), MaxElapsed: 1}, same, errDial,
			[2]retry.Reason{retry.ReasonElapsed, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"inner budget does not stop the outer loop", retry.Policy{MaxAttempts: 2, Budget: empty}, same, errDial, [2]retry.Reason{retry.ReasonBudget, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"an inner deadline ahead does not stop the outer loop", twice, func(ctx context.Context) context.Context { return within(ctx, time.Second, nil) }, errDial,
			[2]retry.Reason{retry.ReasonDeadline, retry.ReasonExhausted}, 3, 2 * time.Minute},
		{"an inner deadline does not stop the outer loop", twice, func(ctx context.Context) context.Context { return hidden{within(ctx, time.Second/2, nil)} }, errDial,
			[2]retry.Reason{retry.ReasonDeadline, retry.ReasonExhausted}, 3, 2*time.Minute + 3*time.Second/2},
		{"an inner cancellation does not stop the outer loop", twice, canceledBy(errShutdown), errDial, [2]retry.Reason{retry.ReasonCanceled, retry.ReasonExhausted}, 0, 2 * time.Minute},
		{"an inner cancellation for a Permanent cause does not stop the outer loop", twice, canceledBy(retry.Permanent(errShutdown)), errDial,
			[2]retry.Reason{retry.ReasonCanceled, retry.ReasonExhausted}, 0, 2 * time.Minute},
		{"an inner cancellation for a cause with After does not delay the outer loop", twice, canceledBy(retry.After(time.Hour, errShutdown)), errDial,
			[2]retry.Reason{retry.ReasonCanceled, retry.ReasonExhausted}, 0, 2 * time.Minute},
		{"inner invalid is permanent", retry.Policy{MaxAttempts: -2}, same, errDial, [2]retry.Reason{retry.ReasonInvalid, retry.ReasonPermanent}, 1, 0},
		{"inner invalid is permanent, even if the context is done", retry.Policy{MaxAttempts: -2}, canceledBy(errShutdown), errDial,
			[2]retry.Reason{retry.ReasonInvalid, retry.ReasonPermanent}, 0, 0},
		{"an inner nil context is permanent", twice, func(context.Context) context.Context { return nil }, errDial,
			[2]retry.Reason{retry.ReasonInvalid, retry.ReasonPermanent}, 0, 0},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			start, runs := time.Now(), 0
			err := call(t.Context(), outer, func(ctx context.Context) error {
				return fmt.Errorf("wrapped: %w", call(row.ctx(ctx), row.inner, func(context.Context) error { runs++; return row.fail }))
			})
			e := stopped(t, err)
			assert.Equal(t, row.reasons[1], retry.ReasonOf(err), "ReasonOf says why the outer loop stopped")
			assert.Equal(t, row.reasons[0], retry.ReasonOf(e.Err), "of its last error, why the inner loop stopped")
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.elapsed, time.Since(start))
			if runs > 0 {
				assert.ErrorIs(t, err, row.fail)
			}
			assert.NoError(t, e.Cause)
		})
	}
	everyWay(t, "the outer context ends in the inner sleep: both stop", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second/2, func() { cancel(errShutdown) })
		runs := 0
		err := call(ctx, outer, func(ctx context.Context) error { return call(ctx, twice, fails(&runs)) })
		assert.Equal(t, 1, runs)
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(stopped(t, err).Err))
		for _, is := range []error{context.Canceled, errShutdown, errDial} {
			assert.ErrorIs(t, err, is)
		}
		assert.Equal(t, 1, strings.Count(err.Error(), errDial.Error()))
	})
	everyWay(t, "the inner loop gets the time of the outer attempt", func(t *testing.T, call caller) {
		p := outer
		p.AttemptTimeout = 2500 * time.Millisecond
		unlimited := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Second)}
		start, runs := time.Now(), 0
		err := call(t.Context(), p, func(ctx context.Context) error { return call(ctx, unlimited, fails(&runs)) })
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(stopped(t, err).Err))
		assert.Equal(t, 9, runs)
		assert.Equal(t, 2*time.Minute+3*2*time.Second, time.Since(start))
	})
}
