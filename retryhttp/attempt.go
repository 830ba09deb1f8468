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
	"sync"

	"github.com/goretry/retry"
)

// An attempt is one request to Base, and the context of that request. It lives until Check has
// returned, and the body that Check leaves has been read. What every attempt needs is part of
// it, so that an attempt is one allocation.
type attempt struct {
	context.Context // a child of the caller's, which cancel ends
	cancel          context.CancelCauseFunc

	x      *exchange
	number int

	req  *http.Request // what Base gets: made, or a copy of made that is traced
	made http.Request  // a copy of the caller's request
	url  url.URL       // of made, unless x is plain
	body body          // of the response, as its reader gets it
	ends bool          // a Read of the response's body ends soon after the attempt does

	sent      evidence
	mayBeDone bool  // the server may have processed it
	status    int   // of its response; 0: there was none
	failure   error // what it failed with; nil: it has not, or not yet
	before    error // what a request below it failed with whose answer was lost; nil: none
	to        destination
}

// send sends the request through Base. It returns either a response or an error,
// whatever Base returns.
func (a *attempt) send() (*http.Response, error) {
	resp, err := a.roundTrip()
	if err != nil {
		if timeout, ok := context.Cause(a).(*timeoutError); ok {
			err = timeout
		}
		if resp != nil { // http.Client ignores such a response too, but leaks its connection
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
		resp.Request = inner.of // whether it stands for us is not for a Transport below to say
		if e := (*retry.Error)(nil); errors.As(inner.err, &e) {
			a.before = cmp.Or(e.Before, a.before)
		}
	}
	a.mayBeDone = a.before != nil || !undone(resp.StatusCode)
	if resp.Request == nil || resp.Request == a.req {
		resp.Request = a.x.req
	}
	a.ends = a.x.plain && isOfNetHTTP(resp.Body)
	if hasText(resp) && a.x.t.StallTimeout > 0 {
		resp.Body = a.watched(resp.Body)
	}
	return resp, nil
}

// neither returns the error of a RoundTripper that returned nothing at all.
func neither(base http.RoundTripper) error {
	const text = "retryhttp: the RoundTripper %T returned neither a response nor an error"
	return retry.Permanent(fmt.Errorf(text, base))
}

func (a *attempt) roundTrip() (*http.Response, error) {
	err := a.newRequest()
	if err == nil && a.x.t.Prepare != nil {
		err = a.prepare()
	}
	if err != nil {
		return nil, unsentError{checked(err)}
	}
	// After Prepare, which may send its own in this context. A Hedge sends two at a time.
	if a.x.once || hasKey(a.req) && !hedgeable(a.req) {
		a.req = a.req.WithContext(httptrace.WithClientTrace(a.req.Context(), a.sent.trace()))
	}
	a.mayBeDone = true
	a.to.set(a.req)
	resp, err := a.x.t.base().RoundTrip(a.req)
	if err != nil {
		err = checked(err)
		a.mayBeDone = resp != nil || a.sent.mayBeDone(err, a.Err() != nil)
	}
	return resp, err
}

// newRequest makes the request of this attempt, a copy of the caller's.
func (a *attempt) newRequest() (err error) {
	x := a.x
	a.made, a.req = *x.req.WithContext(a), &a.made
	// An http.Transport changes nothing, but it wants a header.
	if !x.plain || a.req.Header == nil {
		own(a.req, &a.url)
	}
	if _, asks := a.req.Header["Accept-Encoding"]; x.t.Resume && isGet(x.req) && !asks {
		a.req.Header["Accept-Encoding"] = []string{"identity"} // the bytes are those that are counted
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

// own gives a shallow copy of a request its own header and encodings, and its URL, which is
// copied to u.
func own(req *http.Request, u *url.URL) {
	req.Header = cloneHeader(req.Header)
	req.TransferEncoding = slices.Clone(req.TransferEncoding)
	if req.URL != nil {
		*u = *req.URL
		req.URL = u
	}
}

// Value returns the attempt for AttemptOf and attemptOf, and otherwise what the context of the
// caller's request has. It hides the policy of WithPolicy, which is for one Transport.
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

// String names the context, as those of package context do: it must not print the request.
func (a *attempt) String() string { return "retryhttp.attempt" }

// cloneHeader returns a copy that can be written to.
func cloneHeader(h http.Header) http.Header {
	if h == nil {
		return http.Header{}
	}
	return h.Clone()
}

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

// unsent returns why an attempt is not sent, with what the one before failed with.
func (x *exchange) unsent(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	if err != nil && x.failure != nil {
		err = fmt.Errorf("%w (the attempt before: %w)", err, x.failure)
	}
	return err
}
