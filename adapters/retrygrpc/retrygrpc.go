// Package retrygrpc retries the unary calls and streams of a gRPC client according to a
// retry.Policy. [Interceptor.DialOptions] returns options for [grpc.NewClient]. These options
// also disable gRPC's own retries.
//
//	options, err := retrygrpc.Interceptor{Policy: retry.Default()}.DialOptions()
//	if err != nil {
//		return err
//	}
//	client, err := grpc.NewClient("dns:///orders:443",
//		append(options, grpc.WithTransportCredentials(credentials))...)
//
// # Which codes are retried
//
// The status code of a call decides whether the call is retried:
//
//	code                retried                        because
//	UNAVAILABLE         yes                            the server is down or shuts down
//	UNAVAILABLE for a   no                             another attempt would meet the same
//	  refused                                          certificate, see package retrynet
//	  certificate
//	RESOURCE_EXHAUSTED  if the server asks for a wait  a rate limit passes
//	RESOURCE_EXHAUSTED  no, even if Interceptor.Codes  the next attempt would send the same
//	  for a message     contains this code             message
//	  that is too large
//	DEADLINE_EXCEEDED   if there is an AttemptTimeout  only this attempt ran out of time
//	ABORTED             no                             the caller must repeat the transaction
//	UNKNOWN, INTERNAL   no                             a bug seldom goes away by itself
//	any other           no                             the server would answer the same
//
// If you set Interceptor.Codes, these codes are retried instead of the code UNAVAILABLE. An error
// whose code is not retried is wrapped with [retry.Permanent]. The policy's RetryIf can reject
// further errors. It cannot make a permanent error retryable.
//
// If a call fails with UNAVAILABLE or with a timeout, the server may still have run the method. For
// methods that must not run twice, set retry.Policy{NonRetryable: true} in Interceptor.Methods.
//
// # How the server delays or forbids a retry
//
// The server can ask for a wait with a google.rpc.RetryInfo in the status, or with the trailer
// grpc-retry-pushback-ms. If both ask for a wait, the longer wait is passed to [retry.After]. If
// the value of the trailer is negative or not a number, the error is permanent. Each retry sends
// the number of earlier attempts in the metadata grpc-previous-rpc-attempts.
//
// # Errors
//
// A failed call returns a [*retry.Error] that wraps the status of the last attempt. status.Code and
// status.FromError work on this error. If the caller's context was done before the first attempt,
// the code is CANCELED or DEADLINE_EXCEEDED.
//
// # Streams
//
// A stream is retried until the first message from the server arrives. A stream that cannot be
// opened is retried too. If no attempt opens the stream, the first RecvMsg returns the error. Each
// attempt sends your messages again, so do not modify a message before the first message from the
// server has arrived. A stream is no longer retried once you have sent more than 256 KiB, or once
// the method Header of the stream has returned headers. The policy's AttemptTimeout bounds the wait
// for the first message.
//
// # Budgets across processes
//
// With [LendBudget], a client lends retries of its Budget to the server that it calls. With
// [BorrowBudget], the server uses these retries for its own calls. So one Budget limits the retries
// of several processes.
package retrygrpc

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryrpc"
)

// An Interceptor retries the calls of a gRPC client. Do not change its fields
// once it is in use.
type Interceptor struct {
	// Policy applies to every method that Methods does not name.
	Policy retry.Policy

	// Methods maps names to policies. The name "/pkg.Service/Method" means a single method. The
	// name "/pkg.Service/" means all other methods of the service.
	Methods map[string]retry.Policy

	// Codes contains the codes to retry. If Codes is empty, UNAVAILABLE is retried. The package
	// documentation says when RESOURCE_EXHAUSTED and DEADLINE_EXCEEDED are retried as well.
	Codes []codes.Code

	// Budgets returns the Budget of a call whose policy has no Budget. The parameter `target` is the
	// target that was passed to grpc.NewClient. If the function Budgets returns nil, the call has no
	// Budget. Calls to one target should share a Budget.
	//
	// If Budgets is nil, each target gets a Budget{Size: 10, Ratio: 0.1, RefillEvery: 5m,
	// Remember: 1m, Grace: 1s}, so that retries do not prolong an outage. All clients of a target in
	// this process share its Budget, even if their Interceptors differ. "orders:443" and
	// "dns:///orders:443" are the same target. If the scheme is passthrough, as in a test with
	// bufconn, only the dialer knows which server the target means. In this case, each call of
	// DialOptions creates a separate Budget for the target. Targets after the first 1,000 share one
	// Budget. To use no Budgets at all, set NoBudgets.
	//
	// A success puts a part of a retry back into the Budget. The Budget's Ratio is the size of this
	// part. A failure puts back the same part if the server does not ask for a wait and the code of
	// the failure shows that the server works. These codes are INVALID_ARGUMENT, NOT_FOUND,
	// ALREADY_EXISTS, PERMISSION_DENIED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE and
	// UNAUTHENTICATED.
	Budgets func(target string) *retry.Budget

	own *retry.Budgets // the Budgets of passthrough targets
}

// DialOptions returns options for grpc.NewClient. They retry unary calls and streams according to
// the Interceptor i, and disable gRPC's own retries. Interceptors in earlier options see each call
// once, and interceptors in later options see each attempt.
//
// DialOptions returns an error if a policy of i is invalid, or if a name in Methods is not written
// as the name of a method or a service. DialOptions also looks for each name in the generated code
// of this program. It returns an error if the program contains the protobuf package with which the
// name begins, but not the service or the method.
func (i Interceptor) DialOptions() ([]grpc.DialOption, error) {
	if err := i.validate(); err != nil {
		return nil, err
	}
	i.own = new(retry.Budgets)
	return []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(i.unary),
		grpc.WithChainStreamInterceptor(i.stream),
	}, nil
}

func (i Interceptor) unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	var header, trailer metadata.MD
	opts = append(slices.Clip(opts), grpc.Header(&header), grpc.Trailer(&trailer))
	p := retryrpc.PolicyOf(method, i.Policy, i.Methods)
	last := lastAttempt(p)
	attempt := func(ctx context.Context, number int) retryrpc.Failure {
		header, trailer = nil, nil
		err := invoker(numbered(ctx, number, last), method, req, reply, cc, opts...)
		return failure(err, len(header)+len(trailer) > 0, trailer, i.Codes)
	}
	return retryrpc.Do(ctx, p, i.target(cc), attempt, coded)
}

// target returns the Target of a call over the connection cc. A Target says which Budget the call
// gets.
func (i Interceptor) target(cc *grpc.ClientConn) retryrpc.Target {
	if name := cc.CanonicalTarget(); i.Budgets == nil && !strings.HasPrefix(name, "passthrough:") {
		return retryrpc.Target{Name: name, Own: &shared}
	}
	return retryrpc.Target{Name: cc.Target(), Own: i.own, Budgets: i.Budgets}
}

// lastAttempt returns the number of the last attempt under p. It returns 0 or below if no attempt
// is the last. With a HealthyAfter, every attempt may count as the first.
func lastAttempt(p retry.Policy) int {
	last := p.EffectiveMax()
	if last > 1 && p.HealthyAfter > 0 {
		return 0
	}
	return last
}

// numbered adds the number of earlier attempts to the outgoing metadata. The context of the last
// attempt also tells LendBudget that no attempt follows.
func numbered(ctx context.Context, number, last int) context.Context {
	if number == last {
		ctx = context.WithValue(ctx, lastKey{}, true)
	}
	if number == 1 {
		return ctx
	}
	return outgoing(ctx, retryrpc.PreviousAttempts, number-1)
}

// lastKey is the context key that marks the last attempt of a call.
type lastKey struct{}

// outgoing sets `key` to n in the metadata that is sent to the server. If the caller has set
// values of `key`, `outgoing` replaces them.
func outgoing(ctx context.Context, key string, n int) context.Context {
	md, ok := metadata.FromOutgoingContext(ctx) // md is a copy and may be changed
	if !ok {
		md = metadata.MD{}
	}
	md.Set(key, strconv.Itoa(n))
	return metadata.NewOutgoingContext(ctx, md)
}

// coded converts the error of a context to a status, as gRPC does.
func coded(err error) error { return status.FromContextError(err).Err() }

// Mark prepares the error of a gRPC call for [retry.Do], so that you can retry the call without an
// interceptor. Mark looks up the code of err in the table of the package documentation. If an error
// with this code is not retried, Mark wraps err with [retry.Permanent]. Otherwise Mark wraps err
// with [retry.After], and passes the wait in the RetryInfo of err, or 0 if err has no RetryInfo. If
// you pass no codes for the parameter `retryable`, UNAVAILABLE is retried. Mark returns nil if err
// is nil.
//
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return retrygrpc.Mark(orders.Ship(ctx, request))
//	})
//
// An error does not contain the trailers of its call. So Mark, unlike an Interceptor, cannot see
// the trailer grpc-retry-pushback-ms. The error also does not say where it was created: in the
// server or in this client. Example: the server calls a third party, rejects the certificate of the
// third party, and returns UNAVAILABLE with the text of this error. Mark takes this error for an
// error about the server's own certificate, and returns a permanent error. An Interceptor sees that
// the server has answered, and retries.
func Mark(err error, retryable ...codes.Code) error {
	return failure(err, false, nil, retryable).Mark()
}

// failure describes the error err as a Failure. If the parameter `answered` is true, the server has
// answered, so err does not come from the connection of this client, whatever its text says.
func failure(
	err error, answered bool, trailer metadata.MD, retryable []codes.Code,
) retryrpc.Failure {
	if len(retryable) == 0 {
		retryable = []codes.Code{codes.Unavailable}
	}
	s := status.Convert(err)
	wait, named := retryInfo(s)
	again := slices.Contains(retryable, s.Code()) && (answered || !untrusted(s))
	return retryrpc.Failure{
		Err: err, Code: uint32(s.Code()), Retryable: again,
		Wait: wait, Named: named, Pushback: trailer.Get(retryrpc.Pushback),
	}
}

// retryInfo returns the longest wait in the RetryInfos of a status. The result `named` is false if
// the status contains no RetryInfo.
func retryInfo(s *status.Status) (longest time.Duration, named bool) {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			longest, named = max(longest, info.GetRetryDelay().AsDuration()), true
		}
	}
	return longest, named
}
