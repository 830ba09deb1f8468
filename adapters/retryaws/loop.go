package retryaws

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryrpc"
	"github.com/goretry/retry/retryhttp"
)

// retryID is the name of the SDK's retry middleware. The loop keeps this name, so that other
// middleware can be placed relative to it.
const retryID = "Retry"

// A loop is the middleware that replaces the SDK's retry middleware.
type loop struct {
	Middleware
	sdk *awsretry.Attempt // the SDK's retry middleware; each attempt uses its settings
}

func (*loop) ID() string { return retryID }

func (l *loop) HandleFinalize(
	ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler,
) (middleware.FinalizeOutput, middleware.Metadata, error) {
	c := &call{
		loop: l, ctx: ctx, input: in, request: in.Request.(*smithyhttp.Request),
		next: next, settle: settleNothing,
	}
	err := retry.Do(ctx, l.Policy, c.attempt)
	c.settle(nil) // if a retry was paid for but not made, its tokens go back into the quota
	return c.out, c.metadata, err
}

// A call is one call of an operation, with all its attempts.
type call struct {
	*loop
	ctx     context.Context // the caller's context
	input   middleware.FinalizeInput
	request *smithyhttp.Request // input.Request, converted to the type that RequestCloner needs
	next    middleware.FinalizeHandler

	attempts int               // how many attempts have begun
	failure  error             // the error of the last attempt
	settle   func(error) error // tells the Retryer's quota how the paid retry ended
	out      middleware.FinalizeOutput
	metadata middleware.Metadata
}

// settleNothing is the value of the field `settle` while the call holds no tokens of the Retryer's
// quota.
func settleNothing(error) error { return nil }

// attempt makes one attempt. If ctx ends during the attempt, the attempt fails.
func (c *call) attempt(ctx context.Context) error {
	if c.attempts++; c.attempts > 1 {
		if err := c.request.RewindStream(); err != nil {
			return final(c.failure, err)
		}
	}
	requestCtx, end := c.requestContext(ctx)
	only := &single{call: c}
	sdk := awsretry.NewAttemptMiddleware(only, smithyhttp.RequestCloner, func(a *awsretry.Attempt) {
		a.OperationMeter = c.sdk.OperationMeter
		a.ClientSkew = c.sdk.ClientSkew
		a.DisableClockSkewCorrection = c.sdk.DisableClockSkewCorrection
	})
	var err error
	send := middleware.FinalizeHandlerFunc(c.send)
	c.out, c.metadata, err = sdk.HandleFinalize(requestCtx, c.input, send)
	c.settle(err)
	c.settle = settleNothing
	late, err := end(err)
	c.failure = err

	switch {
	case err == nil || retryrpc.Ended(c.ctx):
		// Do not wrap err with Permanent, because the caller may make the call again with another
		// context.
		return err
	case !late && (!only.retryable || untrusted(err)):
		return retry.Permanent(err)
	case c.request.GetStream() != nil && !c.request.IsStreamSeekable():
		return final(err, errBody)
	}
	if err := c.pay(err); err != nil {
		return final(c.failure, err)
	}
	return retry.After(serversWait(err), err)
}

// untrusted reports whether err is a connection error that package retryhttp treats as permanent,
// such as the error for a certificate that is not trusted. The SDK would retry it, because the SDK
// retries every connection error.
func untrusted(err error) bool {
	return err != nil && retry.IsPermanent(retryhttp.Check(nil, nil, err))
}

var errBody = errors.New("the body cannot be rewound: use an io.ReadSeeker")

// send sends the request of an attempt. The SDK takes each attempt for the first attempt, so `send`
// writes the right number of the attempt into the header Amz-Sdk-Request.
func (c *call) send(
	ctx context.Context, in middleware.FinalizeInput,
) (middleware.FinalizeOutput, middleware.Metadata, error) {
	const key = "Amz-Sdk-Request"
	// The SDK has made a copy of the request for this attempt, so the header of this copy may be
	// changed.
	header := in.Request.(*smithyhttp.Request).Header
	number := "attempt=" + strconv.Itoa(c.attempts)
	header.Set(key, strings.Replace(header.Get(key), "attempt=1", number, 1))
	return c.next.HandleFinalize(ctx, in)
}

// pay takes the tokens for a retry out of the Retryer's quota. err is the failure before the retry.
// If the quota has too few tokens, `pay` returns an error. After the last attempt, `pay` takes
// nothing and returns nil.
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

// final returns a permanent error that wraps the failure of an attempt, and the reason why there is
// no retry.
func final(failure, reason error) error {
	return retry.Permanent(fmt.Errorf("%w (not retried: %w)", failure, reason))
}

// serversWait returns the wait that the server asks for, or 0 if the server asks for no wait.
func serversWait(err error) time.Duration {
	var failed *smithyhttp.ResponseError
	if !errors.As(err, &failed) || failed.Response == nil || failed.Response.Response == nil {
		return 0
	}
	wait := retryhttp.AdviceOf(failed.Response.Response).Wait
	value := failed.Response.Header.Get("X-Amz-Retry-After")
	const maxBytes = 128 // AdviceOf has the same limit for a header
	ms, err := strconv.ParseInt(value[:min(len(value), maxBytes)], 10, 64)
	if err != nil {
		return wait
	}
	return max(wait, retryrpc.Milliseconds(ms))
}
