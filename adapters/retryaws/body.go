package retryaws

import (
	"context"
	"fmt"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/goretry/retry/adapters/retryrpc"
)

// cancelKey is a key for middleware.WithStackValue. The value is the function that cancels the
// context of a request.
type cancelKey struct{}

// requestContext returns the context for the request of an attempt, and the function `end`, which
// must be called when the SDK has returned. If the attempt's context is done before `end` is
// called, the request's context is canceled. After a success, the request's context lasts until the
// body of the response is closed, because the body may be read after the attempt. The function
// `end` takes the error of the SDK and returns the error of the attempt. Its result `late` is true
// if AttemptTimeout caused this error.
func (c *call) requestContext(
	attempt context.Context,
) (ctx context.Context, end func(error) (late bool, err error)) {
	timeout := c.Policy.AttemptTimeout
	if timeout <= 0 {
		return attempt, func(err error) (bool, error) { return false, err }
	}
	errTimeout := fmt.Errorf("no response within AttemptTimeout (%v)", timeout)
	ctx, cancel := context.WithCancelCause(c.ctx)
	stop := context.AfterFunc(attempt, func() { cancel(errTimeout) })
	end = func(err error) (bool, error) {
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
	return middleware.WithStackValue(ctx, cancelKey{}, cancel), end
}

// bodyID is the name of the middleware handleBody.
const bodyID = "RetryBody"

// handleBody wraps the body of a response. When the body is closed, the context of the request is
// canceled.
func handleBody(
	ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
) (middleware.DeserializeOutput, middleware.Metadata, error) {
	out, metadata, err := next.HandleDeserialize(ctx, in)
	cancel, ok := middleware.GetStackValue(ctx, cancelKey{}).(context.CancelCauseFunc)
	response, isHTTP := out.RawResponse.(*smithyhttp.Response)
	if ok && isHTTP && response.Response != nil {
		response.Body = body{response.Body, cancel}
	}
	return out, metadata, err
}

// A body is the body of a response. When it is closed, it cancels the context of the request.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
