package retryhttp

import (
	"context"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
)

// WithPolicy returns a context for requests that a [Transport] sends under p instead of its own
// Policy. To keep the Budget and OnEvent of that Policy, copy the Policy and change the copy. Under
// the zero Policy a request is sent once. p is for the Transport that gets the request, not for a
// Transport below.
func WithPolicy(ctx context.Context, p retry.Policy) context.Context {
	return context.WithValue(ctx, policyKey{}, &p)
}

type policyKey struct{}

// AttemptOf returns the number of the attempt whose context is ctx, for a RoundTripper below a
// [Transport]. The first attempt has the number 1. If ctx does not come from a Transport, AttemptOf
// returns 1. Both requests of a [Hedge] have the same number; [Hedged] says which is the second.
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

// RequestOf returns the request that a [Transport] was given. ctx is the context that OnEvent and
// Wait of the policy get; each of these contexts has a request, even if no request was sent.
// RequestOf returns nil for any other context, such as the context of an attempt.
func RequestOf(ctx context.Context) *http.Request {
	if x, ok := ctx.Value(ctxvalue.Hedge{}).(*exchange); ok && x.of(ctx) {
		return x.req
	}
	return nil
}

// attemptOf returns the attempt that sends req, or nil. The context of req is not enough to know
// that: Prepare or Base may fetch a token in the context of the attempt.
func attemptOf(req *http.Request) *attempt {
	if req == nil {
		return nil
	}
	if a := attemptIn(req.Context()); a != nil && a.to.isOf(req) {
		return a
	}
	return nil
}

// attemptIn returns the attempt whose context is ctx or an ancestor of ctx, or nil.
func attemptIn(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}
