package retrygrpc

import (
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry/adapters/internal/rpc"
)

var defaultCodes = []codes.Code{codes.Unavailable}

// Mark marks the error of a gRPC call for a loop of your own, by the table in
// the package documentation: with the wait that a RetryInfo names, see
// [retry.After], or as not worth retrying, see [retry.Permanent]. The retryable
// codes are UNAVAILABLE if none are given. Mark of nil is nil.
//
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return retrygrpc.Mark(orders.Ship(ctx, request))
//	})
//
// The trailers of the call, and so a pushback, are not in its error. The
// interceptors see them.
func Mark(err error, retryable ...codes.Code) error {
	return failure(err, nil, retryable).Mark()
}

func failure(err error, trailer metadata.MD, retryable []codes.Code) rpc.Failure {
	if len(retryable) == 0 {
		retryable = defaultCodes
	}
	s := status.Convert(err)
	wait, named := retryInfo(s)
	return rpc.Failure{
		Err: err, Code: uint32(s.Code()), Retryable: slices.Contains(retryable, s.Code()),
		Wait: wait, Named: named, Pushback: trailer.Get(rpc.Pushback),
	}
}

// retryInfo returns the wait that a status names, false if it names none.
func retryInfo(s *status.Status) (wait time.Duration, named bool) {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}
