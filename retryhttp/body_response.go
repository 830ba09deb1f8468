package retryhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// cancelAtEnd sets b to a body that reads from rc. The body calls the parameter `end` at the end of
// rc and on Close. It calls the parameter `cancel` after a failed Read, and on a Close during a
// Read. The result is b, or, if rc is also an io.Writer, a value of the type `upgraded`, which
// contains b.
func cancelAtEnd(
	rc io.ReadCloser, cancel, end context.CancelCauseFunc, b *responseBody,
) io.ReadCloser {
	*b = responseBody{ReadCloser: rc, cancel: cancel, end: end}
	if w, ok := rc.(io.Writer); ok {
		return upgraded{b, w}
	}
	return b
}

// A responseBody is the body of a response as the caller gets it. It cancels the context of its
// attempt when it has been read to its end, after a failed Read, and on Close. While an upload goes
// on, the end and Close leave this to the upload: see endAfterUpload.
type responseBody struct {
	io.ReadCloser
	cancel  context.CancelCauseFunc
	end     context.CancelCauseFunc
	reading atomic.Bool // a Read is running
}

func (b *responseBody) Read(p []byte) (int, error) {
	b.reading.Store(true)
	n, err := b.ReadCloser.Read(p)
	b.reading.Store(false)
	switch err {
	case nil:
	case io.EOF:
		b.end(nil)
	default:
		b.cancel(nil)
	}
	return n, err
}

func (b *responseBody) Close() error {
	if b.reading.Load() {
		b.cancel(nil) // ends a Read that hangs, for which the Close of a compressed body would wait
	}
	defer b.end(nil)
	return b.ReadCloser.Close()
}

// The type `upgraded` is the body of a 101 Switching Protocols response. It reads from the
// connection and writes to it.
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
