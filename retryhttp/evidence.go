package retryhttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/goretry/retry"
)

// evidence is what Base reports about an attempt to net/http/httptrace, as http.Transport does. The
// error alone does not say whether the server may have got the request: io.EOF is the error of a
// connection that closes in the TLS handshake, and of a connection that closes after a POST.
type evidence struct {
	asked atomic.Bool  // Base has asked for a connection, so it reports to the trace
	got   atomic.Bool  // Base has got a connection
	wrote atomic.Int32 // how often the whole header was written to a connection
	waits atomic.Bool  // a header was written, and no byte of its answer has arrived
	again atomic.Bool  // a header was written while another one waited for its answer
}

func (e *evidence) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:              func(string) { e.asked.Store(true) },
		GotConn:              func(httptrace.GotConnInfo) { e.got.Store(true) },
		GotFirstResponseByte: func() { e.waits.Store(false) },
		WroteHeaders: func() {
			e.wrote.Add(1)
			if e.waits.Swap(true) {
				e.again.Store(true)
			}
		},
	}
}

// mayBeDone reports whether the server may have processed a request that failed
// with err. It reports true unless there is evidence to the contrary. canceled says that the
// context of the request is done.
//
// A server does nothing before it has the whole header. But if the request was canceled, or Base
// gave it up after a timeout of its own, http.Transport may have returned while it is still
// writing. So a header that was not written is evidence only if neither happened.
func (e *evidence) mayBeDone(err error, canceled bool) bool {
	unsent := e.asked.Load() && (!e.got.Load() || !canceled && !gaveUp(err) && e.wrote.Load() == 0)
	return !unsent && !refused(err)
}

// repeated returns errAgain if http.Transport itself has sent the request again because the
// connection broke before the first byte of an answer, and otherwise nil. A Transport below may
// send the request again after an answer, and says so itself. Over HTTP/2 repeated returns nil,
// because there net/http repeats only requests that no server has processed.
func (e *evidence) repeated(resp *http.Response) error {
	if resp.ProtoMajor >= 2 || !e.again.Load() {
		return nil
	}
	return errAgain
}

var errAgain = errors.New(
	"net/http has sent it again, because a connection that it had kept broke")

// noConnection reports whether err says that there was no connection to the server or to its
// proxy. Most idempotent requests are not traced, so the error is the only evidence. If an error
// joins the errors of several requests, none of these requests may have had a connection. The error
// of a Transport below tells only of its last attempt.
func noConnection(err error) bool {
	switch e := err.(type) {
	case *net.DNSError:
		return true
	case *net.OpError:
		return e.Op == "dial" || e.Op == "proxyconnect" || e.Op == "socks connect"
	case *retry.Error:
		return e.Attempts == 0 || e.Attempts == 1 && noConnection(e.Err)
	case interface{ Unwrap() error }:
		return noConnection(e.Unwrap())
	case interface{ Unwrap() []error }:
		errs := e.Unwrap()
		connected := func(err error) bool { return !noConnection(err) }
		return len(errs) > 0 && !slices.ContainsFunc(errs, connected)
	default:
		return false
	}
}

// gaveUp reports whether err says that a request was given up because of a timeout, its context or
// its channel Cancel.
func gaveUp(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.Canceled) || errors.As(err, &timeout) && timeout.Timeout() ||
		strings.Contains(err.Error(), "request canceled")
}

// refused reports whether err says that an HTTP/2 server has not processed the
// request (RFC 9113 section 8.7): the server refused the stream, or it sent a GOAWAY that
// names an earlier stream as the last one. For an error that joins other errors it reports false,
// because such an error may be about several requests.
func refused(err error) bool {
	for {
		var reset streamError
		if e, ok := err.(interface{ As(any) bool }); ok && e.As(&reset) {
			return reset.Code == refusedStream
		}
		if _, ok := err.(interface{ Unwrap() []error }); ok {
			return false
		}
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	text := err.Error() // the errors of these texts have no exported type
	return strings.HasPrefix(text, "http2: Transport received Server's graceful shutdown GOAWAY") ||
		strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:") ||
		strings.HasPrefix(text, "stream error: stream ID ") && // golang.org/x/net/http2
			strings.Contains(text, "; REFUSED_STREAM;")
}

// A streamError is filled in by the method As of the errors of net/http for an HTTP/2 stream, which
// accepts any struct with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

const refusedStream = 0x7 // RFC 9113 section 7

// undone reports whether a status says that the server has refused the request before it
// processed it, whatever the method is. The function Check retries some of these statuses only if
// the response asks to wait. A Check of the user may retry all of them.
func undone(status int) bool {
	switch status {
	case http.StatusUnauthorized, // "has not been applied", RFC 9110 section 15.5.2
		http.StatusForbidden,             // "refuses to fulfill it", RFC 9110 section 15.5.4
		http.StatusProxyAuthRequired,     // by a proxy, RFC 9110 section 15.5.8
		http.StatusRequestEntityTooLarge, // "refusing to process", RFC 9110 section 15.5.14
		http.StatusMisdirectedRequest,    // RFC 9110 section 15.5.20
		http.StatusTooEarly,              // RFC 8470 section 5.2
		http.StatusTooManyRequests:       // a limit is before the work, RFC 6585 section 4
		return true
	default:
		return false
	}
}
