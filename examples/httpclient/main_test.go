package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// times matches what differs from run to run: times and ports.
var times = regexp.MustCompile(` +[0-9.]+s  |again in [0-9.]+m?s|:[0-9]{4,5}`)

func TestOwnServer(t *testing.T) {
	var out, errs bytes.Buffer
	status := run(context.Background(), nil, &out, &errs)

	assert.Regexp(t, `^policy: 5 attempts, exponential 100ms x2, at most 2s, ±20%, 500ms for each\n`, out.String())
	for retry := 1; retry <= 4; retry++ {
		assert.Regexp(t, fmt.Sprintf(`(?m)^%d +\d+ms to \d+ms`, retry), out.String(), "the plan")
	}
	_, calls, _ := bytes.Cut(out.Bytes(), []byte("\n\n"))
	assert.Equal(t, `GET http://127.0.0.1*/report
*attempt 1 of 5
*  failed: retryhttp: no response within 500ms, the AttemptTimeout
*  *
*attempt 2 of 5
*  failed: EOF
*  *
*attempt 3 of 5
*  failed: retryhttp: 503 Service Unavailable
*  * (the server asks for 1s)
*attempt 4 of 5
*stopped: success
200 OK, 11 bytes: "all is well"

POST http://127.0.0.1*/orders
Idempotency-Key: order-17
*attempt 1 of 5
*  failed: retryhttp: 502 Bad Gateway
*  *
*attempt 2 of 5
*stopped: success
201 Created, 25 bytes: "1 order taken: one teapot"

POST http://127.0.0.1*/orders
*attempt 1 of 1
*  failed: retryhttp: 503 Service Unavailable
*stopped: not_retryable
503 Service Unavailable, 22 bytes: "the counter is closed\n"
`, times.ReplaceAllString(string(calls), "*"))
	assert.Empty(t, errs.String())
	assert.Zero(t, status)
}

func TestURL(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/short":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "cut")
		case "/":
			fmt.Fprint(w, "hello")
		default:
			http.NotFound(w, req)
		}
	}))
	defer server.Close()

	for _, tt := range []struct {
		name, url string
		status    int
		says      string
	}{
		{"one that is there", server.URL + "/", 0, `200 OK, 5 bytes: "hello"`},
		{"one that is not", server.URL + "/nosuch", 1, "the server says 404 Not Found"},
		{"one whose body is cut off", server.URL + "/short", 1, "the body was cut off after 3 bytes: unexpected EOF"},
		{"one of another scheme", "ftp://127.0.0.1/", 1, `retry: permanent error after 1 attempt: unsupported protocol scheme "ftp"`},
		{"none", ":", 1, "missing protocol scheme"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			assert.Equal(t, tt.status, run(context.Background(), []string{"-url", tt.url}, &out, &errs))
			assert.Contains(t, out.String(), tt.says)
			assert.Empty(t, errs.String())
		})
	}
}

func TestURLThatRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	// The first wait would be longer, and so is none.
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var out, errs bytes.Buffer
	assert.Equal(t, 1, run(ctx, []string{"-url", "http://" + l.Addr().String()}, &out, &errs))
	assert.Contains(t, out.String(), "stopped: deadline")
	assert.Contains(t, out.String(), "connection refused")
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	assert.Equal(t, 1, run(ctx, nil, &out, &errs))
	assert.Contains(t, out.String(), "retry: canceled before the first attempt")
}

func TestBadFlag(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, 2, run(context.Background(), []string{"-nosuch"}, &out, &errs))
	assert.Contains(t, errs.String(), "-url")
}
