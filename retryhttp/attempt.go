package retryhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"

	"github.com/goretry/retry"
)

// An attempt is one request to Base.
type attempt struct {
	x      *exchange
	number int
	ctx    context.Context // lives until Check has returned, and the body that it leaves has been read
	cancel context.CancelCauseFunc

	req       *http.Request
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
		if timeout, ok := context.Cause(a.ctx).(*timeoutError); ok {
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
		a.mayBeDone = resp != nil || a.sent.mayBeDone(err, a.ctx.Err() != nil)
	}
	return resp, err
}

// newRequest makes the request of this attempt, a copy of the caller's.
func (a *attempt) newRequest() (err error) {
	x := a.x
	a.req = copyOf(a.ctx, x.req)
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
	out.Header = cloneHeader(req.Header)
	out.TransferEncoding = slices.Clone(req.TransferEncoding)
	if req.URL != nil {
		u := *req.URL
		out.URL = &u
	}
	return out
}

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
