package retryhttp

import (
	"context"
	"net/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/logkey"
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
	if x, ok := ctx.Value(logkey.Hedge{}).(*exchange); ok {
		return x.req
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
