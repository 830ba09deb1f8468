package retryconnect_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryconnect"
)

// attemptsOf returns how many attempts failed. It returns 0 for a call that succeeded.
func attemptsOf(err error) int {
	var failed *retry.Error
	errors.As(err, &failed)
	if failed == nil {
		return 0
	}
	return failed.Attempts
}

type connKey struct{}

// cuts are the ways in which a connection ends before the answer is complete.
var cuts = map[string]func(*http.Request){
	"closed": func(r *http.Request) { r.Context().Value(connKey{}).(*net.TCPConn).Close() },
	"reset": func(r *http.Request) {
		conn := r.Context().Value(connKey{}).(*net.TCPConn)
		_ = conn.SetLinger(0)
		conn.Close()
	},
	"aborted": func(*http.Request) { panic(http.ErrAbortHandler) }, // HTTP/2 resets the stream
}

// cutter serves what answer writes, and then cuts the connection.
func cutter(t *testing.T, http2 bool, answer func(http.ResponseWriter, *http.Request), cut func(*http.Request)) (string, *http.Client) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 100))
		answer(w, r)
		cut(r)
	}))
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(http2)
	protocols.SetHTTP1(!http2)
	srv.Config.Protocols = &protocols
	srv.Start()
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL, &http.Client{Transport: transport}
}

// A broken connection is treated as unavailable, wherever it breaks: before the answer, after
// its headers, in its message, or before its trailers.
func TestABrokenConnectionIsRetried(t *testing.T) {
	answers := map[string]string{"nothing": "", "headers": "-", "a part": "\x00\x00\x00\x00\x04\x0a", "all but the end": "\x00\x00\x00\x00\x03\x0a\x01a"}
	for sent, message := range answers {
		answer := func(w http.ResponseWriter, r *http.Request) {
			if message == "" {
				return
			}
			kind := r.Header.Get("Content-Type")
			w.Header().Set("Content-Type", kind)
			if kind == "application/proto" { // a message without an envelope
				w.Header().Set("Content-Length", "100")
			}
			w.WriteHeader(http.StatusOK)
			if message != "-" {
				_, _ = w.Write([]byte(message))
			}
			w.(http.Flusher).Flush()
		}
		for how, cut := range cuts {
			for _, http2 := range []bool{false, true} {
				for protocol, options := range protocols {
					for _, kind := range []string{"unary", "server stream", "client stream"} {
						if sent == "all but the end" && kind != "unary" {
							continue // the first message of the stream has arrived
						}
						name := strings.Join([]string{sent, how, protocol, kind}, ", ")
						url, client := cutter(t, http2, answer, cut)
						i := &retryconnect.Interceptor{Policy: soon(), Budgets: retryconnect.NoBudgets}
						err := calls[kind](t.Context(), newClient(client, url, append(options, connect.WithInterceptors(i))...))
						attempts := 4
						if how == "aborted" && http2 {
							attempts = 1 // INTERNAL_ERROR, as in gRPC
							assert.Equal(t, connect.CodeInternal, connect.CodeOf(err), name)
						}
						assert.Equal(t, attempts, attemptsOf(err), "%s, HTTP/2 %v: %v", name, http2, err)
					}
				}
			}
		}
	}
}

// A timeout of the HTTP client is treated as unavailable, although Connect calls it
// deadline_exceeded.
func TestATimeoutOfTheClientIsRetried(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer srv.Close()
	for name, transport := range map[string]*http.Transport{
		"of the Dialer": {DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}},
		"ResponseHeaderTimeout": {ResponseHeaderTimeout: time.Millisecond},
	} {
		for protocol, options := range protocols {
			for _, kind := range []string{"unary", "server stream"} {
				i := &retryconnect.Interceptor{Policy: soon(), Budgets: retryconnect.NoBudgets}
				err := calls[kind](t.Context(), newClient(&http.Client{Transport: transport}, srv.URL, append(options, connect.WithInterceptors(i))...))
				assert.Equal(t, 4, attemptsOf(err), "%s, %s, %s: %v", name, protocol, kind, err)
				assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err), "%s, %s, %s: %v", name, protocol, kind, err)
			}
		}
		transport.CloseIdleConnections()
	}
}

// A call whose connection breaks is retried if Codes contains unavailable or the code of the
// error.
func TestConnectionThatBreaksCounts(t *testing.T) {
	broken := connect.NewError(connect.CodeUnknown, &net.OpError{Op: "read", Err: net.ErrClosed})
	for _, row := range []struct {
		name  string
		err   error
		codes []connect.Code
		again bool
	}{
		{"unavailable by default", broken, nil, true},
		{"unavailable in Codes", broken, []connect.Code{connect.CodeAborted, connect.CodeUnavailable}, true},
		{"not in Codes", broken, []connect.Code{connect.CodeAborted}, false},
		{"the code of the error in Codes", broken, []connect.Code{connect.CodeUnknown}, true},
		{"of the server's own client", connect.NewWireError(connect.CodeUnknown, net.ErrClosed), nil, false},
		{"the caller's deadline", connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded), nil, false},
		{"the caller's context", connect.NewError(connect.CodeCanceled, context.Canceled), nil, false},
		{"no network error", failed(connect.CodeInternal), nil, false},
		{"another code", connect.NewError(connect.CodeInvalidArgument, net.ErrClosed), nil, false},
	} {
		assert.Equal(t, !row.again, retry.IsPermanent(retryconnect.Mark(row.err, row.codes...)), row.name)
	}
}

// If a certificate is not accepted, a call makes one attempt, as in retryhttp.
func TestCertificate(t *testing.T) {
	srv := httptest.NewTLSServer((&server{answer: failTimes(0, connect.CodeUnavailable)}).handler())
	defer srv.Close()
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	plain, _ := serve(t, http.NotFoundHandler())
	for _, row := range []struct {
		name     string
		url      string
		client   *tls.Config
		attempts int
	}{
		{"trusted", srv.URL, &tls.Config{RootCAs: pool}, 0},
		{"an unknown authority", srv.URL, &tls.Config{RootCAs: x509.NewCertPool()}, 1},
		{"another name", srv.URL, &tls.Config{RootCAs: pool, ServerName: "orders.test"}, 1},
		{"an unknown host, which may start later", "http://orders.invalid", nil, 4},
		{"nothing listens", "http://127.0.0.1:1", nil, 4},
		{"an unknown scheme", "htp" + strings.TrimPrefix(plain, "http"), nil, 1},
	} {
		transport := &http.Transport{TLSClientConfig: row.client}
		i := &retryconnect.Interceptor{Policy: soon(), Budgets: retryconnect.NoBudgets}
		for protocol, options := range protocols {
			c := newClient(&http.Client{Transport: transport}, row.url, append(options, connect.WithInterceptors(i))...)
			for _, kind := range []string{"unary", "server stream"} {
				if row.attempts == 0 && kind == "server stream" {
					continue
				}
				err := calls[kind](t.Context(), c)
				assert.Equal(t, row.attempts, attemptsOf(err), "%s, %s, %s: %v", row.name, protocol, kind, err)
			}
		}
		transport.CloseIdleConnections()
	}
	wire := connect.NewWireError(connect.CodeUnavailable, x509.UnknownAuthorityError{})
	assert.False(t, retry.IsPermanent(retryconnect.Mark(wire)), "the certificate of another server caused this error")
}

// A message that is too large is not sent again, even if resource_exhausted is retried.
func TestMessageTooLarge(t *testing.T) {
	large := wrapperspb.String(strings.Repeat("a", 200))
	requests := map[string]func(context.Context, client) error{
		"unary": func(ctx context.Context, c client) error {
			_, err := c.unary.CallUnary(ctx, connect.NewRequest(large))
			return err
		},
		"client stream": func(ctx context.Context, c client) error {
			stream := c.up.CallClientStream(ctx)
			if err := stream.Send(large); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			_, err := stream.CloseAndReceive()
			return err
		},
		"stream in both directions": func(ctx context.Context, c client) error {
			stream := c.duplex.CallBidiStream(ctx)
			err := stream.Send(large)
			if err == nil {
				_, err = stream.Receive()
			}
			return errors.Join(err, stream.CloseRequest(), stream.CloseResponse())
		},
	}
	for _, row := range []struct {
		name   string
		client []connect.ClientOption
		server []connect.HandlerOption
	}{
		{"the client does not send it", []connect.ClientOption{connect.WithSendMaxBytes(10)}, nil},
		{"the client does not send it compressed", []connect.ClientOption{connect.WithSendMaxBytes(2), connect.WithSendGzip()}, nil},
		{"the server does not receive it", nil, []connect.HandlerOption{connect.WithReadMaxBytes(10)}},
		{"the server does not send it", nil, []connect.HandlerOption{connect.WithSendMaxBytes(2)}},
		{"the client does not receive it", []connect.ClientOption{connect.WithReadMaxBytes(2)}, nil},
	} {
		for protocol, options := range protocols {
			for kind, call := range requests {
				s := &server{answer: failTimes(0, connect.CodeUnavailable)}
				url, http := serve(t, s.handler(row.server...))
				i := &retryconnect.Interceptor{Policy: soon(), Codes: []connect.Code{connect.CodeResourceExhausted}}
				err := call(t.Context(), newClient(http, url, append(append(options, row.client...), connect.WithInterceptors(i))...))
				name := strings.Join([]string{row.name, protocol, kind}, ", ")
				assert.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "%s: %v", name, err)
				assert.LessOrEqual(t, attemptsOf(err), 1, "%s: %v", name, err)
				assert.LessOrEqual(t, s.attempts(), 1, name)
			}
		}
	}
	// A rate limit has the same code. The error of a limiter in the client does not come from the
	// server either.
	again := retryconnect.Mark(failed(connect.CodeResourceExhausted), connect.CodeResourceExhausted)
	assert.False(t, retry.IsPermanent(again))
}
