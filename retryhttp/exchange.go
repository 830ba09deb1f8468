package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
	"github.com/goretry/retry/internal/wait"
)

// An exchange is a request on its way through a Transport, from RoundTrip to its last response.
// The functions of this file are in the order in which a request meets them:
//
//  1. RoundTrip (transport.go) makes the exchange. run calls retry.Do, here called the loop, with
//     the policy that loopPolicy returns: the caller's policy with the functions of this file.
//  2. Before each attempt, the loop calls enter (gate.go) if there is a Gate or the caller's policy
//     has an Enter.
//  3. The loop calls attempt. There next makes the attempt and its context, send (attempt.go) sends
//     a copy of the request through Base, check asks Check what the attempt failed with, and settle
//     puts a share into the Budget if a failure shows that the server works.
//  4. After a failure the loop calls classify, which says whether the request may be sent again.
//     Then the loop decides according to the policy, and takes the retry out of the Budget.
//  5. Before a retry the loop calls discardAndWait, which discards the response of the last attempt
//     (body_discard.go), so that its connection can be used again, and waits.
//  6. When the loop has stopped, stopped adds to its error what only this package knows. answer
//     returns what RoundTrip returns: the last response, by handOver, or the error. end frees
//     what the caller does not get.
//
// A download whose body broke (resume.go) makes an exchange for each break. It fetches the rest of
// the body in the same steps, with a send of its own for run.
//
// Only one goroutine changes an exchange, except for hedged: Base may call a Hedge in another
// goroutine. The exchange is also the context of the loop, so that RequestOf and Hedged find the
// exchange in the context that OnEvent and Wait get. An attempt is the context of its own request.
type exchange struct {
	context.Context // of the caller's request

	// These fields are set before the first attempt.
	t      *Transport
	req    *http.Request // the caller's
	policy *retry.Policy // of WithPolicy, or else of the Transport
	checks CheckFunc     // the Check of the Transport, or of a download
	plain  bool          // see Transport.plain
	gate   *passage      // through the Gate; nil: no Gate holds the attempts
	budget *retry.Budget // pays for retries; nil: none does
	done   func()        // ends the use of a target's Budget; nil: budget is not a target's
	once   bool          // no second attempt, unless the server cannot have processed the first

	// These fields change with each attempt.
	skipBudget bool           // the next retry takes nothing from budget
	renewed    bool           // a retry after a 401 or 407 has taken nothing: the next one pays
	hedged     atomic.Bool    // a second request of a Hedge has answered the last attempt
	last       *attempt       // nil before the first
	lost       *attempt       // an earlier attempt whose answer was lost, see isLost; nil: none
	failure    error          // of the last attempt; nil: it succeeded, or there was none
	resp       *http.Response // of the last attempt; nil: none, or discarded, or the caller's

	first attempt // the first attempt is stored here: most exchanges make no other
}

// run sends the request as often as the loop wants. send makes one attempt.
func (x *exchange) run(send func(context.Context) error) error {
	x.Context = x.req.Context()
	return x.stopped(retry.Do(x, x.loopPolicy(), send))
}

// loopPolicy returns the policy of the loop, and sets the fields that depend on the request.
func (x *exchange) loopPolicy() retry.Policy {
	p := *x.policy
	p.Wait, p.Budget, p.Classify = x.discardAndWait, x.budget, x.classify
	if x.gate = x.t.Gate.through(x); x.gate != nil || p.Enter != nil {
		p.Enter = x.enter
	}
	// A request that cannot be sent again needs no evidence of what the server has processed.
	x.once = x.cannotRepeat() == nil && !x.t.idempotent(x.req)
	return p
}

// hasBody reports whether there is a body to send: Body, or what GetBody returns.
func (x *exchange) hasBody() bool {
	return x.req.Body != http.NoBody && (x.req.Body != nil || x.req.GetBody != nil)
}

// cannotRepeat returns why the request can be sent only once, or nil if it can be sent again.
func (x *exchange) cannotRepeat() error {
	switch {
	case x.hasBody() && x.req.GetBody == nil:
		return errNoGetBody
	case x.req.Trailer != nil: // reading a body fills it in, maybe after the attempt has ended
		return errTrailer
	default:
		return nil
	}
}

// attempt makes one attempt, and returns what it failed with.
//
// Under an AttemptTimeout, the loop ends ctx after that time, and also when attempt returns. The
// caller reads the body of the response after attempt has returned, so the attempt has a context of
// its own. AttemptTimeout ends that context only as long as attempt has not returned.
func (x *exchange) attempt(ctx context.Context) error {
	a := x.next()
	open := false // the response has a body; the end of that body ends the attempt
	defer func() {
		if !open {
			a.cancel(nil)
		}
	}()
	inTime := func() bool { return true } // stops the timeout; false: the timeout came first
	var tooLate *timeoutError
	if x.policy.AttemptTimeout > 0 {
		tooLate = &timeoutError{x.policy.AttemptTimeout}
		inTime = context.AfterFunc(ctx, func() {
			if x.req.Context().Err() == nil { // else the end of the request ends the attempt
				a.cancel(tooLate)
			}
		})
	}
	resp, err := a.send()
	x.resp = resp
	x.failure = x.check(err)
	if !inTime() && x.resp != nil && x.req.Context().Err() == nil {
		x.discard() // its body can no longer be read, so Check gets the timeout in its place
		x.failure = x.check(tooLate)
	}
	a.failure = x.failure
	x.settle()
	if open = x.resp != nil && x.resp.Body != nil && x.resp.Body != http.NoBody; open {
		// Not earlier: Check may read the body, close it, and set another.
		x.resp.Body = endedBy(x.resp.Body, a.cancel, &a.body)
	}
	return x.failure
}

// next makes the next attempt, and remembers the one before if its answer was lost. The context of
// the attempt ends with the context of the caller's request, or by its cancel.
func (x *exchange) next() *attempt {
	a := &x.first
	if before := x.last; before != nil {
		a = &attempt{number: before.number}
		// An attempt that got no answer says more than an attempt that got a status.
		if before.isLost() && (before.status == 0 || x.lost == nil || x.lost.status != 0) {
			x.lost = before
		}
	}
	a.x, a.number = x, a.number+1
	a.Context, a.cancel = context.WithCancelCause(x.req.Context())
	x.last = a
	x.hedged.Store(false)
	return a
}

// isLost reports whether the answer of a failed attempt was lost: the server may have done what
// the attempt asked for, and has not said so. Either there was no answer, or the answer was an
// error of the server or of a proxy, or the body of a success broke off.
func (a *attempt) isLost() bool {
	return a.before != nil || a.mayBeDone && a.status/100 != 4 && !a.unsent
}

// lostAs returns what a lost attempt failed with. If a request below it was lost, by a Transport
// below or by net/http, lostAs returns what that request failed with. For a nil a it returns nil.
func (a *attempt) lostAs() error {
	if a == nil {
		return nil
	}
	return cmp.Or(a.before, a.failure)
}

// check returns what the last attempt failed with, nil if it succeeded. The attempt got x.resp, or
// else err.
func (x *exchange) check(err error) error {
	if unsent, ok := err.(unsentError); ok { // so the Budgets get back what this attempt has cost
		return retry.NotAttempted(retry.Permanent(unsent.error))
	}
	req := x.last.req
	if _, late := err.(*timeoutError); late {
		// The context of the attempt is done. Check gets one that is not, with the same attempt.
		req = req.WithContext(context.WithValue(x.req.Context(), attemptKey{}, x.last))
	}
	failure := x.checks(req, x.resp, err)
	if x.gate != nil && x.resp != nil {
		x.gate.learn(x.resp.StatusCode, failure)
	}
	if err != nil && failure == nil { // Check cannot turn an error into a success
		return retry.Permanent(err)
	}
	return failure
}

// settle puts a share into the Budget if the attempt failed with a status that shows that the
// server works. After a success, the loop puts the share into the Budget.
//
// settle also decides whether the next retry takes nothing from the Budget. This is so for the
// first retry after a 401 or a 407, because new credentials may be all that is missing, and only
// if the Budget is the Budget of a target.
func (x *exchange) settle() {
	works := x.failure != nil && x.resp != nil && healthy(x.resp.StatusCode) &&
		retry.RetryAfterOf(x.failure) == 0
	if works {
		x.budget.Success()
	}
	x.skipBudget = works && x.done != nil && !x.renewed &&
		(x.resp.StatusCode == http.StatusUnauthorized ||
			x.resp.StatusCode == http.StatusProxyAuthRequired)
	x.renewed = x.renewed || x.skipBudget
}

var (
	errNoGetBody = errors.New("the request has no GetBody, so its body cannot be sent again; " +
		"see retryhttp.SetBody")
	errTrailer = errors.New("the request has a Trailer, so it is sent once")

	errSeeBudgets   = errors.New("see retryhttp.Transport.Budgets")
	errSetNoBudgets = errors.New("to wait for a server that starts, " +
		"set retryhttp.Transport.Budgets to retryhttp.NoBudgets")
)

// classify is the Classify of the loop. If the request may not be sent again after this failure, it
// says so. If it may, the caller's Classify decides, and skipBudget is added to the class.
func (x *exchange) classify(err error) *retry.Class {
	cause := x.cannotRepeat()
	if cause == nil && x.once && x.last.mayBeDone {
		cause = fmt.Errorf(
			"the server may have processed this %s; see retryhttp.Transport.Idempotent",
			cmp.Or(x.req.Method, http.MethodGet))
	}
	if cause != nil {
		return &retry.Class{NonRetryable: true, Cause: cause}
	}
	var class *retry.Class
	if x.policy.Classify != nil {
		class = x.policy.Classify(err)
	}
	if !x.skipBudget {
		return class
	}
	var skips retry.Class // a copy: the class is the caller's
	if class != nil {
		skips = *class
	}
	skips.SkipBudget = true
	return &skips
}

// discardAndWait is the Wait of the loop. It discards the response of the last attempt, which the
// caller will not get, so that its connection can be used again. Then it waits for the rest of d,
// with the caller's Wait if there is one. skipped is how much of the wait that Wait has skipped.
func (x *exchange) discardAndWait(
	ctx context.Context, d time.Duration,
) (skipped time.Duration, err error) {
	left := d
	if x.resp != nil {
		began := time.Now()
		lose(x.failure, x.resp.Request)
		x.discard()
		left = max(0, d-time.Since(began))
	}
	waits := x.policy.Wait
	if waits == nil {
		waits = wait.For
	}
	return waits(ctx, left)
}

// stopped completes err, the error of the loop, and returns it. After a success err is nil.
//
//   - If the Budget of a target was empty, the Cause says how to set another Budget.
//   - If the last status is a 4xx, it may be the answer to what an earlier attempt has done. Then
//     Before is what the attempt whose answer was lost failed with.
func (x *exchange) stopped(err error) error {
	e, failed := err.(*retry.Error)
	if !failed {
		return err
	}
	if x.done != nil && e.Budget() == x.budget {
		e.Cause = errSeeBudgets
		if e.Attempts > x.budget.Size { // this call alone has emptied the Budget
			e.Cause = errSetNoBudgets
		}
	}
	if x.last != nil && x.last.status/100 == 4 && e.Before == nil {
		e.Before = cmp.Or(x.last.before, x.lost.lostAs())
	}
	return err
}

// answer returns what RoundTrip returns after the loop has stopped with err, nil after a success:
// the last response, or an error if there is no response, if the policy is invalid, or if the
// context of the caller's request is done and the last attempt failed.
func (x *exchange) answer(err error) (*http.Response, error) {
	ctx := x.req.Context()
	switch {
	case x.resp == nil:
	case err == nil, ctx.Err() == nil && retry.ReasonOf(err) != retry.ReasonInvalid:
		return x.handOver(err), nil
	case ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)):
		// The context ended after the loop had stopped for another reason.
		err = fmt.Errorf("%w (and then %w)", err, context.Cause(ctx))
	}
	return nil, asNetError(err)
}

// handOver returns the last response, which is the caller's from now on. err says why the response
// was the last; nil: the attempt succeeded. ErrorOf and Result find err in the context of the
// response's Request.
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

// end frees what the caller does not get: the use of the target's Budget, the body of a request
// that was never sent, and the last response. It runs after a panic too.
func (x *exchange) end() {
	if x.done != nil {
		x.done()
	}
	if x.last == nil && x.req.Body != nil {
		_ = x.req.Body.Close() // because no attempt has closed it
	}
	x.discard()
}

// Value returns the exchange for RequestOf and Hedged. It hides the policy of WithPolicy, which is
// not for a request that OnEvent or Wait sends. All other values are the values of the context of
// the caller's request.
func (x *exchange) Value(key any) any {
	switch key.(type) {
	case ctxvalue.Hedge:
		return x
	case policyKey:
		return nil
	default:
		return x.Context.Value(key)
	}
}

// String names the context, as the String of an attempt does: it must not print the request.
func (x *exchange) String() string { return "retryhttp.exchange" }

// of reports whether ctx is the context of x, and not of an attempt further down in that context:
// OnEvent may send another request in the context that it gets.
func (x *exchange) of(ctx context.Context) bool { return attemptIn(ctx) == attemptIn(x.Context) }
