// Package calltest has the table test that every adapter for remote calls passes,
// each against its own kind of server.
package calltest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

// An Answer says what the server does with one attempt.
type Answer int

const (
	OK        Answer = iota // the call succeeds
	Down                    // the call fails, and a retry may succeed
	Busy                    // like Down, and the server asks for Wait
	Forbidden               // the call fails permanently
	Hang                    // the server does not answer until the attempt is canceled
)

// Wait is what a server asks for that is Busy.
const Wait = 20 * time.Millisecond

// A Call makes one call with a policy and returns its error. The server asks answer once for
// each attempt that reaches it, when it is about to answer. served is the number of these
// attempts.
type Call func(ctx context.Context, p retry.Policy, answer func(attempt int) Answer) (served int, err error)

// attemptTimeout ends an attempt of the row AttemptTimeout.
const attemptTimeout = 250 * time.Millisecond

// A row has what an adapter can get wrong. What a policy decides from the errors that it is
// given, the tests of the root package say.
type row struct {
	name     string
	answers  []Answer
	policy   func(*retry.Policy)
	cancel   string // when the caller's context is canceled: "before", "in an attempt", "in a wait"; "": never
	attempts int
	more     bool // a busy machine may need more attempts: only the time ends them
	reason   retry.Reason
}

var rows = []row{
	{name: "succeeds", answers: []Answer{OK}, attempts: 1, reason: retry.ReasonSuccess},
	{name: "fails then succeeds", answers: []Answer{Down, Down, OK}, attempts: 3, reason: retry.ReasonSuccess},
	{name: "exhausted", answers: []Answer{Down}, attempts: 4, reason: retry.ReasonExhausted},
	{name: "invalid policy", answers: []Answer{Down}, attempts: 1, reason: retry.ReasonInvalid,
		policy: func(p *retry.Policy) { p.MaxAttempts = -2 }}, //retry:vet-ignore policyliteral what this row tests
	{name: "permanent", answers: []Answer{Forbidden}, attempts: 1, reason: retry.ReasonPermanent},
	{name: "fails, then permanent", answers: []Answer{Down, Forbidden}, attempts: 2, reason: retry.ReasonPermanent},
	{name: "RetryIf says no", answers: []Answer{Down}, attempts: 1, reason: retry.ReasonRejected,
		policy: func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } }},
	{name: "Retry-After within the bound", answers: []Answer{Busy, OK}, attempts: 2, reason: retry.ReasonSuccess},
	{name: "Retry-After beyond the bound", answers: []Answer{Busy}, attempts: 1, reason: retry.ReasonRetryAfter,
		policy: func(p *retry.Policy) { p.MaxRetryAfter = Wait - time.Millisecond }},
	{name: "canceled before", answers: []Answer{OK}, cancel: "before", attempts: 0, reason: retry.ReasonCanceled},
	{name: "canceled in an attempt", answers: []Answer{Hang}, cancel: "in an attempt", attempts: 1, reason: retry.ReasonCanceled},
	{name: "canceled in a wait", answers: []Answer{Down}, cancel: "in a wait", attempts: 1, reason: retry.ReasonCanceled,
		policy: func(p *retry.Policy) { p.Backoff, p.MaxDelay, p.Jitter = retry.Fixed(2*time.Hour), 0, nil }},
	{name: "AttemptTimeout", answers: []Answer{Hang, OK}, attempts: 2, more: true, reason: retry.ReasonSuccess,
		policy: func(p *retry.Policy) { p.AttemptTimeout, p.MaxAttempts = attemptTimeout, 1000 }},
	{name: "Enter refuses the first attempt", answers: []Answer{OK}, attempts: 0, reason: retry.ReasonWait,
		policy: func(p *retry.Policy) { p.Enter = refuses(1) }},
	{name: "Enter refuses a retry", answers: []Answer{Down}, attempts: 1, reason: retry.ReasonWait,
		policy: func(p *retry.Policy) { p.Enter = refuses(2) }},
	{name: "Enter refuses nothing", answers: []Answer{Down, OK}, attempts: 2, reason: retry.ReasonSuccess,
		policy: func(p *retry.Policy) { p.Enter = refuses(3) }},
	{name: "budget of the policy", answers: []Answer{Down}, attempts: 3, reason: retry.ReasonBudget,
		policy: func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} }},
}

// refuses returns an Enter that is to be called once for each attempt, and refuses one.
func refuses(attempt int) func(context.Context, retry.Event) error {
	calls := 0
	return func(_ context.Context, e retry.Event) error {
		calls++
		switch {
		case e.Attempt != calls || e.Number != calls || e.Max != 4 || e.Kind != retry.AttemptStarted || e.Time.IsZero():
			return fmt.Errorf("call %d of Enter is for %+v", calls, e)
		case e.Attempt == attempt:
			return errors.New("the queue is full")
		default:
			return nil
		}
	}
}

// Run runs the table. skip has the rows that do not apply to the adapter, each with the
// reason.
func Run(t *testing.T, call Call, skip map[string]string) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if why := skip[row.name]; why != "" {
				t.Skip(why)
			}
			row.run(t, call)
		})
	}
}

func (row row) run(t *testing.T, call Call) {
	p := retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Millisecond}, MaxDelay: 3 * time.Millisecond, Jitter: retry.Proportional(0.2)}
	if row.policy != nil {
		row.policy(&p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if row.cancel == "before" {
		cancel()
	}
	answer := func(attempt int) Answer {
		if row.cancel == "in an attempt" {
			cancel()
		}
		return row.answers[min(attempt, len(row.answers))-1]
	}
	var asked time.Duration
	var last retry.Event
	p.OnEvent = func(_ context.Context, e retry.Event) {
		asked, last = max(asked, e.RetryAfter), e
		if row.cancel == "in a wait" && e.Kind == retry.RetryScheduled {
			cancel()
		}
	}
	served, err := call(ctx, p, answer)
	attempts := row.attempts
	if row.more {
		served, attempts = min(served, attempts), max(last.Attempt, attempts)
	}
	var failed *retry.Error
	if errors.As(err, &failed) && failed.Reason == retry.ReasonRetryAfter {
		asked = failed.Delay
	}
	switch {
	case served != row.attempts || retry.ReasonOf(err) != row.reason:
		t.Errorf("the server has seen %d attempts with reason %q (%v); want %d and %q", served, retry.ReasonOf(err), err, row.attempts, row.reason)
	case row.reason == retry.ReasonCanceled && retry.IsPermanent(err):
		t.Errorf("a loop around the call, with another context, would end: %v", err)
	case row.cancel == "in an attempt": // a stream may be canceled before it asks for its first message
	case (failed == nil) != (row.reason == retry.ReasonSuccess) || failed != nil && failed.Attempts != attempts:
		t.Errorf("the error is %v; want one that counts %d attempts", err, attempts)
	case last.Kind != retry.CallFinished || last.Reason != row.reason || last.Attempt != attempts:
		t.Errorf("the last event is %+v; want the reason %q and attempt %d", last, row.reason, attempts)
	case (row.answers[0] == Busy) != (asked == Wait):
		t.Errorf("the policy heard of a wait of %v (%v)", asked, err)
	}
}

// blips are short failures of a target, each of which costs a client nothing under the
// Budget that it has by default. The server fails for the time down, just as burst calls
// are made at once. Before that, calls are made at this rate for the time warm, and they go
// on while the server is down.
var blips = []struct {
	name       string
	rate       int // calls a second
	warm, down time.Duration
	burst      int
}{
	{"just started, 50 at once, 100 ms", 0, 0, 100 * time.Millisecond, 50},
	{"just started, 100 a second, 1 s", 100, 0, time.Second, 0},
	{"20 a second for 10 s, 1 s", 20, 10 * time.Second, time.Second, 0},
	{"4 a second, 20 at once, 300 ms", 4, time.Minute, 300 * time.Millisecond, 20},
	{"1 a second, 20 at once, 300 ms", 1, time.Minute, 300 * time.Millisecond, 20},
	{"100 a second for a minute, 100 at once, 1 s", 100, time.Minute, time.Second, 100},
}

// Blips checks that no call is lost while a target fails for a second or less. start makes
// a client with retry.Default in virtual time, whose server works if up returns true.
func Blips(t *testing.T, start func(t *testing.T, up func() bool) func(context.Context) error) {
	for _, blip := range blips {
		t.Run(blip.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				end := began.Add(blip.warm + blip.down)
				call := start(t, func() bool {
					return time.Since(began) < blip.warm || !time.Now().Before(end)
				})
				var calls, lost atomic.Int64
				ask := func() {
					if calls.Add(1); call(t.Context()) != nil {
						lost.Add(1)
					}
				}
				goOn := func(until time.Duration) {
					for blip.rate > 0 && time.Since(began) < until {
						go ask()
						time.Sleep(time.Second / time.Duration(blip.rate))
					}
				}
				goOn(blip.warm)
				for range blip.burst {
					go ask()
				}
				goOn(blip.warm + blip.down)
				time.Sleep(time.Minute)
				if lost.Load() != 0 || calls.Load() == 0 {
					t.Errorf("%d of %d calls are lost, want 0", lost.Load(), calls.Load())
				}
			})
		})
	}
}
