package retryaws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	"github.com/aws/smithy-go/tracing"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryrpc"
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
	c := &call{loop: l, ctx: ctx, in: in, request: in.Request.(*smithyhttp.Request), next: next, settle: free}
	err := retry.Do(ctx, l.Policy, c.attempt)
	c.settle(nil) // returns what a retry took from the quota if it was not made
	return c.out, c.metadata, err
}

// A call is one call of an operation, with all its attempts.
type call struct {
	*loop
	ctx     context.Context // the caller's context
	in      middleware.FinalizeInput
	request *smithyhttp.Request // of in: RequestCloner takes no other
	next    middleware.FinalizeHandler

	attempts int
	failure  error             // of the last attempt
	settle   func(error) error // tells the quota how the retry that it paid for ended
	out      middleware.FinalizeOutput
	metadata middleware.Metadata
}

func free(error) error { return nil }

// attempt makes one attempt that ends at the latest when ctx does.
func (c *call) attempt(ctx context.Context) error {
	if c.attempts++; c.attempts > 1 {
		if err := c.request.RewindStream(); err != nil {
			return final(c.failure, err)
		}
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
	case err == nil || retryrpc.Ended(c.ctx):
		return err // not marked: a loop around this one may go on with another context
	case !late && (!only.retryable || staysHTTP(err)):
		return retry.Permanent(err)
	case c.request.GetStream() != nil && !c.request.IsStreamSeekable():
		return final(err, errBody)
	}
	if err := c.pay(err); err != nil {
		return final(c.failure, err)
	}
	return retry.After(serversWait(err), err)
}

// staysHTTP reports whether err is an error of the connection that retryhttp does not retry,
// such as a certificate that is not trusted. The SDK retries every one.
func staysHTTP(err error) bool {
	return err != nil && retry.IsPermanent(retryhttp.Check(nil, nil, err))
}

var errBody = errors.New("the body cannot be rewound: use an io.ReadSeeker")

// send sends the request of an attempt. The SDK takes each attempt for the first,
// so send corrects its number in the header.
func (c *call) send(ctx context.Context, in middleware.FinalizeInput) (middleware.FinalizeOutput, middleware.Metadata, error) {
	const key = "Amz-Sdk-Request"
	header := in.Request.(*smithyhttp.Request).Header // of a copy
	header.Set(key, strings.Replace(header.Get(key), "attempt=1", "attempt="+strconv.Itoa(c.attempts), 1))
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
// does, and refill its quota after the successes that the SDK counts.
func (s *single) GetAttemptToken(ctx context.Context) (settle func(error) error, err error) {
	counts := true
	if s.attempts > 1 {
		ctx, counts = asRetry(ctx)
	}
	if v2, ok := s.Retryer.(aws.RetryerV2); ok {
		settle, err = v2.GetAttemptToken(ctx)
	} else {
		settle = s.Retryer.GetInitialToken()
	}
	if !counts {
		settle = free
	}
	return settle, err
}

// asRetry returns ctx as the SDK gives it to a Retryer for a retry, and whether the SDK
// settles the token of a retry. Both differ among the versions of the SDK: since v1.48.0 a
// Retryer finds the number of the attempt in its context, and before, a mode of the SDK did
// not settle. The number has no exported key. So asRetry has the SDK make two attempts that
// send nothing, and looks at the second.
func asRetry(ctx context.Context) (of context.Context, counts bool) {
	p := &probe{of: ctx}
	quiet := tracing.WithOperationTracer(ctx, tracing.NopTracerProvider{}.Tracer(""))
	sdk := awsretry.NewAttemptMiddleware(p, func(request any) any { return request })
	_, _, _ = sdk.HandleFinalize(quiet, middleware.FinalizeInput{}, middleware.FinalizeHandlerFunc(fails))
	return p.of, p.settled
}

var errProbe = errors.New("retryaws: nothing was sent")

func fails(context.Context, middleware.FinalizeInput) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
	return out, metadata, errProbe
}

// A probe is a Retryer that makes a second attempt at once.
type probe struct {
	aws.NopRetryer
	of      context.Context // of the last attempt
	settled bool            // the token of the last attempt
}

func (*probe) MaxAttempts() int                                                { return 2 }
func (*probe) IsErrorRetryable(error) bool                                     { return true }
func (*probe) RetryDelay(int, error) (time.Duration, error)                    { return 0, nil }
func (*probe) GetRetryToken(context.Context, error) (func(error) error, error) { return free, nil }

func (p *probe) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	p.of, p.settled = ctx, false
	return func(error) error { p.settled = true; return nil }, nil
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
	return max(wait, retryrpc.Milliseconds(ms))
}

// sending returns the context for a request. Until end is called, it ends when the
// attempt's context does. After a success it stays alive until the body of the
// response is closed, because the body may be read after the attempt. end returns
// the error of the attempt, and in late whether the AttemptTimeout caused it.
func (c *call) sending(attempt context.Context) (ctx context.Context, end func(error) (late bool, err error)) {
	timeout := c.Policy.AttemptTimeout
	if timeout <= 0 {
		return attempt, func(err error) (bool, error) { return false, err }
	}
	errTimeout := fmt.Errorf("no response within AttemptTimeout (%v)", timeout)
	ctx, cancel := context.WithCancelCause(c.ctx)
	stop := context.AfterFunc(attempt, func() { cancel(errTimeout) })
	return middleware.WithStackValue(ctx, cancelKey{}, cancel), func(err error) (bool, error) {
		stop()
		late := context.Cause(ctx) == errTimeout && !retryrpc.Ended(c.ctx)
		switch {
		case late && err == nil:
			err = errTimeout
		case late:
			err = fmt.Errorf("%w: %w", errTimeout, err)
		}
		if err != nil {
			cancel(nil)
		}
		return late, err
	}
}

type cancelKey struct{}

const bodyID = "RetryBody"

// handleBody wraps the body of a response, so that closing it ends the context of
// its request.
func handleBody(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, metadata, err := next.HandleDeserialize(ctx, in)
	cancel, ok := middleware.GetStackValue(ctx, cancelKey{}).(context.CancelCauseFunc)
	if response, isHTTP := out.RawResponse.(*smithyhttp.Response); ok && isHTTP && response.Response != nil {
		response.Body = body{response.Body, cancel}
	}
	return out, metadata, err
}

type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
