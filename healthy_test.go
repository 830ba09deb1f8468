package retry_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// running returns a function whose attempts run for these times and fail; the
// last one repeats.
func running(times ...time.Duration) func(context.Context) error {
	n := 0
	return func(context.Context) error {
		n++
		time.Sleep(times[min(n, len(times))-1])
		return errBoom
	}
}

func TestHealthyAfter(t *testing.T) {
	const hour = time.Hour
	minute := retry.Policy{MaxAttempts: 5, HealthyAfter: time.Minute}
	with := func(change func(*retry.Policy)) retry.Policy {
		p := minute
		change(&p)
		return p
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		times  []time.Duration
		want   string
		resets int
	}{
		{"five quick failures end a call of five", minute, []time.Duration{time.Second}, "attempts exhausted after 5 attempts", 0},
		{"a first attempt can be healthy", minute, []time.Duration{hour, 0}, "attempts exhausted after 5 attempts", 1},
		{"each healthy attempt begins anew", minute, []time.Duration{0, hour, 0, 0, hour, hour, 0}, "attempts exhausted after 5 attempts", 3},
		{"exactly HealthyAfter is healthy", minute, []time.Duration{time.Minute, 0}, "attempts exhausted after 5 attempts", 1},
		{"a nanosecond less is not", minute, []time.Duration{time.Minute - 1, 0}, "attempts exhausted after 5 attempts", 0},
		{"with one attempt a healthy one is the last", with(func(p *retry.Policy) { p.MaxAttempts = 1 }), []time.Duration{hour}, "attempts exhausted after 1 attempt", 1},
		{"an AttemptTimeout below it leaves none healthy", with(func(p *retry.Policy) { p.AttemptTimeout = time.Minute }), []time.Duration{2 * time.Minute, 0}, "attempts exhausted after 5 attempts", 0},
		{"an AttemptTimeout above it, reached", with(func(p *retry.Policy) { p.AttemptTimeout = hour }), []time.Duration{hour, 0}, "attempts exhausted after 5 attempts", 0},
		{"an AttemptTimeout above it, not reached", with(func(p *retry.Policy) { p.AttemptTimeout = hour }), []time.Duration{hour - 1, 0}, "attempts exhausted after 5 attempts", 1},
		{"MaxElapsed counts from the end of the healthy attempt", retry.Policy{MaxElapsed: 10 * time.Second, HealthyAfter: time.Minute, Backoff: retry.Fixed(3 * time.Second)}, []time.Duration{hour, 0}, "out of time after 4 attempts (9s waited, the next delay of 3s would exceed MaxElapsed 10s)", 1},
		{"an invalid policy does not begin anew", with(func(p *retry.Policy) { p.MaxDelay = -1 }), []time.Duration{hour}, "invalid policy after 1 attempt (MaxDelay is -1ns: write 0 for none, or a positive duration)", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, watched := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					if row.policy.OnEvent = nil; watched {
						row.policy.OnEvent = func(context.Context, retry.Event) {}
					}
					err := retry.Do(t.Context(), row.policy, running(row.times...))
					var failed *retry.Error
					require.ErrorAs(t, err, &failed)
					assert.EqualError(t, err, "retry: "+row.want+": boom")
					assert.Equal(t, row.resets, failed.Resets)
				})
			}
		})
	}
}

// Without jitter, and without a new seed, they would come back together, or each
// in the same place in every herd.
func TestAHerdComesBackSpreadAfterAHealthyHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, first = 1000, 10 * time.Second
		p := retry.Policy{
			MaxAttempts: retry.Unlimited, Backoff: retry.Exponential{Base: first}, MaxDelay: time.Hour,
			Jitter: retry.FullJitter, HealthyAfter: time.Minute,
		}
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		comeBack := map[int][]time.Duration{} // by outage, each client's delay
		seeds := map[uint64]int{}
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				mu.Lock()
				defer mu.Unlock()
				comeBack[e.Resets] = append(comeBack[e.Resets], e.Delay)
				seeds[e.Seed]++
			}
		}
		var all sync.WaitGroup
		for range clients {
			all.Go(func() { _ = retry.Do(ctx, p, running(time.Hour)) })
		}
		time.Sleep(3*time.Hour + 2*first + time.Second) // three outages
		cancel()
		all.Wait()

		for outage := 1; outage <= 3; outage++ {
			require.Len(t, comeBack[outage], clients)
			tenths := [10]int{}
			for _, d := range comeBack[outage] {
				require.Less(t, d, first, "the first delay comes first")
				tenths[d/(first/10)]++
			}
			for _, n := range tenths {
				assert.InDelta(t, clients/10, n, 40, "outage %d: %v", outage, tenths)
			}
		}
		assert.Len(t, seeds, 3*clients, "each outage draws a new seed")
	})
}

func TestTenHealthyDaysDoNotDrainABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, outer := &retry.Budget{Size: 3}, &retry.Budget{Size: 3}
		p := retry.Policy{MaxAttempts: 100, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Minute, Budget: own}
		ctx := retry.WithBudget(t.Context(), outer)
		retries := 0
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				retries++
			}
		}
		day := make([]time.Duration, 0, 240+1)
		for range 240 {
			day = append(day, time.Hour)
		}
		err := retry.Do(ctx, p, running(append(day, 0)...))
		assert.EqualError(t, err, "retry: retry budget exhausted after 5 attempts (4m3s waited, the next delay is 1s): boom", "240 free retries, and three that were paid for")
		assert.Equal(t, 243, retries)
		assert.Zero(t, own.Left())
		assert.Zero(t, outer.Left())
	})
}

// What a free retry did not take is not given back either.
func TestACanceledFreeRetryGivesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &retry.Budget{Size: 3}
		require.True(t, b.Take())
		p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Hour), HealthyAfter: time.Minute, Budget: b}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				cancel()
			}
		}
		err := retry.Do(ctx, p, running(2*time.Minute))
		assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		assert.Equal(t, 2, b.Left())
	})
}

func TestEventsOfAHealthyAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Linear(time.Second), HealthyAfter: time.Minute}
		p.Classify = func(error) *retry.Class { return &retry.Class{Name: "x", Policy: &retry.Policy{Backoff: p.Backoff}} }
		p.OnEvent = func(_ context.Context, e retry.Event) {
			log = append(log, fmt.Sprintf("%s attempt %d resets %d elapsed %v delay %v", e.Kind, e.Attempt, e.Resets, e.Elapsed, e.Delay))
		}
		err := retry.Do(t.Context(), p, running(0, time.Hour, 0))
		assert.EqualError(t, err, `retry: attempts exhausted after 3 attempts (4s waited): boom`)
		assert.Equal(t, []string{
			"attempt_started attempt 1 resets 0 elapsed 0s delay 0s",
			"attempt_finished attempt 1 resets 0 elapsed 0s delay 0s",
			"retry_scheduled attempt 1 resets 0 elapsed 0s delay 1s",
			"attempt_started attempt 2 resets 0 elapsed 1s delay 0s",
			"attempt_finished attempt 2 resets 0 elapsed 1h0m1s delay 0s",
			"retry_scheduled attempt 1 resets 1 elapsed 0s delay 1s", // the first delay of the class, too
			"attempt_started attempt 2 resets 1 elapsed 1s delay 0s",
			"attempt_finished attempt 2 resets 1 elapsed 1s delay 0s",
			"retry_scheduled attempt 2 resets 1 elapsed 1s delay 2s",
			"attempt_started attempt 3 resets 1 elapsed 3s delay 0s",
			"attempt_finished attempt 3 resets 1 elapsed 3s delay 0s",
			"stopped attempt 3 resets 1 elapsed 3s delay 0s",
		}, log)
	})
}

// Next takes the number, the time and the seed that it is given, and knows from
// Took alone that the call begins anew.
func TestNextAfterAHealthyAttempt(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: 3, Backoff: retry.Linear(time.Second), Jitter: retry.FullJitter, MaxElapsed: time.Minute,
		HealthyAfter: time.Minute, AttemptTimeout: time.Hour,
	}
	p.Classify = func(error) *retry.Class {
		return &retry.Class{Name: "x", Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Linear(time.Hour)}}
	}
	last := retry.Attempt{Number: 3, Classes: map[string]int{"x": 1}, Elapsed: 3 * time.Hour, Seed: 42, Err: errBoom}
	for _, row := range []struct {
		name string
		took time.Duration
		want retry.Decision
	}{
		{"not healthy", time.Minute - 1, retry.Decision{Reason: retry.ReasonExhausted, Delay: 2 * time.Hour, Lo: 2 * time.Hour, Hi: 2 * time.Hour, Class: "x"}},
		{"healthy", time.Minute, retry.Decision{Reason: retry.ReasonElapsed, Delay: time.Hour, Lo: time.Hour, Hi: time.Hour, Class: "x", Reset: true}},
		{"ended by AttemptTimeout", time.Hour, retry.Decision{Reason: retry.ReasonExhausted, Delay: 2 * time.Hour, Lo: 2 * time.Hour, Hi: 2 * time.Hour, Class: "x"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			last := last
			last.Took = row.took
			assert.Equal(t, row.want, p.Next(last))
		})
	}
	t.Run("the delay is that of attempt 1", func(t *testing.T) {
		p := p
		p.Classify = nil
		last := last
		last.Took = time.Minute
		d := p.Next(last)
		assert.Equal(t, retry.Decision{Reason: retry.ReasonRetry, Delay: retry.Draw(42, 1, 0, time.Second), Hi: time.Second, Seed: 42, Reset: true}, d)
	})
	t.Run("the classes are not changed", func(t *testing.T) {
		assert.Equal(t, map[string]int{"x": 1}, last.Classes)
	})
}

// The count of a queue is not that of Once.
func TestHealthyAfterInOnceIsNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 3, HealthyAfter: time.Minute, Backoff: retry.Fixed(time.Second)}
		var resets []int
		p.OnEvent = func(_ context.Context, e retry.Event) { resets = append(resets, e.Resets) }
		d, err := retry.Once(t.Context(), p, retry.Attempt{Number: 3, Took: time.Hour}, running(time.Hour))
		assert.Equal(t, retry.ReasonExhausted, d.Reason)
		assert.False(t, d.Reset)
		assert.EqualError(t, err, "retry: attempts exhausted after 3 attempts: boom")
		assert.Equal(t, []int{0, 0, 0}, resets)
	})
}
