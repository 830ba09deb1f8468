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

// handshakes has the texts with which grpc-go starts the description of a failed TLS handshake.
// Under TLS 1.3 the handshake of the client is over before the server refuses the client's
// certificate. Then grpc-go fails when it reads the first bytes of the server, its preface.
var handshakes = []string{"authentication handshake failed: ", "error reading server preface: "}

// untrusted reports whether there is no connection because of a permanent error of TLS, such as
// a certificate that is not accepted. retrynet decides which errors are permanent.
//
// An interceptor gets only the text of that error, because grpc-go makes the status of a call
// from the text of the last connection error. Credentials could store the error itself, but
// nothing tells the interceptor for which connection a call has waited. If grpc-go changes the
// text, the tests with a real server fail, and such a call is retried.
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

// tlsError returns an error with this text, of the type that crypto/tls uses for such an error.
// For any other text it returns a plain error, which is not permanent for retrynet.
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
