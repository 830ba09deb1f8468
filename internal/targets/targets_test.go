package targets

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

func TestOf(t *testing.T) {
	var b Budgets[int]
	first := b.Of(1)
	assert.Equal(t, newBudget(), first)
	assert.Same(t, first, b.Of(1))
	assert.NotSame(t, first, b.Of(2), "another target")
	assert.Zero(t, testing.AllocsPerRun(100, func() { b.Of(1) }), "a known target")
}

// Which target goes when there are 1,000 and another one comes: the longest unused, if it
// was not asked for in ten seconds and its Budget is full. Else the new one shares.
func TestWhichTargetGoes(t *testing.T) {
	for _, row := range []struct {
		name   string
		then   func(b *Budgets[int], first *retry.Budget) // after targets 0 to 999
		after  time.Duration
		shares bool
		gone   int // -1: none
	}{
		{"at once", func(*Budgets[int], *retry.Budget) {}, unused - 1, true, -1},
		{"after ten seconds", func(*Budgets[int], *retry.Budget) {}, unused, false, 0},
		{"the first was asked for again", func(b *Budgets[int], _ *retry.Budget) { b.Of(0) }, unused, false, 1},
		{"all were asked for again", func(b *Budgets[int], _ *retry.Budget) {
			time.Sleep(unused)
			for target := range most {
				b.Of(target)
			}
		}, unused - 1, true, -1},
		{"the first has failed", func(_ *Budgets[int], first *retry.Budget) { first.Take() }, unused, true, -1},
		{"the first has failed, and the second is next", func(b *Budgets[int], first *retry.Budget) {
			first.Take()
			time.Sleep(unused)
			b.Of(-1)
		}, 0, false, 1},
		{"the first has failed, and is full again", func(_ *Budgets[int], first *retry.Budget) { first.Take(); first.Refund() }, unused, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b Budgets[int]
				of := make([]*retry.Budget, most)
				for target := range most {
					of[target] = b.Of(target)
				}
				row.then(&b, of[0])
				time.Sleep(row.after)
				assert.Equal(t, row.shares, b.Of(1000) == b.others)
				assert.Equal(t, []int{most, most}, []int{len(b.of), b.used.Len()})
				for target := range most {
					e, kept := b.of[target]
					assert.Equal(t, target != row.gone, kept, target)
					assert.True(t, !kept || e.Value.(*entry[int]).budget == of[target])
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
			var b Budgets[int]
			var under []*retry.Budget
			requests := 0
			for n := range row.targets * row.calls {
				if under = append(under, b.Of(n%row.targets)); len(under) == row.all {
					for _, budget := range under {
						requests += call(budget)
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

// A crawler asks each host once, and keeps those that it asks all the time. One of fifty
// attempts fails, and no call is lost.
func TestCrawler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Budgets[int]
		home := b.Of(-1)
		r := rand.New(rand.NewPCG(1, 2))
		for host := range 200_000 {
			budget := b.Of(host)
			for r.IntN(50) == 0 {
				if !budget.Take() {
					t.Fatal("a call is lost, after ", host)
				}
			}
			budget.Success()
			if b.Of(-1) != home {
				t.Fatal("a target in use has gone, after ", host)
			}
			time.Sleep(time.Millisecond)
		}
		assert.Equal(t, []int{most, most}, []int{len(b.of), b.used.Len()})
	})
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

// What is lost while a target fails for a moment, as when it is restarted: after a minute
// of 100 calls a second, 100 calls come at once, and the others go on.
func TestBlip(t *testing.T) {
	for _, row := range []struct {
		name      string
		processes int
		traffic   time.Duration // before
		fails     time.Duration
		lost      int
	}{
		{"1 process", 1, time.Minute, 300 * time.Millisecond, 0},
		{"10 processes", 10, time.Minute, 300 * time.Millisecond, 0},
		{"100 processes", 100, time.Minute, 300 * time.Millisecond, 0},
		{"a quarter of a minute", 1, 15 * time.Second, 100 * time.Millisecond, 0},
		{"no traffic before, as without Remember", 1, 0, 300 * time.Millisecond, 100},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, 2))
				of := make([]Budgets[string], row.processes)
				var lost atomic.Int64
				var down time.Time
				call := func(b *retry.Budget) {
					p := retry.Default()
					p.Budget = b
					if retry.Do(t.Context(), p, func(context.Context) error {
						if time.Now().Before(down) {
							return errors.New("connection refused")
						}
						return nil
					}) != nil {
						lost.Add(1)
					}
				}
				traffic := func(d time.Duration) {
					for range d / (10 * time.Millisecond) {
						time.Sleep(10 * time.Millisecond)
						go call(of[r.IntN(row.processes)].Of("db"))
					}
				}
				traffic(row.traffic)
				synctest.Wait()
				down = time.Now().Add(row.fails)
				for range 100 {
					go call(of[r.IntN(row.processes)].Of("db"))
				}
				if row.traffic > 0 {
					traffic(row.fails)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.EqualValues(t, row.lost, lost.Load())
			})
		})
	}
}
