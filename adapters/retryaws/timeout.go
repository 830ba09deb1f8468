package retryaws

import (
	"context"
	"fmt"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/goretry/retry/adapters/internal/rpc"
)

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
