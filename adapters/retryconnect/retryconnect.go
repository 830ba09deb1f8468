// Package retryconnect retries the unary calls and streams of a Connect client by
// a [retry.Policy], over the protocols Connect, gRPC and gRPC-Web. Give its
// [Interceptor] to the client.
//
//	client := ordersconnect.NewOrdersClient(http.DefaultClient, "https://orders.internal",
//		connect.WithInterceptors(&retryconnect.Interceptor{Policy: retry.Default()}))
//
// Do not retry in the HTTP client as well: their attempts would multiply.
//
// # What is retried
//
// The error code of a call decides whether it is retried, as in retrygrpc, whose page says
// why:
//
//	unavailable         yes; Connect also turns HTTP 429, 502, 503, 504 into it;
//	                    no for a certificate that is not accepted, as in retryhttp
//	resource_exhausted  if the server names a wait; never for a message too large,
//	                    which the client or the server refuses
//	deadline_exceeded   if there is an AttemptTimeout
//
// If the connection breaks before the answer is complete, Connect says unknown, internal,
// canceled or unavailable. Each of them is retried as unavailable is, because gRPC says
// UNAVAILABLE then. The error keeps its code.
//
// Interceptor.Codes replaces unavailable in the first row. An error with any other code is
// [retry.Permanent]. A policy's RetryIf can only reject more.
//
// After unavailable or a timeout, the server may or may not have run the method.
// For methods that must not run twice, set retry.Policy{NonRetryable: true} in
// Interceptor.Methods.
//
// # What the server asks for
//
// The server can ask for a wait with a google.rpc.RetryInfo in the error details, the
// header Retry-After, or the trailer grpc-retry-pushback-ms, see [retry.After]; the
// longest applies. A pushback that is negative or not a number forbids retries: the
// error is permanent. Connect does not pass on the headers of a response that is not
// from a Connect server, such as the 503 of a load balancer, so a Retry-After there
// has no effect. Attempts after the first carry grpc-previous-rpc-attempts, as in
// gRPC's own retries.
//
// # Errors
//
// A call that fails returns a [*retry.Error] around the error of the last
// attempt. connect.CodeOf works on it. If the caller's context was done before the
// first attempt, the code is canceled or deadline_exceeded.
//
// # Streams
//
// A stream is retried until its first message arrives. Each attempt sends the
// messages so far again, so do not modify a message before the first one arrives.
// A stream is no longer retried once it has sent more than 256 KiB, or once
// ResponseHeader has returned headers. The policy's AttemptTimeout bounds the wait
// for the first message.
package retryconnect

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryrpc"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrynet"
)

// An *Interceptor is a connect.Interceptor that retries the calls of a client. It
// leaves handlers alone. Do not change its fields, nor copy it, once it is in use.
type Interceptor struct {
	// Policy applies to every method that Methods does not name.
	Policy retry.Policy

	// Methods holds policies for single methods, "/pkg.Service/Method", and for
	// all other methods of a service, "/pkg.Service/".
	Methods map[string]retry.Policy

	// Codes are the codes to retry; nil means unavailable. Two more are retried
	// under conditions, see the package documentation.
	Codes []connect.Code

	// Budgets returns the Budget of a call whose policy has none, nil for none. Calls to one
	// target should share one. It gets the host and the port as the client's URL has them.
	// A success puts its share back, and so does a failure that shows a healthy server, by the
	// codes that retrygrpc's Budgets names.
	//
	// nil: a Budget{Size: 10, Ratio: 0.1, RefillEvery: 5m, Remember: 1m, Grace: 1s} for each target: retries do
	// not keep an outage alive. An Interceptor has its own, so give all clients of a target
	// the same one. 1,000 targets have one, and all others share one. NoBudgets: none.
	Budgets func(target string) *retry.Budget

	targets retry.Budgets
}

// NoBudgets is the Budgets of an [Interceptor] whose calls have no Budget besides the one of
// their policy, as in a test of a server that always fails.
func NoBudgets(string) *retry.Budget { return nil }

// Validate returns an error if a policy of i is invalid, or if a name in Methods
// is not the name of a method or a service.
func (i *Interceptor) Validate() error { return retryrpc.Validate("retryconnect", i.Policy, i.Methods) }

// WrapUnary implements connect.Interceptor. Interceptors after i get the request
// of each attempt, which is not a *connect.Request: use the methods of
// connect.AnyRequest.
func (i *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		if !req.Spec().IsClient {
			return next(ctx, req)
		}
		p := retryrpc.PolicyOf(req.Spec().Procedure, i.Policy, i.Methods)
		err = retryrpc.Do(ctx, p, i.target(req.Peer()), func(ctx context.Context, number int) retryrpc.Failure {
			a := attempt{req, req.Header().Clone()}
			numbered(a.header, number)
			var err error
			resp, err = next(ctx, a)
			return failure(err, i.Codes)
		}, coded)
		return resp, err
	}
}

// target says which Budget a call to a server gets.
func (i *Interceptor) target(server connect.Peer) retryrpc.Target {
	return retryrpc.Target{Name: server.Addr, Own: &i.targets, Budgets: i.Budgets}
}

// An attempt is a request with its own headers. net/http may still be reading the
// headers of an abandoned attempt during the next one.
type attempt struct {
	connect.AnyRequest
	header http.Header
}

func (a attempt) Header() http.Header { return a.header }

// WrapStreamingHandler implements connect.Interceptor. Handlers are left alone.
func (*Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// numbered sets the header with the number of earlier attempts.
func numbered(header http.Header, number int) {
	if number > 1 {
		header.Set(retryrpc.PreviousAttempts, strconv.Itoa(number-1))
	}
}

// coded converts the error of a context to a *connect.Error, as Connect does.
func coded(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	}
	return connect.NewError(connect.CodeCanceled, err)
}

// Mark marks the error of a Connect call, so that you can retry the call with
// [retry.Do] and without an interceptor. By the table in the package documentation
// it marks err with the wait that the server asks for, see [retry.After], or as
// not worth retrying, see [retry.Permanent]. If no retryable codes are given,
// unavailable is retried. Mark returns nil if err is nil.
//
//	resp, err := retry.DoValue(ctx, policy, func(ctx context.Context) (*connect.Response[orders.Shipment], error) {
//		resp, err := client.Ship(ctx, req)
//		return resp, retryconnect.Mark(err)
//	})
func Mark(err error, retryable ...connect.Code) error {
	return failure(err, retryable).Mark()
}

func failure(err error, retryable []connect.Code) retryrpc.Failure {
	if len(retryable) == 0 {
		retryable = []connect.Code{connect.CodeUnavailable}
	}
	code := connect.CodeOf(err)
	again := slices.Contains(retryable, code) ||
		broken(err) && slices.Contains(retryable, connect.CodeUnavailable)
	f := retryrpc.Failure{Err: err, Code: uint32(code), Retryable: again && !untrusted(err)}
	var failed *connect.Error
	if errors.As(err, &failed) {
		f.Wait, f.Named = wait(failed)
		f.Pushback = failed.Meta().Values(retryrpc.Pushback)
	}
	return f
}

// broken reports whether the connection broke before the answer was complete. Connect says
// unknown, internal or canceled then, by the place where the connection broke and by how it
// did: a reset is canceled, because a handler's client cancels so. grpc-go has UNAVAILABLE for
// each of them, whether the server has begun to answer or not, and so such an error is
// retried as unavailable is. A stream that the server reset has the code of its reset in both.
func broken(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeCanceled:
		return !connect.IsWireError(err) && retrynet.Transient(err) &&
			!strings.Contains(err.Error(), "stream error: stream ID ")
	default:
		return false
	}
}

// untrusted reports whether the call met an error that does not pass by the rule of
// retryhttp, such as a certificate that is not accepted.
func untrusted(err error) bool {
	return err != nil && !connect.IsWireError(err) && retry.IsPermanent(retryhttp.Check(nil, nil, err))
}

// wait returns the longest wait that the server asks for. named is false if it
// asks for none.
func wait(err *connect.Error) (longest time.Duration, named bool) {
	// For a 403, the Verdict says whether the header is there and valid.
	advice := retryhttp.AdviceOf(&http.Response{StatusCode: http.StatusForbidden, Header: err.Meta()})
	longest, named = advice.Wait, advice.Verdict == retryhttp.Again
	for _, detail := range err.Details() {
		value, err := detail.Value()
		if info, ok := value.(*errdetails.RetryInfo); ok && err == nil {
			longest, named = max(longest, info.GetRetryDelay().AsDuration()), true
		}
	}
	return longest, named
}
