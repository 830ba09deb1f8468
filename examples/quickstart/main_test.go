package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
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
*  failed: retryhttp: GET http://127.0.0.1*/: 503 Service Unavailable
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
	defer func(b retry.Backoff) { policy.Backoff = b }(policy.Backoff)
	policy.Backoff = retry.Fixed(time.Millisecond)

	var out bytes.Buffer
	assert.Equal(t, 1, run(context.Background(), []string{"-url", "http://" + l.Addr().String()}, &out, &out))
	assert.Contains(t, out.String(), "attempt 5 of 5")
	assert.Contains(t, out.String(), "retry: attempts exhausted after 5 attempts")
	assert.Contains(t, out.String(), "connection refused")
}

// The worst case is five attempts of at most 2s each, and four delays.
func TestWorstCase(t *testing.T) {
	plan := policy.Plan(retry.Unlimited)
	assert.Less(t, plan[len(plan)-1].Total+policy.AttemptTimeout, 14*time.Second)
}

func TestURLThatCannotBeCalled(t *testing.T) {
	var out bytes.Buffer
	assert.Equal(t, 1, run(context.Background(), []string{"-url", "foo"}, &out, &out))
	assert.Contains(t, out.String(), "retry: permanent error after 1 attempt")
}

func TestURLThatIsNotThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var out bytes.Buffer
	assert.Equal(t, 1, run(context.Background(), []string{"-url", server.URL}, &out, &out))
	assert.Contains(t, out.String(), "retry: permanent error after 1 attempt: retryhttp: GET "+server.URL+": 404 Not Found")
}

func TestBadFlag(t *testing.T) {
	var out bytes.Buffer
	assert.Equal(t, 2, run(context.Background(), []string{"-nosuch"}, &out, &out))
	assert.Contains(t, out.String(), "-url")

	out.Reset()
	assert.Equal(t, 2, run(context.Background(), []string{"http://127.0.0.1/"}, &out, &out))
	assert.Contains(t, out.String(), "write -url http://127.0.0.1/")
	assert.Zero(t, run(context.Background(), []string{"-h"}, &out, &out))
}
