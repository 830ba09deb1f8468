package retrylog

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
)

// Counters counts what the calls of one or more policies do. The zero
// Counters is ready to use. It is an expvar.Var:
//
//	var counters retrylog.Counters
//	policy.OnEvent = counters.OnEvent
//	counters.WatchBudget("payments", budget)
//	expvar.Publish("retry.payments", &counters)
//
// It is safe for concurrent use, and must not be copied. It counts an event without
// a lock or an allocation, except for the first of each reason and class. All numbers
// only grow, except the levels of budgets. There is no number of calls in progress,
// because a call that panics does not report its end.
type Counters struct {
	begun     atomic.Int64  // calls whose first attempt started
	unstarted atomic.Int64  // calls that stopped before it
	retried   atomic.Int64  // calls whose second attempt started before they began anew
	renewed   atomic.Int64  // calls that began anew, and went on
	further   atomic.Int64  // all other attempts
	waited    atomic.Uint64 // seconds, as the bits of a float64: nanoseconds of many waiting calls would overflow within days
	scheduled names         // retries by class
	stops     names         // calls by reason

	mu      sync.Mutex // guards budgets
	budgets map[string]*retry.Budget
}

// OnEvent counts e. Use it as the OnEvent of policies.
func (c *Counters) OnEvent(_ context.Context, e retry.Event) {
	// Small enough to be inlined into the func that c.OnEvent is as a value,
	// which would copy the Event once more.
	c.count(&e)
}

func (c *Counters) count(e *retry.Event) {
	switch e.Kind {
	case retry.AttemptStarted:
		// Only one addition for each attempt, because the additions are the cost of an event.
		switch {
		case e.Attempt == 1:
			c.begun.Add(1)
		case e.Attempt == 2 && e.Resets == 0:
			c.retried.Add(1)
		case e.Attempt == 2 && e.Resets == 1:
			c.renewed.Add(1)
		default:
			c.further.Add(1)
		}
	case retry.RetryScheduled:
		c.scheduled.add(e.Class)
		c.wait(e.Delay.Seconds())
	case retry.CallFinished:
		if e.Attempt == 0 {
			c.unstarted.Add(1)
		}
		if e.Reason != "" {
			c.stops.add(string(e.Reason))
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

// names counts by name: each of the first maxNames apart, and all others together,
// so that names out of a response do not fill the memory.
type names struct {
	mu     sync.Mutex                               // held to add a name
	counts atomic.Pointer[map[string]*atomic.Int64] // replaced, never changed
}

const (
	maxNames  = 64
	otherName = "other"
)

func (n *names) add(name string) {
	count := n.known(name)
	if count == nil {
		count = n.create(name)
	}
	count.Add(1)
}

// known returns the count of a name, nil if there is none yet.
func (n *names) known(name string) *atomic.Int64 {
	counts := n.counts.Load()
	if counts == nil {
		return nil
	}
	if count := (*counts)[name]; count != nil || len(*counts) < maxNames {
		return count
	}
	return (*counts)[otherName]
}

// create returns the count of a name, which it adds if there is none yet.
func (n *names) create(name string) *atomic.Int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if count := n.known(name); count != nil { // another goroutine was first
		return count
	}
	counts := map[string]*atomic.Int64{}
	if known := n.counts.Load(); known != nil {
		counts = maps.Clone(*known)
	}
	if len(counts) >= maxNames {
		name = otherName
	}
	count := new(atomic.Int64)
	counts[name] = count
	n.counts.Store(&counts)
	return count
}

// each yields the counts so far.
func (n *names) each(yield func(name string, count int64) bool) {
	counts := n.counts.Load()
	if counts == nil {
		return
	}
	for name, count := range *counts {
		if !yield(name, count.Load()) {
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
	Calls int64 `json:"calls"` // calls that began; a job of a queue is counted in the process that made its first attempt

	// Retried is how many calls had a retry. With HealthyAfter it is too low if some
	// calls are healthy from their first attempt on, and others have retries and never
	// are: the events of a call that has begun anew do not say whether it had a retry
	// before.
	Retried int64 `json:"retried"`

	Attempts int64 `json:"attempts"` // attempts that started
	Retries  int64 `json:"retries"`  // attempts after the first: n attempts of a call are n - 1 retries

	// Scheduled is how many retries were scheduled, including those whose wait was cut
	// short, by the class of the failure: "" for none, and "other" for all names
	// after the first 64.
	Scheduled map[string]int64 `json:"scheduled"`

	Stops         map[retry.Reason]int64 `json:"stops"`          // calls that stopped, with a key for each reason that this version knows, and for others as they come
	WaitedSeconds float64                `json:"waited_seconds"` // the delays of all scheduled retries, including those that were cut short
	Budgets       map[string]int         `json:"budgets"`        // retries left, by the name of the Budget; -1 for a nil Budget
}

// Snapshot returns the numbers so far. While calls are running they may be some
// events apart.
func (c *Counters) Snapshot() Snapshot {
	begun, retried, renewed := c.begun.Load(), c.retried.Load(), c.renewed.Load()
	retries := retried + renewed + c.further.Load()
	s := Snapshot{
		// A call may be in both numbers, and its events do not say so.
		Calls: begun + c.unstarted.Load(), Retried: max(retried, renewed), Attempts: begun + retries, Retries: retries,
		Scheduled: map[string]int64{}, Stops: map[retry.Reason]int64{}, WaitedSeconds: math.Float64frombits(c.waited.Load()), Budgets: map[string]int{},
	}
	for class, n := range c.scheduled.each {
		s.Scheduled[class] = n
	}
	for _, reason := range eventlog.Reasons {
		s.Stops[reason] = 0
	}
	for reason, n := range c.stops.each {
		s.Stops[retry.Reason(reason)] = n
	}
	c.mu.Lock()
	budgets := maps.Clone(c.budgets)
	c.mu.Unlock()
	for name, b := range budgets {
		s.Budgets[name] = b.Left()
	}
	return s
}

// String returns the numbers in one line, as a person reads them, with the reasons
// that calls stopped for:
//
//	3 calls, 1 retried, 1.67 attempts a call, 2 retries, 0.5s waited; deadline 1, success 2; budget payments: 9 left
func (s Snapshot) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls, %d retried, %.2f attempts a call, %d retries, %.1fs waited",
		s.Calls, s.Retried, float64(s.Attempts)/float64(max(1, s.Calls)), s.Retries, s.WaitedSeconds)
	before := "; "
	for _, reason := range slices.Sorted(maps.Keys(s.Stops)) {
		if n := s.Stops[reason]; n > 0 {
			fmt.Fprintf(&b, "%s%s %d", before, eventlog.Printable(string(reason)), n)
			before = ", "
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Budgets)) {
		fmt.Fprintf(&b, "; budget %s: ", eventlog.Printable(name))
		if left := s.Budgets[name]; left < 0 {
			b.WriteString("no limit")
		} else {
			fmt.Fprintf(&b, "%d left", left)
		}
	}
	return b.String()
}

// GaveUp returns how many calls gave up so far: all that stopped without success,
// except for those that were canceled.
func (c *Counters) GaveUp() int64 {
	var sum int64
	for reason, n := range c.stops.each {
		if retry.Reason(reason) != retry.ReasonSuccess && retry.Reason(reason) != retry.ReasonCanceled {
			sum += n
		}
	}
	return sum
}

// String returns a snapshot as JSON, for expvar.
func (c *Counters) String() string {
	text, err := json.Marshal(c.Snapshot())
	if err != nil {
		panic(err) // cannot happen: numbers and names can always be written as JSON
	}
	return string(text)
}
