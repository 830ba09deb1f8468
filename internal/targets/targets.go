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
	unused = 10 * time.Second // a target goes no earlier: its last call may still be under way
)

// Budgets has a Budget for each of 1,000 targets, and one that all others share. The zero
// value has none. It is safe for concurrent use.
//
// All of them together allow no more than 1,001 times a full Budget, and what successes
// and time put back, however many targets there are: only a target whose Budget is full
// goes, and a full one is what it gets if it comes back.
type Budgets[K comparable] struct {
	mu     sync.Mutex
	of     map[K]*list.Element
	used   list.List     // of entries, the last used first
	others *retry.Budget // of all targets that are not kept; nil: there were none
}

type entry[K comparable] struct {
	target K
	budget *retry.Budget
	used   time.Time
}

func newBudget() *retry.Budget {
	return &retry.Budget{Size: 10, Ratio: 0.1, RefillEvery: 5 * time.Minute, Remember: time.Minute}
}

// Of returns the Budget of a target. It allocates only for a target that it does not have.
func (b *Budgets[K]) Of(target K) *retry.Budget { return b.OfNew(target, newBudget) }

// OfNew is Of with other Budgets, the same for all targets.
func (b *Budgets[K]) OfNew(target K, newBudget func() *retry.Budget) *retry.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if e, known := b.of[target]; known {
		e.Value.(*entry[K]).used = now
		b.used.MoveToFront(e)
		return e.Value.(*entry[K]).budget
	}
	if b.of == nil {
		b.of, b.others = make(map[K]*list.Element), newBudget()
	}
	if len(b.of) == most && !b.drop(now) {
		return b.others
	}
	e := &entry[K]{target, newBudget(), now}
	b.of[target] = b.used.PushFront(e)
	return e.budget
}

// drop makes room for a target, and reports whether it could. The target that was not asked
// for longest goes. If its Budget is not full, it stays, and another one is next.
func (b *Budgets[K]) drop(now time.Time) bool {
	last := b.used.Back()
	e := last.Value.(*entry[K])
	if now.Sub(e.used) < unused {
		return false
	}
	if e.budget.Left() < e.budget.Size {
		b.used.MoveToFront(last)
		return false
	}
	b.used.Remove(last)
	delete(b.of, e.target)
	return true
}
