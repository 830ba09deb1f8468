package retryhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/goretry/retry"
)

// The type `evidence` stores what Base reports to net/http/httptrace about an attempt. The error
// alone does not say whether the server may have got the request. Example: the error is io.EOF if
// the connection closes during the TLS handshake, and also if it closes after a POST was sent.
type evidence struct {
	conn   atomic.Pointer[tls.Conn] // the last connection if it has TLS, otherwise nil
	traces atomic.Bool              // Base has called GetConn or GotConn, so it reports to the trace
	got    atomic.Int32             // what connections Base has got: gotNone, gotConn or gotHTTP1
	wrote  atomic.Int32             // how often a whole header was written to a connection
	waits  atomic.Bool              // a header was written, and the answer to it has not begun

	// again is true if Base repeats a request whose connection broke. It stays false if this
	// connection spoke HTTP/2 over TLS.
	again atomic.Bool
}

// The values of evidence.got. The field `got` says both whether there was a connection and whether
// a broken connection spoke HTTP/1. One field for both saves memory: each request allocates an
// exchange, which contains the evidence.
const (
	gotNone  int32 = iota
	gotConn        // a connection
	gotHTTP1       // a connection that spoke HTTP/1 over TLS, and broke before an answer had begun
)

// trace returns the hooks that fill e. They are for the request req, which `base` sends.
func (e *evidence) trace(base http.RoundTripper, req *http.Request) *httptrace.ClientTrace {
	replayable, safe := isReplayable(req), repeatsSafely(base)
	return &httptrace.ClientTrace{
		// If Base asks for a connection after it has got one, then Base is sending the request again.
		GetConn: func(string) {
			e.traces.Store(true)
			broke := e.conn.Load()
			over2 := broke != nil && !overHTTP1(broke)
			switch {
			case safe && e.got.Load() != gotHTTP1 && (over2 || !replayable || e.wrote.Load() == 0):
				// No server has processed req, so req counts as not sent yet.
				e.wrote.Store(0)
				e.waits.Store(false)
				e.got.Store(gotNone)
			case e.waits.Load() && !over2: // the answer to req had not begun
				e.again.Store(true)
				if broke != nil {
					e.got.Store(gotHTTP1)
				}
			}
		},
		GotConn: func(info httptrace.GotConnInfo) {
			// The HTTP/2 of net/http may call GotConn for a connection without having called GetConn.
			e.traces.Store(true)
			conn, _ := info.Conn.(*tls.Conn)
			e.conn.Store(conn)
			e.got.CompareAndSwap(gotNone, gotConn)
		},
		GotFirstResponseByte: func() { e.waits.Store(false) },
		WroteHeaders: func() {
			e.wrote.Add(1)
			e.waits.Store(true)
		},
	}
}

// overHTTP1 reports whether conn speaks HTTP/1. If conn is nil, the result is false. Only over TLS,
// the connections to a host may speak different protocols, because there the server chooses the
// protocol of each connection. Without TLS, all connections of an http.Transport speak the same
// protocol.
//
// ConnectionState waits for a handshake that is under way, and nothing ends this wait if the server
// stalls a renegotiation. So overHTTP1 is called only if necessary.
func overHTTP1(conn *tls.Conn) bool {
	return conn != nil && conn.ConnectionState().NegotiatedProtocol != "h2"
}

// mayBeDone reports whether the server may have processed a request that failed with err. It
// reports true unless there is evidence to the contrary. The parameter `canceled` is true if the
// context of the request is done.
//
// A server does not process a request before it has the whole header. So if no header was written,
// the server has done nothing. This conclusion does not hold if the request was canceled or timed
// out, because http.Transport may then return while it is still writing. The conclusion does not
// hold either if a Transport below has made several attempts, because an earlier attempt may have
// timed out.
//
// A refusal over HTTP/2 proves nothing if net/http has sent the request over HTTP/1 before. It also
// proves nothing if the context of the request is done, because http.Transport then returns the
// cause of the context. In an errgroup, the cause is the error of another request.
func (e *evidence) mayBeDone(err error, canceled bool) bool {
	unsent := e.traces.Load() && (e.got.Load() == gotNone ||
		!canceled && !gaveUp(err) && !isOfSeveral(err) && e.wrote.Load() == 0)
	return !unsent && (canceled || !refused(err) || e.got.Load() == gotHTTP1)
}

// isOfSeveral reports whether err is the error of a Transport below that has made several attempts.
// Such an error is only about the last attempt.
func isOfSeveral(err error) bool {
	var e *retry.Error
	return errors.As(err, &e) && e.Attempts > 1
}

// The method `repeated` returns errAgain if http.Transport itself has repeated the request because
// an HTTP/1 connection broke before the first byte of an answer. Otherwise it returns nil. It also
// returns nil if an HTTP/2 connection broke, because over HTTP/2 net/http repeats only requests
// that the server has refused before processing them. There is an exception: after a PROTOCOL_ERROR
// of the server (golang/go#47635), net/http repeats a request that may have been processed. The
// trace does not show this repeat, so this method does not find it. A Transport below reports its
// own repeats: see attempt.before.
func (e *evidence) repeated(resp *http.Response) error {
	if !e.again.Load() || resp.ProtoMajor >= 2 && e.got.Load() != gotHTTP1 {
		return nil
	}
	return errAgain
}

// isReplayable reports whether net/http repeats req over HTTP/1 even if the server may have got
// req. net/http repeats any other request only if it has written no byte of that request to the
// connection. The trace does not show whether a byte was written, because WroteHeaders is called
// before the header leaves the buffer.
func isReplayable(req *http.Request) bool { return isSafe(req) || hasKey(req) }

// repeatsSafely reports whether `base` repeats a request that is not replayable (see isReplayable)
// only if no server has processed the request. An http.Transport does so, apart from its repeats
// after a PROTOCOL_ERROR: see the method `repeated`.
func repeatsSafely(base http.RoundTripper) bool {
	switch base := base.(type) {
	case *http.Transport:
		return true
	case *lender:
		return repeatsSafely(base.base())
	default:
		return false
	}
}

var errAgain = errors.New(
	"net/http has repeated the request, because its idle connection broke")

var errRepeat = errors.New("retryhttp: the request got no answer, " +
	"and LendBudget does not let net/http repeat the request")

// forbidRepeats keeps net/http from repeating req over HTTP/1 after the header of req has been
// written.
//
// net/http repeats a request if the map Header has the key Idempotency-Key or X-Idempotency-Key,
// spelled in this way. Therefore this function replaces the key by its lower-case form, which
// net/http does not look up, and which means the same to a server.
//
// net/http also repeats a GET, HEAD, OPTIONS or TRACE if it has no body, or if its GetBody returns
// a body. Therefore this function makes GetBody fail after the header has been written, unless the
// connection speaks HTTP/2 over TLS. If there is no body, this function sets an empty body and a
// GetBody. Over HTTP/1 an empty body sends nothing.
//
// net/http repeats any other request only if no byte of the request was written, or if the server
// has refused the request over HTTP/2. Such a repeat does no harm, because no server has processed
// the request.
//
// If http1 is false, the function changes only the keys. Over HTTP/2, a request with an empty body
// looks like a request with a body of unknown length, which a proxy could not send again, and which
// some servers refuse. The repeats of net/http over HTTP/2 need not be prevented, because there
// net/http repeats only requests that the server has refused before processing them. The comment of
// the method `repeated` names the one exception.
func (e *evidence) forbidRepeats(req *http.Request, http1 bool) {
	for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := req.Header[key]; ok {
			delete(req.Header, key)
			req.Header[strings.ToLower(key)] = values
		}
	}
	if !http1 || !isReplayable(req) {
		return
	}
	getBody := req.GetBody
	if req.Body == nil || req.Body == http.NoBody {
		getBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }
		req.Body, _ = getBody()
		// net/http ignores the ContentLength of an http.NoBody, but not of this body.
		req.ContentLength = 0
		req.TransferEncoding = []string{"identity"} // so that a TRACE is not sent in chunks
	}
	if getBody == nil {
		return
	}
	req.GetBody = func() (io.ReadCloser, error) {
		if conn := e.conn.Load(); e.wrote.Load() > 0 && (conn == nil || overHTTP1(conn)) {
			return nil, errRepeat
		}
		return getBody()
	}
}

// noConnection reports whether err says that there was no connection to the server or to its proxy.
// The error is the only evidence about a request that is not traced, such as most GETs. If err
// joins the errors of several requests, noConnection returns true only if each of these errors says
// so. The error of a Transport below contains only the error of its last attempt. So if that
// Transport made several attempts, its error proves nothing.
func noConnection(err error) bool {
	switch e := err.(type) {
	case *net.DNSError:
		return true
	case *net.OpError:
		return e.Op == "dial" || e.Op == "proxyconnect" || e.Op == "socks connect"
	case *retry.Error:
		return e.Attempts == 0 ||
			e.Attempts == 1 && (e.Cause == errUnprepared || noConnection(e.Err))
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

// gaveUp reports whether err says that a request ended because of a timeout, its context, or its
// field Cancel.
func gaveUp(err error) bool {
	return errors.Is(err, context.Canceled) || isTimeout(err) ||
		strings.Contains(err.Error(), "request canceled")
}

// The function `refused` reports whether err says that an HTTP/2 server has not processed the
// request (RFC 9113 section 8.7). Either the server refused the stream, or it sent a GOAWAY that
// names an earlier stream as the last one. If err joins several errors, `refused` reports false,
// because these errors may be about several requests.
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
	text := err.Error() // the errors with these texts have no exported type
	// If the request has no GetBody, net/http wraps the reason in this text.
	text = strings.TrimPrefix(text, "http2: Transport: cannot retry err [")
	// The text of an error of x/net/http2 may end with words of the server.
	code, isReset := strings.CutPrefix(text, "stream error: stream ID ")
	code = strings.TrimLeft(code, "0123456789")
	return strings.HasPrefix(text, "http2: Transport received Server's graceful shutdown GOAWAY") ||
		strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:") ||
		isReset && strings.HasPrefix(code, "; REFUSED_STREAM;")
}

// A streamError is a target for errors.As. An HTTP/2 stream error of net/http copies its fields
// into a streamError, because the method As of that error accepts any struct with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

const refusedStream = 0x7 // RFC 9113 section 7
