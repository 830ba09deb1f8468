package retryhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/goretry/retry"
)

// WithPolicy returns a context for requests that are to be sent under p instead
// of the Policy of their [Transport]. To keep its Budget and OnEvent, copy the
// Transport's policy and change the copy. The zero Policy sends a request once. p
// is for the Transport that gets the request, not for those below it.
func WithPolicy(ctx context.Context, p retry.Policy) context.Context {
	return context.WithValue(ctx, policyKey{}, &p)
}

type policyKey struct{}

// AttemptOf returns the number of the attempt whose context a RoundTripper got: 1 for
// the first, and if ctx does not come from a [Transport].
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
// How often a request was sent in all is in the Error, and in the CallFinished event
// that OnEvent gets.
func AttemptOf(ctx context.Context) int {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return int(a.number)
	}
	return 1
}

// RequestOf returns the request that a [Transport] was given, for the context that
// OnEvent and Wait of its policy get: there is a request for each event, even after a
// dial that was refused. It returns nil for any other context, such as the context
// of an attempt.
func RequestOf(ctx context.Context) *http.Request {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x.req
	}
	return nil
}

// ErrorOf returns why the last response of a [Transport] was the last: the
// *retry.Error that RoundTrip did not return because there is a response. It returns
// nil if the attempt succeeded, and if resp does not come from a Transport. If one Transport
// is on top of another, the outer one's error is returned.
//
// It is found by resp.Request. So it is found even if http.Client or another
// RoundTripper has wrapped the body, after the body was closed, and in a copy of
// resp.
func ErrorOf(resp *http.Response) error {
	if s := stoppedBy(resp); s != nil {
		return s.err
	}
	return nil
}

// Result turns a response that a [Transport] gave up on into its error, and leaves
// everything else as it is:
//
//	resp, err := retryhttp.Result(client.Do(req))
//
// The error is the one that [ErrorOf] has, and the response is closed. That is so for a
// 404 too, which [Check] takes for a failure. A redirect, and a response that does not
// come from a Transport, stay what they are.
func Result(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return resp, err
	}
	if gaveUp := ErrorOf(resp); gaveUp != nil {
		_ = resp.Body.Close() // what it fails with would say less
		return nil, gaveUp
	}
	return resp, nil
}

// A stoppedRequest is the Request of a last response that failed, a copy of the one
// it would have had. It is its own context, so that it is one object.
type stoppedRequest struct {
	context.Context
	req http.Request
	of  *http.Request
	err error // why there was no other attempt
}

func newStoppedRequest(of *http.Request, err error) *http.Request {
	s := &stoppedRequest{Context: of.Context(), of: of, err: err}
	s.req = *of.WithContext(s)
	return &s.req
}

// stoppedBy returns the Request of resp if it is a stoppedRequest. One that was made
// with the context of such a Request is another.
func stoppedBy(resp *http.Response) *stoppedRequest {
	if resp == nil || resp.Request == nil {
		return nil
	}
	if s, ok := resp.Request.Context().(*stoppedRequest); ok && resp.Request == &s.req {
		return s
	}
	return nil
}

// attemptOf returns the attempt that req belongs to, or nil.
func attemptOf(req *http.Request) *attempt {
	if req == nil {
		return nil
	}
	a, _ := req.Context().Value(attemptKey{}).(*attempt)
	return a
}

// An exchange is the context of its loop: it passes on the request's own, and is
// itself the value by which discardAndWait finds it.
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

// A cancelable is the context of an attempt that can be canceled, one of package
// context, to which others can be added without a goroutine. It is made when
// something first asks for it: a Base that never does, one in memory or a cache, does
// not pay for it.
type cancelable struct {
	context.Context
	cancel context.CancelCauseFunc
}

type attemptKey struct{}

func (a *attempt) Deadline() (time.Time, bool) { return a.x.Deadline() }

func (a *attempt) Done() <-chan struct{} { return a.context().Done() }

func (a *attempt) Err() error {
	switch c := a.cancelable.Load(); {
	case c != nil:
		return c.Err()
	case a.ended.Load():
		return context.Canceled
	default:
		return a.x.Err()
	}
}

// Value also returns what package context looks for, which is how its contexts
// join and how it finds a cause.
func (a *attempt) Value(key any) any {
	switch key.(type) {
	case attemptKey:
		return a
	case policyKey, exchangeKey:
		return nil // are of the request that this is an attempt of
	}
	if c := a.cancelable.Load(); c != nil {
		return c.Value(key)
	}
	return a.x.Value(key)
}

// context returns the context that can be canceled.
func (a *attempt) context() *cancelable {
	if c := a.cancelable.Load(); c != nil {
		return c
	}
	c := new(cancelable)
	c.Context, c.cancel = context.WithCancelCause(a.x.req.Context())
	if !a.cancelable.CompareAndSwap(nil, c) {
		c.cancel(nil)
		return a.cancelable.Load()
	}
	if a.ended.Load() {
		c.cancel(nil)
	}
	return c
}

// cancel ends the attempt. Only a cause needs a context that can hold it.
func (a *attempt) cancel(cause error) {
	if cause != nil {
		a.context().cancel(cause)
	}
	if a.ended.Load() || a.ended.Swap(true) {
		return
	}
	if c := a.cancelable.Load(); c != nil {
		c.cancel(nil)
	}
}
