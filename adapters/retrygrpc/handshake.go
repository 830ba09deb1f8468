package retrygrpc

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry/retrynet"
)

// handshakes contains the texts with which grpc-go starts the description of a failed TLS
// handshake. In TLS 1.3, the handshake of the client is over before the server refuses the client's
// certificate. In this case grpc-go fails when it reads the first bytes of the server, which
// grpc-go calls the server preface.
var handshakes = []string{"authentication handshake failed: ", "error reading server preface: "}

// untrusted reports whether a permanent error of TLS, such as the error for a certificate that is
// not accepted, prevented the connection. retrynet decides which errors are permanent.
//
// An interceptor gets only the text of the TLS error, because grpc-go makes the status of a call
// from the text of the last connection error. TransportCredentials could store the error itself,
// but an interceptor does not learn for which connection a call has waited. If grpc-go changes the
// text, calls that fail with a TLS error are retried, and the tests with a real server fail.
func untrusted(s *status.Status) bool {
	if s.Code() != codes.Unavailable {
		return false
	}
	for _, begin := range handshakes {
		if _, text, found := strings.Cut(s.Message(), begin); found {
			text = strings.TrimSuffix(text, `"`) // grpc-go quotes the description
			return retrynet.Permanent(tlsError(text))
		}
	}
	return false
}

// tlsError returns an error with the given text. If crypto/tls has a type for errors with such a
// text, the error has this type. Otherwise the error is a plain error, which retrynet does not
// treat as permanent.
func tlsError(text string) error {
	alert, remote := strings.CutPrefix(text, "remote error: ")
	switch {
	case remote:
		return &net.OpError{Op: "remote error", Err: errors.New(alert)}
	case strings.Contains(text, "x509: "),
		strings.HasPrefix(text, "tls: failed to verify certificate: "):
		return &tls.CertificateVerificationError{Err: errors.New(text)}
	case strings.HasPrefix(text, "tls: first record does not look like a TLS handshake"):
		return tls.RecordHeaderError{Msg: text}
	default:
		return errors.New(text)
	}
}
