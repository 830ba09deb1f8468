package quictest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retrynet"
)

const (
	neither   = "neither"
	transient = "transient"
	permanent = "permanent"
)

func verdict(err error) string {
	switch {
	case retrynet.Transient(err):
		return transient
	case retrynet.Permanent(err):
		return permanent
	default:
		return neither
	}
}

// All errors of quic-go wrap net.ErrClosed. So net.ErrClosed must not decide about a retry.
func TestRealErrors(t *testing.T) {
	for _, row := range []struct {
		name string
		err  func(*testing.T) error
		want string
		is   any // the type that errors.As finds
	}{
		{"closed by the peer with a code", func(t *testing.T) error {
			client, server := connect(t, nil)
			require.NoError(t, server.CloseWithError(0x2a, "no such account"))
			_, err := client.AcceptStream(t.Context())
			return err
		}, neither, new(*quic.ApplicationError)},
		{"closed by this side", func(t *testing.T) error {
			client, _ := connect(t, nil)
			require.NoError(t, client.CloseWithError(0, ""))
			_, err := client.OpenStream()
			return err
		}, neither, new(*quic.ApplicationError)},
		{"a read past its deadline", func(t *testing.T) error {
			client, _ := connect(t, nil)
			stream, err := client.OpenStreamSync(t.Context())
			require.NoError(t, err)
			require.NoError(t, stream.SetReadDeadline(time.Now().Add(-time.Second)))
			_, err = stream.Read(make([]byte, 1))
			return err
		}, transient, new(net.Error)},
		{"idle for too long", func(t *testing.T) error {
			client, _ := connect(t, &quic.Config{MaxIdleTimeout: 10 * time.Millisecond})
			_, err := client.AcceptStream(t.Context())
			return err
		}, transient, new(*quic.IdleTimeoutError)},
		// Which of its two timeouts quic-go reports depends on how busy the machine is.
		{"no server", func(t *testing.T) error {
			silent, err := net.ListenPacket("udp", "127.0.0.1:0")
			require.NoError(t, err)
			defer silent.Close()
			_, err = quic.DialAddr(t.Context(), silent.LocalAddr().String(), &tls.Config{NextProtos: []string{"test"}}, &quic.Config{HandshakeIdleTimeout: 10 * time.Millisecond})
			return err
		}, transient, new(net.Error)},
		{"a certificate of an unknown authority", func(t *testing.T) error {
			l := listen(t)
			_, err := quic.DialAddr(t.Context(), l.Addr().String(), &tls.Config{NextProtos: []string{"test"}}, nil)
			return err
		}, permanent, new(*quic.TransportError)},
		// With a server that answers, quic-go may report the end of the handshake instead.
		{"canceled by the caller", func(t *testing.T) error {
			silent, err := net.ListenPacket("udp", "127.0.0.1:0")
			require.NoError(t, err)
			defer silent.Close()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = quic.DialAddr(ctx, silent.LocalAddr().String(), &tls.Config{NextProtos: []string{"test"}}, nil)
			return err
		}, neither, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := row.err(t)
			require.Error(t, err)
			if row.is != nil {
				assert.ErrorAs(t, err, row.is)
			}
			assert.Equal(t, row.want, verdict(err), "%T %v", err, err)
			assert.Equal(t, row.want, verdict(&url.Error{Op: "Get", URL: "https://db.example/", Err: err}), "in the error of an http.Client")
		})
	}
}

func TestEveryErrorIsErrClosed(t *testing.T) {
	for _, err := range []error{
		&quic.ApplicationError{}, &quic.TransportError{}, &quic.VersionNegotiationError{}, &quic.StatelessResetError{},
	} {
		assert.ErrorIs(t, err, net.ErrClosed)
		assert.Equal(t, neither, verdict(err), "%T", err)
	}
}

// listen starts a QUIC server.
func listen(t *testing.T) *quic.Listener {
	l, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{Certificates: server(t).TLS.Certificates, NextProtos: []string{"test"}}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

// server returns a server whose certificate is for 127.0.0.1.
func server(t *testing.T) *httptest.Server {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s
}

func roots(t *testing.T) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(server(t).Certificate())
	return pool
}

// connect returns both ends of a connection.
func connect(t *testing.T, config *quic.Config) (client, accepted *quic.Conn) {
	l := listen(t)
	client, err := quic.DialAddr(t.Context(), l.Addr().String(), &tls.Config{NextProtos: []string{"test"}, RootCAs: roots(t)}, config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.CloseWithError(0, "") })
	accepted, err = l.Accept(t.Context())
	require.NoError(t, err)
	return client, accepted
}
