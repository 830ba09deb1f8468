package retryhttp

import (
	"cmp"
	"net/http"
	"net/url"
	"sync/atomic"
)

// A destination is the method and URL of an attempt. A Hedge and a Check compare destinations to
// find out whether a request belongs to the attempt. They cannot compare pointers, because a
// RoundTripper between the Transport and the Hedge may copy the request.
type destination struct {
	known  atomic.Bool // whether `store` has run; see isOf
	req    *http.Request
	method string
	url    *url.URL

	// These fields are copies of fields of url, because Base may change url. An attempt with a copy of
	// the whole URL would take a larger block of memory.
	scheme, host, path, rawQuery string
}

// The method `store` saves the destination of the request that Base is about to get.
func (d *destination) store(req *http.Request) {
	if u := req.URL; u != nil {
		d.scheme, d.host, d.path, d.rawQuery = u.Scheme, u.Host, u.Path, u.RawQuery
	}
	d.req, d.method, d.url = req, cmp.Or(req.Method, http.MethodGet), req.URL
	d.known.Store(true)
}

// isOf reports whether req is sent to the destination d. A goroutine that Prepare has started may
// call isOf while `store` runs, so the field `known` is atomic.
func (d *destination) isOf(req *http.Request) bool {
	switch {
	case !d.known.Load():
		return false
	case req == d.req: // true even if Base has changed the URL of req
		return true
	case req.URL == d.url || req.URL == nil:
		return req.URL == d.url
	}
	u := req.URL
	return cmp.Or(req.Method, http.MethodGet) == d.method && u.Scheme == d.scheme && u.Host == d.host &&
		u.Path == d.path && u.RawQuery == d.rawQuery
}
