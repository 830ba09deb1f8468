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

// Mark marks the error of a gRPC call, so that you can retry the call with
// [retry.Do] and without an interceptor. By the table in the package documentation
// it marks err with the wait of its RetryInfo, see [retry.After], or as not worth
// retrying, see [retry.Permanent]. If no retryable codes are given, UNAVAILABLE is
// retried. Mark returns nil if err is nil.
//
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		return retrygrpc.Mark(orders.Ship(ctx, request))
//	})
//
// An error does not contain the trailers of its call, so Mark cannot see a
// pushback; the interceptors can.
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

// retryInfo returns the longest wait in the RetryInfos of a status. named is false if there
// is none.
func retryInfo(s *status.Status) (longest time.Duration, named bool) {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			longest, named = max(longest, info.GetRetryDelay().AsDuration()), true
		}
	}
	return longest, named
}
