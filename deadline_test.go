package retry_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

func TestDeadlineThatWouldBePassed(t *testing.T) {
	for _, row := range []struct {
		name    string
		timeout time.Duration
		delay   time.Duration
		reason  retry.Reason
		runs    int
		elapsed time.Duration
	}{
		{"one nanosecond before the first retry", time.Second - 1, time.Second, retry.ReasonDeadline, 1, 0},
		{"exactly at the first retry", time.Second, time.Second, retry.ReasonDeadline, 1, 0},
		{"one nanosecond after the first retry", time.Second + 1, time.Second, retry.ReasonDeadline, 2, time.Second},
		{"exactly at the second retry", 2 * time.Second, time.Second, retry.ReasonDeadline, 2, time.Second},
		{"one nanosecond after the second retry", 2*time.Second + 1, time.Second, retry.ReasonExhausted, 3, 2 * time.Second},
		{"no delay passes no deadline", 1, 0, retry.ReasonExhausted, 3, 0},
		{"the longest delay", time.Hour, math.MaxInt64, retry.ReasonDeadline, 1, 0},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), row.timeout, errShutdown)
			defer cancel()
			start, runs := time.Now(), 0
			p := everySecond
			p.Backoff = retry.Fixed(row.delay)
			err := call(ctx, p, fails(&runs))
			e := stopped(t, err)
			assert.Equal(t, row.reason, e.Reason)
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.elapsed, time.Since(start), "a stop is decided before the sleep it would need")
			assert.Equal(t, row.elapsed, e.Waited)
			assert.Equal(t, row.delay, e.Delay)
			assert.ErrorIs(t, err, errDial)
			assert.Equal(t, row.reason == retry.ReasonDeadline, errors.Is(err, context.DeadlineExceeded))
			assert.NoError(t, ctx.Err(), "the context has not ended")
		})
	}
}

func TestADeadlineDoesNotCutADelayThatNoServerAskedFor(t *testing.T) {
	const left = 500 * time.Millisecond
	everyWay(t, "full jitter", func(t *testing.T, call caller) {
		for seed := range uint64(100) {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			var told watch
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter, Source: constant(seed + 1), OnEvent: told.event}
			want := retry.ReasonExhausted
			delay := p.Next(retry.Attempt{Number: 1, Err: errDial, Seed: seed + 1}).Delay
			if delay >= left {
				want = retry.ReasonDeadline
			}
			runs := 0
			assert.Equal(t, want, retry.ReasonOf(call(ctx, p, fails(&runs))), "a delay of %v", delay)
			for _, e := range told.of(retry.RetryScheduled) {
				assert.Equal(t, []time.Duration{0, time.Second}, []time.Duration{e.Lo, e.Hi})
			}
			cancel()
		}
	})
}

// expiring is a context whose deadline is always now, and that has not ended.
type expiring struct{ context.Context }

func (expiring) Deadline() (time.Time, bool) { return time.Now(), true }

func TestADeadlineThatHasComeDoesNotStopARetryWithoutDelay(t *testing.T) {
	everyWay(t, "only the context's end does", func(t *testing.T, call caller) {
		runs := 0
		err := call(expiring{t.Context()}, retry.Policy{MaxAttempts: 3}, fails(&runs))
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.Equal(t, 3, runs)
	})
}
