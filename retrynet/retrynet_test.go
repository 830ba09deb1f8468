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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrynet"
)

// These are the possible verdicts of Transient and Permanent on an error.
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
	each := func(of func(uint8) error, numbers ...uint8) (errs []error) {
		for _, n := range numbers {
			errs = append(errs, of(n))
		}
		return errs
	}
	get := func(err error) error { return &url.Error{Op: "Get", URL: "http://x/", Err: err} }
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	call := func(name string, n syscall.Errno) error { return dial(os.NewSyscallError(name, n)) }
	winsock := func(n uint8) error { return call("wsarecv", 10000+syscall.Errno(n)) }
	alert := func(n uint8) error { return &net.OpError{Op: "remote error", Err: tls.AlertError(n)} } // from the other side
	texts := func(start string, ends ...string) (errs []error) {
		for _, end := range ends {
			errs = append(errs, get(errors.New(start+end)))
		}
		return errs
	}
	noName := &net.DNSError{Err: "no such host", Name: "x.invalid", IsNotFound: true}
	for _, row := range []struct {
		name string
		want string
		errs []error
	}{
		{"not known", neither, []error{nil, errors.New("boom"), io.ErrClosedPipe}},

		{"the system", transient, []error{
			syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT,
			syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ENETRESET, syscall.EHOSTUNREACH, syscall.EHOSTDOWN,
			call("connect", syscall.ECONNREFUSED), call("connect", syscall.EADDRNOTAVAIL), call("socket", syscall.EMFILE),
			call("accept4", syscall.ENFILE), call("sendto", syscall.ENOBUFS), os.NewSyscallError("connect", syscall.EINTR),
			fmt.Errorf("a: %w", fmt.Errorf("b: %w", get(call("connect", syscall.ECONNREFUSED)))),
		}},
		{"the system", neither, []error{syscall.EACCES, syscall.ENOENT, call("bind", syscall.EADDRINUSE)}},
		{"Windows", transient, append(each(winsock, 24, 49, 50, 51, 52, 53, 54, 55, 60, 61, 64, 65), syscall.Errno(10054))},
		{"Windows: access denied, address in use", neither, each(winsock, 13, 48)},

		{"unexpected EOF", transient, []error{io.ErrUnexpectedEOF, fmt.Errorf("reading: %w", io.ErrUnexpectedEOF)}},
		{"EOF in place of an answer", transient, []error{get(io.EOF), get(fmt.Errorf("proxy: %w", io.EOF)), dial(io.EOF)}},
		{"EOF at the end of a stream", neither, []error{io.EOF, fmt.Errorf("rows: %w", io.EOF)}},
		{"closed connection", transient, []error{
			net.ErrClosed, // crypto/tls returns it without a wrapper
			dial(net.ErrClosed), get(net.ErrClosed), fmt.Errorf("transport connection broken: %w", net.ErrClosed),
		}},
		{"closed listener", permanent, []error{&net.OpError{Op: "accept", Net: "tcp", Err: net.ErrClosed}}},
		{"an error that only counts as closed", neither, []error{alsoClosed{}, get(alsoClosed{})}},
		{"an error that only counts as closed, and others", transient, []error{alsoClosedAnd{syscall.ECONNRESET}}},

		{"timeouts", transient, []error{
			os.ErrDeadlineExceeded, dial(os.ErrDeadlineExceeded), timeoutError(true), errors.Join(errors.New("boom"), timeoutError(true)),
		}},
		{"Timeout() false", neither, []error{timeoutError(false)}},
		{"DNS", transient, []error{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, &net.DNSError{Err: "i/o timeout", IsTimeout: true}}},
		{"DNS", permanent, []error{noName, get(dial(noName)), &net.DNSError{IsNotFound: true, IsTemporary: true, IsTimeout: true}}},
		{"DNS", neither, []error{&net.DNSError{Err: "cannot unmarshal DNS message"}}},
		{"DNS: the caller's context", neither, []error{&net.DNSError{IsTimeout: true, IsTemporary: true, UnwrapErr: context.DeadlineExceeded}}},

		{"certificates", permanent, []error{
			x509.UnknownAuthorityError{}, x509.HostnameError{Certificate: &x509.Certificate{}, Host: "x"},
			x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired}, x509.SystemRootsError{},
			&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, errors.Join(syscall.ECONNRESET, x509.UnknownAuthorityError{}),
		}},
		{"no TLS at the other end", permanent, []error{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}}},
		{"an http.ClientConn, invalid requests", permanent, []error{errors.New(`http: invalid header field value for "A"`), errors.New(`http: invalid method "G T"`), errors.New(`http: invalid trailer field name "a b"`)}},
		{"TLS that is garbled", neither, []error{tls.RecordHeaderError{Msg: "received record with version 5454 when expecting version 303"}}},
		{"TLS alerts", permanent, each(alert, 40, 42, 43, 44, 45, 46, 48, 49, 70, 71, 86, 109, 110, 112, 113, 114, 115, 116, 120, 121)},
		{"a TLS alert in a get", permanent, []error{get(alert(42))}},
		{"TLS alerts: unexpected message, bad record, internal error, user canceled, one without a name", neither, each(alert, 10, 20, 80, 90, 255)},
		{"addresses", permanent, []error{
			&net.AddrError{Err: "missing port in address", Addr: "x"}, &net.ParseError{Type: "IP address", Text: "x"},
			net.UnknownNetworkError("tcpx"), net.InvalidAddrError("x"), &url.Error{Op: "parse", URL: ":", Err: errors.New("missing protocol scheme")},
		}},

		{"net/http: idle connection closed", transient, texts("http: server closed idle connection", "")},
		{"HTTP/2", transient, texts("http2: ", "client connection lost", "client conn not usable", "client conn is closed",
			"Transport received Server's graceful shutdown GOAWAY", "server sent GOAWAY and closed the connection; LastStreamID=1")},
		{"HTTP/2 streams", transient, texts("stream error: stream ID 3; ", "REFUSED_STREAM", "NO_ERROR; received from peer",
			"INTERNAL_ERROR; received from peer", "CANCEL; received from peer", "ENHANCE_YOUR_CALM; received from peer")},
		{"HTTP/2 streams: other codes, a code in the cause alone, no code", neither, texts("stream error: stream ID 3",
			"; PROTOCOL_ERROR; received from peer", "; HTTP_1_1_REQUIRED; received from peer", "; PROTOCOL_ERROR; CANCEL", "")},
		{"HTTP/2: a body longer than its Content-Length", permanent, texts("http2: request body larger than specified content length", "")},
		{"net/http: an answer too long", neither, texts("net/http: server response headers exceeded 1 bytes; aborted", "")},
		{"a program that only mentions a text", neither, []error{errors.New("saw http2: client connection lost")}},

		{"canceled", neither, []error{
			context.Canceled, get(context.Canceled), errors.Join(syscall.ECONNRESET, context.Canceled),
			sameAs{context.Canceled}, errors.Join(syscall.ECONNRESET, sameAs{context.Canceled}),
		}},
		{"deadline exceeded", neither, []error{
			context.DeadlineExceeded, get(context.DeadlineExceeded), get(fmt.Errorf("proxy: %w", context.DeadlineExceeded)),
			dial(context.DeadlineExceeded), fmt.Errorf("%w: %w", context.DeadlineExceeded, syscall.ECONNRESET),
		}},
		{"an inner loop that gave up", transient, []error{&retry.Error{Reason: retry.ReasonExhausted, Err: syscall.ECONNRESET}}},
		{"an inner loop whose context had ended", neither,
			[]error{&retry.Error{Reason: retry.ReasonCanceled, Err: syscall.ECONNRESET, Cause: context.Canceled}}},
		// A panic in a method of an error must not crash the program. Such an error is unknown, wherever
		// it is in the tree.
		{"errors that panic", neither, []error{
			(*url.Error)(nil), (*net.OpError)(nil), (*net.DNSError)(nil), panics{in: "Error"}, panics{in: "Timeout"}, panics{in: "Is"},
			errors.Join(syscall.ECONNRESET, panics{in: "Error"}), &url.Error{Op: "Get", Err: panics{in: "Timeout"}},
		}},
	} {
		for i, err := range row.errs {
			t.Run(fmt.Sprintf("%s/%d", row.name, i), func(t *testing.T) {
				assert.Equal(t, row.want, verdict(err), "%T %v", err, err)
			})
		}
	}
}

// The standard library makes the errors in this test. The errors of TestConstructedErrors are made
// by hand.
func TestRealErrors(t *testing.T) {
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()

	dialing := func(dialer net.Dialer) func(*testing.T) error {
		return func(t *testing.T) error { _, err := dialer.DialContext(t.Context(), "tcp", refusing(t)); return err }
	}
	getting := func(ctx context.Context, scheme string, serve func(*testing.T) func(net.Conn)) func(*testing.T) error {
		return func(t *testing.T) error { return get(ctx, scheme+listening(t, serve(t))) }
	}
	waiting := func(client http.Client) func(*testing.T) error {
		return func(t *testing.T) error {
			defer client.CloseIdleConnections()
			_, err := client.Get("http://" + listening(t, hold(t)))
			return err
		}
	}
	tripping := func(req *http.Request) func(*testing.T) error {
		return func(t *testing.T) error {
			tr := &http.Transport{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
				return deaf{connect(t, addr), t.Context()}, nil
			}}
			defer tr.CloseIdleConnections()
			_, err := tr.RoundTrip(req)
			return err
		}
	}
	putting := func(body io.ReadCloser) func(*testing.T) error {
		return func(t *testing.T) error {
			to := &url.URL{Scheme: "http", Host: listening(t, hold(t))}
			return tripping(&http.Request{Method: "PUT", URL: to, Header: http.Header{}, Body: body, ContentLength: 9})(t)
		}
	}
	accepting := func(listen func() (net.Listener, error)) func(*testing.T) error {
		return func(t *testing.T) error {
			l, err := listen()
			require.NoError(t, err)
			require.NoError(t, l.Close())
			_, err = l.Accept()
			return err
		}
	}
	reading := func(before func(net.Conn) error) func(*testing.T) error {
		return func(t *testing.T) error {
			conn := connect(t, listening(t, hold(t)))
			require.NoError(t, before(conn))
			_, err := conn.Read(make([]byte, 1))
			return err
		}
	}
	resets := func(*testing.T) func(net.Conn) { return reset }

	for _, tt := range []struct {
		name string
		err  func(t *testing.T) error
		want string
	}{
		{"refused", dialing(net.Dialer{}), transient},
		{"refused, by net/http", func(t *testing.T) error { return get(t.Context(), "http://"+refusing(t)) }, transient},
		{"Dialer.Timeout", dialing(net.Dialer{Timeout: 1}), transient},
		{"a local address that is not there, the error of a dial that finds no port",
			dialing(net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}}), transient},
		{"dial, canceled", func(t *testing.T) error { return dial(canceled, refusing(t)) }, neither},
		{"dial, past the caller's deadline, which looks as Dialer.Timeout does", func(t *testing.T) error { return dial(expired, refusing(t)) }, transient},
		{"DNS: past the caller's deadline, which looks as a slow server does", func(t *testing.T) error { return lookup(expired, serverFailure) }, transient},
		{"DNS: canceled", func(t *testing.T) error { return lookup(canceled, serverFailure) }, neither},
		{"DNS: no such name", func(t *testing.T) error { return lookup(t.Context(), noSuchName) }, permanent},
		{"DNS: server failure", func(t *testing.T) error { return lookup(t.Context(), serverFailure) }, transient},
		{"unknown network", func(t *testing.T) error { _, err := net.Dial("tcpx", "127.0.0.1:1"); return err }, permanent},
		{"address without a port", func(t *testing.T) error { _, err := net.Dial("tcp", "127.0.0.1"); return err }, permanent},
		{"unknown port", func(t *testing.T) error { _, err := net.Dial("tcp", "127.0.0.1:no-such-port"); return err }, permanent},

		{"reset while reading", func(t *testing.T) error { return ask(t, listening(t, reset)) }, transient},
		{"the end of a stream", func(t *testing.T) error {
			return ask(t, listening(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }))
		}, neither},
		{"read past its deadline", reading(func(conn net.Conn) error { return conn.SetReadDeadline(time.Now().Add(-time.Second)) }), transient},
		{"read of a closed connection", reading(net.Conn.Close), transient},
		{"accept of a listener that was closed", accepting(func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }), permanent},
		{"accept of a TLS listener that was closed", accepting(func() (net.Listener, error) {
			return tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: make([]tls.Certificate, 1)})
		}), permanent},

		{"net/http: closed instead of an answer", getting(t.Context(), "http://", answer("")), transient},
		{"net/http: closed in the value of a header", getting(t.Context(), "http://", answer("HTTP/1.1 200 OK\r\nContent-Type: te")), transient},
		{"net/http: closed in the name of a header, which reads as a malformed one",
			getting(t.Context(), "http://", answer("HTTP/1.1 200 OK\r\nContent-")), neither},
		{"net/http: closed in the body", getting(t.Context(), "http://", answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")), transient},
		{"net/http: reset instead of an answer", getting(t.Context(), "http://", resets), transient},
		{"net/http: no HTTP", getting(t.Context(), "http://", answer("SSH-2.0-OpenSSH_9.9\r\n\r\n")), neither},
		{"net/http: ResponseHeaderTimeout", waiting(http.Client{Transport: &http.Transport{ResponseHeaderTimeout: time.Millisecond}}), transient},
		{"net/http: Client.Timeout", waiting(http.Client{Timeout: time.Millisecond}), transient},
		{"net/http: the caller's deadline", getting(expired, "http://", hold), neither},
		{"net/http: canceled by the caller", getting(canceled, "http://", hold), neither},

		{"net/http: unsupported scheme", func(t *testing.T) error { return get(t.Context(), "ftp://127.0.0.1/") }, permanent},
		{"net/http: no scheme", func(t *testing.T) error { return get(t.Context(), "127.0.0.1/") }, permanent},
		{"net/http: no host", func(t *testing.T) error { return get(t.Context(), "http:///x") }, permanent},
		{"net/http: a URL that does not parse", func(t *testing.T) error { return get(t.Context(), "http://[::1") }, permanent},
		{"net/http: invalid header",
			tripping(&http.Request{URL: &url.URL{Scheme: "http", Host: "x"}, Header: http.Header{"A": {"\n"}}}), permanent},
		{"net/http: invalid method",
			tripping(&http.Request{Method: "G T", URL: &url.URL{Scheme: "http", Host: "x"}, Header: http.Header{}}), permanent},
		{"net/http: invalid Trailer", requesting(false, func(req *http.Request) { req.Trailer = http.Header{"Trailer": nil} }), permanent},
		{"net/http: a line break in the query", requesting(false, func(req *http.Request) { req.URL.RawQuery = "a\nb" }), permanent},
		{"net/http: no URL", tripping(&http.Request{Header: http.Header{}}), permanent},
		{"net/http: no header", tripping(&http.Request{URL: &url.URL{}}), permanent},
		{"net/http: a body shorter than its Content-Length", putting(io.NopCloser(strings.NewReader("abc"))), permanent},
		{"net/http: a length and no body", putting(nil), permanent},
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
		{"TLS: our certificate is missing", func(t *testing.T) error {
			s := quietTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12})
			return get(t.Context(), s.URL, s)
		}, permanent},
		{"TLS: to a server that has none", func(t *testing.T) error {
			s := httptest.NewServer(http.NotFoundHandler())
			defer s.Close()
			return get(t.Context(), strings.Replace(s.URL, "http:", "https:", 1))
		}, permanent},
		{"TLS: the Dialer's own Timeout in the handshake, which looks like the caller's", func(t *testing.T) error {
			_, err := tls.DialWithDialer(&net.Dialer{Timeout: 100 * time.Millisecond}, "tcp", listening(t, hold(t)), &tls.Config{ServerName: "x"})
			assert.Equal(t, context.DeadlineExceeded, err)
			return err
		}, neither},
		{"TLS: reset in the handshake", getting(t.Context(), "https://", resets), transient},

		{"HTTP/2: invalid Host", requesting(true, func(req *http.Request) { req.Host = "a b" }), permanent},
		{"HTTP/2: invalid path", requesting(true, func(req *http.Request) { req.URL.Opaque = "a" }), permanent},
		{"HTTP/2: an Upgrade", requesting(true, func(req *http.Request) { req.Header.Set("Upgrade", "h2c") }), permanent},
		{"HTTP/2: a Connection that names a header", requesting(true, func(req *http.Request) { req.Header.Set("Connection", "X-A") }), permanent},
		{"HTTP/2: a header that is too long for the server", requesting(true, func(req *http.Request) { req.Header.Set("Cookie", strings.Repeat("a", 20<<10)) }), permanent},
		{"HTTP/2: a body longer than its Content-Length, in a PUT", func(t *testing.T) error {
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.err(t)
			require.Error(t, err)
			assert.Equal(t, tt.want, verdict(err), "%T %v", err, err)
		})
	}
}

// The function `requesting` returns a function that sends a request, which `edit` has changed, and
// returns the error. The server accepts headers of up to 8 KiB.
func requesting(http2 bool, edit func(*http.Request)) func(*testing.T) error {
	return func(t *testing.T) error {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		s.Config.MaxHeaderBytes, s.EnableHTTP2 = 8<<10, http2
		s.StartTLS()
		defer s.Close()
		// From the first answer, the client learns the settings of the server.
		resp, err := s.Client().Head(s.URL)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, strings.NewReader("data"))
		require.NoError(t, err)
		req.ContentLength = -1
		edit(req)
		_, err = s.Client().Do(req)
		return err
	}
}

// These are the response codes of DNS for an answer without an address (RFC 1035, section 4.1.1).
const (
	serverFailure = 2
	noSuchName    = 3
)

// resolver returns a Resolver whose only server answers every question with this code.
func resolver(code byte) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Err() != nil {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			var size [2]byte // the Resolver treats a pipe like TCP, so a message starts with its size
			if _, err := io.ReadFull(server, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(server, query); err != nil {
				return
			}
			end := 12 // the header has 12 bytes; the question is labels, a zero, the type and the class
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

// alsoClosed is like the errors of quic-go: it wraps net.ErrClosed, but its text does not say so.
type alsoClosed struct{}

func (alsoClosed) Error() string { return "application error 0x2a" }
func (alsoClosed) Unwrap() error { return net.ErrClosed }

type alsoClosedAnd struct{ err error }

func (alsoClosedAnd) Error() string     { return "transport error" }
func (e alsoClosedAnd) Unwrap() []error { return []error{net.ErrClosed, e.err} }

// sameAs is an error that errors.Is finds to be another error only because of its method Is.
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

// refusing returns an address that refuses connections. Its port is in use, so no other test can listen there.
func refusing(t *testing.T) string { return connect(t, listening(t, hold(t))).LocalAddr().String() }

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

// reset ends a connection with RST. It first waits for a byte, so that the connection is certainly
// open.
func reset(conn net.Conn) {
	_, _ = conn.Read(make([]byte, 1))
	_ = conn.(*net.TCPConn).SetLinger(0)
}

// answer reads a request and writes the text.
func answer(text string) func(*testing.T) func(net.Conn) {
	return func(*testing.T) func(net.Conn) {
		return func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, text)
			}
		}
	}
}

// deaf is a connection whose reader does not notice Close. If a body is too short, a
// Transport closes the connection. A reader that notices first makes RoundTrip return
// "use of closed network connection", which is transient, instead of the wrong length.
type deaf struct {
	net.Conn
	until context.Context
}

func (d deaf) Read([]byte) (int, error) { <-d.until.Done(); return 0, io.EOF }

// hold keeps a connection open, without an answer, until the test ends.
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

// get requests a URL and reads the whole body. It uses a client of its own, or the client of the
// server in of.
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

// quietTLS returns a TLS server that does not log failed handshakes.
func quietTLS(t *testing.T, config *tls.Config) *httptest.Server {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = config
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}
