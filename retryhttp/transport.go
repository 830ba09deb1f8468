package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/hook"
)

// A Transport is an http.RoundTripper that sends a request through another one,
// as often as its Policy allows. It is safe for concurrent use; its fields must
// not be changed while it is in use.
type Transport struct {
	Base http.RoundTripper // sends each attempt; nil: http.DefaultTransport

	// Policy says how often to send a request, and when. The zero Policy sends
	// it once. A request can have a policy of its own: see WithPolicy.
	//
	// RetryIf and Select get what Check returns: a *StatusError, or the error of
	// Base. RetryIf can only reject what Check found worth another attempt; do
	// not set it to retrynet.Transient, which knows no status. OnEvent gets a
	// context with the values of the request's.
	//
	// AttemptTimeout limits the time until the headers of the response have
	// arrived and Check has returned; reading the body of the final response
	// may take longer. The context that Base gets is canceled by it, and does
	// not have it as its Deadline.
	//
	// Besides the requests that succeed, each failure that shows a healthy
	// server puts into the Budget: every status from 400 to 499 except 408, 425,
	// 429, and those with a wait that the server asks for.
	Policy retry.Policy

	// Idempotent reports whether a request may be carried out more than once.
	// One that may not is sent again only where it cannot have been carried
	// out. nil: the function Idempotent.
	Idempotent func(*http.Request) bool

	// Prepare is called before each attempt with the request that is about to
	// be sent, the number of the attempt, and what the attempt before failed
	// with: nil before the first, a *StatusError if there was a response. It may
	// change the request, which is a copy of the caller's: set headers, sign it
	// again, or replace a token; if it replaces Body, GetBody too. If it returns
	// an error, the request is not sent and the call fails with that error. nil:
	// the request is sent as it is.
	//
	// PrepareAWS and PrepareEnvoy are ready-made.
	Prepare func(req *http.Request, attempt int, last error) error

	// Check returns what an attempt failed with: nil if it succeeded, and an
	// error marked retry.Permanent if another attempt cannot do better. It gets
	// the caller's request, and either a response or an error. It cannot turn an
	// error into a success: nil for an error counts as permanent.
	//
	// Return or wrap NewStatusError(resp), or retry.After, to keep the wait that
	// the server asks for. A Check that reads the body of the response must
	// replace it by one that reads the same, and close the one it replaces.
	// nil: the function Check.
	Check func(*http.Request, *http.Response, error) error

	// RetryAfter reads what a response with a status of 400 or above says about
	// another attempt: the wait that the server asks for, 0 if none, below 0 if
	// it wants no other attempt; and again, if it asks for another attempt
	// although its status alone is not worth one. NewStatusError and the
	// function Check use it for the responses of this Transport. nil: the
	// function RetryAfter, which reads the header of that name. VendorRetryAfter
	// reads more.
	RetryAfter func(resp *http.Response) (wait time.Duration, again bool)
}

// RoundTrip sends a request until an attempt succeeds or the policy says to
// stop. It returns the last response, whatever its status, with an unread body.
// It returns an error, which errors.As finds to be a [*retry.Error], if the last
// attempt got no response, if the request's context has ended, or if an attempt
// failed under an invalid policy.
//
// Each attempt sends a copy of req, so that Base and Prepare may change it; only
// the map of its Trailer is the caller's own, which may be filled in while the
// body is read. The first attempt sends the body, each later one what GetBody
// returns. A request whose body has no GetBody is sent once: see [SetBody].
//
// An error of Base whose own methods panic is replaced by a permanent error that
// names its type.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{t: t, req: req}
	defer x.end()
	err := retry.Do(x, x.choose(), x.attempt)
	switch {
	case x.resp == nil:
	case err == nil || x.stands(err):
		return x.handOver(), nil
	case x.Err() != nil && !errors.Is(err, context.Cause(x)): // after the loop had decided
		err = fmt.Errorf("%w (and then %w)", err, context.Cause(x))
	}
	return nil, asNetError(err)
}

// CloseIdleConnections closes those of Base. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) idempotent(req *http.Request) bool {
	if t.Idempotent == nil {
		return Idempotent(req)
	}
	return t.Idempotent(req)
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// WithPolicy returns a context for requests that are to be sent under p instead
// of the Policy of their [Transport]. All of p counts: copy the Transport's
// policy and change the copy to keep its Budget and OnEvent. The zero Policy
// sends a request once. p is for the Transport that gets the request, not for
// those below it.
func WithPolicy(ctx context.Context, p retry.Policy) context.Context {
	return context.WithValue(ctx, policyKey{}, &p)
}

type policyKey struct{}

// AttemptOf returns the number of the attempt whose context a RoundTripper got:
// 1 for the first, and where ctx does not come from a [Transport].
func AttemptOf(ctx context.Context) int {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return int(a.number)
	}
	return 1
}

// An exchange is one call of RoundTrip. It is also the context of the loop: that
// of the request, with a hook that discards a response before the wait. Its size
// counts: it is most of what a request that succeeds at once costs.
type exchange struct {
	t      *Transport
	req    *http.Request
	policy *retry.Policy // of the request, or else of the Transport

	last      *attempt       // nil before the first
	failure   error          // of the last attempt
	resp      *http.Response // of the last attempt, until it is discarded or handed to the caller
	discarded chan any       // what the discarding of a response ends with; nil before the first

	first attempt // in here, so that a request that succeeds at once needs no other object
}

func (x *exchange) Deadline() (time.Time, bool) { return x.req.Context().Deadline() }
func (x *exchange) Done() <-chan struct{}       { return x.req.Context().Done() }
func (x *exchange) Err() error                  { return x.req.Context().Err() }
func (x *exchange) Value(key any) any           { return x.req.Context().Value(key) }

// choose returns the policy of this exchange as the loop needs it.
func (x *exchange) choose() retry.Policy {
	x.policy = &x.t.Policy
	if p, ok := x.Value(policyKey{}).(*retry.Policy); ok {
		x.policy = p
	}
	p := *x.policy
	if p.AttemptTimeout > 0 {
		// The loop would end the context when the attempt returns, and so the
		// body of the response before the caller has read it.
		p.AttemptTimeout = 0
	}
	switch {
	case x.hasBody() && x.req.GetBody == nil:
		p.NonRetryable = true
	case !x.t.idempotent(x.req):
		x.first.once = true
		p.Select = x.selectOnce
	}
	return p
}

func (x *exchange) hasBody() bool { return x.req.Body != nil && x.req.Body != http.NoBody }

// selectOnce is the Select of a request that must not be carried out twice: it
// allows no retry once the request may have been carried out.
func (x *exchange) selectOnce(err error) *retry.Policy {
	var selected *retry.Policy
	if x.policy.Select != nil {
		selected = x.policy.Select(err)
	}
	if !x.last.mayBeDone {
		return selected
	}
	final := *x.policy
	if selected != nil {
		final = *selected
	}
	final.NonRetryable = true
	return &final
}

// stands reports whether the last response stands although the loop stopped with
// err. It does not if its body cannot be read any more, nor if the policy is
// invalid, which only the error tells.
func (x *exchange) stands(err error) bool {
	return x.Err() == nil && retry.ReasonOf(err) != retry.ReasonInvalid
}

// handOver returns the last response, which from now on is the caller's.
func (x *exchange) handOver() *http.Response {
	resp := x.resp
	x.resp = nil
	if x.failure != nil {
		resp.Header = resp.Header.Clone() // the StatusError that OnEvent got has the other one
	}
	return resp
}

// BeforeWait discards the response that is not to be returned: its connection is
// free for other requests during the wait, and the time it takes is part of the
// wait. The loop finds it, since the exchange is its context. An OnEvent could
// do the same, but costs every request the reading of the clock.
func (x *exchange) BeforeWait(hook.Mark) { x.discard() }

// attempt sends the request once, and returns what that failed with.
func (x *exchange) attempt(context.Context) error {
	a := &x.first
	if x.last != nil {
		a = &attempt{number: x.last.number, once: x.last.once}
	}
	a.x = x
	a.number++
	x.last = a
	defer func() {
		if x.resp == nil {
			a.cancel(nil)
		}
	}()

	inTime := func() bool { return true } // stops the clock, and reports whether it was in time
	timeout := x.policy.AttemptTimeout
	if timeout > 0 {
		inTime = time.AfterFunc(timeout, func() { a.cancel(&timeoutError{timeout}) }).Stop
	}
	resp, err := a.send()
	x.resp = resp
	x.failure = x.check(err)
	if !inTime() && x.resp != nil {
		x.discard() // its context has ended: it could not be read
		x.failure = x.check(&timeoutError{timeout})
	}
	return x.failure
}

// check returns what the last attempt failed with, which got a response or err.
func (x *exchange) check(err error) error {
	if unsent, ok := err.(unsentError); ok {
		return retry.Permanent(unsent.error)
	}
	check := x.t.Check
	if check == nil {
		check = Check
	}
	failure := check(x.req, x.resp, err)
	switch {
	case err != nil && failure == nil:
		return retry.Permanent(err)
	case failure != nil && x.resp != nil && healthy(x.resp.StatusCode) && retry.RetryAfterOf(failure) == 0:
		x.policy.Budget.Put()
	}
	if x.resp != nil && x.resp.Request == &x.last.req {
		x.resp.Request = x.req
	}
	return failure
}

// end frees what the caller does not get, after a panic too.
func (x *exchange) end() {
	if x.last == nil && x.req.Body != nil {
		_ = x.req.Body.Close()
	}
	x.discard()
}
