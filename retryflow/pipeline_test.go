package retryflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	. "github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retrytest"
)

func TestZeroPipeline(t *testing.T) {
	assert.NoError(t, Pipeline{}.Validate())
	assert.NoError(t, Pipeline{}.Run(t.Context(), nil))
	assert.NoError(t, Pipeline{Tasks: []Task{{Label: "t", Run: newScript(Outcome{}).run}}}.Run(t.Context(), nil), "a zero outcome is a success")
	assert.Equal(t, []string{"success", "error"}, []string{Outcome{}.Status(), failure.Status()})
	p := Pipeline{Tasks: []Task{
		{Label: "a", Run: func(_ context.Context, s State) Outcome { s["n"] = 1; return success }},
		{Label: "b", Run: func(_ context.Context, s State) Outcome { return Outcome{Result: s["n"]} }, Rules: Rules{{When: when(1), Do: Break}, {Do: Fail}}},
	}}
	assert.NoError(t, p.Run(t.Context(), nil), "a nil state can be set")
}

func TestNilContext(t *testing.T) {
	task := newScript(success)
	var none context.Context
	err := Pipeline{Tasks: []Task{{Label: "t", Run: task.run}}}.Run(none, nil)
	assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	assert.Empty(t, task.began)
}

func TestPipelineSetsFieldsOfTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []Outcome
		state := State{"page": 7}
		look := func(o Outcome) (bool, error) { seen = append(seen, o); return o.Attempt < 2, nil }
		p := Pipeline{Tasks: []Task{{
			Label: "t",
			Run: func(context.Context, State) Outcome {
				time.Sleep(time.Second)
				return Outcome{Result: "r", Err: errBoom, Data: map[string]any{"k": "v"}, Task: "odd", Attempt: 99, Took: 99, State: State{}}
			},
			Rules: Rules{{When: look, Do: Retry, Policy: retry.Policy{MaxAttempts: 9}}, {Do: Continue}},
		}}}
		require.NoError(t, p.Run(t.Context(), state))
		o := Outcome{Result: "r", Err: errBoom, Data: map[string]any{"k": "v"}, Task: "t", Attempt: 1, Took: time.Second, State: state}
		again := o
		again.Attempt = 2
		assert.Equal(t, []Outcome{o, again}, seen)
		seen[0].State["same"] = true
		assert.Equal(t, true, state["same"], "Outcome.State is the pipeline's state")
	})
}

func TestDelayReplacesTheFirstDelayOfTheCurve(t *testing.T) {
	for name, row := range map[string]struct {
		curve retry.Backoff
		want  [4]time.Duration
	}{
		"none":          {nil, [4]time.Duration{2, 2, 2, 2}},
		"fixed":         {retry.Fixed(time.Hour), [4]time.Duration{2, 2, 2, 2}},
		"linear":        {retry.Linear(time.Hour), [4]time.Duration{2, 4, 6, 8}},
		"fibonacci":     {retry.Fibonacci(time.Hour), [4]time.Duration{2, 2, 4, 6}},
		"exponential":   {retry.Exponential{Base: time.Hour}, [4]time.Duration{2, 4, 8, 16}},
		"exponential 3": {retry.Exponential{Factor: 3}, [4]time.Duration{2, 6, 18, 54}},
		"schedule":      {retry.Schedule{time.Hour, time.Minute}, [4]time.Duration{2, 2, 2, 2}},
		"foreign":       {retry.BackoffFunc(func(int) time.Duration { return time.Hour }), [4]time.Duration{2, 2, 2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				task := newScript(failure)
				rule := retrying(5, row.curve)
				rule.Delay = waits(2 * time.Second)
				err := Pipeline{Tasks: []Task{{Label: "t", Run: task.run, Rules: Rules{rule}}}}.Run(t.Context(), nil)
				assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
				var waited [4]time.Duration
				for i := range waited {
					waited[i] = (task.began[i+1] - task.began[i]) / time.Second
				}
				assert.Equal(t, row.want, waited)
			})
		})
	}
}

// zeros is a Source that draws only zeros, so the seed is 1.
func zeros() uint64 { return 0 }

// The Policy of the pipeline sets the AttemptTimeout of each attempt, a MaxElapsed that starts
// with each task, and whether a task waits as long as the server asked for.
func TestPolicyOfAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := Outcome{Err: retry.After(50*time.Second, errBoom)}
		hang := func(ctx context.Context, _ State) Outcome { <-ctx.Done(); return busy }
		task, again := newScript(busy), Rules{retrying(2, retry.Fixed(time.Hour))}
		p := Pipeline{
			Policy: retry.Policy{AttemptTimeout: time.Minute, MaxElapsed: 3 * time.Minute, RetryAfter: retry.RetryAfterExact},
			Tasks:  []Task{{Label: "hangs", Run: hang, Rules: append(again[:1:1], Rule{Do: Continue})}, {Label: "t", Run: task.run, Rules: again}},
		}
		p.Tasks[0].Rules[0].When = func(o Outcome) (bool, error) { return o.Attempt == 1, nil }
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(p.Run(t.Context(), nil)))
		assert.Equal(t, []time.Duration{170 * time.Second, 220 * time.Second}, task.began)
	})
}

func TestLimitOfRuleAndPipeline(t *testing.T) {
	for name, row := range map[string]struct{ pipeline, rule, want int }{
		"the rule's":          {8, 3, 3},
		"the pipeline's":      {2, 3, 2},
		"only the rule's":     {0, 3, 3},
		"beside Unlimited":    {4, retry.Unlimited, 4},
		"neither has a limit": {0, retry.Unlimited, retry.Unlimited},
	} {
		var events []told
		p := Pipeline{
			Policy:  retry.Policy{MaxAttempts: row.pipeline},
			Tasks:   []Task{{Label: "t", Run: newScript(failure, success).run, Rules: Rules{retrying(row.rule, retry.Fixed(1))}}},
			OnEvent: listen(&events),
		}
		require.NoError(t, p.Run(t.Context(), nil), name)
		assert.Equal(t, row.want, events[1].Limit, name)
		assert.Equal(t, events[0].Max, events[1].Max, "%s: Max is the pipeline's limit", name)
		assert.Zero(t, events[len(events)-1].Limit, name)
	}
}

// told is an Event without the times.
type told struct {
	Kind      retry.EventKind
	Task      string
	Attempt   int
	Max       int
	Rule      int
	Directive Directive
	To        string
	Limit     int
	Computed  time.Duration
	Err       error
	Delay     time.Duration
	Backoff   retry.Backoff
	Reason    retry.Reason
	Result    any
	Faults    int
}

func listen(to *[]told) func(context.Context, Event) {
	return func(_ context.Context, e Event) {
		if e.Kind == retry.RetryScheduled && e.Retry() {
			e.Reason = "" // the kind of the event implies it
		}
		*to = append(*to, told{e.Kind, e.Task, e.Attempt, e.Max, e.Rule, e.Directive, e.To, e.Limit, e.Computed, e.Err, e.Delay, e.Backoff, e.Reason, e.Outcome.Result, len(e.Faults)})
	}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cannot := func(Outcome) (bool, error) { return true, ErrNoMatch }
		var events []told
		p := Pipeline{
			Tasks: []Task{
				{Label: "fetch", Run: newScript(failure, Outcome{Result: "more"}, Outcome{Result: "end"}).run, Rules: Rules{
					{When: cannot, Do: Break},
					retrying(3, retry.Linear(time.Second)),
					{When: when("more"), Do: Jump, To: "fetch", Delay: waits(time.Minute)},
				}},
				{Label: "store", Run: newScript(failure).run},
			},
			Policy:  retry.Policy{MaxAttempts: 8},
			OnEvent: listen(&events),
		}
		require.ErrorIs(t, p.Run(t.Context(), nil), errBoom)
		assert.Equal(t, []told{
			{Kind: retry.AttemptStarted, Task: "fetch", Attempt: 1, Max: 8, Rule: -1},
			{Kind: retry.AttemptFinished, Task: "fetch", Attempt: 1, Max: 8, Rule: 1, Directive: Retry, Limit: 3, Err: errBoom, Faults: 1},
			{Kind: retry.RetryScheduled, Task: "fetch", Attempt: 1, Max: 8, Rule: 1, Directive: Retry, Limit: 3, Err: errBoom, Delay: time.Second, Backoff: retry.Linear(time.Second)},
			{Kind: retry.AttemptStarted, Task: "fetch", Attempt: 2, Max: 8, Rule: -1},
			{Kind: retry.AttemptFinished, Task: "fetch", Attempt: 2, Max: 8, Rule: 2, Directive: Jump, To: "fetch", Computed: time.Minute, Result: "more", Faults: 1},
			{Kind: retry.RetryScheduled, Task: "fetch", Attempt: 2, Max: 8, Rule: 2, Directive: Jump, To: "fetch", Computed: time.Minute, Delay: time.Minute, Backoff: retry.Fixed(time.Minute)},
			{Kind: retry.CallFinished, Task: "fetch", Attempt: 2, Max: 8, Rule: 2, Directive: Jump, To: "fetch", Computed: time.Minute, Reason: retry.ReasonSuccess},
			{Kind: retry.AttemptStarted, Task: "fetch", Attempt: 1, Max: 8, Rule: -1},
			{Kind: retry.AttemptFinished, Task: "fetch", Attempt: 1, Max: 8, Rule: -1, Directive: Continue, Result: "end", Faults: 1},
			{Kind: retry.CallFinished, Task: "fetch", Attempt: 1, Max: 8, Rule: -1, Directive: Continue, Reason: retry.ReasonSuccess},
			{Kind: retry.AttemptStarted, Task: "store", Attempt: 1, Max: 8, Rule: -1},
			{Kind: retry.AttemptFinished, Task: "store", Attempt: 1, Max: 8, Rule: -1, Directive: Fail, Err: errBoom},
			{Kind: retry.CallFinished, Task: "store", Attempt: 1, Max: 8, Rule: -1, Directive: Fail, Err: errBoom, Reason: retry.ReasonNonRetryable},
		}, events)
	})
}

// A Wait that skips time moves the clock of the pipeline. The events, the end and the deadline
// of the context are the same as in a pipeline that sleeps.
func TestWaitThatSkips(t *testing.T) {
	more := Outcome{Result: true}
	run := func(timeout time.Duration, policy retry.Policy) (events []any, text string) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			p := Pipeline{Policy: policy, Tasks: []Task{{Label: "poll", Run: newScript(failure, more, failure, more, failure, success).run, Rules: Rules{
				retrying(3, retry.Linear(time.Minute)), {When: when(true), Do: Jump, To: "poll", Delay: waits(10 * time.Second)},
			}}}}
			p.OnEvent = func(_ context.Context, e Event) {
				events = append(events, e.Kind, e.Elapsed, e.Reason, e.Time.Round(0), e.Due.Round(0))
			}
			text = fmt.Sprint(p.Run(ctx, nil))
		})
		return events, text
	}
	for _, timeout := range []time.Duration{time.Hour, 65 * time.Second, 70 * time.Second, 140 * time.Second} {
		slept, said := run(timeout, retry.Policy{})
		skipped, same := run(timeout, retrytest.NoWait(retry.Policy{}))
		assert.Equal(t, slept, skipped, timeout)
		assert.Equal(t, said, same)
	}
}

// Wait of the policy waits before a jump, as it does before a retry. It gets the rest of the delay,
// and is not called without a delay. If the wait fails, the task ends. The returned error says why
// the wait failed, and contains the error of the task.
func TestWaitBeforeAJump(t *testing.T) {
	errLink, errCause := errors.New("no link"), errors.New("shutting down")
	marked := Outcome{Err: retry.Permanent(retry.After(time.Hour, errBoom))} // Permanent and After have no effect on a jump
	type key struct{}
	type waiter = func(context.Context, time.Duration) (time.Duration, error)
	returns := func(skipped time.Duration, err error) waiter {
		return func(context.Context, time.Duration) (time.Duration, error) { return skipped, err }
	}
	timeout := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	cancels := func(cause error) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(20*time.Second, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}
	}
	for _, row := range []struct {
		name   string
		delay  time.Duration
		wait   waiter
		ctx    func(context.Context) (context.Context, context.CancelFunc) // nil if the context does not end
		waited bool                                                        // Wait was called with the rest of a minute
		took   time.Duration
		reason retry.Reason
		facts  string // the facts in the error; "" if the pipeline jumps
		is     []error
	}{
		{"a timer", time.Minute, nil, nil, false, time.Minute, retry.ReasonSuccess, "", nil},
		{"Wait returns early", time.Minute, func(context.Context, time.Duration) (time.Duration, error) { time.Sleep(time.Second); return 0, nil }, nil, true, 2 * time.Second, retry.ReasonSuccess, "", nil},
		{"Wait skips more than the delay", time.Minute, returns(time.Hour, nil), nil, true, time.Minute, retry.ReasonSuccess, "", nil},
		{"Wait skips a negative time", time.Minute, returns(-time.Hour, nil), nil, true, time.Second, retry.ReasonSuccess, "", nil},
		{"OnEvent takes longer", time.Millisecond, nil, nil, false, time.Second, retry.ReasonSuccess, "", nil},
		{"no delay", 0, func(context.Context, time.Duration) (time.Duration, error) { panic("called") }, nil, false, 0, retry.ReasonSuccess, "", nil},
		{"Wait fails", time.Minute, returns(0, errLink), nil, true, time.Second, retry.ReasonWait, "the wait failed after 1 attempt (the next delay is 1m0s, no link)", []error{errLink}},
		{"Wait fails after a cancellation", time.Minute, func(context.Context, time.Duration) (time.Duration, error) {
			time.Sleep(30 * time.Second)
			return 0, errLink
		}, cancels(nil), true, 31 * time.Second, retry.ReasonCanceled, "canceled after 1 attempt (the next delay is 1m0s, context canceled)", []error{context.Canceled}},
		{"canceled with a cause", time.Hour, nil, cancels(errCause), false, 20 * time.Second, retry.ReasonCanceled,
			"canceled after 1 attempt (the next delay is 1h0m0s, context canceled: shutting down)", []error{context.Canceled, errCause}},
		{"a deadline too close", time.Hour, nil, timeout(time.Minute + time.Microsecond), false, 0, retry.ReasonDeadline,
			"deadline exceeded after 1 attempt (the next delay is 1h0m0s, the context's deadline is too close: 1m0s are left)", []error{context.DeadlineExceeded}},
		{"a deadline that has passed", time.Hour, nil, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return late{ctx, time.Now().Add(-time.Minute)}, func() {}
		}, false, 0, retry.ReasonDeadline, "deadline exceeded after 1 attempt (the next delay is 1h0m0s, the context's deadline is too close: 0s are left)", []error{context.DeadlineExceeded}},
		{"a deadline in the wait", time.Hour, nil, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errCause)
			return silent{ctx}, cancel
		}, false, time.Minute, retry.ReasonDeadline, "deadline exceeded after 1 attempt (the next delay is 1h0m0s, context deadline exceeded: shutting down)", []error{context.DeadlineExceeded, errCause}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.WithValue(t.Context(), key{}, "caller")
				if row.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = row.ctx(ctx)
					defer cancel()
				}
				next := newScript(success)
				p := Pipeline{Tasks: []Task{
					{Label: "t", Run: newScript(marked).run, Rules: Rules{{Do: Jump, To: "next", Delay: waits(row.delay)}}},
					{Label: "next", Run: next.run},
				}}
				waited := false
				if row.wait != nil {
					p.Policy.Wait = func(ctx context.Context, d time.Duration) (time.Duration, error) {
						assert.Equal(t, "caller", ctx.Value(key{}))
						assert.Equal(t, 59*time.Second, d)
						waited = true
						return row.wait(ctx, d)
					}
				}
				var stopped Event
				scheduled := false
				p.OnEvent = func(_ context.Context, e Event) {
					switch {
					case e.Kind == retry.RetryScheduled:
						scheduled = true
						assert.Equal(t, []any{e.Delay, e.Delay, e.Delay, uint64(0)}, []any{row.delay, e.Lo, e.Hi, e.Seed})
						assert.Equal(t, e.Time.Add(e.Delay), e.Due)
						time.Sleep(time.Second)
					case e.Kind == retry.CallFinished && e.Task == "t":
						stopped = e
					}
				}
				began := time.Now()
				err := p.Run(ctx, nil)
				assert.Equal(t, row.waited, waited)
				assert.Equal(t, row.took > 0, scheduled)
				assert.Equal(t, row.reason, stopped.Reason)
				assert.Equal(t, row.facts != "", stopped.Err != nil)
				assert.Equal(t, row.took, stopped.Elapsed)
				assert.Equal(t, row.took, stopped.Time.Sub(began))
				if row.facts == "" {
					assert.NoError(t, err)
					assert.Len(t, next.began, 1)
				} else {
					assert.EqualError(t, err, `retryflow: task "t": retry: `+row.facts+`: waiting for task "next": boom`)
					assert.Equal(t, row.reason, retry.ReasonOf(err))
					for _, target := range append(row.is, errBoom, stopped.Cause) {
						assert.ErrorIs(t, err, target)
					}
					assert.Empty(t, next.began)
				}
			})
		})
	}
}

// late is a context that has a deadline but never ends.
type late struct {
	context.Context
	at time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.at, true }

// silent is a context that ends but has no deadline to read.
type silent struct{ context.Context }

func (silent) Deadline() (time.Time, bool) { return time.Time{}, false }

func TestEventAsJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	finished := Event{
		Event: retry.Event{Kind: retry.AttemptFinished, Time: at, Attempt: 1, Max: 3, Err: errBoom, Took: time.Second, Decision: retry.Decision{Number: 1}},
		Task:  "fetch", Rule: 0, Directive: Retry, Limit: 2, Faults: []error{errors.New("cannot tell")},
	}
	stopped := Event{
		Event: retry.Event{Kind: retry.CallFinished, Time: at, Attempt: 1, Max: 3, Decision: retry.Decision{Reason: retry.ReasonSuccess, Number: 1}},
		Task:  "fetch", Rule: 2, Directive: Jump, To: "store", Computed: time.Minute,
	}
	started := Event{Event: retry.Event{Kind: retry.AttemptStarted, Time: at, Attempt: 1, Max: 3, Decision: retry.Decision{Number: 1}}, Task: "fetch", Rule: -1}
	for want, e := range map[string]Event{
		`{"kind":"attempt_finished","time":"2026-11-20T10:00:00Z","attempt":1,"max":3,"err":"boom","took":"1s","task":"fetch","rule":0,"directive":"retry","limit":2,"faults":["cannot tell"]}`: finished,
		`{"kind":"attempt_started","time":"2026-11-20T10:00:00Z","attempt":1,"max":3,"task":"fetch","rule":-1}`:                                                                                 started,
		`{"kind":"call_finished","time":"2026-11-20T10:00:00Z","attempt":1,"max":3,"reason":"success","task":"fetch","rule":2,"directive":"jump","to":"store","computed":"1m0s"}`:               stopped,
	} {
		got, err := json.Marshal(e)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
		var back Event
		require.NoError(t, json.Unmarshal(got, &back))
		assert.Equal(t, e, back)
	}

	var e Event
	require.NoError(t, json.Unmarshal([]byte(`{"kind":"call_finished"}`), &e))
	assert.Equal(t, -1, e.Rule, "Rule is -1 if the key is missing, not 0, the first rule")
	assert.EqualError(t, json.Unmarshal([]byte(`{"kind":"call_finished","computed":"1"}`), &e), `retryflow: event: computed is "1": write a duration, such as "200ms"`)
}
