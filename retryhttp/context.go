package retryhttp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
)

// WithPolicy returns a context for requests that are to be sent under p instead of the Policy
// of their [Transport]. To keep its Budget and OnEvent, copy that and change the copy. The zero
// Policy sends a request once. p is for the Transport that gets the request, not for those
// below it.
func WithPolicy(ctx context.Context, p retry.Policy) context.Context {
	return context.WithValue(ctx, policyKey{}, &p)
}

type policyKey struct{}

// AttemptOf returns the number of the attempt whose context a RoundTripper got: 1 for
// the first, and if ctx does not come from a [Transport]. Both requests of a [Hedge] have
// the same number; [Hedged] says which is the second.
//
// For a span of each attempt, as OpenTelemetry asks for it, set Base to
// otelhttp.NewTransport(resendCount{http.DefaultTransport}):
//
//	func (r resendCount) RoundTrip(req *http.Request) (*http.Response, error) {
//		if n := retryhttp.AttemptOf(req.Context()); n > 1 {
//			trace.SpanFromContext(req.Context()).SetAttributes(semconv.HTTPRequestResendCount(n - 1))
//		}
//		return r.base.RoundTrip(req)
//	}
func AttemptOf(ctx context.Context) int {
	if a := attemptIn(ctx); a != nil {
		return a.number
	}
	return 1
}

type attemptKey struct{}

// RequestOf returns the request that a [Transport] was given, for the context that
// OnEvent and Wait of its policy get: there is a request for each event, even after a
// dial that was refused. It returns nil for any other context, such as the context
// of an attempt.
func RequestOf(ctx context.Context) *http.Request {
	if x, ok := ctx.Value(ctxvalue.Hedge{}).(*exchange); ok {
		return x.req
	}
	return nil
}

// ErrorOf returns why the last response of a [Transport] was the last: the
// *retry.Error that RoundTrip did not return because there is a response. It returns
// nil if the attempt succeeded, and if resp does not come from a Transport. If one Transport
// is on top of another, the outer one's error is returned.
//
// It is found by resp.Request, whatever became of the body.
func ErrorOf(resp *http.Response) error {
	if s := stoppedBy(resp); s != nil {
		return s.err
	}
	return nil
}

// Result turns a response with a status from 400 on into an error, whoever got it, and a
// response that a [Transport] gave up on, whatever its status:
//
//	resp, err := retryhttp.Result(client.Do(req))
//
// The error is the one that [ErrorOf] has. If it has none, because the response does not come
// from a Transport, or because the Check of that accepts the status, the error is what the
// function [Check] returns: errors.As finds a [*StatusError], and the error of a 404 is permanent.
//
// The response is read, up to 64 KiB and for at most 100 ms, and closed, so that its
// connection can be used again. The StatusError in the error keeps the first KiB as its Body.
// Any other response, and any err, is returned as it is.
func Result(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp == nil {
		return resp, err
	}
	var a *attempt
	of := resp.Request
	switch s := stoppedBy(resp); {
	case s != nil:
		a, of, err = s.attempt, s.of, s.err
	case resp.StatusCode >= 400:
		err = Check(resp.Request, resp, nil)
	default:
		return resp, nil
	}
	if a == nil || a.Err() != nil { // the body was read, and there may be another
		a = attemptFor(resp)
	}
	text := a.discard(resp, keptBytes)
	if e := (*StatusError)(nil); errors.As(err, &e) {
		e.keep(of, text)
	}
	return nil, err
}

// A stopped is what the context of the Request of a last response has, if that failed.
type stopped struct {
	req     *http.Request
	of      *http.Request // that the response would have had
	attempt *attempt      // the last
	err     error         // why there was no other
}

type stoppedKey struct{}

// stoppedBy returns what the Request of resp has. One that was made with the context of
// such a Request is another.
func stoppedBy(resp *http.Response) *stopped {
	if resp == nil || resp.Request == nil {
		return nil
	}
	if s, ok := resp.Request.Context().Value(stoppedKey{}).(*stopped); ok && resp.Request == s.req {
		return s
	}
	return nil
}

// attemptOf returns the attempt whose request req is, or nil. The context alone does not tell:
// a token that Prepare or Base fetches meanwhile has it too.
func attemptOf(req *http.Request) *attempt {
	if req == nil {
		return nil
	}
	if a := attemptIn(req.Context()); a != nil && a.to.isOf(req) {
		return a
	}
	return nil
}

// attemptIn returns the attempt in whose context something happens, or nil.
func attemptIn(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// A destination is where an attempt leads. A RoundTripper between a Transport and another one
// of this package may copy the request, but does not lead it elsewhere.
type destination struct {
	known  atomic.Bool // Base has the request; Prepare may have started goroutines that ask
	req    *http.Request
	method string
	url    *url.URL
	copied url.URL // Base may change url
}

// set notes the destination of a request.
func (d *destination) set(req *http.Request) {
	if req.URL != nil {
		d.copied = *req.URL
	}
	d.req, d.method, d.url = req, req.Method, req.URL
	d.known.Store(true)
}

// isOf reports whether it is the destination of req.
func (d *destination) isOf(req *http.Request) bool {
	switch {
	case !d.known.Load():
		return false
	case req == d.req: // Base may have led it elsewhere
		return true
	case req.URL == d.url || req.URL == nil:
		return req.URL == d.url
	}
	u, c := req.URL, &d.copied
	return req.Method == d.method && u.Scheme == c.Scheme && u.Host == c.Host &&
		u.Path == c.Path && u.RawQuery == c.RawQuery
}
