package retry

import (
	"math"
	"sync/atomic"
	"time"
)

// A Budget is a shared allowance of retries. It is a bucket of tokens, and one token allows one
// retry. The bucket is full at the start. Each retry takes one token, and each call that
// succeeds puts back a part of a token. If the Budget is empty, a call that fails returns its
// error instead of retrying.
//
// This Budget allows at most 100 retries, and one more retry for every ten successes:
//
//	budget := &retry.Budget{Size: 100, Ratio: 0.1}
//
// The field RefillEvery adds one retry for each interval that has passed since the first use. The
// field Grace allows some more retries. By default, Grace is off.
//
// Share one Budget among all policies that call the same target. If you write a policy as JSON
// or YAML and read it back, it has a new Budget, which no other policy shares. Do not copy a
// Budget, and do not change its fields after its first use. A Budget is safe for concurrent
// use. It takes no lock, and it does not have to be closed. A nil Budget allows every retry.
type Budget struct {
	// Name is the target of the retries, for example "http://db:8080". Gauges and logs show the
	// name. If the Budget is empty, the text of the Error contains the name. Name may be "".
	Name string

	// Size is how many retries a full Budget holds. In a Policy, a Size below 1 is invalid.
	// Outside of a Policy, a Budget with a Size below 1 is always empty.
	Size int

	// Ratio is the part of a retry that each success puts back, rounded to billionths. With a
	// Ratio of 0.1, ten successes put back one retry. In a Policy, a Ratio below 0, above 1 or NaN
	// is invalid. Outside of a Policy, a Ratio above 1 is treated as 1. A Ratio below 0 and NaN
	// are treated as 0.
	Ratio float64

	// RefillEvery is the interval at which one retry is put back. Without RefillEvery, only successes
	// put retries back. Then a client that makes few calls may get no retry for a long time after an
	// outage. The first interval begins at the first use of the Budget, on the monotonic clock. The
	// first use is a Take, or a Success if Remember is set. 0: there is no refill. In a Policy, any
	// other value below 1ms is invalid. Outside of a Policy, a value below 1ms is treated as 0.
	RefillEvery time.Duration

	// Remember lets successes fill the Budget above Size, so that more calls can be retried in a short
	// outage. The surplus above Size decays: after the time Remember, about a third of the surplus is
	// left. For example, with a Ratio of 0.1 and a Remember of 30s, a client with 100 successes a
	// second has about 300 retries above Size. After a pause without successes, the Budget holds Size
	// again.
	//
	// A Refund can fill the Budget above Size too, and so can a retry that a borrower gives back. 0:
	// the Budget never holds more than Size. In a Policy, any other value below 1ms is invalid.
	// Outside of a Policy, a value below 1ms is treated as 0.
	Remember time.Duration

	// Grace is the grace period for a short outage, such as the restart of a server. It starts anew
	// each time a retry finds the Budget full. During the grace period, the Budget allows retries even
	// if it is empty, and these retries take no token. Only the first four retries of a call may use
	// the grace period.
	//
	// Here, full means at least 90 % of Size. If the Budget recently held more than Size, full means
	// at least 90 % of this recent maximum. "Recently" means within a past period about as long as
	// Remember. Once a retry has found the Budget empty, a new grace period cannot start for a minute.
	// Each retry that finds the Budget empty starts this minute again.
	//
	// Only retries of [Do] and [Once] use the grace period. Take does not use it, because Take
	// does not know how many retries the call has made. 0: there is no grace period. In a Policy,
	// any other value below 1ms is invalid. Outside of a Policy, a value below 1ms is treated as
	// 0.
	Grace time.Duration

	// Borrowed says that another process lent the retries of this Budget. retryhttp.BorrowBudget sets
	// it. If a borrowed Budget is empty, the call stops with ReasonBorrowed instead of ReasonBudget.
	Borrowed bool

	spent  atomic.Int64              // Size minus the retries left, in billionths; negative: a surplus
	first  atomic.Pointer[time.Time] // when b was first used; nil: not yet, or no field needs a clock
	ticks  atomic.Int64              // how many intervals of RefillEvery have been counted
	decays atomic.Int64              // how many steps of decay have been made

	// The fields below are for Grace. The values of fullAt and emptyAt are nanoseconds since the
	// time in the field `first`, plus 1, so that 0 can mean never.
	peak    atomic.Int64 // the highest recent surplus, in billionths of a retry; it decays over time
	fullAt  atomic.Int64 // when a retry last found b full, and so began a grace period
	emptyAt atomic.Int64 // when a retry last found b empty
}

const (
	leastRefill = time.Millisecond // the shortest valid RefillEvery, Remember and Grace
	graceRetry  = 4                // how many retries of a call may use the grace period
	graceRest   = time.Minute      // after a retry found b empty: the time without a new grace period
)

// Take takes one retry out of b. It returns false if b is empty. If b is nil, it returns true.
// [Do] and [Once] call Take themselves. A queue that calls [Policy.Next] should call Take
// before each retry, unless Reset is true in the Decision.
func (b *Budget) Take() bool {
	allowed, _ := b.take(graceRetry + 1)
	return allowed
}

// The method `take` takes one retry out of b. The parameter `number` says which retry of its call
// this is: only the first retries of a call may use the grace period. The result `allowed` reports
// whether the retry may be made. The result `paid` reports whether b gave a token for the retry: a
// nil b and a b in its grace period allow a retry without a token.
func (b *Budget) take(number int) (allowed, paid bool) {
	if b == nil {
		return true, false
	}
	now := b.look()
	if !b.graces() {
		paid = b.takeUpTo(1, 0) == 1
		return paid, paid
	}
	most := b.full() + b.peak.Load()
	if b.full()-b.spent.Load() >= most-most/10 && since(&b.emptyAt, now) >= graceRest {
		b.fullAt.Store(int64(now) + 1)
	}
	if b.takeUpTo(1, 0) == 1 {
		return true, true
	}
	b.emptyAt.Store(int64(now) + 1)
	return number <= graceRetry && since(&b.fullAt, now) < b.Grace, false
}

// The function `since` returns the time from `moment` to `now`. Both parameters count from the
// first use of the Budget. If `moment` is 0, this moment has not come yet, and the result is the
// longest duration.
func since(moment *atomic.Int64, now time.Duration) time.Duration {
	if then := moment.Load(); then > 0 {
		return now - time.Duration(then-1)
	}
	return math.MaxInt64
}

// takeUpTo takes up to `limit` retries out of b, and leaves at least `reserve` retries in b. It
// returns how many retries it took.
func (b *Budget) takeUpTo(limit, reserve int64) int64 {
	for {
		spent := b.spent.Load()
		n := min(limit, (b.full()-spent)/token-reserve)
		if n < 1 {
			return 0
		}
		if b.spent.CompareAndSwap(spent, spent+n*token) {
			return n
		}
	}
}

// Refund gives back a retry that Take took and that was not made. Call Refund at most once for
// each Take. [Do] and [Once] call Refund themselves.
func (b *Budget) Refund() {
	if b != nil {
		b.putBack(token, b.minSpent())
	}
}

// Success puts back a fraction of a retry: the Ratio. Call Success once for each call that
// succeeds. [Do] and [Once] call Success themselves.
func (b *Budget) Success() {
	if b == nil {
		return
	}
	whole := b.putBack(shareOf(b.Ratio), b.minSpent())
	if b.remembers() && (whole || b.first.Load() == nil) {
		// The method `look` reads the clock, and this would be too slow for each success. So Success
		// calls `look` only if b has gained a whole retry, or if this is the first use of b.
		b.look()
	}
}

// Left returns how many retries b holds. It is for gauges. If b has a Remember, the result may
// exceed Size. If b is nil, the result is [Unlimited], which is -1. Left does not count the
// retries that Grace allows.
func (b *Budget) Left() int {
	if b == nil {
		return Unlimited
	}
	b.catchUp()
	return int(min(math.MaxInt, max(0, b.full()-b.spent.Load())/token)) // an int may have only 32 bits
}

func (b *Budget) full() int64 { return fullOf(b.Size) }

// remembers reports whether b can hold a surplus above Size. If Size is below 1, b is always
// empty and cannot hold a surplus.
func (b *Budget) remembers() bool { return b.Remember >= leastRefill && b.Size > 0 }

// graces reports whether b can have a grace period.
func (b *Budget) graces() bool { return b.Grace >= leastRefill && b.Size > 0 }

// minSpent returns the smallest value that the field `spent` may have. This value is below 0 if b
// can hold a surplus.
func (b *Budget) minSpent() int64 {
	if b.remembers() {
		return b.full() - mostTokens*token
	}
	return 0
}

// The method `look` calls catchUp. If a field of b needs a clock, `look` first stores the time of
// the first use. It returns how much time has passed since the first use.
func (b *Budget) look() time.Duration {
	if b.first.Load() == nil && (b.RefillEvery >= leastRefill || b.remembers() || b.graces()) {
		now := time.Now()
		b.first.CompareAndSwap(nil, &now)
	}
	return b.catchUp()
}

// catchUp puts back one retry for each interval of RefillEvery that has ended since the last call
// of catchUp, and lets the surplus decay. It returns how much time has passed since the first use.
// If several goroutines call catchUp at once, only the goroutine whose CompareAndSwap succeeds does
// the work, so the work is done once. Until this goroutine has finished, other goroutines may find
// the old number of retries.
func (b *Budget) catchUp() (passed time.Duration) {
	first := b.first.Load()
	if first == nil {
		return 0
	}
	passed = time.Since(*first)
	if b.RefillEvery >= leastRefill {
		b.putBack(min(due(&b.ticks, passed, b.RefillEvery), mostTokens)*token, 0)
	}
	if b.remembers() {
		b.decay(due(&b.decays, passed, b.Remember/decaySteps))
	}
	return passed
}

// The method `decay` lets the surplus above Size decay by n steps. The field `peak`, the highest
// surplus so far, decays as well.
func (b *Budget) decay(n int64) {
	if n == 0 {
		return
	}
	for {
		spent := b.spent.Load()
		left := decayed(-spent, n)
		if spent < 0 && !b.spent.CompareAndSwap(spent, -left) {
			continue
		}
		b.peak.Store(max(0, left, decayed(b.peak.Load(), n)))
		return
	}
}

// The function `due` returns how many periods have ended but are not counted yet, and adds this
// number to `counted`. The parameter `counted` is the number of periods that have been counted
// since the first use of the Budget. The parameter `passed` is the time since the first use, and
// `period` is the length of a period. If another goroutine counts the same periods first, the
// result is 0.
func due(counted *atomic.Int64, passed, period time.Duration) int64 {
	before, now := counted.Load(), int64(passed/period)
	if now <= before || !counted.CompareAndSwap(before, now) {
		return 0
	}
	return now - before
}

// putBack puts n billionths of a retry back, but never lets the field `spent` fall below minSpent.
// It reports whether the number of whole retries in b has grown. If nothing can be put back,
// putBack does not write to b: a write would slow down other processors that use b.
func (b *Budget) putBack(n, minSpent int64) (whole bool) {
	for {
		spent := b.spent.Load()
		n := min(n, spent-minSpent)
		if n < 1 {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent-n) {
			held := b.full() - spent
			return held/token != (held+n)/token
		}
	}
}

// asNew reports whether b allows at least as many retries as a new Budget with the same fields:
// b holds at least Size retries, and if b has a Grace, its grace period can start.
func (b *Budget) asNew() bool {
	if b == nil {
		return true
	}
	now := b.look()
	return b.Left() >= b.Size && (!b.graces() || since(&b.emptyAt, now) >= graceRest)
}

// A Budget counts in billionths of a retry. The functions below do the arithmetic on these counts.
// The counts are whole numbers, so no rounding errors add up: a thousand times a thousandth is
// exactly one retry. Package retrysim has a copy of this arithmetic, and a test there compares its
// budget with a retry.Budget.
const (
	token      = 1_000_000_000         // a whole retry, in billionths of a retry
	mostTokens = math.MaxInt64 / token // the most retries that a Budget can hold
	decaySteps = 16                    // in how many steps the surplus decays during the time Remember
)

// fullOf returns how many billionths of a retry a full Budget with the Size `size` holds.
func fullOf(size int) int64 { return min(max(0, int64(size)), mostTokens) * token }

// shareOf returns the part of a retry that a success puts back, in billionths of a retry. It
// returns 0 for NaN, because NaN > 0 is false.
func shareOf(ratio float64) int64 {
	if ratio > 0 {
		return int64(math.Round(min(ratio, 1) * token))
	}
	return 0
}

// decayed returns how much of the parameter `surplus` is left after `steps` steps of decay. Each
// step removes a 16th of the surplus, rounded up to a whole billionth.
func decayed(surplus, steps int64) int64 {
	for ; surplus > 0 && steps > 0; steps-- {
		surplus -= (surplus + decaySteps - 1) / decaySteps
	}
	return surplus
}
