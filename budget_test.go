package retry_test

import (
	"cmp"
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

// The function `succeed` records n successes in b.
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
		refill int // how many retries an empty Budget holds after 10 successes
	}{
		{"full at the start", &retry.Budget{Size: 20, Ratio: .5}, 20, 5},
		{"size 1", &retry.Budget{Size: 1, Ratio: 1}, 1, 1},
		{"a fraction of a token allows no retry", &retry.Budget{Size: 20, Ratio: .25}, 20, 2},
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
			assert.Equal(t, row.tokens, row.budget.Left(), "successes do not fill the Budget above Size")
			assert.Equal(t, row.tokens, tokens(row.budget))
			succeed(row.budget, 10)
			assert.Equal(t, row.refill, row.budget.Left())
			row.budget.Refund()
			assert.Equal(t, min(row.tokens, row.refill+1), row.budget.Left(), "a Refund puts back a whole retry, whatever the Ratio is")
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

func TestNilBudgetAllowsEveryRetry(t *testing.T) {
	var b *retry.Budget
	succeed(b, 3)
	for range 1000 {
		assert.True(t, b.Take())
	}
	b.Refund()
	assert.Equal(t, retry.Unlimited, b.Left())
}

// Goroutines that use a Budget concurrently neither lose nor invent tokens. The tokens taken
// plus the tokens left are the tokens at the start plus the tokens put back.
func TestGoroutinesNeitherLoseNorInventTokens(t *testing.T) {
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
	t.Run("while the surplus decays", func(t *testing.T) {
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
	bubble(t, "0 and invalid durations mean no refill", func(t *testing.T) {
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
		takes     int // how many retries the test takes at the start
		successes int
		pause     time.Duration
		left      int
	}{
		{"after one Remember, a bit more than a third of the surplus is left", &retry.Budget{Size: 10, Ratio: 1, Remember: minute}, 0, 1000, minute, 10 + 356},
		{"at the end the surplus is gone and Size is left", &retry.Budget{Size: 10, Ratio: 1, Remember: minute}, 0, 1e6, 100 * minute, 10},
		{"RefillEvery puts nothing above Size", &retry.Budget{Size: 10, Ratio: 1, RefillEvery: time.Second, Remember: 1 << 62}, 10, 20, time.Hour, 20},
		{"the shortest", &retry.Budget{Size: 10, Ratio: 1, Remember: time.Millisecond}, 0, 16, time.Millisecond / 16, 25},
		{"shorter: never", &retry.Budget{Size: 10, Ratio: 1, Remember: time.Millisecond - 1}, 0, 16, 0, 10},
		{"below 0: successes do not fill the Budget above Size", &retry.Budget{Size: 10, Ratio: 1, Remember: -minute}, 0, 16, 0, 10},
		{"always empty", &retry.Budget{Ratio: 1, Remember: minute}, 0, 16, 0, 0},
		{"as many retries as a Budget can hold", &retry.Budget{Size: math.MaxInt, Ratio: 1, Remember: minute}, 1, 3, 0, int(min(math.MaxInt, int64(math.MaxInt64)/1_000_000_000))},
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
			assert.Equal(t, row.left, row.budget.Left(), "a Refund puts a retry back, even above Size")
			if row.left < 1000 {
				assert.Equal(t, row.left, tokens(row.budget))
			}
		})
	}
}

// The function `retries` takes a retry out of b as Do and Once do. The parameter `number` says
// which retry of its call this is.
func retries(t *testing.T, b *retry.Budget, number int) bool {
	t.Helper()
	p := retry.Policy{MaxAttempts: 1 << 30, Backoff: retry.Fixed(0), Budget: b}
	_, err := retry.Once(t.Context(), p, retry.Attempt{Number: number}, func(context.Context) error { return errDial })
	reason := retry.ReasonOf(err)
	require.Contains(t, []retry.Reason{retry.ReasonRetry, retry.ReasonBudget}, reason)
	return reason == retry.ReasonRetry
}

// The function `drain` takes all retries that b holds.
func drain(b *retry.Budget) {
	for b.Left() > 0 {
		b.Take()
	}
}

func TestBudgetGrace(t *testing.T) {
	const grace, rest = time.Second, time.Minute
	size10 := func() *retry.Budget { return &retry.Budget{Size: 10, Ratio: 1, Remember: time.Hour, Grace: grace} }
	for _, row := range []struct {
		name   string
		before func(t *testing.T, b *retry.Budget) // empties the Budget
		number int
		want   bool
	}{
		{"the first retry of a call, at once", func(_ *testing.T, b *retry.Budget) { drain(b) }, 1, true},
		{"the fourth retry of a call", func(_ *testing.T, b *retry.Budget) { drain(b) }, 4, true},
		{"the fifth retry of a call", func(_ *testing.T, b *retry.Budget) { drain(b) }, 5, false},
		{"just before Grace ends", func(_ *testing.T, b *retry.Budget) { drain(b); time.Sleep(grace - 1) }, 1, true},
		{"when Grace ends", func(_ *testing.T, b *retry.Budget) { drain(b); time.Sleep(grace) }, 1, false},
		{"drained slowly: Grace starts at the last retry that found nine tenths", func(_ *testing.T, b *retry.Budget) {
			b.Take() // finds 10 retries
			time.Sleep(grace)
			b.Take() // finds 9 retries
			time.Sleep(grace - 1)
			drain(b)
		}, 1, true},
		{"drained slowly: Grace does not start at a retry that found less", func(_ *testing.T, b *retry.Budget) {
			b.Take()
			b.Take()
			time.Sleep(grace)
			drain(b)
		}, 1, false},
		{"a second outage within a minute", func(t *testing.T, b *retry.Budget) {
			drain(b)
			assert.True(t, retries(t, b, 1))
			time.Sleep(rest - 1)
			succeed(b, 10)
			drain(b)
		}, 1, false},
		{"a second outage after a minute", func(t *testing.T, b *retry.Budget) {
			drain(b)
			assert.True(t, retries(t, b, 1))
			time.Sleep(rest)
			succeed(b, 10)
			drain(b)
		}, 1, true},
		{"a denied retry starts the minute anew", func(t *testing.T, b *retry.Budget) {
			drain(b)
			time.Sleep(rest - 1)
			assert.False(t, retries(t, b, 5))
			time.Sleep(rest - 1)
			succeed(b, 10)
			drain(b)
		}, 1, false},
		{"a denied Take starts the minute anew", func(t *testing.T, b *retry.Budget) {
			drain(b)
			time.Sleep(rest - 1)
			assert.False(t, b.Take())
			time.Sleep(rest - 1)
			succeed(b, 10)
			drain(b)
		}, 1, false},
		{"less than nine tenths of the peak", func(_ *testing.T, b *retry.Budget) {
			b.Take()
			succeed(b, 200)            // holds 209 retries
			time.Sleep(rest * 60 / 16) // after the first decay: 10 + 186 retries
			for b.Left() > 176 {
				b.Take()
			}
			time.Sleep(grace)
			drain(b) // the first Take finds 176 retries; 177 would be nine tenths
		}, 1, false},
		{"nine tenths of the peak", func(_ *testing.T, b *retry.Budget) {
			b.Take()
			succeed(b, 200)
			time.Sleep(rest * 60 / 16)
			for b.Left() > 177 {
				b.Take()
			}
			time.Sleep(grace)
			drain(b)
		}, 1, true},
		{"the peak is kept when a decay finds no surplus", func(_ *testing.T, b *retry.Budget) {
			b.Take()
			succeed(b, 200)
			time.Sleep(rest * 60 / 16)
			for b.Left() > 10 {
				b.Take()
			}
			time.Sleep(rest * 60 / 16)
			drain(b) // the first Take finds 10 retries, and the peak is 184
		}, 1, false},
		{"an old peak has decayed", func(_ *testing.T, b *retry.Budget) {
			b.Take()
			succeed(b, 200)
			time.Sleep(rest * 60 / 16)
			for b.Left() > 10 {
				b.Take()
			}
			time.Sleep(rest * 60 * 10)
			drain(b) // the first Take finds 10 retries, and the peak is 10
		}, 1, true},
	} {
		bubble(t, row.name, func(t *testing.T) {
			b := size10()
			row.before(t, b)
			require.Zero(t, b.Left())
			assert.Equal(t, row.want, retries(t, b, row.number))
			assert.Zero(t, b.Left(), "the retry takes nothing")
		})
	}
	bubble(t, "no Grace", func(t *testing.T) {
		for name, b := range map[string]*retry.Budget{
			"not set":                   {Size: 1},
			"below 1ms":                 {Size: 1, Grace: time.Millisecond - 1},
			"below 0":                   {Size: 1, Grace: -grace},
			"a Size of 0 is never full": {Grace: grace},
		} {
			drain(b)
			assert.False(t, b.Take(), name)
			if b.Grace < time.Millisecond && b.Grace != 0 {
				continue // invalid in a Policy
			}
			if b.Size > 0 {
				assert.False(t, retries(t, b, 1), name)
			}
			ctx, runs := retry.WithBudget(t.Context(), b), 0
			assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(retry.Do(ctx, everySecond, fails(&runs))), name)
			assert.Equal(t, 1, runs, name)
		}
	})
	bubble(t, "Take does not use Grace", func(t *testing.T) {
		b := size10()
		drain(b)
		assert.False(t, b.Take())
		assert.True(t, retries(t, b, 1))
	})
	bubble(t, "LendBudget does not use Grace, and does not start the minute anew if it finds the Budget empty", func(t *testing.T) {
		b := size10()
		drain(b)
		ctx := retry.WithBudget(t.Context(), b)
		time.Sleep(rest - 1)
		lent, _ := retry.LendBudget(ctx, 3, false)
		assert.Zero(t, lent)
		time.Sleep(time.Nanosecond)
		succeed(b, 10)
		drain(b)
		assert.True(t, retries(t, b, 1))
	})
	bubble(t, "without Remember", func(t *testing.T) {
		b := &retry.Budget{Size: 10, Ratio: 1, Grace: grace}
		drain(b)
		assert.Equal(t, []bool{true, false}, []bool{retries(t, b, 4), retries(t, b, 5)})
	})
	bubble(t, "a size of 1, the shortest Grace", func(t *testing.T) {
		b := &retry.Budget{Size: 1, Grace: time.Millisecond}
		drain(b)
		time.Sleep(time.Millisecond - 1)
		assert.True(t, retries(t, b, 1))
		time.Sleep(time.Nanosecond)
		assert.False(t, retries(t, b, 1))
	})
	bubble(t, "after an attempt past HealthyAfter, the next four retries may use Grace", func(t *testing.T) {
		p := everySecond
		p.MaxAttempts, p.Budget, p.HealthyAfter = 20, &retry.Budget{Size: 1, Grace: time.Hour}, 30*time.Second
		runs := 0
		err := retry.Do(t.Context(), p, func(context.Context) error {
			if runs++; runs == 5 {
				time.Sleep(30 * time.Second)
			}
			return errDial
		})
		assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
		// The first attempt is followed by four retries: one takes the token, and three use Grace.
		// Attempt 5 runs past HealthyAfter, so the retry after it takes nothing. Three more retries use
		// Grace again.
		assert.Equal(t, 1+4+1+3, runs)
	})
}

// A retry that is not made gives back exactly the tokens that it took.
func TestBudgetGraceIsNotRefunded(t *testing.T) {
	for _, row := range []struct {
		name         string
		graces       [3]bool // for the policy's, the outer and the inner Budget; true: it is empty and in its Grace
		depth        int     // how many more Budgets the context has, all inside the inner Budget
		before, left [3]int
	}{
		{"each Budget gave a token", [3]bool{}, 0, [3]int{3, 3, 3}, [3]int{3, 3, 3}},
		{"the policy's Budget used its Grace", [3]bool{true, false, false}, 0, [3]int{0, 3, 3}, [3]int{0, 3, 3}},
		{"the outer Budget used its Grace", [3]bool{false, true, false}, 0, [3]int{3, 0, 3}, [3]int{3, 0, 3}},
		{"the inner Budget used its Grace", [3]bool{false, false, true}, 0, [3]int{3, 3, 0}, [3]int{3, 3, 0}},
		{"all Budgets used their Grace", [3]bool{true, true, true}, 0, [3]int{}, [3]int{}},
		{"of the Budgets 62 and 63, the outer one gave a token", [3]bool{true, false, true}, 61, [3]int{0, 3, 0}, [3]int{0, 3, 0}},
		{"in a context with 102 Budgets, each gave a token", [3]bool{}, 100, [3]int{3, 3, 3}, [3]int{3, 3, 3}},
	} {
		bubble(t, row.name, func(t *testing.T) {
			var budgets [3]*retry.Budget
			for i := range budgets {
				budgets[i] = &retry.Budget{Size: 4, Grace: time.Hour}
				budgets[i].Take()
				if row.graces[i] {
					drain(budgets[i])
				}
			}
			ctx := retry.WithBudget(retry.WithBudget(t.Context(), budgets[1]), budgets[2])
			var deep []*retry.Budget
			for range row.depth {
				deep = append(deep, &retry.Budget{Size: 9})
				deep[len(deep)-1].Take()
				ctx = retry.WithBudget(ctx, deep[len(deep)-1])
			}
			ctx, cancel := context.WithCancel(ctx)
			p := everySecond
			p.Budget = budgets[0]
			time.AfterFunc(time.Second/2, cancel)
			left := func() (left [3]int) {
				for i, b := range budgets {
					left[i] = b.Left()
				}
				return left
			}
			require.Equal(t, row.before, left())
			runs := 0
			assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(retry.Do(ctx, p, fails(&runs))))
			assert.Equal(t, row.left, left())
			for _, b := range deep {
				assert.Equal(t, 8, b.Left())
			}
		})
	}
	bubble(t, "an outer Budget is empty, so the inner Budgets get their tokens back", func(t *testing.T) {
		gave, allowed := &retry.Budget{Size: 2, Grace: time.Hour}, &retry.Budget{Size: 2, Grace: time.Hour}
		gave.Take()
		drain(allowed)
		ctx := retry.WithBudget(retry.WithBudget(retry.WithBudget(t.Context(), &retry.Budget{}), allowed), gave)
		runs := 0
		assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(retry.Do(ctx, everySecond, fails(&runs))))
		assert.Equal(t, []int{1, 0}, []int{gave.Left(), allowed.Left()})
	})
	bubble(t, "from the 63rd Budget of a context on there is no Grace", func(t *testing.T) {
		for depth, want := range map[int]retry.Reason{61: retry.ReasonExhausted, 62: retry.ReasonBudget, 80: retry.ReasonBudget} {
			b := &retry.Budget{Size: 1, Grace: time.Hour}
			drain(b)
			ctx := retry.WithBudget(t.Context(), b)
			for range depth {
				ctx = retry.WithBudget(ctx, &retry.Budget{Size: 9})
			}
			runs := 0
			assert.Equal(t, want, retry.ReasonOf(retry.Do(ctx, everySecond, fails(&runs))), depth)
		}
	})
}

// A slowBudget is a slow model of a Budget. It goes through time step by step, and stores what each
// retry found.
type slowBudget struct {
	*retry.Budget               // only its fields are used
	held, mark    int64         // the retries that it holds, and the recent peak of the surplus, in billionths
	now           time.Duration // the time since the first use
	refill, fade  time.Duration // the times of the next refill and of the next decay
	used          bool
	found         []found
}

// The type `found` says what one retry found in the Budget.
type found struct {
	at    time.Duration
	high  bool // the Budget was at least nine tenths full
	empty bool
}

func (s *slowBudget) size() int64 { return int64(s.Size) * 1e9 }

func (s *slowBudget) pass(d time.Duration) {
	if s.used {
		s.now += d
	}
}

// The method `look` starts the clock at the first use, and makes all steps up to the present time.
func (s *slowBudget) look() {
	if !s.used && (s.RefillEvery > 0 || s.Remember > 0 || s.Grace > 0) {
		s.used, s.refill, s.fade = true, s.RefillEvery, s.Remember/16
	}
	s.step()
}

func (s *slowBudget) step() {
	for ; s.RefillEvery > 0 && s.used && s.refill <= s.now; s.refill += s.RefillEvery {
		s.held = max(s.held, min(s.held+1e9, s.size()))
	}
	for ; s.Remember > 0 && s.used && s.fade <= s.now; s.fade += s.Remember / 16 {
		if beyond := s.held - s.size(); beyond > 0 {
			s.held -= (beyond + 15) / 16
		}
		s.mark -= (s.mark + 15) / 16
		s.mark = max(s.mark, s.held-s.size())
	}
}

func (s *slowBudget) add(n int64) {
	if s.held += n; s.Remember == 0 {
		s.held = min(s.held, s.size())
	}
}

func (s *slowBudget) success(share int64) {
	before := s.held
	s.add(share)
	if s.Remember > 0 && (!s.used || before/1e9 != s.held/1e9) {
		s.look()
	}
}

func (s *slowBudget) take(number int) (allowed, paid bool) {
	s.look()
	most := s.size() + s.mark
	f := found{at: s.now, high: s.held >= most-most/10, empty: s.held < 1e9}
	s.found = append(s.found, f)
	if !f.empty {
		s.held -= 1e9
		return true, true
	}
	return number <= 4 && s.Grace > 0 && s.graced(), false
}

// The method `graced` reports whether a retry is in a grace period. A grace period lasts for the
// time Grace. It begins when a retry finds the Budget nine tenths full, unless a retry has found
// the Budget empty in the minute before.
func (s *slowBudget) graced() bool {
	for i, f := range s.found {
		if !f.high || s.now-f.at >= s.Grace {
			continue
		}
		rested := true
		for _, before := range s.found[:i] {
			rested = rested && !(before.empty && f.at-before.at < time.Minute)
		}
		if rested {
			return true
		}
	}
	return false
}

// In random histories, a Budget agrees with the slow model to a billionth of a retry. With
// RETRY_LONG, the test checks a million histories.
func TestBudgetMatchesASlowModel(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		some := func(d time.Duration) time.Duration {
			return time.Duration(r.IntN(2)) * (time.Millisecond + time.Duration(r.Int64N(int64(d))))
		}
		graced := 0
		for seed := range rounds(20_000, 1_000_000) {
			ratio := r.IntN(1e9 + 1)
			b := &retry.Budget{
				Size: 1 + r.IntN(20), Ratio: float64(ratio) / 1e9, RefillEvery: some(time.Second),
				Remember: some(time.Minute), Grace: some(4 * time.Second),
			}
			slow := &slowBudget{Budget: b, held: int64(b.Size) * 1e9}
			taken := 0
			for op := range 1 + r.IntN(40) {
				switch r.IntN(6) {
				case 0:
					for range r.IntN(20) {
						number := r.IntN(6)
						want, paid := slow.take(cmp.Or(number, 9))
						if got := b.Take; number > 0 {
							require.Equal(t, want, retries(t, b, number), "history %d, step %d", seed, op)
						} else {
							require.Equal(t, want, got(), "history %d, step %d", seed, op)
						}
						if paid {
							taken++
						} else if want {
							graced++
						}
					}
				case 1, 2:
					for range r.IntN(20) {
						slow.success(int64(ratio))
						b.Success()
					}
				case 3:
					if taken > 0 {
						taken--
						slow.add(1e9)
						b.Refund()
					}
				case 4:
					d := time.Duration(r.Int64N(int64([]time.Duration{time.Second / 4, 2 * time.Second, 2 * time.Minute}[r.IntN(3)])))
					slow.pass(d)
					time.Sleep(d)
				case 5:
					slow.step()
					require.Equal(t, int(slow.held/1e9), b.Left(), "history %d, step %d", seed, op)
				}
			}
		}
		assert.Greater(t, graced, rounds(1000, 50_000))
	})
}

// A retry takes one token from each Budget, or no token at all. If the retry is not made, the
// Budgets get their tokens back.
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
		sizes  [3]int // how many retries the policy's, the outer and the inner Budget hold
		change func(p *retry.Policy, cancel func())
		runs   int
		reason retry.Reason // "": the call panics
		taken  [3]int
	}{
		{"each retry takes from all Budgets", all, nil, 3, retry.ReasonExhausted, [3]int{2, 2, 2}},
		{"the policy's Budget is empty", [3]int{0, 9, 9}, nil, 1, retry.ReasonBudget, [3]int{}},
		{"the outer Budget is empty", [3]int{9, 0, 9}, nil, 1, retry.ReasonBudget, [3]int{}},
		{"the inner Budget is empty", [3]int{9, 9, 0}, nil, 1, retry.ReasonBudget, [3]int{}},
		{"the outer Budget has a negative Size, which is valid in a context", [3]int{9, -5, 9}, nil, 1, retry.ReasonBudget, [3]int{}},
		{"the policy's Budget is empty and borrowed", [3]int{0, 9, 9}, func(p *retry.Policy, _ func()) { p.Budget.Borrowed = true },
			1, retry.ReasonBorrowed, [3]int{}},
		{"the second retry is denied before its wait", [3]int{1, 9, 9}, nil, 2, retry.ReasonBudget, [3]int{1, 1, 1}},
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
					budgets[i].Take() // so that a token too many would not be lost at Size
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
	everyWay(t, "an empty Budget: Err is the error of the attempt", func(t *testing.T, call caller) {
		runs := 0
		err := call(retry.WithBudget(t.Context(), &retry.Budget{}), everySecond, fails(&runs))
		assert.Equal(t, &retry.Error{Reason: retry.ReasonBudget, Attempts: 1, Delay: time.Second, Err: errDial}, plain(err))
	})
	everyWay(t, "a success adds Ratio once to the policy's Budget, and nothing to the Budget of the context", func(t *testing.T, call caller) {
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
		assert.Equal(t, []int{2, 4}, []int{p.Budget.Left(), shared.Left()}, "1, minus one retry, plus four times a half")
	})
	everyWay(t, "a Budget that the context has several times gives one token for a retry, and gets one back", func(t *testing.T, call caller) {
		b, other := &retry.Budget{Size: 9}, &retry.Budget{Size: 9}
		ctx := t.Context()
		for _, next := range []*retry.Budget{b, b, other, b, other} {
			ctx = retry.WithBudget(ctx, next)
		}
		assert.True(t, ctx == retry.WithBudget(ctx, nil), "a nil Budget does not change the context")
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
