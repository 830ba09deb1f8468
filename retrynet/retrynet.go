// Package retrynet tells which failures of the network are worth another try.
//
// [Transient] is for the RetryIf of a retry.Policy, around anything that
// speaks TCP: it says yes to what it knows to pass, and no to all else.
// [Permanent] knows what surely stays, for callers that would rather try once
// too often; most errors are neither.
//
//	failure                                             Transient  Permanent  who says so
//	connection refused, reset or aborted, broken pipe   yes        no         connect(2), send(2), Winsock 10053, 10054, 10061
//	network or host down or unreachable, timed out      yes        no         connect(2), Winsock 10050 to 10052, 10060, 10064, 10065
//	any error with Timeout() true, a context's aside    yes        no         net.Error, os.ErrDeadlineExceeded
//	unexpected EOF, net.ErrClosed                       yes        no         io, net
//	EOF in a *url.Error or *net.OpError                 yes        no         net/http: closed before any answer
//	DNS: temporary failure or timeout                   yes        no         net.DNSError, RFC 1035 section 4.1.1 (server failure)
//	DNS: no such name                                   no         yes        net.DNSError IsNotFound, RFC 2308 section 2
//	HTTP/2: connection lost or going away               yes        no         net/http, RFC 9113 sections 5.4 and 6.8
//	HTTP/2: stream reset, with one of the codes below   yes        no         RFC 9113 section 7
//	a certificate not accepted, by either side          no         yes        crypto/tls, RFC 8446 section 6.2
//	no TLS at the other end                             no         yes        crypto/tls
//	a TLS alert on version, handshake or extension      no         yes        RFC 8446 section 6.2
//	any other TLS alert, such as internal_error         no         no         RFC 8446 section 6.2
//	an address or network that does not parse           no         yes        net
//	unsupported scheme, a request that is not valid     no         yes        net/http
//	context.Canceled, context.DeadlineExceeded          no         no         the caller has given up
//	anything else, a bare io.EOF included               no         no         not known
//
// The codes are NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL and
// ENHANCE_YOUR_CALM. The errors of Plan 9 have no numbers, so that there the
// first two lines are not known.
//
// Of several errors in one tree a permanent one counts before the caller's
// context, that before a transient one, and all of them before what is not
// known.
//
// # Contexts
//
// An attempt that was cut short by its own AttemptTimeout also fails with
// context.DeadlineExceeded, and nothing in that error says whose context it
// was. The loops of package retry know, and stop by themselves once the
// caller's context has ended, so this is safe there:
//
//	RetryIf: func(err error) bool {
//		return retrynet.Transient(err) || errors.Is(err, context.DeadlineExceeded)
//	}
//
// The other way round, net reports both Dialer.Timeout and a deadline of the
// context that ends a dial or a lookup as "i/o timeout". That is transient.
//
// # Recipes
//
// The examples show the RetryIf for the codes of gRPC and for the errors of
// the AWS SDK.
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
)

// Transient reports whether err is a failure of the network that is known to
// pass, so that the next try may succeed. It is false for nil, and for every
// error that it does not know.
//
// An error whose own method panics is not known. Transient may be called
// concurrently.
func Transient(err error) bool { return judge(err) == transient }

// Permanent reports whether err is a failure that the same try again is sure
// to meet again. It is false for nil, for the end of a context, and for every
// error that it does not know: it is not the opposite of Transient.
//
// An error whose own method panics is not known. Permanent may be called
// concurrently.
func Permanent(err error) bool { return judge(err) == permanent }

// A verdict says what to expect of another try. Of the verdicts on the errors
// of one tree the greatest counts.
type verdict uint8

const (
	unknown verdict = iota
	transient
	ended // the caller's context
	permanent
)

// judge returns the verdict on an error tree. It calls methods of errors that
// it knows nothing about, one of which may panic; a typed nil does. That must
// not end a program that asked no more than whether to try again.
func judge(err error) (v verdict) {
	defer func() {
		if recover() != nil {
			v = unknown
		}
	}()
	return judgeTree(err)
}

func judgeTree(err error) verdict {
	v := judgeOne(err)
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return max(v, judgeTree(err.Unwrap()))
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			v = max(v, judgeTree(err))
		}
		return v
	case nil:
		return unknown
	default:
		return max(v, judgeText(err.Error()))
	}
}

// judgeOne returns the verdict on an error, whatever it wraps.
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
	// net has its own name for each of the two errors of a context. The one
	// for Canceled means that, but the one for DeadlineExceeded is also what a
	// Dialer's own Timeout ends with, as http.Client's has its name for its
	// own. So only context.DeadlineExceeded itself is a context's.
	if e, ok := err.(interface{ Is(error) bool }); ok && e.Is(context.Canceled) {
		return ended
	}
	if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
		return transient
	}
	return unknown
}

// alertStays reports whether a TLS alert from the other side is about what stays
// as it is: a certificate, the version, or what a handshake has to agree on.
// The others, internal_error above all, tell of one connection. crypto/tls has
// no exported type for them, but the texts.
func alertStays(err error) bool {
	for _, alert := range [...]tls.AlertError{
		40,                         // handshake_failure
		42, 43, 44, 45, 46, 48, 49, // a certificate, or the one who has it
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

// judgeText judges the errors of net/http that have neither a name nor a type
// of their own, by how they begin.
func judgeText(text string) verdict {
	begins := func(start string) bool { return strings.HasPrefix(text, start) }
	switch {
	case begins("http: server closed idle connection"),
		begins("http2: client connection lost"),
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
		begins("http: ContentLength="):
		return permanent
	default:
		return unknown
	}
}

// resetPasses reports whether another stream may fare better than the one that
// an HTTP/2 error tells of: "stream error: stream ID 3; CANCEL; received from
// peer". The other codes blame what was sent.
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
