package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// times matches what differs from run to run: times, delays, seeds and ports.
var times = regexp.MustCompile(`(elapsed=|delay=|seed=|127\.0\.0\.1:)[0-9.]+([mµ]?s)?`)

func TestOwnServer(t *testing.T) {
	var out, errs bytes.Buffer
	status := run(context.Background(), nil, &out, &errs)

	assert.Regexp(t, `^policy: 5 attempts, exponential 100ms x2, at most 2s, ±20%, 500ms for each\n`, out.String())
	for retry := 1; retry <= 4; retry++ {
		assert.Regexp(t, fmt.Sprintf(`(?m)^%d +\d+ms to \d+ms`, retry), out.String(), "the plan")
	}
	_, calls, _ := strings.Cut(out.String(), "\n\n")
	calls, totals, _ := strings.Cut(calls, "\nexpvar:\n")
	assert.Equal(t, `GET http://127.0.0.1:*/report
level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=5 elapsed=* delay=* lo=80ms hi=120ms seed=* err="retryhttp: no response within AttemptTimeout (500ms)"
level=WARN msg="retry scheduled" kind=retry_scheduled attempt=2 max=5 elapsed=* delay=* lo=160ms hi=240ms seed=* err=EOF
level=WARN msg="retry scheduled" kind=retry_scheduled attempt=3 max=5 elapsed=* delay=* lo=1s hi=1.4s retry_after=1s seed=* err="retryhttp: GET http://127.0.0.1:*/report: 503 Service Unavailable"
level=INFO msg="succeeded after retries" kind=call_finished attempt=4 max=5 elapsed=* reason=success
200 OK, 11 bytes: "all is well"
span "GET"
  event "retry" error.type=*retryhttp.timeoutError,http.request.resend_count=1,retry.attempt=1,retry.delay=*,retry.policy=shop
  event "retry" error.type=*errors.errorString,http.request.resend_count=2,retry.attempt=2,retry.delay=*,retry.policy=shop
  event "retry" error.type=503,http.request.resend_count=3,retry.attempt=3,retry.delay=*,retry.policy=shop

POST http://127.0.0.1:*/orders
Idempotency-Key: order-17
level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=5 elapsed=* delay=* lo=80ms hi=120ms seed=* err="retryhttp: POST http://127.0.0.1:*/orders: 502 Bad Gateway"
level=INFO msg="succeeded after retries" kind=call_finished attempt=2 max=5 elapsed=* reason=success
201 Created, 25 bytes: "1 order taken: one teapot"
span "POST"
  event "retry" error.type=502,http.request.resend_count=1,retry.attempt=1,retry.delay=*,retry.policy=shop

POST http://127.0.0.1:*/orders
level=ERROR msg="gave up" kind=call_finished attempt=1 max=5 elapsed=* reason=not_retryable err="retryhttp: POST http://127.0.0.1:*/orders: 503 Service Unavailable" cause="the server may have processed this POST; see retryhttp.Transport.Idempotent"
503 Service Unavailable, 22 bytes: "the counter is closed\n"
span "POST"
`, times.ReplaceAllString(calls, "$1*"))
	assert.Equal(t, `{"shop": {"calls":3,"retried":2,"attempts":7,"retries":4,"scheduled":{"":4},"stops":{"attempts_exhausted":0,"borrowed_budget_exhausted":0,"budget_exhausted":0,"canceled":0,"deadline":0,`+
		`"elapsed":0,"invalid":0,"not_retryable":1,"permanent_error":0,"rejected":0,"retry_after_too_long":0,"success":2,"wait_failed":0},`+
		`"waited_seconds":*,"budgets":{"shop":6}}}

Prometheus, without what is 0:
retry_attempts_total{policy="shop"} 7
retry_budget_left{budget="shop",policy="shop"} 6
retry_calls_total{policy="shop"} 3
retry_retried_calls_total{policy="shop"} 2
retry_retries_total{policy="shop"} 4
retry_scheduled_retries_total{class="",policy="shop"} 4
retry_stops_total{policy="shop",reason="not_retryable"} 1
retry_stops_total{policy="shop",reason="success"} 2
retry_waited_seconds_total{policy="shop"} *

OpenTelemetry, the retries of calls:
retry.call.retries{retry.policy=shop,retry.reason=not_retryable} calls 1, retries 0
retry.call.retries{retry.policy=shop,retry.reason=success} calls 2, retries 4
`, regexp.MustCompile(`("waited_seconds":|waited_seconds_total\{policy="shop"\} )[0-9.]+`).ReplaceAllString(totals, "$1*"))
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
		{"an invalid one", ":", 1, "missing protocol scheme"},
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

	// The first delay is longer than the context lasts, so there is no wait.
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var out, errs bytes.Buffer
	assert.Equal(t, 1, run(ctx, []string{"-url", "http://" + l.Addr().String()}, &out, &errs))
	assert.Contains(t, out.String(), "reason=deadline")
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
