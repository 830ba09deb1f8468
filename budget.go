package retry

import (
	"context"
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
// RefillEvery adds one retry for each interval that has passed since the first use. Grace,
// which is off by default, allows some more retries.
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

	// RefillEvery is the interval at which one retry is put back. Without RefillEvery, only
	// successes put retries back. Then a client that makes few calls may get no retry for a long
	// time after an outage. The intervals count from the first use, on the monotonic clock. The
	// first use is a Take, or a Success if Remember is set. 0: there is no refill. In a Policy,
	// any other value below 1ms is invalid. Outside of a Policy, a value below 1ms is treated as
	// 0.
	RefillEvery time.Duration

	// Remember lets successes fill the Budget above Size, so that more calls can be retried in a
	// short outage. The surplus above Size decays: after one Remember, about a third of the
	// surplus is left. For example, with a Ratio of 0.1 and a Remember of 30s, a client with 100
	// successes a second has about 300 retries above Size. After a pause without successes, the
	// Budget holds Size again.
	//
	// A Refund fills the Budget above Size too, and so does a retry that a borrower gives back. 0:
	// the Budget never holds more than Size. In a Policy, any other value below 1ms is invalid.
	// Outside of a Policy, a value below 1ms is treated as 0.
	Remember time.Duration

	// Grace is the grace period for a short outage, such as the restart of a server. It starts
	// anew each time a retry finds the Budget full. During the grace period, the Budget allows
	// retries even if it is empty, and these retries take nothing. Only the first four retries of
	// a call may use the grace period.
	//
	// Here, full means at least 90 % of Size. If the Budget held more than Size in about the last
	// Remember, full means at least 90 % of the most that it held in this time. Once a retry has
	// found the Budget empty, a new grace period cannot start for a minute. Each retry that finds
	// the Budget empty starts this minute again.
	//
	// Only retries of [Do] and [Once] use the grace period. Take does not use it, because Take
	// does not know how many retries the call has made. 0: there is no grace period. In a Policy,
	// any other value below 1ms is invalid. Outside of a Policy, a value below 1ms is treated as
	// 0.
	Grace time.Duration

	// Borrowed says that another process lent these retries. retryhttp.BorrowBudget sets it. If a
	// borrowed Budget is empty, the call stops with ReasonBorrowed instead of ReasonBudget.
	Borrowed bool

	spent  atomic.Int64              // Size minus the retries left, in billionths; negative: a surplus
	first  atomic.Pointer[time.Time] // when b was first used; nil: not yet, or no field needs a clock
	ticks  atomic.Int64              // how many intervals of RefillEvery have been counted
	decays atomic.Int64              // how many steps of decay have been made

	// The fields below are for Grace. fullAt and emptyAt count nanoseconds since first, plus 1, so
	// 0 can mean never.
	peak    atomic.Int64 // the highest surplus so far, in billionths; it decays as the surplus does
	fullAt  atomic.Int64 // when a retry last found b full, as Grace defines it
	emptyAt atomic.Int64 // when a retry last found b empty
}

const (
	leastRefill = time.Millisecond // the shortest valid RefillEvery, Remember and Grace
	graceRetry  = 4                // how many retries of a call may use the Grace
	graceRest   = time.Minute      // a Grace can start only if no retry found b empty for this long
)

// Take takes one retry out of b. It returns false if b is empty. If b is nil, it returns true.
// [Do] and [Once] call Take themselves. A queue that calls [Policy.Next] should call Take
// before each retry, unless Reset is true in the Decision.
func (b *Budget) Take() bool {
	allowed, _ := b.take(graceRetry + 1)
	return allowed
}

// take takes one retry out of b. number says which retry of its call this is: only the first
// retries of a call may use the Grace. allowed reports whether the retry may be made. paid
// reports whether b gave a token for it: a nil b and a b in its Grace allow a retry without a
// token.
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

// since returns how much time has passed from moment to now. Both are counted from the first use of
// the Budget. A moment of 0 means never, and then since returns the longest duration.
func since(moment *atomic.Int64, now time.Duration) time.Duration {
	if then := moment.Load(); then > 0 {
		return now - time.Duration(then-1)
	}
	return math.MaxInt64
}

// takeUpTo takes up to limit retries out of b, and leaves at least reserve retries in b. It
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

// Success puts back the part of a retry that Ratio says. Call Success once for each call that
// succeeds. [Do] and [Once] call Success themselves.
func (b *Budget) Success() {
	if b == nil {
		return
	}
	whole := b.putBack(shareOf(b.Ratio), b.minSpent())
	if b.remembers() && (whole || b.first.Load() == nil) {
		b.look() // look reads the clock, which would be too slow for each success
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

// minSpent returns the smallest value that spent may have. It is below 0 if b can hold a
// surplus.
func (b *Budget) minSpent() int64 {
	if b.remembers() {
		return b.full() - mostTokens*token
	}
	return 0
}

// look stores the time of the first use, if a field of b needs a clock. Then it calls catchUp.
// It returns how much time has passed since the first use.
func (b *Budget) look() time.Duration {
	if b.first.Load() == nil && (b.RefillEvery >= leastRefill || b.remembers() || b.graces()) {
		now := time.Now()
		b.first.CompareAndSwap(nil, &now)
	}
	return b.catchUp()
}

// catchUp puts back the retries that RefillEvery owes, and lets the surplus decay. If several
// goroutines call catchUp at once, only the goroutine whose CompareAndSwap succeeds does the
// work, so the work is done once. Until this goroutine has finished, other goroutines may find
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

// decay lets the surplus and the peak decay by n steps.
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

// counted is how many whole periods have been counted since the first use. due adds the periods
// that have ended after the last count, and returns their number. passed is the time since the
// first use. If another goroutine adds the periods first, due returns 0.
func due(counted *atomic.Int64, passed, period time.Duration) int64 {
	before, now := counted.Load(), int64(passed/period)
	if now <= before || !counted.CompareAndSwap(before, now) {
		return 0
	}
	return now - before
}

// putBack puts n billionths of a retry back, but never lets spent fall below minSpent. It
// reports whether this completed a whole retry. If nothing can be put back, putBack does not
// write to b: a write would slow down other processors that use b.
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

// WithBudget returns a context that contains b. Each retry of a call under this context takes a
// token from b too, whatever the policy of the call is. So b limits the retries of all layers
// of one request. For example, if three layers make four attempts each, the lowest layer is
// called 64 times. Under WithBudget(ctx, &retry.Budget{Size: 3}), it is called at most 4 times.
//
// A retry takes one token from each Budget of the context, starting with the innermost Budget,
// and then one token from the policy's Budget. If one of these Budgets is empty and not in its
// grace period, the other Budgets get their tokens back. Then the call stops with ReasonBudget,
// or with ReasonBorrowed if the empty Budget is Borrowed.
//
// Successes under the context put nothing back into b. Only [Do], [DoValue] and [Once] use the
// Budgets of a context. [Policy.Next] and [Policy.Validate] get no context.
//
// WithBudget(ctx, &retry.Budget{}) allows no retry under ctx, with one exception: a retry after
// an attempt that ran past HealthyAfter takes nothing from any Budget. If b is nil, or if ctx
// already contains b, WithBudget returns ctx. If b is also the policy's Budget, a retry takes
// one token from b, not two.
//
// Other processes do not see the context. To share a Budget with other processes, use
// [LendBudget].
func WithBudget(ctx context.Context, b *Budget) context.Context {
	l := payersOf(ctx)
	if b == nil || l.has(b) {
		return ctx
	}
	return context.WithValue(ctx, payersKey{}, &payers{b, l})
}

type payersKey struct{}

// payers is a list of the Budgets of a context. The innermost Budget comes first, and no Budget
// is in the list twice. A nil *payers is an empty list.
type payers struct {
	budget *Budget
	outer  *payers
}

func payersOf(ctx context.Context) *payers {
	l, _ := ctx.Value(payersKey{}).(*payers)
	return l
}

// A receipt says which Budgets gave a token for a retry. It has one bit for each Budget. Bit 0 is
// for the policy's Budget, and bit 1 is for the innermost Budget of the context. All Budgets of the
// context from the 63rd on share bit 63, so either all of them give a token or none does. The
// Budgets that share bit 63 do not use their Grace, because a Budget in its grace period gives no
// token.
type receipt uint64

const lastBit = 63

// take takes one token out of each Budget of l and then out of own, the policy's Budget. number
// says which retry of its call this is. If a Budget refuses the retry, take gives all tokens back
// and returns this Budget as its second result. If no Budget refuses it, the second result is nil.
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

// has reports whether l contains b.
func (l *payers) has(b *Budget) bool {
	for ; l != nil; l = l.outer {
		if l.budget == b {
			return true
		}
	}
	return false
}

// giveBack gives a token back to each Budget of l whose bit is set in r. It stops before end,
// which is nil for the whole list.
func (l *payers) giveBack(r receipt, end *payers) {
	place := 0
	for at := l; at != end; at = at.outer {
		if place++; r&(1<<min(place, lastBit)) != 0 {
			at.budget.Refund()
		}
	}
}

// refund gives a token back to own, and to each Budget of l, if their bits are set in r.
func (l *payers) refund(own *Budget, r receipt) {
	l.giveBack(r, nil)
	if r&1 != 0 {
		own.Refund()
	}
}

// lend takes the same number of retries out of each Budget of l, and returns this number. It
// takes at most limit retries, and leaves at least reserve retries in each Budget.
func (l *payers) lend(limit, reserve int64) int64 {
	if l == nil {
		return limit
	}
	l.budget.look()
	took := l.budget.takeUpTo(limit, reserve)
	lent := l.outer.lend(took, reserve)
	l.budget.putBack((took-lent)*token, l.budget.minSpent())
	return lent
}

// LendBudget lends retries to another process. It takes the same number of retries, at most
// limit, out of each Budget of ctx. It returns this number as lent. Send the number to the
// process: the process and all layers below it may make this many retries in all. When the
// process has answered, call giveBack with the number of retries that it did not use. Retries
// that are not given back count as spent.
//
// If keepOne is true, each Budget keeps one retry. Set keepOne if this layer may retry its own
// request. If the answer of the process is lost, the lent retries are lost too, and this layer
// can still use the retry that the Budget kept.
//
// A Budget lends no retries of its Grace. If ctx has no Budget, lent is [Unlimited], and
// giveBack does nothing. If a Budget is empty, or if limit is below 1, lent is 0. The policy's
// Budget lends nothing. giveBack is safe for concurrent use. It treats a negative number as 0.
// All calls of giveBack together give back at most the number lent.
//
// retryhttp.LendBudget calls LendBudget for HTTP requests, and retrygrpc.LendBudget calls it
// for gRPC calls.
func LendBudget(
	ctx context.Context, limit int, keepOne bool,
) (lent int, giveBack func(unspent int)) {
	l := payersOf(ctx)
	if l == nil {
		return Unlimited, func(int) {}
	}
	reserve := int64(0)
	if keepOne {
		reserve = 1
	}
	lent = int(l.lend(max(0, int64(limit)), reserve))
	out := &Budget{Size: lent} // the retries that may still come back
	return lent, func(unspent int) {
		n := out.takeUpTo(int64(unspent), 0)
		for at := l; at != nil; at = at.outer {
			at.budget.putBack(n*token, at.budget.minSpent())
		}
	}
}
