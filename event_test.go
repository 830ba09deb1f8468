package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// A watch remembers what OnEvent was told.
type watch struct {
	events   []retry.Event
	contexts []context.Context
}

func (w *watch) event(ctx context.Context, e retry.Event) {
	w.events = append(w.events, e)
	w.contexts = append(w.contexts, ctx)
}

// of returns the events of one kind.
func (w *watch) of(kind retry.EventKind) (events []retry.Event) {
	for _, e := range w.events {
		if e.Kind == kind {
			events = append(events, e)
		}
	}
	return events
}

// counts are the numbers of events of each kind.
type counts struct{ started, finished, scheduled, stopped int }

func (w *watch) counts() counts {
	return counts{
		len(w.of(retry.AttemptStarted)), len(w.of(retry.AttemptFinished)), len(w.of(retry.RetryScheduled)), len(w.of(retry.Stopped)),
	}
}

func TestEventCounts(t *testing.T) {
	const n = 3
	succeedAt := func(attempt int) func(context.Context, int) error {
		return func(_ context.Context, run int) error {
			if run == attempt {
				return nil
			}
			return errDial
		}
	}
	fail := succeedAt(0)
	type row struct {
		name   string
		policy retry.Policy
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		fn     func(ctx context.Context, run int) error
		want   counts
		reason retry.Reason
	}
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	timeout := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	untold := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeout(ctx, d)
			return hidden{ctx}, cancel
		}
	}
	with := func(change func(*retry.Policy)) retry.Policy {
		p := everySecond
		p.MaxAttempts = 10
		change(&p)
		return p
	}
	for _, row := range []row{
		{"all n fail", everySecond, nil, fail, counts{n, n, n - 1, 1}, retry.ReasonExhausted},
		{"all n fail, no delay", retry.Policy{MaxAttempts: n}, nil, fail, counts{n, n, n - 1, 1}, retry.ReasonExhausted},
		{"the only one fails", retry.Policy{}, nil, fail, counts{1, 1, 0, 1}, retry.ReasonExhausted},
		{"success at once", everySecond, nil, succeedAt(1), counts{1, 1, 0, 1}, retry.ReasonSuccess},
		{"success at the n-th", everySecond, nil, succeedAt(n), counts{n, n, n - 1, 1}, retry.ReasonSuccess},
		{"not retryable", with(func(p *retry.Policy) { p.NonRetryable = true }), nil, fail, counts{1, 1, 0, 1}, retry.ReasonNonRetryable},
		{"rejected at the n-th", with(func(p *retry.Policy) { p.RetryIf = func(err error) bool { return !errors.Is(err, errShutdown) } }), nil,
			func(_ context.Context, run int) error {
				if run == n {
					return errShutdown
				}
				return errDial
			}, counts{n, n, n - 1, 1}, retry.ReasonRejected},
		{"permanent at the n-th", everySecond, nil, func(_ context.Context, run int) error {
			if run == n {
				return retry.Permanent(errDial)
			}
			return errDial
		}, counts{n, n, n - 1, 1}, retry.ReasonPermanent},
		{"a server asks for too long", everySecond, nil, func(context.Context, int) error { return retry.After(time.Hour, errDial) }, counts{1, 1, 0, 1}, retry.ReasonRetryAfter},
		{"cancelled in the n-th sleep", with(func(*retry.Policy) {}), untold(2500 * time.Millisecond), fail, counts{n, n, n, 1}, retry.ReasonDeadline},
		{"stopped by budget", with(func(p *retry.Policy) { p.Budget = retry.NewBudget(n-1, 0) }), nil, fail, counts{n, n, n - 1, 1}, retry.ReasonBudget},
		{"stopped by a deadline ahead", with(func(*retry.Policy) {}), timeout(3 * time.Second), fail, counts{n, n, n - 1, 1}, retry.ReasonDeadline},
		{"stopped by elapsed", with(func(p *retry.Policy) { p.MaxElapsed = 2500 * time.Millisecond }), nil, fail, counts{n, n, n - 1, 1}, retry.ReasonElapsed},
		{"context ends in the n-th execution", with(func(*retry.Policy) {}), timeout(time.Minute), func(_ context.Context, run int) error {
			if run == n {
				time.Sleep(time.Hour)
			}
			return errDial
		}, counts{n, n, n - 1, 1}, retry.ReasonDeadline},
		{"context dead at the start", everySecond, canceled, fail, counts{0, 0, 0, 1}, retry.ReasonCanceled},
		{"past its deadline at the start", everySecond, timeout(0), fail, counts{0, 0, 0, 1}, retry.ReasonDeadline},
		{"invalid, and it fails", retry.Policy{MaxAttempts: -2}, nil, fail, counts{1, 1, 0, 1}, retry.ReasonInvalid},
		{"invalid, and it succeeds", retry.Policy{MaxAttempts: -2}, nil, succeedAt(1), counts{1, 1, 0, 1}, retry.ReasonInvalid},
		{"invalid, and the context is dead", retry.Policy{MaxAttempts: -2}, canceled, fail, counts{0, 0, 0, 1}, retry.ReasonInvalid},
		{"Select picks an invalid policy", with(func(p *retry.Policy) {
			p.Select = func(error) *retry.Policy { return &retry.Policy{MaxAttempts: -2} }
		}), nil, fail, counts{1, 1, 0, 1}, retry.ReasonInvalid},
		{"a panic in the n-th", everySecond, nil, func(_ context.Context, run int) error {
			if run == n {
				panic("fn")
			}
			return errDial
		}, counts{n, n - 1, n - 1, 0}, 0},
		{"a Goexit in the n-th", everySecond, nil, func(_ context.Context, run int) error {
			if run == n {
				runtime.Goexit()
			}
			return errDial
		}, counts{n, n - 1, n - 1, 0}, 0},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if row.ctx != nil {
				ctx, cancel = row.ctx(ctx)
			}
			defer cancel()
			var told watch
			p := row.policy
			p.OnEvent = told.event
			if p.Budget != nil {
				p.Budget = retry.NewBudget(n-1, 0) // of its own for each way
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				run := 0
				_ = call(ctx, p, func(ctx context.Context) error { run++; return row.fn(ctx, run) })
			}()
			<-done
			assert.Equal(t, row.want, told.counts())
			if row.reason != 0 {
				last := told.events[len(told.events)-1]
				assert.Equal(t, retry.Stopped, last.Kind, "Stopped is the last event")
				assert.Equal(t, row.reason, last.Reason)
				assert.Equal(t, row.want.started, last.Attempt)
			}
			for _, got := range told.contexts {
				assert.True(t, ctx == got, "the context of every event is the caller's")
			}
		})
	}
}

func TestEventContents(t *testing.T) {
	everyWay(t, "two failures and a success", func(t *testing.T, call caller) {
		start := time.Now()
		at := func(d time.Duration) time.Time { return start.Add(d) }
		var told watch
		p := retry.Policy{
			MaxAttempts: 5, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.EqualJitter, Source: constant(7), AttemptTimeout: time.Minute, OnEvent: told.event,
		}
		errBusy := retry.After(20*time.Second, errors.New("busy"))
		run := 0
		require.NoError(t, call(t.Context(), p, func(context.Context) error {
			run++
			time.Sleep(time.Duration(run) * time.Second)
			return []error{errDial, errBusy, nil}[run-1]
		}))
		d1 := p.Next(retry.Attempt{Number: 1, Err: errDial, Seed: 7}).Delay
		d2 := p.Next(retry.Attempt{Number: 2, Err: errBusy, Seed: 7}).Delay
		require.NotEqual(t, d1, d2)
		s2 := time.Second + d1 // the second attempt starts
		s3 := s2 + 2*time.Second + d2
		assert.Equal(t, []retry.Event{
			{Kind: retry.AttemptStarted, Time: at(0), Attempt: 1, Max: 5},
			{Kind: retry.AttemptFinished, Time: at(time.Second), Attempt: 1, Max: 5, Err: errDial, Took: time.Second, Elapsed: time.Second},
			{Kind: retry.RetryScheduled, Time: at(time.Second), Attempt: 1, Max: 5, Elapsed: time.Second, Delay: d1, Due: at(s2), Seed: 7},
			{Kind: retry.AttemptStarted, Time: at(s2), Attempt: 2, Max: 5, Elapsed: s2},
			{Kind: retry.AttemptFinished, Time: at(s2 + 2*time.Second), Attempt: 2, Max: 5, Err: errBusy, Took: 2 * time.Second, Elapsed: s2 + 2*time.Second},
			{Kind: retry.RetryScheduled, Time: at(s2 + 2*time.Second), Attempt: 2, Max: 5, Elapsed: s2 + 2*time.Second, Delay: d2, Due: at(s3), Hint: 20 * time.Second, Seed: 7},
			{Kind: retry.AttemptStarted, Time: at(s3), Attempt: 3, Max: 5, Elapsed: s3},
			{Kind: retry.AttemptFinished, Time: at(s3 + 3*time.Second), Attempt: 3, Max: 5, Took: 3 * time.Second, Elapsed: s3 + 3*time.Second},
			{Kind: retry.Stopped, Time: at(s3 + 3*time.Second), Attempt: 3, Max: 5, Elapsed: s3 + 3*time.Second, Reason: retry.ReasonSuccess},
		}, told.events)
	})
	everyWay(t, "one failure of an unlimited policy, cancelled in the sleep", func(t *testing.T, call caller) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		var told watch
		p := retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(10 * time.Second), OnEvent: told.event}
		runs := 0
		stopped(t, call(hidden{ctx}, p, fails(&runs)))
		assert.Equal(t, []retry.Event{
			{Kind: retry.AttemptStarted, Time: start, Attempt: 1, Max: retry.Unlimited},
			{Kind: retry.AttemptFinished, Time: start, Attempt: 1, Max: retry.Unlimited, Err: errDial},
			{Kind: retry.RetryScheduled, Time: start, Attempt: 1, Max: retry.Unlimited, Delay: 10 * time.Second, Due: start.Add(10 * time.Second)},
			{Kind: retry.Stopped, Time: start.Add(4 * time.Second), Attempt: 1, Max: retry.Unlimited, Elapsed: 4 * time.Second, Reason: retry.ReasonDeadline},
		}, told.events)
	})
	t.Run("the first execution begins when the clock starts", func(t *testing.T) {
		for range 100 { // in real time, where two looks at the clock differ
			var told watch
			require.NoError(t, retry.Do(t.Context(), retry.Policy{OnEvent: told.event}, func(context.Context) error { return nil }))
			assert.Zero(t, told.events[0].Elapsed)
		}
	})
	everyWay(t, "a dead context", func(t *testing.T, call caller) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var told watch
		p := everySecond
		p.OnEvent = told.event
		stopped(t, call(ctx, p, func(context.Context) error { return nil }))
		assert.Equal(t, []retry.Event{{Kind: retry.Stopped, Time: time.Now(), Max: 3, Reason: retry.ReasonCanceled}}, told.events)
	})
	everyWay(t, "an invalid policy", func(t *testing.T, call caller) {
		start := time.Now()
		var told watch
		p := retry.Policy{MaxAttempts: -2, OnEvent: told.event}
		e := stopped(t, call(t.Context(), p, func(context.Context) error { time.Sleep(time.Second); return errDial }))
		assert.Equal(t, []retry.Event{
			{Kind: retry.AttemptStarted, Time: start, Attempt: 1, Max: 1},
			{Kind: retry.AttemptFinished, Time: start.Add(time.Second), Attempt: 1, Max: 1, Err: errDial, Took: time.Second, Elapsed: time.Second},
			{Kind: retry.Stopped, Time: start.Add(time.Second), Attempt: 1, Max: 1, Err: e.Cause, Elapsed: time.Second, Reason: retry.ReasonInvalid},
		}, told.events)
	})
	everyWay(t, "what OnEvent takes counts as elapsed, not as taken", func(t *testing.T, call caller) {
		var told watch
		p := everySecond
		p.OnEvent = func(ctx context.Context, e retry.Event) { told.event(ctx, e); time.Sleep(time.Minute) }
		runs := 0
		start := time.Now()
		stopped(t, call(t.Context(), p, fails(&runs)))
		finished := told.of(retry.AttemptFinished)
		assert.Zero(t, finished[0].Took)
		assert.Equal(t, time.Minute, finished[0].Elapsed)
		scheduled := told.of(retry.RetryScheduled)
		assert.Equal(t, 2*time.Minute, scheduled[0].Elapsed)
		assert.Equal(t, start.Add(2*time.Minute+time.Second), scheduled[0].Due)
	})
	everyWay(t, "the events are told in the caller's goroutine", func(t *testing.T, call caller) {
		p := everySecond
		unshared := 0 // the race detector sees any other goroutine
		p.OnEvent = func(context.Context, retry.Event) { unshared++ }
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Equal(t, 9, unshared)
	})
	everyWay(t, "Max is the policy's, whatever Select picks", func(t *testing.T, call caller) {
		var told watch
		p := everySecond
		p.OnEvent = told.event
		p.Select = func(error) *retry.Policy { return &retry.Policy{MaxAttempts: 2} }
		runs := 0
		stopped(t, call(t.Context(), p, fails(&runs)))
		assert.Equal(t, 2, runs)
		for _, e := range told.events {
			assert.Equal(t, 3, e.Max)
		}
	})
}

var fullEvent = retry.Event{
	Kind: retry.RetryScheduled, Time: time.Date(2026, 11, 20, 10, 31, 0, 123456789, time.UTC), Attempt: 2, Max: 5, Err: errDial,
	Took: 1500 * time.Millisecond, Elapsed: 90 * time.Second, Delay: 200 * time.Millisecond, Due: time.Date(2026, 11, 20, 10, 31, 0, 323456789, time.UTC),
	Hint: time.Nanosecond, Seed: math.MaxUint64, Reason: retry.ReasonRetryAfter,
}

func TestEventJSON(t *testing.T) {
	for _, row := range []struct {
		name  string
		event retry.Event
		json  string
	}{
		{"every field", fullEvent, `{"kind":"retry_scheduled","time":"2026-11-20T10:31:00.123456789Z","attempt":2,"max":5,` +
			`"err":"dial tcp: connection refused","took":"1.5s","elapsed":"1m30s","delay":"200ms","due":"2026-11-20T10:31:00.323456789Z",` +
			`"hint":"1ns","seed":"18446744073709551615","reason":"retry_after_too_long"}`},
		{"what is zero is left out, but for kind, time, attempt and max", retry.Event{}, `{"kind":"","time":"0001-01-01T00:00:00Z","attempt":0,"max":0}`},
		{"an unlimited policy", retry.Event{Kind: retry.Stopped, Max: retry.Unlimited, Reason: retry.ReasonLeft},
			`{"kind":"stopped","time":"0001-01-01T00:00:00Z","attempt":0,"max":-1,"reason":"left"}`},
		{"an error without a text is one", retry.Event{Kind: retry.AttemptFinished, Err: errors.New("")},
			`{"kind":"attempt_finished","time":"0001-01-01T00:00:00Z","attempt":0,"max":0,"err":""}`},
		{"the least durations", retry.Event{Took: math.MinInt64, Delay: math.MaxInt64},
			`{"kind":"","time":"0001-01-01T00:00:00Z","attempt":0,"max":0,"took":"-2562047h47m16.854775808s","delay":"2562047h47m16.854775807s"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			data, err := json.Marshal(row.event)
			require.NoError(t, err)
			assert.Equal(t, row.json, string(data))
			var back retry.Event
			require.NoError(t, json.Unmarshal(data, &back))
			assert.Equal(t, textual(row.event), textual(back))
		})
	}
	t.Run("a time keeps its instant, whatever its zone", func(t *testing.T) {
		event := retry.Event{Time: time.Date(2026, 11, 20, 10, 31, 0, 0, time.FixedZone("", 5400))}
		data, err := json.Marshal(event)
		require.NoError(t, err)
		var back retry.Event
		require.NoError(t, json.Unmarshal(data, &back))
		assert.True(t, back.Time.Equal(event.Time))
	})
	t.Run("an event in a slice and behind a pointer", func(t *testing.T) {
		data, err := json.Marshal([]*retry.Event{&fullEvent})
		require.NoError(t, err)
		var back []retry.Event
		require.NoError(t, json.Unmarshal(data, &back))
		require.Len(t, back, 1)
		assert.Equal(t, textual(fullEvent), textual(back[0]))
	})
	t.Run("an event that is decoded over another leaves nothing of it", func(t *testing.T) {
		back := fullEvent
		require.NoError(t, json.Unmarshal([]byte(`{"kind":"stopped","time":"2026-11-20T10:31:00Z","attempt":1,"max":1,"reason":"success"}`), &back))
		assert.Equal(t, retry.Event{Kind: retry.Stopped, Time: time.Date(2026, 11, 20, 10, 31, 0, 0, time.UTC), Attempt: 1, Max: 1, Reason: retry.ReasonSuccess}, back)
	})
	for name, row := range map[string]struct{ json, says string }{
		"a kind that is none":         {`{"kind":"attempt_begun"}`, `"attempt_begun" is no EventKind: write one of ["" "attempt_started" "attempt_finished" "retry_scheduled" "stopped"]`},
		"a reason that is none":       {`{"reason":"tired"}`, `"tired" is no Reason: write one of ["" "retry" "success"`},
		"a kind that is a number":     {`{"kind":1}`, "kind"},
		"a duration without a unit":   {`{"took":5}`, `5 is no duration: write text such as "200ms"`},
		"a duration that is no text":  {`{"delay":"soon"}`, `"soon" is no duration`},
		"a seed that is a number":     {`{"seed":42}`, `seed is 42: write a whole number as text, such as "42"`},
		"a seed that is too large":    {`{"seed":"18446744073709551616"}`, "18446744073709551616"},
		"a time that is none":         {`{"time":"today"}`, "today"},
		"no object":                   {`[]`, "array"},
		"an attempt that is a string": {`{"attempt":"1"}`, "attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			before := fullEvent
			err := json.Unmarshal([]byte(row.json), &before)
			require.ErrorContains(t, err, row.says)
			assert.True(t, strings.HasPrefix(err.Error(), "retry: "), "%v", err)
			assert.Equal(t, fullEvent, before, "an error changes nothing")
		})
	}
	t.Run("a kind or a reason without a name is an error", func(t *testing.T) {
		for _, e := range []retry.Event{{Kind: 5}, {Reason: 200}} {
			_, err := json.Marshal(e)
			assert.ErrorContains(t, err, "has no name")
		}
	})
}

// textual returns an event with its error's text in place of the error.
func textual(e retry.Event) any {
	text := "<nil>"
	if e.Err != nil {
		text, e.Err = "error: "+e.Err.Error(), nil
	}
	return fmt.Sprintf("%+v %s", e, text)
}

func FuzzEventJSON(f *testing.F) {
	f.Add(uint8(2), int64(0), int64(0), 1, 5, true, "boom", int64(1), int64(2), int64(3), int64(4), uint64(5), uint8(3))
	f.Add(uint8(0), int64(-62135596800), int64(0), 0, 0, false, "", int64(0), int64(0), int64(0), int64(0), uint64(0), uint8(0))
	f.Add(uint8(4), int64(253402300799), int64(999999999), math.MaxInt, -1, true, "", int64(math.MinInt64), int64(math.MaxInt64), int64(-1), int64(999), uint64(math.MaxUint64), uint8(13))
	f.Add(uint8(1), int64(1), int64(1), math.MinInt, 0, true, "two\nlines \u2028 <&> \"", int64(1001), int64(1000001), int64(1000000001), int64(59999999999), uint64(1)<<63, uint8(1))
	f.Fuzz(func(t *testing.T, kind uint8, sec, nsec int64, attempt, most int, failed bool, text string, took, elapsed, delay, hint int64, seed uint64, reason uint8) {
		const year0, year9999 = -62167219200, 253402300799 // what JSON has a form for
		at := time.Unix(min(max(sec, year0), year9999), nsec%1e9).UTC()
		e := retry.Event{
			Kind: retry.EventKind(kind % 5), Time: at, Attempt: attempt, Max: most, Took: time.Duration(took), Elapsed: time.Duration(elapsed),
			Delay: time.Duration(delay), Due: at, Hint: time.Duration(hint), Seed: seed, Reason: retry.Reason(reason % 14),
		}
		if at.Year() < 0 || at.Year() > 9999 {
			t.Skip("a negative nsec before year 0")
		}
		if failed {
			e.Err = errors.New(strings.ToValidUTF8(text, "�"))
		}
		data, err := json.Marshal(e)
		require.NoError(t, err)
		var back retry.Event
		require.NoError(t, json.Unmarshal(data, &back))
		assert.Equal(t, textual(e), textual(back))
		again, err := json.Marshal(back)
		require.NoError(t, err)
		assert.Equal(t, string(data), string(again))
	})
}

func TestTextOfReasonsAndKinds(t *testing.T) {
	reasons := map[retry.Reason]string{
		0:                        "",
		retry.ReasonRetry:        "retry",
		retry.ReasonSuccess:      "success",
		retry.ReasonExhausted:    "attempts_exhausted",
		retry.ReasonNonRetryable: "not_retryable",
		retry.ReasonPermanent:    "permanent_error",
		retry.ReasonRejected:     "rejected",
		retry.ReasonRetryAfter:   "retry_after_too_long",
		retry.ReasonElapsed:      "elapsed",
		retry.ReasonDeadline:     "deadline",
		retry.ReasonCanceled:     "canceled",
		retry.ReasonBudget:       "budget_exhausted",
		retry.ReasonInvalid:      "invalid",
		retry.ReasonLeft:         "left",
	}
	for r := range retry.Reason(14) {
		want, ok := reasons[r]
		require.True(t, ok, "Reason %d", r)
		t.Run("Reason/"+want, func(t *testing.T) {
			assert.Equal(t, want, r.String())
			text, err := r.MarshalText()
			require.NoError(t, err)
			assert.Equal(t, want, string(text))
			back := retry.Reason(255)
			require.NoError(t, back.UnmarshalText(text))
			assert.Equal(t, r, back)
		})
	}
	kinds := []string{"", "attempt_started", "attempt_finished", "retry_scheduled", "stopped"}
	assert.Equal(t, []retry.EventKind{1, 2, 3, 4}, []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled, retry.Stopped})
	for i, want := range kinds {
		t.Run("EventKind/"+want, func(t *testing.T) {
			k := retry.EventKind(i)
			assert.Equal(t, want, k.String())
			text, err := k.MarshalText()
			require.NoError(t, err)
			assert.Equal(t, want, string(text))
			back := retry.EventKind(255)
			require.NoError(t, back.UnmarshalText(text))
			assert.Equal(t, k, back)
		})
	}
	t.Run("numbers without a name", func(t *testing.T) {
		assert.Equal(t, "Reason(14)", retry.Reason(14).String())
		assert.Equal(t, "Reason(255)", retry.Reason(255).String())
		assert.Equal(t, "EventKind(5)", retry.EventKind(5).String())
		_, err := retry.Reason(14).MarshalText()
		assert.EqualError(t, err, "retry: Reason(14) has no name")
		_, err = retry.EventKind(5).MarshalText()
		assert.EqualError(t, err, "retry: EventKind(5) has no name")
	})
	t.Run("names of nothing", func(t *testing.T) {
		for _, text := range []string{"Retry", " retry", "retry ", "canceled\n", "cancelled", "exhausted", "0", "1", "Reason(1)"} {
			r := retry.ReasonLeft
			assert.ErrorContains(t, r.UnmarshalText([]byte(text)), fmt.Sprintf("retry: %q is no Reason: write one of", text))
			assert.Equal(t, retry.ReasonLeft, r, "an error changes nothing")
			k := retry.Stopped
			assert.ErrorContains(t, k.UnmarshalText([]byte(text)), fmt.Sprintf("retry: %q is no EventKind: write one of", text))
			assert.Equal(t, retry.Stopped, k, "an error changes nothing")
		}
	})
	t.Run("as JSON, and as the key of a map", func(t *testing.T) {
		data, err := json.Marshal(map[retry.Reason]retry.EventKind{retry.ReasonBudget: retry.Stopped})
		require.NoError(t, err)
		assert.JSONEq(t, `{"budget_exhausted":"stopped"}`, string(data))
		var back map[retry.Reason]retry.EventKind
		require.NoError(t, json.Unmarshal(data, &back))
		assert.Equal(t, map[retry.Reason]retry.EventKind{retry.ReasonBudget: retry.Stopped}, back)
	})
}

func TestEventJSONNullChangesNothing(t *testing.T) {
	e := retry.Event{Kind: retry.Stopped, Attempt: 3}
	require.NoError(t, json.Unmarshal([]byte("null"), &e))
	assert.Equal(t, retry.Event{Kind: retry.Stopped, Attempt: 3}, e)
}
