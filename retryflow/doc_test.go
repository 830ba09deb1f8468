package retryflow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	. "github.com/goretry/retry/retryflow"
)

var errBoom = errors.New("boom")

// failing matches every error.
var failing = IfErr(func(error) bool { return true })

// when returns a When that compares the result.
func when(result any) func(Outcome) (bool, error) {
	return func(o Outcome) (bool, error) { return o.Result == result, nil }
}

// waits returns a Delay that always returns d.
func waits(d time.Duration) func(Outcome) (time.Duration, error) {
	return func(Outcome) (time.Duration, error) { return d, nil }
}

// A script is a Run that returns one outcome after another, and repeats the last outcome. It
// records the time of each call.
type script struct {
	outcomes []Outcome
	began    []time.Duration // when each call began, since the script was made
	birth    time.Time
}

func newScript(outcomes ...Outcome) *script { return &script{outcomes: outcomes, birth: time.Now()} }

func (s *script) run(context.Context, State) Outcome {
	s.began = append(s.began, time.Since(s.birth))
	return s.outcomes[min(len(s.began), len(s.outcomes))-1]
}

var (
	success = Outcome{Result: "fine"}
	failure = Outcome{Err: errBoom}
)

// retrying returns a rule that retries every error.
func retrying(attempts int, b retry.Backoff) Rule {
	return Rule{When: failing, Do: Retry, Policy: retry.Policy{MaxAttempts: attempts, Backoff: b}}
}

// Each row runs one task with rules. It checks when the attempts began, whether the pipeline goes
// on to the next task, and the error. The rows with the same sentence, which is from the
// documentation of Pipeline, together check it.
func TestRulesOfOneTask(t *testing.T) {
	const s = time.Second
	errOwn, last := errors.New("no such header"), errors.New("last")
	asks := func(d time.Duration) Outcome { return Outcome{Result: d, Err: errBoom} }
	a, b, pending := Outcome{Result: "a", Err: errBoom}, Outcome{Result: "b", Err: errBoom}, Outcome{Result: "pending"}
	spent := &retry.Budget{Size: 1}
	require.True(t, spent.Take())

	never := Rule{When: func(Outcome) (bool, error) { panic("no later rule is tried") }, Do: Continue}
	other := Rule{When: when("other"), Do: Continue}
	twice, second := retrying(2, retry.Fixed(s)), retrying(3, retry.Fixed(s))
	asked := retrying(9, retry.Exponential{Base: time.Hour, Factor: 3})
	asked.Delay = func(o Outcome) (time.Duration, error) { return o.Result.(time.Duration), nil }
	limited := func(n int, err error) Rule {
		return Rule{Do: Retry, Policy: retry.Policy{MaxRetries: 7}, Attempts: func(Outcome) (int, error) { return n, err }}
	}
	again := retry.Policy{MaxAttempts: 9}
	delays := Rule{Do: Retry, Policy: again, Delay: func(Outcome) (time.Duration, error) { return time.Hour, errOwn }}
	delays.Set = func(State, Outcome) error { panic("nothing is set if the delay fails") }
	sets := Rule{Do: Retry, Policy: again, Set: func(State, Outcome) error { return errOwn }}
	const noMatch = "If no rule matches, the pipeline continues after a success and fails after an error."
	const orElse = "A rule without a When always matches, like an else."
	const bounds = "No rule can retry a [retry.Permanent] error, retry earlier than a server asks for, or exceed the limits of Pipeline.Policy."
	const fails = "If Attempts, Delay or Set returns an error, the task fails with this error and the error of the outcome."

	for _, row := range []struct {
		sentence, name string
		policy         retry.Policy
		outcomes       []Outcome
		rules          Rules
		began          []time.Duration // nil means one attempt, at once
		on             bool
		err            string // without the name of the task; "": no error
		is             error
	}{
		{"The rules of a task share one count of attempts.", "", retry.Policy{}, []Outcome{a, a, b, b}, Rules{
			{When: when("a"), Do: Retry, Policy: retry.Policy{MaxAttempts: 10, Backoff: retry.Linear(s)}},
			{When: when("b"), Do: Retry, Policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Linear(9 * s)}},
		}, []time.Duration{0, s, 3 * s, 30 * s}, false, "attempts exhausted after 4 attempts (30s waited): boom", errBoom},
		{"After each attempt the rules are tried in order, and the first rule that matches decides.", "", retry.Policy{}, []Outcome{failure},
			Rules{{When: when("other"), Do: Retry, Policy: again}, {When: failing, Do: Break}, never}, nil, false, "", nil},
		{orElse, "a success", retry.Policy{}, []Outcome{success}, Rules{other, {Do: Break}}, nil, false, "", nil},
		{orElse, "an error", retry.Policy{}, []Outcome{failure}, Rules{other, {Do: Break}}, nil, false, "", nil},
		{orElse, "an empty outcome", retry.Policy{}, []Outcome{{}}, Rules{other, {Do: Break}}, nil, false, "", nil},
		{noMatch, "no rules, a success", retry.Policy{}, []Outcome{success}, nil, nil, true, "", nil},
		{noMatch, "no rules, an error", retry.Policy{}, []Outcome{failure}, Rules{}, nil, false,
			"not retryable after 1 attempt: boom", errBoom},
		{noMatch, "no rule matches, a success", retry.Policy{}, []Outcome{success},
			Rules{{When: when("other"), Do: Break}}, nil, true, "", nil},
		{noMatch, "no rule matches, an error", retry.Policy{}, []Outcome{failure}, Rules{other}, nil, false,
			"not retryable after 1 attempt: boom", errBoom},
		{"Delay computes the wait from the outcome.", "Delay replaces only the base of the curve", retry.Policy{}, []Outcome{asks(7 * s), asks(2 * s), asks(-s), success},
			Rules{asked}, []time.Duration{0, 7 * s, 13 * s, 13 * s}, true, "", nil},
		{"Attempts computes the limit of a Retry from the outcome.", "three", retry.Policy{}, []Outcome{failure}, Rules{limited(3, nil)},
			[]time.Duration{0, 0, 0}, false, "attempts exhausted after 3 attempts: boom", errBoom},
		{"Attempts computes the limit of a Retry from the outcome.", "none", retry.Policy{}, []Outcome{failure}, Rules{limited(0, nil)}, nil, false,
			"not retryable after 1 attempt: rule 0: attempts: got 0, want 1 or more: boom", errBoom},
		{fails, "Attempts, an error", retry.Policy{}, []Outcome{failure}, Rules{limited(9, errOwn)}, nil, false,
			"not retryable after 1 attempt: rule 0: attempts: no such header: boom", errBoom},
		{fails, "Attempts, a success", retry.Policy{}, []Outcome{success}, Rules{limited(9, errOwn)}, nil, false,
			"not retryable after 1 attempt: rule 0: attempts: no such header", errOwn},
		{fails, "Delay, an error", retry.Policy{}, []Outcome{failure}, Rules{delays}, nil, false, "not retryable after 1 attempt: rule 0: delay: no such header: boom", errBoom},
		{fails, "Delay, a success", retry.Policy{}, []Outcome{success}, Rules{delays}, nil, false, "not retryable after 1 attempt: rule 0: delay: no such header", errOwn},
		{fails, "Set, an error", retry.Policy{}, []Outcome{failure}, Rules{sets}, nil, false, "not retryable after 1 attempt: rule 0: set: no such header: boom", errBoom},
		{fails, "Set, a success", retry.Policy{}, []Outcome{success}, Rules{sets}, nil, false, "not retryable after 1 attempt: rule 0: set: no such header", errOwn},
		{"Continue goes on to the next task, even after an error.", "a success", retry.Policy{}, []Outcome{success}, Rules{{Do: Continue}}, nil, true, "", nil},
		{"Continue goes on to the next task, even after an error.", "an error", retry.Policy{}, []Outcome{failure}, Rules{{Do: Continue}}, nil, true, "", nil},
		{"Retry runs the task again according to the Policy of the rule, even after a success.", "", retry.Policy{}, []Outcome{failure, pending, pending, success}, Rules{
			retrying(9, retry.Fixed(s)),
			{When: when("pending"), Do: Retry, Policy: retry.Policy{MaxAttempts: 9, Backoff: retry.Exponential{Base: 10 * s}, MaxDelay: 30 * s}},
		}, []time.Duration{0, s, 21 * s, 51 * s}, true, "", nil},
		{"If a rule has no attempts left, the task fails with the last error, and no later rule is tried.", "an error", retry.Policy{},
			[]Outcome{failure, {Err: last}}, Rules{twice, never}, []time.Duration{0, s}, false, "attempts exhausted after 2 attempts (1s waited): last", last},
		{"If a rule has no attempts left, the task fails with the last error, and no later rule is tried.", "a success", retry.Policy{},
			[]Outcome{success}, Rules{{Do: Retry, Policy: retry.Policy{MaxRetries: 2}}}, []time.Duration{0, 0, 0}, false,
			"attempts exhausted after 3 attempts: the rules ask to retry a successful outcome", nil},
		{bounds, "Permanent", retry.Policy{}, []Outcome{{Err: retry.Permanent(errBoom)}}, Rules{second}, nil, false, "permanent error after 1 attempt: boom", errBoom},
		{bounds, "Retry-After", retry.Policy{}, []Outcome{{Err: retry.After(50*s, errBoom)}}, Rules{second}, []time.Duration{0, 50 * s, 100 * s}, false,
			"attempts exhausted after 3 attempts (1m40s waited): boom", errBoom},
		{bounds, "a Retry-After that is too long", retry.Policy{}, []Outcome{{Err: retry.After(time.Hour, errBoom)}}, Rules{second}, nil, false,
			"gave up after 1 attempt (Retry-After is 1h0m0s, MaxRetryAfter is 1m0s): boom", errBoom},
		{bounds, "MaxAttempts", retry.Policy{MaxAttempts: 2}, []Outcome{failure}, Rules{second}, []time.Duration{0, s}, false,
			"attempts exhausted after 2 attempts (1s waited): boom", errBoom},
		{bounds, "MaxRetries", retry.Policy{MaxRetries: 1}, []Outcome{failure}, Rules{second}, []time.Duration{0, s}, false,
			"attempts exhausted after 2 attempts (1s waited): boom", errBoom},
		{bounds, "AttemptCap", retry.Policy{AttemptCap: 2}, []Outcome{failure}, Rules{second}, []time.Duration{0, s}, false,
			"attempts exhausted after 2 attempts (1s waited): boom", errBoom},
		{bounds, "NonRetryable", retry.Policy{NonRetryable: true}, []Outcome{failure}, Rules{second}, nil, false, "not retryable after 1 attempt: boom", errBoom},
		{bounds, "MaxElapsed", retry.Policy{MaxElapsed: 3 * s / 2}, []Outcome{failure}, Rules{second}, []time.Duration{0, s}, false,
			"out of time after 2 attempts (1s waited, the next delay of 1s would exceed MaxElapsed 1.5s): boom", errBoom},
		{bounds, "Budget", retry.Policy{Budget: spent}, []Outcome{failure}, Rules{second}, nil, false,
			"retry budget exhausted after 1 attempt (a retry would have waited 1s): boom", errBoom},
		{bounds, "a bound above the limit of the rule", retry.Policy{MaxAttempts: 100}, []Outcome{failure}, Rules{second}, []time.Duration{0, s, 2 * s}, false,
			"attempts exhausted after 3 attempts (2s waited): boom", errBoom},
		{"Break ends the pipeline without an error and skips the remaining tasks.", "a success", retry.Policy{}, []Outcome{success}, Rules{{Do: Break}}, nil, false, "", nil},
		{"Break ends the pipeline without an error and skips the remaining tasks.", "an error", retry.Policy{}, []Outcome{failure}, Rules{{Do: Break}}, nil, false, "", nil},
		{"Fail ends the pipeline with the error of the outcome.", "an error", retry.Policy{}, []Outcome{failure}, Rules{{Do: Fail}}, nil, false,
			"not retryable after 1 attempt: boom", errBoom},
		{"Fail ends the pipeline with the error of the outcome.", "a success", retry.Policy{}, []Outcome{success}, Rules{{Do: Fail}}, nil, false,
			"not retryable after 1 attempt: rule 0 says fail for a successful outcome", nil},
	} {
		t.Run(row.sentence+"/"+row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				task, next := newScript(row.outcomes...), newScript(success)
				p := Pipeline{Policy: row.policy, Tasks: []Task{{Label: "t", Run: task.run, Rules: row.rules}, {Label: "next", Run: next.run}}}
				err := p.Run(t.Context(), nil)
				if row.began == nil {
					row.began = []time.Duration{0}
				}
				assert.Equal(t, row.began, task.began)
				assert.Equal(t, row.on, len(next.began) > 0)
				if row.err == "" {
					assert.NoError(t, err)
					return
				}
				assert.EqualError(t, err, `retryflow: task "t": retry: `+row.err)
				if row.is != nil {
					assert.ErrorIs(t, err, row.is)
				}
				assert.Equal(t, strings.Contains(row.err, "no such header"), errors.Is(err, errOwn))
			})
		})
	}
}

// rules are the other sentences of the documentation of Pipeline. Each sentence has a test.
// Each test runs in its own synctest bubble.
var rules = []struct {
	sentence string
	test     func(*testing.T)
}{
	{"If the pipeline is invalid, Run runs no task and returns every fault.", func(t *testing.T) {
		task := newScript(success)
		p := Pipeline{MaxJumps: -1, Tasks: []Task{{Label: "a", Run: task.run, Rules: Rules{{Do: Jump, To: "nosuch"}}}}}
		err := p.Run(t.Context(), nil)
		assert.EqualError(t, err, `retryflow: invalid pipeline: MaxJumps is -1: write how many, or 0 for 10,000; task "a": rule 0: To is "nosuch": no task has that Label`)
		assert.Empty(t, task.began)
	}},
	{"Tasks run in order. Each task gets the state that the task before it left.", func(t *testing.T) {
		var order []string
		step := func(name string) Task {
			return Task{Label: name, Run: func(_ context.Context, s State) Outcome {
				text, _ := s["order"].(string)
				s["order"] = text + name
				order = append(order, name)
				return success
			}}
		}
		state := State{}
		require.NoError(t, Pipeline{Tasks: []Task{step("a"), step("b"), step("c")}}.Run(t.Context(), state))
		assert.Equal(t, []string{"a", "b", "c"}, order)
		assert.Equal(t, State{"order": "abc"}, state)
	}},
	{"If a When returns an error, the task fails with this error and the error of the outcome. No later rule is tried.", func(t *testing.T) {
		errWhen := errors.New("cannot tell")
		for _, later := range []Rule{{Do: Continue}, {Do: Break}, {Do: Jump, To: "t"}, retrying(9, nil)} {
			for want, o := range map[string]Outcome{": boom": failure, "": success} {
				var events []Event
				task := newScript(o)
				p := Pipeline{
					Tasks: []Task{{Label: "t", Run: task.run, Rules: Rules{
						{When: when("other"), Do: Break},
						{When: func(Outcome) (bool, error) { return true, errWhen }, Do: Continue, Set: func(State, Outcome) error { panic("it does not match") }},
						later,
					}}},
					OnEvent: func(_ context.Context, e Event) { events = append(events, e) },
				}
				err := p.Run(t.Context(), nil)
				assert.EqualError(t, err, `retryflow: task "t": retry: not retryable after 1 attempt: rule 1: when: cannot tell`+want)
				assert.ErrorIs(t, err, errWhen)
				assert.Equal(t, o.Err != nil, errors.Is(err, errBoom))
				assert.Equal(t, []time.Duration{0}, task.began)
				require.Len(t, events, 3)
				for _, e := range events[1:] {
					assert.Equal(t, Fail, e.Directive)
					assert.Equal(t, -1, e.Rule)
					assert.ErrorIs(t, e.Err, errWhen)
					assert.Empty(t, e.Faults)
				}
			}
		}
	}},
	{"If the error of a When is ErrNoMatch, the task does not fail: the rule just does not match. The event contains this error. If the task fails for another reason, the text of its error contains this error too.", func(t *testing.T) {
		errWhen := retry.Permanent(fmt.Errorf("no\nkey: %w", ErrNoMatch))
		var faults []error
		p := Pipeline{
			Tasks: []Task{{Label: "t", Run: newScript(failure).run, Rules: Rules{
				{When: func(Outcome) (bool, error) { return true, errWhen }, Do: Retry, Policy: retry.Policy{MaxAttempts: 9}},
				{When: failing, Do: Fail},
			}}},
			OnEvent: func(_ context.Context, e Event) { faults = append(faults, e.Faults...) },
		}
		err := p.Run(t.Context(), nil)
		assert.EqualError(t, err, `retryflow: task "t": retry: not retryable after 1 attempt: boom; rule 0: when: no; key: the rule does not match`, "on one line")
		require.Len(t, faults, 1)
		assert.ErrorIs(t, faults[0], errWhen)
		assert.NotErrorIs(t, err, errWhen, "the error of a When is not the task's error")
	}},
	{"Set changes the state before the directive takes effect.", func(t *testing.T) {
		set := func(s State, o Outcome) error { s["set"] = o.Attempt; return nil }
		for _, do := range []Directive{Continue, Retry, Jump, Break, Fail} {
			var seen []any
			run := func(_ context.Context, s State) Outcome {
				seen = append(seen, s["set"])
				return Outcome{Result: len(seen)}
			}
			rule := Rule{When: when(1), Do: do, Set: set}
			switch do {
			case Retry:
				rule.Policy.MaxAttempts = 2
			case Jump:
				rule.To = "second"
			}
			state := State{}
			p := Pipeline{Tasks: []Task{{Label: "first", Run: run, Rules: Rules{rule}}, {Label: "second", Run: run}}}
			err := p.Run(t.Context(), state)
			assert.Equal(t, do == Fail, err != nil, do)
			assert.Equal(t, State{"set": 1}, state, do)
			assert.Nil(t, seen[0])
			for _, s := range seen[1:] {
				assert.Equal(t, 1, s, do)
			}
		}
	}},
	{"Jump goes on to the task with the label To. Each time a task is entered, its attempts are counted from 1.", func(t *testing.T) {
		attempts := []int{}
		fetch := func(_ context.Context, s State) Outcome {
			n, _ := s["runs"].(int)
			s["runs"] = n + 1
			if n%3 < 2 {
				return failure
			}
			return Outcome{Result: n < 8}
		}
		store := newScript(success)
		again := retrying(3, retry.Exponential{Base: time.Second})
		p := Pipeline{
			Tasks: []Task{
				{Label: "fetch", Run: fetch, Rules: Rules{again, {When: when(true), Do: Jump, To: "fetch", Delay: waits(10 * time.Second)}}},
				{Label: "skipped", Run: newScript(success).run, Rules: Rules{{Do: Jump, To: "store"}}},
				{Label: "never", Run: newScript(failure).run},
				{Label: "store", Run: store.run},
			},
			OnEvent: func(_ context.Context, e Event) {
				if e.Kind == retry.AttemptFinished && e.Task == "fetch" {
					attempts = append(attempts, e.Attempt)
					assert.Equal(t, e.Attempt, e.Outcome.Attempt)
				}
			},
		}
		require.NoError(t, p.Run(t.Context(), nil))
		assert.Equal(t, []int{1, 2, 3, 1, 2, 3, 1, 2, 3}, attempts)
		assert.Equal(t, []time.Duration{29 * time.Second}, store.began, "3 times 1s + 2s, and 2 jumps")
	}},
	{"A jump is not a retry and takes nothing from a Budget.", func(t *testing.T) {
		poll, own := newScript(Outcome{Result: "pending"}, Outcome{Result: "pending"}, success), &retry.Budget{Size: 1}
		ask := func(ctx context.Context, s State) Outcome {
			err := retry.Do(ctx, retry.Policy{MaxAttempts: 2}, func(context.Context) error { return errBoom })
			assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err), "a call in a task takes from the Budget of the context")
			return poll.run(ctx, s)
		}
		none := retry.WithBudget(t.Context(), &retry.Budget{Size: 0})
		p := Pipeline{Policy: retry.Policy{Budget: own}, Tasks: []Task{{Label: "poll", Run: ask, Rules: Rules{{When: when("pending"), Do: Jump, To: "poll", Delay: waits(time.Second)}}}}}
		require.NoError(t, p.Run(none, nil))
		assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, poll.began)
		assert.Equal(t, 1, own.Left())

		p = Pipeline{Tasks: []Task{{Label: "t", Run: newScript(failure).run, Rules: Rules{retrying(2, nil)}}}}
		assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(p.Run(none, nil)), "a Retry takes from the Budget of the context")
	}},
	{"If a jump exceeds MaxJumps, the task that jumps fails without a wait.", func(t *testing.T) {
		poll, scheduled := newScript(Outcome{Result: "pending", Err: errBoom}), 0
		tasks := []Task{{Label: "poll", Run: poll.run, Rules: Rules{{When: when("pending"), Do: Jump, To: "poll", Delay: waits(5 * time.Second)}}}}
		err := Pipeline{Tasks: tasks, MaxJumps: 10, OnEvent: func(_ context.Context, e Event) {
			if e.Kind == retry.RetryScheduled {
				scheduled++
			}
		}}.Run(t.Context(), nil)
		assert.EqualError(t, err, `retryflow: task "poll": the jump to "poll" exceeds MaxJumps (10): boom`)
		assert.ErrorIs(t, err, errBoom)
		assert.Zero(t, retry.ReasonOf(err))
		assert.Equal(t, 10, scheduled)
		assert.Len(t, poll.began, 11)
		assert.Equal(t, 50*time.Second, time.Since(poll.birth))

		err = Pipeline{Tasks: tasks}.Run(t.Context(), nil)
		assert.ErrorContains(t, err, "MaxJumps (10000)")
		assert.Len(t, poll.began, 11+10_001)
	}},
	{"A pipeline ends when its context is done, also during the wait for a retry or a jump.", func(t *testing.T) {
		errCause := errors.New("shutting down")
		long := Rule{Do: Retry, Policy: retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(time.Hour)}}
		for name, row := range map[string]struct {
			run  func(context.Context, State) Outcome
			rule Rule
			want string
		}{
			"in a task": {func(ctx context.Context, _ State) Outcome { <-ctx.Done(); return Outcome{Err: ctx.Err()} }, retrying(9, nil),
				`retryflow: task "t": retry: canceled after 1 attempt (context canceled: shutting down): context canceled`},
			"in a task that ignores its context": {func(ctx context.Context, _ State) Outcome { <-ctx.Done(); return success }, Rule{Do: Continue},
				`retryflow: task "next": retry: canceled before the first attempt (context canceled: shutting down)`},
			"in the wait for a retry": {func(context.Context, State) Outcome { return failure }, long,
				`retryflow: task "t": retry: canceled after 1 attempt (the next delay is 1h0m0s, context canceled: shutting down): boom`},
			"in the wait for a jump": {func(context.Context, State) Outcome { return success }, Rule{Do: Jump, To: "next", Delay: waits(time.Hour)},
				`retryflow: task "t": retry: canceled after 1 attempt (the next delay is 1h0m0s, context canceled: shutting down): waiting for task "next"`},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			began := time.Now()
			time.AfterFunc(time.Minute, func() { cancel(errCause) })
			tasks := []Task{{Label: "t", Run: row.run, Rules: Rules{row.rule}}, {Label: "next", Run: newScript(failure).run}}
			err := Pipeline{Tasks: tasks}.Run(ctx, nil)
			assert.EqualError(t, err, row.want, name)
			assert.ErrorIs(t, err, errCause, name)
			assert.ErrorIs(t, err, context.Canceled, name)
			assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err), name)
			assert.Equal(t, time.Minute, time.Since(began), name)
		}

		task := newScript(success)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, Pipeline{Tasks: []Task{{Label: "t", Run: task.run}}}.Run(ctx, nil), context.Canceled)
		assert.Empty(t, task.began, "ended before the first task")
	}},
	{"A panic in one of your functions is not recovered.", func(t *testing.T) {
		run := newScript(failure).run
		for name, p := range map[string]Pipeline{
			"Run":     {Tasks: []Task{{Label: "t", Run: func(context.Context, State) Outcome { panic(name("Run")) }}}},
			"When":    {Tasks: []Task{{Label: "t", Run: run, Rules: Rules{{When: func(Outcome) (bool, error) { panic(name("When")) }, Do: Break}}}}},
			"Delay":   {Tasks: []Task{{Label: "t", Run: run, Rules: Rules{{Do: Jump, To: "t", Delay: func(Outcome) (time.Duration, error) { panic(name("Delay")) }}}}}},
			"Set":     {Tasks: []Task{{Label: "t", Run: run, Rules: Rules{{Do: Break, Set: func(State, Outcome) error { panic(name("Set")) }}}}}},
			"OnEvent": {Tasks: []Task{{Label: "t", Run: run}}, OnEvent: func(context.Context, Event) { panic(name("OnEvent")) }},
		} {
			assert.PanicsWithValue(t, "panic in "+name, func() { _ = p.Run(t.Context(), nil) })
		}
	}},
}

func name(function string) string { return "panic in " + function }

func TestRules(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule.sentence, func(t *testing.T) { synctest.Test(t, rule.test) })
	}
}
