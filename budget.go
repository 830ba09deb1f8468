package retry

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// A Budget is a shared allowance of retries: a bucket that is full at the start.
// A retry takes one retry out of it, and a call that succeeds puts back a share of
// one. If it is empty, a call returns its own error instead of trying again.
//
// A Budget allows at most Size + Ratio x successes retries, plus one for each
// RefillEvery that has passed since its first use. Grace, which is off by default,
// allows some retries more:
//
//	budget := &retry.Budget{Size: 100, Ratio: 0.1}
//
// Share one Budget among all the policies that call one target. A policy that is written as
// JSON or YAML and read back has a new Budget, which shares nothing. Do not copy a Budget,
// and do not change its fields once it is in use. It is safe for concurrent use,
// holds no lock, and nothing has to be released: a call that panics leaks
// nothing. A nil Budget allows every retry.
type Budget struct {
	// Name says whose retries these are, such as "http://db:8080", for gauges and logs. The
	// text of an Error that an empty Budget caused has it. "": no name.
	Name string

	Size int // retries it holds when full; below 1: invalid in a Policy, always empty elsewhere

	// Ratio is the share of a retry that a success puts back, counted in
	// billionths: 0.1 is one retry for ten successes. A Ratio outside [0, 1] is
	// invalid in a Policy; elsewhere the nearer of the two is used, and 0 for NaN.
	Ratio float64

	// RefillEvery puts back one retry each time this has passed since the first use:
	// a Take, or a Success if Remember is set. Without it a client that makes few
	// calls may get no retry for a long time after an outage, because only
	// successes put anything back. 0: never.
	// Below 1ms it is invalid in a Policy, and never elsewhere. The clock is the
	// monotonic one.
	RefillEvery time.Duration

	// Remember lets successes fill the Budget beyond Size, and what is beyond it fade: each
	// 16th of this time takes a 16th of it. While calls succeed, it holds about Size + Ratio x
	// the successes of the last Remember, so that the calls that fail in a short outage can
	// be retried; after a pause, it holds Size. With a Ratio of 0.1 and a Remember of 30s,
	// 100 successes a second are 300 retries more. What a Refund or a lender gives back
	// late fills it beyond Size too, and fades. 0: never more than Size. Below 1ms it is
	// invalid in a Policy, and 0 elsewhere.
	Remember time.Duration

	// Grace is for a short outage, such as the restart of a server: for this time after b
	// was last full, a retry is made even if b is empty. Full means nine tenths of the most
	// that b has held in about the last Remember. Such a retry takes nothing, and must be
	// among the first four of its call. A new Grace needs a minute in which no retry has
	// found b empty. Only retries of [Do] and [Once] have it, because Take knows no call.
	// 0: none. Below 1ms it is invalid in a Policy, and 0 elsewhere.
	Grace time.Duration

	// Borrowed says that another process lent these retries, as
	// retryhttp.BorrowBudget sets it: a retry that b does not allow is
	// ReasonBorrowed, not ReasonBudget.
	Borrowed bool

	spent atomic.Int64              // in billionths: a literal is full; below 0: beyond Size
	first atomic.Pointer[time.Time] // the first use; nil: none yet, or there is nothing to time
	ticks atomic.Int64              // how many retries RefillEvery has put back
	fades atomic.Int64              // how many times what is beyond Size has faded

	// For Grace. The times are counted from first, plus one: 0 is never.
	mark  atomic.Int64 // the most that b has held beyond Size, in billionths; it fades too
	high  atomic.Int64 // when a retry last found b full, as Grace means it
	empty atomic.Int64 // when a retry last found b empty
}

const (
	leastRefill = time.Millisecond // the shortest RefillEvery, Remember and Grace
	graceRetry  = 4                // the last retry of a call that has a Grace
	graceRest   = time.Minute      // without an empty Budget before the next Grace
)

// Take takes one retry out of b and reports whether there was one; true if b is
// nil. [Do] and [Once] do this themselves. A queue that asks [Policy.Next] calls Take
// if Next says to retry and Reset is false.
func (b *Budget) Take() bool {
	allowed, _ := b.take(graceRetry + 1)
	return allowed
}

// take takes one retry out of b for the retry of a call with this number. paid is false
// if b is nil, or if b allowed the retry in its Grace and gave nothing.
func (b *Budget) take(number int) (allowed, paid bool) {
	if b == nil {
		return true, false
	}
	now := b.look()
	if !b.graces() {
		paid = b.takeUpTo(1, 0) == 1
		return paid, paid
	}
	most := b.full() + b.mark.Load()
	if b.full()-b.spent.Load() >= most-most/10 && since(&b.empty, now) >= graceRest {
		b.high.Store(int64(now) + 1)
	}
	if b.takeUpTo(1, 0) == 1 {
		return true, true
	}
	b.empty.Store(int64(now) + 1)
	return number <= graceRetry && since(&b.high, now) < b.Grace, false
}

// since returns how long ago at was, where both are counted from the first use.
func since(at *atomic.Int64, now time.Duration) time.Duration {
	if then := at.Load(); then > 0 {
		return now - time.Duration(then-1)
	}
	return math.MaxInt64
}

// takeUpTo takes up to most retries out of b, of which it leaves keep, and returns
// how many it took.
func (b *Budget) takeUpTo(most, keep int64) int64 {
	for {
		spent := b.spent.Load()
		n := min(most, (b.full()-spent)/token-keep)
		if n < 1 {
			return 0
		}
		if b.spent.CompareAndSwap(spent, spent+n*token) {
			return n
		}
	}
}

// Refund gives back a retry that was taken and not made: at most once for each Take.
// Do and Once call it themselves.
func (b *Budget) Refund() {
	if b != nil {
		b.putBack(token, b.least())
	}
}

// Success puts back the share of one success. Do and Once call it themselves.
func (b *Budget) Success() {
	if b == nil {
		return
	}
	whole := b.putBack(shareOf(b.Ratio), b.least())
	if b.remembers() && (whole || b.first.Load() == nil) {
		b.look() // for one success of ten or so: the clock takes longer than all the rest
	}
}

// Left returns how many retries are left, for gauges: more than Size, if b remembers
// successes; [Unlimited], which is -1, if b is nil. What Grace allows is not counted.
func (b *Budget) Left() int {
	if b == nil {
		return Unlimited
	}
	b.catchUp()
	return int(min(math.MaxInt, max(0, b.full()-b.spent.Load())/token)) // of 32 bits too
}

func (b *Budget) full() int64 { return fullOf(b.Size) }

// remembers reports whether b can hold more than Size. One that is always empty cannot.
func (b *Budget) remembers() bool { return b.Remember >= leastRefill && b.Size > 0 }

// graces reports whether b can allow a retry that it does not hold.
func (b *Budget) graces() bool { return b.Grace >= leastRefill && b.Size > 0 }

// least returns the least that spent can be.
func (b *Budget) least() int64 {
	if b.remembers() {
		return b.full() - mostTokens*token
	}
	return 0
}

// look starts the clock if there is something to time, catches up with it, and returns how
// much time has passed since the first use.
func (b *Budget) look() time.Duration {
	if b.first.Load() == nil && (b.RefillEvery >= leastRefill || b.remembers() || b.graces()) {
		now := time.Now()
		b.first.CompareAndSwap(nil, &now)
	}
	return b.catchUp()
}

// catchUp puts back the retries of RefillEvery that are due, and lets what is beyond Size
// fade. The goroutine whose CompareAndSwap succeeds does it, so that it is done once. A
// Take at the same time may miss it.
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
		b.fade(due(&b.fades, passed, b.Remember/fadesEach))
	}
	return passed
}

// fade lets what is beyond Size fade n times, and the mark with it.
func (b *Budget) fade(n int64) {
	if n == 0 {
		return
	}
	for {
		spent := b.spent.Load()
		left := faded(-spent, n)
		if spent < 0 && !b.spent.CompareAndSwap(spent, -left) {
			continue
		}
		b.mark.Store(max(0, left, faded(b.mark.Load(), n)))
		return
	}
}

// due returns how many times every has passed that were not seen yet, and sees them.
func due(seen *atomic.Int64, passed, every time.Duration) int64 {
	before, now := seen.Load(), int64(passed/every)
	if now <= before || !seen.CompareAndSwap(before, now) {
		return 0
	}
	return now - before
}

// putBack puts n billionths of a retry back, but lets no less than least be spent. It
// reports whether they complete a whole retry. If b is full, b is only read: processors
// that share it do not fight over it.
func (b *Budget) putBack(n, least int64) (whole bool) {
	for {
		spent := b.spent.Load()
		n := min(n, spent-least)
		if n < 1 {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent-n) {
			held := b.full() - spent
			return held/token != (held+n)/token
		}
	}
}

// WithBudget returns a context below which every call takes its retries from b
// too, whatever its policy. It bounds the retries of all the layers of one
// request: three layers of four attempts each are 64 calls of the lowest, and
// under WithBudget(ctx, &retry.Budget{Size: 3}) at most 4.
//
// A retry takes one from every Budget of the context, innermost first, then from
// the policy's own. If one is empty, and its Grace does not allow the retry, the others get
// theirs back, and the call stops with ReasonBudget, or ReasonBorrowed if the empty one is
// Borrowed. Successes below ctx put nothing back into b. Only [Do], [DoValue] and [Once]
// look for it: [Policy.Next] and [Policy.Validate] have no context.
//
// WithBudget(ctx, &retry.Budget{}) means no retries below ctx, except after a
// healthy attempt (Policy.HealthyAfter), which takes nothing. WithBudget returns ctx if b
// is nil, or if ctx has b already. If b is the policy's own Budget too, a retry takes one
// from it, not two.
//
// ctx does not leave the process. [LendBudget] is for requests that do.
func WithBudget(ctx context.Context, b *Budget) context.Context {
	l := payersOf(ctx)
	if b == nil || l.has(b) {
		return ctx
	}
	return context.WithValue(ctx, payersKey{}, &payers{b, l})
}

type payersKey struct{}

// payers are the Budgets of a context, the nearest first, each of them once. A nil *payers
// is none.
type payers struct {
	budget *Budget
	outer  *payers
}

func payersOf(ctx context.Context) *payers {
	l, _ := ctx.Value(payersKey{}).(*payers)
	return l
}

// A receipt has a bit for each Budget that gave a retry: bit 0 for the policy's own, bit 1
// for the nearest of the context. Bit 63 is for the 63rd and all that are further out,
// which allow nothing in their Grace.
type receipt uint64

const lastBit = 63

// take takes the retry of a call with this number out of each Budget, and out of own last,
// or none out of any. It returns the Budget that was empty, nil if none was.
func (l *payers) take(own *Budget, number int) (r receipt, empty *Budget) {
	place, graced := 0, number
	for at := l; at != nil; at = at.outer {
		if place++; place == lastBit {
			graced = graceRetry + 1
		}
		allowed, paid := at.budget.take(graced)
		if !allowed {
			l.giveBack(r, at)
			return 0, at.budget
		}
		if paid {
			r |= 1 << min(place, lastBit)
		}
	}
	if l.has(own) {
		return r, nil
	}
	allowed, paid := own.take(number)
	if !allowed {
		l.giveBack(r, nil)
		return 0, own
	}
	if paid {
		r |= 1
	}
	return r, nil
}

// has reports whether b is one of them.
func (l *payers) has(b *Budget) bool {
	for ; l != nil; l = l.outer {
		if l.budget == b {
			return true
		}
	}
	return false
}

// giveBack gives a retry back to each Budget before end that gave one.
func (l *payers) giveBack(r receipt, end *payers) {
	place := 0
	for at := l; at != end; at = at.outer {
		if place++; r&(1<<min(place, lastBit)) != 0 {
			at.budget.Refund()
		}
	}
}

// refund gives back what take took.
func (l *payers) refund(own *Budget, r receipt) {
	l.giveBack(r, nil)
	if r&1 != 0 {
		own.Refund()
	}
}

// lend takes up to most retries out of each Budget, of which it leaves keep, and the same
// number out of each.
func (l *payers) lend(most, keep int64) int64 {
	if l == nil {
		return most
	}
	l.budget.look()
	took := l.budget.takeUpTo(most, keep)
	lent := l.outer.lend(took, keep)
	l.budget.putBack((took-lent)*token, l.budget.least())
	return lent
}

// LendBudget takes up to most retries out of each Budget of ctx, for another process.
// Tell that process the number lent: how many retries it may make, in all the layers
// below. Then call back with the number that it did not use. What never comes back is
// treated as spent.
//
// keep leaves one retry in each Budget. Set it if this layer may retry what it
// sends: otherwise a lost answer takes this retry with it.
//
// A Budget lends no more than it has: nothing of its Grace. If ctx has no Budget, lent is
// [Unlimited], and back does nothing; if a Budget is empty, or most is below 1, lent is 0.
// The policy's own Budget is not lent. back is safe for concurrent use. A negative unspent
// is treated as 0, and all calls of back together give back no more than lent.
//
// retryhttp.LendBudget does this for requests, and retrygrpc.LendBudget for calls.
func LendBudget(ctx context.Context, most int, keep bool) (lent int, back func(unspent int)) {
	l := payersOf(ctx)
	if l == nil {
		return Unlimited, func(int) {}
	}
	kept := int64(0)
	if keep {
		kept = 1
	}
	lent = int(l.lend(max(0, int64(most)), kept))
	out := &Budget{Size: lent} // what may still come back
	return lent, func(unspent int) {
		n := out.takeUpTo(int64(unspent), 0)
		for at := l; at != nil; at = at.outer {
			at.budget.putBack(n*token, at.budget.least())
		}
	}
}
