// Package targets keeps a Budget for each target of a client that was given none.
package targets

import (
	"container/list"
	"sync"
	"time"

	"github.com/goretry/retry"
)

// most is how many targets are kept.
const most = 1000

// Budgets has a Budget for each of the targets that were asked for last. The zero value
// has none. It is safe for concurrent use.
type Budgets[K comparable] struct {
	mu   sync.Mutex
	of   map[K]*list.Element
	used list.List // of entries, the last used first
}

type entry[K comparable] struct {
	target K
	budget *retry.Budget
}

// Of returns the Budget of a target. It allocates only for one that it does not have.
// Then the target that was not asked for longest goes, if there are 1,000: if that comes
// back, its Budget is full again.
func (b *Budgets[K]) Of(target K) *retry.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, known := b.of[target]; known {
		b.used.MoveToFront(e)
		return e.Value.(*entry[K]).budget
	}
	if b.of == nil {
		b.of = make(map[K]*list.Element)
	}
	if len(b.of) == most {
		delete(b.of, b.used.Remove(b.used.Back()).(*entry[K]).target)
	}
	e := &entry[K]{target, &retry.Budget{Size: 10, Ratio: 0.1, RefillEvery: 5 * time.Minute}}
	b.of[target] = b.used.PushFront(e)
	return e.budget
}
