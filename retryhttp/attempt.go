package retryhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
)

// An attempt is one request to Base. It is the context of that request, and
// holds the request and the wrapper of the response's body: one object where
// there could be six.
//
// Its cancellation is made when it is first needed. That is a context of package
// context, to which others can be added without a goroutine; a Base that never
// asks, one in memory or a cache, does not pay for it.
type attempt struct {
	x   *exchange
	req http.Request
	url url.URL
	rc  io.ReadCloser // the body of the response

	number    int32
	once      bool // the server must not process the request twice
	mayBeDone bool // it may have processed this attempt
	sent      evidence

	ended      atomic.Bool
	cancelable atomic.Pointer[cancelable] // nil until something asks for Done
}

// A cancelable is the context that an attempt has once it needs one.
type cancelable struct {
	context.Context
	cancel context.CancelCauseFunc
}

type attemptKey struct{}

func (a *attempt) Deadline() (time.Time, bool) { return a.x.Deadline() }

func (a *attempt) Done() <-chan struct{} { return a.context().Done() }

func (a *attempt) Err() error {
	switch c := a.cancelable.Load(); {
	case c != nil:
		return c.Err()
	case a.ended.Load():
		return context.Canceled
	default:
		return a.x.Err()
	}
}

// Value also returns what package context looks for, which is how its contexts
// join and how it finds a cause.
func (a *attempt) Value(key any) any {
	switch key.(type) {
	case attemptKey:
		return a
	case policyKey:
		return nil // was for the request that this is an attempt of
	}
	if c := a.cancelable.Load(); c != nil {
		return c.Value(key)
	}
	return a.x.Value(key)
}

// context returns the context that can be canceled.
func (a *attempt) context() *cancelable {
	if c := a.cancelable.Load(); c != nil {
		return c
	}
	c := new(cancelable)
	c.Context, c.cancel = context.WithCancelCause(a.x.req.Context())
	if !a.cancelable.CompareAndSwap(nil, c) {
		c.cancel(nil)
		return a.cancelable.Load()
	}
	if a.ended.Load() {
		c.cancel(nil)
	}
	return c
}

// cancel ends the attempt. Only a cause needs a context that can hold it.
func (a *attempt) cancel(cause error) {
	if cause != nil {
		a.context().cancel(cause)
	}
	if a.ended.Load() || a.ended.Swap(true) {
		return
	}
	if c := a.cancelable.Load(); c != nil {
		c.cancel(nil)
	}
}

// send sends the request through Base. It returns either a response or an error,
// whatever Base returns.
func (a *attempt) send() (*http.Response, error) {
	resp, err := a.roundTrip()
	if err != nil {
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close() // http.Client ignores such a response too, but leaks its connection
		}
		if timeout, ok := context.Cause(a).(*timeoutError); ok {
			err = timeout
		}
		return nil, err
	}
	if resp == nil {
		return nil, retry.Permanent(fmt.Errorf("retryhttp: the RoundTripper %T returned neither a response nor an error", a.x.t.base()))
	}
	a.mayBeDone = !undone(resp.StatusCode)
	if resp.Request == nil {
		resp.Request = &a.req // by which NewStatusError finds RetryAfter
	}
	resp.Body = a.endedBy(resp.Body)
	return resp, nil
}

func (a *attempt) roundTrip() (*http.Response, error) {
	if err := a.prepare(); err != nil {
		return nil, unsentError{checked(err)}
	}
	a.mayBeDone = true
	resp, err := a.x.t.base().RoundTrip(&a.req)
	if err != nil {
		err = checked(err)
		a.mayBeDone = a.sent.mayBeDone(err, a.Err() != nil)
	}
	return resp, err
}

// prepare makes the request of this attempt, a copy of the caller's. If it
// fails, the body is closed.
func (a *attempt) prepare() (err error) {
	x := a.x
	var ctx context.Context = a
	if a.once {
		ctx = httptrace.WithClientTrace(a, a.sent.trace())
	}
	a.req = *x.req.WithContext(ctx)
	a.req.Header = cloneHeader(x.req.Header)
	a.req.TransferEncoding = slices.Clone(x.req.TransferEncoding)
	if x.req.URL != nil {
		a.url = *x.req.URL
		a.req.URL = &a.url
	}
	if a.number > 1 && x.hasBody() {
		a.req.Body, err = x.req.GetBody()
		if err != nil {
			return fmt.Errorf("retryhttp: cannot rewind the request body: %w (the attempt before: %w)", err, x.failure)
		}
	}
	if x.t.Prepare == nil {
		return nil
	}

	prepared := false // not if Prepare panics
	defer func() {
		if !prepared && a.req.Body != nil {
			_ = a.req.Body.Close()
		}
	}()
	if a.req.Header == nil {
		a.req.Header = http.Header{}
	}
	err = x.t.Prepare(&a.req, int(a.number), x.failure)
	prepared = err == nil
	switch {
	case prepared:
		return nil
	case x.failure == nil:
		return fmt.Errorf("retryhttp: Prepare: %w", err)
	default:
		return fmt.Errorf("retryhttp: Prepare: %w (the attempt before: %w)", err, x.failure)
	}
}

// cloneHeader is Header.Clone, which goes twice through a map that is empty: much
// of what a request that succeeds at once costs.
func cloneHeader(h http.Header) http.Header {
	if h != nil && len(h) == 0 {
		return http.Header{}
	}
	return h.Clone()
}

// endedBy returns the body of a response, at whose end, or when it is closed, the
// attempt ends.
func (a *attempt) endedBy(rc io.ReadCloser) io.ReadCloser {
	if rc == nil || rc == http.NoBody {
		a.cancel(nil) // http.NoBody stays what it is: callers compare
		return rc
	}
	a.rc = rc
	switch rc := rc.(type) {
	case io.Writer:
		return upgraded{(*body)(a), rc}
	case io.WriterTo:
		return (*bodyTo)(a)
	default:
		return (*body)(a)
	}
}

// A body is an attempt as the body of its response.
type body attempt

func (b *body) Read(p []byte) (int, error) {
	n, err := b.rc.Read(p)
	if err != nil {
		(*attempt)(b).cancel(nil)
	}
	return n, err
}

func (b *body) Close() error {
	defer (*attempt)(b).cancel(nil)
	return b.rc.Close()
}

// A bodyTo is a body with a method WriteTo.
type bodyTo attempt

func (b *bodyTo) Read(p []byte) (int, error) { return (*body)(b).Read(p) }
func (b *bodyTo) Close() error               { return (*body)(b).Close() }

func (b *bodyTo) WriteTo(w io.Writer) (int64, error) {
	defer (*attempt)(b).cancel(nil)
	return b.rc.(io.WriterTo).WriteTo(w)
}

// upgraded is the body after 101 Switching Protocols, the connection.
type upgraded struct {
	*body
	io.Writer
}

// CloseWrite closes the half that is written, as in net/http.
func (u upgraded) CloseWrite() error {
	if half, ok := u.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("retryhttp: CloseWrite: %w", http.ErrNotSupported)
}
