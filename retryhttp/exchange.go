package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
	"github.com/goretry/retry/internal/gate"
	"github.com/goretry/retry/internal/mark"
	"github.com/goretry/retry/internal/printable"
	"github.com/goretry/retry/internal/wait"
)

// An exchange is the state of one call of RoundTrip: a request with all its attempts. The functions
// of this file are in the order in which they are called:
//
//  1. RoundTrip (transport.go) creates the exchange. The method "run" calls retry.Do, which is
//     called "the loop" here. "loopPolicy" returns the policy of the loop. This is the caller's
//     policy, in which some functions are replaced by functions of this file.
//  2. Before each attempt, the loop calls "enter" if there is a Gate or the caller's policy has an
//     Enter.
//  3. The loop calls the method "attempt", which calls five functions in turn. "next" makes the
//     attempt and its context. "send" (attempt.go) sends a copy of the request through Base.
//     "check" asks Check whether the attempt failed. "settle" refills the Budget a little if a
//     failure shows that the server works. "cancelAtEnd" (body_response.go) makes the context end
//     when the body of the response has been read to its end or closed.
//  4. After a failure that is neither Permanent nor rejected by RetryIf, the loop calls "classify",
//     which says whether the request may be sent again. Then the loop decides according to the
//     policy. A retry takes 1 from the Budget.
//  5. Before each retry the loop calls "discardAndWait", even if the delay is 0. This method
//     discards the response of the last attempt, so that its connection can be used again
//     (body_discard.go), and then waits. Discarding ends the context of the attempt. This does not
//     close an HTTP/1 connection whose body has been read to its end, because net/http has taken
//     the connection back before Read returns io.EOF. The retry then begins at step 2.
//  6. When the loop has ended, "complete" adds details to the error of the loop. "answer" returns
//     the last response, prepared by handOver, or the error. "cleanUp" discards the last response
//     if the caller does not get it.
//
// If the body of a download breaks off, a new exchange fetches the missing bytes: see `fetch`
// (resume.go). This exchange has the same steps, but its loop calls another function instead of
// "attempt". When the loop calls this function for the first time, the function returns the error
// of the broken body. After that, it calls "attempt".
//
// Only one goroutine changes an exchange. The field `hedged` is an exception, because a Hedge below
// sets it, and Base may call the Hedge in another goroutine. The exchange is also the context of
// the loop. So RequestOf and Hedged find the exchange in the context that OnEvent and Wait get.
type exchange struct {
	context.Context // the context of req

	// The methods RoundTrip, `fetch`, `run` and loopPolicy set these fields before the first attempt.
	t      *Transport
	req    *http.Request // the caller's request
	policy *retry.Policy // the policy of WithPolicy, or else the Policy of the Transport
	checks CheckFunc     // the Transport's Check; in `fetch` (resume.go), a function that calls it
	gate   *passage      // the passage through the Gate; nil: no attempt is held back
	budget *retry.Budget // the Budget for retries; nil: no limit (a nil Budget allows all retries)
	once   error         // why the request can be sent only once; nil: it can be sent again
	done   func()        // ends the use of a target's Budget; nil: `budget` is no target's Budget

	// plain is true if Base is an http.Transport and no function of the user sees the request or the
	// response of an attempt. Then attempts share the header and the URL of the caller's request.
	// See Transport.plain for all conditions.
	plain bool

	// needsProof is true if the request could be sent again but is not idempotent. Then a retry needs
	// proof that the server cannot have processed the previous attempt, so each attempt is traced.
	needsProof bool

	// These fields change with each attempt.
	skipBudget bool           // the next retry takes nothing from the Budget
	replaced   bool           // the error of an Enter has replaced the failure of the last attempt
	unhealthy  bool           // Check has marked the error of the last attempt as mark.Unhealthy
	wait       time.Duration  // the wait with which Check has marked the error, as mark.Wait; 0: none
	unprepared bool           // Prepare or GetBody has failed in the last attempt
	renewed    bool           // a 401 or 407 has set skipBudget; a further 401 or 407 does not set it
	hedged     atomic.Bool    // the answer of the last attempt came from the second request of a Hedge
	last       *attempt       // the last attempt; nil before the first attempt
	previous   *attempt       // the attempt before the last one; nil: none
	lost       *attempt       // an attempt before the last one, whose answer was lost; nil: none
	mayBeDone  bool           // a server may have processed an attempt before the last one
	failure    error          // what Check returned last; nil: success, or Check was not called yet
	resp       *http.Response // the last attempt's response; nil: none, or discarded, or returned

	first attempt // memory for the first attempt, because most exchanges make only one
}

// The method `run` calls fn for each attempt that the loop makes. In RoundTrip, fn is the method
// `attempt`. In `fetch`, fn is a function that calls `attempt`.
func (x *exchange) run(fn func(context.Context) error) error {
	x.Context = x.req.Context()
	if x.last == nil { // not in `fetch`: there, the call before has followed the redirect
		x.lost = lostBeforeRedirect(x.req)
		x.mayBeDone = x.lost != nil
	}
	return x.complete(retry.Do(x, x.loopPolicy(), fn))
}

// loopPolicy returns the policy of the loop, and sets the fields that depend on the request.
func (x *exchange) loopPolicy() retry.Policy {
	p := *x.policy
	p.Wait, p.Budget, p.Classify = x.discardAndWait, x.budget, x.classify
	if x.gate = x.t.Gate.newPassage(x); x.gate != nil || p.Enter != nil {
		p.Enter = x.enter
	}
	if retryIf := p.RetryIf; retryIf != nil {
		p.RetryIf = func(err error) bool { return x.unprepared || retryIf(err) }
	}
	x.once = x.cannotRepeat()
	// If the request cannot be sent again, it does not matter what the server has processed.
	x.needsProof = x.once == nil && !x.t.idempotent(x.req)
	return p
}

// hasBody reports whether req has a body, in Body or from GetBody. A caller may set only GetBody,
// so that no body is left open if the request is never sent. net/http alone would ignore GetBody
// then.
func hasBody(req *http.Request) bool {
	return req.Body != http.NoBody && (req.Body != nil || req.GetBody != nil)
}

// cannotRepeat returns why the request can be sent only once, or nil if it can be sent again. The
// result is stored in x.once, because a Hedge below may need it late: the caller may then have
// closed the body of the response already, and may be changing the request.
func (x *exchange) cannotRepeat() error {
	switch {
	case hasBody(x.req) && x.req.GetBody == nil:
		return errNoGetBody
	case x.req.Trailer != nil:
		// Reading the body may write to the map Trailer. All attempts share this map, and the body of an
		// attempt that has ended may still be read.
		return errTrailer
	case hasLongHost(x.req):
		// http.Transport computes the punycode of the host in each attempt, and no context ends
		// this computation.
		return errLongHost
	default:
		return nil
	}
}

// The loop calls the method `enter` before each attempt if there is a Gate or the caller's policy
// has an Enter. The method does nothing for attempt 1 of an exchange that fetches the missing bytes
// of a download. There, attempt 1 is the attempt whose body broke off, so no request is sent for
// it.
func (x *exchange) enter(ctx context.Context, e retry.Event) error {
	if e.Attempt == 1 && x.last != nil {
		return nil
	}
	began := time.Now()
	if x.gate != nil {
		if refused := x.gate.hold(e.Elapsed); refused != nil {
			x.refuse()
			return refused
		}
	}
	if x.policy.Enter == nil {
		return nil
	}
	err := x.policy.Enter(ctx, e)
	if err != nil {
		x.replaced = replacesError(err)
		x.refuse()
	} else if x.gate != nil {
		// A pause may have begun while Enter waited. If the limits do not allow such a long wait, the
		// attempt is made at once, because Enter may have taken something that the end of the attempt
		// gives back.
		_ = x.gate.hold(e.Elapsed + time.Since(began))
	}
	return err
}

// replacesError reports whether the call takes its Err from an error of Enter: see Policy.Enter.
func replacesError(err error) bool {
	e, is := err.(*retry.Error)
	if !is || e == nil || e.Err == nil {
		return false
	}
	return e.Reason != "" && e.Reason != retry.ReasonSuccess && e.Reason != retry.ReasonRetry
}

// The method `refuse` is called when `enter` refuses an attempt. For hidesLoss, this attempt counts
// like one whose Prepare fails: it was not sent.
func (x *exchange) refuse() {
	if x.last != nil {
		x.next().end()
	}
}

// The method `attempt` makes one attempt. It returns the error of the attempt, or nil if the
// attempt succeeded.
//
// If the policy has an AttemptTimeout, ctx ends after this time, or when the method `attempt`
// returns. But the caller may read the body of the response later. So the request has a context of
// its own, which AttemptTimeout can cancel only while the method `attempt` runs.
func (x *exchange) attempt(ctx context.Context) error {
	a, returned := x.next(), false
	x.hedged.Store(false)
	defer func() {
		if !returned { // Base or Check has panicked
			a.cancel(nil)
		}
	}()
	// inTime stops the timeout below, and returns false if ctx has already ended. Without an
	// AttemptTimeout, there is no timeout to stop, and inTime returns true.
	inTime := func() bool { return true }
	var tooLate *timeoutError
	if x.policy.AttemptTimeout > 0 {
		tooLate = &timeoutError{after: x.policy.AttemptTimeout}
		inTime = context.AfterFunc(ctx, func() {
			// ctx also ends if the caller's context ends. In this case the attempt's context gets the cause
			// of the caller's context, and must not get the cause tooLate.
			if x.Err() == nil {
				a.cancel(tooLate)
			}
		})
	}
	resp, err := a.send()
	x.resp = resp
	x.failure = x.check(err)
	// AttemptTimeout limits Check too. If AttemptTimeout has passed, the attempt fails, even if Check
	// has accepted the response. If the caller's context has ended, no attempt follows, and the result
	// of Check is kept. net/http does the same: it returns a response even if the request's context
	// ends right after the header has arrived.
	if !inTime() && x.resp != nil && x.Err() == nil {
		x.discard() // the timeout has canceled the attempt, so the body can no longer be read
		x.failure = x.check(&timeoutError{tooLate.after, resp.StatusCode})
	}
	a.failure = x.failure
	x.settle()
	end := a.cancel
	if x.failure == nil && x.resp.ProtoMajor >= 2 && a.upload.Load() == uploading {
		end = a.endAfterUpload
	}
	if x.resp != nil && x.resp.Body != nil && x.resp.Body != http.NoBody {
		// Over HTTP/2, this may be the body of a 204 or of the answer to a HEAD. It must not be replaced
		// by http.NoBody, because Base may have wrapped it to see its Close. Its context must not end
		// before the body, because the server may still be at work, or send trailers.
		//
		// This must come after Check, which may read the body, close it, and set another body.
		x.resp.Body = cancelAtEnd(x.resp.Body, a.cancel, end, &a.body)
	} else {
		end(nil)
	}
	returned = true
	err = x.failure
	if !a.to.known.Load() { // Base got no request, so the loop gives the retry back to the Budgets
		err = retry.NotAttempted(err)
	}
	if x.wait > 0 && x.wait > retry.RetryAfterOf(err) {
		err = retry.After(x.wait, err)
	}
	if x.unhealthy {
		err = mark.Unhealthy{Err: err}
	}
	return err
}

// The method `next` makes the next attempt. Its context is a child of the context of the caller's
// request. If the server may have processed the previous attempt without confirming it (see
// isLost), `next` may store the previous attempt in x.lost.
func (x *exchange) next() *attempt {
	a := &x.first
	if before := x.last; before != nil {
		a, x.previous = &attempt{number: before.number}, before
		x.mayBeDone = x.mayBeDone || before.mayBeDone
		// The error of x.lost may become the field Before of the call's error, as a possible cause of a
		// later 4xx. Among equals, the first attempt is the most likely cause.
		if before.isLost() && (x.lost == nil || before.isLikelierThan(x.lost)) {
			x.lost = before
		}
	}
	a.x, a.number = x, a.number+1
	a.Context, a.cancel = context.WithCancelCause(x.Context)
	x.last = a
	if x.gate != nil {
		x.gate.told.Store(0)
	}
	return a
}

// The method `check` returns the error of the last attempt, or nil if the attempt succeeded. If the
// parameter err is nil, x.resp is the response. Otherwise x.resp is nil, and err says why there is
// no response.
func (x *exchange) check(err error) error {
	if unsent, ok := err.(unsentError); ok { // Prepare or GetBody has failed, so Base got no request
		x.unprepared, x.unhealthy, x.wait = true, false, 0
		return unsent.error
	}
	// Check gets a request without the trace, because Check may send another request in its context.
	req := &x.last.made
	if _, late := err.(*timeoutError); late {
		// The context of the attempt is done. Check gets a context that is not done, so that Check does
		// not mistake the timeout for the end of the caller's context. Like the context of the attempt,
		// this context has no policy. It also has attemptKey, by which the function Check finds the
		// Transport.
		ctx := context.WithValue(x.Context, policyKey{}, nil)
		req = req.WithContext(context.WithValue(ctx, attemptKey{}, x.last))
	}
	var failure error
	failure, x.unhealthy = mark.CutUnhealthy(x.checks(req, x.resp, err))
	x.wait, failure = mark.CutWait(failure)
	if x.gate != nil && x.resp != nil && x.isOwn(failure) && !x.hasLearned(failure) {
		x.gate.learn(x.resp.StatusCode, failure)
	}
	if err != nil && failure == nil { // Check cannot turn an error into a success
		return retry.Permanent(err)
	}
	return failure
}

// isOwn reports whether `failure` is not about the response of another server. A Check may fetch a
// token, and return the StatusError of the token's server, or the error of a Gate for that server.
// If the wait of `failure` is a wait of joined errors, the first of these errors with a wait
// counts, as it does for RetryAfterOf.
func (x *exchange) isOwn(failure error) bool {
	wait := retry.RetryAfterOf(failure)
	for err := failure; err != nil; err = errors.Unwrap(err) {
		joined, ok := err.(interface{ Unwrap() []error })
		if ok && retry.RetryAfterOf(err) == wait {
			errs := joined.Unwrap()
			first := slices.IndexFunc(errs, func(e error) bool { return retry.RetryAfterOf(e) > 0 })
			return first < 0 || x.isOwn(errs[first])
		}
	}
	if errors.As(failure, new(gate.Held)) {
		return false
	}
	e := statusErrorIn(failure)
	return e == nil || e.isOf(x.resp.Request, x.last.given)
}

// hasLearned reports whether a Hedge has already told the Gate about the answer of the last
// attempt, with a wait that is at least as long as the wait in `failure`.
func (x *exchange) hasLearned(failure error) bool {
	return x.hedged.Load() && int64(retry.RetryAfterOf(failure)) <= x.gate.told.Load()
}

// The method `unsent` returns the error of an attempt that is not sent because of err. The error
// includes the error of the previous attempt. If err is nil or the error of AttemptTimeout, the
// result is err.
func (x *exchange) unsent(what string, err error) error {
	if _, late := err.(*timeoutError); late || err == nil {
		return err
	}
	err = fmt.Errorf("%s: %w", what, err)
	if x.failure != nil {
		err = fmt.Errorf("%w (the attempt before: %w)", err, pastError{error: x.failure})
	}
	return err
}

// The method `settle` adds the Ratio of the Budget to the Budget if the attempt failed with a
// status that shows that the server works. After a success, retry.Do adds the Ratio. A response
// with a Retry-After does not show that the server works, because it asks for fewer requests.
//
// `settle` also sets x.skipBudget: the first retry after a 401 or a 407 takes nothing from the
// Budget of a target, because the request may need only new credentials.
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
	errTrailer    = errors.New("the request has a Trailer, so it is sent once")
	errUnprepared = errors.New("the request was not sent")

	errLongHost = errors.New("the host has more than 1,024 bytes, so the request is sent once")

	errSeeBudgets   = errors.New("see retryhttp.Transport.Budgets")
	errSetNoBudgets = errors.New("to wait until a server has started, " +
		"set retryhttp.Transport.Budgets to retryhttp.NoBudgets")
)

// The method `classify` is the Classify of the loop. If the request may not be sent again after
// this failure, `classify` returns a NonRetryable class. Otherwise it returns the class of the
// caller's Classify, and adds SkipBudget if x.skipBudget is set.
func (x *exchange) classify(err error) *retry.Class {
	if x.unprepared {
		// The mark of retry.Permanent would also end a loop around this call, or bury the job that made
		// it. But the next call may succeed, for example when the server of Prepare's token is up again.
		return &retry.Class{NonRetryable: true, Cause: errUnprepared}
	}
	cause := x.once
	if cause == nil && x.needsProof && (x.last.mayBeDone || x.mayBeDone) {
		cause = fmt.Errorf(
			"the server may have processed this %s; see retryhttp.Transport.Idempotent",
			printable.Method(x.req.Method))
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
	var skips retry.Class // a copy, because the class belongs to the caller
	if class != nil {
		skips = *class
	}
	skips.SkipBudget = true
	return &skips
}

// discardAndWait is the Wait of the loop. First it discards the response of the last attempt, so
// that its connection can be used again. Then it waits for the rest of d, with the caller's Wait if
// the policy has a Wait. The loop calls discardAndWait before each retry, even if d is 0. The
// result `skipped` is the part of the wait that the caller's Wait has skipped.
func (x *exchange) discardAndWait(
	ctx context.Context, d time.Duration,
) (skipped time.Duration, err error) {
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

// The method `discard` discards the response of the last attempt, if there is one.
func (x *exchange) discard() {
	if resp := x.resp; resp != nil {
		x.resp = nil
		forgetBody(x.failure, resp.Request, x.last.given)
		x.last.discard(resp, 0)
	}
}

// The method `complete` adds details to the error of the loop, and returns this error. After a
// success err is nil.
//
//   - If the Budget of a target was empty, the Cause says how to set another Budget.
//   - If the last attempt was refused, the refusal may be the effect of an earlier request whose
//     answer was lost. If the last attempt was not sent or got no answer, its error may hide such a
//     request: see hidesLoss. In all these cases Before is the error of the earlier request: see
//     lostAnswer. If there is no such request, `complete` does not change Before. The loop sets
//     Before if the last error is only a timeout, for example because Check did not return in time.
//
// OnEvent has already got the event CallFinished, without these details.
func (x *exchange) complete(err error) error {
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
	// Two timeouts say no more than one.
	if lost := x.lostAnswer(); x.hidesLoss(lost, e.Reason) && !(lost.timedOut() && x.showsTimeout()) {
		e.Before = cmp.Or(lost.lostAs(), e.Before)
	}
	return err
}

// showsTimeout reports whether the error of the call contains a timeout of the last attempt. If the
// last attempt was not sent, its error contains the failure of the previous attempt.
func (x *exchange) showsTimeout() bool {
	unsent := x.last != nil && !x.last.to.known.Load() && !x.replaced
	return x.last.timedOut() || unsent && x.previous.timedOut()
}

// hidesLoss reports whether the error of the last attempt does not say that a server may have
// processed an earlier request, the one of the attempt `lost`. The parameter `reason` says why the
// call ended.
func (x *exchange) hidesLoss(lost *attempt, reason retry.Reason) bool {
	switch last := x.last; {
	case last == nil:
		return true // nothing was sent here, but a redirect may have led to this exchange
	case !last.to.known.Load():
		// The attempt was not sent. Its error contains the failure of the previous attempt, unless
		// AttemptTimeout has ended it.
		if last.late || x.replaced || x.lost == nil || x.lost != x.previous {
			return true
		}
		// In `fetch`, x.lost may be the body that broke off, whose `before` is the failure itself.
		return x.lost.before != nil && x.lost.failure != nil
	case last.status != 0: // a refusal may be the effect of the earlier request
		if last.status/100 == 4 || retry.IsPermanent(last.failure) {
			return true
		}
		// Both answers may be below 400 if Check waits until a job is done. Then nothing was lost.
		rejected := reason == retry.ReasonRejected || reason == retry.ReasonNonRetryable
		return rejected && last.status < 400 && lost != nil &&
			(lost.before != nil || lost.status == 0 || lost.status >= 400)
	default: // no answer; an error such as "connection refused" may hide that the request was sent
		return last.failure != nil && !isSafe(last.req)
	}
}

// lostAnswer returns the attempt with an earlier request whose answer was lost, or nil. The request
// was sent in the last attempt, in an earlier attempt, or before a redirect that led to x.req.
func (x *exchange) lostAnswer() *attempt {
	if x.last != nil && x.last.before != nil {
		return x.last
	}
	return x.lost
}

// The method `answer` returns the results of RoundTrip after the loop has stopped with err. After a
// success it returns the last response. After a failure it also returns the last response, except
// in three cases:
//
//   - There is no response, or it was discarded before a wait.
//   - The policy is invalid. This is a mistake in the program, and a response could hide it.
//   - The context of the caller's request is done, so the body can no longer be read.
func (x *exchange) answer(err error) (*http.Response, error) {
	ctx := x.Context
	switch {
	case x.resp == nil: // err is not nil, because an attempt without a response does not succeed
	case err == nil, ctx.Err() == nil && retry.ReasonOf(err) != retry.ReasonInvalid:
		return x.handOver(err), nil
	case ctx.Err() != nil && !includes(err, context.Cause(ctx)):
		// The context ended after the loop had stopped for another reason.
		err = fmt.Errorf("%w (and then %w)", err, context.Cause(ctx))
	}
	return nil, asNetError(err)
}

// The function `includes` reports whether err contains `cause`. errors.Is would panic if `cause` is
// a struct with a map in it. Then `includes` returns true, so `cause` is not added to the text.
func includes(err, cause error) bool {
	return !reflect.ValueOf(cause).Comparable() || errors.Is(err, cause)
}

// handOver returns the last response. From now on the response belongs to the caller. err is nil
// after a success, and otherwise says why there was no further attempt. handOver stores err in the
// context of the response's Request, where ErrorOf and Result find it.
func (x *exchange) handOver(err error) *http.Response {
	resp := x.resp
	x.resp = nil
	stop := stopInfo{status: resp.StatusCode, attempt: x.last, err: err}
	if resp.StatusCode/100 == 3 {
		stop.lost = x.lostAnswer()
	}
	if stop.err != nil || stop.lost != nil {
		// send sets the Request of each response, but Check or Advise may have set it to nil.
		resp.Request = stop.addTo(cmp.Or(resp.Request, x.req))
	}
	if err != nil {
		resp.Header = resp.Header.Clone() // the StatusError in err has the original
	}
	if x.t.Resume && hasText(resp) {
		resp.Body = x.resume(resp)
	}
	return resp
}

// lostBeforeRedirect returns the attempt whose answer was lost before the redirect that led to req,
// or nil. http.Client sets the field Response of req. If the redirect has changed the method, req
// is another request, and the result is nil.
func lostBeforeRedirect(req *http.Request) *attempt {
	if req.Response == nil {
		return nil
	}
	before := req.Response.Request
	s := stopInfoIn(before)
	if s == nil || cmp.Or(before.Method, http.MethodGet) != cmp.Or(req.Method, http.MethodGet) {
		return nil
	}
	return s.lost
}

// cleanUp ends the use of the target's Budget. It closes the body of a request that was never sent,
// and discards the last response if the caller does not get it. cleanUp also runs after a panic.
func (x *exchange) cleanUp() {
	if x.done != nil {
		x.done() // first, because Close and `discard` may panic
	}
	if x.last == nil && x.req.Body != nil {
		_ = x.req.Body.Close() // no attempt has closed it
	}
	x.discard()
}

// Value returns the exchange for the key ctxvalue.Hedge, which RequestOf and Hedged both use. For
// policyKey it returns nil: OnEvent and Wait get x as their context, and a request that they send
// with it must not use the policy of WithPolicy. For any other key it returns the value in the
// context of the caller's request.
func (x *exchange) Value(key any) any {
	switch key.(type) {
	case ctxvalue.Hedge:
		return x
	case ctxvalue.Large:
		return true
	case policyKey:
		return nil
	default:
		return x.Context.Value(key)
	}
}

// String returns only a name, because the text of a context must not contain the request.
func (x *exchange) String() string { return "retryhttp.exchange" }

// isFor reports whether ctx is x, or a context that was made from x and does not belong to an
// attempt of another request. OnEvent or Wait may send another request with the context x through a
// Transport. Each attempt of that other request has a context made from x, so Hedged would find x
// there too. But such a context contains an attempt of the other request, so isFor reports false.
func (x *exchange) isFor(ctx context.Context) bool { return attemptIn(ctx) == attemptIn(x.Context) }

// The function Hedged calls this method. The method reports whether the answer of the last attempt
// came from a second request. It reports false if ctx belongs to another attempt: see isFor.
func (x *exchange) Hedged(ctx context.Context) bool { return x.hedged.Load() && x.isFor(ctx) }
