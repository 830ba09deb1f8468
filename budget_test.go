package retry_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
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

func TestBudgetSizeAndRatio(t *testing.T) {
	for _, row := range []struct {
		name   string
		budget *retry.Budget
		tokens int
		refill int // after 10 successes
	}{
		{"full at the start", &retry.Budget{Size: 20, Ratio: .5}, 20, 5},
		{"size 1", &retry.Budget{Size: 1, Ratio: 1}, 1, 1},
		{"a fraction is no token", &retry.Budget{Size: 20, Ratio: .25}, 20, 2},
		{"ratio 0", &retry.Budget{Size: 20}, 20, 0},
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
			succeed(row.budget, 10)
			assert.Equal(t, row.tokens, row.budget.Left(), "never more than full")
			assert.Equal(t, row.tokens, tokens(row.budget))
			succeed(row.budget, 10)
			assert.Equal(t, row.refill, row.budget.Left())
			row.budget.Refund()
			assert.Equal(t, min(row.tokens, row.refill+1), row.budget.Left(), "a whole retry, whatever the ratio")
		})
	}
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

func TestBudgetNil(t *testing.T) {
	var b *retry.Budget
	succeed(b, 3)
	for range 1000 {
		assert.True(t, b.Take())
	}
	b.Refund()
	assert.Equal(t, retry.Unlimited, b.Left())
}

// Whatever goroutines do concurrently, no token is lost or made up: the tokens
// taken and left are the tokens that were there and were put back.
func TestBudgetInManyGoroutines(t *testing.T) {
	const goroutines, turns, all = 16, 2000, 16 * 2000
	for _, b := range []*retry.Budget{{Size: all / 2}, {Size: all, Ratio: .5}, {Size: all / 2, Ratio: .5, Remember: time.Hour}} {
		t.Run(fmt.Sprint("ratio ", b.Ratio, ", remember ", b.Remember), func(t *testing.T) {
			for b.Left() > all/2 {
				b.Take()
			}
			var taken atomic.Int64
			inGoroutines(goroutines, turns, func(turn int) {
				b.Success()
				if (b.Ratio == 0 || turn%3 == 0) && b.Take() {
					taken.Add(1)
				}
			})
			assert.NotZero(t, taken.Load())
			assert.EqualValues(t, all/2+b.Ratio*all, int(taken.Load())+tokens(b))
		})
	}
	t.Run("while it fades", func(t *testing.T) {
		b := &retry.Budget{Size: 10, Ratio: .5, Remember: time.Millisecond}
		var taken atomic.Int64
		inGoroutines(goroutines, turns, func(int) {
			b.Success()
			if b.Take() {
				taken.Add(1)
			}
			if b.Left() < 0 {
				t.Error("below zero")
			}
		})
		assert.LessOrEqual(t, int(taken.Load()), 10+all/2)
	})
	t.Run("successes of a full Budget", func(t *testing.T) {
		b := &retry.Budget{Size: 10, Ratio: 1}
		inGoroutines(goroutines, turns, func(int) {
			if b.Take() {
				succeed(b, 3)
			}
		})
		assert.Equal(t, 10, tokens(b))
	})
}

// inGoroutines calls f for each turn of each goroutine.
func inGoroutines(goroutines, turns int, f func(turn int)) {
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for turn := range turns {
				f(turn)
			}
		})
	}
	wg.Wait()
}

func TestBudgetRefillEvery(t *testing.T) {
	bubble(t, "0 is never, and an invalid duration too", func(t *testing.T) {
		for _, d := range []time.Duration{0, -1, time.Millisecond - 1} {
			b := &retry.Budget{Size: 1, RefillEvery: d}
			b.Take()
			time.Sleep(time.Hour)
			assert.False(t, b.Take(), "%v", d)
		}
	})
	bubble(t, "a millisecond is the minimum, and a hundred years do not overflow", func(t *testing.T) {
		b, empty := &retry.Budget{Size: 5, RefillEvery: time.Millisecond}, &retry.Budget{RefillEvery: time.Millisecond}
		assert.Equal(t, []int{5, 0}, []int{tokens(b), tokens(empty)})
		time.Sleep(time.Millisecond)
		assert.Equal(t, []int{1, 0}, []int{b.Left(), empty.Left()})
		time.Sleep(100 * 365 * 24 * time.Hour)
		assert.Equal(t, []int{5, 0}, []int{b.Left(), empty.Left()})
	})
}

func TestBudgetRemember(t *testing.T) {
	const minute, sixteenth = 16 * 4 * time.Second, 4 * time.Second
	for _, row := range []struct {
		name      string
		budget    *retry.Budget
		takes     int // first
		successes int
		pause     time.Duration
		left      int
	}{
		{"after a Remember a bit more than a third is left", &retry.Budget{Size: 10, Ratio: 1, Remember: minute}, 0, 1000, minute, 10 + 356},
		{"in the end nothing, and Size stays", &retry.Budget{Size: 10, Ratio: 1, Remember: minute}, 0, 1e6, 100 * minute, 10},
		{"RefillEvery puts nothing beyond Size", &retry.Budget{Size: 10, Ratio: 1, RefillEvery: time.Second, Remember: 1 << 62}, 10, 20, time.Hour, 20},
		{"the shortest", &retry.Budget{Size: 10, Ratio: 1, Remember: time.Millisecond}, 0, 16, time.Millisecond / 16, 25},
		{"shorter: never", &retry.Budget{Size: 10, Ratio: 1, Remember: time.Millisecond - 1}, 0, 16, 0, 10},
		{"below 0: never", &retry.Budget{Size: 10, Ratio: 1, Remember: -minute}, 0, 16, 0, 10},
		{"always empty", &retry.Budget{Ratio: 1, Remember: minute}, 0, 16, 0, 0},
		{"as much as can be held", &retry.Budget{Size: math.MaxInt, Ratio: 1, Remember: minute}, 1, 3, 0, int(min(math.MaxInt, int64(math.MaxInt64)/1_000_000_000))},
		{"a hundred years", &retry.Budget{Size: 1, Ratio: 1, Remember: time.Millisecond}, 0, 9, 100 * 365 * 24 * time.Hour, 1},
	} {
		bubble(t, row.name, func(t *testing.T) {
			for range row.takes {
				require.True(t, row.budget.Take())
			}
			succeed(row.budget, row.successes)
			time.Sleep(row.pause)
			assert.Equal(t, row.left, row.budget.Left())
			if took := row.budget.Take(); took {
				row.budget.Refund()
			}
			assert.Equal(t, row.left, row.budget.Left(), "what is taken and not used comes back, beyond Size too")
			if row.left < 1000 {
				assert.Equal(t, row.left, tokens(row.budget))
			}
		})
	}
}

// A slowBudget is what a Budget must be equal to. It steps through time.
type slowBudget struct {
	*retry.Budget               // its numbers
	held          int64         // in billionths
	now, refill   time.Duration // since the first use; when RefillEvery puts the next one back
	fade          time.Duration // when the next 16th goes
	used          bool
}

func (s *slowBudget) size() int64 { return int64(s.Size) * 1e9 }

// use begins to count the time, and pass passes it.
func (s *slowBudget) use() {
	if !s.used {
		s.used, s.refill, s.fade = true, s.RefillEvery, s.Remember/16
	}
}

func (s *slowBudget) pass(d time.Duration) {
	if !s.used {
		return
	}
	s.now += d
	for ; s.RefillEvery > 0 && s.refill <= s.now; s.refill += s.RefillEvery {
		s.held = max(s.held, min(s.held+1e9, s.size()))
	}
	for ; s.Remember > 0 && s.fade <= s.now; s.fade += s.Remember / 16 {
		if beyond := s.held - s.size(); beyond > 0 {
			s.held -= (beyond + 15) / 16
		}
	}
}

func (s *slowBudget) add(n int64) {
	if s.held += n; s.Remember == 0 {
		s.held = min(s.held, s.size())
	}
}

func (s *slowBudget) take() bool {
	s.use()
	if s.held < 1e9 {
		return false
	}
	s.held -= 1e9
	return true
}

// A Budget does what the slow one does, to a billionth of a retry, in a million random histories under RETRY_LONG.
func TestBudgetIsTheSlowOne(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		some := func(d time.Duration) time.Duration {
			return time.Duration(r.IntN(2)) * (time.Millisecond + time.Duration(r.Int64N(int64(d))))
		}
		for seed := range rounds(20_000, 1_000_000) {
			ratio := r.IntN(1e9 + 1)
			b := &retry.Budget{Size: 1 + r.IntN(20), Ratio: float64(ratio) / 1e9, RefillEvery: some(time.Second), Remember: some(time.Second)}
			slow := &slowBudget{Budget: b, held: int64(b.Size) * 1e9}
			taken := 0
			for op := range 1 + r.IntN(30) {
				switch r.IntN(5) {
				case 0:
					want := slow.take()
					require.Equal(t, want, b.Take(), "history %d, step %d", seed, op)
					if want {
						taken++
					}
				case 1, 2:
					for range r.IntN(20) {
						if b.Remember > 0 {
							slow.use()
						}
						slow.add(int64(ratio))
						b.Success()
					}
				case 3:
					if taken > 0 {
						taken--
						slow.add(1e9)
						b.Refund()
					}
				case 4:
					d := time.Duration(r.Int64N(int64(time.Second) / 4))
					slow.pass(d)
					time.Sleep(d)
				}
				require.Equal(t, int(slow.held/1e9), b.Left(), "history %d, step %d", seed, op)
			}
		}
	})
}

// A retry takes one from each Budget, or none from any, and gives back what it
// took if it is not made.
func TestBudgetInTheLoop(t *testing.T) {
	all := [3]int{9, 9, 9}
	on := func(kind retry.EventKind, attempt int, f func()) func(context.Context, retry.Event) {
		return func(_ context.Context, e retry.Event) {
			if e.Kind == kind && e.Attempt == attempt {
				f()
			}
		}
	}
	for _, row := range []struct {
		name   string
		sizes  [3]int // what is left in the policy's own, the outer and the inner Budget
		change func(p *retry.Policy, cancel func())
		runs   int
		reason retry.Reason // "": a panic
		taken  [3]int
	}{
		{"taken from all", all, nil, 3, retry.ReasonExhausted, [3]int{2, 2, 2}},
		{"the own one is empty", [3]int{0, 9, 9}, nil, 1, retry.ReasonBudget, [3]int{}},
		{"the outer one is empty", [3]int{9, 0, 9}, nil, 1, retry.ReasonBudget, [3]int{}},
		{"the inner one is empty", [3]int{9, 9, 0}, nil, 1, retry.ReasonBudget, [3]int{}},
		{"the outer one is below 0, which is no fault", [3]int{9, -5, 9}, nil, 1, retry.ReasonBudget, [3]int{}},
		{"the own one is empty, and borrowed", [3]int{0, 9, 9}, func(p *retry.Policy, _ func()) { p.Budget.Borrowed = true },
			1, retry.ReasonBorrowed, [3]int{}},
		{"denied before its sleep", [3]int{1, 9, 9}, nil, 2, retry.ReasonBudget, [3]int{1, 1, 1}},
		{"a canceled wait", all, func(p *retry.Policy, cancel func()) { time.AfterFunc(1500*time.Millisecond, cancel) },
			2, retry.ReasonCanceled, [3]int{1, 1, 1}},
		{"OnEvent cancels the wait", all, func(p *retry.Policy, cancel func()) { p.OnEvent = on(retry.RetryScheduled, 1, cancel) },
			1, retry.ReasonCanceled, [3]int{}},
		{"OnEvent panics before the wait", all, func(p *retry.Policy, _ func()) {
			p.OnEvent = on(retry.RetryScheduled, 1, func() { panic("OnEvent") })
		}, 1, "", [3]int{}},
		{"OnEvent panics after the wait", all, func(p *retry.Policy, _ func()) {
			p.OnEvent = on(retry.AttemptStarted, 2, func() { panic("OnEvent") })
		}, 1, "", [3]int{}},
		{"Wait panics", all, func(p *retry.Policy, _ func()) {
			p.Wait = func(context.Context, time.Duration) (time.Duration, error) { panic("OnEvent") }
		}, 1, "", [3]int{}},
		{"no limit", all, func(p *retry.Policy, _ func()) { p.MaxAttempts = 0 }, 1, retry.ReasonExhausted, [3]int{}},
		{"NonRetryable", all, func(p *retry.Policy, _ func()) { p.NonRetryable = true }, 1, retry.ReasonNonRetryable, [3]int{}},
		{"rejected", all, func(p *retry.Policy, _ func()) { p.RetryIf = func(error) bool { return false } },
			1, retry.ReasonRejected, [3]int{}},
		{"too late", all, func(p *retry.Policy, _ func()) { p.MaxElapsed = 1 }, 1, retry.ReasonElapsed, [3]int{}},
		{"past the deadline", all, func(p *retry.Policy, _ func()) { p.Backoff = retry.Fixed(time.Hour) }, 1, retry.ReasonDeadline, [3]int{}},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			var budgets [3]*retry.Budget
			for i, size := range row.sizes {
				if budgets[i] = (&retry.Budget{Size: size, Ratio: 2}); size >= 0 {
					budgets[i] = &retry.Budget{Size: size + 1, Ratio: 1}
					budgets[i].Take() // so that it would show if too many were given back
				}
			}
			ctx, cancel := context.WithTimeout(retry.WithBudget(retry.WithBudget(t.Context(), budgets[1]), budgets[2]), time.Minute)
			defer cancel()
			p := everySecond
			p.Budget = budgets[0]
			if row.change != nil {
				row.change(&p, cancel)
			}
			start, runs := time.Now(), 0
			if row.reason == "" {
				assert.PanicsWithValue(t, "OnEvent", func() { _ = call(ctx, p, fails(&runs)) })
			} else {
				assert.Equal(t, row.reason, retry.ReasonOf(call(ctx, p, fails(&runs))))
			}
			assert.Equal(t, row.runs, runs)
			if row.reason == retry.ReasonBudget {
				assert.Equal(t, time.Duration(runs-1)*time.Second, time.Since(start))
			}
			for i, b := range budgets {
				assert.Equal(t, max(0, row.sizes[i])-row.taken[i], b.Left(), "Budget %d", i)
			}
		})
	}
	everyWay(t, "denied: the call's own error", func(t *testing.T, call caller) {
		runs := 0
		err := call(retry.WithBudget(t.Context(), &retry.Budget{}), everySecond, fails(&runs))
		assert.Equal(t, &retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Delay: time.Second, Err: errDial}, plain(err))
	})
	everyWay(t, "a success adds ratio once to the policy's own, and nothing to that of the context", func(t *testing.T, call caller) {
		p, shared := everySecond, &retry.Budget{Size: 5, Ratio: 1}
		p.Budget = &retry.Budget{Size: 5, Ratio: .5}
		tokens(p.Budget)
		succeed(p.Budget, 2)
		for _, attempts := range []int{1, 2, 1, 1} {
			runs := 0
			require.NoError(t, call(retry.WithBudget(t.Context(), shared), p, func(context.Context) error {
				if runs++; runs < attempts {
					return errDial
				}
				return nil
			}))
		}
		assert.Equal(t, []int{2, 4}, []int{p.Budget.Left(), shared.Left()}, "1, less the retry, and four times a half")
	})
	everyWay(t, "taken once from each, and given back once, however often the context has it", func(t *testing.T, call caller) {
		b, other := &retry.Budget{Size: 9}, &retry.Budget{Size: 9}
		ctx := t.Context()
		for _, next := range []*retry.Budget{b, b, other, b, other} {
			ctx = retry.WithBudget(ctx, next)
		}
		assert.True(t, ctx == retry.WithBudget(ctx, nil), "nil adds nothing")
		p := everySecond
		p.Budget = b
		runs := 0
		stopped(t, call(ctx, p, fails(&runs)))
		assert.Equal(t, []int{7, 7}, []int{b.Left(), other.Left()})
		ended := hidden{within(ctx, time.Second/2, nil)}
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(call(ended, p, fails(&runs))))
		assert.Equal(t, []int{7, 7}, []int{b.Left(), other.Left()})
	})
}

// Three layers of four attempts are 64 calls of the lowest, and with a Budget in the
// context one, and one for each of its retries.
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
				assert.Equal(t, size-most+1, b.Left(), "every retry of every layer takes a token")
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
		sizes []int // of the Budgets of the context
		most  int
		keep  bool
		lent  int
		left  []int // in the Budgets, meanwhile
	}{
		{"all that is left", []int{3}, 4, false, 3, []int{0}},
		{"all but one", []int{3}, 4, true, 2, []int{1}},
		{"all but one, where there is enough", []int{9}, 4, true, 4, []int{5}},
		{"the only one is kept", []int{1}, 4, true, 0, []int{1}},
		{"below 0", []int{-3}, 4, false, 0, []int{0}},
		{"the least of three, but one", []int{9, 2, 5}, 4, true, 1, []int{8, 1, 4}},
		{"the inner one is empty", []int{9, 5, 0}, 4, false, 0, []int{9, 5, 0}},
		{"the outer one is empty", []int{0, 5, 9}, 4, false, 0, []int{0, 5, 9}},
		{"less than nothing", []int{9}, math.MinInt, false, 0, []int{9}},
		{"no end", []int{math.MaxInt32, 9}, math.MaxInt, true, 8, []int{math.MaxInt32 - 8, 1}},
		{"no Budget", nil, 4, true, retry.Unlimited, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, left := sized(row.sizes...)
			before := left()
			lent, back := retry.LendBudget(ctx, row.most, row.keep)
			require.Equal(t, row.lent, lent)
			assert.Equal(t, row.left, left())
			back(math.MinInt)
			assert.Equal(t, row.left, left(), "less than nothing goes back")
			back(math.MaxInt)
			assert.Equal(t, before, left(), "what was lent, and no more")
			_, _ = retry.LendBudget(ctx, 1, false)
			spent := left()
			back(1)
			assert.Equal(t, spent, left(), "it is back already")
		})
	}
	t.Run("a Budget that the context has twice lends once", func(t *testing.T) {
		outermost, b := &retry.Budget{Size: 4}, &retry.Budget{Size: 5}
		ctx := retry.WithBudget(retry.WithBudget(t.Context(), outermost), b)
		lent, back := retry.LendBudget(retry.WithBudget(retry.WithBudget(ctx, &retry.Budget{Size: 7}), b), 9, true)
		assert.Equal(t, []int{3, 2, 1}, []int{lent, b.Left(), outermost.Left()})
		back(3)
		assert.Equal(t, []int{5, 4}, []int{b.Left(), outermost.Left()})
	})
	t.Run("in parts, by many goroutines", func(t *testing.T) {
		ctx, left := sized(1000)
		lent, back := retry.LendBudget(ctx, 800, false)
		inGoroutines(16, 100, func(int) { back(1) })
		assert.Equal(t, []int{1000, 800}, append(left(), lent))
		var out atomic.Int64
		inGoroutines(16, 100, func(int) {
			lent, _ := retry.LendBudget(ctx, 3, true)
			out.Add(int64(lent))
		})
		assert.Equal(t, []int{1, 999}, append(left(), int(out.Load())), "never more than there is, and one is kept")
	})
	bubble(t, "RefillEvery begins, and while all is lent it puts back no more than fits", func(t *testing.T) {
		b := &retry.Budget{Size: 2, RefillEvery: time.Minute}
		_, back := retry.LendBudget(retry.WithBudget(t.Context(), b), 2, false)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, b.Left())
		back(2)
		assert.Equal(t, 2, b.Left())
	})
}
