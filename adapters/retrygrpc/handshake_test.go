package retrygrpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrygrpc"
	"github.com/goretry/retry/retryhttp"
)

// If a certificate is not accepted, a gRPC client makes one attempt, as an HTTP client does.
func TestHandshake(t *testing.T) {
	trusted := httptest.NewTLSServer(nil)
	t.Cleanup(trusted.Close)
	pool := x509.NewCertPool()
	pool.AddCert(trusted.Certificate())
	certificate := tls.Config{Certificates: trusted.TLS.Certificates}
	mutual := func(version uint16) *tls.Config {
		return &tls.Config{Certificates: certificate.Certificates, ClientAuth: tls.RequireAnyClientCert, MaxVersion: version}
	}
	refuse := func([][]byte, [][]*x509.Certificate) error { return x509.UnknownAuthorityError{} }

	for _, row := range []struct {
		name     string
		server   *tls.Config // nil: no TLS
		client   *tls.Config
		attempts int
	}{
		{"trusted", &certificate, &tls.Config{RootCAs: pool}, 0},
		{"an unknown authority", &certificate, &tls.Config{RootCAs: x509.NewCertPool()}, 1},
		{"another name", &certificate, &tls.Config{RootCAs: pool, ServerName: "orders.test"}, 1},
		{"expired", &certificate, &tls.Config{RootCAs: pool, Time: func() time.Time { return time.Now().AddDate(1000, 0, 0) }}, 1},
		{"refused by the caller's own check", &certificate, &tls.Config{InsecureSkipVerify: true, VerifyPeerCertificate: refuse}, 1},
		{"the server wants a certificate, TLS 1.2", mutual(tls.VersionTLS12), &tls.Config{RootCAs: pool}, 1},
		{"versions that do not meet", mutual(tls.VersionTLS12), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, 1},
		{"no TLS", nil, &tls.Config{RootCAs: pool}, 1},
		{"a server that has an error of its own", &tls.Config{GetCertificate: failsWith(errors.New("vault is sealed"))}, &tls.Config{RootCAs: pool}, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &server{answer: failTimes(0, codes.OK)}
			var options []grpc.ServerOption
			if row.server != nil {
				options = append(options, grpc.Creds(credentials.NewTLS(row.server)))
			}
			address := s.serve(t, options...)

			retries := dialOptions(t, retrygrpc.Interceptor{Policy: soon()})
			conn, err := grpc.NewClient("passthrough:///"+address, append(retries, grpc.WithTransportCredentials(credentials.NewTLS(row.client)))...)
			require.NoError(t, err)
			defer conn.Close()
			for name, call := range calls {
				err := call(t.Context(), grpc_testing.NewTestServiceClient(conn))
				assert.Equal(t, row.attempts, attemptsOf(err), "%s: %v", name, err)
				if row.attempts > 0 {
					assert.Equal(t, codes.Unavailable, status.Code(err), name)
				}
			}

			transport := &http.Transport{TLSClientConfig: row.client, ForceAttemptHTTP2: true}
			defer transport.CloseIdleConnections()
			_, err = (&retryhttp.Transport{Base: transport, Policy: soon()}).RoundTrip(httptest.NewRequest(http.MethodGet, "https://"+address, nil))
			assert.Equal(t, row.attempts, attemptsOf(err), "retryhttp: %v", err)
		})
	}
}

func failsWith(err error) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, err }
}

// attemptsOf returns how many attempts failed. It returns 0 for a call that succeeded.
func attemptsOf(err error) int {
	var failed *retry.Error
	errors.As(err, &failed)
	if failed == nil {
		return 0
	}
	return failed.Attempts
}

// An error about the certificate of another server, which this server passes on, is retried.
func TestHandshakeOfAnotherServer(t *testing.T) {
	const text = `connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: unknown"`
	for _, header := range []bool{false, true} {
		s := &server{answer: func(ctx context.Context, _ int) error {
			if header {
				_ = grpc.SendHeader(ctx, metadata.MD{})
			}
			return status.Error(codes.Unavailable, text)
		}}
		client := s.start(t, retrygrpc.Interceptor{Policy: soon()})
		for name, call := range calls {
			assert.Equal(t, 4, attemptsOf(call(t.Context(), client)), "%s, with a header: %v", name, header)
		}
	}
	assert.True(t, retry.IsPermanent(retrygrpc.Mark(status.Error(codes.Unavailable, text))), "Mark does not know where the error comes from")
	assert.False(t, retry.IsPermanent(retrygrpc.Mark(status.Error(codes.Internal, text), codes.Internal)))
	// With TLS 1.3 the server's alert races with the end of the connection, which may come first.
	const preface = `connection error: desc = "error reading server preface: remote error: tls: %s"`
	assert.True(t, retry.IsPermanent(retrygrpc.Mark(status.Errorf(codes.Unavailable, preface, "certificate required"))))
	assert.False(t, retry.IsPermanent(retrygrpc.Mark(status.Errorf(codes.Unavailable, preface, "internal error"))))
}

// A server that closes the connection in a handshake, or that does not listen, may work later.
func TestHandshakeThatBreaks(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			conn.Close()
		}
	}()
	for _, name := range []string{"hangs up", "is not there"} {
		retries := dialOptions(t, retrygrpc.Interceptor{Policy: soon()})
		conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), append(retries, grpc.WithTransportCredentials(credentials.NewTLS(nil)))...)
		require.NoError(t, err)
		err = calls["unary"](t.Context(), grpc_testing.NewTestServiceClient(conn))
		assert.Equal(t, 4, attemptsOf(err), "%s: %v", name, err)
		conn.Close()
		listener.Close()
	}
}

// A message that is too large is not sent again, even if RESOURCE_EXHAUSTED is retried.
func TestMessageTooLarge(t *testing.T) {
	large := &grpc_testing.Payload{Body: make([]byte, 100)}
	requests := map[string]func(context.Context, grpc_testing.TestServiceClient) error{
		"unary": func(ctx context.Context, client grpc_testing.TestServiceClient) error {
			_, err := client.UnaryCall(ctx, &grpc_testing.SimpleRequest{Payload: large})
			return err
		},
		"server stream": func(ctx context.Context, client grpc_testing.TestServiceClient) error {
			stream, err := client.StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{Payload: large})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
		"client stream": func(ctx context.Context, client grpc_testing.TestServiceClient) error {
			stream, err := client.StreamingInputCall(ctx)
			if err != nil {
				return err
			}
			_ = stream.Send(&grpc_testing.StreamingInputCallRequest{Payload: large}) // CloseAndRecv returns the reason
			_, err = stream.CloseAndRecv()
			return err
		},
	}
	limit := func(option grpc.CallOption) grpc.DialOption { return grpc.WithDefaultCallOptions(option) }
	for _, row := range []struct {
		name   string
		client []grpc.DialOption
		server []grpc.ServerOption
	}{
		{"the client does not send it", []grpc.DialOption{limit(grpc.MaxCallSendMsgSize(10))}, nil},
		{"the server does not receive it", nil, []grpc.ServerOption{grpc.MaxRecvMsgSize(10)}},
		{"the server does not send it", nil, []grpc.ServerOption{grpc.MaxSendMsgSize(1)}},
		{"the client does not receive it", []grpc.DialOption{limit(grpc.MaxCallRecvMsgSize(1))}, nil},
	} {
		retries := retrygrpc.Interceptor{Policy: soon(), Codes: []codes.Code{codes.ResourceExhausted}}
		for name, call := range requests {
			s := &server{answer: failTimes(0, codes.OK), messages: 1, reply: 100}
			err := call(t.Context(), dial(t, s.serve(t, row.server...), append(dialOptions(t, retries), row.client...)...))
			assert.Equal(t, codes.ResourceExhausted, status.Code(err), "%s, %s: %v", row.name, name, err)
			assert.LessOrEqual(t, attemptsOf(err), 1, "%s, %s: %v", row.name, name, err) // 0 attempts if Send itself fails
			assert.LessOrEqual(t, s.attempts(), 1, "%s, %s", row.name, name)
		}
	}
}
