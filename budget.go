package retry

import (
	"math"
	"sync/atomic"
)

// A Budget is a shared allowance of retries, a bucket of tokens that starts
// full. A retry takes one token, a call that succeeds puts back a share of
// one, and where none is left a call returns its own error instead of trying
// again. So a target that fails for everybody sees no more than its ordinary
// load, plus the bucket once: at most 1 + ratio times the share of successes.
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
}

// token is one retry. Tokens are counted in whole billionths, so that a
// thousand times a thousandth is one, and no rounding drifts.
const token = 1_000_000_000

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

// Take takes one retry out of b and reports whether there was one. The loops
// of this package call it themselves; a queue that asks [Policy.Next] calls it
// where Next says to retry.
func (b *Budget) Take() bool {
	if b == nil {
		return true
	}
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

// Put tells b that a call succeeded. The loops of this package call it
// themselves.
func (b *Budget) Put() {
	if b != nil {
		b.add(b.refill)
	}
}

// untake gives back a retry that was taken and never made.
func (b *Budget) untake() {
	if b != nil {
		b.add(token)
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
