package retrysim

import (
	"time"

	"github.com/goretry/retry"
)

// A Budget does in simulated time what a [retry.Budget] does in real time. It is for
// simulations of your own: they say what time it is, counted from any start. Time must
// not go back. A nil Budget allows every retry. A Budget is not safe for concurrent use.
type Budget struct{ budget *budget }

// NewBudget returns a full Budget with the fields of b, and nil if b is nil. It does not
// change b.
func NewBudget(b *retry.Budget) *Budget {
	if b == nil {
		return nil
	}
	return &Budget{newBudget(b)}
}

// Take reports whether a retry is allowed at this time, and takes it. number is the
// number of the retry in its call, 1 for the first, because Grace depends on it.
func (b *Budget) Take(now time.Duration, number int) bool {
	if b == nil {
		return true
	}
	allowed, _ := b.budget.take(0, int64(now), number)
	return allowed
}

// Success puts back the share of a call that succeeds at this time.
func (b *Budget) Success(now time.Duration) {
	if b != nil {
		b.budget.success(0, int64(now))
	}
}
