package retry_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// layers makes a call through three layers that all retry, and returns how
// often it reached the lowest one.
func layers(ctx context.Context, p retry.Policy, call caller) (calls int) {
	_ = call(ctx, p, func(ctx context.Context) error {
		return call(ctx, p, func(ctx context.Context) error {
			return call(ctx, p, func(context.Context) error { calls++; return errDial })
		})
	})
	return calls
}

func TestBudgetOfTheContextBoundsTheLayers(t *testing.T) {
	for _, p := range []retry.Policy{
		{MaxAttempts: 4, Backoff: retry.Fixed(time.Second)},
		{MaxAttempts: 4, Backoff: retry.Fixed(0)},
		{MaxAttempts: 4, Backoff: retry.Fixed(time.Second), MaxElapsed: time.Hour, AttemptTimeout: time.Hour, OnEvent: func(context.Context, retry.Event) {}},
	} {
		everyWay(t, p.String(), func(t *testing.T, call caller) {
			assert.Equal(t, 64, layers(t.Context(), p, call))
			for size, most := range map[int]int{0: 1, 1: 2, 3: 4, 10: 11, 1000: 64} {
				b := &retry.Budget{Size: size, Ratio: 1}
				assert.Equal(t, most, layers(retry.WithBudget(t.Context(), b), p, call), "a Budget of %d", size)
				if size == 1000 {
					assert.Equal(t, 1000-63, b.Left(), "every retry of every layer takes a token")
				}
			}
		})
	}
}

func TestBudgetOfTheContext(t *testing.T) {
	everyWay(t, "empty: no retry, and the call's own error", func(t *testing.T, call caller) {
		ctx := retry.WithBudget(t.Context(), &retry.Budget{})
		start, runs := time.Now(), 0
		err := call(ctx, everySecond, fails(&runs))
		assert.Equal(t, &retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Delay: time.Second, Err: errDial}, plain(err))
		assert.EqualError(t, err, "retry: retry budget exhausted after 1 attempt (the next delay is 1s): dial tcp: connection refused")
		assert.Equal(t, 1, runs)
		assert.Zero(t, time.Since(start))
	})
	everyWay(t, "a Budget without a size means no retry, and is not a fault", func(t *testing.T, call caller) {
		for _, b := range []*retry.Budget{new(retry.Budget), &retry.Budget{Size: -5, Ratio: 2}} {
			runs := 0
			err := call(retry.WithBudget(t.Context(), b), everySecond, fails(&runs))
			assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
			assert.Equal(t, 1, runs)
		}
	})
	everyWay(t, "nil adds nothing", func(t *testing.T, call caller) {
		ctx := t.Context()
		assert.True(t, ctx == retry.WithBudget(ctx, nil))
	})
	everyWay(t, "successes add no tokens", func(t *testing.T, call caller) {
		b := &retry.Budget{Size: 5, Ratio: 1}
		b.Take()
		require.NoError(t, call(retry.WithBudget(t.Context(), b), everySecond, func(context.Context) error { return nil }))
		assert.Equal(t, 4, b.Left())
	})
	everyWay(t, "a retry takes from all of them, and from the policy's own", func(t *testing.T, call caller) {
		outer, inner := &retry.Budget{Size: 9}, &retry.Budget{Size: 9}
		p := everySecond // two retries
		p.Budget = &retry.Budget{Size: 9}
		runs := 0
		stopped(t, call(retry.WithBudget(retry.WithBudget(t.Context(), outer), inner), p, fails(&runs)))
		assert.Equal(t, []int{7, 7, 7}, []int{outer.Left(), inner.Left(), p.Budget.Left()})
	})
	everyWay(t, "a retry takes from each once, however often the context has it", func(t *testing.T, call caller) {
		b, other := &retry.Budget{Size: 9}, &retry.Budget{Size: 9}
		ctx := t.Context()
		for _, next := range []*retry.Budget{b, b, other, b, other} {
			ctx = retry.WithBudget(ctx, next)
		}
		p := everySecond
		p.Budget = b
		runs := 0
		stopped(t, call(ctx, p, fails(&runs)))
		assert.Equal(t, []int{7, 7}, []int{b.Left(), other.Left()})
	})
	everyWay(t, "if one is empty the others keep their tokens", func(t *testing.T, call caller) {
		for empty := range 3 {
			budgets := []*retry.Budget{&retry.Budget{Size: 3}, &retry.Budget{Size: 3}, &retry.Budget{Size: 3}}
			budgets[empty] = &retry.Budget{Size: 1}
			budgets[empty].Take()
			p := everySecond
			p.Budget = budgets[2]
			runs := 0
			err := call(retry.WithBudget(retry.WithBudget(t.Context(), budgets[0]), budgets[1]), p, fails(&runs))
			assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
			for i, b := range budgets {
				want := 3
				if i == empty {
					want = 0
				}
				assert.Equal(t, want, b.Left(), "Budget %d, where %d is empty", i, empty)
			}
		}
	})
	everyWay(t, "a wait that is cut short gives every token back", func(t *testing.T, call caller) {
		outer, inner := &retry.Budget{Size: 9}, &retry.Budget{Size: 9}
		p := everySecond
		p.Budget = &retry.Budget{Size: 9}
		ctx, cancel := context.WithTimeout(retry.WithBudget(retry.WithBudget(t.Context(), outer), inner), 1500*time.Millisecond)
		defer cancel()
		runs := 0
		err := call(hidden{ctx}, p, fails(&runs))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, 2, runs)
		assert.Equal(t, []int{8, 8, 8}, []int{outer.Left(), inner.Left(), p.Budget.Left()}, "one retry was made, one was not")
	})
	everyWay(t, "a wait that is cut short gives one token back to a Budget that the context has twice", func(t *testing.T, call caller) {
		b := &retry.Budget{Size: 3}
		b.Take()
		b.Take()
		ctx, cancel := context.WithTimeout(retry.WithBudget(t.Context(), b), time.Second)
		defer cancel()
		p := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Hour), Budget: b}
		runs := 0
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(call(hidden{ctx}, p, fails(&runs))))
		assert.Equal(t, 1, b.Left())
	})
	everyWay(t, "a panic of OnEvent gives every token back", func(t *testing.T, call caller) {
		for _, kind := range []retry.EventKind{retry.RetryScheduled, retry.AttemptStarted} {
			shared := &retry.Budget{Size: 9}
			p := everySecond
			p.Budget = &retry.Budget{Size: 9}
			p.OnEvent = func(_ context.Context, e retry.Event) {
				if e.Kind == kind && (e.Kind == retry.RetryScheduled || e.Attempt == 2) {
					panic("OnEvent")
				}
			}
			runs := 0
			assert.PanicsWithValue(t, "OnEvent", func() { _ = call(retry.WithBudget(t.Context(), shared), p, fails(&runs)) })
			assert.Equal(t, 1, runs)
			assert.Equal(t, []int{9, 9}, []int{shared.Left(), p.Budget.Left()}, "%v", kind)
		}
	})
	everyWay(t, "a denied retry adds nothing to a full Budget of the policy", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = &retry.Budget{Size: 2, Ratio: 1}
		runs := 0
		stopped(t, call(retry.WithBudget(t.Context(), &retry.Budget{}), p, fails(&runs)))
		assert.Equal(t, 2, p.Budget.Left())
	})
	t.Run("Next and Validate have no context", func(t *testing.T) {
		assert.Equal(t, retry.ReasonRetry, everySecond.Next(retry.Attempt{Number: 1, Err: errDial}).Reason)
		hot := retry.Policy{MaxAttempts: retry.Unlimited}
		err := retry.Do(retry.WithBudget(t.Context(), &retry.Budget{Size: 3}), hot, func(context.Context) error { return errDial })
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err), "only the policy's own Budget makes it valid")
	})
}

// A caller that spins while the Budget of its context is empty must not deny
// retries to other callers of the policy. If the policy's own Budget were
// charged first, it would be short of one token nearly all the time.
func TestADeniedRetryLeavesThePolicysOwnBudgetAlone(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(0), Budget: &retry.Budget{Size: 1, Ratio: 1}}
	empty := retry.WithBudget(t.Context(), &retry.Budget{})
	var stop atomic.Bool
	var spinners sync.WaitGroup
	for range 2 {
		spinners.Go(func() {
			for !stop.Load() {
				_ = retry.Do(empty, p, func(context.Context) error { return errDial })
			}
		})
	}
	for range 2000 {
		runs := 0
		assert.NoError(t, retry.Do(t.Context(), p, func(context.Context) error {
			if runs++; runs == 1 {
				return errDial
			}
			return nil
		}))
	}
	stop.Store(true)
	spinners.Wait()
	assert.Equal(t, 1, p.Budget.Left())
}

func TestBudgetLeft(t *testing.T) {
	assert.Equal(t, retry.Unlimited, (*retry.Budget)(nil).Left())
	assert.Zero(t, new(retry.Budget).Left())
	assert.Equal(t, 7, (&retry.Budget{Size: 7}).Left(), "a literal is full")
	assert.Zero(t, (&retry.Budget{Size: -3, Ratio: .1}).Left())
	b := &retry.Budget{Size: 2, Ratio: .5}
	assert.Equal(t, 2, b.Left())
	b.Take()
	assert.Equal(t, 1, b.Left())
	b.Success()
	assert.Equal(t, 1, b.Left(), "one and a half")
	b.Success()
	assert.Equal(t, 2, b.Left())
}

func TestBudgetRefillEvery(t *testing.T) {
	bubble(t, "one at each whole multiple of d, up to the size", func(t *testing.T) {
		b := &retry.Budget{Size: 3, RefillEvery: time.Minute}
		assert.Equal(t, 3, tokens(b))
		for range 5 {
			time.Sleep(time.Minute - 1)
			assert.Zero(t, b.Left())
			assert.False(t, b.Take())
			time.Sleep(time.Nanosecond)
			assert.Equal(t, 1, b.Left())
			assert.True(t, b.Take())
			assert.False(t, b.Take(), "only one")
		}
		time.Sleep(time.Hour)
		assert.Equal(t, 3, b.Left())
	})
	bubble(t, "the multiples count from the first Take, not from the last one", func(t *testing.T) {
		b := &retry.Budget{Size: 1, RefillEvery: time.Minute}
		assert.Equal(t, 1, b.Left())
		time.Sleep(30 * time.Second)
		assert.True(t, b.Take())
		time.Sleep(59 * time.Second)
		assert.False(t, b.Take())
		time.Sleep(time.Second)
		assert.True(t, b.Take())
		time.Sleep(45 * time.Second)
		assert.False(t, b.Take())
		time.Sleep(15 * time.Second)
		assert.True(t, b.Take())
	})
	bubble(t, "successes add tokens as well", func(t *testing.T) {
		b := &retry.Budget{Size: 2, Ratio: .5, RefillEvery: time.Minute}
		tokens(b)
		b.Success()
		time.Sleep(time.Minute)
		assert.Equal(t, 1, b.Left())
		b.Success()
		assert.Equal(t, 2, b.Left())
	})
	bubble(t, "0 is never, and an invalid duration too", func(t *testing.T) {
		for _, d := range []time.Duration{0, -1, time.Millisecond - 1} {
			b := &retry.Budget{Size: 1, RefillEvery: d}
			b.Take()
			time.Sleep(time.Hour)
			assert.False(t, b.Take(), "%v", d)
		}
	})
	bubble(t, "a millisecond is the minimum", func(t *testing.T) {
		b := &retry.Budget{Size: 1, RefillEvery: time.Millisecond}
		b.Take()
		time.Sleep(time.Millisecond)
		assert.True(t, b.Take())
	})
	bubble(t, "an empty bucket of size 0 stays empty", func(t *testing.T) {
		b := &retry.Budget{RefillEvery: time.Millisecond}
		time.Sleep(time.Hour)
		assert.False(t, b.Take())
	})
	bubble(t, "a hundred years do not overflow", func(t *testing.T) {
		b := &retry.Budget{Size: 5, RefillEvery: time.Millisecond}
		tokens(b)
		time.Sleep(100 * 365 * 24 * time.Hour)
		assert.Equal(t, 5, b.Left())
	})
	t.Run("below 1ms is a fault", func(t *testing.T) {
		p := everySecond
		for _, d := range []time.Duration{-1, 1, time.Millisecond - 1} {
			p.Budget = &retry.Budget{Size: 1, RefillEvery: d}
			assert.EqualError(t, p.Validate(), fmt.Sprintf("invalid policy: Budget: RefillEvery is %v: write 0 for never, or at least 1ms", d))
		}
		p.Budget = &retry.Budget{Size: 1, RefillEvery: time.Millisecond}
		assert.NoError(t, p.Validate())
	})
	t.Run("time refills it, so it does not end an unlimited policy", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: retry.Unlimited, Budget: &retry.Budget{Size: 1, RefillEvery: time.Hour}}
		assert.EqualError(t, p.Validate(), "invalid policy: unlimited attempts without a delay, and RefillEvery refills the Budget: "+
			"set MaxAttempts, MaxRetries or a Backoff (Fixed(10*time.Millisecond))")
		p.Backoff = retry.Fixed(time.Second)
		assert.NoError(t, p.Validate())
	})
	// Without the refill, a client that calls once a minute would wait for ten
	// successes after an outage before it gets a retry.
	everyWay(t, "a quiet client gets a retry within d of an outage", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = &retry.Budget{Size: 3, Ratio: .1, RefillEvery: 5 * time.Minute}
		tokens(p.Budget) // the outage has taken them all
		retried := 0
		for range 20 {
			runs := 0
			_ = call(t.Context(), p, func(context.Context) error {
				if runs++; runs == 1 {
					return errDial
				}
				retried++
				return nil
			})
			time.Sleep(time.Minute)
		}
		assert.Equal(t, 3, retried, "one for each five minutes that have passed at a failure")
	})
}

// However many goroutines use a Budget, taken <= size + ratio x successes +
// floor(time / d). The bound is checked against a clock read after each Take.
func TestBudgetRefillIsNeverMoreThanItsBound(t *testing.T) {
	const goroutines, rounds, size = 64, 2000, 7
	for _, row := range []struct {
		ratio float64
		every time.Duration
	}{{0, time.Millisecond}, {.1, time.Millisecond}, {.1, 10 * time.Millisecond}, {1, time.Hour}} {
		t.Run(fmt.Sprint(row.ratio, row.every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				b := &retry.Budget{Size: size, Ratio: row.ratio, RefillEvery: row.every}
				var taken, successes atomic.Int64
				most := func() int64 {
					return size + int64(row.ratio*float64(successes.Load())+1e-6) + int64(time.Since(start)/row.every)
				}
				var all sync.WaitGroup
				for g := range goroutines {
					all.Go(func() {
						for i := range rounds {
							switch {
							case (g+i)%5 == 0:
								successes.Add(1) // before Success, so that the bound can only be too large
								b.Success()
							case (g*i)%97 == 0:
								time.Sleep(time.Duration(g+1) * 100 * time.Microsecond)
							case b.Take():
								if n := taken.Add(1); n > most() {
									t.Errorf("%d are taken after %v, more than %d", n, time.Since(start), most())
								}
							}
						}
					})
				}
				all.Wait()
				assert.Greater(t, taken.Load(), int64(size))
			})
		})
	}
}
