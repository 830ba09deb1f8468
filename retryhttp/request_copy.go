package retryhttp

import (
	"context"
	"net/http"
	"net/url"
	"slices"
)

// copyOf copies a request, so that Base may change the copy.
func copyOf(ctx context.Context, req *http.Request) *http.Request {
	out := req.WithContext(ctx)
	unshare(out, new(url.URL))
	return out
}

// unshare gives req copies of its Header, its TransferEncoding and its URL. Before the call, req is
// a shallow copy of another request. u is the memory for the copy of the URL.
func unshare(req *http.Request, u *url.URL) {
	req.Header = cloneHeader(req.Header)
	req.TransferEncoding = slices.Clone(req.TransferEncoding)
	if req.URL != nil {
		*u = *req.URL
		req.URL = u
	}
}

// cloneHeader returns a copy of h. The copy is not nil, even if h is nil.
func cloneHeader(h http.Header) http.Header {
	if h == nil {
		return http.Header{}
	}
	return h.Clone()
}
