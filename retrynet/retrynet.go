// Package retrynet says which network errors are worth a retry.
//
//	policy.RetryIf = retrynet.Transient
//
// A refused or lost connection, an unreachable host and a timeout are transient. An invalid
// certificate, an unknown host name and an invalid address are permanent.
//
// [Transient] reports true for errors that are known to be temporary. [Permanent] reports true for
// errors that will happen again in every attempt. Most errors are neither transient nor permanent.
// To retry these errors too, use !Permanent instead of Transient.
//
// The error for a host name that does not exist is permanent, because most such names are
// misspelled. In a cluster, the name may belong to a service that has not started yet. Therefore
// package retryhttp retries this error. To retry it elsewhere, write a RetryIf:
//
//	var dns *net.DNSError
//	return retrynet.Transient(err) || errors.As(err, &dns) && dns.IsNotFound
//
// net.ErrClosed is transient, although your own program may have closed the connection. If your
// program closes a connection to stop a loop that reads from it, stop the loop by its context as
// well. Otherwise the loop would retry after your own Close.
//
// # Contexts
//
// If the AttemptTimeout of a policy ends an attempt, the error is context.DeadlineExceeded. This
// error is not transient, because it may also come from the deadline of the caller. Inside retry.Do
// you can safely retry it, because Do stops when the caller's context is done:
//
//	RetryIf: func(err error) bool {
//		return retrynet.Transient(err) || errors.Is(err, context.DeadlineExceeded)
//	}
//
// This RetryIf also retries a handshake that was ended by the Timeout of the Dialer in
// tls.DialWithDialer, because the error is context.DeadlineExceeded.
//
// A dial or a lookup of package net fails with an "i/o timeout" if the Timeout of a net.Dialer or
// the deadline of a context ends it. This error is transient.
//
// # Other errors
//
// The module adapters/retrygrpc decides about the status codes of gRPC. The module
// adapters/retryaws decides about the errors of the AWS SDK.
package retrynet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/goretry/retry/internal/harmless"
)

// Transient reports whether err is a temporary network error, so that the next attempt may succeed.
// It reports false for nil and for unknown errors. The table lists the known errors:
//
//	failure                                            Transient  Permanent  source
//	connection refused, reset or aborted, broken pipe  yes        no         connect(2), send(2)
//	network or host down or unreachable, timed out     yes        no         connect(2)
//	no ports, descriptors or buffers left, interrupted yes        no         connect(2), socket(2)
//	any error with Timeout() true, except a context's  yes        no         net.Error
//	unexpected EOF                                     yes        no         io
//	a closed connection (net.ErrClosed)                yes        no         net/http
//	Accept of a closed listener                        no         yes        net
//	EOF in a *url.Error or *net.OpError                yes        no         net/http
//	DNS: temporary failure or timeout                  yes        no         RFC 1035, 4.1.1
//	DNS: no such name                                  no         yes        RFC 2308, 2
//	HTTP/2: connection lost or going away              yes        no         RFC 9113, 5.4 and 6.8
//	HTTP/2: stream reset, with one of the codes below  yes        no         RFC 9113, 7
//	QUIC: idle or handshake timeout                    yes        no         quic-go
//	QUIC: closed by either side, or reset              no         no         quic-go
//	a certificate that either side does not accept     no         yes        RFC 8446, 6.2
//	the other side does not speak TLS                  no         yes        crypto/tls
//	a TLS alert on version, handshake or extension     no         yes        RFC 8446, 6.2
//	any other TLS alert, such as internal_error        no         no         RFC 8446, 6.2
//	an address or network that does not parse          no         yes        net
//	unsupported scheme, an invalid request             no         yes        net/http
//	context.Canceled, context.DeadlineExceeded         no         no         the caller gave up
//	any other error, even a bare io.EOF                no         no         not known
//
// A reset of an HTTP/2 stream is transient if the code of the reset is NO_ERROR, INTERNAL_ERROR,
// REFUSED_STREAM, CANCEL or ENHANCE_YOUR_CALM. On Windows, the errors in the first three lines of
// the table are the Winsock errors 10024, 10049 to 10055, 10060, 10061, 10064 and 10065. On Plan 9,
// the errors in these three lines are unknown, because the system has no error numbers. RFC 1035
// calls the temporary failure of DNS a "server failure".
//
// err may wrap several of these errors. Then a permanent error decides. Without a permanent error,
// an error of a context decides. Otherwise a transient error decides.
//
// If a method of an error panics, the error counts as unknown. Transient is safe for concurrent
// use.
func Transient(err error) bool { return judge(err) == transient }

// Permanent reports whether every further attempt will fail with err again. The table of
// [Transient] lists the permanent errors. Permanent is not the opposite of Transient: both report
// false for nil, for the error of a context, and for unknown errors.
//
// If a method of an error panics, the error counts as unknown. Permanent is safe for concurrent
// use.
func Permanent(err error) bool { return judge(err) == permanent }

// A verdict says whether another attempt may succeed. If an error wraps errors with other verdicts,
// the verdict that comes last in this list counts. For example, if one of the errors is permanent,
// the whole error is permanent.
type verdict uint8

const (
	unknown verdict = iota
	transient
	ended // the error comes from a context that is done
	permanent
)

// judge returns one verdict on err and all errors that err wraps. A method of an error may panic,
// for example if the error is a nil pointer. Then judge returns `unknown`.
func judge(err error) verdict {
	return harmless.Or(unknown, func() verdict { return judgeTree(err) })
}

func judgeTree(err error) verdict {
	v := judgeOne(err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return max(v, judgeText(err.Error()), judgeWrapped(e.Unwrap(), err))
	case interface{ Unwrap() []error }:
		for _, wrapped := range e.Unwrap() {
			v = max(v, judgeWrapped(wrapped, err))
		}
		return v
	case nil:
		return unknown
	default:
		return max(v, judgeText(err.Error()))
	}
}

// judgeWrapped returns the verdict on err, which is wrapped by the error `outer`. Every error of
// quic-go wraps net.ErrClosed, whatever has happened. So net.ErrClosed counts only if the text of
// `outer` contains the text of net.ErrClosed.
func judgeWrapped(err, outer error) verdict {
	if err == net.ErrClosed && !strings.Contains(outer.Error(), err.Error()) {
		return unknown
	}
	return judgeTree(err)
}

// judgeOne returns the verdict on err alone, without the errors that it wraps.
func judgeOne(err error) verdict {
	if systemPasses(err) {
		return transient
	}
	switch err {
	case context.Canceled, context.DeadlineExceeded:
		return ended
	case io.ErrUnexpectedEOF, net.ErrClosed:
		return transient
	}
	switch e := err.(type) {
	case *net.DNSError:
		if e.IsNotFound {
			return permanent
		}
		if e.IsTemporary {
			return transient
		}
	case *net.OpError:
		if e.Op == "remote error" && alertStays(e.Err) { // a TLS alert from the other side
			return permanent
		}
		if e.Op == "accept" && errors.Is(e.Err, net.ErrClosed) {
			return permanent
		}
		if errors.Is(e.Err, io.EOF) {
			return transient
		}
	case *url.Error:
		if e.Op == "parse" {
			return permanent
		}
		if errors.Is(e.Err, io.EOF) {
			return transient
		}
	case tls.RecordHeaderError:
		if strings.Contains(e.Msg, "first record") { // otherwise a connection that spoke TLS is garbled
			return permanent
		}
	case *tls.CertificateVerificationError,
		x509.UnknownAuthorityError, x509.HostnameError,
		x509.CertificateInvalidError, x509.SystemRootsError,
		*net.AddrError, *net.ParseError, net.UnknownNetworkError, net.InvalidAddrError:
		return permanent
	}
	// If a context is canceled, package net returns an error of its own, whose method Is returns true
	// for context.Canceled. If the deadline of a context or the Timeout of a Dialer passes, package
	// net returns another error of its own. After the Timeout of an http.Client, net/http returns a
	// similar error. These errors do not say whether a Timeout or a deadline has passed, so they count
	// as timeouts. Only context.DeadlineExceeded itself counts as the error of a context.
	if e, ok := err.(interface{ Is(error) bool }); ok && e.Is(context.Canceled) {
		return ended
	}
	if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
		return transient
	}
	return unknown
}

// alertStays reports whether every further handshake would fail with this TLS alert from the other
// side. It returns true for an alert about a certificate, the version, or the settings of the
// handshake. Other alerts, such as internal_error, concern only one connection. crypto/tls exports
// no type for an alert from the other side, so alertStays compares the text of err with the texts
// of these alerts.
func alertStays(err error) bool {
	for _, alert := range [...]tls.AlertError{
		40,                         // handshake_failure
		42, 43, 44, 45, 46, 48, 49, // TLS alerts about a certificate or its owner
		70, 71, 86, // TLS alerts about the version or the ciphers
		109, 110, 112, 120, 121, // TLS alerts about an extension, the server's name, or the protocol
		113, 114, 115, 116, // TLS alerts about a certificate's status, a shared key, or no certificate
	} {
		if err.Error() == alert.Error() {
			return true
		}
	}
	return false
}

// judgeText returns the verdict on errors of net/http that have no exported variable and no
// exported type. It compares the first words of their texts.
func judgeText(text string) verdict {
	begins := func(start string) bool { return strings.HasPrefix(text, start) }
	switch {
	case begins("http: server closed idle connection"),
		begins("http2: client connection lost"),
		begins("http2: client conn is closed"),
		begins("http2: client conn not usable"),
		begins("http2: Transport received Server's graceful shutdown GOAWAY"),
		begins("http2: server sent GOAWAY and closed the connection"),
		begins("stream error: stream ID ") && resetPasses(text):
		return transient
	case begins("unsupported protocol scheme"),
		begins("http: server gave HTTP response to HTTPS client"),
		begins("stopped after 10 redirects"),
		begins("net/http: invalid "),
		begins("http: invalid header field "), // of an http.ClientConn, since Go 1.26
		begins("http: invalid method "),
		begins("http: invalid trailer field name "),
		begins("net/http: can't write control character in Request.URL"),
		begins("invalid Trailer key "),
		begins("http: nil Request."),
		begins("http: no Host in request URL"),
		begins("http: Request."),
		begins("http: ContentLength="),
		begins("http2: invalid "),
		begins("http2: request header list larger than peer's advertised limit"),
		begins("http2: request body larger than specified content length"):
		return permanent
	default:
		return unknown
	}
}

// resetPasses reports whether another attempt may succeed after an HTTP/2 stream was reset. text is
// the text of the error, such as "stream error: stream ID 3; CANCEL; received from peer". The code
// of this example is CANCEL. A code that resetPasses does not list says that the request itself is
// at fault.
func resetPasses(text string) bool {
	_, code, _ := strings.Cut(text, "; ")
	code, _, _ = strings.Cut(code, ";")
	switch code {
	case "NO_ERROR", "INTERNAL_ERROR", "REFUSED_STREAM", "CANCEL", "ENHANCE_YOUR_CALM":
		return true
	default:
		return false
	}
}
