package retry

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// A Budget is a shared allowance of retries: a bucket of tokens that starts
// full. A retry takes one token, a call that succeeds puts back a share of one.
// Where none is left, a call returns its own error instead of trying again.
// During a total outage a target sees its normal load plus at most size
// retries, and one more for each d of RefillEvery; otherwise at most 1 + ratio
// times the share of successes of it.
//
// Share one Budget among all the policies that call one target. It is safe for
// concurrent use, holds no lock, and nothing has to be released: a call that
// panics leaks nothing. A nil Budget allows every retry.
type Budget struct {
	size   int
	ratio  float64
	full   int64 // in billionths of a token, like refill and tokens
	refill int64
	tokens atomic.Int64

	every time.Duration // a token comes each time this has passed; 0: none
	since time.Time     // ... since then
	ticks atomic.Int64  // how many of these tokens have been put in
}

// token is one retry. Tokens are counted in whole billionths, so that a
// thousand times a thousandth is one, and no rounding drifts.
const token = 1_000_000_000

// leastRefill is the shortest time between two tokens of RefillEvery.
const leastRefill = time.Millisecond

// NewBudget returns a full Budget of size retries, to which each call that
// succeeds adds ratio, counted in billionths: 0.1 is one retry for ten
// successes. A size below 1 or a ratio outside [0, 1] does not validate; such
// a Budget counts as one that is always empty, or as one with the nearest
// ratio, 0 for NaN.
func NewBudget(size int, ratio float64) *Budget {
	b := &Budget{size: size, ratio: ratio}
	b.full = int64(min(max(0, int64(size)), math.MaxInt64/token)) * token
	if ratio > 0 {
		b.refill = int64(math.Round(min(ratio, 1) * token))
	}
	b.tokens.Store(b.full)
	return b
}

// RefillEvery also puts one retry into b each time d has passed from now on, up
// to its size. Without it a client that makes few calls may get no retry for a
// long time after an outage, because only successes put anything back. Call it
// before b is shared; it returns b. A d of 0 is off; a d below 1ms does not
// validate and counts as off. A nil Budget stays nil.
//
// In all, b allows at most size + ratio x successes + floor(time / d) retries.
// The clock is the monotonic one, and is read by Take and Left alone.
func (b *Budget) RefillEvery(d time.Duration) *Budget {
	if b != nil {
		b.every, b.since = d, time.Now()
		b.ticks.Store(0)
	}
	return b
}

// Take takes one retry out of b and reports whether there was one. The loops
// of this package call it themselves; a queue that asks [Policy.Next] calls it
// where Next says to retry.
func (b *Budget) Take() bool {
	if b == nil {
		return true
	}
	b.tick()
	for {
		t := b.tokens.Load()
		if t < token {
			return false
		}
		if b.tokens.CompareAndSwap(t, t-token) {
			return true
		}
	}
}

// Put adds the share of one success to b. The loops of this package call it
// themselves.
func (b *Budget) Put() {
	if b != nil {
		b.add(b.refill)
	}
}

// Left returns how many retries are left, for gauges; [Unlimited], which is -1,
// if b is nil.
func (b *Budget) Left() int {
	if b == nil {
		return Unlimited
	}
	b.tick()
	return int(b.tokens.Load() / token)
}

// untake gives back a retry that was taken and never made.
func (b *Budget) untake() {
	if b != nil {
		b.add(token)
	}
}

// tick puts in the tokens of RefillEvery that are due. The one that counts them puts
// them in, so that none comes twice; a Take in between may miss them.
func (b *Budget) tick() {
	if b.every < leastRefill {
		return
	}
	due := int64(time.Since(b.since) / b.every)
	if seen := b.ticks.Load(); due > seen && b.ticks.CompareAndSwap(seen, due) {
		b.add(min(due-seen, math.MaxInt64/token) * token)
	}
}

// add puts n billionths of a retry into b. Where they do not fit, b is only
// read: processors that share a full bucket do not fight over it.
func (b *Budget) add(n int64) {
	for {
		t := b.tokens.Load()
		fits := min(n, b.full-t)
		if fits == 0 || b.tokens.CompareAndSwap(t, t+fits) {
			return
		}
	}
}

// WithBudget returns a context below which every call takes its retries from b
// too, whatever its policy. It bounds the retries of all the layers of one
// request: three layers of four attempts each are 64 calls of the lowest, and
// under WithBudget(ctx, NewBudget(3, 0)) at most 4.
//
// A retry is paid from the Budgets of the context, the nearest first, and from
// the policy's own last; each Budget pays once, however often it is found. If
// one is empty, those before it get their token back, the policy's own is not
// touched, and the call stops with ReasonBudget. Successes below ctx put nothing
// into b. Only loops look for it: [Policy.Next] and [Policy.Validate] have no
// context.
//
// NewBudget(0, 0) means no retries below ctx, which is a switch for tests. A nil
// b adds nothing.
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
// any, and reports whether it did.
func (l *payers) take(own *Budget) bool {
	if l == nil {
		return own.Take()
	}
	for at := l; at != nil; at = at.outer {
		if !l.has(at.budget, at) && !at.budget.Take() {
			l.untake(at)
			return false
		}
	}
	if l.has(own, nil) || own.Take() {
		return true
	}
	l.untake(nil)
	return false
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

// untake gives back what those before end have paid.
func (l *payers) untake(end *payers) {
	for at := l; at != end; at = at.outer {
		if !l.has(at.budget, at) {
			at.budget.untake()
		}
	}
}
