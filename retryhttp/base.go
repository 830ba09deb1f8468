package retryhttp

import (
	"net/http"

	"github.com/goretry/retry/internal/httpdefault"
)

// baseOf returns the RoundTripper through which `self` sends requests. The parameter `base` is the
// Base of `self`. If `base` is nil, the result is http.DefaultTransport. There is one exception: if
// http.DefaultTransport sends requests through `self`, the result is httpdefault.Transport.
// Otherwise `self` would call itself without end.
func baseOf(base, self http.RoundTripper) http.RoundTripper {
	switch {
	case base != nil:
		return base
	case contains(http.DefaultTransport, self):
		return httpdefault.Transport
	default:
		return http.DefaultTransport
	}
}

// The function `contains` reports whether `outer` is `inner`, or sends requests through `inner`. It
// looks only into RoundTrippers of this package.
func contains(outer, inner http.RoundTripper) bool {
	for outer != inner {
		switch of := outer.(type) {
		case *Transport:
			outer = of.Base
		case *Hedge:
			outer = of.Base
		case *lender:
			outer = of.inner
		default:
			return false
		}
	}
	return true
}

func closeIdleConnections(base http.RoundTripper) {
	if closer, ok := base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
