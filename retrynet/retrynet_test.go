package retrynet_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

// What both functions are to say of an error.
const (
	transient = "transient"
	permanent = "permanent"
	neither   = "neither"
)

func verdict(err error) string {
	switch t, p := retrynet.Transient(err), retrynet.Permanent(err); {
	case t && p:
		return "both"
	case t:
		return transient
	case p:
		return permanent
	default:
		return neither
	}
}

func TestConstructedErrors(t *testing.T) {
	var (
		refused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		noName  = &net.DNSError{Err: "no such host", Name: "x.invalid", IsNotFound: true}
		winsock = func(n syscall.Errno) error {
			return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("wsarecv", n)}
		}
		get = func(err error) error { return &url.Error{Op: "Get", URL: "http://x/", Err: err} }
	)
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"nil", nil, neither},
		{"an error of the program", errors.New("boom"), neither},

		{"refused", syscall.ECONNREFUSED, transient},
		{"reset", syscall.ECONNRESET, transient},
		{"aborted", syscall.ECONNABORTED, transient},
		{"broken pipe", syscall.EPIPE, transient},
		{"timed out", syscall.ETIMEDOUT, transient},
		{"network down", syscall.ENETDOWN, transient},
		{"network unreachable", syscall.ENETUNREACH, transient},
		{"network dropped the connection", syscall.ENETRESET, transient},
		{"host unreachable", syscall.EHOSTUNREACH, transient},
		{"host down", syscall.EHOSTDOWN, transient},
		{"no ports left", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}, transient},
		{"no descriptors left", &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, transient},
		{"no descriptors left in the system", &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.ENFILE)}, transient},
		{"no buffers left", &net.OpError{Op: "write", Err: os.NewSyscallError("sendto", syscall.ENOBUFS)}, transient},
		{"interrupted", os.NewSyscallError("connect", syscall.EINTR), transient},
		{"permission denied", syscall.EACCES, neither},
		{"no such file", syscall.ENOENT, neither},
		{"address in use", &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}, neither},
		{"a dial refused", refused, transient},
		{"a dial refused, three wrappings out", fmt.Errorf("a: %w", fmt.Errorf("b: %w", get(refused))), transient},

		{"Windows: network down", winsock(10050), transient},
		{"Windows: network unreachable", winsock(10051), transient},
		{"Windows: network reset", winsock(10052), transient},
		{"Windows: aborted", winsock(10053), transient},
		{"Windows: reset", winsock(10054), transient},
		{"Windows: timed out", winsock(10060), transient},
		{"Windows: refused", winsock(10061), transient},
		{"Windows: host down", winsock(10064), transient},
		{"Windows: host unreachable", winsock(10065), transient},
		{"Windows: reset, bare", syscall.Errno(10054), transient},
		{"Windows: access denied", winsock(10013), neither},
		{"Windows: address in use", winsock(10048), neither},
		{"Windows: no descriptors left", winsock(10024), transient},
		{"Windows: no ports left", winsock(10049), transient},
		{"Windows: no buffer space", winsock(10055), transient},

		{"unexpected EOF", io.ErrUnexpectedEOF, transient},
		{"unexpected EOF, wrapped", fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), transient},
		{"a bare EOF is the end of a stream", io.EOF, neither},
		{"EOF wrapped by the program", fmt.Errorf("rows: %w", io.EOF), neither},
		{"EOF instead of an answer", get(io.EOF), transient},
		{"EOF instead of an answer, wrapped", get(fmt.Errorf("proxy: %w", io.EOF)), transient},
		{"EOF of a socket", &net.OpError{Op: "read", Net: "tcp", Err: io.EOF}, transient},
		{"closed connection", &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}, transient},
		{"closed connection, bare, as crypto/tls has it", net.ErrClosed, transient},
		{"closed connection in a get", get(net.ErrClosed), transient},
		{"closed connection, wrapped", fmt.Errorf("transport connection broken: %w", net.ErrClosed), transient},
		{"closed listener", &net.OpError{Op: "accept", Net: "tcp", Err: net.ErrClosed}, permanent},
		{"an error that only counts as closed", alsoClosed{}, neither},
		{"an error that only counts as closed, in a get", get(alsoClosed{}), neither},
		{"an error that only counts as closed, and others", alsoClosedAnd{syscall.ECONNRESET}, transient},
		{"closed pipe", io.ErrClosedPipe, neither},

		{"a deadline of the socket", os.ErrDeadlineExceeded, transient},
		{"a read past its deadline", &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, transient},
		{"somebody's Timeout() true", timeoutError(true), transient},
		{"somebody's Timeout() false", timeoutError(false), neither},
		{"a timeout beside an error of the program", errors.Join(errors.New("boom"), timeoutError(true)), transient},

		{"DNS: not found", noName, permanent},
		{"DNS: not found, in a dial, in a get", get(&net.OpError{Op: "dial", Err: noName}), permanent},
		{"DNS: not found and temporary", &net.DNSError{IsNotFound: true, IsTemporary: true, IsTimeout: true}, permanent},
		{"DNS: server misbehaving", &net.DNSError{Err: "server misbehaving", IsTemporary: true}, transient},
		{"DNS: timeout", &net.DNSError{Err: "i/o timeout", IsTimeout: true}, transient},
		{"DNS: neither", &net.DNSError{Err: "cannot unmarshal DNS message"}, neither},
		{"DNS: the caller's context", &net.DNSError{IsTimeout: true, IsTemporary: true, UnwrapErr: context.DeadlineExceeded}, neither},

		{"certificate of an unknown authority", x509.UnknownAuthorityError{}, permanent},
		{"certificate of another host", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"}, permanent},
		{"certificate expired", x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired}, permanent},
		{"no root certificates", x509.SystemRootsError{}, permanent},
		{"certificate, as crypto/tls reports it", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, permanent},
		{"no TLS at the other end", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, permanent},
		{"TLS alert: handshake failure", alert(40), permanent},
		{"TLS alert: bad certificate", alert(42), permanent},
		{"TLS alert: unsupported certificate", alert(43), permanent},
		{"TLS alert: certificate revoked", alert(44), permanent},
		{"TLS alert: certificate expired", alert(45), permanent},
		{"TLS alert: certificate unknown", alert(46), permanent},
		{"TLS alert: unknown CA", alert(48), permanent},
		{"TLS alert: access denied", alert(49), permanent},
		{"TLS alert: protocol version", alert(70), permanent},
		{"TLS alert: insufficient security", alert(71), permanent},
		{"TLS alert: inappropriate fallback", alert(86), permanent},
		{"TLS alert: missing extension", alert(109), permanent},
		{"TLS alert: unsupported extension", alert(110), permanent},
		{"TLS alert: unrecognized name", alert(112), permanent},
		{"TLS alert: bad certificate status", alert(113), permanent},
		{"TLS alert: bad certificate hash", alert(114), permanent},
		{"TLS alert: unknown key", alert(115), permanent},
		{"TLS alert: certificate required", alert(116), permanent},
		{"TLS alert: no application protocol", alert(120), permanent},
		{"TLS alert: encrypted client hello required", alert(121), permanent},
		{"TLS alert: in a get", get(alert(42)), permanent},
		{"TLS alert: internal error", alert(80), neither},
		{"TLS alert: unexpected message", alert(10), neither},
		{"TLS alert: bad record", alert(20), neither},
		{"TLS alert: user canceled", alert(90), neither},
		{"TLS alert: one without a name", alert(255), neither},
		{"certificate beside a reset", errors.Join(syscall.ECONNRESET, x509.UnknownAuthorityError{}), permanent},

		{"address without a port", &net.AddrError{Err: "missing port in address", Addr: "x"}, permanent},
		{"address that does not parse", &net.ParseError{Type: "IP address", Text: "x"}, permanent},
		{"unknown network", net.UnknownNetworkError("tcpx"), permanent},
		{"invalid address", net.InvalidAddrError("x"), permanent},
		{"URL that does not parse", &url.Error{Op: "parse", URL: ":", Err: errors.New("missing protocol scheme")}, permanent},

		{"net/http: idle connection closed", get(errors.New("http: server closed idle connection")), transient},
		{"net/http: HTTP/2 connection lost", get(errors.New("http2: client connection lost")), transient},
		{"net/http: HTTP/2 connection not usable", get(errors.New("http2: client conn not usable")), transient},
		{"net/http: HTTP/2 graceful GOAWAY", get(errors.New("http2: Transport received Server's graceful shutdown GOAWAY")), transient},
		{"net/http: HTTP/2 GOAWAY", get(errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1")), transient},
		{"net/http: HTTP/2 stream refused", get(errors.New("stream error: stream ID 3; REFUSED_STREAM")), transient},
		{"net/http: HTTP/2 stream, no error", get(errors.New("stream error: stream ID 3; NO_ERROR; received from peer")), transient},
		{"net/http: HTTP/2 stream, internal error", get(errors.New("stream error: stream ID 3; INTERNAL_ERROR; received from peer")), transient},
		{"net/http: HTTP/2 stream canceled", get(errors.New("stream error: stream ID 3; CANCEL; received from peer")), transient},
		{"net/http: HTTP/2 stream, enhance your calm", get(errors.New("stream error: stream ID 3; ENHANCE_YOUR_CALM; received from peer")), transient},
		{"net/http: HTTP/2 stream, protocol error", get(errors.New("stream error: stream ID 3; PROTOCOL_ERROR; received from peer")), neither},
		{"net/http: HTTP/2 stream, HTTP/1.1 required", get(errors.New("stream error: stream ID 3; HTTP_1_1_REQUIRED; received from peer")), neither},
		{"net/http: HTTP/2 stream, a code in the cause alone", get(errors.New("stream error: stream ID 3; PROTOCOL_ERROR; CANCEL")), neither},
		{"net/http: HTTP/2 stream, no code", get(errors.New("stream error: stream ID 3")), neither},
		{"net/http: an answer too long", get(errors.New("net/http: server response headers exceeded 1 bytes; aborted")), neither},
		{"net/http: HTTP/2 body longer than it says", get(errors.New("http2: request body larger than specified content length")), permanent},
		{"the text of a program that only mentions one", errors.New("saw http2: client connection lost"), neither},

		{"canceled", context.Canceled, neither},
		{"deadline exceeded", context.DeadlineExceeded, neither},
		{"canceled, in a get", get(context.Canceled), neither},
		{"deadline exceeded, in a get", get(context.DeadlineExceeded), neither},
		{"deadline exceeded, wrapped in a get", get(fmt.Errorf("proxy: %w", context.DeadlineExceeded)), neither},
		{"deadline exceeded, in a dial", &net.OpError{Op: "dial", Err: context.DeadlineExceeded}, neither},
		{"canceled beside a reset", errors.Join(syscall.ECONNRESET, context.Canceled), neither},
		{"deadline exceeded beside a reset", fmt.Errorf("%w: %w", context.DeadlineExceeded, syscall.ECONNRESET), neither},
		{"canceled, by another name", sameAs{context.Canceled}, neither},
		{"canceled, by another name, beside a reset", errors.Join(syscall.ECONNRESET, sameAs{context.Canceled}), neither},

		{"an inner loop that gave up on a reset", &retry.Error{Reason: retry.ReasonExhausted, Err: syscall.ECONNRESET}, transient},
		{"an inner loop whose context had ended", &retry.Error{Reason: retry.ReasonCanceled, Err: syscall.ECONNRESET, Cause: context.Canceled}, neither},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, verdict(tt.err), "%v", tt.err)
		})
	}
}

// The errors that the standard library makes, not the ones we believe it to.
func TestRealErrors(t *testing.T) {
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()

	for _, tt := range []struct {
		name string
		err  func(t *testing.T) error
		want string
	}{
		{"refused", func(t *testing.T) error { return dial(t.Context(), refusing(t)) }, transient},
		{"refused, by net/http", func(t *testing.T) error { return get(t.Context(), "http://"+refusing(t)) }, transient},
		{"Dialer.Timeout", func(t *testing.T) error {
			_, err := (&net.Dialer{Timeout: 1}).DialContext(t.Context(), "tcp", refusing(t))
			return err
		}, transient},
		{"dial, canceled", func(t *testing.T) error { return dial(canceled, refusing(t)) }, neither},
		{"dial, past the caller's deadline, which looks as Dialer.Timeout does", func(t *testing.T) error { return dial(expired, refusing(t)) }, transient},
		{"DNS: past the caller's deadline, which looks as a slow server does", func(t *testing.T) error { return lookup(expired, serverFailure) }, transient},
		{"DNS: canceled", func(t *testing.T) error { return lookup(canceled, serverFailure) }, neither},
		{"DNS: no such name", func(t *testing.T) error { return lookup(t.Context(), noSuchName) }, permanent},
		{"DNS: server failure", func(t *testing.T) error { return lookup(t.Context(), serverFailure) }, transient},
		{"DNS: server failure, in a dial", func(t *testing.T) error {
			_, err := (&net.Dialer{Resolver: resolver(serverFailure)}).DialContext(t.Context(), "tcp", "db.example.:1")
			return err
		}, transient},
		{"unknown network", func(t *testing.T) error { _, err := net.Dial("tcpx", "127.0.0.1:1"); return err }, permanent},
		{"address without a port", func(t *testing.T) error { _, err := net.Dial("tcp", "127.0.0.1"); return err }, permanent},
		{"unknown port", func(t *testing.T) error { _, err := net.Dial("tcp", "127.0.0.1:no-such-port"); return err }, permanent},

		{"reset while reading", func(t *testing.T) error { return ask(t, listening(t, reset)) }, transient},
		{"reset while writing", func(t *testing.T) error { return write(t, listening(t, reset)) }, transient},
		{"the end of a stream", func(t *testing.T) error {
			return ask(t, listening(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }))
		}, neither},
		{"read past its deadline", func(t *testing.T) error {
			conn := connect(t, listening(t, hold(t)))
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(-time.Second)))
			_, err := conn.Read(make([]byte, 1))
			return err
		}, transient},
		{"read of a closed connection", func(t *testing.T) error {
			conn := connect(t, listening(t, hold(t)))
			require.NoError(t, conn.Close())
			_, err := conn.Read(make([]byte, 1))
			return err
		}, transient},

		{"accept of a listener that was closed", func(t *testing.T) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			require.NoError(t, l.Close())
			_, err = l.Accept()
			return err
		}, permanent},
		{"accept of a TLS listener that was closed", func(t *testing.T) error {
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: make([]tls.Certificate, 1)})
			require.NoError(t, err)
			require.NoError(t, l.Close())
			_, err = l.Accept()
			return err
		}, permanent},
		{"a local address that is not there, the error of a dial that finds no port", func(t *testing.T) error {
			_, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}}).DialContext(t.Context(), "tcp", refusing(t))
			return err
		}, transient},

		{"net/http: closed by the server during the request", func(t *testing.T) error { return upload(t, "http") }, transient},
		{"net/http: closed by the server during the request, TLS", func(t *testing.T) error { return upload(t, "https") }, transient},
		{"net/http: closed instead of an answer", func(t *testing.T) error {
			return get(t.Context(), "http://"+listening(t, answer("")))
		}, transient},
		{"net/http: closed in the value of a header", func(t *testing.T) error {
			return get(t.Context(), "http://"+listening(t, answer("HTTP/1.1 200 OK\r\nContent-Type: te")))
		}, transient},
		{"net/http: closed in the name of a header, which reads as a malformed one", func(t *testing.T) error {
			return get(t.Context(), "http://"+listening(t, answer("HTTP/1.1 200 OK\r\nContent-")))
		}, neither},
		{"net/http: closed in the body", func(t *testing.T) error {
			return get(t.Context(), "http://"+listening(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")))
		}, transient},
		{"net/http: reset instead of an answer", func(t *testing.T) error { return get(t.Context(), "http://"+listening(t, reset)) }, transient},
		{"net/http: no HTTP", func(t *testing.T) error {
			return get(t.Context(), "http://"+listening(t, answer("SSH-2.0-OpenSSH_9.9\r\n\r\n")))
		}, neither},
		{"net/http: ResponseHeaderTimeout", func(t *testing.T) error {
			tr := &http.Transport{ResponseHeaderTimeout: time.Millisecond}
			defer tr.CloseIdleConnections()
			_, err := (&http.Client{Transport: tr}).Get("http://" + listening(t, hold(t)))
			return err
		}, transient},
		{"net/http: Client.Timeout", func(t *testing.T) error {
			_, err := (&http.Client{Timeout: time.Millisecond}).Get("http://" + listening(t, hold(t)))
			return err
		}, transient},
		{"net/http: the caller's deadline", func(t *testing.T) error { return get(expired, "http://"+listening(t, hold(t))) }, neither},
		{"net/http: canceled by the caller", func(t *testing.T) error { return get(canceled, "http://"+listening(t, hold(t))) }, neither},

		{"net/http: unsupported scheme", func(t *testing.T) error { return get(t.Context(), "ftp://127.0.0.1/") }, permanent},
		{"net/http: no scheme", func(t *testing.T) error { return get(t.Context(), "127.0.0.1/") }, permanent},
		{"net/http: no host", func(t *testing.T) error { return get(t.Context(), "http:///x") }, permanent},
		{"net/http: a URL that does not parse", func(t *testing.T) error { _, err := http.Get("http://[::1"); return err }, permanent},
		{"net/http: invalid header", func(t *testing.T) error {
			return roundTrip(&http.Request{URL: &url.URL{Scheme: "http", Host: "x"}, Header: http.Header{"A": {"\n"}}})
		}, permanent},
		{"net/http: invalid method", func(t *testing.T) error {
			return roundTrip(&http.Request{Method: "G T", URL: &url.URL{Scheme: "http", Host: "x"}, Header: http.Header{}})
		}, permanent},
		{"net/http: no URL", func(t *testing.T) error { return roundTrip(&http.Request{Header: http.Header{}}) }, permanent},
		{"net/http: no header", func(t *testing.T) error { return roundTrip(&http.Request{URL: &url.URL{}}) }, permanent},
		{"net/http: body shorter than it says", func(t *testing.T) error {
			req := httptest.NewRequest("PUT", "http://"+listening(t, hold(t)), strings.NewReader("abc"))
			req.RequestURI, req.ContentLength = "", 9
			return roundTrip(req)
		}, permanent},
		{"net/http: a length and no body", func(t *testing.T) error {
			req := httptest.NewRequest("PUT", "http://"+listening(t, hold(t)), nil)
			req.RequestURI, req.Body, req.ContentLength = "", nil, 9
			return roundTrip(req)
		}, permanent},
		{"net/http: a server's request", func(t *testing.T) error {
			_, err := http.DefaultClient.Do(httptest.NewRequest("GET", "http://127.0.0.1/", nil))
			return err
		}, permanent},
		{"net/http: redirects without end", func(t *testing.T) error {
			s := httptest.NewServer(http.RedirectHandler("/", http.StatusFound))
			defer s.Close()
			return get(t.Context(), s.URL)
		}, permanent},

		{"TLS: certificate of an unknown authority", func(t *testing.T) error {
			return get(t.Context(), quietTLS(t, &tls.Config{}).URL)
		}, permanent},
		{"TLS: certificate of another host", func(t *testing.T) error {
			s := quietTLS(t, &tls.Config{})
			conn, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{RootCAs: rootsOf(s), ServerName: "another.example.org"})
			if err == nil {
				return conn.Close()
			}
			return err
		}, permanent},
		{"TLS: our certificate is missing", func(t *testing.T) error {
			s := quietTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12})
			return get(t.Context(), s.URL, s)
		}, permanent},
		{"TLS: no common version", func(t *testing.T) error {
			s := quietTLS(t, &tls.Config{MinVersion: tls.VersionTLS13})
			_, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{RootCAs: rootsOf(s), MaxVersion: tls.VersionTLS12})
			return err
		}, permanent},
		{"TLS: to a server that has none", func(t *testing.T) error {
			s := httptest.NewServer(http.NotFoundHandler())
			defer s.Close()
			return get(t.Context(), strings.Replace(s.URL, "http:", "https:", 1))
		}, permanent},
		{"TLS: the Dialer's own Timeout in the handshake, which looks like the caller's", func(t *testing.T) error {
			_, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Millisecond}, "tcp", listening(t, hold(t)), &tls.Config{ServerName: "x"})
			assert.Equal(t, context.DeadlineExceeded, err)
			return err
		}, neither},
		{"TLS: reset in the handshake", func(t *testing.T) error { return get(t.Context(), "https://"+listening(t, reset)) }, transient},

		{"HTTP/2: body longer than it says", func(t *testing.T) error {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
			s.EnableHTTP2 = true
			s.StartTLS()
			defer s.Close()
			req, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL, io.NopCloser(strings.NewReader("abcdef")))
			require.NoError(t, err)
			req.ContentLength = 3
			_, err = s.Client().Do(req)
			return err
		}, permanent},
		{"HTTP/2: handler aborted", func(t *testing.T) error {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
			s.EnableHTTP2 = true
			s.StartTLS()
			defer s.Close()
			_, err := s.Client().Get(s.URL)
			return err
		}, transient},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.err(t)
			require.Error(t, err)
			assert.Equal(t, tt.want, verdict(err), "%T %v", err, err)
		})
	}
}

// Nothing in the error of an ended dial says whether a Dialer's Timeout or the
// caller's deadline ended it. A loop knows, and asks the context itself.
func TestCallersDeadlineInADialStopsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		calls := 0
		err := retry.Do(ctx, retry.Policy{MaxAttempts: 3, RetryIf: retrynet.Transient}, func(ctx context.Context) error {
			calls++
			<-ctx.Done()
			err := dial(ctx, "127.0.0.1:1")
			assert.True(t, retrynet.Transient(err), "%v", err)
			return err
		})
		assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
		assert.Equal(t, 1, calls)
	})
}

func TestRetryIf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{syscall.ECONNRESET, 3},
		{&net.DNSError{IsNotFound: true}, 1},
		{errors.New("boom"), 1},
	} {
		calls := 0
		err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 3, RetryIf: retrynet.Transient}, func(context.Context) error {
			calls++
			return tt.err
		})
		assert.ErrorIs(t, err, tt.err)
		assert.Equal(t, tt.want, calls, "%v", tt.err)
	}
}

// A classification must not cost the program its life: an error that panics
// when asked is not known, wherever it sits in the tree.
func TestErrorsThatPanic(t *testing.T) {
	for name, err := range map[string]error{
		"typed nil *url.Error":    (*url.Error)(nil),
		"typed nil *net.OpError":  (*net.OpError)(nil),
		"typed nil *net.DNSError": (*net.DNSError)(nil),
		"Error panics":            panics{in: "Error"},
		"Timeout panics":          panics{in: "Timeout"},
		"Is panics":               panics{in: "Is"},
		"beside a reset":          errors.Join(syscall.ECONNRESET, panics{in: "Error"}),
		"inside a *url.Error":     &url.Error{Op: "Get", Err: panics{in: "Timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, neither, verdict(err))
		})
	}
}

// alert is an error as crypto/tls has them for an alert from the other side.
func alert(n uint8) error { return &net.OpError{Op: "remote error", Err: tls.AlertError(n)} }

// The codes of an answer that has none, RFC 1035 section 4.1.1.
const (
	serverFailure = 2
	noSuchName    = 3
)

// resolver returns one whose only server has this answer to every question.
func resolver(code byte) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Err() != nil {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			var size [2]byte // as over TCP, which is what a stream is taken for
			if _, err := io.ReadFull(server, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(server, query); err != nil {
				return
			}
			end := 12 // of the header, and of the question after it: labels, a zero, type and class
			for query[end] != 0 {
				end += 1 + int(query[end])
			}
			end += 5
			answer := append(slices.Clone(query[:2]), 0x81, 0x80|code, 0, 1, 0, 0, 0, 0, 0, 0)
			answer = append(answer, query[12:end]...)
			_, _ = server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
		}()
		return client, nil
	}}
}

func lookup(ctx context.Context, code byte) error {
	_, err := resolver(code).LookupHost(ctx, "db.example.")
	return err
}

type timeoutError bool

func (timeoutError) Error() string     { return "slow" }
func (t timeoutError) Timeout() bool   { return bool(t) }
func (t timeoutError) Temporary() bool { return bool(t) }

// alsoClosed is an error as those of quic-go: it wraps net.ErrClosed and does not
// say so.
type alsoClosed struct{}

func (alsoClosed) Error() string { return "application error 0x2a" }
func (alsoClosed) Unwrap() error { return net.ErrClosed }

type alsoClosedAnd struct{ err error }

func (alsoClosedAnd) Error() string     { return "transport error" }
func (e alsoClosedAnd) Unwrap() []error { return []error{net.ErrClosed, e.err} }

// sameAs is an error that only its Is method knows as another.
type sameAs struct{ err error }

func (sameAs) Error() string          { return "given up" }
func (e sameAs) Is(target error) bool { return target == e.err }
func (sameAs) Timeout() bool          { return true }

type panics struct{ in string }

func (p panics) at(method string) {
	if p.in == method {
		panic("asked for " + method)
	}
}
func (p panics) Error() string { p.at("Error"); return "panics" }
func (p panics) Timeout() bool { p.at("Timeout"); return false }
func (p panics) Is(error) bool { p.at("Is"); return false }

// refusing returns an address at which nobody listens.
func refusing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// listening returns the address of a server that calls serve with each
// connection, and then closes it.
func listening(t *testing.T, serve func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	t.Cleanup(func() { assert.NoError(t, l.Close()); <-done })
	return l.Addr().String()
}

// reset waits for the first byte, so that the connection is there, and ends it
// with RST.
func reset(conn net.Conn) {
	_, _ = conn.Read(make([]byte, 1))
	_ = conn.(*net.TCPConn).SetLinger(0)
}

// answer reads a request and writes this.
func answer(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, text)
		}
	}
}

// hold says nothing until the test is over.
func hold(t *testing.T) func(net.Conn) {
	return func(net.Conn) { <-t.Context().Done() }
}

func dial(ctx context.Context, addr string) error {
	_, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	return err
}

func connect(t *testing.T, addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask writes a byte and reads one.
func ask(t *testing.T, addr string) error {
	conn := connect(t, addr)
	_, err := conn.Write([]byte("x"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	return err
}

// write writes until the other side's RST has arrived.
func write(t *testing.T, addr string) error {
	conn := connect(t, addr)
	for {
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
	}
}

// get gets a URL, body included, with a client of its own, or that of a
// server.
func get(ctx context.Context, url string, of ...*httptest.Server) error {
	tr := &http.Transport{}
	client := &http.Client{Transport: tr}
	for _, s := range of {
		client = s.Client()
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// upload sends a body to a server that closes the connection when it has read
// the header. It does so until the client reports that as a closed connection,
// and not as the reset that it may see first.
func upload(t *testing.T, scheme string) error {
	closes := func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				return
			}
		}
	}
	client := &http.Client{Transport: &http.Transport{}}
	address := ""
	switch scheme {
	case "http":
		address = listening(t, closes)
	case "https":
		s := quietTLS(t, &tls.Config{})
		client = s.Client()
		config := &tls.Config{Certificates: s.TLS.Certificates}
		address = listening(t, func(conn net.Conn) {
			server := tls.Server(conn, config)
			defer server.Close()
			closes(server)
		})
	}
	defer client.CloseIdleConnections()
	for range 1000 {
		_, err := client.Post(scheme+"://"+address, "text/plain", &drip{left: 50})
		require.Error(t, err)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		require.True(t, retrynet.Transient(err), "%v", err)
	}
	t.Fatal("the client never reports a closed connection")
	return nil
}

// A drip is a body that comes a little at a time.
type drip struct{ left int }

func (d *drip) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	d.left--
	time.Sleep(100 * time.Microsecond)
	clear(p)
	return len(p), nil
}

func roundTrip(req *http.Request) error {
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	_, err := tr.RoundTrip(req)
	return err
}

// quietTLS returns a TLS server that keeps its clients' failures to itself.
func quietTLS(t *testing.T, config *tls.Config) *httptest.Server {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = config
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func rootsOf(s *httptest.Server) *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return roots
}
