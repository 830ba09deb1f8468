package retryhttp

import (
	"io"
	"net/http"
	"sync"
)

// prepare calls the Prepare of the Transport. If it fails, the body is closed, and
// one that it has replaced too.
func (a *attempt) prepare() (err error) {
	x := a.x
	var before *closing
	if x.hasBody() {
		before = &closing{a.req.Body, sync.OnceValue(a.req.Body.Close)}
		a.req.Body = before
	}
	prepared := false // not if Prepare panics
	defer func() {
		if !prepared && a.req.Body != nil {
			_ = a.req.Body.Close()
		}
		if !prepared && before != nil {
			_ = before.Close()
		}
	}()
	err = x.t.Prepare(a.req, a.number, x.failure)
	if prepared = err == nil; prepared {
		a.req.Body = before.replacedBy(a.req.Body)
	}
	return x.unsent("retryhttp: Prepare", err)
}

// A closing is the body of a request while Prepare has it, which is closed once, whether by
// Prepare, by the body that Prepare sets in its place, or by us; or that body.
type closing struct {
	io.ReadCloser
	close func() error
}

func (b *closing) Close() error { return b.close() }

// replacedBy returns what is sent if Prepare leaves body in place of b, which is nil
// if there was none. Another body may read from b, so that b is closed after it.
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
