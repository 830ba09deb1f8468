package retrylog_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"io"
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
	retry.ReasonElapsed, retry.ReasonDeadline, retry.ReasonCanceled, retry.ReasonBudget, retry.ReasonWait, retry.ReasonInvalid,
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
	for _, row := range []struct {
		name   string
		ctx    func(context.Context) context.Context
		policy retry.Policy
		call   func(context.Context, retry.Policy)
		want   retrylog.Snapshot
		reason retry.Reason // "": the call has no Stopped
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
		})
	}
}

// A call that begins anew stays one call.
func TestCountersOfLongLife(t *testing.T) {
	const minute, quick = time.Minute, time.Second
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Minute}
	for _, row := range []struct {
		name  string
		takes []time.Duration // each attempt, all but the last fail
		fails bool            // the last too
		want  retrylog.Snapshot
	}{
		{"healthy at once, then success", []time.Duration{minute, quick}, false, retrylog.Snapshot{Calls: 1, Retried: 1, Attempts: 2, Retries: 1}},
		{"healthy twice", []time.Duration{minute, minute, quick}, false, retrylog.Snapshot{Calls: 1, Retried: 1, Attempts: 3, Retries: 2}},
		{"healthy after a retry", []time.Duration{quick, minute, quick, quick}, false, retrylog.Snapshot{Calls: 1, Retried: 1, Attempts: 4, Retries: 3}},
		{"healthy, then exhausted", []time.Duration{minute, quick, quick}, true, retrylog.Snapshot{Calls: 1, Retried: 1, Attempts: 3, Retries: 2}},
		{"healthy ten times, then exhausted", []time.Duration{quick, minute, minute, minute, minute, minute, minute, minute, minute, minute, minute, quick, quick}, true, retrylog.Snapshot{Calls: 1, Retried: 1, Attempts: 13, Retries: 12}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c retrylog.Counters
			const calls = 3
			synctest.Test(t, func(t *testing.T) {
				p := p
				p.OnEvent = c.OnEvent
				for range calls {
					n := 0
					_ = retry.Do(t.Context(), p, func(context.Context) error {
						n++
						time.Sleep(row.takes[n-1])
						if n < len(row.takes) || row.fails {
							return errRefused
						}
						return nil
					})
				}
			})
			want := row.want
			want.WaitedSeconds = float64(calls * want.Retries)
			want.Calls, want.Retried, want.Attempts, want.Retries = calls*want.Calls, calls*want.Retried, calls*want.Attempts, calls*want.Retries
			want.Scheduled, want.Budgets = map[string]int64{"": want.Retries}, map[string]int{}
			reason := retry.ReasonSuccess
			if row.fails {
				reason = retry.ReasonExhausted
			}
			want.Stops = stops(map[retry.Reason]int64{reason: calls})
			assert.Equal(t, want, c.Snapshot())
		})
	}
}

// Retries are counted by class. What exceeds 64 names is counted together, so that a
// name out of a response does not fill the memory, and reasons likewise.
func TestCountersByName(t *testing.T) {
	var c retrylog.Counters
	for range 3 {
		for n := range 100 {
			c.OnEvent(context.Background(), retry.Event{Kind: retry.RetryScheduled, Attempt: 1, Class: fmt.Sprint("class ", n)})
			c.OnEvent(context.Background(), retry.Event{Kind: retry.Stopped, Attempt: 1, Reason: retry.Reason(fmt.Sprint("reason ", n))})
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

func TestCountersOfClasses(t *testing.T) {
	var c retrylog.Counters
	p := retry.Policy{MaxAttempts: 9, Classify: func(err error) *retry.Class {
		if errors.Is(err, errRefused) {
			return &retry.Class{Name: "refused", Policy: &retry.Policy{MaxAttempts: 2}}
		}
		return nil
	}, OnEvent: c.OnEvent}
	errs := []error{io.EOF, errRefused, io.EOF, errRefused}
	_ = retry.Do(context.Background(), p, func(context.Context) (err error) {
		err, errs = errs[0], errs[1:]
		return err
	})
	s := c.Snapshot()
	assert.Equal(t, map[string]int64{"": 2, "refused": 1}, s.Scheduled)
	assert.EqualValues(t, 1, s.Stops[retry.ReasonExhausted])
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
	assert.Equal(t, retrylog.Snapshot{Calls: n, Attempts: 3 * n, Retried: n, Retries: 2 * n, Scheduled: map[string]int64{"": 2 * n}, Stops: stops(map[retry.Reason]int64{retry.ReasonExhausted: n}), Budgets: map[string]int{}}, s)
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

// Budgets can be added while calls are counted and snapshots are taken.
func TestCountersWatchBudgetsOfManyGoroutines(t *testing.T) {
	var c retrylog.Counters
	const goroutines, calls = 16, 100
	want := map[string]int{}
	var all sync.WaitGroup
	for g := range goroutines {
		name, b := fmt.Sprint("budget ", g), &retry.Budget{Size: 2*calls + g}
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
	assert.Equal(t, retrylog.Snapshot{Calls: n, Attempts: 3 * n, Retried: n, Retries: 2 * n, Scheduled: map[string]int64{"": 2 * n}, Stops: stops(map[retry.Reason]int64{retry.ReasonExhausted: n}), Budgets: want}, c.Snapshot())
}

// Some events come from a queue that runs in several processes, and some come
// from no call.
func TestCountersOfSingleEvents(t *testing.T) {
	var c retrylog.Counters
	for _, e := range []retry.Event{
		{Kind: retry.AttemptStarted, Attempt: 2}, // the first attempt was in another process
		{Kind: retry.RetryScheduled, Attempt: 2, Delay: math.MaxInt64},
		{Kind: retry.RetryScheduled, Attempt: 3, Delay: math.MaxInt64}, // the sum is more than a Duration can hold
		{Kind: retry.Stopped, Attempt: 3, Reason: "bored"},
		{Kind: retry.Stopped, Attempt: 3},
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
	assert.Equal(t, `{"calls":1,"retried":1,"attempts":2,"retries":1,"scheduled":{"":1},"stops":{"attempts_exhausted":0,"budget_exhausted":0,"canceled":0,"deadline":0,"elapsed":0,`+
		`"invalid":0,"not_retryable":0,"permanent_error":0,"rejected":0,"retry_after_too_long":0,"success":1,"wait_failed":0},`+
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
		b.Run(string(e.Kind), func(b *testing.B) {
			var c retrylog.Counters
			onEvent := c.OnEvent
			b.ReportAllocs()
			for range b.N {
				onEvent(ctx, e)
			}
		})
	}
}
