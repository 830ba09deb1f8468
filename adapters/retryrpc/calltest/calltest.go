// Package calltest tests an adapter for an RPC library against a server of the same library.
//
//	func TestCalls(t *testing.T) { calltest.Run(t, call, nil) }
//	func TestBlips(t *testing.T) { calltest.Blips(t, start) }
//
// [Run] makes one call for each row of a table, and checks the number of attempts, the reason
// and the events. The test passes a [Call], which is a function that makes a call through the
// adapter. [Blips] checks that no call fails if the server is down for a second or less.
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
	Busy                    // like Down, and the server asks the client to wait for 20 ms: see Wait
	Forbidden               // the call fails permanently
	Hang                    // the server does not answer until the attempt is canceled
)

// Wait is how long a Busy server asks the client to wait.
const Wait = 20 * time.Millisecond

// A Call makes one call according to the policy p, and returns the error of the call. For each
// attempt that reaches the server, the server calls the function `answer`, and then does what the
// Answer says. It passes 1 for the first attempt that reaches the server, 2 for the second, and so
// on. The result `served` is the number of attempts that have reached the server.
type Call func(
	ctx context.Context, p retry.Policy, answer func(attempt int) Answer,
) (served int, err error)

// attemptTimeout is the AttemptTimeout of the policy in the row "AttemptTimeout".
const attemptTimeout = 250 * time.Millisecond

// A row checks something that an adapter can do wrong. It does not check the decisions of a policy,
// because the tests of the root package check them.
type row struct {
	name     string
	answers  []Answer            // the server's answers to the attempts; the last answer repeats
	policy   func(*retry.Policy) // changes the policy of the call, unless it is nil
	cancel   string              // when the caller's context is canceled, or "" for never
	attempts int                 // how many attempts the server must see
	more     bool                // whether more attempts may reach the server, as on a busy machine
	reason   retry.Reason        // why the call ends
}

// These are the moments at which a row cancels the caller's context.
const (
	before    = "before"
	inAttempt = "in an attempt"
	inWait    = "in a wait"
)

var rows = []row{
	{name: "succeeds", answers: []Answer{OK},
		attempts: 1, reason: retry.ReasonSuccess},
	{name: "fails then succeeds", answers: []Answer{Down, Down, OK},
		attempts: 3, reason: retry.ReasonSuccess},
	{name: "exhausted", answers: []Answer{Down},
		attempts: 4, reason: retry.ReasonExhausted},
	{name: "invalid policy", answers: []Answer{Down},
		//retry:vet-ignore policyliteral the row tests this invalid policy
		policy:   func(p *retry.Policy) { p.MaxAttempts = -2 },
		attempts: 1, reason: retry.ReasonInvalid},
	{name: "permanent", answers: []Answer{Forbidden},
		attempts: 1, reason: retry.ReasonPermanent},
	{name: "fails, then permanent", answers: []Answer{Down, Forbidden},
		attempts: 2, reason: retry.ReasonPermanent},
	{name: "RetryIf says no", answers: []Answer{Down},
		policy:   func(p *retry.Policy) { p.RetryIf = func(error) bool { return false } },
		attempts: 1, reason: retry.ReasonRejected},
	{name: "Retry-After within the bound", answers: []Answer{Busy, OK},
		attempts: 2, reason: retry.ReasonSuccess},
	{name: "Retry-After beyond the bound", answers: []Answer{Busy},
		policy:   func(p *retry.Policy) { p.MaxRetryAfter = Wait - time.Millisecond },
		attempts: 1, reason: retry.ReasonRetryAfter},
	{name: "canceled before", answers: []Answer{OK}, cancel: before,
		attempts: 0, reason: retry.ReasonCanceled},
	{name: "canceled in an attempt", answers: []Answer{Hang}, cancel: inAttempt,
		attempts: 1, reason: retry.ReasonCanceled},
	{name: "canceled in a wait", answers: []Answer{Down}, cancel: inWait,
		policy: func(p *retry.Policy) {
			p.Backoff, p.MaxDelay, p.Jitter = retry.Fixed(2*time.Hour), 0, nil
		},
		attempts: 1, reason: retry.ReasonCanceled},
	{name: "AttemptTimeout", answers: []Answer{Hang, OK}, more: true,
		policy:   func(p *retry.Policy) { p.AttemptTimeout, p.MaxAttempts = attemptTimeout, 1000 },
		attempts: 2, reason: retry.ReasonSuccess},
	{name: "Enter refuses the first attempt", answers: []Answer{OK},
		policy:   func(p *retry.Policy) { p.Enter = refusing(1) },
		attempts: 0, reason: retry.ReasonWait},
	{name: "Enter refuses a retry", answers: []Answer{Down},
		policy:   func(p *retry.Policy) { p.Enter = refusing(2) },
		attempts: 1, reason: retry.ReasonWait},
	{name: "Enter refuses nothing", answers: []Answer{Down, OK},
		policy:   func(p *retry.Policy) { p.Enter = refusing(3) },
		attempts: 2, reason: retry.ReasonSuccess},
	{name: "budget of the policy", answers: []Answer{Down},
		policy:   func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 2} },
		attempts: 3, reason: retry.ReasonBudget},
}

// refusing returns a function for the field Enter of a policy, which is called before each attempt.
// The function refuses the attempt with the given number. If it is not called exactly once for each
// attempt, or if its event is wrong, the function returns an error that says so.
func refusing(attempt int) func(context.Context, retry.Event) error {
	calls := 0
	return func(_ context.Context, e retry.Event) error {
		calls++
		switch {
		case e.Attempt != calls, e.Number != calls, e.Max != 4,
			e.Kind != retry.AttemptStarted, e.Time.IsZero():
			return fmt.Errorf("call %d of Enter got the event %+v, "+
				"want AttemptStarted with a Time, Attempt and Number %d, and Max 4", calls, e, calls)
		case e.Attempt == attempt:
			return errors.New("the queue is full")
		default:
			return nil
		}
	}
}

// Run makes one call for each row of the table in this package. The keys of `skip` are the names of
// the rows that do not apply to the adapter. The values of `skip` say why a row does not apply.
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
	p := retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Exponential{Base: time.Millisecond},
		MaxDelay:    3 * time.Millisecond,
		Jitter:      retry.Proportional(0.2),
	}
	if row.policy != nil {
		row.policy(&p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if row.cancel == before {
		cancel()
	}
	answer := func(attempt int) Answer {
		if row.cancel == inAttempt {
			cancel()
		}
		return row.answers[min(attempt, len(row.answers))-1]
	}
	var asked time.Duration
	var last retry.Event
	p.OnEvent = func(_ context.Context, e retry.Event) {
		asked, last = max(asked, e.RetryAfter), e
		if row.cancel == inWait && e.Kind == retry.RetryScheduled {
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
		t.Errorf("the server has seen %d attempts with reason %q (%v); want %d and %q",
			served, retry.ReasonOf(err), err, row.attempts, row.reason)
	case row.reason == retry.ReasonCanceled && retry.IsPermanent(err):
		t.Errorf("the error is permanent, which forbids a retry with another context: %v", err)
	case row.cancel == inAttempt: // a stream may be canceled before it asks for its first message
	case (failed == nil) != (row.reason == retry.ReasonSuccess),
		failed != nil && failed.Attempts != attempts:
		t.Errorf("the error is %v; want one that counts %d attempts", err, attempts)
	case last.Kind != retry.CallFinished, last.Reason != row.reason, last.Attempt != attempts:
		t.Errorf("the last event is %+v; want the reason %q and attempt %d",
			last, row.reason, attempts)
	case (row.answers[0] == Busy) != (asked == Wait):
		t.Errorf("the longest wait that the server asked for is %v (%v)", asked, err)
	}
}

// blips are outages of a target that last a second or less. A call with the default Budget of its
// target must not fail because of such an outage.
var blips = []struct {
	name  string
	rate  int           // how many calls are made each second, before and during the outage
	warm  time.Duration // how long the server works before the outage
	down  time.Duration // how long the outage lasts
	burst int           // how many calls are made at once when the outage starts
}{
	{"just started, 50 at once, 100 ms", 0, 0, 100 * time.Millisecond, 50},
	{"just started, 100 a second, 1 s", 100, 0, time.Second, 0},
	{"20 a second for 10 s, 1 s", 20, 10 * time.Second, time.Second, 0},
	{"4 a second, 20 at once, 300 ms", 4, time.Minute, 300 * time.Millisecond, 20},
	{"1 a second, 20 at once, 300 ms", 1, time.Minute, 300 * time.Millisecond, 20},
	{"100 a second for a minute, 100 at once, 1 s", 100, time.Minute, time.Second, 100},
}

// Blips checks that no call fails if its target is down for a second or less. The function `start`
// starts a server, and returns a function that makes one call to the server with retry.Default. The
// server must work while `up` returns true, and be down while `up` returns false. The time is
// virtual.
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
					t.Errorf("%d of %d calls failed, want 0", lost.Load(), calls.Load())
				}
			})
		})
	}
}
