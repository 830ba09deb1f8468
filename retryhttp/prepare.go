package retryhttp

import (
	"io"
	"net/http"

	"github.com/goretry/retry"
)

// maxOf returns how many attempts a request may make.
func maxOf(req *http.Request) int {
	a := attemptOf(req)
	switch {
	case a == nil:
		return retry.Unlimited
	case a.x.cannotRepeat() != nil:
		return 1
	default:
		return a.x.policy.EffectiveMax()
	}
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
