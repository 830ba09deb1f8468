package retryhttp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
)

// An attempt is one request to Base, and also the context of that request. If the response has a
// body, the context ends when the body has been read to its end or closed. Otherwise the context
// ends after Check has returned. After a success, the context does not end before the upload: see
// upload.go. Every attempt needs some structs, such as a copy of the request. They are fields of
// the type `attempt`, so one allocation is enough for an attempt and these structs.
type attempt struct {
	context.Context // a child of the context of the caller's request
	cancel          context.CancelCauseFunc

	x      *exchange
	number int

	req   *http.Request // the request that Base gets: &made, or a copy of `made` with a trace
	made  http.Request  // a copy of the caller's request
	url   url.URL       // the URL of `made`, unless `made` shares the caller's URL: see newRequest
	body  responseBody  // the body of the response, as the caller gets it
	given *http.Request // the field Request of the response that Check gets

	sent      evidence
	upload    atomic.Int32 // noUpload, uploading or uploadAnswered
	readEnds  bool         // if the attempt ends, a Read of the response's body returns soon
	mayBeDone bool         // the server may have processed the request

	// unsent is true if the error of Base says that there was no connection. This is only a hint. The
	// proof that the server has not processed the request is !mayBeDone.
	unsent bool

	// late is true if AttemptTimeout or a deadline has ended the attempt before Base returned, or if
	// Base returned another timeout and the server may have processed the request. It is false if the
	// error of the attempt is an error of Prepare or GetBody.
	late bool

	status  int   // the status of the response; 0: there was no response
	failure error // the error if the attempt has failed; nil: it succeeded, or has not ended yet

	// The field `before` is the error of an earlier request that belonged to this attempt. net/http or
	// a Transport below sent that request, and its answer was lost. If there was no such request,
	// `before` is nil.
	before error

	to destination
}

// Err returns context.DeadlineExceeded if a timeout of this package has ended the attempt. So a
// Check that gets context.Canceled knows that the caller has given up. If the caller canceled the
// call with the timeout of another call as the cause, as an errgroup does, Err returns
// context.Canceled.
func (a *attempt) Err() error {
	err := a.Context.Err()
	if err != context.Canceled {
		return err
	}
	switch cause := context.Cause(a.Context); cause.(type) {
	case *timeoutError, *stallError, *slowError:
		if a.x != nil && context.Cause(a.x.Context) == cause {
			return a.x.Err()
		}
		return context.DeadlineExceeded
	default:
		return err
	}
}

// The method `send` makes the request of this attempt and sends it through Base. It returns either
// a response or an error, even if Base returns both or neither.
func (a *attempt) send() (*http.Response, error) {
	resp, err := a.roundTrip()
	if err != nil {
		_, unsent := err.(unsentError)
		timeout, late := context.Cause(a).(*timeoutError)
		if late && !unsent {
			err = timeout
		}
		// If the deadline has a cause, http.Transport returns the cause, which may be no timeout.
		ended := a.Err() == context.DeadlineExceeded &&
			(isTimeout(err) || context.Cause(a) != context.DeadlineExceeded)
		a.late = a.late || !unsent && (late || ended)
		if resp != nil { // http.Client would ignore the response and leak its connection
			a.discard(resp, 0)
		}
		return nil, asSchemeMismatch(err)
	}
	if resp == nil {
		return nil, noResult(a.x.t.base())
	}
	a.status = resp.StatusCode
	if isReplayable(a.req) {
		a.before = a.sent.repeated(resp)
	}
	a.mayBeDone = a.before != nil || !undone(resp.StatusCode)
	if inner := stopInfoOf(resp); inner != nil {
		resp.Request = inner.original // ErrorOf must not return the error of the Transport below
		if e := (*retry.Error)(nil); errors.As(inner.err, &e) {
			a.before = cmp.Or(e.Before, a.before)
		}
		a.before = cmp.Or(inner.lost.lostAs(), a.before)
		a.mayBeDone = a.before != nil || inner.attempt.mayBeDone || inner.attempt.x.mayBeDone
	}
	switch req := resp.Request; {
	case req == nil || req == a.req:
		resp.Request = a.x.req
	case attemptIn(req.Context()) == a: // req is a copy of a.req, and has the attempt's context
		resp.Request = req.WithContext(a.x.req.Context())
	}
	a.given = resp.Request
	// Over HTTP/2, a Read waits for a lock that net/http holds while it writes to the connection.
	// If the server has stopped reading, this write may hang, and no context ends the Read. Over
	// TLS, the Close of the connection first writes an alert, for up to 5 s. Only then does the
	// Read end.
	a.readEnds = a.x.plain && resp.ProtoMajor < 2 && resp.TLS == nil
	if hasText(resp) && a.x.t.StallTimeout > 0 {
		resp.Body = a.watched(resp.Body)
	}
	return resp, nil
}

// asSchemeMismatch adds http.ErrSchemeMismatch to the error of a server that speaks plain HTTP
// instead of TLS. http.Client does so too, but does not find err in a *retry.Error.
func asSchemeMismatch(err error) error {
	if e, ok := err.(tls.RecordHeaderError); ok && string(e.RecordHeader[:]) == "HTTP/" {
		return fmt.Errorf("%w (%w)", http.ErrSchemeMismatch, err)
	}
	return err
}

// noResult returns the error for a RoundTripper that returned neither a response nor an error.
func noResult(base http.RoundTripper) error {
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
	if _, late := err.(*timeoutError); late {
		return nil, err
	}
	if err != nil {
		return nil, unsentError{err}
	}
	// The trace is added after Prepare, because Prepare may send other requests in the attempt's
	// context. A GET is not traced unless it has a key or a body, because a trace costs time. A
	// request that a Hedge may send twice is not traced, because its trace would mix two requests.
	base := a.x.t.base()
	body := hasBody(a.req)
	if a.x.needsProof || !isSafe(a.req) || body || hasKey(a.req) && !hedgeable(a.req) {
		trace := a.sent.trace(base, a.req)
		if body {
			a.watchUpload(trace)
		}
		a.req = a.req.WithContext(httptrace.WithClientTrace(a.req.Context(), trace))
	}
	a.mayBeDone = true
	a.to.store(a.req)
	resp, err := base.RoundTrip(a.req)
	if err != nil {
		err = checked(err)
		a.mayBeDone = resp != nil || a.sent.mayBeDone(err, a.Err() != nil)
		if isReplayable(a.req) && a.sent.again.Load() && !isOfSeveral(err) {
			a.before = errAgain // err is only about the repeat
		}
		// net/http may repeat a request whose header it has already written to an idle connection.
		a.unsent = resp == nil && noConnection(err) && a.sent.wrote.Load() == 0
		// After a cancellation, err may be the timeout of another request: see mayBeDone.
		a.late = a.mayBeDone && !a.unsent && isTimeout(err) && a.Err() != context.Canceled
	}
	return resp, err
}

// newRequest makes the request of this attempt, which is a copy of the caller's request.
func (a *attempt) newRequest() (err error) {
	x := a.x
	// The compiler inlines WithContext. So the copy that WithContext makes is on the stack, and this
	// line allocates nothing. TestAllocations fails if this line allocates.
	a.made, a.req = *x.req.WithContext(a), &a.made
	// If x.plain is true, the http.Transport changes nothing in the request, but it fails if the
	// Header is nil.
	if !x.plain || a.req.Header == nil {
		unshare(a.req, &a.url)
	}
	if _, asks := a.req.Header["Accept-Encoding"]; x.t.Resume && isGet(x.req) && !asks {
		// A Range counts encoded bytes. Without an encoding, these are the bytes that the caller reads.
		a.req.Header["Accept-Encoding"] = []string{"identity"}
	}
	if hasBody(x.req) && (a.number > 1 || x.req.Body == nil) {
		a.req.Body, err = x.req.GetBody()
		if err == nil && a.req.Body == nil {
			err = errors.New("neither a body nor an error was returned")
		}
		if err = a.orTimeout(err); err != nil && a.req.Body != nil {
			_ = a.req.Body.Close()
		}
	}
	return x.unsent("retryhttp: GetBody", err)
}

// orTimeout is called when GetBody or Prepare has returned err. If AttemptTimeout has passed, and
// err is nil or the error of a context, the result is the error of the timeout. Otherwise Base
// would fail without a call of GetConn, so the request would count as sent.
func (a *attempt) orTimeout(err error) error {
	if err != nil {
		err = checked(err)
	}
	timeout, late := context.Cause(a).(*timeoutError)
	if late && (err == nil || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)) {
		return timeout
	}
	return err
}

// Value returns the attempt for attemptKey, and true for ctxvalue.Large. For policyKey it returns
// nil, so that a Transport below does not use the policy of WithPolicy. For any other key it
// returns the value in the context of the caller's request.
func (a *attempt) Value(key any) any {
	switch key.(type) {
	case attemptKey:
		return a
	case ctxvalue.Large:
		return true
	case policyKey:
		return nil
	default:
		return a.Context.Value(key)
	}
}

// String returns only a name, because the text of a context must not contain the request.
func (a *attempt) String() string { return "retryhttp.attempt" }

// The method `max` returns how many attempts the exchange of the attempt a may make.
func (a *attempt) max() int {
	if a.x.once != nil {
		return 1
	}
	return a.x.policy.EffectiveMax()
}

// mayBeRepeated reports whether the request of the attempt a may be sent again, by its Transport or
// by a Transport above. If a is nil, the caller may send the request again. With a HealthyAfter,
// every attempt may count as the first.
func (a *attempt) mayBeRepeated() bool {
	again := a == nil
	for ; a != nil && !again; a = attemptIn(a.x.Context) {
		most := a.max()
		again = most == retry.Unlimited || a.number < most ||
			most > 1 && a.x.policy.HealthyAfter > 0
	}
	return again
}

// isLost reports whether the server may have processed a failed attempt without confirming it. It
// returns true in four cases:
//
//   - A request below this Transport was repeated because its answer was lost (a.before).
//   - The request was sent and got no response.
//   - The response is a 408. Some servers send a 408 if a handler takes too long: see the
//     documentation of Transport.
//   - The response is not a 4xx. It may be a 5xx, or a success that Check has rejected, for example
//     because its body broke off. Other 4xx do not count, because a Check that waits until a 404
//     goes away would get "404; before that: 404".
func (a *attempt) isLost() bool {
	rejected := a.status/100 == 4 && a.status != http.StatusRequestTimeout
	return a.before != nil || a.mayBeDone && !rejected && !a.unsent
}

// isLikelierThan reports whether a is a more likely cause of a later 4xx than b. Both attempts are
// lost (see isLost). If Base reports to the trace of only one of them, and the other got no answer,
// Base may not have sent the other: an open circuit breaker in Base, for example, sends nothing.
// Otherwise an attempt without an answer, or with the beginning of a success, is a more likely
// cause than a 5xx.
func (a *attempt) isLikelierThan(b *attempt) bool {
	switch traced, tracedToo := a.sent.traces.Load(), b.sent.traces.Load(); {
	case traced && !tracedToo && b.status == 0:
		return true
	case tracedToo && !traced && a.status == 0:
		return false
	default:
		return a.status < 400 && b.status >= 400
	}
}

// timedOut reports whether AttemptTimeout, a deadline or a timeout of Base has ended the attempt a,
// and nothing else is known about it, not even a status. If a is nil, timedOut returns false.
func (a *attempt) timedOut() bool {
	return a != nil && a.before == nil && a.late
}

// lostAs returns the error that the field Before of a *retry.Error gets for the attempt a, whose
// answer was lost (see isLost). This is a.before if it is set, and otherwise the error that Check
// returned. If a is nil, lostAs returns nil.
func (a *attempt) lostAs() error {
	if a == nil {
		return nil
	}
	return cmp.Or(a.before, a.failure)
}

// The method `end` cancels the context of the attempt.
func (a *attempt) end() { a.cancel(nil) }

type attemptKey struct{}

// attemptOf returns the attempt that sends req, or nil. Besides the context of req, it looks at the
// destination of req, because Prepare or Base may send another request in the context of the
// attempt, for example to fetch a token.
func attemptOf(req *http.Request) *attempt {
	if req == nil {
		return nil
	}
	if a := attemptIn(req.Context()); a != nil && a.to.isOf(req) {
		return a
	}
	return nil
}

// attemptIn returns the attempt whose context is ctx or an ancestor of ctx, or nil.
func attemptIn(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// attemptFor returns a new attempt for a response that does not belong to an attempt. The new
// attempt is needed to discard the response. When the new attempt ends, a Read of the body that
// hangs must end too. A body of this package has a context, which is canceled. A body of net/http
// is closed. But the Close of a compressed body whose gzip header has not arrived waits for the
// Read.
//
// The body of another package is not closed during a Read. Such a body may panic, or may keep its
// decoder in a pool, and would give another response the decoder that the Read still uses.
func attemptFor(resp *http.Response) *attempt {
	ctx, cancel := context.WithCancelCause(context.Background())
	switch rc := resp.Body.(type) {
	case *responseBody:
		context.AfterFunc(ctx, func() { rc.cancel(nil) })
	case *download:
		context.AfterFunc(ctx, rc.stop)
	default:
		if isOfNetHTTP(reflect.ValueOf(rc)) {
			context.AfterFunc(ctx, func() { _ = rc.Close() })
		}
	}
	return &attempt{Context: ctx, cancel: cancel}
}

// isOfNetHTTP reports whether http.Transport has made the body b. The types of these bodies are not
// exported. If an http.Client has a Timeout, its body contains the body of its Transport.
func isOfNetHTTP(b reflect.Value) bool {
	if b.Kind() == reflect.Interface {
		b = b.Elem()
	}
	if b.Kind() == reflect.Pointer {
		b = b.Elem()
	}
	if b.Kind() != reflect.Struct || !strings.HasPrefix(b.Type().PkgPath(), "net/http") {
		return false
	}
	switch strings.TrimPrefix(b.Type().Name(), "http2") {
	case "bodyEOFSignal", "gzipReader", "transportResponseBody":
		return true
	case "cancelTimerBody":
		return isOfNetHTTP(b.FieldByName("rc"))
	default:
		return false
	}
}
