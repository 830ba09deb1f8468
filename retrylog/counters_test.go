package retrylog_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// The variable `reasons` lists all reasons why a call can stop.
var reasons = []retry.Reason{
	retry.ReasonSuccess, retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonPermanent, retry.ReasonRejected, retry.ReasonRetryAfter,
	retry.ReasonElapsed, retry.ReasonDeadline, retry.ReasonCanceled, retry.ReasonBudget, retry.ReasonBorrowed, retry.ReasonWait, retry.ReasonInvalid,
}

// The function `stops` returns the Stops of a Snapshot: a map with every reason. If `numbers` lacks
// a reason, its number is 0.
func stops(numbers map[retry.Reason]int64) map[retry.Reason]int64 {
	all := map[retry.Reason]int64{}
	for _, r := range reasons {
		all[r] = 0
	}
	maps.Copy(all, numbers)
	return all
}

// eventsOf returns the events of a script. The word "1" is the start of attempt 1, "wait" is a
// retry that is scheduled in a second, and "longest" is a retry that is scheduled in the longest
// time. Any other word is the reason of a CallFinished. If the script begins with "0", the call had
// no attempts.
func eventsOf(script string) (events []retry.Event) {
	e := retry.Event{}
	for word := range strings.FieldsSeq(script) {
		switch {
		case strings.Trim(word, "0123456789") == "":
			e.Attempt, _ = strconv.Atoi(word)
			if e.Attempt > 0 {
				e.Kind = retry.AttemptStarted
				events = append(events, e)
			}
		case word == "wait":
			events = append(events, retry.Event{Kind: retry.RetryScheduled, Attempt: e.Attempt, Decision: retry.Decision{Delay: time.Second}})
		case word == "longest":
			events = append(events, retry.Event{Kind: retry.RetryScheduled, Attempt: e.Attempt, Decision: retry.Decision{Delay: math.MaxInt64}})
		default:
			events = append(events, retry.Event{Kind: retry.CallFinished, Attempt: e.Attempt, Decision: retry.Decision{Reason: retry.Reason(strings.TrimSuffix(word, "?"))}})
		}
	}
	return events
}

// A call with n attempts counts as one call and n-1 retries, however the call ends. A restart of
// the count of attempts changes nothing. Some rows are events of a queue with several processes,
// and some are incomplete calls.
func TestCounters(t *testing.T) {
	const longest = float64(math.MaxInt64) / 1e9
	for _, row := range []struct {
		events string
		want   retrylog.Snapshot
		waits  int64
		reason retry.Reason // "": the call has no CallFinished
	}{
		{"1 success", retrylog.Snapshot{Calls: 1, Attempts: 1}, 0, retry.ReasonSuccess},
		{"1 wait 2 wait 3 success", retrylog.Snapshot{Calls: 1, Attempts: 3, Retried: 1, Retries: 2, WaitedSeconds: 2}, 2, retry.ReasonSuccess},
		{"1 wait 2 wait 3 attempts_exhausted", retrylog.Snapshot{Calls: 1, Attempts: 3, Retried: 1, Retries: 2, WaitedSeconds: 2}, 2, retry.ReasonExhausted},
		{"1 wait canceled", retrylog.Snapshot{Calls: 1, Attempts: 1, WaitedSeconds: 1}, 1, retry.ReasonCanceled},
		{"0 canceled", retrylog.Snapshot{Calls: 1}, 0, retry.ReasonCanceled},
		{"1 invalid", retrylog.Snapshot{Calls: 1, Attempts: 1}, 0, retry.ReasonInvalid},
		{"1 wait 2", retrylog.Snapshot{Calls: 1, Attempts: 2, Retried: 1, Retries: 1, WaitedSeconds: 1}, 1, ""},
		{"1 budget_exhausted", retrylog.Snapshot{Calls: 1, Attempts: 1}, 0, retry.ReasonBudget},
		{"1 wait 2 wait 3 wait 4 success", retrylog.Snapshot{Calls: 1, Retried: 1, Attempts: 4, Retries: 3, WaitedSeconds: 3}, 3, retry.ReasonSuccess},
		{"2 longest longest 3 bored", retrylog.Snapshot{Attempts: 2, Retried: 1, Retries: 2, WaitedSeconds: 2 * longest}, 2, "bored"},
		{"3 ?", retrylog.Snapshot{Attempts: 1, Retries: 1}, 0, ""}, // a CallFinished with an empty reason
	} {
		var c retrylog.Counters
		for _, e := range append(eventsOf(row.events), retry.Event{Kind: "attempt_paused", Attempt: 1}, retry.Event{}) {
			c.OnEvent(context.Background(), e)
		}
		want := row.want
		want.Budgets, want.Scheduled = map[string]int{}, map[string]int64{}
		if row.waits > 0 {
			want.Scheduled[""] = row.waits
		}
		if want.Stops = stops(nil); row.reason != "" {
			want.Stops[row.reason] = 1
		}
		assert.Equal(t, want, c.Snapshot(), row.events)
	}
}

// Retries are counted by class, and stops by reason. After 64 names, all new names are counted
// together, so that names from responses cannot fill the memory.
func TestCountersByName(t *testing.T) {
	var c retrylog.Counters
	for range 3 {
		for n := range 100 {
			c.OnEvent(context.Background(), retry.Event{Kind: retry.RetryScheduled, Attempt: 1, Decision: retry.Decision{Class: fmt.Sprint("class ", n)}})
			c.OnEvent(context.Background(), retry.Event{Kind: retry.CallFinished, Attempt: 1, Decision: retry.Decision{Reason: retry.Reason(fmt.Sprint("reason ", n))}})
		}
	}
	s := c.Snapshot()
	assert.Len(t, s.Scheduled, 65)
	assert.EqualValues(t, 3, s.Scheduled["class 63"])
	assert.NotContains(t, s.Scheduled, "class 64")
	assert.EqualValues(t, 3*36, s.Scheduled["other"])
	assert.Len(t, s.Stops, len(reasons)+65)
	assert.EqualValues(t, 3*36, s.Stops["other"])
}

// Calls are counted while snapshots are taken and budgets are added.
func TestCountersOfManyGoroutines(t *testing.T) {
	var c retrylog.Counters
	const goroutines, calls = 16, 100
	want := map[string]int{}
	var all sync.WaitGroup
	for g := range goroutines {
		name, b := fmt.Sprint("budget ", g), &retry.Budget{Size: 2*calls + g}
		want[name] = g
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Nanosecond), Budget: b, OnEvent: c.OnEvent}
		all.Go(func() {
			for range calls {
				c.WatchBudget(name, b)
				_ = retry.Do(context.Background(), p, func(context.Context) error { return errRefused })
				_, watched := c.Snapshot().Budgets[name]
				assert.True(t, watched, name)
			}
		})
	}
	all.Wait()
	const n = goroutines * calls
	s := c.Snapshot()
	assert.InDelta(t, 2*n*1e-9, s.WaitedSeconds, 1e-15, "a sum of float64")
	s.WaitedSeconds = 0
	assert.Equal(t, retrylog.Snapshot{Calls: n, Attempts: 3 * n, Retried: n, Retries: 2 * n, Scheduled: map[string]int64{"": 2 * n},
		Stops: stops(map[retry.Reason]int64{retry.ReasonExhausted: n}), Budgets: want}, s)
}

func TestCountersAreAnExpvar(t *testing.T) {
	var c retrylog.Counters
	b := &retry.Budget{Size: 4}
	c.WatchBudget("payments", &retry.Budget{Size: 9})
	c.WatchBudget("payments", b)
	c.WatchBudget("none", nil)
	b.Take()
	p := policy
	p.OnEvent = c.OnEvent
	synctest.Test(t, func(*testing.T) { _ = retry.Do(context.Background(), p, failing(errRefused)) })
	var v expvar.Var = &c
	text := v.String()
	assert.Equal(t, `{"calls":1,"retried":1,"attempts":2,"retries":1,"scheduled":{"":1},"stops":{"attempts_exhausted":0,"borrowed_budget_exhausted":0,"budget_exhausted":0,"canceled":0,"deadline":0,"elapsed":0,`+
		`"invalid":0,"not_retryable":0,"permanent_error":0,"rejected":0,"retry_after_too_long":0,"success":1,"wait_failed":0},`+
		`"waited_seconds":0.219325191,"budgets":{"none":-1,"payments":3}}`, text)
	var back retrylog.Snapshot
	require.NoError(t, json.Unmarshal([]byte(text), &back))
	assert.Equal(t, c.Snapshot(), back)
}

// A Snapshot prints as one line that a person can read.
func TestSnapshotString(t *testing.T) {
	for _, row := range []struct {
		name string
		s    retrylog.Snapshot
		want string
	}{
		{"no calls", retrylog.Snapshot{}, "0 calls, 0 retried, 0.00 attempts a call, 0 retries, 0.0s waited"},
		{"the reasons in order, without the reasons that have no calls", retrylog.Snapshot{
			Calls: 3, Retried: 1, Attempts: 5, Retries: 2, WaitedSeconds: 0.5,
			Stops: map[retry.Reason]int64{retry.ReasonSuccess: 2, retry.ReasonDeadline: 1, retry.ReasonBudget: 0},
		}, "3 calls, 1 retried, 1.67 attempts a call, 2 retries, 0.5s waited; deadline 1, success 2"},
		{"a day", retrylog.Snapshot{Calls: 1, Attempts: 1234, Retries: 1233, WaitedSeconds: 86400},
			"1 calls, 0 retried, 1234.00 attempts a call, 1233 retries, 86400.0s waited"},
		{"budgets", retrylog.Snapshot{Budgets: map[string]int{"payments": 9, "mail": 0, "none": -1}},
			"0 calls, 0 retried, 0.00 attempts a call, 0 retries, 0.0s waited; budget mail: 0 left; budget none: no limit; budget payments: 9 left"},
		{"names from outside", retrylog.Snapshot{Stops: map[retry.Reason]int64{"a\nb": 1}, Budgets: map[string]int{"\x1b": 1}},
			`0 calls, 0 retried, 0.00 attempts a call, 0 retries, 0.0s waited; a; b 1; budget \x1b: 1 left`},
	} {
		assert.Equal(t, row.want, fmt.Sprint(row.s), row.name)
	}
}

func TestCountersAllocateNothing(t *testing.T) {
	var c retrylog.Counters
	events := eventsOf("1 wait 2 success")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, e := range events {
			c.OnEvent(context.Background(), e)
		}
	}))
}
