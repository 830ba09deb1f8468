// Package retrynet says which network errors are worth a retry.
//
//	policy.RetryIf = retrynet.Transient
//
// A refused or lost connection, an unreachable host and a timeout are transient. A
// bad certificate, an unknown host name and an invalid address are permanent.
//
// [Transient] is true for errors that are known to pass, and false for all others.
// [Permanent] is true for errors that are certain to come back, for callers that
// prefer one attempt too many. Most errors are neither.
//
// A name that does not exist is permanent, because a misspelled one is the likeliest
// cause. In a cluster it may be the name of a service that has not started yet.
// Package retryhttp therefore retries it; elsewhere, use a RetryIf that does:
//
//	var dns *net.DNSError
//	return retrynet.Transient(err) || errors.As(err, &dns) && dns.IsNotFound
//
// net.ErrClosed does not say which side closed the connection first. If your
// program closes a connection to end a loop that reads from it, end the loop by
// its context or by a check of your own.
//
// # Contexts
//
// An attempt that was cut short by its own AttemptTimeout also fails with
// context.DeadlineExceeded, and nothing in that error says whose context it
// was. retry.Do knows, and stops by itself once the caller's context is done, so
// this is safe there:
//
//	RetryIf: func(err error) bool {
//		return retrynet.Transient(err) || errors.Is(err, context.DeadlineExceeded)
//	}
//
// It also covers tls.DialWithDialer, whose own Dialer.Timeout ends a handshake
// with a bare context.DeadlineExceeded.
//
// In contrast, net reports "i/o timeout" when a dial or a lookup ends because of
// Dialer.Timeout, and also when it ends because of the context's deadline. Both
// are transient.
//
// # Others
//
// For the codes of gRPC and the errors of the AWS SDK there are the modules
// adapters/retrygrpc and adapters/retryaws.
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

// Transient reports whether err is a network failure that is known to pass, so
// that the next attempt may succeed. It is false for nil and for unknown errors.
//
// What Transient and [Permanent] say:
//
//	failure                                             Transient  Permanent  source
//	connection refused, reset or aborted, broken pipe   yes        no         connect(2), send(2), Winsock 10053, 10054, 10061
//	network or host down or unreachable, timed out      yes        no         connect(2), Winsock 10050 to 10052, 10060, 10064, 10065
//	no ports, descriptors or buffers left, interrupted  yes        no         connect(2), socket(2), Winsock 10024, 10049, 10055
//	any error with Timeout() true, except a context's   yes        no         net.Error, os.ErrDeadlineExceeded
//	unexpected EOF                                      yes        no         io
//	a closed connection (net.ErrClosed)                 yes        no         net/http: the server closed it during a request
//	Accept of a closed listener                         no         yes        net
//	EOF in a *url.Error or *net.OpError                 yes        no         net/http: closed before any answer
//	DNS: temporary failure or timeout                   yes        no         net.DNSError, RFC 1035 section 4.1.1 (server failure)
//	DNS: no such name                                   no         yes        net.DNSError IsNotFound, RFC 2308 section 2
//	HTTP/2: connection lost or going away               yes        no         net/http, RFC 9113 sections 5.4 and 6.8
//	HTTP/2: stream reset, with one of the codes below   yes        no         RFC 9113 section 7
//	QUIC: idle or handshake timeout                     yes        no         quic-go: Timeout() is true
//	QUIC: closed by either side, or reset               no         no         quic-go: the application's code says why
//	a certificate not accepted, by either side          no         yes        crypto/tls, RFC 8446 section 6.2
//	no TLS at the other end                             no         yes        crypto/tls
//	a TLS alert on version, handshake or extension      no         yes        RFC 8446 section 6.2
//	any other TLS alert, such as internal_error         no         no         RFC 8446 section 6.2
//	an address or network that does not parse           no         yes        net
//	unsupported scheme, an invalid request              no         yes        net/http
//	context.Canceled, context.DeadlineExceeded          no         no         the caller has given up
//	anything else, including a bare io.EOF              no         no         not known
//
// The codes are NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL and
// ENHANCE_YOUR_CALM. The errors of Plan 9 have no numbers, so the errors of the
// first three lines are unknown there.
//
// If an error wraps several others, a permanent one decides first, then an error
// of a context, then a transient one, and an unknown one last.
//
// An error with a method that panics is unknown. Transient may be called
// concurrently.
func Transient(err error) bool { return judge(err) == transient }

// Permanent reports whether err is a failure that the same attempt is certain to
// meet again. It is false for nil, for the error of a context and for unknown
// errors, so it is not the opposite of Transient.
//
// An error with a method that panics is unknown. Permanent may be called
// concurrently.
func Permanent(err error) bool { return judge(err) == permanent }

// A verdict says what to expect of another attempt. In a tree of errors the
// greatest verdict decides.
type verdict uint8

const (
	unknown verdict = iota
	transient
	ended // the caller's context
	permanent
)

// judge returns the verdict on an error tree. It calls methods of errors that it
// knows nothing about, which may panic, as those of a typed nil do.
func judge(err error) verdict {
	return harmless.Or(unknown, func() verdict { return judgeTree(err) })
}

func judgeTree(err error) verdict {
	v := judgeOne(err)
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return max(v, judgeWrapped(e.Unwrap(), err))
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

// judgeWrapped judges what by wraps. Every error of quic-go wraps net.ErrClosed,
// whatever has happened, so errors.Is finds it in all of them. Only an error that
// also says so in its text is about a closed connection.
func judgeWrapped(err, by error) verdict {
	if err == net.ErrClosed && !strings.Contains(by.Error(), err.Error()) {
		return unknown
	}
	return judgeTree(err)
}

// judgeOne returns the verdict on one error of the tree.
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
		if e.Op == "remote error" && alertStays(e.Err) { // how crypto/tls reports an alert from the other side
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
	case *tls.CertificateVerificationError, tls.RecordHeaderError,
		x509.UnknownAuthorityError, x509.HostnameError, x509.CertificateInvalidError, x509.SystemRootsError,
		*net.AddrError, *net.ParseError, net.UnknownNetworkError, net.InvalidAddrError:
		return permanent
	}
	// net has its own error for each of the two errors of a context. The one for
	// Canceled always comes from a context. The one for DeadlineExceeded also
	// comes from a Dialer's own Timeout, and http.Client has one for its own
	// Timeout. So only context.DeadlineExceeded itself is a context's.
	if e, ok := err.(interface{ Is(error) bool }); ok && e.Is(context.Canceled) {
		return ended
	}
	if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
		return transient
	}
	return unknown
}

// alertStays reports whether a TLS alert from the other side is about something
// that does not change: a certificate, the version, or what a handshake has to
// agree on. The others, such as internal_error, are about one connection.
// crypto/tls has no exported type for alerts, only texts.
func alertStays(err error) bool {
	for _, alert := range [...]tls.AlertError{
		40,                         // handshake_failure
		42, 43, 44, 45, 46, 48, 49, // a certificate, or its owner
		70, 71, 86, // the version, the ciphers
		109, 110, 112, 120, 121, // an extension, the server's name, the protocol, its encryption
		113, 114, 115, 116, // a certificate's status, a shared key, no certificate
	} {
		if err.Error() == alert.Error() {
			return true
		}
	}
	return false
}

// judgeText judges those errors of net/http that have neither a variable nor a
// type of their own. It looks at how their text begins.
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
		begins("http: nil Request."),
		begins("http: no Host in request URL"),
		begins("http: Request."),
		begins("http: ContentLength="),
		begins("http2: request body larger than specified content length"):
		return permanent
	default:
		return unknown
	}
}

// resetPasses reports whether another stream may succeed after an HTTP/2 error
// about one: "stream error: stream ID 3; CANCEL; received from peer". The other
// codes mean that the request itself was at fault.
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
