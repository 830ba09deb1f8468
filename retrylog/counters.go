package retrylog

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
)

// Counters counts what the calls of one policy, or of several, do. The zero
// Counters is ready to use. It is an expvar.Var:
//
//	var counters retrylog.Counters
//	policy.OnEvent = counters.OnEvent
//	counters.WatchBudget("payments", budget)
//	expvar.Publish("retry.payments", &counters)
//
// It is safe for concurrent use, counts an event without a lock or an
// allocation, and must not be copied. All numbers only grow, except the levels
// of budgets. There is no number of calls in progress, because a call that panics
// does not report its end.
type Counters struct {
	begun     atomic.Int64  // calls whose first attempt started
	unstarted atomic.Int64  // calls that stopped before it
	retried   atomic.Int64  // calls whose second attempt started
	further   atomic.Int64  // attempts after the second
	waited    atomic.Uint64 // seconds, as the bits of a float64: nanoseconds of many waiting calls would overflow within days
	stops     [retry.ReasonLeft + 1]atomic.Int64

	mu      sync.Mutex // guards budgets
	budgets map[string]*retry.Budget
}

// OnEvent counts e. Use it as the OnEvent of policies.
func (c *Counters) OnEvent(_ context.Context, e retry.Event) {
	// Small enough to be inlined into the func that c.OnEvent is as a value,
	// which would copy the Event once more.
	c.count(e.Kind, e.Attempt, e.Delay, e.Reason)
}

func (c *Counters) count(kind retry.EventKind, attempt int, delay time.Duration, reason retry.Reason) {
	switch kind {
	case retry.AttemptStarted:
		// Only one addition for each attempt, because the additions are the cost of an event.
		switch attempt {
		case 1:
			c.begun.Add(1)
		case 2:
			c.retried.Add(1)
		default:
			c.further.Add(1)
		}
	case retry.RetryScheduled:
		c.wait(delay.Seconds())
	case retry.Stopped:
		if attempt == 0 {
			c.unstarted.Add(1)
		}
		if int(reason) < len(c.stops) {
			c.stops[reason].Add(1)
		}
	}
}

func (c *Counters) wait(seconds float64) {
	for {
		sum := c.waited.Load()
		if c.waited.CompareAndSwap(sum, math.Float64bits(math.Float64frombits(sum)+seconds)) {
			return
		}
	}
}

// WatchBudget adds the level of b to the snapshots of c, under name. A second
// Budget with that name replaces the first.
func (c *Counters) WatchBudget(name string, b *retry.Budget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.budgets == nil {
		c.budgets = map[string]*retry.Budget{}
	}
	c.budgets[name] = b
}

// A Snapshot holds the numbers that [Counters] have counted.
type Snapshot struct {
	Calls         int64                  `json:"calls"`          // calls that began; a job of a queue counts in the process that made its first attempt
	Retried       int64                  `json:"retried"`        // calls that had a retry
	Attempts      int64                  `json:"attempts"`       // attempts that started
	Retries       int64                  `json:"retries"`        // attempts after the first: n attempts of a call are n - 1 retries
	Stops         map[retry.Reason]int64 `json:"stops"`          // calls that stopped, with a key for each reason
	WaitedSeconds float64                `json:"waited_seconds"` // the delays of all scheduled retries, including those that were cut short
	Budgets       map[string]int         `json:"budgets"`        // retries left, by the name of the Budget; -1 for a nil Budget
}

// Snapshot returns the numbers so far. While calls are running they may be some
// events apart.
func (c *Counters) Snapshot() Snapshot {
	begun, retried := c.begun.Load(), c.retried.Load()
	retries := retried + c.further.Load()
	s := Snapshot{
		Calls: begun + c.unstarted.Load(), Retried: retried, Attempts: begun + retries, Retries: retries,
		Stops: map[retry.Reason]int64{}, WaitedSeconds: math.Float64frombits(c.waited.Load()), Budgets: map[string]int{},
	}
	for reason := retry.ReasonSuccess; int(reason) < len(c.stops); reason++ {
		s.Stops[reason] = c.stops[reason].Load()
	}
	c.mu.Lock()
	budgets := maps.Clone(c.budgets)
	c.mu.Unlock()
	for name, b := range budgets {
		s.Budgets[name] = b.Left()
	}
	return s
}

// String returns a snapshot as JSON, for expvar.
func (c *Counters) String() string {
	text, err := json.Marshal(c.Snapshot())
	if err != nil {
		panic(err) // cannot happen: numbers and names can always be written as JSON
	}
	return string(text)
}
