// Package retryaws retries the operations of the AWS SDK for Go v2: a
// [retry.Policy] decides how often and when, instead of the SDK's retry mode.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	cfg.APIOptions = append(cfg.APIOptions, retryaws.Middleware{Policy: retry.Default()}.AddTo)
//	client := s3.NewFromConfig(cfg)
//
// The options Retryer, RetryMode and RetryMaxAttempts of a client have no effect
// then. All else in an attempt is the SDK's: it signs each one anew, rewinds the
// body, corrects for clocks that differ, and says in Amz-Sdk-Request which
// attempt this is.
//
// # What is retried
//
// The SDK decides that, by its own table: errors of the connection, the statuses
// 500, 502, 503 and 504, codes of throttling such as SlowDown and
// ProvisionedThroughputExceededException, and timeouts. An error that the SDK
// would not retry is marked [retry.Permanent]. A policy's RetryIf can only reject
// more. A body that cannot be rewound, such as an io.Pipe, is sent once.
//
// # What a server says
//
// The headers X-Amz-Retry-After and Retry-After of a failure are the server's
// wait, see [retry.After]; the longer one counts.
//
// # The SDK's quota
//
// A client of the SDK pays for retries from a quota of its own. It is replaced by
// the policy's Budget, unless Middleware.Retryer is set.
//
// # Errors
//
// An operation that fails returns a [*retry.Error] inside the SDK's
// smithy.OperationError. errors.As finds the SDK's errors in it as before, except
// MaxAttemptsError. GetAttemptResults of the SDK has the last attempt only, and
// its LogRetries logs nothing; OnEvent reports all of them.
//
// # Streaming
//
// An attempt ends when the response has been received; where the operation has a
// body to read, such as GetObject, with its headers. Errors while reading it are
// not retried. The AttemptTimeout bounds the attempt, and not the reading.
package retryaws

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"

	"github.com/goretry/retry"
)

// A Middleware retries operations by its Policy. Do not change its fields once
// it is in use.
type Middleware struct {
	Policy retry.Policy

	// Retryer says which errors are retried, and if it has a quota, retries are
	// paid from that as well. Its number of attempts and its delays have no
	// effect. nil: the SDK's table, and no quota.
	//
	// Share it among the clients of one service, as the SDK does. For other
	// errors to be retried too: awsretry.AddWithErrorCodes.
	Retryer aws.Retryer
}

// AddTo puts m in place of the SDK's own retries. It is one of the APIOptions of
// an aws.Config, a client, or a single operation; the last one counts.
func (m Middleware) AddTo(stack *middleware.Stack) error {
	replaced, ok := stack.Finalize.Get(retryID)
	if !ok {
		return nil // as for a presigned request, which is not sent
	}
	if m.Retryer == nil {
		m.Retryer = awsretry.NewStandard(func(o *awsretry.StandardOptions) { o.RateLimiter = ratelimit.None })
	}
	l := &loop{Middleware: m}
	switch replaced := replaced.(type) {
	case *awsretry.Attempt:
		l.sdk = replaced
	case *loop: // of a Middleware for all operations
		l.sdk = replaced.sdk
	default:
		return fmt.Errorf("retryaws: the middleware %s is a %T, want that of the SDK", retryID, replaced)
	}
	if _, err := stack.Finalize.Swap(retryID, l); err != nil {
		return err
	}
	if _, ok := stack.Deserialize.Get(bodyID); ok {
		return nil
	}
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc(bodyID, handleBody), middleware.After)
}
