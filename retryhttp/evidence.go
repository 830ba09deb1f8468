package retryhttp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// evidence is what a Base that traces its connections, as http.Transport does,
// reports of an attempt. The error alone cannot tell whether the server may have
// got the request: a connection that closes in the TLS handshake and one that
// closes after a POST both end in io.EOF.
type evidence struct {
	asked atomic.Bool  // for a connection: Base traces
	got   atomic.Bool  // one
	wrote atomic.Int32 // how often the whole header was written to one
	waits atomic.Bool  // a header was written, and no byte of its answer has come
	again atomic.Bool  // a header was written while another one waited
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
// with err. Without evidence to the contrary it may.
//
// A server does nothing before it has the whole header. That no header was written
// to a connection is evidence only if the request was not given up, by us or by a Base with
// a timeout of its own: else http.Transport may have returned while it is still writing.
func (e *evidence) mayBeDone(err error, canceled bool) bool {
	unsent := e.asked.Load() && (!e.got.Load() || !canceled && !gaveUp(err) && e.wrote.Load() == 0)
	return !unsent && !refused(err)
}

// repeated returns what http.Transport does not tell of a request with a key, nil if there is
// nothing: that it has sent the request again, because the connection broke before the first byte
// of an answer. A Transport below may send it again after an answer, and tells that itself. Over
// HTTP/2, net/http repeats only what no server has processed.
func (e *evidence) repeated(resp *http.Response) error {
	if resp.ProtoMajor >= 2 || !e.again.Load() {
		return nil
	}
	return errAgain
}

var errAgain = errors.New(
	"net/http has sent it again, because a connection that it had kept broke")

// gaveUp reports whether err says that a request was given up: by a timeout, by a context, or
// by its channel Cancel.
func gaveUp(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.Canceled) || errors.As(err, &timeout) && timeout.Timeout() ||
		strings.Contains(err.Error(), "request canceled")
}

// refused reports whether err says that an HTTP/2 server has not processed the
// request, RFC 9113 section 8.7: it refused the stream, or it went away and
// named a stream before this one as the last. An error that joins others may
// be about several requests, and says nothing.
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
	text := err.Error() // these have no type
	return strings.HasPrefix(text, "http2: Transport received Server's graceful shutdown GOAWAY") ||
		strings.HasPrefix(text, "http2: Transport received GOAWAY from server ErrCode:") ||
		strings.HasPrefix(text, "stream error: stream ID ") && // golang.org/x/net/http2
			strings.Contains(text, "; REFUSED_STREAM;")
}

// A streamError is what the errors of net/http for an HTTP/2 stream can be
// turned into: their method As fills in any struct with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

const refusedStream = 0x7 // RFC 9113 section 7

// undone reports whether a status says that the server has refused the request before it
// processed it, whatever its method. Of most of them, Check retries those that ask to wait; a
// Check of the user may retry all.
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
