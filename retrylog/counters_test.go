package retrylog_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
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

// stops returns the stops of a snapshot: every reason, with these numbers and 0
// for the rest.
func stops(numbers map[retry.Reason]int64) map[retry.Reason]int64 {
	all := map[retry.Reason]int64{}
	for r := retry.ReasonSuccess; r <= retry.ReasonLeft; r++ {
		all[r] = numbers[r]
	}
	return all
}

// n attempts count as one call and n - 1 retries, however the call ends.
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
	for _, row := range []struct {
		name   string
		ctx    func(context.Context) context.Context
		policy retry.Policy
		call   func(context.Context, retry.Policy)
		want   retrylog.Snapshot
		reason retry.Reason // 0: the call has no Stopped
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
		{"a Loop left in the third iteration", nil, everySecond, func(ctx context.Context, p retry.Policy) {
			var err error
			for attempt := range retry.Loop(ctx, p, &err) {
				if err = errRefused; attempt == 3 {
					break
				}
			}
		}, retrylog.Snapshot{Calls: 1, Attempts: 3, Retried: 1, Retries: 2, WaitedSeconds: 2}, retry.ReasonLeft},
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
		}, retrylog.Snapshot{Calls: 1, Attempts: 2, Retried: 1, Retries: 1, WaitedSeconds: 1}, 0},
		{"an empty budget", func(ctx context.Context) context.Context { return retry.WithBudget(ctx, retry.NewBudget(0, 0)) }, everySecond,
			do(failing(errRefused)), retrylog.Snapshot{Calls: 1, Attempts: 1}, retry.ReasonBudget},
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
			if want.Stops = stops(nil); row.reason != 0 {
				want.Stops[row.reason] = 1
			}
			assert.Equal(t, want, c.Snapshot())
		})
	}
}

func TestCountersOfManyGoroutines(t *testing.T) {
	var c retrylog.Counters
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Nanosecond), OnEvent: c.OnEvent}
	const goroutines, calls = 16, 200
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range calls {
				_ = retry.Do(context.Background(), p, func(context.Context) error { return errRefused })
				_ = c.Snapshot()
			}
		})
	}
	all.Wait()
	const n = goroutines * calls
	s := c.Snapshot()
	assert.InDelta(t, 2*n*1e-9, s.WaitedSeconds, 1e-15, "a sum of float64")
	s.WaitedSeconds = 0
	assert.Equal(t, retrylog.Snapshot{Calls: n, Attempts: 3 * n, Retried: n, Retries: 2 * n, Stops: stops(map[retry.Reason]int64{retry.ReasonExhausted: n}), Budgets: map[string]int{}}, s)
}

func TestCountersWatchBudgets(t *testing.T) {
	var c retrylog.Counters
	b := retry.NewBudget(3, 0)
	c.WatchBudget("payments", retry.NewBudget(9, 0))
	c.WatchBudget("payments", b)
	c.WatchBudget("none", nil)
	assert.Equal(t, map[string]int{"payments": 3, "none": retry.Unlimited}, c.Snapshot().Budgets)
	b.Take()
	assert.Equal(t, 2, c.Snapshot().Budgets["payments"])
}

// Budgets can be added while calls are counted and snapshots are taken.
func TestCountersWatchBudgetsOfManyGoroutines(t *testing.T) {
	var c retrylog.Counters
	const goroutines, calls = 16, 100
	want := map[string]int{}
	var all sync.WaitGroup
	for g := range goroutines {
		name, b := fmt.Sprint("budget ", g), retry.NewBudget(2*calls+g, 0)
		want[name] = g
		p := retry.Policy{MaxAttempts: 3, Budget: b, OnEvent: c.OnEvent}
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
	assert.Equal(t, retrylog.Snapshot{Calls: n, Attempts: 3 * n, Retried: n, Retries: 2 * n, Stops: stops(map[retry.Reason]int64{retry.ReasonExhausted: n}), Budgets: want}, c.Snapshot())
}

// Some events come from a queue that runs in several processes, and some come
// from no call.
func TestCountersOfSingleEvents(t *testing.T) {
	var c retrylog.Counters
	for _, e := range []retry.Event{
		{Kind: retry.AttemptStarted, Attempt: 2}, // the first attempt was in another process
		{Kind: retry.RetryScheduled, Attempt: 2, Delay: math.MaxInt64},
		{Kind: retry.RetryScheduled, Attempt: 3, Delay: math.MaxInt64}, // the sum is more than a Duration can hold
		{Kind: retry.Stopped, Attempt: 3, Reason: 200},
		{},
	} {
		c.OnEvent(context.Background(), e)
	}
	const longest = float64(math.MaxInt64) / 1e9
	assert.Equal(t, retrylog.Snapshot{Attempts: 1, Retried: 1, Retries: 1, WaitedSeconds: 2 * longest, Stops: stops(nil), Budgets: map[string]int{}}, c.Snapshot())
}

func TestCountersAreAnExpvar(t *testing.T) {
	var c retrylog.Counters
	c.WatchBudget("payments", retry.NewBudget(3, 0))
	p := policy
	p.OnEvent = c.OnEvent
	synctest.Test(t, func(*testing.T) { _ = retry.Do(context.Background(), p, failing(errRefused)) })
	var v expvar.Var = &c
	text := v.String()
	assert.Equal(t, `{"calls":1,"retried":1,"attempts":2,"retries":1,"stops":{"attempts_exhausted":0,"budget_exhausted":0,"canceled":0,"deadline":0,"elapsed":0,`+
		`"invalid":0,"left":0,"not_retryable":0,"permanent_error":0,"rejected":0,"retry_after_too_long":0,"success":1},`+
		`"waited_seconds":0.219325191,"budgets":{"payments":3}}`, text)
	var back retrylog.Snapshot
	require.NoError(t, json.Unmarshal([]byte(text), &back))
	assert.Equal(t, c.Snapshot(), back)
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
	{Kind: retry.RetryScheduled, Attempt: 1, Max: 3, Err: errRefused, Delay: 219325191},
	{Kind: retry.AttemptStarted, Attempt: 2, Max: 3},
	{Kind: retry.AttemptFinished, Attempt: 2, Max: 3},
	{Kind: retry.Stopped, Attempt: 2, Max: 3, Reason: retry.ReasonSuccess},
}

// BenchmarkCounters counts an event of each kind from one goroutine.
func BenchmarkCounters(b *testing.B) {
	ctx := context.Background()
	for _, e := range callEvents[2:] {
		b.Run(e.Kind.String(), func(b *testing.B) {
			var c retrylog.Counters
			onEvent := c.OnEvent
			b.ReportAllocs()
			for range b.N {
				onEvent(ctx, e)
			}
		})
	}
}
