package retryhttp

import (
	"io"
	"net/http"
	"sync"
)

// The method `prepare` calls the Prepare of the Transport. If Prepare fails, `prepare` closes the
// body of the request. If Prepare has replaced the body before it fails, `prepare` closes both
// bodies.
func (a *attempt) prepare() (err error) {
	x := a.x
	var before *closing
	if hasBody(x.req) {
		before = &closing{a.req.Body, sync.OnceValue(a.req.Body.Close)}
		a.req.Body = before
	}
	prepared := false // stays false if Prepare panics
	defer func() {
		if !prepared && a.req.Body != nil {
			_ = a.req.Body.Close()
		}
		if !prepared && before != nil {
			_ = before.Close()
		}
	}()
	err = a.orTimeout(x.t.Prepare(a.req, a.number, x.failure))
	if prepared = err == nil; prepared {
		a.req.Body = before.replacedBy(a.req.Body)
	}
	return x.unsent("retryhttp: Prepare", err)
}

// The type `closing` is a body whose Close calls the field `close`. It is the body of the request
// while Prepare runs. So the original body is closed only once, even if Close is called by Prepare,
// by the body that Prepare has set, and by the method `prepare`.
type closing struct {
	io.ReadCloser
	close func() error
}

func (b *closing) Close() error { return b.close() }

// replacedBy returns the body that is sent after Prepare. The parameter `body` is the body that the
// request has after Prepare. b is the body before Prepare, or nil if the request had no body. A new
// body may read from b, so b is closed after the new body.
func (b *closing) replacedBy(body io.ReadCloser) io.ReadCloser {
	switch {
	case b == nil:
		return body
	case body == io.ReadCloser(b):
		return b.ReadCloser
	case body == nil || body == http.NoBody:
		_ = b.Close()
		return body
	default:
		return &closing{body, func() error {
			defer func() { _ = b.Close() }()
			return body.Close()
		}}
	}
}
