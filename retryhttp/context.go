package retryhttp

import (
	"context"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
)

// WithPolicy returns a context for a request. A [Transport] that gets this request uses p instead
// of its own Policy. To keep the Budget and OnEvent of the Transport's Policy, pass a changed copy
// of this Policy. If p is the zero Policy, the request is sent once. A Transport below that
// Transport does not use p.
func WithPolicy(ctx context.Context, p retry.Policy) context.Context {
	return context.WithValue(ctx, policyKey{}, &p)
}

type policyKey struct{}

// AttemptOf returns the number of the attempt whose context is ctx. Call it in a RoundTripper below
// a [Transport]. The first attempt has the number 1. If ctx does not come from a Transport,
// AttemptOf returns 1. Both requests of a [Hedge] belong to one attempt and have its number.
// [Hedged] says which of the two requests is the second.
//
// To get a span for each attempt, as the conventions of OpenTelemetry require, set Base to
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

// RequestOf returns the request that the caller passed to a [Transport]. Call it in OnEvent and in
// Wait of the policy, with the context that these functions get. RequestOf returns the request even
// if no attempt was made. While Transport.Resume fetches the missing bytes of a download, RequestOf
// returns a copy of the caller's request, to which Range and If-Range are added. For any other
// context, such as the context of an attempt, RequestOf returns nil.
func RequestOf(ctx context.Context) *http.Request {
	if x, ok := ctx.Value(ctxvalue.Hedge{}).(*exchange); ok && x.isFor(ctx) {
		return x.req
	}
	return nil
}
