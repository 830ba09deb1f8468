package targets

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
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

// of returns the Budget of a target, for a call that has ended at once.
func of(b *Budgets, n int) *retry.Budget {
	u := b.Use(host(n))
	u.Done()
	return u.Budget
}

func host(n int) Host { return Named(strconv.Itoa(n)) }

func TestUse(t *testing.T) {
	var b Budgets
	first := of(&b, 1)
	assert.Equal(t, usual(), first)
	assert.Same(t, first, of(&b, 1))
	assert.NotSame(t, first, of(&b, 2), "another target")
	known := host(1)
	assert.Zero(t, testing.AllocsPerRun(100, func() { b.Use(known).Done() }), "a known target")
	(*Use)(nil).Done()
}

// A redirect may lead to any name. The Budgets keep none of the URLs that they were asked
// with, and no long names.
func TestWhatIsKept(t *testing.T) {
	var b Budgets
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range most {
		u, err := url.Parse(fmt.Sprintf("http://h%d.test:%d/?q=%s", n, 1000+n, strings.Repeat("x", 100<<10)))
		require.NoError(t, err)
		b.Use(HostOf(u)).Done()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2<<20))
	assert.Equal(t, most, len(b.of))

	b = Budgets{}
	name := strings.Repeat("x", longest)
	assert.Equal(t, "h", b.Use(Named(name)).Owner("h"))
	assert.Equal(t, "all targets beyond 1,000, of which this is one", b.Use(Named(name+"x")).Owner("h"))
}

// Which target goes when there are 1,000 and another one comes: the longest unused, if it
// was not asked for in ten seconds and its Budget is full. Else the new one shares.
func TestWhichTargetGoes(t *testing.T) {
	for _, row := range []struct {
		name   string
		then   func(b *Budgets, first *retry.Budget) // after targets 0 to 999
		after  time.Duration
		shares bool
		gone   int // -1: none
	}{
		{"at once", func(*Budgets, *retry.Budget) {}, unused - 1, true, -1},
		{"after ten seconds", func(*Budgets, *retry.Budget) {}, unused, false, 0},
		{"the first was asked for again", func(b *Budgets, _ *retry.Budget) { of(b, 0) }, unused, false, 1},
		{"all were asked for again", func(b *Budgets, _ *retry.Budget) {
			time.Sleep(unused)
			for target := range most {
				of(b, target)
			}
		}, unused - 1, true, -1},
		{"a call of the first hangs", func(b *Budgets, _ *retry.Budget) { b.Use(host(0)) }, time.Hour, false, 1},
		{"a call of the first has hung until now", func(b *Budgets, _ *retry.Budget) {
			call := b.Use(host(0))
			time.Sleep(time.Hour)
			call.Done()
		}, 0, false, 1},
		{"one of two calls of the first has ended", func(b *Budgets, _ *retry.Budget) {
			b.Use(host(0))
			b.Use(host(0)).Done()
		}, time.Hour, false, 1},
		{"the first has failed", func(_ *Budgets, first *retry.Budget) { first.Take() }, unused, false, 1},
		{"ten have failed", func(b *Budgets, _ *retry.Budget) {
			for target := range tries {
				of(b, target).Take()
			}
			for target := tries; target < most; target++ {
				of(b, target)
			}
		}, unused, true, -1},
		{"the first has failed, and is full again", func(_ *Budgets, first *retry.Budget) { first.Take(); first.Refund() }, unused, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b Budgets
				budgets := make([]*retry.Budget, most)
				for target := range most {
					budgets[target] = of(&b, target)
				}
				row.then(&b, budgets[0])
				time.Sleep(row.after)
				assert.Equal(t, row.shares, b.Use(host(1000)).of == nil)
				assert.Equal(t, []int{most, most}, []int{len(b.of), b.used.Len()})
				for target := range most {
					u, kept := b.of[host(target)]
					assert.Equal(t, target != row.gone, kept, target)
					assert.True(t, !kept || u.Budget == budgets[target])
				}
			})
		})
	}
}

// Whatever targets a client calls, at one time or one after the other: all of their
// Budgets together never allow more than 1,001 full ones, and what successes put back.
func TestFailingTargets(t *testing.T) {
	const attempts = 5
	call := func(b *retry.Budget) (requests int) {
		for requests = 1; requests < attempts && b.Take(); requests++ {
		}
		return requests
	}
	for _, row := range []struct {
		name                string
		targets, calls, all int // calls of each target, and all that are under way together
	}{
		{"1,000", 1000, 20, 1},
		{"1,001", 1001, 20, 1},
		{"2,000", 2000, 10, 1},
		{"2,000 at one time", 2000, 10, 2000},
		{"1,000,000", 1_000_000, 1, 1},
		{"1,000,000, of them 10,000 at one time", 1_000_000, 1, 10_000},
	} {
		t.Run(row.name, func(t *testing.T) {
			var b Budgets
			var under []*Use
			requests := 0
			for n := range row.targets * row.calls {
				if under = append(under, b.Use(host(n%row.targets))); len(under) == row.all {
					for _, use := range under {
						requests += call(use.Budget)
						use.Done()
					}
					under = nil
				}
			}
			calls := row.targets * row.calls
			assert.LessOrEqual(t, requests-calls, 1001*10)
			assert.LessOrEqual(t, float64(requests), 1.6*float64(calls))
		})
	}
}

// Calls of 2,000 targets hang for 30 s in each attempt, and fail. A target is not forgotten
// while it has one: else each of its calls would get a full Budget.
func TestTargetsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budgets
		requests, calls := atomic.Int64{}, 0
		for range 20 {
			for target := range 2000 {
				calls++
				go func() {
					use := b.Use(host(target))
					defer use.Done()
					p := retry.Default()
					p.Budget = use.Budget
					_ = retry.Do(t.Context(), p, func(context.Context) error {
						requests.Add(1)
						time.Sleep(30 * time.Second)
						return errors.New("connection timed out")
					})
				}()
				time.Sleep(11 * time.Millisecond) // 22 s for each target
			}
		}
		time.Sleep(10 * time.Minute)
		assert.LessOrEqual(t, int(requests.Load())-calls, 1001*(10+4)) // and what RefillEvery puts back meanwhile
	})
}

// A crawler asks each host once, and keeps those that it asks all the time. One of fifty
// attempts fails, and no call is lost.
func TestCrawler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budgets
		home := of(&b, -1)
		r := rand.New(rand.NewPCG(1, 2))
		for host := range 200_000 {
			budget := of(&b, host)
			for r.IntN(50) == 0 {
				if !budget.Take() {
					t.Fatal("a call is lost, after ", host)
				}
			}
			budget.Success()
			if of(&b, -1) != home {
				t.Fatal("a target in use has gone, after ", host)
			}
			time.Sleep(time.Millisecond)
		}
		assert.Equal(t, []int{most, most}, []int{len(b.of), b.used.Len()})
	})
}

func TestOneBudgetForAllGoroutines(t *testing.T) {
	var b Budgets
	var got [100]*retry.Budget
	var asking sync.WaitGroup
	for i := range got {
		asking.Go(func() { got[i] = of(&b, 0) })
	}
	asking.Wait()
	for _, budget := range got {
		assert.Same(t, got[0], budget)
	}
}
