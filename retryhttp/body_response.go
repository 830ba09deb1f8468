package retryhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// cancelAtEnd stores in b a body that reads rc, and that calls cancel when rc has been read to its
// end, when a Read fails, or when the body is closed. It returns b, or an upgraded body with b in
// it if rc can be written to.
func cancelAtEnd(
	rc io.ReadCloser, cancel context.CancelCauseFunc, b *responseBody,
) io.ReadCloser {
	*b = responseBody{rc, cancel}
	if w, ok := rc.(io.Writer); ok {
		return upgraded{b, w}
	}
	return b
}

// A responseBody is the body of a response as the caller gets it. It ends the context of its
// attempt when it has been read to its end, when a Read fails, or when it is closed.
type responseBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel(nil)
	}
	return n, err
}

func (b *responseBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// An upgraded is the body of a 101 Switching Protocols response. It reads from the connection and
// writes to it.
type upgraded struct {
	*responseBody
	io.Writer
}

// CloseWrite closes the connection for writing, as the CloseWrite of net/http does.
func (u upgraded) CloseWrite() error {
	if half, ok := u.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("retryhttp: CloseWrite: %w", http.ErrNotSupported)
}
