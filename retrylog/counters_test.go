package retrylog_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"maps"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// reasons are all reasons for stopping.
var reasons = []retry.Reason{
	retry.ReasonSuccess, retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonPermanent, retry.ReasonRejected, retry.ReasonRetryAfter,
	retry.ReasonElapsed, retry.ReasonDeadline, retry.ReasonCanceled, retry.ReasonBudget, retry.ReasonBorrowed, retry.ReasonWait, retry.ReasonInvalid,
}

// stops returns the stops of a snapshot: every reason, with these numbers and 0
// for the rest.
func stops(numbers map[retry.Reason]int64) map[retry.Reason]int64 {
	all := map[retry.Reason]int64{}
	for _, r := range reasons {
		all[r] = 0
	}
	maps.Copy(all, numbers)
	return all
}

// n attempts are one call and n - 1 retries, however the call ends.
func TestCounters(t *testing.T) {
	do := func(fn func(context.Context) error) func(context.Context, retry.Policy) {
		return func(ctx context.Context, p retry.Policy) { _ = retry.Do(ctx, p, fn) }
	}
	cancelAfter := func(d time.Duration) func(context.Context) context.Context {
		return func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(d, cancel)
			return ctx
		}
	}
	everySecond := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Second)}
	healthy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Minute}
	const minute, quick = time.Minute, time.Second
	taking := func(fails bool, each ...time.Duration) func(context.Context, retry.Policy) {
		return do(func(context.Context) error {
			time.Sleep(each[0])
			if each = each[1:]; len(each) > 0 || fails {
				return errRefused
			}
			return nil
		})
	}
	for _, row := range []struct {
		name   string
		ctx    func(context.Context) context.Context
		policy retry.Policy
		call   func(context.Context, retry.Policy)
		want   retrylog.Snapshot
		reason retry.Reason // "": the call has no CallFinished
	}{
		{"success at once", nil, everySecond, do(failing()), retrylog.Snapshot{Calls: 1, Attempts: 1}, retry.ReasonSuccess},
		{"success after two retries", nil, everySecond, do(failing(errRefused, errRefused)),
			retrylog.Snapshot{Calls: 1, Attempts: 3, Retried: 1, Retries: 2, WaitedSeconds: 2}, retry.ReasonSuccess},
		{"gives up", nil, everySecond, do(failing(errRefused, errRefused, errRefused, errRefused)),
			retrylog.Snapshot{Calls: 1, Attempts: 4, Retried: 1, Retries: 3, WaitedSeconds: 3}, retry.ReasonExhausted},
		{"canceled in the second wait", cancelAfter(1500 * time.Millisecond), everySecond, do(failing(errRefused, errRefused, errRefused)),
			retrylog.Snapshot{Calls: 1, Attempts: 2, Retried: 1, Retries: 1, WaitedSeconds: 2}, retry.ReasonCanceled},
		{"canceled in the second attempt", cancelAfter(1050 * time.Millisecond), everySecond, do(failing(errRefused, errRefused, errRefused)),
			retrylog.Snapshot{Calls: 1, Attempts: 2, Retried: 1, Retries: 1, WaitedSeconds: 1}, retry.ReasonCanceled},
		{"canceled before", func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		}, everySecond, do(failing()), retrylog.Snapshot{Calls: 1}, retry.ReasonCanceled},
		{"an invalid policy", nil, retry.Policy{MaxAttempts: -2}, do(failing(errRefused)), retrylog.Snapshot{Calls: 1, Attempts: 1}, retry.ReasonInvalid},
		{"a panic in the second attempt", nil, everySecond, func(ctx context.Context, p retry.Policy) {
			defer func() { _ = recover() }()
			first := true
			_ = retry.Do(ctx, p, func(context.Context) error {
				if first {
					first = false
					return errRefused
				}
				panic("boom")
			})
		}, retrylog.Snapshot{Calls: 1, Attempts: 2, Retried: 1, Retries: 1, WaitedSeconds: 1}, ""},
		{"an empty budget", func(ctx context.Context) context.Context { return retry.WithBudget(ctx, &retry.Budget{Size: 0}) }, everySecond,
			do(failing(errRefused)), retrylog.Snapshot{Calls: 1, Attempts: 1}, retry.ReasonBudget},

		// A call that begins anew stays one call.
		{"healthy twice", nil, healthy, taking(false, minute, minute, quick),
			retrylog.Snapshot{Calls: 1, Retried: 1, Attempts: 3, Retries: 2, WaitedSeconds: 2}, retry.ReasonSuccess},
		{"healthy after a retry", nil, healthy, taking(false, quick, minute, quick, quick),
			retrylog.Snapshot{Calls: 1, Retried: 1, Attempts: 4, Retries: 3, WaitedSeconds: 3}, retry.ReasonSuccess},
		{"healthy often, then exhausted", nil, healthy, taking(true, quick, minute, minute, minute, minute, quick, quick),
			retrylog.Snapshot{Calls: 1, Retried: 1, Attempts: 7, Retries: 6, WaitedSeconds: 6}, retry.ReasonExhausted},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c retrylog.Counters
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				if row.ctx != nil {
					ctx = row.ctx(ctx)
				}
				p := row.policy
				p.OnEvent = c.OnEvent
				row.call(ctx, p)
			})
			want := row.want
			want.Budgets = map[string]int{}
			want.Scheduled = map[string]int64{}
			if n := int64(want.WaitedSeconds); n > 0 { // each waits a second
				want.Scheduled[""] = n
			}
			if want.Stops = stops(nil); row.reason != "" {
				want.Stops[row.reason] = 1
			}
			assert.Equal(t, want, c.Snapshot())
			gaveUp := row.reason != "" && row.reason != retry.ReasonSuccess && row.reason != retry.ReasonCanceled
			assert.Equal(t, map[bool]int64{true: 1}[gaveUp], c.GaveUp())
		})
	}
}

// Retries are counted by class. What exceeds 64 names is counted together, so that a
// name out of a response does not fill the memory, and reasons likewise.
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

func TestCountersWatchBudgets(t *testing.T) {
	var c retrylog.Counters
	b := &retry.Budget{Size: 3}
	c.WatchBudget("payments", &retry.Budget{Size: 9})
	c.WatchBudget("payments", b)
	c.WatchBudget("none", nil)
	assert.Equal(t, map[string]int{"payments": 3, "none": retry.Unlimited}, c.Snapshot().Budgets)
	b.Take()
	assert.Equal(t, 2, c.Snapshot().Budgets["payments"])
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

// Some events come from a queue that runs in several processes, and some come
// from no call.
func TestCountersOfSingleEvents(t *testing.T) {
	var c retrylog.Counters
	for _, e := range []retry.Event{
		{Kind: retry.AttemptStarted, Attempt: 2}, // the first attempt was in another process
		{Kind: retry.RetryScheduled, Attempt: 2, Decision: retry.Decision{Delay: math.MaxInt64}},
		{Kind: retry.RetryScheduled, Attempt: 3, Decision: retry.Decision{Delay: math.MaxInt64}}, // the sum is more than a Duration can hold
		{Kind: retry.CallFinished, Attempt: 3, Decision: retry.Decision{Reason: "bored"}},
		{Kind: retry.CallFinished, Attempt: 3},
		{Kind: "attempt_paused", Attempt: 1},
		{},
	} {
		c.OnEvent(context.Background(), e)
	}
	const longest = float64(math.MaxInt64) / 1e9
	assert.Equal(t, retrylog.Snapshot{Attempts: 1, Retried: 1, Retries: 1, WaitedSeconds: 2 * longest, Scheduled: map[string]int64{"": 2}, Stops: stops(map[retry.Reason]int64{"bored": 1}), Budgets: map[string]int{}}, c.Snapshot())
}

func TestCountersAreAnExpvar(t *testing.T) {
	var c retrylog.Counters
	c.WatchBudget("payments", &retry.Budget{Size: 3})
	p := policy
	p.OnEvent = c.OnEvent
	synctest.Test(t, func(*testing.T) { _ = retry.Do(context.Background(), p, failing(errRefused)) })
	var v expvar.Var = &c
	text := v.String()
	assert.Equal(t, `{"calls":1,"retried":1,"attempts":2,"retries":1,"scheduled":{"":1},"stops":{"attempts_exhausted":0,"borrowed_budget_exhausted":0,"budget_exhausted":0,"canceled":0,"deadline":0,"elapsed":0,`+
		`"invalid":0,"not_retryable":0,"permanent_error":0,"rejected":0,"retry_after_too_long":0,"success":1,"wait_failed":0},`+
		`"waited_seconds":0.219325191,"budgets":{"payments":3}}`, text)
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
		{"nothing", retrylog.Snapshot{}, "0 calls, 0 retried, 0.00 attempts a call, 0 retries, 0.0s waited"},
		{"reasons in order, those without calls left out", retrylog.Snapshot{
			Calls: 3, Retried: 1, Attempts: 5, Retries: 2, WaitedSeconds: 0.5,
			Stops: map[retry.Reason]int64{retry.ReasonSuccess: 2, retry.ReasonDeadline: 1, retry.ReasonBudget: 0},
		}, "3 calls, 1 retried, 1.67 attempts a call, 2 retries, 0.5s waited; deadline 1, success 2"},
		{"a day", retrylog.Snapshot{Calls: 1, Attempts: 1234, Retries: 1233, WaitedSeconds: 86400},
			"1 calls, 0 retried, 1234.00 attempts a call, 1233 retries, 86400.0s waited"},
		{"budgets", retrylog.Snapshot{Budgets: map[string]int{"payments": 9, "mail": 0, "none": -1}},
			"0 calls, 0 retried, 0.00 attempts a call, 0 retries, 0.0s waited; budget mail: 0 left; budget none: no limit; budget payments: 9 left"},
		{"names of others", retrylog.Snapshot{Stops: map[retry.Reason]int64{"a\nb": 1}, Budgets: map[string]int{"\x1b": 1}},
			`0 calls, 0 retried, 0.00 attempts a call, 0 retries, 0.0s waited; a; b 1; budget \x1b: 1 left`},
	} {
		assert.Equal(t, row.want, fmt.Sprint(row.s), row.name)
	}
}

func TestCountersAllocateNothing(t *testing.T) {
	var c retrylog.Counters
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, e := range callEvents {
			c.OnEvent(context.Background(), e)
		}
	}))
}

// callEvents are the events of a call that retries once.
var callEvents = []retry.Event{
	{Kind: retry.AttemptStarted, Attempt: 1, Max: 3},
	{Kind: retry.AttemptFinished, Attempt: 1, Max: 3, Err: errRefused},
	{Kind: retry.RetryScheduled, Attempt: 1, Max: 3, Err: errRefused, Decision: retry.Decision{Delay: 219325191}},
	{Kind: retry.AttemptStarted, Attempt: 2, Max: 3},
	{Kind: retry.AttemptFinished, Attempt: 2, Max: 3},
	{Kind: retry.CallFinished, Attempt: 2, Max: 3, Decision: retry.Decision{Reason: retry.ReasonSuccess}},
}
