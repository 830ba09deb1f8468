package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func TestIdempotent(t *testing.T) {
	for methods, want := range map[string]bool{",GET,HEAD,OPTIONS,TRACE,PUT,DELETE": true, "POST,PATCH,CONNECT,get,PURGE": false} {
		for method := range strings.SplitSeq(methods, ",") {
			assert.Equal(t, want, retryhttp.Idempotent(&http.Request{Method: method}), method)
			for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
				assert.True(t, retryhttp.Idempotent(&http.Request{Method: method, Header: http.Header{key: {"k"}}}))
				assert.True(t, retryhttp.Idempotent(&http.Request{Method: method, Header: http.Header{key: nil}}), "which is not sent")
			}
			assert.Equal(t, want, retryhttp.Idempotent(&http.Request{Method: method, Header: http.Header{"Idempotency": {"k"}}}))
		}
	}
}

const done, again, permanent = "done", "retry", "permanent"

// verdict says what the loop does with the result of a Check.
func verdict(failure error) string {
	switch {
	case failure == nil:
		return done
	case retry.IsPermanent(failure):
		return permanent
	default:
		return again
	}
}

// The test covers every status.
func TestCheckStatuses(t *testing.T) {
	for status := 100; status < 700; status++ {
		want := done
		switch {
		case slices.Contains([]int{408, 421, 425, 429}, status) || status >= 500 && status <= 599 && status != 501 && status != 505:
			want = again
		case status >= 400:
			want = permanent
		}
		failure := retryhttp.Check(&http.Request{}, &http.Response{StatusCode: status}, nil)
		require.Equal(t, want, verdict(failure), status)
		if want != done {
			var e *retryhttp.StatusError
			require.ErrorAs(t, failure, &e)
			require.Equal(t, status, e.StatusCode)
		}
	}
}

func TestCheckErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"an error of an unknown RoundTripper", errors.New("boom"), again},
		{"the end of a context that is not the request's", context.DeadlineExceeded, again},
		{"DNS: server misbehaving", &net.DNSError{IsTemporary: true}, again},
		{"DNS: not found", &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, again},
		{"DNS: not found, marked", retry.Permanent(&net.DNSError{IsNotFound: true}), permanent},
		{"scheme", errors.New(`unsupported protocol scheme "ftp"`), permanent},
		{"marked by the RoundTripper", &url.Error{Err: retry.Permanent(errors.New("boom"))}, permanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := retryhttp.Check(&http.Request{}, nil, tt.err)
			assert.Equal(t, tt.want, verdict(got))
			assert.ErrorIs(t, got, tt.err)
		})
	}
}

// The text names the request and contains nothing that may be secret.
func TestStatusError(t *testing.T) {
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "http://example.test/orders/17", "retryhttp: GET http://example.test/orders/17: 503 Service Unavailable"},
		{"", "http://example.test", "retryhttp: GET http://example.test: 503 Service Unavailable"},
		{"POST", "https://user:secret@example.test:8443/a%2Fb/%20c?token=secret#secret", "retryhttp: POST https://example.test:8443/a%2Fb/%20c: 503 Service Unavailable"},
		{"PUT", "https://token@[::1]:8080/?", "retryhttp: PUT https://[::1]:8080/: 503 Service Unavailable"},
	} {
		u, err := url.Parse(tt.url)
		require.NoError(t, err)
		req := &http.Request{Method: tt.method, URL: u}
		resp := asksToWait(503, 2)
		resp.Request = req
		e := retryhttp.NewStatusError(resp)
		u.Host, req.Method = "another.test", "PATCH"
		resp.Header.Set("Retry-After", "9")
		assert.EqualError(t, e, tt.want)
		assert.NotContains(t, fmt.Sprintf("%v %+v %s", e, e, e), "secret")
		assert.Equal(t, 503, e.HTTPStatusCode())
		assert.Equal(t, "2", e.Header.Get("Retry-After"), "the header is a copy")
	}
	assert.EqualError(t, retryhttp.NewStatusError(&http.Response{StatusCode: 503, Request: &http.Request{}}), "retryhttp: 503 Service Unavailable")
	assert.EqualError(t, &retryhttp.StatusError{StatusCode: 599}, "retryhttp: 599")
}
