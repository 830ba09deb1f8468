package retrynet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

func ExampleTransient() {
	policy := retry.Policy{MaxAttempts: 3, RetryIf: retrynet.Transient}

	answers := []error{syscall.ECONNREFUSED, io.ErrUnexpectedEOF, nil}
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		answer := answers[0]
		answers = answers[1:]
		fmt.Println("tried:", answer)
		return answer
	})
	fmt.Println(err)

	err = retry.Do(context.Background(), policy, func(context.Context) error {
		return &net.DNSError{Err: "no such host", Name: "db.invalid", IsNotFound: true}
	})
	fmt.Println(err)
	// Output:
	// tried: connection refused
	// tried: unexpected EOF
	// tried: <nil>
	// <nil>
	// retry: rejected by RetryIf after 1 attempt: lookup db.invalid: no such host
}

// An attempt that AttemptTimeout cut short fails as if the caller's own
// context had ended. The loop knows better, and stops where that has.
func ExampleTransient_attemptTimeout() {
	policy := retry.Policy{
		MaxAttempts:    3,
		AttemptTimeout: time.Millisecond,
		RetryIf: func(err error) bool {
			return retrynet.Transient(err) || errors.Is(err, context.DeadlineExceeded)
		},
	}
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		<-ctx.Done() // a server that never answers
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// retry: attempts exhausted after 3 attempts (attempt 3 ran out of its 1ms): context deadline exceeded
}

// Try again whatever is not sure to fail again: better for a client whose
// errors Transient cannot know.
func ExamplePermanent() {
	policy := retry.Policy{
		MaxAttempts: 3,
		RetryIf:     func(err error) bool { return !retrynet.Permanent(err) },
	}
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		return errors.New("proprietary protocol: code 17")
	})
	fmt.Println(err)
	_, err = net.Dial("tcp", "127.0.0.1")
	fmt.Println(retrynet.Transient(err), retrynet.Permanent(err))
	// Output:
	// retry: attempts exhausted after 3 attempts: proprietary protocol: code 17
	// false true
}

// gRPC: with google.golang.org/grpc the RetryIf is one line,
//
//	RetryIf: func(err error) bool { return status.Code(err) == codes.Unavailable }
//
// and code stands for status.Code here. AIP-194 lets a client retry UNAVAILABLE
// alone: after most other codes the call may have been executed, or is sure to
// fail again. Where a server sends a RetryInfo, return
// retry.After(info.RetryDelay.AsDuration(), err). Leave the retryPolicy of the
// service config off, or the attempts multiply.
func Example_grpc() {
	const unavailable, deadlineExceeded, aborted = 14, 4, 10 // of package codes
	policy := retry.Policy{
		MaxAttempts: 3,
		RetryIf:     func(err error) bool { return code(err) == unavailable },
	}
	for _, c := range []statusStandIn{unavailable, deadlineExceeded, aborted} {
		err := retry.Do(context.Background(), policy, func(context.Context) error { return c })
		fmt.Println(err)
	}
	// Output:
	// retry: attempts exhausted after 3 attempts: rpc error: code = 14
	// retry: rejected by RetryIf after 1 attempt: rpc error: code = 4
	// retry: rejected by RetryIf after 1 attempt: rpc error: code = 10
}

// statusStandIn stands for the errors of gRPC, which are of a type that package
// status does not export.
type statusStandIn uint32

func (e statusStandIn) Error() string { return fmt.Sprintf("rpc error: code = %d", uint32(e)) }

func code(err error) uint32 {
	const unknown = 2
	var e statusStandIn
	if errors.As(err, &e) {
		return uint32(e)
	}
	return unknown
}

// AWS: the errors of aws-sdk-go-v2 say it all through their methods, without
// an import. Its clients retry by themselves: give them aws.NopRetryer, or the
// attempts multiply.
func Example_aws() {
	throttled := []string{"Throttling", "ThrottlingException", "RequestLimitExceeded",
		"TooManyRequestsException", "ProvisionedThroughputExceededException", "SlowDown"}
	retryIf := func(err error) bool {
		var api interface{ ErrorCode() string }
		var answer interface{ HTTPStatusCode() int }
		return errors.As(err, &api) && slices.Contains(throttled, api.ErrorCode()) ||
			errors.As(err, &answer) && slices.Contains([]int{500, 502, 503, 504}, answer.HTTPStatusCode()) ||
			retrynet.Transient(err)
	}

	fmt.Println(retryIf(awsStandIn{"ThrottlingException", 400}))
	fmt.Println(retryIf(awsStandIn{"ValidationException", 400}))
	fmt.Println(retryIf(awsStandIn{"InternalFailure", 500}))
	fmt.Println(retryIf(syscall.ECONNRESET))
	// Output:
	// true
	// false
	// true
	// true
}

// awsStandIn stands for the errors of the SDK, and has their methods.
type awsStandIn struct {
	code   string
	status int
}

func (e awsStandIn) Error() string       { return e.code }
func (e awsStandIn) ErrorCode() string   { return e.code }
func (e awsStandIn) HTTPStatusCode() int { return e.status }
