// Package retryconnect retries the unary calls and streams of a Connect client according to a
// retry.Policy. It works over the protocols Connect, gRPC and gRPC-Web. Pass an [Interceptor]
// to the client:
//
//	client := ordersconnect.NewOrdersClient(http.DefaultClient, "https://orders.internal",
//		connect.WithInterceptors(&retryconnect.Interceptor{Policy: retry.Default()}))
//
// Do not retry in the HTTP client as well, because the numbers of attempts would multiply.
//
// # Which codes are retried
//
// The error code of a call decides whether the call is retried. Package retrygrpc has the same
// rules, and its documentation gives the reasons.
//
//	code                retried
//	unavailable         yes, unless a certificate is refused; Connect also turns the HTTP
//	                    statuses 429, 502, 503 and 504 into unavailable
//	resource_exhausted  if the server asks for a wait
//	resource_exhausted  no, even if Interceptor.Codes contains this code
//	  for a message
//	  that is too large
//	deadline_exceeded   if there is an AttemptTimeout, or if the HTTP client timed out
//	any other           no
//
// If the connection breaks before the answer is complete, or a timeout of the HTTP client passes,
// the code of the error may be CodeUnknown, CodeInternal, CodeCanceled, CodeDeadlineExceeded or
// CodeUnavailable. Such an error is retried like an error with CodeUnavailable, whatever its code
// is, because grpc-go returns UNAVAILABLE in this case. The error keeps its code. There is an
// exception over the protocol Connect: if the body of an error breaks off, the status decides.
//
// If you set Interceptor.Codes, these codes are retried instead of the code unavailable. An error
// whose code is not retried is wrapped with [retry.Permanent]. The policy's RetryIf can reject
// further errors. It cannot make a permanent error retryable.
//
// If a call fails with the code unavailable or with a timeout, the server may still have run the
// method. For methods that must not run twice, set retry.Policy{NonRetryable: true} in
// Interceptor.Methods.
//
// # How the server delays or forbids a retry
//
// The server can ask for a wait with the header Retry-After, with the trailer
// grpc-retry-pushback-ms, or with a google.rpc.RetryInfo in the error details. The longest of these
// waits is passed to [retry.After]. If the value of the trailer is negative or not a number, the
// error is permanent. Connect hides the headers of a response that does not come from a Connect
// server, such as the 503 of a load balancer, so the Retry-After of such a response has no effect.
// Each retry sends the number of earlier attempts in the header grpc-previous-rpc-attempts.
//
// # Errors
//
// A failed call returns a [*retry.Error] that wraps the error of the last attempt. connect.CodeOf
// works on this error. If the caller's context was done before the first attempt, the code is
// canceled or deadline_exceeded.
//
// # Streams
//
// A stream is retried until the first message from the server arrives. Each attempt sends your
// messages again, so do not modify a message before the first message from the server has
// arrived. A stream is no longer retried once you have sent more than 256 KiB, or once
// ResponseHeader has returned headers. The policy's AttemptTimeout bounds the wait for the
// first message.
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

// An *Interceptor is a connect.Interceptor that retries the calls of a client. It does not
// change handlers. Once it is in use, do not change its fields, and do not copy it.
type Interceptor struct {
	// Policy applies to every method that Methods does not name.
	Policy retry.Policy

	// Methods maps names to policies. The name "/pkg.Service/Method" means a single method. The
	// name "/pkg.Service/" means all other methods of the service.
	Methods map[string]retry.Policy

	// Codes contains the codes to retry. If Codes is empty, unavailable is retried. The package
	// documentation says when resource_exhausted and deadline_exceeded are retried as well.
	Codes []connect.Code

	// Budgets returns the Budget of a call whose policy has no Budget. The parameter `target` is the
	// host and the port as they are written in the client's URL. If the function Budgets returns nil,
	// the call has no Budget. Calls to one target should share a Budget.
	//
	// If Budgets is nil, each target gets a Budget{Size: 10, Ratio: 0.1, RefillEvery: 5m,
	// Remember: 1m, Grace: 1s}, so that retries do not prolong an outage. Each Interceptor has its
	// own Budgets, so give all clients of a target the same Interceptor. Targets after the first
	// 1,000 share one Budget. To use no Budgets at all, set NoBudgets.
	//
	// A success puts a part of a retry back into the Budget. The Budget's Ratio is the size of this
	// part. A failure puts back the same part if the server does not ask for a wait and the code of
	// the failure shows that the server works. The field Budgets of retrygrpc.Interceptor lists these
	// codes.
	Budgets func(target string) *retry.Budget

	targets retry.Budgets
}

// NoBudgets is a value for the field Budgets of an [Interceptor]. With NoBudgets, a call has no
// Budget unless its policy has one. Use it, for example, in a test of a server that always
// fails.
func NoBudgets(string) *retry.Budget { return nil }

// Validate returns an error if a policy of i is invalid, or if a name in Methods
// is not the name of a method or a service.
func (i *Interceptor) Validate() error {
	return retryrpc.Validate("retryconnect", i.Policy, i.Methods)
}

// WrapUnary implements connect.Interceptor. Interceptors after i get the request of each
// attempt. This request is not a *connect.Request, so use the methods of connect.AnyRequest.
func (i *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		if !req.Spec().IsClient {
			return next(ctx, req)
		}
		p := retryrpc.PolicyOf(req.Spec().Procedure, i.Policy, i.Methods)
		call := func(ctx context.Context, number int) retryrpc.Failure {
			a := attempt{req, req.Header().Clone()}
			numbered(a.header, number)
			var err error
			resp, err = next(ctx, a)
			return failure(err, i.Codes)
		}
		err = retryrpc.Do(ctx, p, i.target(req.Peer()), call, coded)
		return resp, err
	}
}

// target returns the Target of a call. A Target says which Budget the call gets.
func (i *Interceptor) target(server connect.Peer) retryrpc.Target {
	return retryrpc.Target{Name: server.Addr, Own: &i.targets, Budgets: i.Budgets}
}

// An attempt is a request with its own copy of the headers. Each attempt needs a copy, because
// net/http may still be reading the headers of an earlier attempt that was abandoned.
type attempt struct {
	connect.AnyRequest
	header http.Header
}

func (a attempt) Header() http.Header { return a.header }

// WrapStreamingHandler implements connect.Interceptor. It returns the parameter `next` unchanged.
func (*Interceptor) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return next
}

// numbered sets the header grpc-previous-rpc-attempts to the number of earlier attempts. The
// parameter `number` is the number of this attempt.
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

// Mark prepares the error of a Connect call for [retry.Do], so that you can retry the call without
// an interceptor. Mark looks up the code of err in the table of the package documentation, and
// wraps err with [retry.Permanent], or with [retry.After] and the wait that the server asks for. If
// you pass no codes for the parameter `retryable`, unavailable is retried. Mark returns nil if err
// is nil.
//
//	shipment, err := retry.DoValue(ctx, policy, func(ctx context.Context) (*orders.Shipment, error) {
//		resp, err := client.Ship(ctx, req)
//		if err != nil {
//			return nil, retryconnect.Mark(err)
//		}
//		return resp.Msg, nil
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

// broken reports whether the connection broke before the answer was complete, and Connect did not
// return unavailable. Connect may return unknown, internal or canceled, depending on where and how
// the connection broke. For a connection that was reset, Connect returns canceled, because on a
// server such a reset means that the client went away. For a timeout of the HTTP client, such as
// the Timeout of its Dialer, Connect returns deadline_exceeded. grpc-go returns UNAVAILABLE in all
// these cases, even if the server has begun to answer. So this package retries all these errors as
// it retries unavailable. If the server has reset only the HTTP/2 stream, `broken` returns false,
// because both libraries then derive the code from the reset.
func broken(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnknown, connect.CodeInternal, connect.CodeCanceled, connect.CodeDeadlineExceeded:
		return !connect.IsWireError(err) && retrynet.Transient(err) &&
			!strings.Contains(err.Error(), "stream error: stream ID ")
	default:
		return false
	}
}

// untrusted reports whether the call failed with an error that package retryhttp treats as
// permanent, such as the error for a certificate that is not accepted.
func untrusted(err error) bool {
	return err != nil && !connect.IsWireError(err) &&
		retry.IsPermanent(retryhttp.Check(nil, nil, err))
}

// wait returns the longest of the waits that the server asks for. The result `named` is false if
// the server asks for no wait.
func wait(err *connect.Error) (longest time.Duration, named bool) {
	// For the status 403, AdviceOf returns the Verdict Again only if there is a valid Retry-After.
	advice := retryhttp.AdviceOf(&http.Response{
		StatusCode: http.StatusForbidden, Header: err.Meta(),
	})
	longest, named = advice.Wait, advice.Verdict == retryhttp.Again
	for _, detail := range err.Details() {
		value, err := detail.Value()
		if info, ok := value.(*errdetails.RetryInfo); ok && err == nil {
			longest, named = max(longest, info.GetRetryDelay().AsDuration()), true
		}
	}
	return longest, named
}
