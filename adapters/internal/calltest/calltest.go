// Package calltest has the table test that every adapter for remote calls passes,
// each against its own kind of server.
package calltest

import (
	"context"
	"errors"
	"testing"
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
	busy      = Answer{Busy, 20 * time.Millisecond}
)

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
	cancel   string // when the caller's context is canceled: "before", "in a wait"; "": never
	attempts int
	reason   retry.Reason
	wait     time.Duration // the longest Retry-After of the events
}

var rows = []row{
	{name: "succeeds", answers: []Answer{ok}, attempts: 1, reason: retry.ReasonSuccess},
	{name: "fails then succeeds", answers: []Answer{down, down, ok}, attempts: 3, reason: retry.ReasonSuccess},
	{name: "exhausted", answers: []Answer{down}, attempts: 4, reason: retry.ReasonExhausted},
	{name: "invalid policy", answers: []Answer{down}, attempts: 1, reason: retry.ReasonInvalid,
		policy: func(p *retry.Policy) { p.MaxAttempts = -2 }}, //retry:vet-ignore policyliteral what this row tests
	{name: "permanent", answers: []Answer{forbidden}, attempts: 1, reason: retry.ReasonPermanent},
	{name: "fails, then permanent", answers: []Answer{down, forbidden}, attempts: 2, reason: retry.ReasonPermanent},
	{name: "RetryIf says no", answers: []Answer{down}, attempts: 1, reason: retry.ReasonRejected,
		policy: func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }},
	{name: "Retry-After within the bound", answers: []Answer{busy, ok}, attempts: 2, reason: retry.ReasonSuccess, wait: busy.Wait},
	{name: "Retry-After beyond the bound", answers: []Answer{busy}, attempts: 1, reason: retry.ReasonRetryAfter,
		policy: func(p *retry.Policy) { p.MaxRetryAfter = busy.Wait - time.Millisecond }},
	{name: "canceled before", answers: []Answer{ok}, cancel: "before", attempts: 0, reason: retry.ReasonCanceled},
	{name: "canceled in a wait", answers: []Answer{down}, cancel: "in a wait", attempts: 1, reason: retry.ReasonCanceled,
		policy: func(p *retry.Policy) { p.Backoff, p.MaxDelay, p.Jitter = retry.Fixed(2*time.Hour), 0, nil }},
	{name: "AttemptTimeout", answers: []Answer{hang, ok}, attempts: 2, reason: retry.ReasonSuccess,
		policy: func(p *retry.Policy) { p.AttemptTimeout = attemptTimeout }},
	{name: "budget of the policy", answers: []Answer{down}, attempts: 3, reason: retry.ReasonBudget,
		policy: func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} }},
}

// Run runs the table. skip names the rows that do not apply to the adapter, each
// with the reason.
func Run(t *testing.T, call Call, skip map[string]string) {
	tests := map[string]func(*testing.T){"a loop around the call": func(t *testing.T) { loopAround(t, call) }}
	for _, row := range rows {
		tests[row.name] = func(t *testing.T) { row.run(t, call) }
	}
	for name := range skip {
		if tests[name] == nil {
			t.Errorf("skip names an unknown row %q", name)
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if why := skip[name]; why != "" {
				t.Skip(why)
			}
			test(t)
		})
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
	p := soon
	if row.policy != nil {
		row.policy(&p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if row.cancel == "before" {
		cancel()
	}
	var wait time.Duration
	var last retry.Event
	p.OnEvent = func(_ context.Context, e retry.Event) {
		wait, last = max(wait, e.RetryAfter), e
		if row.cancel == "in a wait" && e.Kind == retry.RetryScheduled {
			cancel()
		}
	}
	served, err := call(ctx, p, row.answers)
	var failed *retry.Error
	switch errors.As(err, &failed); {
	case served != row.attempts || retry.ReasonOf(err) != row.reason:
		t.Errorf("the server has seen %d attempts with reason %q (%v); want %d and %q", served, retry.ReasonOf(err), err, row.attempts, row.reason)
	case (failed == nil) != (row.reason == retry.ReasonSuccess) || failed != nil && failed.Attempts != row.attempts:
		t.Errorf("the error is %v; want one that counts %d attempts", err, row.attempts)
	case last.Kind != retry.CallFinished || last.Reason != row.reason || last.Attempt != row.attempts:
		t.Errorf("the last event is %+v; want the reason %q and attempt %d", last, row.reason, row.attempts)
	case wait != row.wait || row.reason == retry.ReasonRetryAfter && failed.Delay != busy.Wait:
		t.Errorf("the server asked for %v, and the policy heard of %v and returned %v", busy.Wait, wait, err)
	}
}
