package retry

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/goretry/retry/internal/bucket"
)

// A Budget is a shared allowance of retries: a bucket that is full at the start.
// A retry takes one retry out of it, and a call that succeeds puts back a share of
// one. If it is empty, a call returns its own error instead of trying again.
//
// A Budget allows at most Size + Ratio x successes retries, plus one for each
// RefillEvery that has passed since its first use:
//
//	budget := &retry.Budget{Size: 100, Ratio: 0.1}
//
// Share one Budget among all the policies that call one target. Do not copy it,
// and do not change its fields once it is in use. It is safe for concurrent use,
// holds no lock, and nothing has to be released: a call that panics leaks
// nothing. A nil Budget allows every retry.
type Budget struct {
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

	// Borrowed says that another process lent these retries, as
	// retryhttp.BorrowBudget sets it: a retry that b does not allow is
	// ReasonBorrowed, not ReasonBudget.
	Borrowed bool

	spent atomic.Int64              // in billionths: a literal is full; below 0: beyond Size
	first atomic.Pointer[time.Time] // the first use; nil: none yet, or there is nothing to time
	ticks atomic.Int64              // how many retries RefillEvery has put back
	fades atomic.Int64              // how many times what is beyond Size has faded
}

// leastRefill is the shortest RefillEvery, and the shortest Remember.
const leastRefill = time.Millisecond

// Take takes one retry out of b and reports whether there was one; true if b is
// nil. [Do] and [Once] call it themselves. A queue that asks [Policy.Next] calls it
// if Next says to retry and Reset is false.
func (b *Budget) Take() bool { return b == nil || b.takeUpTo(1, 0) == 1 }

// takeUpTo takes up to most retries out of b, of which it leaves keep, and returns
// how many it took.
func (b *Budget) takeUpTo(most, keep int64) int64 {
	b.begin()
	b.catchUp()
	for {
		spent := b.spent.Load()
		n := min(most, (b.full()-spent)/bucket.Token-keep)
		if n < 1 {
			return 0
		}
		if b.spent.CompareAndSwap(spent, spent+n*bucket.Token) {
			return n
		}
	}
}

// Refund gives back a retry that was taken and not made: at most once for each Take.
// Do and Once call it themselves.
func (b *Budget) Refund() {
	if b != nil {
		b.putBack(bucket.Token, b.least())
	}
}

// Success puts back the share of one success. Do and Once call it themselves.
func (b *Budget) Success() {
	if b == nil {
		return
	}
	if b.remembers() {
		b.begin()
		b.catchUp()
	}
	b.putBack(bucket.Share(b.Ratio), b.least())
}

// Left returns how many retries are left, for gauges: more than Size, if b remembers
// successes; [Unlimited], which is -1, if b is nil.
func (b *Budget) Left() int {
	if b == nil {
		return Unlimited
	}
	b.catchUp()
	return int(min(math.MaxInt, max(0, b.full()-b.spent.Load())/bucket.Token)) // of 32 bits too
}

func (b *Budget) full() int64 { return bucket.Full(b.Size) }

// remembers reports whether b can hold more than Size. One that is always empty cannot.
func (b *Budget) remembers() bool { return b.Remember >= leastRefill && b.Size > 0 }

// least returns the least that spent can be.
func (b *Budget) least() int64 {
	if b.remembers() {
		return b.full() - bucket.Most*bucket.Token
	}
	return 0
}

// begin starts the clock, if there is something to time.
func (b *Budget) begin() {
	if b.first.Load() == nil && (b.RefillEvery >= leastRefill || b.remembers()) {
		now := time.Now()
		b.first.CompareAndSwap(nil, &now)
	}
}

// catchUp puts back the retries of RefillEvery that are due, and lets fade what is
// beyond Size. The goroutine that counts what is due does it, so that nothing is done
// twice; a Take in between may miss it.
func (b *Budget) catchUp() {
	first := b.first.Load()
	if first == nil {
		return
	}
	passed := time.Since(*first)
	if b.RefillEvery >= leastRefill {
		b.putBack(min(due(&b.ticks, passed, b.RefillEvery), bucket.Most)*bucket.Token, 0)
	}
	if !b.remembers() {
		return
	}
	for n := due(&b.fades, passed, b.Remember/bucket.Fades); n > 0; {
		spent := b.spent.Load()
		if spent >= 0 || b.spent.CompareAndSwap(spent, -bucket.Faded(-spent, n)) {
			return
		}
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

// putBack puts n billionths of a retry back, and no more than that least are spent. If b
// is full, b is only read: processors that share it do not fight over it.
func (b *Budget) putBack(n, least int64) {
	for {
		spent := b.spent.Load()
		n := min(n, spent-least)
		if n < 1 || b.spent.CompareAndSwap(spent, spent-n) {
			return
		}
	}
}

// WithBudget returns a context below which every call takes its retries from b
// too, whatever its policy. It bounds the retries of all the layers of one
// request: three layers of four attempts each are 64 calls of the lowest, and
// under WithBudget(ctx, &retry.Budget{Size: 3}) at most 4.
//
// A retry takes one from every Budget of the context, innermost first, then from
// the policy's own. A Budget found twice is charged once. If one is empty, the
// others get theirs back, and the call stops with ReasonBudget, or ReasonBorrowed
// if the empty one is Borrowed. Successes below ctx put nothing back into b. Only
// [Do], [DoValue] and [Once] look for it: [Policy.Next] and [Policy.Validate] have no
// context.
//
// WithBudget(ctx, &retry.Budget{}) means no retries below ctx, except after a
// healthy attempt (Policy.HealthyAfter), which takes nothing. A nil b adds nothing.
//
// ctx does not leave the process. [LendBudget] is for requests that do.
func WithBudget(ctx context.Context, b *Budget) context.Context {
	if b == nil {
		return ctx
	}
	return context.WithValue(ctx, payersKey{}, &payers{b, payersOf(ctx)})
}

type payersKey struct{}

// payers are the Budgets of a context, the nearest first. A nil *payers is none.
type payers struct {
	budget *Budget
	outer  *payers
}

func payersOf(ctx context.Context) *payers {
	l, _ := ctx.Value(payersKey{}).(*payers)
	return l
}

// take takes one retry out of each Budget, and out of own last, or none out of
// any. It returns the Budget that was empty, nil if none was.
func (l *payers) take(own *Budget) (empty *Budget) {
	for at := l; at != nil; at = at.outer {
		if !l.has(at.budget, at) && !at.budget.Take() {
			l.putBack(1, at)
			return at.budget
		}
	}
	if l.has(own, nil) || own.Take() {
		return nil
	}
	l.putBack(1, nil)
	return own
}

// has reports whether b is among those before end.
func (l *payers) has(b *Budget, end *payers) bool {
	for ; l != end; l = l.outer {
		if l.budget == b {
			return true
		}
	}
	return false
}

// putBack puts n retries back into each Budget before end.
func (l *payers) putBack(n int64, end *payers) {
	for at := l; at != end; at = at.outer {
		if !l.has(at.budget, at) {
			at.budget.putBack(n*bucket.Token, at.budget.least())
		}
	}
}

// refund gives back what take took.
func (l *payers) refund(own *Budget) {
	l.putBack(1, nil)
	if !l.has(own, nil) {
		own.Refund()
	}
}

// LendBudget takes up to most retries out of each Budget of ctx, for another process.
// Tell that process the number lent: how many retries it may make, in all the layers
// below. Then call back with the number that it did not use. What never comes back is
// treated as spent.
//
// keep leaves one retry in each Budget. Set it if this layer may retry what it
// sends: otherwise a lost answer takes this retry with it.
//
// A Budget lends no more than it has, and one that ctx has twice lends once. If ctx
// has no Budget, lent is [Unlimited], and back does nothing; if a Budget is empty, or
// most is below 1, lent is 0. The policy's own Budget is not lent. back is safe for
// concurrent use. A negative unspent is treated as 0, and all calls of back together
// give back no more than lent.
//
// retryhttp.LendBudget does this for requests, and retrygrpc.LendBudget for calls.
func LendBudget(ctx context.Context, most int, keep bool) (lent int, back func(unspent int)) {
	l := payersOf(ctx)
	if l == nil {
		return Unlimited, func(int) {}
	}
	n, kept := max(0, int64(most)), int64(0)
	if keep {
		kept = 1
	}
	for at := l; at != nil; at = at.outer {
		if l.has(at.budget, at) {
			continue
		}
		took := at.budget.takeUpTo(n, kept)
		l.putBack(n-took, at)
		n = took
	}
	out := &Budget{Size: int(n)} // what may still come back
	return int(n), func(unspent int) { l.putBack(out.takeUpTo(int64(unspent), 0), nil) }
}
