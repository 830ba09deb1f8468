package retryhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// endedBy returns the body of a response, which calls cancel at its end, or when it is closed.
// It is kept in b.
func endedBy(rc io.ReadCloser, cancel context.CancelCauseFunc, b *body) io.ReadCloser {
	*b = body{rc, cancel}
	if w, ok := rc.(io.Writer); ok {
		return upgraded{b, w}
	}
	return b
}

// A body ends its attempt.
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

// upgraded is the body after 101 Switching Protocols, the connection.
type upgraded struct {
	*body
	io.Writer
}

// CloseWrite closes the half that is written, as in net/http.
func (u upgraded) CloseWrite() error {
	if half, ok := u.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("retryhttp: CloseWrite: %w", http.ErrNotSupported)
}
