package retryaws

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	"github.com/aws/smithy-go/tracing"
)

// A single is an aws.RetryerV2 for one attempt. It keeps the SDK from retrying, and records
// whether the Retryer would retry.
type single struct {
	aws.NopRetryer
	*call
	retryable bool // whether the Retryer would retry the error of the attempt
}

// MaxAttempts returns the limit that the SDK reports to the server. This number does not limit the
// attempts, because the policy does.
func (s *single) MaxAttempts() int { return max(0, s.Policy.EffectiveMax()) }

func (s *single) IsErrorRetryable(err error) bool {
	s.retryable = s.Retryer.IsErrorRetryable(err)
	return false
}

// GetAttemptToken asks the Retryer to let the attempt start. The Retryer may delay the attempt, as
// the Retryer of the adaptive mode does. The result `settle` is a function that tells the Retryer
// how the attempt ended, so that a success can refill the Retryer's quota. Before v1.48.0, one mode
// of the SDK did not report the result of a retry to the Retryer: see asRetry. In this mode,
// `settle` does nothing for a retry.
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
		settle = settleNothing
	}
	return settle, err
}

// asRetry returns the context that the SDK would pass to a Retryer for a retry, and whether the
// SDK would report the result of the retry to the Retryer. The versions of the SDK differ in
// both points. Since v1.48.0, the context contains the number of the attempt under a key that
// is not exported. Before v1.48.0, one mode of the SDK did not report the result. So asRetry
// lets the SDK make two attempts that send nothing, and looks at the second attempt.
func asRetry(ctx context.Context) (retryCtx context.Context, counts bool) {
	p := &probe{ctx: ctx}
	quiet := tracing.WithOperationTracer(ctx, tracing.NopTracerProvider{}.Tracer(""))
	sdk := awsretry.NewAttemptMiddleware(p, func(request any) any { return request })
	send := middleware.FinalizeHandlerFunc(sendNothing)
	_, _, _ = sdk.HandleFinalize(quiet, middleware.FinalizeInput{}, send)
	return p.ctx, p.settled
}

var errProbe = errors.New("retryaws: nothing was sent")

func sendNothing(
	context.Context, middleware.FinalizeInput,
) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
	return out, metadata, errProbe
}

// A probe is a Retryer that lets the SDK make a second attempt at once. It records the context of
// the last attempt, and whether the SDK has reported the result.
type probe struct {
	aws.NopRetryer
	ctx     context.Context // the context of the last attempt
	settled bool            // whether the SDK has reported the result of the last attempt
}

func (*probe) MaxAttempts() int { return 2 }

func (*probe) IsErrorRetryable(error) bool { return true }

func (*probe) RetryDelay(int, error) (time.Duration, error) { return 0, nil }

func (*probe) GetRetryToken(context.Context, error) (func(error) error, error) {
	return settleNothing, nil
}

func (p *probe) GetAttemptToken(ctx context.Context) (func(error) error, error) {
	p.ctx, p.settled = ctx, false
	return func(error) error { p.settled = true; return nil }, nil
}
