package retryhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/goretry/retry"
)

// A Transport is an http.RoundTripper that sends a request through another
// one, again and again as its Policy says. It is safe for concurrent use; its
// fields must not be changed once it is in use.
type Transport struct {
	Base http.RoundTripper // sends each attempt; nil: http.DefaultTransport

	// Policy says how often, and when. The zero Policy sends once. RetryIf and
	// Select see what Check returns: a *StatusError, or the error of Base.
	// Leave RetryIf nil unless some of these are to be final: what
	// retrynet.Transient says is in Check already, and as a RetryIf it would
	// reject every status. OnEvent gets the context of the request.
	//
	// AttemptTimeout is the time until the headers of the response are there
	// and Check has seen them; the body of the response that the caller gets
	// may take longer. The context that Base sees is canceled by it, and has
	// no Deadline of it.
	//
	// Reading what is discarded, 100 ms at most for each response, comes
	// after the decision and before the wait: on top of MaxElapsed, and of the
	// Due that OnEvent was told of.
	Policy retry.Policy

	// Idempotent reports whether a request may be sent more than once. One
	// that may not is sent as if Policy were NonRetryable. nil: the function
	// Idempotent.
	Idempotent func(*http.Request) bool

	// Check returns what an attempt failed with: nil if it did not, marked
	// retry.Permanent if no other attempt can do better. It gets the caller's
	// request, and either a response or an error; it cannot make a success of
	// an error, so nil for one means permanent. Return or wrap
	// NewStatusError(resp), or retry.After, to keep the server's Retry-After.
	// If it reads the body of the response it must replace it by one that
	// reads the same, and close the body it replaces. nil: the function Check.
	Check func(*http.Request, *http.Response, error) error
}

// RoundTrip sends a request until an attempt does not fail or the policy says
// to stop, and returns the last response, whatever its status, with a body
// that nobody has read. There is an error, a [*retry.Error] to errors.As, if
// the last attempt got no response, if the request's context has ended, and if
// an attempt failed under a policy that is not valid.
//
// Each attempt sends a clone of req, but for its Trailer, which is the caller's
// own map: it may be filled in while the body is read. The first attempt sends
// the body, and each later one what GetBody returns. A request whose body has
// no GetBody is sent once.
//
// An error of Base that panics in a method of its own becomes a permanent
// error that names its type.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchange{t: t, req: req}
	defer x.end()
	ctx := req.Context()
	err := retry.Do(ctx, x.policy(), x.attempt)
	switch {
	case x.resp == nil:
	case err == nil || stands(ctx, err):
		resp := x.resp
		x.resp = nil
		return resp, nil
	case ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)): // after the loop had decided
		err = fmt.Errorf("%w (and then %w)", err, context.Cause(ctx))
	}
	return nil, asTimeout(err)
}

// CloseIdleConnections closes those of Base, for http.Client to call.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// stands reports whether the last response stands although the loop stopped
// with err: not if its body cannot be read any more, nor if nobody would learn
// that the policy is not valid.
func stands(ctx context.Context, err error) bool {
	return ctx.Err() == nil && retry.ReasonOf(err) != retry.ReasonInvalid
}

// An exchange is one call of RoundTrip.
type exchange struct {
	t        *Transport
	req      *http.Request
	timeout  time.Duration // of each attempt; 0: none
	attempts int
	failure  error                   // of the last attempt
	resp     *http.Response          // of the last attempt, until it is discarded or handed to the caller
	cancel   context.CancelCauseFunc // ends the context of the last attempt
}

// policy returns the policy of this exchange.
func (x *exchange) policy() retry.Policy {
	p := x.t.Policy
	if p.AttemptTimeout > 0 {
		// The loop would end the context when the attempt returns, and so the
		// body of the response before anybody has read it.
		x.timeout, p.AttemptTimeout = p.AttemptTimeout, 0
	}
	if !x.repeatable() {
		p.NonRetryable = true
	}
	watch := p.OnEvent
	p.OnEvent = func(ctx context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			x.discard() // before the sleep, so that others use the connection meanwhile
		}
		if watch != nil {
			watch(ctx, e)
		}
	}
	return p
}

// repeatable reports whether the request can and may be sent again.
func (x *exchange) repeatable() bool {
	idempotent := x.t.Idempotent
	if idempotent == nil {
		idempotent = Idempotent
	}
	return (!x.hasBody() || x.req.GetBody != nil) && idempotent(x.req)
}

func (x *exchange) hasBody() bool { return x.req.Body != nil && x.req.Body != http.NoBody }

// attempt sends the request once, and returns what that failed with.
func (x *exchange) attempt(ctx context.Context) error {
	x.attempts++
	ctx, x.cancel = context.WithCancelCause(ctx)
	defer func() {
		if x.resp == nil {
			x.cancel(nil)
		}
	}()
	inTime := func() bool { return true } // stops the clock, and reports whether it was in time
	if x.timeout > 0 {
		cancel := x.cancel
		inTime = time.AfterFunc(x.timeout, func() { cancel(&timeoutError{x.timeout}) }).Stop
	}

	resp, err := x.send(ctx)
	x.resp, err = resp, harmless(err)
	x.failure = x.check(resp, err)
	if !inTime() && resp != nil {
		x.discard() // its context has ended, and nobody could read it
		x.failure = x.check(nil, &timeoutError{x.timeout})
	}
	return x.failure
}

// send sends the request through Base. It returns either a response or an
// error, whatever Base returns.
func (x *exchange) send(ctx context.Context) (*http.Response, error) {
	req := x.req.Clone(ctx)
	req.Trailer = x.req.Trailer // the caller may fill it in while the body is read
	if x.attempts > 1 && x.hasBody() {
		body, err := x.req.GetBody()
		if err != nil {
			return nil, retry.Permanent(fmt.Errorf("retryhttp: the body cannot be sent again: GetBody: %w (the attempt before: %w)", err, x.failure))
		}
		req.Body = body
	}
	resp, err := x.t.base().RoundTrip(req)
	if err != nil {
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close() // http.Client ignores such a response too, but leaks its connection
		}
		if timeout, ok := context.Cause(ctx).(*timeoutError); ok {
			err = timeout
		}
		return nil, err
	}
	if resp == nil {
		return nil, retry.Permanent(fmt.Errorf("retryhttp: the RoundTripper %T returned neither a response nor an error", x.t.base()))
	}
	if resp.Request == req {
		resp.Request = x.req
	}
	resp.Body = x.endsContext(resp.Body)
	return resp, nil
}

func (x *exchange) check(resp *http.Response, err error) error {
	check := x.t.Check
	if check == nil {
		check = Check
	}
	failure := check(x.req, resp, err)
	if failure == nil && err != nil {
		return retry.Permanent(err)
	}
	return failure
}

// What is read of a response that nobody gets, so that its connection can be
// used again: a new connection is soon cheaper than the rest of a long body.
const (
	drainBytes = 64 << 10
	drainTime  = 100 * time.Millisecond
)

// discard drains and closes the response of the last attempt. An error of its
// body costs the connection and nothing else.
func (x *exchange) discard() {
	resp, cancel := x.resp, x.cancel
	x.resp = nil
	if resp == nil || resp.Body == nil {
		return
	}
	hangUp := sync.OnceFunc(func() { _ = resp.Body.Close() })
	if resp.ContentLength <= drainBytes {
		timer := time.AfterFunc(drainTime, func() {
			cancel(nil)
			hangUp() // what Base or Check made need not heed the context
		})
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
		timer.Stop()
	}
	hangUp()
	cancel(nil) // Check may have replaced the body that does so itself
}

// end frees what the caller does not get, after a panic too.
func (x *exchange) end() {
	if x.attempts == 0 && x.req.Body != nil {
		_ = x.req.Body.Close()
	}
	x.discard()
}

// endsContext returns a body that ends the context of its attempt when it has
// been read or closed.
func (x *exchange) endsContext(rc io.ReadCloser) io.ReadCloser {
	if rc == nil {
		x.cancel(nil)
		return nil
	}
	b := &body{rc, x.cancel}
	if w, ok := rc.(io.Writer); ok {
		return upgraded{b, w}
	}
	return b
}

type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel(nil)
	}
	return n, err
}

func (b *body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// upgraded is the body after 101 Switching Protocols, the connection.
type upgraded struct {
	*body
	io.Writer
}

// CloseWrite closes the half that is written, as that of net/http does.
func (u upgraded) CloseWrite() error {
	if half, ok := u.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("retryhttp: CloseWrite: %w", http.ErrNotSupported)
}

// timeoutError is what an attempt fails with after AttemptTimeout.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("retryhttp: no response within %v, the AttemptTimeout", e.after)
}
func (*timeoutError) Timeout() bool        { return true }
func (*timeoutError) Temporary() bool      { return true }
func (*timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// timedOut is an error that says it is a timeout. What http.Client returns
// says so if the error inside does, and asks no further than that.
type timedOut struct{ error }

func (e timedOut) Unwrap() error { return e.error }
func (timedOut) Timeout() bool   { return true }

// asTimeout returns err as a timeout if it is one, not if one of its methods
// panics, as that of an error that Check made may.
func asTimeout(err error) (marked error) {
	defer func() {
		if recover() != nil {
			marked = err
		}
	}()
	var t interface{ Timeout() bool }
	switch reason := retry.ReasonOf(err); {
	case reason == retry.ReasonDeadline, reason != retry.ReasonCanceled && errors.As(err, &t) && t.Timeout():
		return timedOut{err}
	default:
		return err
	}
}

// harmless returns err, unless one of the methods that will be asked of it
// panics; then it returns a permanent error that says so. A nil pointer to an
// error does this, returned as an error that is not nil.
func harmless(err error) (checked error) {
	defer func() {
		if p := recover(); p != nil {
			checked = retry.Permanent(fmt.Errorf("retryhttp: an error of type %T panics in a method of its own: %v", err, p))
		}
	}()
	if err != nil {
		_ = err.Error()
		_ = errors.Is(err, context.Canceled)
		var t interface{ Timeout() bool }
		_ = errors.As(err, &t) && t.Timeout()
		retry.Policy{}.Next(retry.Attempt{Err: err}) // reads the marks in err's tree, as Do will
	}
	return err
}
