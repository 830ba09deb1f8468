package retryaws

import (
	"context"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// cancelKey is the key of the stack value that cancels the context of a request.
type cancelKey struct{}

// bodyID is the name of the middleware handleBody.
const bodyID = "RetryBody"

// handleBody wraps the body of a response. When the body is closed, the context of its request
// ends.
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

// A body ends the context of its request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
