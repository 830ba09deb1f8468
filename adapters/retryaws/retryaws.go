// Package retryaws retries the operations of the AWS SDK for Go v2 according to a
// retry.Policy, which replaces the SDK's retry mode.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	cfg.APIOptions = append(cfg.APIOptions, retryaws.Middleware{Policy: retry.Default()}.AddTo)
//	client := s3.NewFromConfig(cfg)
//
// With a Middleware, the client's options Retryer, RetryMode and RetryMaxAttempts have no
// effect. In all other respects an attempt works as in the SDK: each attempt is signed again,
// the body is rewound, clock skew is corrected, and Amz-Sdk-Request contains the number of the
// attempt.
//
// # What is retried
//
// The rules of the SDK decide which errors are retried. The SDK retries connection errors,
// timeouts, the statuses 500, 502, 503 and 504, and throttling codes such as SlowDown and
// ProvisionedThroughputExceededException. An error that the SDK would not retry is
// [retry.Permanent].
//
// The SDK retries every connection error. This package does not retry the connection errors
// that package retryhttp treats as permanent, such as a certificate that is not trusted. A
// policy's RetryIf can only reject more errors. A body that cannot be rewound, such as an
// io.Pipe, is sent only once.
//
// # What the server asks for
//
// A server can ask for a wait in the headers X-Amz-Retry-After and Retry-After. The longer wait
// applies (see [retry.After]).
//
// # The SDK's quota
//
// Without this package, each client of the SDK takes its retries from a quota. With this package,
// the policy's Budget takes the place of the quota. Without any Budget, only the limits of the
// policy bound the retries: during an outage, each operation makes all its attempts. If you set
// Middleware.Retryer, the quota of this Retryer applies in addition to the Budget.
//
// # Errors
//
// A failed operation returns a [*retry.Error] inside the SDK's smithy.OperationError. The function
// errors.As still finds the errors of the SDK in it, except the SDK's MaxAttemptsError. The SDK's
// GetAttemptResults returns only the last attempt, and its LogRetries logs nothing. Use the
// policy's OnEvent to observe all attempts.
//
// # Streaming
//
// An attempt ends when the response has been received. If you read the body of the response
// yourself, as with GetObject, the attempt ends with the response headers. So an error while
// you read the body is not retried, and AttemptTimeout does not bound the reading.
package retryaws

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"

	"github.com/goretry/retry"
)

// A Middleware retries operations according to its Policy. Do not change its fields once
// it is in use.
type Middleware struct {
	// Policy decides about the retries of each operation.
	Policy retry.Policy

	// Retryer decides which errors are retried. If Retryer is nil, the rules of the SDK decide,
	// and there is no quota. If the Retryer has a quota, each retry takes from this quota and from
	// the policy's Budget. The Retryer's number of attempts and its delays have no effect. A
	// connection error that package retryhttp treats as permanent is not retried, whatever the
	// Retryer says.
	//
	// Share a Retryer among the clients of one service, as the SDK does. To retry more errors,
	// wrap the Retryer with awsretry.AddWithErrorCodes.
	Retryer aws.Retryer
}

// AddTo replaces the SDK's own retries with m. Append AddTo to the APIOptions of an aws.Config,
// a client, or a single operation. If several Middlewares are appended, the last one applies.
// AddTo returns an error if another package has already replaced the SDK's retries.
func (m Middleware) AddTo(stack *middleware.Stack) error {
	replaced, ok := stack.Finalize.Get(retryID)
	if !ok {
		return nil // a presigned request is not sent, so it has no retries to replace
	}
	if m.Retryer == nil {
		m.Retryer = awsretry.NewStandard(func(o *awsretry.StandardOptions) {
			o.RateLimiter = ratelimit.None
		})
	}
	l := &loop{Middleware: m}
	switch replaced := replaced.(type) {
	case *awsretry.Attempt:
		l.sdk = replaced
	case *loop: // an earlier AddTo has replaced the SDK's retries
		l.sdk = replaced.sdk
	default:
		return fmt.Errorf("retryaws: the middleware %s is a %T, want the SDK's own: "+
			"remove the other package's middleware", retryID, replaced)
	}
	if _, err := stack.Finalize.Swap(retryID, l); err != nil {
		return err
	}
	if _, ok := stack.Deserialize.Get(bodyID); ok {
		return nil
	}
	handler := middleware.DeserializeMiddlewareFunc(bodyID, handleBody)
	return stack.Deserialize.Add(handler, middleware.After)
}
