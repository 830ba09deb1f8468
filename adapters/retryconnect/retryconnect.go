// Package retryconnect retries the calls of a Connect client, whichever of the
// protocols Connect, gRPC and gRPC-Web it speaks: a [retry.Policy] decides, in an
// [Interceptor].
//
//	client := ordersconnect.NewOrdersClient(http.DefaultClient, "https://orders.internal",
//		connect.WithInterceptors(retryconnect.Interceptor{Policy: retry.Default()}))
//
// Do not retry in the HTTP client as well: the attempts of both would multiply.
//
// # What is retried
//
// A call is retried by the code of its error:
//
//	code                retried                        because
//	unavailable         yes                            the server cannot be reached or is shutting down;
//	                                                   without a code of its own also 429, 502, 503, 504
//	resource_exhausted  if the server names a wait     a rate limit passes; a message too large, which
//	                                                   has this code too, stays too large
//	deadline_exceeded   if there is an AttemptTimeout  the attempt ran into it; the caller's own deadline
//	                                                   has ended all attempts
//	aborted             no                             the caller has to repeat the whole transaction
//	unknown, internal   no                             a bug seldom passes
//	any other           no                             the answer would be the same
//
// Interceptor.Codes replaces the first row. A code that is not retried is marked
// [retry.Permanent]. A policy's RetryIf can only reject more.
//
// unavailable does not say whether the server has seen the request, and neither
// does a timeout. Give methods that must not run twice the zero Policy by
// Interceptor.Methods.
//
// # What a server says
//
// A google.rpc.RetryInfo among the details, a header Retry-After, and a trailer
// grpc-retry-pushback-ms are the server's wait, see [retry.After]; of several the
// longest counts. A pushback that is negative or no number means that the server
// forbids retries: the error is permanent. Connect does not pass on the headers
// of a response that is not from a Connect server, such as the 503 of a load
// balancer. Attempts after the first carry grpc-previous-rpc-attempts, as those of
// gRPC do.
//
// # Errors
//
// A call that fails returns a [*retry.Error] around the error of the last
// attempt. connect.CodeOf sees through it. Where no attempt was made, the code is
// canceled or deadline_exceeded, by the caller's context.
//
// # Streams
//
// A stream is retried until its first message arrives. Messages sent so far are
// sent again, as long as they are at most 256 KiB together; they must not be
// modified until then. A stream whose response headers were read, or that has
// sent more, is not retried. The policy's AttemptTimeout bounds the wait for the
// first message.
package retryconnect

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/rpc"
	"github.com/goretry/retry/retryhttp"
)

// An Interceptor is a connect.Interceptor that retries the calls of a client. It
// leaves handlers alone. Do not change its fields once it is in use.
type Interceptor struct {
	// Policy is for every method that Methods does not name.
	Policy retry.Policy

	// Methods are the policies of single methods, "/pkg.Service/Method", and of
	// the other methods of a service, "/pkg.Service/".
	Methods map[string]retry.Policy

	// Codes are retried; nil: unavailable. The package documentation says which
	// others are, and when.
	Codes []connect.Code
}

// Validate returns what is wrong with the policies of i, and with the names in
// Methods that cannot be those of a method or a service; nil if nothing is.
func (i Interceptor) Validate() error { return rpc.Validate("retryconnect", i.Policy, i.Methods) }

// WrapUnary implements connect.Interceptor. The request of an attempt, which
// interceptors after i get, is no *connect.Request: use the methods of
// connect.AnyRequest.
func (i Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		if !req.Spec().IsClient {
			return next(ctx, req)
		}
		p := rpc.PolicyOf(req.Spec().Procedure, i.Policy, i.Methods)
		err = rpc.Do(ctx, p, func(ctx context.Context, number int) rpc.Failure {
			a := attempt{req, req.Header().Clone()}
			numbered(a.header, number)
			var err error
			resp, err = next(ctx, a)
			return failure(err, i.Codes)
		}, coded)
		return resp, err
	}
}

// An attempt is a request with headers of its own: net/http may still read those
// of an attempt that was given up while the next one is made.
type attempt struct {
	connect.AnyRequest
	header http.Header
}

func (a attempt) Header() http.Header { return a.header }

// WrapStreamingHandler implements connect.Interceptor. Handlers are left alone.
func (Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// numbered says in a header how many attempts there were before this one.
func numbered(header http.Header, number int) {
	if number > 1 {
		header.Set(rpc.PreviousAttempts, strconv.Itoa(number-1))
	}
}

// coded returns the error of a context as Connect does.
func coded(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	return connect.NewError(connect.CodeCanceled, err)
}

// Mark marks the error of a Connect call for a loop of your own, by the table in
// the package documentation: with the wait that the server names, see
// [retry.After], or as not worth retrying, see [retry.Permanent]. The retryable
// codes are unavailable if none are given. Mark of nil is nil.
//
//	resp, err := retry.DoValue(ctx, policy, func(ctx context.Context) (*connect.Response[orders.Shipment], error) {
//		resp, err := client.Ship(ctx, req)
//		return resp, retryconnect.Mark(err)
//	})
func Mark(err error, retryable ...connect.Code) error {
	return failure(err, retryable).Mark()
}

func failure(err error, retryable []connect.Code) rpc.Failure {
	if len(retryable) == 0 {
		retryable = []connect.Code{connect.CodeUnavailable}
	}
	code := connect.CodeOf(err)
	f := rpc.Failure{Err: err, Code: uint32(code), Retryable: slices.Contains(retryable, code)}
	var failed *connect.Error
	if errors.As(err, &failed) {
		f.Wait, f.Named = wait(failed)
		f.Pushback = failed.Meta().Values(rpc.Pushback)
	}
	return f
}

// wait returns the longest wait that the server names, false if it names none.
func wait(err *connect.Error) (longest time.Duration, named bool) {
	// Of a 403 it says whether the header is there and valid.
	longest, named = retryhttp.RetryAfter(&http.Response{StatusCode: http.StatusForbidden, Header: err.Meta()})
	for _, detail := range err.Details() {
		value, err := detail.Value()
		if info, ok := value.(*errdetails.RetryInfo); ok && err == nil {
			longest, named = max(longest, info.GetRetryDelay().AsDuration()), true
		}
	}
	return longest, named
}
