package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// times matches what differs from run to run: times and ports.
var times = regexp.MustCompile(` +[0-9.]+s  |in [0-9.]+m?s|:[0-9]{4,5}|[0-9.]+m?s waited, |is [0-9.]+m?s`)

func TestOwnServer(t *testing.T) {
	var out, errs bytes.Buffer
	status := run(context.Background(), nil, &out, &errs)

	assert.Equal(t, `GET http://127.0.0.1*/
policy: 5 attempts, exponential 200ms x2, at most 2s, ±20%, 2s for each
*attempt 1 of 5
*  failed: Get "http://127.0.0.1*/": dial tcp 127.0.0.1*: connect: connection refused
*  again *
*attempt 2 of 5
*  failed: the server says 503 Service Unavailable
*  again * (the server asks for 1s)
*attempt 3 of 5
*  failed: the body was cut off after 17 bytes: unexpected EOF
*  again *
*attempt 4 of 5
*stopped: success
14 bytes: "hello, at last"
`, times.ReplaceAllString(out.String(), "*"))
	assert.Empty(t, errs.String())
	assert.Zero(t, status)
}

func TestURLThatRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	ctx, cancel := context.WithCancel(context.Background())
	cancel() // after the policy's own delays it would end the same way
	var out bytes.Buffer
	assert.Equal(t, 1, run(ctx, []string{"-url", "http://" + l.Addr().String()}, &out, &out))
	assert.Contains(t, out.String(), "canceled before the first attempt")
}

func TestURLThatIsNotThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var out bytes.Buffer
	assert.Equal(t, 1, run(context.Background(), []string{"-url", server.URL}, &out, &out))
	assert.Contains(t, out.String(), "retry: permanent error after 1 attempt: the server says 404 Not Found")
}

func TestBadFlag(t *testing.T) {
	var out bytes.Buffer
	assert.Equal(t, 2, run(context.Background(), []string{"-nosuch"}, &out, &out))
	assert.Contains(t, out.String(), "-url")
}
