package retry

import (
	"container/list"
	"strings"
	"sync"
	"time"
)

// Budgets keeps a Budget for each target that a program calls, such as a host, an account
// or a model, so that the outage of one target takes no retries from the others:
//
//	budget, done := budgets.For("https://api.example.com")
//	defer done()
//	policy.Budget = budget
//
// The zero Budgets is ready to use, by any number of goroutines. Do not copy it. It keeps
// the Budgets of 1,000 targets; all other targets share one Budget. A target makes room for
// another one when a new Budget would allow no more than its own, and no call has used it for
// ten seconds. So all targets together never get more than 1,001 full Budgets, what successes
// and time put back, and the retries that a Grace allows. By default, a retryhttp.Transport and
// the RPC adapters keep the Budgets of their targets in a Budgets.
type Budgets struct {
	// New returns the Budget of a target. It is called once for a target that is not
	// kept, and once with "" for the Budget that all others share; it must not call For. nil: a
	// Budget of Size 10, Ratio 0.1, RefillEvery 5m, Remember 1m and Grace 1s whose Name is the
	// key.
	New func(key string) *Budget

	mu   sync.Mutex
	of   map[string]*use
	used list.List // of *use: the one whose last call began or ended last is first
	rest *Budget   // of all targets that are not kept
}

const (
	mostTargets = 1000
	longestKey  = 1024             // bytes; a redirect may lead to any name
	targetRest  = 10 * time.Second // a target goes no earlier: the next call may be about to come
	targetTries = 10               // targets that are looked at to make room for another
)

// use is a Budget of a target, and the calls that use it.
type use struct {
	budget *Budget
	key    string
	at     *list.Element
	calls  int // in flight
	last   time.Time
	done   func()
}

// For returns the Budget of a target for a call. Call done, once, when the call has ended:
// until then, the target is kept. The key "" and keys of more than 1,024 bytes get the shared
// Budget. For allocates nothing if the target is known.
func (b *Budgets) For(key string) (budget *Budget, done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if u, known := b.of[key]; known {
		b.touch(u, +1, now)
		return u.budget, u.done
	}
	if b.of == nil {
		b.of, b.rest = make(map[string]*use), b.make("")
	}
	if key == "" || len(key) > longestKey || len(b.of) == mostTargets && !b.drop(now) {
		return b.rest, func() {}
	}
	key = strings.Clone(key) // it may be a part of a long URL
	u := &use{budget: b.make(key), key: key, calls: 1, last: now}
	u.done = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.touch(u, -1, time.Now())
	}
	u.at, b.of[key] = b.used.PushFront(u), u
	return u.budget, u.done
}

func (b *Budgets) make(key string) *Budget {
	if b.New != nil {
		return b.New(key)
	}
	name := key
	if key == "" {
		name = "all other targets"
	}
	return &Budget{
		Name: name, Size: 10, Ratio: 0.1, RefillEvery: 5 * time.Minute,
		Remember: time.Minute, Grace: time.Second,
	}
}

// touch notes that a call has begun, or that one has ended.
func (b *Budgets) touch(u *use, calls int, now time.Time) {
	u.calls, u.last = u.calls+calls, now
	b.used.MoveToFront(u.at)
}

// drop makes room for a target, and reports whether it could. The target that no call has
// used for longest goes. If a call uses it now, or if a new Budget would allow more than
// its Budget, it stays, and another one is next.
func (b *Budgets) drop(now time.Time) bool {
	for range targetTries {
		u := b.used.Back().Value.(*use)
		if now.Sub(u.last) < targetRest {
			return false
		}
		if u.calls == 0 && u.budget.asNew() {
			b.used.Remove(u.at)
			delete(b.of, u.key)
			return true
		}
		b.used.MoveToFront(u.at)
	}
	return false
}

// asNew reports whether a new Budget in place of b would allow no more than b.
func (b *Budget) asNew() bool {
	if b == nil {
		return true
	}
	now := b.look()
	return b.Left() >= b.Size && (!b.graces() || since(&b.empty, now) >= graceRest)
}
