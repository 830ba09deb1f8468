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

// handshakes are how grpc-go begins its description of a TLS handshake that failed. With TLS
// 1.3 a server refuses the client's certificate after the handshake of the client is over.
var handshakes = []string{"authentication handshake failed: ", "error reading server preface: "}

// untrusted reports whether s says that there is no connection because of an error of TLS that
// does not pass, such as a certificate that is not accepted. The answer is retrynet's.
//
// grpc-go loses the error itself. Its picker makes the status from the text of the last
// connection error, so the text is all that an interceptor gets. credentials that remember
// their last error would not do better: the caller would have to wrap them, one without would
// not notice, and nothing says which connection a call has waited for. The tests with a real
// server fail if grpc-go changes the text, and then such a call is retried again.
func untrusted(s *status.Status) bool {
	if s.Code() != codes.Unavailable {
		return false
	}
	for _, begin := range handshakes {
		if _, text, found := strings.Cut(s.Message(), begin); found {
			return retrynet.Permanent(tlsError(strings.TrimSuffix(text, `"`)))
		}
	}
	return false
}

// tlsError returns the error of crypto/tls that has this text, or one that says nothing.
func tlsError(text string) error {
	alert, remote := strings.CutPrefix(text, "remote error: ")
	switch {
	case remote:
		return &net.OpError{Op: "remote error", Err: errors.New(alert)}
	case strings.Contains(text, "x509: "), strings.HasPrefix(text, "tls: failed to verify certificate: "):
		return &tls.CertificateVerificationError{Err: errors.New(text)}
	case strings.HasPrefix(text, "tls: first record does not look like a TLS handshake"):
		return tls.RecordHeaderError{Msg: text}
	default:
		return errors.New(text)
	}
}
