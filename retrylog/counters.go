package retrylog

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/printable"
)

// Counters counts the calls, attempts and retries of one or more policies. The zero Counters is
// ready to use. It is an expvar.Var:
//
//	var counters retrylog.Counters
//	policy.OnEvent = counters.OnEvent
//	counters.WatchBudget("payments", budget)
//	expvar.Publish("retry.payments", &counters)
//
// Counters is safe for concurrent use. Do not copy it. Counting an event allocates memory only if
// its reason or class is new. No number ever decreases, except the levels of budgets. There is no
// count of the calls in progress, because a call that panics does not report its end.
type Counters struct {
	mu sync.Mutex // guards the fields below

	// sum contains the numbers so far. Its Stops contains only the reasons for which a call has
	// stopped, and its Budgets is nil. The method Snapshot adds the other reasons and the Budgets.
	sum     Snapshot
	budgets map[string]*retry.Budget
}

// OnEvent counts e. Use it as the OnEvent of policies.
func (c *Counters) OnEvent(_ context.Context, e retry.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.Kind == retry.AttemptStarted:
		c.sum.Attempts++
		switch e.Attempt {
		case 1:
			c.sum.Calls++
		case 2:
			c.sum.Retried++
			fallthrough
		default:
			c.sum.Retries++
		}
	case e.Kind == retry.RetryScheduled:
		count(&c.sum.Scheduled, e.Class)
		// A sum in nanoseconds would overflow within days if many calls wait.
		c.sum.WaitedSeconds += e.Delay.Seconds()
	case e.Kind == retry.CallFinished:
		if e.Attempt == 0 {
			c.sum.Calls++
		}
		if e.Reason != "" {
			count(&c.sum.Stops, e.Reason)
		}
	}
}

// The function `count` adds 1 to the number that belongs to a name. After the first 64 names, it
// counts all new names as "other", because names that a peer invents must not fill the memory.
func count[T ~string](counts *map[T]int64, name T) {
	if *counts == nil {
		*counts = map[T]int64{}
	}
	if (*counts)[name] == 0 && len(*counts) >= 64 {
		name = "other"
	}
	(*counts)[name]++
}

// WatchBudget adds the number of retries left in b to the snapshots of c. A second Budget with
// the same name replaces the first.
func (c *Counters) WatchBudget(name string, b *retry.Budget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.budgets == nil {
		c.budgets = map[string]*retry.Budget{}
	}
	c.budgets[name] = b
}

// A Snapshot contains the numbers of [Counters] at one time.
type Snapshot struct {
	// Calls is how many calls began. A job of a queue is counted only by the process that makes its
	// first attempt.
	Calls    int64 `json:"calls"`
	Retried  int64 `json:"retried"`  // calls that made at least one retry
	Attempts int64 `json:"attempts"` // attempts that started
	Retries  int64 `json:"retries"`  // attempts after the first attempt of a call

	// Scheduled is how many retries were scheduled after failures of each class. A retry counts even
	// if its wait was cut short. The key is the name of the class, or "" for failures without a
	// class. After the first 64 classes, all new classes are counted as "other".
	Scheduled map[string]int64 `json:"scheduled"`

	// Stops is how many calls stopped for each reason. Every reason that this version knows has a
	// key, even if its count is 0. After the first 64 reasons, all new reasons are counted as
	// "other".
	Stops map[retry.Reason]int64 `json:"stops"`

	// WaitedSeconds is the sum of the delays of all scheduled retries, in seconds. If a wait was cut
	// short, its full delay is included.
	WaitedSeconds float64 `json:"waited_seconds"`

	// Budgets is how many retries are left in each Budget. The key is the name of the Budget. The
	// number of a nil Budget is -1.
	Budgets map[string]int `json:"budgets"`
}

// Snapshot returns the numbers so far.
func (c *Counters) Snapshot() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sum
	s.Scheduled, s.Stops, s.Budgets = map[string]int64{}, map[retry.Reason]int64{}, map[string]int{}
	maps.Copy(s.Scheduled, c.sum.Scheduled)
	for reason := range reasons {
		s.Stops[reason] = 0
	}
	maps.Copy(s.Stops, c.sum.Stops)
	for name, b := range c.budgets {
		s.Budgets[name] = b.Left()
	}
	return s
}

// String returns the numbers on one line for people to read, with the reasons why calls
// stopped:
//
//	3 calls, 1 retried, 1.67 attempts a call, 2 retries, 0.5s waited; deadline 1, success 2; ...
func (s Snapshot) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls, %d retried, %.2f attempts a call, %d retries, %.1fs waited",
		s.Calls, s.Retried, float64(s.Attempts)/float64(max(1, s.Calls)), s.Retries, s.WaitedSeconds)
	before := "; "
	for _, reason := range slices.Sorted(maps.Keys(s.Stops)) {
		if n := s.Stops[reason]; n > 0 {
			fmt.Fprintf(&b, "%s%s %d", before, printable.Line(string(reason)), n)
			before = ", "
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Budgets)) {
		left := fmt.Sprint(s.Budgets[name], " left")
		if s.Budgets[name] < 0 {
			left = "no limit"
		}
		fmt.Fprintf(&b, "; budget %s: %s", printable.Line(name), left)
	}
	return b.String()
}

// String returns a snapshot as JSON, for expvar.
func (c *Counters) String() string {
	text, _ := json.Marshal(c.Snapshot()) // json.Marshal cannot fail for a Snapshot
	return string(text)
}
