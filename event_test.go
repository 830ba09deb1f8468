package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

func TestEventCounts(t *testing.T) {
	const n = 3
	fail := func(int) error { return errDial }
	atN := func(end func() error) func(int) error {
		return func(run int) error {
			if run == n {
				return end()
			}
			return errDial
		}
	}
	with := func(change func(*retry.Policy)) retry.Policy {
		p := retry.Policy{MaxAttempts: 10, Backoff: retry.Fixed(time.Second)}
		change(&p)
		return p
	}
	ten := with(func(*retry.Policy) {})
	for _, row := range []struct {
		name   string
		policy retry.Policy
		ctx    func(context.Context) context.Context
		fn     func(run int) error
		want   counts
		reason retry.Reason
	}{
		{"all n fail", everySecond, nil, fail, counts{n, n, n - 1, 1}, retry.ReasonExhausted},
		{"success at once", everySecond, nil, func(int) error { return nil }, counts{1, 1, 0, 1}, retry.ReasonSuccess},
		{"success at the n-th attempt", everySecond, nil, atN(func() error { return nil }), counts{n, n, n - 1, 1}, retry.ReasonSuccess},
		{"rejected at the n-th attempt", with(func(p *retry.Policy) { p.RetryIf = func(err error) bool { return err != errShutdown } }), nil,
			atN(func() error { return errShutdown }), counts{n, n, n - 1, 1}, retry.ReasonRejected},
		{"permanent at the n-th attempt", everySecond, nil, atN(func() error { return retry.Permanent(errDial) }), counts{n, n, n - 1, 1}, retry.ReasonPermanent},
		{"a server asks for too long a wait", everySecond, nil, func(int) error { return retry.After(time.Hour, errDial) },
			counts{1, 1, 0, 1}, retry.ReasonRetryAfter},
		{"the deadline passes in the n-th wait", ten, hiddenIn(2500*time.Millisecond, nil), fail, counts{n, n, n, 1}, retry.ReasonDeadline},
		{"stopped by the Budget", with(func(p *retry.Policy) { p.Budget = &retry.Budget{Size: n - 1} }), nil, fail, counts{n, n, n - 1, 1}, retry.ReasonBudget},
		{"stopped by a deadline ahead", ten, endingIn(3*time.Second, nil), fail, counts{n, n, n - 1, 1}, retry.ReasonDeadline},
		{"stopped by MaxElapsed", with(func(p *retry.Policy) { p.MaxElapsed = 2500 * time.Millisecond }), nil, fail, counts{n, n, n - 1, 1}, retry.ReasonElapsed},
		{"the context ends in the n-th attempt", ten, endingIn(time.Minute, nil), atN(func() error { time.Sleep(time.Hour); return errDial }),
			counts{n, n, n - 1, 1}, retry.ReasonDeadline},
		{"canceled at the start", everySecond, canceledBy(nil), fail, counts{0, 0, 0, 1}, retry.ReasonCanceled},
		{"invalid, and the context is done", retry.Policy{MaxAttempts: -2}, canceledBy(nil), fail, counts{0, 0, 0, 1}, retry.ReasonInvalid},
		{"a panic in the n-th attempt", everySecond, nil, atN(func() error { panic("fn") }), counts{n, n - 1, n - 1, 0}, ""},
		{"a Goexit in the n-th attempt", everySecond, nil, atN(func() error { runtime.Goexit(); return nil }), counts{n, n - 1, n - 1, 0}, ""},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			ctx := t.Context()
			if row.ctx != nil {
				ctx = row.ctx(ctx)
			}
			var told watch
			p := row.policy
			p.OnEvent = told.event
			if p.Budget != nil {
				p.Budget = &retry.Budget{Size: n - 1} // a new Budget for Do and for DoValue
			}
			start, run := time.Now(), 0
			leaves(func() { _ = call(ctx, p, func(context.Context) error { run++; return row.fn(run) }) })
			assert.Equal(t, row.want, told.counts())
			if row.reason != "" {
				last := told.events[len(told.events)-1]
				assert.Equal(t, []any{retry.CallFinished, row.reason, row.want.started}, []any{last.Kind, last.Reason, last.Attempt})
			}
			for i, got := range told.contexts {
				assert.True(t, ctx == got, "the context of every event is the caller's")
				assert.Equal(t, start.Add(told.events[i].Elapsed), told.events[i].Time)
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
		s2 := time.Second + d1 // when the second attempt starts
		s3 := s2 + 2*time.Second + d2
		assert.Equal(t, []retry.Event{
			{Kind: retry.AttemptStarted, Time: at(0), Attempt: 1, Max: 5, Decision: retry.Decision{Number: 1}},
			{Kind: retry.AttemptFinished, Time: at(time.Second), Attempt: 1, Max: 5, Err: errDial, Took: time.Second, Elapsed: time.Second, Decision: retry.Decision{Number: 1}},
			{Kind: retry.RetryScheduled, Time: at(time.Second), Attempt: 1, Max: 5, Err: errDial, Elapsed: time.Second,
				Decision: retry.Decision{Reason: retry.ReasonRetry, Delay: d1, Lo: 5 * time.Second, Hi: 10 * time.Second, Number: 1, Seed: 7}, Due: at(s2)},
			{Kind: retry.AttemptStarted, Time: at(s2), Attempt: 2, Max: 5, Elapsed: s2, Decision: retry.Decision{Number: 2}},
			{Kind: retry.AttemptFinished, Time: at(s2 + 2*time.Second), Attempt: 2, Max: 5, Err: errBusy, Took: 2 * time.Second, Elapsed: s2 + 2*time.Second, Decision: retry.Decision{Number: 2}},
			{Kind: retry.RetryScheduled, Time: at(s2 + 2*time.Second), Attempt: 2, Max: 5, Err: errBusy, Elapsed: s2 + 2*time.Second,
				Decision: retry.Decision{Reason: retry.ReasonRetry, Delay: d2, Lo: 20 * time.Second, Hi: 30 * time.Second, Number: 2, RetryAfter: 20 * time.Second, Seed: 7}, Due: at(s3)},
			{Kind: retry.AttemptStarted, Time: at(s3), Attempt: 3, Max: 5, Elapsed: s3, Decision: retry.Decision{Number: 3}},
			{Kind: retry.AttemptFinished, Time: at(s3 + 3*time.Second), Attempt: 3, Max: 5, Took: 3 * time.Second, Elapsed: s3 + 3*time.Second, Decision: retry.Decision{Number: 3}},
			{Kind: retry.CallFinished, Time: at(s3 + 3*time.Second), Attempt: 3, Max: 5, Elapsed: s3 + 3*time.Second, Decision: retry.Decision{Reason: retry.ReasonSuccess, Number: 3}},
		}, told.events)
	})
	t.Run("the first attempt begins when the clock starts", func(t *testing.T) {
		for range 100 { // in real time, where two readings of the clock differ
			var told watch
			require.NoError(t, retry.Do(t.Context(), retry.Policy{OnEvent: told.event}, failWith(nil)))
			assert.Zero(t, told.events[0].Elapsed)
		}
	})
	everyWay(t, "a context that is done", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxAttempts: 3, OnEvent: told.event}
		e := stopped(t, call(canceledBy(nil)(t.Context()), p, failWith(nil)))
		assert.Equal(t, []retry.Event{{Kind: retry.CallFinished, Time: time.Now(), Max: 3, Cause: e.Cause, Decision: retry.Decision{Reason: retry.ReasonCanceled}}}, told.events)
	})
	everyWay(t, "the time of OnEvent is part of Elapsed, not of Took", func(t *testing.T, call caller) {
		var told watch
		p := everySecond
		p.OnEvent = func(ctx context.Context, e retry.Event) { told.event(ctx, e); time.Sleep(time.Minute) }
		start := time.Now()
		stopped(t, call(t.Context(), p, failWith(errDial)))
		finished := told.of(retry.AttemptFinished)
		assert.Zero(t, finished[0].Took)
		assert.Equal(t, time.Minute, finished[0].Elapsed)
		scheduled := told.of(retry.RetryScheduled)
		assert.Equal(t, 2*time.Minute, scheduled[0].Elapsed)
		assert.Equal(t, start.Add(2*time.Minute+time.Second), scheduled[0].Due)
		assert.Equal(t, start.Add(3*time.Minute), told.of(retry.AttemptStarted)[1].Time, "OnEvent takes longer than the wait")
	})
	everyWay(t, "Max is the limit of the policy, whatever Classify returns", func(t *testing.T, call caller) {
		var told watch
		p := retry.Policy{MaxAttempts: 3, OnEvent: told.event, Classify: always(retry.Class{MaxAttempts: 2})}
		stopped(t, call(t.Context(), p, failWith(errDial)))
		assert.Equal(t, counts{2, 2, 1, 1}, told.counts())
		for _, e := range told.events {
			assert.Equal(t, 3, e.Max)
		}
	})
}

// These texts are stored in logs, metrics and rows of databases, so they must not change.
func TestTextOfReasonsAndKinds(t *testing.T) {
	assert.Equal(t, []retry.Reason{
		"retry", "success", "attempts_exhausted", "not_retryable", "permanent_error", "rejected", "retry_after_too_long",
		"elapsed", "deadline", "canceled", "budget_exhausted", "borrowed_budget_exhausted", "wait_failed", "invalid",
	}, reasons)
	assert.Equal(t, []retry.EventKind{"attempt_started", "attempt_finished", "retry_scheduled", "call_finished"},
		[]retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled, retry.CallFinished})
	assert.Equal(t, []any{retry.Reason(""), retry.EventKind("")}, []any{retry.Decision{}.Reason, retry.Event{}.Kind}, "the zero Decision has no Reason, and the zero Event has no Kind")
	t.Run("as JSON, and as the key of a map: an unknown name is kept", func(t *testing.T) {
		for text, want := range map[string]map[retry.Reason]retry.EventKind{
			`{"budget_exhausted":"call_finished"}`:              {retry.ReasonBudget: retry.CallFinished},
			`{"":"","of a newer version":"of a newer version"}`: {"of a newer version": "of a newer version", "": ""},
		} {
			data, err := json.Marshal(want)
			require.NoError(t, err)
			assert.Equal(t, text, string(data))
			var back map[retry.Reason]retry.EventKind
			require.NoError(t, json.Unmarshal(data, &back))
			assert.Equal(t, want, back)
		}
	})
}

var fullEvent = retry.Event{
	Kind: retry.RetryScheduled, Time: time.Date(2026, 11, 20, 10, 31, 0, 123456789, time.UTC), Attempt: 2, Max: 5, Err: errDial, Cause: errShutdown,
	Took: 1500 * time.Millisecond, Elapsed: 90 * time.Second, Decision: retry.Decision{Delay: 200 * time.Millisecond, Lo: 150 * time.Millisecond, Hi: 250 * time.Millisecond, Number: 1, Reset: true, RetryAfter: time.Nanosecond, Seed: math.MaxUint64, Class: "throttled", Reason: retry.ReasonRetryAfter}, Due: time.Date(2026, 11, 20, 10, 31, 0, 323456789, time.UTC),
}

const fullJSON = `{"kind":"retry_scheduled","time":"2026-11-20T10:31:00.123456789Z","attempt":2,"max":5,"number":1,"reset":true,` +
	`"err":"dial tcp: connection refused","cause":"the server shuts down","took":"1.5s","elapsed":"1m30s","delay":"200ms",` +
	`"due":"2026-11-20T10:31:00.323456789Z","lo":"150ms","hi":"250ms","retry_after":"1ns","seed":"18446744073709551615","class":"throttled","reason":"retry_after_too_long"}`

func TestEventJSON(t *testing.T) {
	for _, row := range []struct {
		name  string
		event retry.Event
		json  string
	}{
		{"every field", fullEvent, fullJSON},
		{"zero fields are left out, except kind, time, attempt and max", retry.Event{}, `{"kind":"","time":"0001-01-01T00:00:00Z","attempt":0,"max":0}`},
		{"a Number that equals Attempt", retry.Event{Attempt: 2, Decision: retry.Decision{Number: 2}}, `{"kind":"","time":"0001-01-01T00:00:00Z","attempt":2,"max":0}`},
		{"an error with an empty text is kept", retry.Event{Kind: retry.AttemptFinished, Err: errors.New("")},
			`{"kind":"attempt_finished","time":"0001-01-01T00:00:00Z","attempt":0,"max":0,"err":""}`},
		{"the smallest durations", retry.Event{Took: math.MinInt64, Decision: retry.Decision{Delay: math.MaxInt64, Lo: -1}},
			`{"kind":"","time":"0001-01-01T00:00:00Z","attempt":0,"max":0,"took":"-2562047h47m16.854775808s","delay":"2562047h47m16.854775807s","lo":"-1ns"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			data, err := json.Marshal(row.event)
			require.NoError(t, err)
			assert.Equal(t, row.json, string(data))
		})
	}
	t.Run("in a slice and as a pointer", func(t *testing.T) {
		data, err := json.Marshal([]*retry.Event{&fullEvent})
		require.NoError(t, err)
		assert.Equal(t, "["+fullJSON+"]", string(data))
	})
}

// MarshalJSON writes an event like encoding/json would write a struct with these fields.
func TestEventIsWrittenAsByEncodingJSON(t *testing.T) {
	type text = strict.Duration
	type fields struct {
		Kind       retry.EventKind `json:"kind"`
		Time       time.Time       `json:"time"`
		Attempt    int             `json:"attempt"`
		Max        int             `json:"max"`
		Number     int             `json:"number,omitzero"`
		Reset      bool            `json:"reset,omitzero"`
		Err        string          `json:"err,omitzero"`
		Cause      string          `json:"cause,omitzero"`
		Took       text            `json:"took,omitzero"`
		Elapsed    text            `json:"elapsed,omitzero"`
		Delay      text            `json:"delay,omitzero"`
		Due        time.Time       `json:"due,omitzero"`
		Lo         text            `json:"lo,omitzero"`
		Hi         text            `json:"hi,omitzero"`
		RetryAfter text            `json:"retry_after,omitzero"`
		Seed       uint64          `json:"seed,omitzero,string"`
		Class      string          `json:"class,omitzero"`
		Reason     retry.Reason    `json:"reason,omitzero"`
	}
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"", "plain", `a"b`, `a\b`, "a<b", "a>b", "a&b", "a\nb", "é", `"quoted" and \ slashed`, "<a&b>", "line\nbreak\t\x00\x1f\x7f", "\u2028\u2029é\U0001F600", "\xff\xfe broken"}
	word := func() string { return words[random.IntN(len(words))] }
	wait := func() time.Duration { return time.Duration(random.Uint64()) >> random.IntN(65) }
	number := func() int { return int(random.Int64()) >> random.IntN(65) * (1 - 2*random.IntN(2)) }
	failure := func(text string) error {
		if text == "" {
			return nil
		}
		return errors.New(text)
	}
	for range 20_000 {
		f := fields{
			Kind: retry.EventKind(word()), Time: time.Unix(int64(random.IntN(1e9)), int64(random.IntN(1e9))).In(time.FixedZone("", 60*random.IntN(800))),
			Attempt: number(), Max: number(), Number: number(), Reset: random.IntN(2) == 0, Err: word(), Cause: word(),
			Took: text(wait()), Elapsed: text(wait()), Delay: text(wait()), Lo: text(wait()), Hi: text(wait()), RetryAfter: text(wait()),
			Seed: random.Uint64() >> random.IntN(65), Class: word(), Reason: retry.Reason(word()),
		}
		if random.IntN(2) == 0 {
			f.Due = f.Time
		}
		got, err := retry.Event{
			Kind: f.Kind, Time: f.Time, Attempt: f.Attempt, Max: f.Max, Err: failure(f.Err), Cause: failure(f.Cause),
			Took: time.Duration(f.Took), Elapsed: time.Duration(f.Elapsed), Due: f.Due,
			Decision: retry.Decision{
				Number: f.Number, Reset: f.Reset, Delay: time.Duration(f.Delay), Lo: time.Duration(f.Lo), Hi: time.Duration(f.Hi),
				RetryAfter: time.Duration(f.RetryAfter), Seed: f.Seed, Class: f.Class, Reason: f.Reason,
			},
		}.MarshalJSON()
		require.NoError(t, err)
		if f.Number == f.Attempt {
			f.Number = 0
		}
		want, err := json.Marshal(f)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	for name, e := range map[string]retry.Event{
		"time": {Time: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, "due": {Due: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		data, err := e.MarshalJSON()
		assert.ErrorContains(t, err, "retry: event: ", name)
		assert.Nil(t, data, name)
	}
}
