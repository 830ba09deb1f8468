package retryaws

import (
	"context"
	"fmt"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/goretry/retry/adapters/internal/rpc"
)

// sending returns the context of a request. It ends with that of the attempt
// until end is called, and goes on until the body of the response is closed, which
// may be read after the attempt. end returns what the attempt failed with, and
// whether that is the AttemptTimeout.
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
		late := context.Cause(ctx) == errTimeout && !rpc.Ended(c.ctx)
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

// handleBody makes the body of a response end the context of its request when it
// is closed.
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
