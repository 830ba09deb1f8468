package retrylog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A correct log is never called wrong: the log of every call and of every job, of
// random policies whose attempts fail at random, is replayed and checked, in both
// forms.
func TestReplayEveryCall(t *testing.T) {
	seen, resets, early, cut := map[retry.Reason]int{}, 0, 0, 0
	for i := range 2000 {
		synctest.Test(t, func(t *testing.T) {
			source := rand.New(rand.NewPCG(uint64(i), 17))
			p := anyPolicy(source)
			ctx := retrylog.WithKey(t.Context(), "k")
			if after := time.Duration(source.IntN(40)) * time.Second / 4; source.IntN(3) == 0 {
				var cancel func()
				if ctx, cancel = context.WithCancel(ctx); source.IntN(2) == 0 {
					time.AfterFunc(after, cancel)
				} else {
					ctx, cancel = context.WithTimeout(ctx, after)
				}
				defer cancel()
			}
			if source.IntN(6) == 0 {
				ctx = retry.WithBudget(ctx, &retry.Budget{Size: source.IntN(3)})
			}
			var lines, logged bytes.Buffer
			w := retrylog.NewWriter(&lines)
			onEvent := retrylog.Slog(slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
			watched := p
			watched.OnEvent = func(ctx context.Context, e retry.Event) {
				w.OnEvent(ctx, e)
				onEvent(ctx, e)
			}
			if source.IntN(3) == 0 {
				work(ctx, watched, source)
			} else {
				_ = retry.Do(ctx, watched, anyAttempt(source))
			}
			calls := replay(t, lines.String())
			assert.Equal(t, inUTC(calls), inUTC(replay(t, logged.String())))
			for _, c := range calls {
				require.NoError(t, c.Check(p), "%d: %v\n%s", i, p, retrylog.Explain(c.Records))
				seen[c.Reason]++
				resets += c.Resets
				for n, a := range c.Attempts {
					if n > 0 && c.Attempts[n-1].Due.After(a.Started) {
						early++
					}
					if a.RetryAfter > 0 && a.Lo == a.RetryAfter && p.Jitter == retry.FullJitter && a.Hi < 2*a.Lo {
						cut++
					}
				}
			}
		})
	}
	for _, reason := range reasons {
		assert.Positive(t, seen[reason], reason)
	}
	assert.Positive(t, resets)
	assert.Positive(t, early)
	assert.Positive(t, cut)
}

// anyPolicy returns a policy with any of its fields.
func anyPolicy(source *rand.Rand) retry.Policy {
	one := func(in int) bool { return source.IntN(in) == 0 }
	p := retry.Policy{
		MaxAttempts: 1 + source.IntN(6),
		Backoff:     []retry.Backoff{nil, retry.Fixed(time.Second), retry.Exponential{Base: 50 * time.Millisecond}, retry.Linear(1234567)}[source.IntN(4)],
		Jitter:      []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0.3)}[source.IntN(4)],
		Source:      source.Uint64,

		MaxRetryAfter:   9 * time.Second,
		ExactRetryAfter: one(4),
		NonRetryable:    one(20),
	}
	if one(5) {
		p.MaxAttempts, p.MaxElapsed = 0, time.Duration(source.IntN(10_000))*time.Millisecond
		p.Backoff = retry.Fixed(time.Second)
	}
	if one(4) {
		p.MaxElapsed = time.Duration(1+source.IntN(15_000)) * time.Millisecond
	}
	if one(4) {
		p.MaxDelay = time.Duration(source.IntN(3)) * time.Second
	}
	if one(3) {
		p.HealthyAfter = 300 * time.Millisecond
	}
	if one(6) {
		p.AttemptTimeout = 400 * time.Millisecond
	}
	if one(6) {
		p.Budget = &retry.Budget{Size: 1 + source.IntN(3)}
	}
	if one(12) {
		p.MaxDelay = -1
	}
	if one(6) {
		p.RetryIf = func(error) bool { time.Sleep(time.Duration(source.IntN(50)) * time.Millisecond); return !one(3) }
	}
	if one(3) {
		p.Classify = anyClass(source)
	}
	switch source.IntN(4) {
	case 0:
		p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }
	case 1: // returns early, skips, is late, or fails
		p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) {
			time.Sleep(time.Duration(source.IntN(1500)) * time.Millisecond)
			if one(8) {
				return 0, errors.New("no link")
			}
			return time.Duration(source.Int64N(int64(d) + 1)), nil
		}
	}
	return p
}

func anyClass(source *rand.Rand) func(error) *retry.Class {
	return func(error) *retry.Class {
		switch source.IntN(8) {
		case 0:
			return &retry.Class{Name: "busy", Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Minute), Jitter: retry.FullJitter}}
		case 1:
			return &retry.Class{Policy: &retry.Policy{Backoff: retry.Fixed(7), ExactRetryAfter: true}}
		case 2:
			return &retry.Class{Name: "counted"}
		case 3:
			return &retry.Class{Name: "never", Policy: &retry.Policy{NonRetryable: true}, Cause: errors.New("it may have been processed")}
		case 4:
			if source.IntN(4) == 0 {
				return &retry.Class{Policy: &retry.Policy{MaxAttempts: -2}}
			}
		}
		return nil
	}
}

// anyAttempt returns a function whose attempts take up to half a second, and fail
// four times in five.
func anyAttempt(source *rand.Rand) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(time.Duration(source.IntN(500)) * time.Millisecond)
		switch source.IntN(10) {
		case 0, 1:
			return nil
		case 2:
			return retry.After(time.Duration(source.IntN(11_000))*time.Millisecond, errRefused)
		case 3:
			return retry.After(time.Duration(source.IntN(20_000_000)), errRefused)
		case 4:
			if source.IntN(3) == 0 {
				return retry.Permanent(errRefused)
			}
		}
		return fmt.Errorf("failure %d", source.IntN(3))
	}
}

// work is a queue whose worker makes the attempts of a job, and may die in one. It
// stores times to the microsecond.
func work(ctx context.Context, p retry.Policy, source *rand.Rand) {
	began, fn := time.Now(), anyAttempt(source)
	for number := 1; ; number++ {
		died := true
		var d retry.Decision
		func() {
			defer func() { _ = recover() }()
			d, _ = retry.Once(ctx, p, retry.Attempt{Number: number, Elapsed: time.Since(began), Seed: retry.SeedOf("k")}, func(ctx context.Context) error {
				if source.IntN(6) == 0 {
					panic("the worker died")
				}
				return fn(ctx)
			})
			died = false
		}()
		switch {
		case died:
			time.Sleep(time.Minute)
		case d.Retry():
			time.Sleep(d.Delay.Truncate(time.Microsecond))
		default:
			return
		}
	}
}
