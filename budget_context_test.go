package retry_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// Three layers of four attempts each call the lowest layer 64 times. With a Budget in the
// context, the lowest layer is called once, and once more for each retry that the Budget
// allows.
func TestBudgetOfTheContextBoundsTheLayers(t *testing.T) {
	watched := func(context.Context, retry.Event) {}
	for _, p := range []retry.Policy{
		{MaxAttempts: 4, Backoff: retry.Fixed(time.Second)},
		{MaxAttempts: 4, Backoff: retry.Fixed(0)},
		{MaxAttempts: 4, Backoff: retry.Fixed(time.Second), MaxElapsed: time.Hour, AttemptTimeout: time.Hour, OnEvent: watched},
	} {
		everyWay(t, p.String(), func(t *testing.T, call caller) {
			for size, most := range map[int]int{0: 1, 1: 2, 3: 4, 10: 11, 1000: 64} {
				b, calls := &retry.Budget{Size: size, Ratio: 1}, 0
				_ = call(retry.WithBudget(t.Context(), b), p, func(ctx context.Context) error {
					return call(ctx, p, func(ctx context.Context) error { return call(ctx, p, fails(&calls)) })
				})
				assert.Equal(t, most, calls, "a Budget of %d", size)
				assert.Equal(t, size-most+1, b.Left(), "each retry of each layer takes a token")
			}
		})
	}
}

func TestLendBudget(t *testing.T) {
	sized := func(sizes ...int) (ctx context.Context, left func() []int) {
		var budgets []*retry.Budget
		ctx = t.Context()
		for _, size := range sizes {
			budgets = append(budgets, &retry.Budget{Size: size})
			ctx = retry.WithBudget(ctx, budgets[len(budgets)-1])
		}
		return ctx, func() (left []int) {
			for _, b := range budgets {
				left = append(left, b.Left())
			}
			return left
		}
	}
	for _, row := range []struct {
		name  string
		sizes []int // the sizes of the Budgets of the context
		most  int
		keep  bool
		lent  int
		left  []int // how many retries the Budgets hold meanwhile
	}{
		{"all retries that are left", []int{3}, 4, false, 3, []int{0}},
		{"all retries but one", []int{3}, 4, true, 2, []int{1}},
		{"the limit, if more retries are left", []int{9}, 4, true, 4, []int{5}},
		{"the only retry is kept", []int{1}, 4, true, 0, []int{1}},
		{"below 0", []int{-3}, 4, false, 0, []int{0}},
		{"the smallest of three, minus the kept retry", []int{9, 2, 5}, 4, true, 1, []int{8, 1, 4}},
		{"the inner Budget is empty", []int{9, 5, 0}, 4, false, 0, []int{9, 5, 0}},
		{"the outer Budget is empty", []int{0, 5, 9}, 4, false, 0, []int{0, 5, 9}},
		{"a negative number", []int{9}, math.MinInt, false, 0, []int{9}},
		{"the largest limit", []int{math.MaxInt32, 9}, math.MaxInt, true, 8, []int{math.MaxInt32 - 8, 1}},
		{"no Budget", nil, 4, true, retry.Unlimited, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, left := sized(row.sizes...)
			before := left()
			lent, back := retry.LendBudget(ctx, row.most, row.keep)
			require.Equal(t, row.lent, lent)
			assert.Equal(t, row.left, left())
			back(math.MinInt)
			assert.Equal(t, row.left, left(), "a negative number gives nothing back")
			back(math.MaxInt)
			assert.Equal(t, before, left(), "giveBack gives back at most the number lent")
			_, _ = retry.LendBudget(ctx, 1, false)
			spent := left()
			back(1)
			assert.Equal(t, spent, left(), "all lent retries have been given back already")
		})
	}
	t.Run("a Budget that the context contains twice lends once", func(t *testing.T) {
		outermost, b := &retry.Budget{Size: 4}, &retry.Budget{Size: 5}
		ctx := retry.WithBudget(retry.WithBudget(t.Context(), outermost), b)
		lent, back := retry.LendBudget(retry.WithBudget(retry.WithBudget(ctx, &retry.Budget{Size: 7}), b), 9, true)
		assert.Equal(t, []int{3, 2, 1}, []int{lent, b.Left(), outermost.Left()})
		back(3)
		assert.Equal(t, []int{5, 4}, []int{b.Left(), outermost.Left()})
	})
	t.Run("many goroutines lend and give back", func(t *testing.T) {
		ctx, left := sized(1000)
		lent, back := retry.LendBudget(ctx, 800, false)
		inGoroutines(16, 100, func(int) { back(1) })
		assert.Equal(t, []int{1000, 800}, append(left(), lent))
		var out atomic.Int64
		inGoroutines(16, 100, func(int) {
			lent, _ := retry.LendBudget(ctx, 3, true)
			out.Add(int64(lent))
		})
		assert.Equal(t, []int{1, 999}, append(left(), int(out.Load())), "all retries but one are lent")
	})
	bubble(t, "LendBudget starts RefillEvery, and the Budget never holds more than Size", func(t *testing.T) {
		b := &retry.Budget{Size: 2, RefillEvery: time.Minute}
		_, back := retry.LendBudget(retry.WithBudget(t.Context(), b), 2, false)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, b.Left())
		back(2)
		assert.Equal(t, 2, b.Left())
	})
}
