package retry_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// budgetOf returns the Budget of a target, for a call that ends at once.
func budgetOf(b *retry.Budgets, target int) *retry.Budget {
	budget, done := b.For(strconv.Itoa(target))
	done()
	return budget
}

// The function `shared` returns the Budget of all targets that are not kept.
func shared(b *retry.Budgets) *retry.Budget {
	budget, done := b.For(strings.Repeat("x", 1025))
	done()
	return budget
}

// drainAndFill takes all retries of b and tries to take one more, so that b is found empty. Then it
// gives all retries back.
func drainAndFill(b *retry.Budget) {
	for b.Take() {
	}
	for b.Left() < b.Size {
		b.Refund()
	}
}

const (
	mostTargets = 1000
	targetRest  = 10 * time.Second
	targetTries = 10
)

func TestBudgetsFor(t *testing.T) {
	var b retry.Budgets
	first := budgetOf(&b, 1)
	assert.Equal(t, &retry.Budget{
		Name: "1", Size: 10, Ratio: 0.1, RefillEvery: 5 * time.Minute, Remember: time.Minute, Grace: time.Second,
	}, first)
	assert.Same(t, first, budgetOf(&b, 1))
	assert.NotSame(t, first, budgetOf(&b, 2), "another target")
	known := strconv.Itoa(1)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_, done := b.For(known)
		done()
	}), "a known target")
	assert.Equal(t, "all other targets", shared(&b).Name)
	longest, done := b.For(strings.Repeat("x", 1024))
	done()
	assert.NotSame(t, shared(&b), longest)
	empty, done := b.For("")
	done()
	assert.Same(t, shared(&b), empty, "the key \"\" gets the shared Budget")
}

func TestBudgetsNew(t *testing.T) {
	var keys []string
	b := retry.Budgets{New: func(key string) *retry.Budget {
		keys = append(keys, key)
		return &retry.Budget{Size: 3}
	}}
	one, done := b.For("a")
	done()
	again, done := b.For("a")
	done()
	assert.Same(t, one, again)
	assert.Equal(t, &retry.Budget{Size: 3}, one)
	assert.Equal(t, []string{"", "a"}, keys)
	none := retry.Budgets{New: func(string) *retry.Budget { return nil }}
	for target := range 2000 {
		budget, done := none.For(strconv.Itoa(target))
		done()
		require.Nil(t, budget)
	}
}

// A key may be a part of a long URL. The Budgets must not keep the URL in memory.
func TestBudgetsKeepNoLongText(t *testing.T) {
	var b retry.Budgets
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for target := range mostTargets {
		url := strconv.Itoa(1000+target) + strings.Repeat("x", 100<<10)
		_, done := b.For(url[:4])
		done()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2<<20))
	assert.NotNil(t, budgetOf(&b, 1000))
}

// When there are 1,000 targets and another target comes, the target that was used least recently is
// dropped. This target must not have been used for ten seconds, and its Budget must be full.
// Otherwise no target is dropped, and the new target gets the shared Budget.
func TestTargetUsedLeastRecentlyIsDropped(t *testing.T) {
	for _, row := range []struct {
		name   string
		then   func(b *retry.Budgets, first *retry.Budget) // is called after targets 0 to 999 were used
		after  time.Duration
		shares bool
		gone   int // the target that is dropped; -1: no target is dropped
	}{
		{"at once", func(*retry.Budgets, *retry.Budget) {}, targetRest - 1, true, -1},
		{"after ten seconds", func(*retry.Budgets, *retry.Budget) {}, targetRest, false, 0},
		{"the first was used again", func(b *retry.Budgets, _ *retry.Budget) { budgetOf(b, 0) }, targetRest, false, 1},
		{"all were used again", func(b *retry.Budgets, _ *retry.Budget) {
			time.Sleep(targetRest)
			for target := range mostTargets {
				budgetOf(b, target)
			}
		}, targetRest - 1, true, -1},
		{"a call of the first hangs", func(b *retry.Budgets, _ *retry.Budget) { b.For("0") }, time.Hour, false, 1},
		{"a call of the first has hung until now", func(b *retry.Budgets, _ *retry.Budget) {
			_, done := b.For("0")
			time.Sleep(time.Hour)
			done()
		}, 0, false, 1},
		{"one of two calls of the first has ended", func(b *retry.Budgets, _ *retry.Budget) {
			b.For("0")
			budgetOf(b, 0)
		}, time.Hour, false, 1},
		{"a call of the first has taken a retry", func(_ *retry.Budgets, first *retry.Budget) { first.Take() }, targetRest, false, 1},
		{"calls of the first ten have taken a retry", func(b *retry.Budgets, _ *retry.Budget) {
			for target := range targetTries {
				budgetOf(b, target).Take()
			}
			for target := targetTries; target < mostTargets; target++ {
				budgetOf(b, target)
			}
		}, targetRest, true, -1},
		{"the first was empty a minute ago, and is full again", func(_ *retry.Budgets, first *retry.Budget) { drainAndFill(first); time.Sleep(50 * time.Second) }, targetRest, false, 0},
		{"the first was empty less than a minute ago, and is full again", func(b *retry.Budgets, first *retry.Budget) {
			drainAndFill(first)
			time.Sleep(50*time.Second - 1)
		}, targetRest, false, 1},
		{"a call of the first has taken a retry and given it back", func(_ *retry.Budgets, first *retry.Budget) { first.Take(); first.Refund() }, targetRest, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b retry.Budgets
				budgets := make([]*retry.Budget, mostTargets)
				for target := range mostTargets {
					budgets[target] = budgetOf(&b, target)
				}
				row.then(&b, budgets[0])
				time.Sleep(row.after)
				assert.Equal(t, row.shares, budgetOf(&b, 1000) == shared(&b))
				for target := range mostTargets {
					if target != row.gone {
						assert.Same(t, budgets[target], budgetOf(&b, target), target)
					}
				}
				if row.gone >= 0 {
					assert.NotSame(t, budgets[row.gone], budgetOf(&b, row.gone))
				}
			})
		})
	}
}

// Whatever targets a client calls, all Budgets together never allow more than 1,001 full
// Budgets, plus the retries that successes put back.
func TestAllTargetsGetAtMost1001FullBudgets(t *testing.T) {
	const attempts = 5
	call := func(b *retry.Budget) (requests int) {
		for requests = 1; requests < attempts && b.Take(); requests++ {
		}
		return requests
	}
	many := rounds(1_000_000, 1_000_000)
	for _, row := range []struct {
		name                string
		targets, calls, all int // how many calls each target gets, and how many calls are in flight together
	}{
		{"1,000", 1000, 20, 1},
		{"1,001", 1001, 20, 1},
		{"2,000", 2000, 10, 1},
		{"2,000, all in flight together", 2000, 10, 2000},
		{"1,000,000", many, 1, 1},
		{"1,000,000, with 10,000 in flight together", many, 1, 10_000},
	} {
		t.Run(row.name, func(t *testing.T) {
			var b retry.Budgets
			var budgets []*retry.Budget
			var ends []func()
			requests := 0
			for n := range row.targets * row.calls {
				budget, done := b.For(strconv.Itoa(n % row.targets))
				budgets, ends = append(budgets, budget), append(ends, done)
				if len(budgets) == row.all {
					for i, budget := range budgets {
						requests += call(budget)
						ends[i]()
					}
					budgets, ends = nil, nil
				}
			}
			calls := row.targets * row.calls
			assert.LessOrEqual(t, requests-calls, 1001*10)
			assert.LessOrEqual(t, float64(requests), 1.6*float64(calls))
		})
	}
}

// Calls to 2,000 targets hang for 30 s in each attempt, and fail. A target with a call in
// flight is not dropped. If it were dropped, each of its calls would get a full Budget.
func TestTargetWithACallInFlightIsNotDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b retry.Budgets
		requests, calls := atomic.Int64{}, 0
		for range 20 {
			for target := range 2000 {
				calls++
				go func() {
					p := retry.Default()
					budget, done := b.For(strconv.Itoa(target))
					defer done()
					p.Budget = budget
					_ = retry.Do(t.Context(), p, func(context.Context) error {
						requests.Add(1)
						time.Sleep(30 * time.Second)
						return errors.New("connection timed out")
					})
				}()
				time.Sleep(11 * time.Millisecond) // each target is called every 22 s
			}
		}
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, int(requests.Load())-calls, 1001*(10+4)) // 10 retries for each Budget, plus the refills
	})
}

// A crawler calls most hosts once, and one host all the time. One of fifty attempts fails. No call
// is lost for lack of a retry.
func TestCrawlerLosesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b retry.Budgets
		home := budgetOf(&b, -1)
		r := rand.New(rand.NewPCG(1, 2))
		for host := range 200_000 {
			budget := budgetOf(&b, host)
			for r.IntN(50) == 0 {
				if !budget.Take() {
					t.Fatal("a call is lost, after ", host)
				}
			}
			budget.Success()
			if budgetOf(&b, -1) != home {
				t.Fatal("a target in use is dropped, after ", host)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func TestOneBudgetForAllGoroutines(t *testing.T) {
	var b retry.Budgets
	var got [100]*retry.Budget
	var asking sync.WaitGroup
	for i := range got {
		asking.Go(func() { got[i] = budgetOf(&b, 0) })
	}
	asking.Wait()
	for _, budget := range got {
		assert.Same(t, got[0], budget)
	}
}

// A target with a call in flight is kept, however long the call takes, even if its Budget is
// full.
func TestBudgetsKeepTheTargetOfALongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var budgets retry.Budgets
		long, done := budgets.For("long")
		for n := range 1500 {
			_, done := budgets.For(strconv.Itoa(n))
			done()
			time.Sleep(time.Minute)
		}
		again, doneAgain := budgets.For("long")
		assert.Same(t, long, again)
		doneAgain()
		done()
	})
}
