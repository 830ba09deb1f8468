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

// The body of a 101 Switching Protocols response is the connection, so it can be written to. If the
// body of Base has a CloseWrite, the caller can call it.
func TestUpgradedBodyCanBeWritten(t *testing.T) {
	conn := &connection{body: body{Reader: strings.NewReader("pong")}}
	upgraded := func(conn io.ReadCloser) io.ReadCloser {
		return send(t, &retryhttp.Transport{Base: script(responseWith(101, conn))}).Body
	}
	rw := upgraded(conn)
	_, err := io.WriteString(rw.(io.Writer), "ping")
	require.NoError(t, err)
	assert.Equal(t, "ping", conn.String())
	assert.NoError(t, rw.(interface{ CloseWrite() error }).CloseWrite(), "net/http has this method too")
	assert.Equal(t, []bool{true, false}, []bool{conn.halfClosed, conn.closed()})
	require.NoError(t, rw.Close())
	assert.True(t, conn.closed())

	whole := upgraded(struct {
		io.ReadCloser
		io.Writer
	}{conn, conn})
	assert.ErrorIs(t, whole.(interface{ CloseWrite() error }).CloseWrite(), http.ErrNotSupported)
	_, writes := send(t, &retryhttp.Transport{Base: script(200)}).Body.(io.Writer)
	assert.False(t, writes)
}

// The type `connection` is a body that can be written to.
type connection struct {
	body
	strings.Builder
	halfClosed bool
}

func (c *connection) CloseWrite() error { c.halfClosed = true; return nil }
