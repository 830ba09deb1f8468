package retryhttp

import (
	"fmt"
	"io"
	"net/http"
)

// endedBy returns the body of a response, at whose end, or when it is closed, the
// attempt ends.
func (a *attempt) endedBy(rc io.ReadCloser) io.ReadCloser {
	if rc == nil || rc == http.NoBody {
		return rc // http.NoBody stays what it is: callers compare. The attempt ends after Check
	}
	if _, upgraded := rc.(io.Writer); !upgraded && a.x.t.StallTimeout > 0 {
		rc = a.watched(rc)
	}
	a.rc = rc
	switch rc := rc.(type) {
	case io.Writer:
		return upgraded{(*body)(a), rc}
	case io.WriterTo:
		return (*bodyTo)(a)
	default:
		return (*body)(a)
	}
}

// A body is an attempt as the body of its response.
type body attempt

func (b *body) Read(p []byte) (int, error) {
	n, err := b.rc.Read(p)
	if err != nil {
		(*attempt)(b).cancel(nil)
	}
	return n, err
}

func (b *body) Close() error {
	defer (*attempt)(b).cancel(nil)
	return b.rc.Close()
}

// A bodyTo is a body with a method WriteTo.
type bodyTo attempt

func (b *bodyTo) Read(p []byte) (int, error) { return (*body)(b).Read(p) }
func (b *bodyTo) Close() error               { return (*body)(b).Close() }

func (b *bodyTo) WriteTo(w io.Writer) (int64, error) {
	defer (*attempt)(b).cancel(nil)
	return b.rc.(io.WriterTo).WriteTo(w)
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
