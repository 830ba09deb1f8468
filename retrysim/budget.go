package retrysim

import (
	"math"
	"time"

	"github.com/goretry/retry"
)

// A Budget does in simulated time what a [retry.Budget] does in real time, for
// simulations of your own. You pass the time to each method, as the duration since any
// moment that you choose. Time must not go back. A nil Budget allows every retry. A
// Budget is not safe for concurrent use.
type Budget struct{ budget *budget }

// NewBudget returns a full Budget with the fields of b, and nil if b is nil. It does not
// change b.
func NewBudget(b *retry.Budget) *Budget {
	if b == nil {
		return nil
	}
	return &Budget{newBudget(b)}
}

// Take takes one retry out of the Budget, and reports whether this retry is allowed.
// number is the number of the retry in its call, 1 for the first. It matters because
// Grace allows only the first four retries of a call.
func (b *Budget) Take(now time.Duration, number int) bool {
	if b == nil {
		return true
	}
	allowed, _ := b.budget.take(0, int64(now), number)
	return allowed
}

// Success records a call that succeeds at this time, and puts Ratio of a retry back.
func (b *Budget) Success(now time.Duration) {
	if b != nil {
		b.budget.success(0, int64(now))
	}
}

// This Budget computes like a retry.Budget. TestBudgetIsTheRealOne compares both. Retries are
// counted in billionths, as whole numbers, so that a thousand times a thousandth is one
// and rounding errors do not add up.
const (
	token      = 1_000_000_000         // one retry
	mostTokens = math.MaxInt64 / token // the most retries that a Budget can hold
	fadesEach  = 16                    // how often the surplus decays in a Remember
)

// These values are the same as in retry.Budget.
const (
	graceRetry = 4                  // Grace allows the retries of a call up to this number
	graceRest  = int64(time.Minute) // how long no retry may find the budget empty before a new Grace
)

// A budget is a retry.Budget in simulated time. Each client holds its own retries. What
// a client holds above Size is its surplus.
type budget struct {
	full, share int64 // Size and Ratio, in billionths of a retry

	// RefillEvery, a 16th of Remember, and Grace, in nanoseconds; 0: off.
	refill, fade, grace int64

	of map[uint32]*held // what each client holds; a client without an entry has a full budget
}

// A held is what one client holds. The times high and empty are stored plus one; 0: never.
type held struct {
	spent        int64 // Size minus what is held, in billionths of a retry; negative: a surplus
	first        int64 // when the budget was first used
	ticks, fades int64 // how many refills and decays there have been
	mark         int64 // the largest surplus, in billionths of a retry; it decays too
	high         int64 // when a retry last found at least nine tenths of full + mark
	empty        int64 // when a retry last found the budget empty
}

func newBudget(b *retry.Budget) *budget {
	return &budget{
		full: fullOf(b.Size), share: shareOf(b.Ratio),
		refill: int64(b.RefillEvery), fade: int64(b.Remember / fadesEach), grace: int64(b.Grace),
		of: map[uint32]*held{},
	}
}

// fullOf returns what a Budget of this Size holds when it is full.
func fullOf(size int) int64 { return min(max(0, int64(size)), mostTokens) * token }

// shareOf returns what a success puts back. It is 0 for NaN, which is not above 0.
func shareOf(ratio float64) int64 {
	if ratio > 0 {
		return int64(math.Round(min(ratio, 1) * token))
	}
	return 0
}

// faded returns what is left of a surplus after this many decays. Each decay takes a
// 16th of the surplus, rounded up.
func faded(surplus, times int64) int64 {
	for ; surplus > 0 && times > 0; times-- {
		surplus -= (surplus + fadesEach - 1) / fadesEach
	}
	return surplus
}

// held applies the refills and decays that are due, and returns what a client holds now.
func (b *budget) held(client uint32, now int64) *held {
	h := b.of[client]
	if h == nil {
		h = &held{first: now}
		b.of[client] = h
	}
	if passed := now - h.first; b.refill > 0 && passed/b.refill > h.ticks {
		h.spent -= min(max(0, h.spent), min(passed/b.refill-h.ticks, mostTokens)*token)
		h.ticks = passed / b.refill
	}
	if passed := now - h.first; b.fade > 0 && passed/b.fade > h.fades {
		times := passed/b.fade - h.fades
		h.spent = max(0, h.spent) - faded(max(0, -h.spent), times)
		h.mark = max(-h.spent, faded(h.mark, times))
		h.fades = passed / b.fade
	}
	return h
}

// take takes one retry out of the budget of a client. number is the number of the retry
// in its call. paid is false if Grace allows the retry, because then nothing is taken.
func (b *budget) take(client uint32, now int64, number int) (allowed, paid bool) {
	h := b.held(client, now)
	holds, most := b.full-h.spent, b.full+h.mark
	if holds >= most-most/10 && since(h.empty, now) >= graceRest {
		h.high = now + 1
	}
	if holds >= token {
		h.spent += token
		return true, true
	}
	h.empty = now + 1
	return number <= graceRetry && since(h.high, now) < b.grace, false
}

// since returns how long ago a time of a held was. For 0 (never) it returns the longest time.
func since(at, now int64) int64 {
	if at > 0 {
		return now - at + 1
	}
	return math.MaxInt64
}

// success puts the share of a success back. As in retry.Budget, refills and decays are
// then applied only if the success completes a whole retry.
func (b *budget) success(client uint32, now int64) {
	if b.fade > 0 && b.of[client] == nil {
		b.held(client, now)
	}
	if b.putBack(client, b.share) && b.fade > 0 {
		b.held(client, now)
	}
}

// putBack puts n billionths of a retry back, and reports whether they complete a whole
// retry. Without Remember, a budget holds at most Size.
func (b *budget) putBack(client uint32, n int64) (whole bool) {
	h := b.of[client]
	if h == nil {
		return false
	}
	least := int64(0)
	if b.fade > 0 {
		least = b.full - mostTokens*token
	}
	before := b.full - h.spent
	h.spent = max(h.spent-n, least)
	return before/token != (b.full-h.spent)/token
}
