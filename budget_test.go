package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	randv2 "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// succeed records n successes in b.
func succeed(b *retry.Budget, n int) {
	for range n {
		b.Success()
	}
}

func TestBudgetStartsFull(t *testing.T) {
	for _, size := range []int{1, 2, 10, 1000} {
		assert.Equal(t, size, tokens(&retry.Budget{Size: size, Ratio: .1}))
	}
}

func TestBudgetRefill(t *testing.T) {
	for _, row := range []struct {
		ratio     float64
		successes int // that pay for one retry
	}{
		{1, 1}, {.5, 2}, {.25, 4}, {.2, 5}, {.1, 10}, {.01, 100}, {.001, 1000}, {.00001, 100_000},
		{.3, 4}, {.7, 2}, {.9, 2}, {.999_999_999, 2},
		{1. / 3, 4}, // counted in billionths: three times 0.333333333 is less than one
	} {
		t.Run(fmt.Sprint(row.ratio), func(t *testing.T) {
			b := &retry.Budget{Size: 5, Ratio: row.ratio}
			require.Equal(t, 5, tokens(b))
			succeed(b, row.successes-1)
			assert.False(t, b.Take(), "after %d successes", row.successes-1)
			b.Success()
			assert.True(t, b.Take(), "after %d successes", row.successes)
		})
	}
}

// A thousand times a thousandth is exactly one, any number of times. Added up
// in floats it would be a little less or more.
func TestBudgetDoesNotDrift(t *testing.T) {
	for _, ratio := range []float64{.001, .1, .7} {
		b := &retry.Budget{Size: 100_000, Ratio: ratio}
		require.Equal(t, 100_000, tokens(b))
		const successes = 100_000
		succeed(b, successes)
		assert.Equal(t, int(math.Round(successes*ratio)), tokens(b), "ratio %v", ratio)
	}
	b := &retry.Budget{Size: 1, Ratio: .001}
	require.True(t, b.Take())
	for range 100 {
		succeed(b, 999)
		require.False(t, b.Take())
		b.Success()
		require.True(t, b.Take())
	}
}

func TestBudgetIsNeverMoreThanFull(t *testing.T) {
	for _, ratio := range []float64{0, .001, .3, 1} {
		b := &retry.Budget{Size: 3, Ratio: ratio}
		succeed(b, 10_000)
		assert.Equal(t, 3, tokens(b), "ratio %v", ratio)
	}

	b := &retry.Budget{Size: 3, Ratio: .7}
	require.True(t, b.Take())
	succeed(b, 2) // 2.7 and then 3.4, of which 3 fit
	assert.Equal(t, 3, tokens(b))
	succeed(b, 1)
	assert.Zero(t, tokens(b), "tokens that do not fit are lost")
}

func TestBudgetDoesNotOverflow(t *testing.T) {
	for _, size := range []int{math.MaxInt32, math.MaxInt - 1, math.MaxInt} {
		b := &retry.Budget{Size: size, Ratio: 1}
		require.NoError(t, retry.Policy{Budget: b}.Validate())
		succeed(b, 3)
		for range 1000 {
			require.True(t, b.Take())
		}
		succeed(b, 2000)
		assert.True(t, b.Take(), "size %d", size)
	}
}

func TestBudgetThatIsInvalid(t *testing.T) {
	for _, row := range []struct {
		name   string
		budget *retry.Budget
		tokens int
		refill int // after 10 successes
	}{
		{"the zero value", new(retry.Budget), 0, 0},
		{"size 0", &retry.Budget{Ratio: 1}, 0, 0},
		{"size below 0", &retry.Budget{Size: -1, Ratio: 1}, 0, 0},
		{"size far below 0", &retry.Budget{Size: math.MinInt, Ratio: 1}, 0, 0},
		{"ratio below 0", &retry.Budget{Size: 20, Ratio: -1}, 20, 0},
		{"ratio of minus infinity", &retry.Budget{Size: 20, Ratio: math.Inf(-1)}, 20, 0},
		{"ratio NaN", &retry.Budget{Size: 20, Ratio: math.NaN()}, 20, 0},
		{"ratio above 1", &retry.Budget{Size: 20, Ratio: 7}, 20, 10},
		{"ratio of infinity", &retry.Budget{Size: 20, Ratio: math.Inf(1)}, 20, 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, Budget: row.budget}
			assert.ErrorContains(t, p.Validate(), "Budget: ")
			assertInvalid(t, p)
			assert.Equal(t, row.tokens, tokens(row.budget))
			succeed(row.budget, 10)
			assert.Equal(t, row.refill, tokens(row.budget))
		})
	}
}

func TestBudgetRefund(t *testing.T) {
	b := &retry.Budget{Size: 2}
	require.True(t, b.Take())
	require.True(t, b.Take())
	b.Refund()
	assert.Equal(t, 1, tokens(b), "a whole retry, whatever the ratio")
	for range 5 {
		b.Refund()
	}
	assert.Equal(t, 2, b.Left(), "never more than full")
	empty := new(retry.Budget)
	empty.Refund()
	assert.False(t, empty.Take())
	assert.NotPanics(t, (*retry.Budget)(nil).Refund)
}

func TestBudgetNil(t *testing.T) {
	var b *retry.Budget
	succeed(b, 3)
	for range 1000 {
		assert.True(t, b.Take())
	}
	assert.True(t, retry.Policy{MaxAttempts: 3, Budget: b}.Next(retry.Attempt{Number: 1}).Retry())
}

// Whatever goroutines do concurrently, no token is lost or made up: the tokens
// taken and left are the tokens that were there and were put back.
func TestBudgetInManyGoroutines(t *testing.T) {
	const goroutines, turns = 16, 2000

	t.Run("taking from a full Budget", func(t *testing.T) {
		b := &retry.Budget{Size: goroutines * turns / 2}
		var taken atomic.Int64
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range turns {
					if b.Take() {
						taken.Add(1)
					}
				}
			})
		}
		wg.Wait()
		assert.EqualValues(t, goroutines*turns/2, taken.Load())
		assert.False(t, b.Take())
	})

	t.Run("taking and succeeding", func(t *testing.T) {
		b := &retry.Budget{Size: goroutines * turns, Ratio: .5}
		for range goroutines * turns / 2 {
			require.True(t, b.Take())
		}
		var taken atomic.Int64
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				random := randv2.New(randv2.NewPCG(uint64(i), 0))
				for range turns {
					b.Success()
					if random.IntN(3) == 0 && b.Take() {
						taken.Add(1)
					}
				}
			})
		}
		wg.Wait()
		assert.Equal(t, goroutines*turns, int(taken.Load())+tokens(b), "half of them were there, half were put back")
		assert.NotZero(t, taken.Load())
	})

	t.Run("successes of a full Budget", func(t *testing.T) {
		b := &retry.Budget{Size: 10, Ratio: 1}
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range turns {
					if b.Take() {
						succeed(b, 3)
					}
				}
			})
		}
		wg.Wait()
		assert.Equal(t, 10, tokens(b))
	})
}

// load calls a target that fails the given share of its attempts. It returns
// how many attempts the target saw and how many calls succeeded.
func load(t *testing.T, b *retry.Budget, requests int, failureShare float64) (attempts, successes int) {
	t.Helper()
	p := retry.Policy{MaxAttempts: 4, Budget: b}
	random := randv2.New(randv2.NewPCG(5, 6))
	boom := errors.New("boom")
	for range requests {
		err := retry.Do(t.Context(), p, func(context.Context) error {
			attempts++
			if random.Float64() < failureShare {
				return boom
			}
			return nil
		})
		if err == nil {
			successes++
		}
	}
	return attempts, successes
}

func TestBudgetBoundsTheLoad(t *testing.T) {
	const requests, size, ratio = 20_000, 100, .1
	for _, row := range []struct {
		failures      float64
		least         int // attempts that the failures would cause, or that the budget allows
		withoutBudget float64
	}{
		{0, requests, 1},
		{.1, requests + 1500, 1.11},
		{.5, requests + 1000, 1.87},
		{1, requests + size, 4},
	} {
		t.Run(fmt.Sprint(row.failures), func(t *testing.T) {
			attempts, successes := load(t, &retry.Budget{Size: size, Ratio: ratio}, requests, row.failures)
			assert.LessOrEqual(t, float64(attempts), requests+ratio*float64(successes)+size)
			assert.GreaterOrEqual(t, attempts, row.least, "the whole budget is used")
			t.Logf("load %.4f, share of successful calls %.4f", float64(attempts)/requests, float64(successes)/requests)

			unbounded, _ := load(t, nil, requests, row.failures)
			assert.InDelta(t, row.withoutBudget, float64(unbounded)/requests, .02, "the load without a budget")
		})
	}

	t.Run("in a total outage each call makes one attempt, once the bucket is empty", func(t *testing.T) {
		b := &retry.Budget{Size: size, Ratio: ratio}
		attempts, _ := load(t, b, requests, 1)
		assert.Equal(t, requests+size, attempts)
		attempts, _ = load(t, b, requests, 1)
		assert.Equal(t, requests, attempts)
	})

	t.Run("it fills again after the outage", func(t *testing.T) {
		b := &retry.Budget{Size: size, Ratio: ratio}
		load(t, b, requests, 1)
		load(t, b, size*10, 0)
		assert.Equal(t, size, tokens(b))
	})
}

func TestBudgetAllocatesNothing(t *testing.T) {
	b := &retry.Budget{Size: 100, Ratio: .1}
	assert.Zero(t, testing.AllocsPerRun(50, func() { b.Take(); b.Success() }))
}

func TestBudgetPutsBackABillionth(t *testing.T) {
	b := &retry.Budget{Size: 1, Ratio: 1e-9}
	require.True(t, b.Take())
	for range 1_000_000 {
		b.Success()
	}
	assert.False(t, b.Take(), "a thousandth of a token pays for no retry")
	whole := &retry.Budget{Size: 1, Ratio: 0.999999999}
	require.True(t, whole.Take())
	whole.Success()
	assert.False(t, whole.Take())
	whole.Success() // only a billionth fits
	assert.True(t, whole.Take())
}

func TestBudgetInTheLoop(t *testing.T) {
	everyWay(t, "a retry takes one token", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = &retry.Budget{Size: 5}
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Equal(t, 3, tokens(p.Budget))
	})
	everyWay(t, "empty: the retry is denied before its sleep, with the call's own error", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = &retry.Budget{Size: 1}
		start, runs := time.Now(), 0
		err := call(t.Context(), p, fails(&runs))
		assert.Equal(t, &retry.Error{Reason: retry.ReasonBudget, Attempts: 2, Waited: time.Second, Delay: time.Second, Err: errDial}, plain(err))
		assert.Equal(t, 2, runs)
		assert.Equal(t, time.Second, time.Since(start))
	})
	everyWay(t, "a ratio of 0 denies consecutive calls too", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = &retry.Budget{Size: 1}
		total := 0
		for range 10 {
			runs := 0
			assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(call(t.Context(), p, fails(&runs))))
			total += runs
		}
		assert.Equal(t, 11, total)
	})
	everyWay(t, "a call that succeeds adds ratio", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = &retry.Budget{Size: 2, Ratio: .5}
		tokens(p.Budget)
		for range 4 {
			require.NoError(t, call(t.Context(), p, func(context.Context) error { return nil }))
		}
		assert.Equal(t, 2, tokens(p.Budget))
	})
	everyWay(t, "a call that succeeds at its second attempt adds ratio once", func(t *testing.T, call caller) {
		p := everySecond
		p.Budget = &retry.Budget{Size: 5, Ratio: 1}
		tokens(p.Budget)
		p.Budget.Success()
		runs := 0
		require.NoError(t, call(t.Context(), p, func(context.Context) error {
			if runs++; runs == 1 {
				return errDial
			}
			return nil
		}))
		assert.Equal(t, 1, tokens(p.Budget))
	})
	everyWay(t, "a canceled wait gives its token back", func(t *testing.T, call caller) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		p := everySecond
		p.Budget = &retry.Budget{Size: 5}
		runs := 0
		err := call(hidden{ctx}, p, fails(&runs))
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, 2, runs)
		assert.Equal(t, 4, tokens(p.Budget), "one retry was made, one was not")
	})
	everyWay(t, "a retry that OnEvent cancels gives its token back", func(t *testing.T, call caller) {
		for _, delay := range []time.Duration{0, time.Second} {
			ctx, cancel := context.WithCancel(t.Context())
			p := everySecond
			p.Backoff = retry.Fixed(delay)
			p.Budget = &retry.Budget{Size: 5}
			p.OnEvent = func(_ context.Context, e retry.Event) {
				if e.Kind == retry.RetryScheduled {
					cancel()
				}
			}
			runs := 0
			assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(call(ctx, p, fails(&runs))))
			assert.Equal(t, 1, runs)
			assert.Equal(t, 5, tokens(p.Budget))
		}
	})
	everyWay(t, "a call that stops for another reason takes no token", func(t *testing.T, call caller) {
		for _, p := range []retry.Policy{
			{},
			{MaxAttempts: 3, NonRetryable: true},
			{MaxAttempts: 3, RetryIf: func(error) bool { return false }},
			{MaxAttempts: 3, Backoff: retry.Fixed(2), MaxElapsed: 1},
			{MaxAttempts: 3, Backoff: retry.Fixed(time.Hour)}, // passes the deadline
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			p.Budget = &retry.Budget{Size: 5}
			runs := 0
			stopped(t, call(ctx, p, fails(&runs)))
			assert.Equal(t, 1, runs)
			assert.Equal(t, 5, tokens(p.Budget))
			cancel()
		}
	})
	everyWay(t, "a call that fails adds nothing", func(t *testing.T, call caller) {
		p := retry.Policy{Budget: &retry.Budget{Size: 5, Ratio: 1}}
		tokens(p.Budget)
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Zero(t, tokens(p.Budget))
	})
}
