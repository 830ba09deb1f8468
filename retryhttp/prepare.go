package retryhttp

import (
	"io"
	"net/http"

	"github.com/goretry/retry"
)

// max returns how many attempts a request may make, of which a is one.
func (a *attempt) max() int {
	switch {
	case a == nil:
		return retry.Unlimited
	case a.x.cannotRepeat() != nil:
		return 1
	default:
		return a.x.policy.EffectiveMax()
	}
}

// sentOnce reports whether a request is part of an attempt that must not be made twice. If it
// leads elsewhere, it may be that attempt all the same: Base can have changed its URL. What
// Prepare sends is not.
func sentOnce(req *http.Request) bool {
	a := attemptIn(req.Context())
	return a != nil && a.to.known.Load() && (a.x.once || a.max() == 1)
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
