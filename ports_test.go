package retry_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

// The loops of four programs, as they were written by hand and as a policy says them.
// Both make the same attempts at the same times.
func TestPorts(t *testing.T) {
	down, throttled := errors.New("503"), errors.New("429")
	answers := []error{down, retry.After(30*time.Second, throttled), down, retry.After(time.Second, throttled), down, nil}
	// times returns when the attempts of a loop began.
	times := func(t *testing.T, loop func(ctx context.Context, send func(context.Context) error) error) (at []time.Duration) {
		start := time.Now()
		_ = loop(t.Context(), func(context.Context) error {
			at = append(at, time.Since(start))
			return answers[len(at)-1]
		})
		return at
	}
	// An exporter of traces waits for its backoff or for the throttle, whichever is longer.
	bubble(t, "the longer of the backoff and what the server asks for", func(t *testing.T) {
		byHand := times(t, func(_ context.Context, send func(context.Context) error) error {
			for delay := 5 * time.Second; ; delay = min(2*delay, 30*time.Second) {
				err := send(t.Context())
				if err == nil {
					return nil
				}
				time.Sleep(max(retry.RetryAfterOf(err), delay))
			}
		})
		policy := retry.Policy{
			MaxElapsed: 5 * time.Minute,
			Backoff:    retry.Exponential{Base: 5 * time.Second}, MaxDelay: 30 * time.Second,
			RetryAfter: retry.RetryAfterAtLeast,
		}
		assert.Equal(t, byHand, times(t, func(ctx context.Context, send func(context.Context) error) error { return retry.Do(ctx, policy, send) }))
	})
	// A writer of metrics waits exactly as the server says, and its curve goes on where it
	// was: only the other failures move it.
	bubble(t, "exact waits, beside which the curve goes on", func(t *testing.T) {
		byHand := times(t, func(_ context.Context, send func(context.Context) error) error {
			for delay := time.Second; ; {
				err := send(t.Context())
				if err == nil {
					return nil
				}
				if wait := retry.RetryAfterOf(err); wait > 0 {
					time.Sleep(wait)
					continue
				}
				time.Sleep(delay)
				delay = min(2*delay, 10*time.Second)
			}
		})
		policy := retry.Policy{
			MaxAttempts: retry.Unlimited, RetryAfter: retry.RetryAfterExact,
			Classify: func(err error) *retry.Class {
				if retry.RetryAfterOf(err) > 0 {
					return nil
				}
				return &retry.Class{Name: "down", Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 10 * time.Second}
			},
		}
		assert.Equal(t, byHand, times(t, func(ctx context.Context, send func(context.Context) error) error { return retry.Do(ctx, policy, send) }))
	})
	// A backend says that a file is missing by canceling its own context, so that no
	// further attempt is made.
	bubble(t, "an operation that cancels its own context keeps what it says", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		_, err := retry.DoValue(ctx, everySecond, func(context.Context) (int64, error) {
			if runs++; runs == 1 {
				return 0, down
			}
			cancel()
			return 0, retry.Permanent(fs.ErrNotExist)
		})
		assert.True(t, retry.Unwrap(err) == fs.ErrNotExist)
		assert.Equal(t, 2, runs)
	})
	// A client asks for a new token once, at once, whatever else failed before.
	bubble(t, "one retry after a 401, beside the 503s", func(t *testing.T) {
		unauthorized := errors.New("401")
		policy := retry.Policy{
			MaxAttempts: 5, Backoff: retry.Exponential{Base: time.Second},
			Classify: func(err error) *retry.Class {
				if err == unauthorized {
					return &retry.Class{Name: "unauthorized", MaxAttempts: 2, Backoff: retry.Fixed(0)}
				}
				return nil
			},
		}
		answers = []error{down, unauthorized, down, unauthorized, nil}
		at := times(t, func(ctx context.Context, send func(context.Context) error) error { return retry.Do(ctx, policy, send) })
		assert.Equal(t, []time.Duration{0, time.Second, time.Second, 5 * time.Second}, at, "the second 401 is the last")
	})
}
