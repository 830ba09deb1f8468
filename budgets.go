package retry

import (
	"container/list"
	"strings"
	"sync"
	"time"
)

// Budgets keeps a Budget for each target that a program calls. A target is, for example, a
// host, an account or a model. The outage of one target then takes no retries from the other
// targets:
//
//	budget, done := budgets.For("https://api.example.com")
//	defer done()
//	policy.Budget = budget
//
// The zero Budgets is ready to use, by any number of goroutines. Do not copy a Budgets. A Budgets
// keeps at most 1,000 targets, and all other targets share one Budget. A new target may replace an
// old target only if two conditions hold: no call has used the old target for ten seconds, and a
// new Budget would allow no more retries than the Budget of the old target. So all targets together
// never get more than 1,001 full Budgets, plus the retries that successes, RefillEvery and Grace
// allow. By default, a retryhttp.Transport and the RPC adapters use a Budgets for their targets.
type Budgets struct {
	// New returns the Budget of a new target. It is called once for each target that gets a Budget
	// of its own, and again if the target was dropped and comes back. It is also called once with
	// the key "", for the Budget that all targets without a Budget of their own share. New must not
	// call For. If New is nil, a Budget has Size 10, Ratio 0.1, RefillEvery 5m, Remember 1m and
	// Grace 1s, and its Name is the key.
	New func(key string) *Budget

	mu   sync.Mutex
	of   map[string]*use
	used list.List // its values are *use; the front is the target that was used most recently
	rest *Budget   // the Budget shared by all targets that are not in the map `of`
}

const (
	mostTargets = 1000
	longestKey  = 1024             // in bytes; a redirect may lead to a much longer host name
	targetRest  = 10 * time.Second // how long a target is kept after its last call
	targetTries = 10               // how many targets the method `drop` examines at most
)

// A use is a target with its Budget and the number of its calls in flight.
type use struct {
	budget *Budget
	key    string
	at     *list.Element
	calls  int // how many calls are in flight
	last   time.Time
	done   func()
}

// For returns the Budget of a target for one call. The caller must call `done` once when the call
// has ended. Until then, the target is not dropped. The key "" and keys of more than 1,024
// bytes get the shared Budget. If the target is already kept, For allocates nothing.
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
	key = strings.Clone(key) // `key` may be a part of a long URL, which the map would keep in memory
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

// The method `touch` adds the parameter `calls` to the number of calls in flight, and stores the
// parameter `now` as the time of the last use. `calls` is 1 when a call begins, and -1 when a call
// ends.
func (b *Budgets) touch(u *use, calls int, now time.Time) {
	u.calls, u.last = u.calls+calls, now
	b.used.MoveToFront(u.at)
}

// The method `drop` removes one target to make room for another target. It reports whether it
// removed a target. It examines up to 10 targets, starting with the target that was used least
// recently. It skips a target that has a call in flight. It also skips a target whose Budget would
// allow more retries if this Budget were new.
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
