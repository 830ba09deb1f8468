package retry

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// A Budget is a shared allowance of retries. It is a bucket of tokens, and one token allows one
// retry. The bucket is full at the start. Each retry takes one token, and each call that
// succeeds puts back a share of a token. If the Budget is empty, a call returns its error
// instead of retrying.
//
// A Budget allows at most Size + Ratio x successes retries, plus one retry for each
// RefillEvery since its first use. Grace, which is off by default, allows some more retries:
//
//	budget := &retry.Budget{Size: 100, Ratio: 0.1}
//
// Share one Budget among all policies that call the same target. A policy that is written as
// JSON or YAML and read back has a new Budget, which it shares with no other policy. Do not
// copy a Budget, and do not change its fields after its first use. A Budget is safe for
// concurrent use, holds no lock, and does not have to be closed. A nil Budget allows every
// retry.
type Budget struct {
	// Name names the target of the retries, such as "http://db:8080", for gauges and logs. If
	// the Budget is empty, the text of the Error contains Name. "": the Budget has no name.
	Name string

	// Size is how many retries a full Budget holds. Below 1 it is invalid in a Policy.
	// Elsewhere such a Budget is always empty.
	Size int

	// Ratio is the share of a retry that each success puts back, counted in billionths: 0.1
	// is one retry for ten successes. A Ratio outside [0, 1] is invalid in a Policy.
	// Elsewhere it is treated as the nearer of 0 and 1, and NaN as 0.
	Ratio float64

	// RefillEvery is the interval at which one retry is put back, counted from the first use.
	// The first use is a Take, or a Success if Remember is set. Without RefillEvery, a client
	// that makes few calls may get no retry for a long time after an outage, because only
	// successes put retries back. 0: no refill. Below 1ms it is invalid in a Policy, and
	// treated as 0 elsewhere. The clock is monotonic.
	RefillEvery time.Duration

	// Remember lets successes fill the Budget above Size. The surplus decays: after one
	// Remember about a third of the surplus is left. While calls succeed, the Budget holds
	// about Size + Ratio x the successes of the last Remember, so that the calls that fail in
	// a short outage can be retried. After a pause, it holds Size. With a Ratio of 0.1 and a
	// Remember of 30s, 100 successes a second allow 300 more retries. A Refund, or a retry
	// that a borrower gives back, fills the Budget above Size too. 0: the Budget never holds
	// more than Size. Below 1ms it is invalid in a Policy, and treated as 0 elsewhere.
	Remember time.Duration

	// Grace is the grace period for a short outage, such as the restart of a server. For this
	// time after the Budget was last full, it allows retries even if it is empty. Full means
	// at least nine tenths of the most that it held in about the last Remember. A retry in
	// the grace period takes nothing, and must be among the first four retries of its call. A
	// new grace period needs a minute in which no retry has found the Budget empty. Only
	// retries of [Do] and [Once] have a grace period, because Take does not know the call. 0:
	// no grace period. Below 1ms it is invalid in a Policy, and treated as 0 elsewhere.
	Grace time.Duration

	// Borrowed says that another process lent these retries. retryhttp.BorrowBudget sets it.
	// If a borrowed Budget is empty, the Reason is ReasonBorrowed, not ReasonBudget.
	Borrowed bool

	spent  atomic.Int64              // billionths; 0: b is full; below 0: b holds a surplus
	first  atomic.Pointer[time.Time] // the first use; nil: not used yet, or no field needs a clock
	ticks  atomic.Int64              // how many retries RefillEvery has put back
	decays atomic.Int64              // how many steps the surplus has decayed

	// For Grace. fullAt and emptyAt are durations since first, plus one; 0: never.
	peak    atomic.Int64 // the greatest surplus, in billionths; it decays like the surplus
	fullAt  atomic.Int64 // when a retry last found b full, in the meaning of Grace
	emptyAt atomic.Int64 // when a retry last found b empty
}

const (
	leastRefill = time.Millisecond // the shortest RefillEvery, Remember and Grace
	graceRetry  = 4                // the last retry of a call that may use a Grace
	graceRest   = time.Minute      // how long b must not be empty before the next Grace
)

// Take takes one retry out of b and reports whether b had one. A nil b always has one. [Do]
// and [Once] call Take themselves. A queue that calls [Policy.Next] calls Take if the
// Decision is to retry and Reset is false.
func (b *Budget) Take() bool {
	allowed, _ := b.take(graceRetry + 1)
	return allowed
}

// take takes one retry out of b. number is the number of the retry in its call, for Grace.
// paid is false if b is nil, or if b allowed the retry in its Grace and gave no token.
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

// since returns how long ago at was. Both at and now count from the first use.
func since(at *atomic.Int64, now time.Duration) time.Duration {
	if then := at.Load(); then > 0 {
		return now - time.Duration(then-1)
	}
	return math.MaxInt64
}

// takeUpTo takes up to most retries out of b, leaves at least keep retries in b, and returns
// how many retries it took.
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

// Refund gives back a retry that was taken and not made. Call it at most once for each Take.
// Do and Once call Refund themselves.
func (b *Budget) Refund() {
	if b != nil {
		b.putBack(token, b.least())
	}
}

// Success puts back the share of one success, see Ratio. Do and Once call Success themselves.
func (b *Budget) Success() {
	if b == nil {
		return
	}
	whole := b.putBack(shareOf(b.Ratio), b.least())
	if b.remembers() && (whole || b.first.Load() == nil) {
		b.look() // only after a whole retry, because reading the clock is slow
	}
}

// Left returns how many retries b holds, for gauges. With a Remember it may be more than
// Size. It is [Unlimited], which is -1, if b is nil. Left does not count the retries that
// Grace allows.
func (b *Budget) Left() int {
	if b == nil {
		return Unlimited
	}
	b.catchUp()
	return int(min(math.MaxInt, max(0, b.full()-b.spent.Load())/token)) // an int may have 32 bits
}

func (b *Budget) full() int64 { return fullOf(b.Size) }

// remembers reports whether b can hold a surplus. A Budget that is always empty cannot.
func (b *Budget) remembers() bool { return b.Remember >= leastRefill && b.Size > 0 }

// graces reports whether b can have a grace period.
func (b *Budget) graces() bool { return b.Grace >= leastRefill && b.Size > 0 }

// least returns the smallest value that spent may have.
func (b *Budget) least() int64 {
	if b.remembers() {
		return b.full() - mostTokens*token
	}
	return 0
}

// look starts the clock if a field of b needs it, catches up with the clock, and returns how
// much time has passed since the first use.
func (b *Budget) look() time.Duration {
	if b.first.Load() == nil && (b.RefillEvery >= leastRefill || b.remembers() || b.graces()) {
		now := time.Now()
		b.first.CompareAndSwap(nil, &now)
	}
	return b.catchUp()
}

// catchUp puts back the retries of RefillEvery that are due, and lets the surplus decay. Only
// the goroutine whose CompareAndSwap succeeds does the work, so it is done once. A Take in
// another goroutine at the same time may not see the result.
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

// decay lets the surplus and its peak decay n steps.
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

// due returns how many whole periods of length every have passed since seen was last updated,
// and updates seen. It returns 0 if another goroutine updated seen first.
func due(seen *atomic.Int64, passed, every time.Duration) int64 {
	before, now := seen.Load(), int64(passed/every)
	if now <= before || !seen.CompareAndSwap(before, now) {
		return 0
	}
	return now - before
}

// putBack puts n billionths of a retry back, but never lets spent fall below least. It reports
// whether a whole retry was completed. If b is full, putBack only reads b, so that processors
// that share b do not slow each other down.
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

// WithBudget returns a context with b. Every call under this context takes its retries also
// from b, whatever its policy is. So b bounds the retries of all layers of one request. For
// example, three layers of four attempts each make 64 calls of the lowest layer. Under
// WithBudget(ctx, &retry.Budget{Size: 3}) they make at most 4.
//
// A retry takes one token from each Budget of the context, starting with the innermost
// Budget, and then one token from the policy's Budget. If one of these Budgets is empty and
// its Grace does not allow the retry, the other Budgets get their tokens back. Then the call
// stops with ReasonBudget, or with ReasonBorrowed if the empty Budget is Borrowed. Successes
// under the context put nothing back into b. Only [Do], [DoValue] and [Once] use the context:
// [Policy.Next] and [Policy.Validate] have no context.
//
// WithBudget(ctx, &retry.Budget{}) allows no retry under ctx, except after an attempt that ran
// past HealthyAfter, because such a retry takes nothing. WithBudget returns ctx if b is nil,
// or if ctx already has b. If b is also the policy's Budget, a retry takes one token from b,
// not two.
//
// A context does not leave the process. Use [LendBudget] for requests to other processes.
func WithBudget(ctx context.Context, b *Budget) context.Context {
	l := payersOf(ctx)
	if b == nil || l.has(b) {
		return ctx
	}
	return context.WithValue(ctx, payersKey{}, &payers{b, l})
}

type payersKey struct{}

// payers is a list of the Budgets of a context. The innermost Budget is first, and no Budget
// is in the list twice. A nil *payers is an empty list.
type payers struct {
	budget *Budget
	outer  *payers
}

func payersOf(ctx context.Context) *payers {
	l, _ := ctx.Value(payersKey{}).(*payers)
	return l
}

// A receipt says which Budgets gave a retry, one bit for each Budget. Bit 0 is the policy's
// Budget, and bit 1 is the innermost Budget of the context. All Budgets from the 63rd on share
// bit 63. They must all give the retry or all give nothing. A Budget gives nothing for a retry
// in its grace period, so these Budgets have no grace period.
type receipt uint64

const lastBit = 63

// take takes one retry out of each Budget of l, and then out of own. number is the number of
// the retry in its call. If a Budget is empty, take gives all retries back and returns that
// Budget. Otherwise empty is nil.
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

// has reports whether b is in l.
func (l *payers) has(b *Budget) bool {
	for ; l != nil; l = l.outer {
		if l.budget == b {
			return true
		}
	}
	return false
}

// giveBack gives a retry back to each Budget before end that gave one, according to r.
func (l *payers) giveBack(r receipt, end *payers) {
	place := 0
	for at := l; at != end; at = at.outer {
		if place++; r&(1<<min(place, lastBit)) != 0 {
			at.budget.Refund()
		}
	}
}

// refund gives back the retries that take took, according to r.
func (l *payers) refund(own *Budget, r receipt) {
	l.giveBack(r, nil)
	if r&1 != 0 {
		own.Refund()
	}
}

// lend takes the same number of retries out of each Budget, at most most, and leaves at least
// keep retries in each Budget. It returns the number.
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

// LendBudget takes up to most retries out of each Budget of ctx and lends them to another
// process. Send the number lent to that process. The process and all layers below it may make
// this many retries in all. When the process has answered, call back with the number of
// retries that it did not use. Retries that never come back count as spent.
//
// If keep is true, each Budget keeps one retry. Set keep if this layer may retry its request:
// if the answer of the process is lost, the lent retries are lost too, and the kept retry is
// left for this layer.
//
// A Budget lends no retries of its Grace. If ctx has no Budget, lent is [Unlimited], and back
// does nothing. If a Budget is empty, or if most is below 1, lent is 0. The policy's Budget is
// not lent. back is safe for concurrent use. It treats a negative unspent as 0. All calls of
// back together give back at most lent retries.
//
// retryhttp.LendBudget calls LendBudget for HTTP requests, and retrygrpc.LendBudget calls it
// for gRPC calls.
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
	out := &Budget{Size: lent} // the retries that may still come back
	return lent, func(unspent int) {
		n := out.takeUpTo(int64(unspent), 0)
		for at := l; at != nil; at = at.outer {
			at.budget.putBack(n*token, at.budget.least())
		}
	}
}
