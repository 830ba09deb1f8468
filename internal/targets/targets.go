// Package targets keeps a Budget for each target of a client that was given none.
package targets

import (
	"container/list"
	"sync"
	"time"

	"github.com/goretry/retry"
)

const (
	most   = 1000             // targets are kept
	unused = 10 * time.Second // a target goes no earlier: the next call may be about to come
	tries  = 10               // targets that are looked at to make room for another
)

// Budgets has a Budget for each of 1,000 targets, and one that all others share. The zero
// value has none. It is safe for concurrent use.
//
// All of them together hold no more than 1,001 times a full Budget, and what successes
// and time put back, however many targets there are: only a target whose Budget is full,
// and that no call uses, goes, and a full one is what it gets if it comes back. The new
// Budget may have a Grace at once, even if the old one had one in the last minute.
type Budgets struct {
	mu     sync.Mutex
	of     map[Host]*Use
	used   list.List // of *Use: the one whose last call began or ended last is first
	others Use       // of all targets that are not kept; without a Budget: there were none
}

// A Use is a Budget for a target, and the calls that use it.
type Use struct {
	Budget *retry.Budget

	of    *Budgets // nil: of others
	host  Host
	at    *list.Element
	calls int // under way
	last  time.Time
}

// usual returns the Budget of a target where the user has set none.
func usual() *retry.Budget {
	return &retry.Budget{
		Size: 10, Ratio: 0.1, RefillEvery: 5 * time.Minute,
		Remember: time.Minute, Grace: time.Second,
	}
}

// Use returns the Budget of a target for a call, which calls Done when it has ended. It
// allocates only for a target that b does not have.
func (b *Budgets) Use(target Host) *Use { return b.UseNew(target, usual) }

// UseNew is Use with other Budgets, the same for all targets.
func (b *Budgets) UseNew(target Host, newBudget func() *retry.Budget) *Use {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if u, known := b.of[target]; known {
		u.touch(+1, now)
		return u
	}
	if b.of == nil {
		b.of, b.others.Budget = make(map[Host]*Use), newBudget()
	}
	if target.TooLong() || len(b.of) == most && !b.drop(now) {
		return &b.others
	}
	u := &Use{Budget: newBudget(), of: b, host: target.Clone(), calls: 1, last: now}
	u.at, b.of[u.host] = b.used.PushFront(u), u
	return u
}

// Done says that a call has ended.
func (u *Use) Done() {
	if u == nil || u.of == nil {
		return
	}
	u.of.mu.Lock()
	defer u.of.mu.Unlock()
	u.touch(-1, time.Now())
}

// touch notes that a call has begun, or that one has ended.
func (u *Use) touch(calls int, now time.Time) {
	u.calls, u.last = u.calls+calls, now
	u.of.used.MoveToFront(u.at)
}

// Owner says in an error whose Budget it is: the target's, or one of many.
func (u *Use) Owner(target string) string {
	if u.of == nil {
		return "all targets beyond 1,000, of which this is one"
	}
	return target
}

// drop makes room for a target, and reports whether it could. The one that no call has used
// for longest goes. If a call uses it now, or its Budget is not full, it stays, and
// another one is next.
func (b *Budgets) drop(now time.Time) bool {
	for range tries {
		u := b.used.Back().Value.(*Use)
		if now.Sub(u.last) < unused {
			return false
		}
		if u.calls == 0 && u.Budget.Left() >= u.Budget.Size {
			b.used.Remove(u.at)
			delete(b.of, u.host)
			return true
		}
		b.used.MoveToFront(u.at)
	}
	return false
}
