package retryaws

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/rpc"
	"github.com/goretry/retry/internal/saturate"
	"github.com/goretry/retry/retryhttp"
)

// retryID is the name of the SDK's own middleware, by which others find it.
const retryID = "Retry"

// A loop is the middleware in place of the SDK's.
type loop struct {
	Middleware
	sdk *awsretry.Attempt // makes each attempt, as if it were the only one
}

func (*loop) ID() string { return retryID }

func (l *loop) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	c := &call{loop: l, ctx: ctx, in: in, next: next, settle: free}
	err := retry.Do(ctx, l.Policy, c.attempt)
	c.settle(nil) // a retry that was paid for and is not made
	return c.out, c.metadata, err
}

// A call is one call of an operation, with all its attempts.
type call struct {
	*loop
	ctx  context.Context // the caller's
	in   middleware.FinalizeInput
	next middleware.FinalizeHandler

	attempts int
	failure  error             // of the last attempt
	settle   func(error) error // ends the payment for this attempt to the quota
	out      middleware.FinalizeOutput
	metadata middleware.Metadata
}

func free(error) error { return nil }

// attempt makes one attempt, within ctx.
func (c *call) attempt(ctx context.Context) error {
	c.attempts++
	if err := c.rewind(); err != nil {
		return final(c.failure, err)
	}
	sending, end := c.sending(ctx)
	only := &single{call: c}
	sdk := awsretry.NewAttemptMiddleware(only, smithyhttp.RequestCloner, func(a *awsretry.Attempt) {
		a.OperationMeter = c.sdk.OperationMeter
		a.ClientSkew = c.sdk.ClientSkew
		a.DisableClockSkewCorrection = c.sdk.DisableClockSkewCorrection
	})
	var err error
	c.out, c.metadata, err = sdk.HandleFinalize(sending, c.in, middleware.FinalizeHandlerFunc(c.send))
	c.settle(err)
	c.settle = free
	late, err := end(err)
	c.failure = err

	switch {
	case err == nil || rpc.Ended(c.ctx):
		return err // not marked: a loop around this one may go on with another context
	case !late && !only.retryable:
		return retry.Permanent(err)
	case !c.rewindable():
		return final(err, errBody)
	}
	if err := c.pay(err); err != nil {
		return final(c.failure, err)
	}
	return retry.After(serversWait(err), err)
}

var errBody = errors.New("the body cannot be rewound: use an io.ReadSeeker")

// rewindable reports whether the body can be sent again.
func (c *call) rewindable() bool {
	request, ok := c.in.Request.(*smithyhttp.Request)
	return !ok || request.GetStream() == nil || request.IsStreamSeekable()
}

// rewind rewinds the body, before an attempt that is not the first.
func (c *call) rewind() error {
	body, ok := c.in.Request.(interface{ RewindStream() error })
	if c.attempts == 1 || !ok {
		return nil
	}
	return body.RewindStream()
}

// send sends the request of an attempt, and says which one it is: the SDK takes
// each for the first.
func (c *call) send(ctx context.Context, in middleware.FinalizeInput) (middleware.FinalizeOutput, middleware.Metadata, error) {
	if request, ok := in.Request.(*smithyhttp.Request); ok {
		const key = "Amz-Sdk-Request"
		request.Header.Set(key, strings.Replace(request.Header.Get(key), "attempt=1", "attempt="+strconv.Itoa(c.attempts), 1))
	}
	return c.next.HandleFinalize(ctx, in)
}

// pay pays for the retry that may follow a failure to the quota of the Retryer.
func (c *call) pay(err error) error {
	if limit := c.Policy.EffectiveMax(); limit != retry.Unlimited && c.attempts >= limit {
		return nil
	}
	settle, quotaErr := c.Retryer.GetRetryToken(c.ctx, err)
	if quotaErr == nil {
		c.settle = settle
	}
	return quotaErr
}

// final marks the failure of an attempt as permanent because of why.
func final(failure, why error) error {
	return retry.Permanent(fmt.Errorf("%w (not retried: %w)", failure, why))
}

// A single is an aws.RetryerV2 for one attempt. It lets the SDK make no other,
// and keeps what the Retryer says of the failure.
type single struct {
	aws.NopRetryer
	*call
	retryable bool
}

// MaxAttempts is only told to the server.
func (s *single) MaxAttempts() int { return max(0, s.Policy.EffectiveMax()) }

func (s *single) IsErrorRetryable(err error) bool {
	s.retryable = s.Retryer.IsErrorRetryable(err)
	return false
}

// GetAttemptToken lets a Retryer delay the attempt, as that of the adaptive mode
// does, and fill its quota by the successes that the SDK counts.
func (s *single) GetAttemptToken(ctx context.Context) (settle func(error) error, err error) {
	if v2, ok := s.Retryer.(aws.RetryerV2); ok {
		settle, err = v2.GetAttemptToken(ctx)
	} else {
		settle = s.Retryer.GetInitialToken()
	}
	if s.attempts > 1 && os.Getenv("AWS_NEW_RETRIES_2026") == "true" {
		settle = free
	}
	return settle, err
}

// serversWait returns the wait that a server asks for.
func serversWait(err error) time.Duration {
	var failed *smithyhttp.ResponseError
	if !errors.As(err, &failed) || failed.Response == nil || failed.Response.Response == nil {
		return 0
	}
	wait, _ := retryhttp.RetryAfter(failed.Response.Response)
	ms, err := strconv.ParseInt(failed.Response.Header.Get("X-Amz-Retry-After"), 10, 64)
	if err != nil {
		return wait
	}
	return max(wait, saturate.Mul(uint64(max(0, ms)), time.Millisecond))
}
