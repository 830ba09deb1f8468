package retryhttp

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A StatusError is what an attempt failed with whose response had a status that
// Check does not accept. RetryIf, Classify, Prepare and the events of the policy
// get it; the caller of a [Transport] gets the response itself.
type StatusError struct {
	StatusCode int
	Header     http.Header // of the response; a copy

	method     string
	url        url.URL // of the request, without what may be secret
	retryAfter time.Duration
	again      bool // the server asks for another attempt whatever the status
}

// NewStatusError returns a response as an error. It reads the wait that the
// server asks for with the RetryAfter of the [Transport] whose Check is given the
// response, and for any other response with the function [RetryAfter].
func NewStatusError(resp *http.Response) *StatusError {
	e := &StatusError{StatusCode: resp.StatusCode, Header: resp.Header}
	read := RetryAfter
	shared := false
	if req := resp.Request; req != nil {
		if u := req.URL; u != nil {
			e.method = cmp.Or(req.Method, http.MethodGet)
			e.url = url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
		}
		if a, ok := req.Context().Value(attemptKey{}).(*attempt); ok {
			if a.x.t.RetryAfter != nil {
				read = a.x.t.RetryAfter
			}
			shared = req == &a.req && a.x.t.Check == nil // if the caller gets this response, it gets a copy of the header
		}
	}
	if !shared {
		e.Header = resp.Header.Clone()
	}
	e.retryAfter, e.again = read(resp)
	return e
}

// Error returns one line: "retryhttp: GET https://example.com/orders: 503
// Service Unavailable". Of the URL it leaves out the user, the query and the
// fragment, which may be secret; of a response without a Request it is just
// "retryhttp: 503 Service Unavailable".
func (e *StatusError) Error() string {
	text := "retryhttp: "
	if e.method != "" {
		text += e.method + " " + e.url.String() + ": "
	}
	return text + strings.TrimSpace(fmt.Sprintf("%d %s", e.StatusCode, http.StatusText(e.StatusCode)))
}

// HTTPStatusCode returns the status of the response.
func (e *StatusError) HTTPStatusCode() int { return e.StatusCode }

// RetryAfter returns the wait that the server asked for, 0 if none. The loop of
// package retry waits no less, and gives up if it is longer than MaxRetryAfter.
func (e *StatusError) RetryAfter() time.Duration { return max(0, e.retryAfter) }
