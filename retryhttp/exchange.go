package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
	"github.com/goretry/retry/internal/wait"
)

// An exchange is one call of RoundTrip. This file tells it in the order in which it happens:
//
//  1. run starts the loop of package retry with the policy that loopPolicy returns.
//  2. The loop calls attempt. There next makes the context of the attempt, send (attempt.go)
//     gives Base a copy of the request, check asks Check what the attempt failed with, and
//     settle puts the share of a healthy server into the Budget.
//  3. After a failure the loop asks classify whether the request may be sent again. The policy
//     says when.
//  4. Before a retry the loop calls discardAndWait: it reads the rest of the response
//     (discard.go), so that its connection is free, and waits.
//  5. When the loop stops, stopped completes its error, and answer returns what RoundTrip
//     returns: the last response, or that error. end frees what the caller does not get.
//
// The exchange is the context of the loop, in which OnEvent and Wait find it. Each attempt is the
// context of its own request.
type exchange struct {
	context.Context // of the caller's request

	t      *Transport
	req    *http.Request
	policy *retry.Policy // of the request, or else of the Transport
	checks CheckFunc     // of the Transport, or of the part of a download
	plain  bool          // only http.Transport gets the attempts: see [Transport.plain]
	gate   *passage      // nil: none
	budget *retry.Budget // nil: none
	done   func()        // ends the use of a budget where the user has set none; else nil
	free   bool          // the next retry takes nothing from it
	cured  bool          // new credentials had their retry
	once   bool          // the server must not process the request twice
	hedged atomic.Bool   // a second request of a Hedge has answered the last attempt

	first   attempt        // here, because most exchanges make no other
	last    *attempt       // nil before the first
	lost    *attempt       // the server may have processed it, and its answer was lost; nil: none
	failure error          // of the last attempt
	resp    *http.Response // of the last attempt, until it is discarded or handed to the caller
}

// run sends the request as often as the loop says, by send. The contexts that OnEvent and
// Wait get have the request.
func (x *exchange) run(send func(context.Context) error) error {
	x.Context = x.req.Context()
	return x.stopped(retry.Do(x, x.loopPolicy(), send))
}

// Value returns the exchange for RequestOf and Hedged, and otherwise what the context of the
// caller's request has.
func (x *exchange) Value(key any) any {
	if _, asked := key.(ctxvalue.Hedge); asked {
		return x
	}
	return x.Context.Value(key)
}

// String names the context, as that of an attempt does.
func (x *exchange) String() string { return "retryhttp.exchange" }

// loopPolicy returns the policy of this exchange as the loop needs it.
func (x *exchange) loopPolicy() retry.Policy {
	p := *x.policy
	p.Wait, p.Budget, p.Classify = x.discardAndWait, x.budget, x.classify
	if x.gate = x.t.Gate.through(x); x.gate != nil || p.Enter != nil {
		p.Enter = x.enter
	}
	x.once = x.cannotRepeat() == nil && !x.t.idempotent(x.req)
	return p
}

// hasBody reports whether there is a body to send: Body, or what GetBody returns.
func (x *exchange) hasBody() bool {
	return x.req.Body != http.NoBody && (x.req.Body != nil || x.req.GetBody != nil)
}

// cannotRepeat returns why the request can be sent only once, nil if it can be sent again.
func (x *exchange) cannotRepeat() error {
	switch {
	case x.hasBody() && x.req.GetBody == nil:
		return errNoGetBody
	case x.req.Trailer != nil: // is filled in while a body is read, maybe for longer than an attempt takes
		return errTrailer
	default:
		return nil
	}
}

// attempt sends the request once, and returns what that failed with.
func (x *exchange) attempt(ctx context.Context) error {
	a := x.next()
	open := false // the response has a body, at whose end the attempt ends
	defer func() {
		if !open {
			a.cancel(nil)
		}
	}()
	inTime := func() bool { return true }
	var tooLate *timeoutError
	if x.policy.AttemptTimeout > 0 { // else the end of the request ends the attempt
		tooLate = &timeoutError{x.policy.AttemptTimeout}
		inTime = context.AfterFunc(ctx, func() {
			if x.req.Context().Err() == nil {
				a.cancel(tooLate)
			}
		})
	}
	resp, err := a.send()
	x.resp = resp
	x.failure = x.check(err)
	if !inTime() && x.resp != nil && x.req.Context().Err() == nil {
		x.discard() // it could not be read
		x.failure = x.check(tooLate)
	}
	a.failure = x.failure
	x.settle()
	if open = x.resp != nil && x.resp.Body != nil && x.resp.Body != http.NoBody; open {
		x.resp.Body = endedBy(x.resp.Body, a.cancel, &a.body) // not before: Check may read it, close it and set another
	}
	return x.failure
}

// next begins the next attempt, whose context ends with the caller's or by its cancel.
func (x *exchange) next() *attempt {
	a := &x.first
	if x.last != nil {
		a = &attempt{number: x.last.number}
		if x.last.isLost() && (x.last.status == 0 || x.lost == nil || x.lost.status != 0) {
			x.lost = x.last // one without an answer goes before one with a 503
		}
	}
	a.x, a.number = x, a.number+1
	a.Context, a.cancel = context.WithCancelCause(x.req.Context())
	x.last = a
	x.hedged.Store(false)
	return a
}

// isLost reports whether the server may have done what a failed attempt asked for without
// saying so: there was no answer, or an error of the server or of a proxy, or half a success.
func (a *attempt) isLost() bool {
	if a.before != nil {
		return true
	}
	var dial *net.OpError // most idempotent requests have no other evidence
	unsent := a.status == 0 && errors.As(a.failure, &dial) && dial.Op == "dial"
	return a.mayBeDone && a.status/100 != 4 && !unsent
}

// lostAs returns what an attempt failed with whose answer was lost, or a request below it.
func (a *attempt) lostAs() error {
	if a == nil {
		return nil
	}
	return cmp.Or(a.before, a.failure)
}

// check returns what the last attempt failed with, which got x.resp or err.
func (x *exchange) check(err error) error {
	if unsent, ok := err.(unsentError); ok {
		return retry.NotAttempted(retry.Permanent(unsent.error))
	}
	req := x.last.req
	if _, late := err.(*timeoutError); late { // its own context is over, and the request goes on
		req = req.WithContext(context.WithValue(x.req.Context(), attemptKey{}, x.last))
	}
	failure := x.checks(req, x.resp, err)
	if x.gate != nil && x.resp != nil {
		x.gate.learn(x.resp.StatusCode, failure)
	}
	if err != nil && failure == nil {
		return retry.Permanent(err)
	}
	return failure
}

// settle pays the share of an attempt whose failure shows that the server works, and decides
// whether the retry after it takes nothing: the first that new credentials may cure.
func (x *exchange) settle() {
	works := x.failure != nil && x.resp != nil && healthy(x.resp.StatusCode) && retry.RetryAfterOf(x.failure) == 0
	if works {
		x.budget.Success()
	}
	x.free = works && x.done != nil && !x.cured && (x.resp.StatusCode == 401 || x.resp.StatusCode == 407)
	x.cured = x.cured || x.free
}

var (
	errNoGetBody = errors.New("the request has no GetBody, so its body cannot be sent again; see retryhttp.SetBody")
	errTrailer   = errors.New("the request has a Trailer, so it is sent once")

	errSeeBudgets   = errors.New("see retryhttp.Transport.Budgets")
	errSetNoBudgets = errors.New("to wait for a server that starts, set retryhttp.Transport.Budgets to retryhttp.NoBudgets")
)

// classify is the Classify of every exchange: first, whether the request can be sent again
// after this failure. If it can, the policy's own Classify decides.
func (x *exchange) classify(err error) *retry.Class {
	cause := x.cannotRepeat()
	if cause == nil && x.once && x.last.mayBeDone {
		cause = fmt.Errorf("the server may have processed this %s; see retryhttp.Transport.Idempotent", cmp.Or(x.req.Method, http.MethodGet))
	}
	if cause != nil {
		return &retry.Class{NonRetryable: true, Cause: cause}
	}
	var class *retry.Class
	if x.policy.Classify != nil {
		class = x.policy.Classify(err)
	}
	if !x.free {
		return class
	}
	var skips retry.Class
	if class != nil {
		skips = *class
	}
	skips.SkipBudget = true
	return &skips
}

// discardAndWait is the Wait of every exchange. It discards the response that is
// not to be returned, so that its connection is free for other requests, and then
// waits for what is left of d.
func (x *exchange) discardAndWait(ctx context.Context, d time.Duration) (skipped time.Duration, err error) {
	left := d
	if x.resp != nil {
		began := time.Now()
		x.discard()
		left = max(0, d-time.Since(began))
	}
	waits := x.policy.Wait
	if waits == nil {
		waits = wait.For
	}
	return waits(ctx, left)
}

// stopped returns why the loop stopped, which ended with err. If the Budget of a target was
// empty that the user has not set, the error says how to set another one. If the last
// answer is a 4xx, which may be the answer to what an earlier attempt has done, the error has
// what that attempt failed with.
func (x *exchange) stopped(err error) error {
	e, failed := err.(*retry.Error)
	if !failed {
		return err
	}
	if x.done != nil && e.Budget() == x.budget {
		e.Cause = errSeeBudgets
		if e.Attempts > x.budget.Size { // this call alone has emptied it
			e.Cause = errSetNoBudgets
		}
	}
	if x.last != nil && x.last.status/100 == 4 && e.Before == nil {
		e.Before = cmp.Or(x.last.before, x.lost.lostAs())
	}
	return err
}

// answer returns what RoundTrip does, once the loop has stopped with err.
func (x *exchange) answer(err error) (*http.Response, error) {
	ctx := x.req.Context()
	switch {
	case x.resp == nil:
	case err == nil, ctx.Err() == nil && retry.ReasonOf(err) != retry.ReasonInvalid: // which only the error tells
		return x.handOver(err), nil
	case ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)): // after the loop had decided
		err = fmt.Errorf("%w (and then %w)", err, context.Cause(ctx))
	}
	return nil, asNetError(err)
}

// handOver returns the last response, which from now on is the caller's. err says
// why it was the last, nil if it succeeded.
func (x *exchange) handOver(err error) *http.Response {
	resp := x.resp
	x.resp = nil
	if err != nil {
		s := &stopped{of: cmp.Or(resp.Request, x.req), attempt: x.last, err: err}
		s.req = s.of.WithContext(context.WithValue(s.of.Context(), stoppedKey{}, s))
		resp.Request = s.req
	}
	if x.t.Resume && hasText(resp) {
		resp.Body = x.resume(resp)
	}
	return resp
}

// end frees what the caller does not get, after a panic too.
func (x *exchange) end() {
	if x.done != nil {
		x.done()
	}
	if x.last == nil && x.req.Body != nil {
		_ = x.req.Body.Close() // no attempt has
	}
	x.discard()
}
