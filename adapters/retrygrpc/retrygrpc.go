// Package retrygrpc retries the calls of a gRPC client: a [retry.Policy]
// decides, in interceptors that [Interceptor.DialOptions] puts into grpc.NewClient.
//
//	client, err := grpc.NewClient("dns:///orders:443",
//		append(retrygrpc.Interceptor{Policy: retry.Default()}.DialOptions(),
//			grpc.WithTransportCredentials(credentials))...)
//
// [ServiceConfig] writes a policy for gRPC's own retries instead. Use one of the
// two: together they multiply the attempts.
//
// # What is retried
//
// A call is retried by the code of its status:
//
//	code               retried                        because
//	UNAVAILABLE        yes                            the server cannot be reached or is shutting down
//	RESOURCE_EXHAUSTED if the server names a wait     a rate limit passes; a message too large, which
//	                                                  has this code too, stays too large
//	DEADLINE_EXCEEDED  if there is an AttemptTimeout  the attempt ran into it; the caller's own deadline
//	                                                  has ended all attempts
//	ABORTED            no                             the caller has to repeat the whole transaction
//	UNKNOWN, INTERNAL  no                             a bug seldom passes
//	any other          no                             the answer would be the same
//
// Interceptor.Codes replaces the first row. A code that is not retried is marked
// [retry.Permanent]. A policy's RetryIf can only reject more.
//
// UNAVAILABLE does not say whether the server has seen the request, and neither
// does a timeout. Give methods that must not run twice the zero Policy by
// Interceptor.Methods.
//
// # What a server says
//
// A google.rpc.RetryInfo in the status, and a trailer grpc-retry-pushback-ms,
// are the server's wait, see [retry.After]. A pushback that is negative or no
// number means that the server forbids retries: the error is permanent.
// Attempts after the first carry grpc-previous-rpc-attempts, as gRPC's own do.
//
// # Errors
//
// A call that fails returns a [*retry.Error] around the status of the last
// attempt. status.Code and status.FromError see through it. Where no attempt was
// made, the code is CANCELED or DEADLINE_EXCEEDED, by the caller's context.
//
// # Streams
//
// A stream is retried until its first message arrives, and so are the calls
// that opened it: what fails then is reported by the first RecvMsg. Messages
// sent so far are sent again, as long as they are at most 256 KiB together, as
// in gRPC; they must not be modified until then. A stream whose headers were
// read by Header, or that has sent more, is not retried. The policy's
// AttemptTimeout bounds the wait for the first message.
package retrygrpc

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/rpc"
)

// An Interceptor retries the calls of a gRPC client. Do not change its fields
// once it is in use.
type Interceptor struct {
	// Policy is for every method that Methods does not name.
	Policy retry.Policy

	// Methods are the policies of single methods, "/pkg.Service/Method", and of
	// the other methods of a service, "/pkg.Service/".
	Methods map[string]retry.Policy

	// Codes are retried; nil: UNAVAILABLE. The package documentation says which
	// others are, and when.
	Codes []codes.Code

	alone bool // gRPC's own retries are switched off
}

// DialOptions returns the options for grpc.NewClient that retry unary calls and
// streams by i, and switch gRPC's own retries off. Interceptors of options
// before them see one call, those of options after them see each attempt.
func (i Interceptor) DialOptions() []grpc.DialOption {
	i.alone = true
	return []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(i.Unary()),
		grpc.WithChainStreamInterceptor(i.Stream()),
	}
}

// Validate returns what is wrong with the policies of i, and with the names in
// Methods that cannot be those of a method or a service; nil if nothing is.
func (i Interceptor) Validate() error { return rpc.Validate("retrygrpc", i.Policy, i.Methods) }

// Unary returns the interceptor of unary calls by itself. Prefer
// [Interceptor.DialOptions]: where a service config sets a retryPolicy for a
// method, the interceptor and gRPC would multiply their attempts. So the
// interceptor does not retry such a method and its error says why, even under
// WithDisableRetry, which an interceptor cannot see.
func (i Interceptor) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		var trailer metadata.MD
		opts = append(slices.Clip(opts), grpc.Trailer(&trailer))
		p := rpc.PolicyOf(method, i.Policy, i.Methods)
		return rpc.Do(ctx, p, func(ctx context.Context, number int) rpc.Failure {
			trailer = nil
			err := invoker(numbered(ctx, number), method, req, reply, cc, opts...)
			return i.failure(cc, method, err, trailer)
		}, coded)
	}
}

// numbered says in the metadata how many attempts there were before this one.
func numbered(ctx context.Context, number int) context.Context {
	if number == 1 {
		return ctx
	}
	md, ok := metadata.FromOutgoingContext(ctx) // a copy
	if !ok {
		md = metadata.MD{}
	}
	md.Set(rpc.PreviousAttempts, strconv.Itoa(number-1))
	return metadata.NewOutgoingContext(ctx, md)
}

// coded returns the error of a context as gRPC does.
func coded(err error) error { return status.FromContextError(err).Err() }

// failure returns what an attempt failed with. The service config has been
// resolved by then, so it shows whether gRPC may have retried the call by itself.
func (i *Interceptor) failure(cc *grpc.ClientConn, method string, err error, trailer metadata.MD) rpc.Failure {
	f := failure(err, trailer, i.Codes)
	if err != nil && !i.alone && cc != nil && cc.GetMethodConfig(method).RetryPolicy != nil {
		f.Final = fmt.Sprintf("the service config has a retryPolicy for %s, and attempts would multiply: remove it, or use DialOptions", method)
	}
	return f
}
