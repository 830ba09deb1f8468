// Package calltest has the table test that every adapter for remote calls passes,
// each against its own kind of server.
package calltest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

// An Answer says what the server does with one attempt.
type Answer struct {
	Kind Kind
	Wait time.Duration // the wait that the server asks for, if Kind is Busy
}

// A Kind is the kind of an Answer.
type Kind int

const (
	OK        Kind = iota // the call succeeds
	Down                  // the call fails, and a retry may succeed
	Busy                  // like Down, and the server asks for a wait
	Forbidden             // the call fails permanently
	Hang                  // the server does not answer until the attempt is canceled
)

// A Call makes one call with a policy and returns its error. The server gives the
// answers in order and repeats the last one. served is the number of attempts
// that reached it.
type Call func(ctx context.Context, p retry.Policy, answers []Answer) (served int, err error)

var (
	ok        = Answer{Kind: OK}
	down      = Answer{Kind: Down}
	forbidden = Answer{Kind: Forbidden}
	hang      = Answer{Kind: Hang}
)

func busy(wait time.Duration) Answer { return Answer{Busy, wait} }

// soon is a policy with very short delays.
var soon = retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Millisecond}, MaxDelay: 3 * time.Millisecond, Jitter: retry.Proportional(0.2)}

// attemptTimeout is long enough that an answered attempt stays below it, even on
// a busy machine.
const attemptTimeout = time.Second

// A row has what an adapter can get wrong. What a policy decides from the errors that it is
// given, the tests of the root package say.
type row struct {
	name     string
	answers  []Answer
	policy   func(*retry.Policy)
	context  func(context.Context) (context.Context, context.CancelFunc)
	attempts int
	reason   retry.Reason
	check    func(result) bool // of the error and the events; nil: nothing more
}

type result struct {
	err    error
	failed *retry.Error // err as a *retry.Error; nil if the call succeeded
	events []retry.Event
	policy retry.Policy
}

func rows() []row {
	waitHours := func(p *retry.Policy) { p.Backoff, p.MaxDelay, p.Jitter = retry.Fixed(2*time.Hour), 0, nil }
	return []row{
		{name: "succeeds", answers: []Answer{ok}, attempts: 1, reason: retry.ReasonSuccess},
		{name: "fails then succeeds", answers: []Answer{down, down, ok}, attempts: 3, reason: retry.ReasonSuccess},
		{name: "exhausted", answers: []Answer{down}, attempts: 4, reason: retry.ReasonExhausted},
		{name: "invalid policy", answers: []Answer{down}, attempts: 1, reason: retry.ReasonInvalid,
			policy: func(p *retry.Policy) { p.MaxAttempts = -2 }}, //retry:vet-ignore policyliteral what this row tests
		{name: "permanent", answers: []Answer{forbidden}, attempts: 1, reason: retry.ReasonPermanent},
		{name: "fails, then permanent", answers: []Answer{down, forbidden}, attempts: 2, reason: retry.ReasonPermanent},
		{name: "RetryIf says no", answers: []Answer{down}, attempts: 1, reason: retry.ReasonRejected,
			policy: func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }},
		{name: "Retry-After within the bound", answers: []Answer{busy(20 * time.Millisecond), ok}, attempts: 2, reason: retry.ReasonSuccess,
			check: func(r result) bool {
				retried := r.events[slices.Index(r.kinds(), retry.RetryScheduled)]
				return retried.RetryAfter == 20*time.Millisecond && retried.Delay >= retried.RetryAfter && retried.Delay <= 23*time.Millisecond
			}},
		{name: "Retry-After beyond the bound", answers: []Answer{busy(20 * time.Millisecond)}, attempts: 1, reason: retry.ReasonRetryAfter,
			policy: func(p *retry.Policy) { p.MaxRetryAfter = 19 * time.Millisecond },
			check:  func(r result) bool { return r.failed.Delay == 20*time.Millisecond }},
		{name: "deadline too close", answers: []Answer{down}, attempts: 1, reason: retry.ReasonDeadline, policy: waitHours,
			context: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Hour)
			},
			check: func(r result) bool {
				return r.failed.Delay == 2*time.Hour && r.failed.Waited == 0 && errors.Is(r.err, context.DeadlineExceeded)
			}},
		{name: "canceled before", answers: []Answer{ok}, attempts: 0, reason: retry.ReasonCanceled,
			context: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return ctx, cancel
			}},
		{name: "canceled in a wait", answers: []Answer{down}, attempts: 1, reason: retry.ReasonCanceled, policy: waitHours, context: cancelByEvent,
			check: func(r result) bool { return errors.Is(r.err, context.Canceled) }},
		{name: "AttemptTimeout", answers: []Answer{hang, ok}, attempts: 2, reason: retry.ReasonSuccess,
			policy: func(p *retry.Policy) { p.AttemptTimeout = attemptTimeout }},
		{name: "budget of the policy", answers: []Answer{down}, attempts: 3, reason: retry.ReasonBudget,
			policy: func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} },
			check:  func(r result) bool { return r.policy.Budget.Left() == 0 }},
		{name: "a success puts into the budget", answers: []Answer{down, ok}, attempts: 2, reason: retry.ReasonSuccess,
			policy: func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 1, Ratio: 1} },
			check:  func(r result) bool { return r.policy.Budget.Left() == 1 }},
		{name: "budget of the context", answers: []Answer{down}, attempts: 2, reason: retry.ReasonBudget,
			context: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return retry.WithBudget(ctx, &retry.Budget{Size: 1}), func() {}
			}},
	}
}

type cancelKey struct{}

// cancelByEvent returns a context that row.run cancels at the first
// RetryScheduled event.
func cancelByEvent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), cancel
}

// Run runs the table. skip names the rows that do not apply to the adapter, each
// with the reason.
func Run(t *testing.T, call Call, skip map[string]string) {
	names := make(map[string]bool)
	run := func(name string, test func(t *testing.T)) {
		names[name] = true
		t.Run(name, func(t *testing.T) {
			if why := skip[name]; why != "" {
				t.Skip(why)
			}
			test(t)
		})
	}
	for _, row := range rows() {
		run(row.name, func(t *testing.T) { row.run(t, call) })
	}
	run("a loop around the call", func(t *testing.T) { loopAround(t, call) })
	for name := range skip {
		if !names[name] {
			t.Errorf("skip names an unknown row %q", name)
		}
	}
}

// loopAround makes calls in an outer retry loop. A call that the outer
// AttemptTimeout ends is not permanent, because the next call has a new context.
// A call that fails permanently ends the outer loop too.
func loopAround(t *testing.T, call Call) {
	for _, c := range []struct {
		answers []Answer // one for each call
		calls   int
		reason  retry.Reason
	}{
		{[]Answer{hang, ok}, 2, retry.ReasonSuccess},
		{[]Answer{forbidden, ok}, 1, retry.ReasonPermanent},
	} {
		outer, calls := soon, 0
		outer.AttemptTimeout = attemptTimeout
		err := retry.Do(context.Background(), outer, func(ctx context.Context) error {
			calls++
			served, err := call(ctx, soon, c.answers[calls-1:calls])
			if served != 1 {
				t.Errorf("call %d: the server has seen %d attempts, want 1", calls, served)
			}
			return err
		})
		if calls != c.calls || retry.ReasonOf(err) != c.reason {
			t.Errorf("%d calls with reason %q (%v); want %d and %q", calls, retry.ReasonOf(err), err, c.calls, c.reason)
		}
	}
}

func (row row) run(t *testing.T, call Call) {
	var r result
	r.policy = soon
	if row.policy != nil {
		row.policy(&r.policy)
	}
	recorded := r.policy
	recorded.OnEvent = func(ctx context.Context, e retry.Event) {
		r.events = append(r.events, e)
		if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok && e.Kind == retry.RetryScheduled {
			cancel()
		}
	}
	ctx := context.Background()
	if row.context != nil {
		var cancel context.CancelFunc
		ctx, cancel = row.context(ctx)
		defer cancel()
	}

	served, err := call(ctx, recorded, row.answers)
	r.err = err
	errors.As(err, &r.failed)
	last := retry.Event{}
	if len(r.events) > 0 {
		last = r.events[len(r.events)-1]
	}
	switch {
	case served != row.attempts || retry.ReasonOf(err) != row.reason:
		t.Errorf("the server has seen %d attempts with reason %q (%v); want %d and %q", served, retry.ReasonOf(err), err, row.attempts, row.reason)
	case (r.failed == nil) != (row.reason == retry.ReasonSuccess) || r.failed != nil && r.failed.Attempts != row.attempts:
		t.Errorf("the error is %v; want one that counts %d attempts", err, row.attempts)
	case !slices.Equal(r.kinds(), row.kinds()):
		t.Errorf("the events are %v, want %v", r.kinds(), row.kinds())
	case last.Reason != row.reason || last.Attempt != row.attempts:
		t.Errorf("CallFinished has the reason %q and attempt %d, want %q and %d", last.Reason, last.Attempt, row.reason, row.attempts)
	case row.check != nil && !row.check(r):
		t.Errorf("the error is %+v, and the events are %+v", r.failed, r.events)
	}
}

func (r result) kinds() (kinds []retry.EventKind) {
	for _, e := range r.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// kinds returns the kinds of the events that must come.
func (row row) kinds() (kinds []retry.EventKind) {
	for n := range row.attempts {
		if n > 0 {
			kinds = append(kinds, retry.RetryScheduled)
		}
		kinds = append(kinds, retry.AttemptStarted, retry.AttemptFinished)
	}
	if row.name == "canceled in a wait" {
		kinds = append(kinds, retry.RetryScheduled)
	}
	return append(kinds, retry.CallFinished)
}

// Budgets checks which Budget bounds the retries of a client whose every call fails, with
// each kind of its calls. start makes such a client; none is the package's NoBudgets.
func Budgets(t *testing.T, start func(retry.Policy, func(target string) *retry.Budget) func(context.Context) error, none func(string) *retry.Budget) {
	policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}
	own := policy
	own.Budget = &retry.Budget{Size: 1}
	const see = "see Interceptor.Budgets"
	for _, row := range []struct {
		name    string
		policy  retry.Policy
		budgets func(string) *retry.Budget
		lent    *retry.Budget // of the context
		retries int           // of eight calls
		reason  retry.Reason  // of the last
		hint    bool          // its error says what to set
	}{
		{"nothing is set", policy, nil, nil, 10, retry.ReasonBudget, true},
		{"NoBudgets", policy, none, nil, 24, retry.ReasonExhausted, false},
		{"one of the policy", own, nil, nil, 1, retry.ReasonBudget, false},
		{"one of Budgets", policy, func(string) *retry.Budget { return own.Budget }, nil, 0, retry.ReasonBudget, false},
		{"one of the context too", policy, nil, &retry.Budget{Size: 3}, 3, retry.ReasonBudget, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			retries := 0
			row.policy.OnEvent = func(_ context.Context, e retry.Event) {
				if e.Kind == retry.RetryScheduled {
					retries++
				}
			}
			call := start(row.policy, row.budgets)
			var err error
			for range 8 {
				err = call(retry.WithBudget(t.Context(), row.lent))
			}
			if retries != row.retries || retry.ReasonOf(err) != row.reason || strings.Contains(err.Error(), see) != row.hint {
				t.Errorf("%d retries, and the last error is %v; want %d, %s, and a hint: %t", retries, err, row.retries, row.reason, row.hint)
			}
		})
	}
	t.Run("another target", func(t *testing.T) {
		var targets []string
		each := func(target string) *retry.Budget { targets = append(targets, target); return nil }
		for range 2 {
			if err := start(policy, each)(t.Context()); retry.ReasonOf(err) != retry.ReasonExhausted {
				t.Error(err)
			}
		}
		if len(targets) != 2 || targets[0] == targets[1] || !strings.Contains(targets[0], "127.0.0.1:") {
			t.Errorf("the targets are %q; want two addresses", targets)
		}
	})
}

// Blip checks how many calls are lost under the Budget of a target that fails for 300 ms,
// as when it is restarted: after a minute of 100 calls a second, 100 calls at once lose
// nothing, and without that minute all of them. start makes a client in virtual time,
// whose server works if up says so.
func Blip(t *testing.T, start func(t *testing.T, up func() bool) func(context.Context) error) {
	for name, blip := range map[string]struct{ before, lost int }{
		"after a minute of calls": {6000, 0},
		"without a history":       {0, 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lost atomic.Int64
				var down time.Time // until then
				call := start(t, func() bool { return !time.Now().Before(down) })
				for range blip.before {
					if err := call(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Millisecond)
				}
				down = time.Now().Add(300 * time.Millisecond)
				for range 100 {
					go func() {
						if call(t.Context()) != nil {
							lost.Add(1)
						}
					}()
				}
				time.Sleep(time.Minute)
				if lost := int(lost.Load()); lost != blip.lost {
					t.Errorf("%d calls are lost, want %d", lost, blip.lost)
				}
			})
		})
	}
}
