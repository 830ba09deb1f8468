// Package retryaws retries the operations of the AWS SDK for Go v2 according to a
// retry.Policy, which replaces the SDK's retry mode.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	cfg.APIOptions = append(cfg.APIOptions, retryaws.Middleware{Policy: retry.Default()}.AddTo)
//	client := s3.NewFromConfig(cfg)
//
// With a Middleware, the client's options Retryer, RetryMode and RetryMaxAttempts have no effect.
// In all other respects an attempt works as in the SDK: each attempt is signed again, the body is
// rewound, clock skew is corrected, and the header Amz-Sdk-Request contains the number of the
// attempt.
//
// # Which errors are retried
//
// The rules of the SDK decide which errors are retried. The SDK retries connection errors,
// timeouts, the statuses 500, 502, 503 and 504, and throttling codes such as SlowDown and
// ProvisionedThroughputExceededException. If the SDK would not retry an error, this package wraps
// the error with [retry.Permanent].
//
// The SDK retries every connection error. This package does not retry the connection errors that
// package retryhttp treats as permanent, such as the error for a certificate that is not trusted.
// The policy's RetryIf can reject further errors. It cannot make a permanent error retryable. A
// body that cannot be rewound, such as an io.Pipe, is sent only once.
//
// # Waits that the server asks for
//
// A server can ask for a wait in the headers X-Amz-Retry-After and Retry-After. If both headers ask
// for a wait, the longer wait is passed to [retry.After].
//
// # The SDK's quota
//
// Without this package, each client of the SDK has a quota that limits its retries. With this
// package, the policy's Budget takes the place of the quota. Without any Budget, each operation
// makes all attempts that its policy allows, even during an outage. If you set Middleware.Retryer,
// the quota of this Retryer applies in addition to the Budget.
//
// # Errors
//
// A failed operation returns a [*retry.Error] inside the SDK's smithy.OperationError. In this
// error, errors.As still finds the errors of the SDK, except the SDK's MaxAttemptsError. The SDK's
// function GetAttemptResults returns only the result of the last attempt. The SDK's option
// LogRetries logs nothing. Use the policy's OnEvent to observe all attempts.
//
// # Streaming
//
// An attempt ends when the SDK has received the response. If you read the body of the response
// yourself, as with GetObject, the attempt ends when the response headers have arrived. So an error
// while you read the body is not retried, and AttemptTimeout does not bound the reading.
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

	// Retryer decides which errors are retried. If Retryer is nil, the rules of the SDK decide, and
	// there is no quota. If the Retryer has a quota, each retry takes tokens from this quota and
	// counts in the policy's Budget as well. The Retryer's methods MaxAttempts and RetryDelay have no
	// effect. A connection error that package retryhttp treats as permanent is not retried, whatever
	// the Retryer says.
	//
	// Use a separate Retryer for each service. In the SDK, too, the clients of different services do
	// not share a Retryer. To retry more errors, wrap the Retryer with awsretry.AddWithErrorCodes.
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
