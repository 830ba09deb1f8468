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

func TestMaxElapsed(t *testing.T) {
	for _, row := range []struct {
		name    string
		max     time.Duration
		took    time.Duration // of each attempt
		reason  retry.Reason
		runs    int
		elapsed time.Duration
	}{
		{"exactly at the last retry", 2 * time.Second, 0, retry.ReasonExhausted, 3, 2 * time.Second},
		{"one nanosecond before the last retry", 2*time.Second - 1, 0, retry.ReasonElapsed, 2, time.Second},
		{"exactly at the first retry", time.Second, 0, retry.ReasonElapsed, 2, time.Second},
		{"one nanosecond before the first retry", time.Second - 1, 0, retry.ReasonElapsed, 1, 0},
		{"one nanosecond", 1, 0, retry.ReasonElapsed, 1, 0},
		{"the attempts take time too", 3 * time.Second, time.Second, retry.ReasonElapsed, 2, 3 * time.Second},
		{"the first attempt takes time too", time.Minute, 16 * time.Minute, retry.ReasonElapsed, 1, 16 * time.Minute},
		{"MaxElapsed ends no attempt", 2 * time.Minute, 2*time.Minute - time.Second, retry.ReasonElapsed, 2, 4*time.Minute - time.Second},
		{"the longest", math.MaxInt64, time.Hour, retry.ReasonExhausted, 3, 3*time.Hour + 2*time.Second},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			start, runs := time.Now(), 0
			p := everySecond
			p.MaxElapsed = row.max
			err := call(t.Context(), p, func(context.Context) error { runs++; time.Sleep(row.took); return errDial })
			e := stopped(t, err)
			assert.Equal(t, row.reason, e.Reason)
			assert.Equal(t, row.runs, runs)
			assert.Equal(t, row.elapsed, time.Since(start), "a stop is decided before the sleep it would need")
			assert.Equal(t, time.Second, e.Delay)
			assert.NoError(t, e.Cause)
		})
	}
	everyWay(t, "the clock starts with the call, not with the policy", func(t *testing.T, call caller) {
		p := everySecond
		p.MaxElapsed = 10 * time.Second
		for range 3 {
			time.Sleep(time.Hour)
			runs := 0
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
			assert.Equal(t, 3, runs)
		}
	})
}

func TestNextElapsed(t *testing.T) {
	for _, row := range []struct {
		name       string
		maxElapsed time.Duration
		elapsed    time.Duration
		delay      time.Duration
		want       retry.Reason
	}{
		{"no bound", 0, math.MaxInt64, math.MaxInt64, retry.ReasonRetry},
		{"in time", 10, 3, 6, retry.ReasonRetry},
		{"exact to the nanosecond", 10, 4, 6, retry.ReasonRetry},
		{"a nanosecond late", 10, 5, 6, retry.ReasonElapsed},
		{"a bound of a nanosecond", 1, 0, 2, retry.ReasonElapsed},
		{"late already", 10, 11, 0, retry.ReasonElapsed},
		{"the delay alone is too long", 10, 0, 11, retry.ReasonElapsed},
		{"a negative Elapsed is treated as 0", 10, -100, 11, retry.ReasonElapsed},
		{"the most negative time", 10, math.MinInt64, 10, retry.ReasonRetry},
		{"the longest time", 10, math.MaxInt64, 0, retry.ReasonElapsed},
		{"the longest time and a delay do not wrap around", 10, math.MaxInt64, 1, retry.ReasonElapsed},
		{"the longest time and the longest delay", math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64, retry.ReasonElapsed},
		{"the longest MaxElapsed never applies", math.MaxInt64, math.MaxInt64, math.MaxInt64, retry.ReasonRetry},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(row.delay), MaxElapsed: row.maxElapsed}
			next := p.Next(retry.Attempt{Number: 1, Elapsed: row.elapsed})
			assert.Equal(t, drawnFrom(row.delay, row.want), next)
		})
	}

	t.Run("the drawn delay is judged, not the curve's", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(1000), Jitter: retry.FullJitter, MaxElapsed: 500}
		for seed := range uint64(1000) {
			next := p.Next(retry.Attempt{Number: 1, Seed: seed + 1})
			assert.Equal(t, next.Delay <= 500, next.Retry(), "delay %v", next.Delay)
			assert.Equal(t, []time.Duration{0, 1000}, []time.Duration{next.Lo, next.Hi}, "the window is not cut to the time left")
		}
	})

	t.Run("the Retry-After is judged", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 2, MaxElapsed: time.Second}
		next := p.Next(retry.Attempt{Number: 1, Err: retry.After(2*time.Second, errors.New("boom"))})
		assert.Equal(t, askedFor(2*time.Second, retry.ReasonElapsed), next)
	})
}
