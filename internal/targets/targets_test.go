package targets

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

func TestOf(t *testing.T) {
	var b Budgets[int]
	first := b.Of(1)
	assert.Equal(t, []any{10, 0.1, 5 * time.Minute}, []any{first.Size, first.Ratio, first.RefillEvery})
	assert.Same(t, first, b.Of(1))
	assert.NotSame(t, first, b.Of(2), "another target")
	assert.Zero(t, testing.AllocsPerRun(100, func() { b.Of(1) }), "a known target")
}

// A crawler has 1,000 Budgets, however many hosts it asks, and the one that it uses all
// the time stays.
func TestCrawler(t *testing.T) {
	var b Budgets[int]
	home, second := b.Of(-1), b.Of(-2)
	for host := range 1_000_000 {
		b.Of(host)
		if b.Of(-1) != home {
			t.Fatal("a target in use has gone, after ", host)
		}
	}
	assert.Equal(t, []int{1000, 1000}, []int{len(b.of), b.used.Len()})
	second.Take()
	assert.Equal(t, 10, b.Of(-2).Left(), "one that went begins full again")
}

func TestOneBudgetForAllGoroutines(t *testing.T) {
	var b Budgets[string]
	var got [100]*retry.Budget
	var asking sync.WaitGroup
	for i := range got {
		asking.Go(func() { got[i] = b.Of("db") })
	}
	asking.Wait()
	for _, budget := range got {
		assert.Same(t, got[0], budget)
	}
}
