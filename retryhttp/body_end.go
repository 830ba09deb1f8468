package retryhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// endedBy returns a body that reads rc, and calls cancel at the end of rc or when it is closed. The
// memory for it is b.
func endedBy(rc io.ReadCloser, cancel context.CancelCauseFunc, b *body) io.ReadCloser {
	*b = body{rc, cancel}
	if w, ok := rc.(io.Writer); ok {
		return upgraded{b, w}
	}
	return b
}

// A body ends the context of its attempt when it has been read to its end or closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel(nil)
	}
	return n, err
}

func (b *body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// An upgraded is the body after a 101 Switching Protocols: the connection, which can be written to.
type upgraded struct {
	*body
	io.Writer
}

// CloseWrite closes the connection for writing, as the CloseWrite of net/http does.
func (u upgraded) CloseWrite() error {
	if half, ok := u.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("retryhttp: CloseWrite: %w", http.ErrNotSupported)
}
