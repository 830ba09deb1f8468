package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync/atomic"

	"github.com/goretry/retry"
)

// An attempt is one request to Base, and the context of that request. The context lives until Check
// has returned, and until the body that Check has left in the response has been read or closed. The
// structs that every attempt needs are fields, so that an attempt is one allocation.
type attempt struct {
	context.Context // a child of the context of the caller's request; cancel ends it
	cancel          context.CancelCauseFunc

	x      *exchange
	number int

	req  *http.Request // the request that Base gets: &made, or a copy of made that is traced
	made http.Request  // a copy of the caller's request
	url  url.URL       // of made, unless x is plain
	body body          // of the response, as the caller gets it
	ends bool          // a Read of the response's body returns soon after the attempt has ended

	sent      evidence
	mayBeDone bool  // the server may have processed the request
	unsent    bool  // there was no connection, by the error of Base alone, see noConnection
	status    int   // of the response; 0: there was none
	failure   error // what the attempt failed with; nil: it has not failed, or not yet
	before    error // of a request below this one, whose answer was lost; nil: none
	to        destination
}

// send makes the request of this attempt and sends it through Base. It returns either a response or
// an error, whatever Base returns.
func (a *attempt) send() (*http.Response, error) {
	resp, err := a.roundTrip()
	if err != nil {
		if timeout, ok := context.Cause(a).(*timeoutError); ok {
			err = timeout
		}
		if resp != nil { // http.Client ignores a response with an error, and leaks its connection
			a.discard(resp, 0)
		}
		return nil, err
	}
	if resp == nil {
		return nil, neither(a.x.t.base())
	}
	a.status = resp.StatusCode
	a.before = a.sent.repeated(resp)
	if inner := stoppedBy(resp); inner != nil {
		resp.Request = inner.of // ErrorOf returns the error of this Transport, not of the one below
		if e := (*retry.Error)(nil); errors.As(inner.err, &e) {
			a.before = cmp.Or(e.Before, a.before)
		}
	}
	a.mayBeDone = a.before != nil || !undone(resp.StatusCode)
	switch of := resp.Request; {
	case of == nil || of == a.req:
		resp.Request = a.x.req
	case attemptIn(of.Context()) == a: // a copy of a.req: its context would end with the body
		resp.Request = of.WithContext(a.x.req.Context())
	}
	a.ends = a.x.plain && isOfNetHTTP(resp.Body)
	if hasText(resp) && a.x.t.StallTimeout > 0 {
		resp.Body = a.watched(resp.Body)
	}
	return resp, nil
}

// neither returns the error of a RoundTripper that returned neither a response nor an error.
func neither(base http.RoundTripper) error {
	const text = "retryhttp: the RoundTripper %T returned neither a response nor an error"
	return retry.Permanent(fmt.Errorf(text, base))
}

// roundTrip makes the request, lets Prepare change it, and calls the RoundTrip of Base. It also
// finds out whether the server may have processed a request that got no response.
func (a *attempt) roundTrip() (*http.Response, error) {
	err := a.newRequest()
	if err == nil && a.x.t.Prepare != nil {
		err = a.prepare()
	}
	if err != nil {
		return nil, unsentError{checked(err)}
	}
	// The trace begins after Prepare, which may send other requests in the attempt's context. A
	// Hedge sends two requests at a time, so a request that a Hedge may send twice is not traced.
	if a.x.once || hasKey(a.req) && !hedgeable(a.req) {
		a.req = a.req.WithContext(httptrace.WithClientTrace(a.req.Context(), a.sent.trace()))
	}
	a.mayBeDone = true
	a.to.set(a.req)
	resp, err := a.x.t.base().RoundTrip(a.req)
	if err != nil {
		err = checked(err)
		a.mayBeDone = resp != nil || a.sent.mayBeDone(err, a.Err() != nil)
		a.unsent = resp == nil && noConnection(err)
	}
	return resp, err
}

// newRequest makes the request of this attempt, a copy of the caller's.
func (a *attempt) newRequest() (err error) {
	x := a.x
	a.made, a.req = *x.req.WithContext(a), &a.made
	// An http.Transport changes nothing in such a request, but it fails without a header.
	if !x.plain || a.req.Header == nil {
		own(a.req, &a.url)
	}
	if _, asks := a.req.Header["Accept-Encoding"]; x.t.Resume && isGet(x.req) && !asks {
		// A Range counts the bytes as they are sent, so they must be the bytes that are read.
		a.req.Header["Accept-Encoding"] = []string{"identity"}
	}
	if x.hasBody() && (a.number > 1 || x.req.Body == nil) {
		switch a.req.Body, err = x.req.GetBody(); {
		case err == nil && a.req.Body == nil:
			err = errors.New("it returned neither a body nor an error")
		case err != nil && a.req.Body != nil:
			_ = a.req.Body.Close()
		}
	}
	return x.unsent("retryhttp: GetBody", err)
}

// copyOf returns a copy of a request that Base may change.
func copyOf(ctx context.Context, req *http.Request) *http.Request {
	out := req.WithContext(ctx)
	own(out, new(url.URL))
	return out
}

// own gives a shallow copy of a request a header, encodings and a URL of its own. The URL is copied
// to u.
func own(req *http.Request, u *url.URL) {
	req.Header = cloneHeader(req.Header)
	req.TransferEncoding = slices.Clone(req.TransferEncoding)
	if req.URL != nil {
		*u = *req.URL
		req.URL = u
	}
}

// Value returns the attempt for AttemptOf and attemptOf. It hides the policy of WithPolicy, which
// is for this Transport and not for a Transport below. All other values are the values of the
// context of the caller's request.
func (a *attempt) Value(key any) any {
	switch key.(type) {
	case attemptKey:
		return a
	case policyKey:
		return nil
	default:
		return a.Context.Value(key)
	}
}

// String names the context, as the contexts of package context do. It must not print the request.
func (a *attempt) String() string { return "retryhttp.attempt" }

// cloneHeader returns a copy of a header that can be written to, even if h is nil.
func cloneHeader(h http.Header) http.Header {
	if h == nil {
		return http.Header{}
	}
	return h.Clone()
}

// unsent returns why an attempt is not sent, and adds what the attempt before failed with. It
// returns nil if err is nil.
func (x *exchange) unsent(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	if err != nil && x.failure != nil {
		err = fmt.Errorf("%w (the attempt before: %w)", err, x.failure)
	}
	return err
}

// A destination is the method and URL of an attempt. By it, a Hedge or a Check knows whether a
// request is the request of the attempt: a RoundTripper between the Transport and the Hedge may
// copy the request, but sends it to the same destination.
type destination struct {
	known  atomic.Bool // set is done; atomic, because Prepare may have started goroutines that ask
	req    *http.Request
	method string
	url    *url.URL
	copied url.URL // a copy of *url, which Base may change
}

// set stores the destination of the request that Base is about to get.
func (d *destination) set(req *http.Request) {
	if req.URL != nil {
		d.copied = *req.URL
	}
	d.req, d.method, d.url = req, req.Method, req.URL
	d.known.Store(true)
}

// isOf reports whether d is the destination of req.
func (d *destination) isOf(req *http.Request) bool {
	switch {
	case !d.known.Load():
		return false
	case req == d.req: // even if Base has changed its URL
		return true
	case req.URL == d.url || req.URL == nil:
		return req.URL == d.url
	}
	u, c := req.URL, &d.copied
	return req.Method == d.method && u.Scheme == c.Scheme && u.Host == c.Host &&
		u.Path == c.Path && u.RawQuery == c.RawQuery
}

// max returns how many attempts the exchange of a may make. For a nil a it returns retry.Unlimited.
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
