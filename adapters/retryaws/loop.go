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

// retryID is the name of the SDK's retry middleware. The loop keeps it, so that
// other middleware can be placed relative to it.
const retryID = "Retry"

// A loop is the middleware that replaces the SDK's retry middleware.
type loop struct {
	Middleware
	sdk *awsretry.Attempt // the middleware that it replaces, for its settings
}

func (*loop) ID() string { return retryID }

func (l *loop) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	c := &call{loop: l, ctx: ctx, in: in, next: next, settle: free}
	err := retry.Do(ctx, l.Policy, c.attempt)
	c.settle(nil) // returns what a retry took from the quota if it was not made
	return c.out, c.metadata, err
}

// A call is one call of an operation, with all its attempts.
type call struct {
	*loop
	ctx  context.Context // the caller's context
	in   middleware.FinalizeInput
	next middleware.FinalizeHandler

	attempts int
	failure  error             // of the last attempt
	settle   func(error) error // tells the quota how the retry that it paid for ended
	out      middleware.FinalizeOutput
	metadata middleware.Metadata
}

func free(error) error { return nil }

// attempt makes one attempt that ends at the latest when ctx does.
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

// rewind rewinds the body before every attempt except the first.
func (c *call) rewind() error {
	body, ok := c.in.Request.(interface{ RewindStream() error })
	if c.attempts == 1 || !ok {
		return nil
	}
	return body.RewindStream()
}

// send sends the request of an attempt. The SDK takes each attempt for the first,
// so send corrects its number in the header.
func (c *call) send(ctx context.Context, in middleware.FinalizeInput) (middleware.FinalizeOutput, middleware.Metadata, error) {
	if request, ok := in.Request.(*smithyhttp.Request); ok {
		const key = "Amz-Sdk-Request"
		request.Header.Set(key, strings.Replace(request.Header.Get(key), "attempt=1", "attempt="+strconv.Itoa(c.attempts), 1))
	}
	return c.next.HandleFinalize(ctx, in)
}

// pay takes the retry that may follow err from the Retryer's quota. It takes
// nothing after the last attempt.
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

// final marks the failure of an attempt as permanent and adds the reason to its
// text.
func final(failure, why error) error {
	return retry.Permanent(fmt.Errorf("%w (not retried: %w)", failure, why))
}

// A single is an aws.RetryerV2 for one attempt. It keeps the SDK from retrying, and
// records whether the Retryer would.
type single struct {
	aws.NopRetryer
	*call
	retryable bool
}

// MaxAttempts is only sent to the server; it limits nothing here.
func (s *single) MaxAttempts() int { return max(0, s.Policy.EffectiveMax()) }

func (s *single) IsErrorRetryable(err error) bool {
	s.retryable = s.Retryer.IsErrorRetryable(err)
	return false
}

// GetAttemptToken lets a Retryer delay the attempt, as the one of the adaptive mode
// does, and refill its quota after the successes that the SDK counts. In the mode
// of 2026 these are only those of first attempts.
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

// serversWait returns the wait that the server asks for, 0 if it asks for none.
func serversWait(err error) time.Duration {
	var failed *smithyhttp.ResponseError
	if !errors.As(err, &failed) || failed.Response == nil || failed.Response.Response == nil {
		return 0
	}
	wait := retryhttp.AdviceOf(failed.Response.Response).Wait
	value := failed.Response.Header.Get("X-Amz-Retry-After")
	ms, err := strconv.ParseInt(value[:min(len(value), 128)], 10, 64) // as much of a header as AdviceOf reads
	if err != nil {
		return wait
	}
	return max(wait, saturate.Mul(uint64(max(0, ms)), time.Millisecond))
}
