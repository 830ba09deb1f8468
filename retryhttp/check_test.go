package retryhttp_test

import (
	"context"
	"errors"
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

// These are the results of a Check, named by what the loop does with them.
const (
	done      = "done"
	again     = "retry"
	permanent = "permanent"
)

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
