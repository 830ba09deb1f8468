package retrysim

import (
	"math"
	"time"

	"github.com/goretry/retry"
)

// A Budget is a [retry.Budget] in simulated time, for simulations of your own. Each method takes
// the time as the duration since a start that you choose. This time must never decrease. A nil
// Budget allows every retry. A Budget is not safe for concurrent use.
type Budget struct{ budget *budget }

// NewBudget returns a full Budget with the same fields as b. If b is nil, it returns nil.
// NewBudget does not change b.
func NewBudget(b *retry.Budget) *Budget {
	if b == nil {
		return nil
	}
	return &Budget{newBudget(b)}
}

// Take takes one retry out of the Budget, and reports whether this retry is allowed. The parameter
// `number` is 1 for the first retry of a call, 2 for the second, and so on. If the Budget is empty,
// its Grace may still allow the retry, but only if the retry is one of the first four of its call.
func (b *Budget) Take(now time.Duration, number int) bool {
	if b == nil {
		return true
	}
	allowed, _ := b.budget.take(0, int64(now), number)
	return allowed
}

// Success records that a call succeeded at the time `now`. It puts a part of a retry back into the
// Budget. The part is the Ratio of the Budget, so 0.1 is a tenth of a retry.
func (b *Budget) Success(now time.Duration) {
	if b != nil {
		b.budget.success(0, int64(now))
	}
}

// The arithmetic is the same as in retry.Budget. TestBudgetIsTheRealOne compares both. Retries
// are counted in whole billionths, so that a thousand times a thousandth is one retry and no
// rounding errors add up.
const (
	token      = 1_000_000_000         // a whole retry, in billionths of a retry
	mostTokens = math.MaxInt64 / token // the most retries that a Budget can hold
	decaySteps = 16                    // the surplus decays in this many steps during one Remember
)

// These two constants have the same values in retry.Budget.
const (
	// A Grace may allow only the first four retries of a call.
	graceRetry = 4

	// No Grace starts within this time after a retry has found the budget empty.
	graceRest = int64(time.Minute)
)

// A budget is a retry.Budget in simulated time. It has an account for each client. If an account
// has more retries than Size, the difference is its surplus.
type budget struct {
	full, share int64 // Size and Ratio, in billionths of a retry

	// `refill`, `decay` and `grace` are RefillEvery, a 16th of Remember, and Grace, in nanoseconds. A
	// value of 0 means off.
	refill, decay, grace int64

	accounts map[uint32]*account // one for each client; a client without an account has a full budget
}

// An account counts the retries of one client. fullAt and emptyAt are times in nanoseconds since
// the start, plus one, so that 0 means never.
type account struct {
	spent         int64 // Size minus the retries that are left, in billionths; negative for a surplus
	first         int64 // when the budget was first used
	ticks, decays int64 // how many refills and decays have been applied

	// peak is the largest number of retries above Size that the budget held recently, in billionths
	// of a retry. It decays in the same steps as the retries above Size themselves.
	peak int64

	// fullAt is when a retry last found the budget full, so that a Grace could start. Full means that
	// the budget held at least 90 % of the sum of Size and `peak`, and that no retry had found it
	// empty in the minute before.
	fullAt int64

	emptyAt int64 // when a retry last found the budget empty
}

func newBudget(b *retry.Budget) *budget {
	return &budget{
		full: fullOf(b.Size), share: shareOf(b.Ratio),
		refill: int64(b.RefillEvery), decay: int64(b.Remember / decaySteps), grace: int64(b.Grace),
		accounts: map[uint32]*account{},
	}
}

// fullOf returns how many billionths of a retry a full Budget of this Size holds.
func fullOf(size int) int64 { return min(max(0, int64(size)), mostTokens) * token }

// shareOf returns how many billionths of a retry a success puts back. For NaN it returns 0.
func shareOf(ratio float64) int64 {
	if ratio > 0 {
		return int64(math.Round(min(ratio, 1) * token))
	}
	return 0
}

// decayed returns how much of a surplus is left after this many decays. Each decay takes a 16th
// of the surplus, rounded up.
func decayed(surplus, times int64) int64 {
	for ; surplus > 0 && times > 0; times-- {
		surplus -= (surplus + decaySteps - 1) / decaySteps
	}
	return surplus
}

// The method `account` returns the account of a client, after applying the refills and decays that
// are due.
func (b *budget) account(client uint32, now int64) *account {
	a := b.accounts[client]
	if a == nil {
		a = &account{first: now}
		b.accounts[client] = a
	}
	if passed := now - a.first; b.refill > 0 && passed/b.refill > a.ticks {
		a.spent -= min(max(0, a.spent), min(passed/b.refill-a.ticks, mostTokens)*token)
		a.ticks = passed / b.refill
	}
	if passed := now - a.first; b.decay > 0 && passed/b.decay > a.decays {
		times := passed/b.decay - a.decays
		a.spent = max(0, a.spent) - decayed(max(0, -a.spent), times)
		a.peak = max(-a.spent, decayed(a.peak, times))
		a.decays = passed / b.decay
	}
	return a
}

// The method `take` takes one retry out of the budget of a client. The parameter `number` is 1 for
// the first retry of a call. The result `paid` reports whether a retry was taken out of the budget.
// If a Grace allows the retry, nothing is taken out of the budget.
func (b *budget) take(client uint32, now int64, number int) (allowed, paid bool) {
	a := b.account(client, now)
	holds, most := b.full-a.spent, b.full+a.peak
	if holds >= most-most/10 && timeSince(a.emptyAt, now) >= graceRest {
		a.fullAt = now + 1
	}
	if holds >= token {
		a.spent += token
		return true, true
	}
	a.emptyAt = now + 1
	return number <= graceRetry && timeSince(a.fullAt, now) < b.grace, false
}

// timeSince returns the time from `moment` to `now`. `moment` is the fullAt or the emptyAt of an
// account. If `moment` is 0, which means never, timeSince returns the longest time.
func timeSince(moment, now int64) int64 {
	if moment > 0 {
		return now - moment + 1
	}
	return math.MaxInt64
}

// The method `success` puts back the part of a retry that one successful call earns. Like
// retry.Budget, it applies the refills and decays that are due only if this part completes a whole
// retry.
func (b *budget) success(client uint32, now int64) {
	if b.decay > 0 && b.accounts[client] == nil {
		b.account(client, now)
	}
	if b.putBack(client, b.share) && b.decay > 0 {
		b.account(client, now)
	}
}

// putBack puts n billionths of a retry back, and reports whether the number of whole retries in the
// budget has grown. Without Remember, a budget holds at most Size.
func (b *budget) putBack(client uint32, n int64) (whole bool) {
	a := b.accounts[client]
	if a == nil {
		return false
	}
	least := int64(0)
	if b.decay > 0 {
		least = b.full - mostTokens*token
	}
	before := b.full - a.spent
	a.spent = max(a.spent-n, least)
	return before/token != (b.full-a.spent)/token
}
