package retryhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryhttp"
)

// The body of a 101 Switching Protocols response is the connection, and can be
// written to.
func TestUpgradedBodyCanBeWritten(t *testing.T) {
	conn := &connection{body: body{Reader: strings.NewReader("pong")}}
	upgraded := func(conn io.ReadCloser) any {
		return send(t, &retryhttp.Transport{Base: script(responseWith(101, conn))}).Body
	}
	rw, ok := upgraded(conn).(io.ReadWriteCloser)
	require.True(t, ok)
	_, err := io.WriteString(rw, "ping")
	require.NoError(t, err)
	assert.Equal(t, "ping", conn.String())
	half, ok := rw.(interface{ CloseWrite() error })
	require.True(t, ok, "as that of net/http")
	assert.NoError(t, half.CloseWrite())
	assert.True(t, conn.halfClosed)
	assert.False(t, conn.closed)
	require.NoError(t, rw.Close())
	assert.True(t, conn.closed)

	half = upgraded(struct {
		io.ReadCloser
		io.Writer
	}{conn, conn}).(interface{ CloseWrite() error })
	assert.ErrorIs(t, half.CloseWrite(), http.ErrNotSupported)
	_, writes := send(t, &retryhttp.Transport{Base: script(200)}).Body.(io.Writer)
	assert.False(t, writes)
}

// connection is a body that can be written to.
type connection struct {
	body
	strings.Builder
	halfClosed bool
}

func (c *connection) CloseWrite() error { c.halfClosed = true; return nil }
