package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/goretry/retry"
)

// A Transport is an http.RoundTripper that sends a request through another one,
// as often as its Policy allows. It is safe for concurrent use. Do not change its
// fields while it is in use.
//
// The request's context bounds all its attempts and waits, and the error says why
// they stopped. http.Client.Timeout bounds them too, but net/http may then replace
// the error by one of its own, which has no Reason. A deadline that comes before
// the end of a wait ends the call at once, and the last response is returned. The
// deprecated Cancel of a request reaches Base alone.
//
// http.Transport itself repeats a request when a connection that it kept turns
// out to be dead. That is part of one attempt. http.Client follows redirects
// around the Transport: each hop is a request with all the attempts of the policy.
type Transport struct {
	Base http.RoundTripper // sends each attempt; nil: http.DefaultTransport

	// Policy says how often to send a request, and when. The zero Policy sends
	// it once. A request can have a policy of its own: see WithPolicy.
	//
	// RetryIf and Classify get what Check returns: a *StatusError, or the error
	// of Base. RetryIf can only reject what Check wants to retry; do not set it
	// to retrynet.Transient, which knows no status. Classify is not
	// called for a request that cannot be sent again. OnEvent and Wait get a
	// context with the values of the request's.
	//
	// AttemptTimeout limits the time until the headers of the response have
	// arrived and Check has returned; reading the body of the final response
	// may take longer. The context that Base gets is canceled by it, and does
	// not have it as its Deadline.
	//
	// A request that succeeds puts its share into the Budget. So does a failure
	// that shows a healthy server: every status from 400 to 499 except 408, 425,
	// 429, and those with a Retry-After.
	Policy retry.Policy

	// Idempotent reports whether the server may process a request more than
	// once. If not, the request is sent again only when the server cannot have
	// processed it. nil: the function Idempotent.
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
	// error into a success: nil for an error is treated as permanent.
	//
	// Return or wrap NewStatusError(resp), or retry.After, to keep the server's
	// Retry-After. A Check that reads the body of the response must
	// replace it by one that reads the same, and close the one it replaces.
	// nil: the function Check.
	Check func(*http.Request, *http.Response, error) error

	// RetryAfter reads what a response with a status of 400 or above says about
	// another attempt: the wait that the server asks for, 0 if none, below 0 if
	// it wants no other attempt; and again, if it asks for another attempt that
	// its status alone would not get. NewStatusError and the
	// function Check use it for the responses of this Transport. nil: the
	// function RetryAfter, which reads the header of that name. VendorRetryAfter
	// reads more.
	RetryAfter func(resp *http.Response) (wait time.Duration, again bool)
}

// RoundTrip sends a request until an attempt succeeds or the policy says to
// stop. It returns the last response, whatever its status, with an unread body.
// Read it or close it: the attempt's context ends with it.
//
// RoundTrip returns an error if the last attempt got no response, if the request's
// context is done, if the call stopped in a wait, or if an attempt failed under an
// invalid policy. errors.As finds a [*retry.Error] in it. [retry.ReasonOf] and
// [retry.LastError] also see through the *url.Error that http.Client puts around
// it, but not through what http.Client makes of its own Timeout, which is text
// alone.
//
// Each attempt sends a copy of req, so that Base and Prepare may change it. Only
// the map of its Trailer is the caller's own, which may be filled in while the
// body is read. The first attempt sends the body, each later one what GetBody
// returns. A request whose body has no GetBody is sent once: see [SetBody].
//
// An attempt ends when the response headers arrive. Errors while reading the body
// are not retried. To retry those too, read the body inside [retry.Do], with the
// RetryIf of package retrynet, and without a Transport: attempts would multiply.
//
// The body of each response before the last is read, up to 64 KiB and for at
// most 100 ms, and closed, so that its connection is free during the wait. That
// time is part of the wait. One goroutine reads the body and then closes it, so a
// Base may pool its readers. If reading takes 90 ms, the attempt is canceled. If
// Read ignores cancellation, that goroutine lives until Read returns; the call
// continues after 100 ms.
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
// of the Policy of their [Transport]. To keep its Budget and OnEvent, copy the
// Transport's policy and change the copy. The zero Policy sends a request once. p
// is for the Transport that gets the request, not for those below it.
func WithPolicy(ctx context.Context, p retry.Policy) context.Context {
	return context.WithValue(ctx, policyKey{}, &p)
}

type policyKey struct{}

// AttemptOf returns the number of the attempt whose context a RoundTripper got:
// 1 for the first, and where ctx does not come from a [Transport].
//
// With OpenTelemetry's otelhttp, put a RoundTripper inside it to get a span for
// each attempt that has the attribute http.request.resend_count:
//
//	type resendCount struct{ base http.RoundTripper }
//
//	func (r resendCount) RoundTrip(req *http.Request) (*http.Response, error) {
//		if n := retryhttp.AttemptOf(req.Context()); n > 1 {
//			span := trace.SpanFromContext(req.Context())
//			span.SetAttributes(semconv.HTTPRequestResendCount(n - 1))
//		}
//		return r.base.RoundTrip(req)
//	}
//
//	&retryhttp.Transport{Base: otelhttp.NewTransport(resendCount{http.DefaultTransport}), Policy: policy}
//
// How often a request was sent in all is in the Error, and in the Stopped event
// that OnEvent gets.
func AttemptOf(ctx context.Context) int {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return int(a.number)
	}
	return 1
}

// An exchange is one call of RoundTrip. It is also the context of the loop: it
// passes on the request's own, and is itself the value by which the loop's Wait
// finds it. Its size matters: it is most of what a request that succeeds at once
// costs.
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

type exchangeKey struct{}

func (x *exchange) Deadline() (time.Time, bool) { return x.req.Context().Deadline() }
func (x *exchange) Done() <-chan struct{}       { return x.req.Context().Done() }
func (x *exchange) Err() error                  { return x.req.Context().Err() }

func (x *exchange) Value(key any) any {
	if _, is := key.(exchangeKey); is {
		return x
	}
	return x.req.Context().Value(key)
}

// choose returns the policy of this exchange as the loop needs it.
func (x *exchange) choose() retry.Policy {
	x.policy = &x.t.Policy
	if p, ok := x.Value(policyKey{}).(*retry.Policy); ok {
		x.policy = p
	}
	p := *x.policy
	p.Wait = discardAndWait
	if p.AttemptTimeout > 0 && p.HealthyAfter <= 0 {
		// attempt ends itself, without one more context. Only to judge which
		// attempts were healthy does the loop need to know.
		p.AttemptTimeout = 0
	}
	switch {
	case x.cannotRewind():
		p.Classify = x.classify
	case !x.t.idempotent(x.req):
		x.first.once, p.Classify = true, x.classify
	}
	return p
}

func (x *exchange) hasBody() bool { return x.req.Body != nil && x.req.Body != http.NoBody }

// cannotRewind reports whether the body of the request can be sent only once.
func (x *exchange) cannotRewind() bool { return x.hasBody() && x.req.GetBody == nil }

var errNoGetBody = errors.New("the request has no GetBody, so its body cannot be sent again; see retryhttp.SetBody")

// classify is the Classify of a request that cannot be sent again after every
// failure. After one where it can, the policy's own decides.
func (x *exchange) classify(err error) *retry.Class {
	switch {
	case x.cannotRewind():
		return x.final(errNoGetBody)
	case x.last.mayBeDone:
		return x.final(fmt.Errorf("the server may have processed this %s; see retryhttp.Transport.Idempotent", cmp.Or(x.req.Method, http.MethodGet)))
	case x.policy.Classify != nil:
		return x.policy.Classify(err)
	default:
		return nil
	}
}

// final returns the class of a failure that is the last, for this cause. It has
// the delays of the policy: a caller who tries again must wait too.
func (x *exchange) final(cause error) *retry.Class {
	p := *x.policy
	p.NonRetryable = true
	return &retry.Class{Policy: &p, Cause: cause}
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
		x.discard() // its context is canceled: it could not be read
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
		x.policy.Budget.Success()
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
