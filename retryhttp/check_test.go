package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func TestIdempotent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method string
		header http.Header
		want   bool
	}{
		{"no method, which is GET", "", nil, true},
		{"GET", "GET", nil, true},
		{"HEAD", "HEAD", nil, true},
		{"OPTIONS", "OPTIONS", nil, true},
		{"TRACE", "TRACE", nil, true},
		{"PUT", "PUT", nil, true},
		{"DELETE", "DELETE", nil, true},
		{"POST", "POST", nil, false},
		{"PATCH", "PATCH", nil, false},
		{"CONNECT", "CONNECT", nil, false},
		{"methods have a case", "get", nil, false},
		{"a custom method", "PURGE", nil, false},
		{"POST with a key", "POST", http.Header{"Idempotency-Key": {"k"}}, true},
		{"POST with the older key", "POST", http.Header{"X-Idempotency-Key": {"k"}}, true},
		{"PATCH with a key", "PATCH", http.Header{"Idempotency-Key": {"k"}}, true},
		{"POST with a key that is not sent", "POST", http.Header{"Idempotency-Key": nil}, true},
		{"POST with another header", "POST", http.Header{"Idempotency": {"k"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, retryhttp.Idempotent(&http.Request{Method: tt.method, Header: tt.header}))
		})
	}
}

// These are the results of a Check, named by what the loop does with them.
const (
	done      = "done"
	again     = "retry"
	permanent = "permanent"
)

func verdict(failure error) string {
	switch (retry.Policy{MaxAttempts: 2}).Next(retry.Attempt{Err: failure}).Reason {
	case retry.ReasonPermanent:
		return permanent
	default:
		if failure == nil {
			return done
		}
		return again
	}
}

// The test covers every status.
func TestCheckStatuses(t *testing.T) {
	for name, tt := range map[string]struct {
		check            func(*http.Request, *http.Response, error) error
		again, permanent func(status int) bool
	}{
		"default": {
			check: retryhttp.Check,
			again: func(s int) bool {
				return slices.Contains([]int{408, 421, 425, 429}, s) || s >= 500 && s <= 599 && s != 501 && s != 505
			},
			permanent: func(s int) bool { return s >= 400 },
		},
		"Argyll": {
			check:     retryhttp.Argyll(retry.Policy{}).Check,
			again:     func(s int) bool { return s >= 500 },
			permanent: func(s int) bool { return s >= 400 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			for status := 100; status < 700; status++ {
				want := done
				if tt.again(status) {
					want = again
				} else if tt.permanent(status) {
					want = permanent
				}
				failure := tt.check(&http.Request{}, &http.Response{StatusCode: status}, nil)
				require.Equal(t, want, verdict(failure), status)
				if want == done {
					continue
				}
				var se *retryhttp.StatusError
				require.ErrorAs(t, failure, &se)
				require.Equal(t, status, se.StatusCode)
			}
		})
	}
}

func TestCheckErrors(t *testing.T) {
	for _, tt := range []struct {
		name         string
		err          error
		want, argyll string
	}{
		{"reset", syscall.ECONNRESET, again, again},
		{"an error of an unknown RoundTripper", errors.New("boom"), again, again},
		{"the end of a context that is not the request's", context.DeadlineExceeded, again, again},
		{"DNS: server misbehaving", &net.DNSError{IsTemporary: true}, again, again},
		{"DNS: not found", &net.DNSError{IsNotFound: true}, permanent, again},
		{"scheme", errors.New(`unsupported protocol scheme "ftp"`), permanent, again},
		{"marked by the RoundTripper", &url.Error{Err: retry.Permanent(errors.New("boom"))}, permanent, permanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := retryhttp.Check(&http.Request{}, nil, tt.err)
			assert.Equal(t, tt.want, verdict(got))
			assert.ErrorIs(t, got, tt.err)
			assert.Equal(t, tt.argyll, verdict(retryhttp.Argyll(retry.Policy{}).Check(&http.Request{}, nil, tt.err)))
		})
	}
}

// These are the outcomes that Argyll's own documents classify. Each step is
// called with POST against a server.
func TestArgyll(t *testing.T) {
	answer := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	for _, tt := range []struct {
		outcome string
		method  string
		serve   http.HandlerFunc
		want    string
	}{
		{"connection error", "", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, again},
		{"timeout", "", func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		}, again},
		{"500", "", answer(500, ""), again},
		{"502", "", answer(502, ""), again},
		{"503", "", answer(503, ""), again},
		{"504", "", answer(504, ""), again},
		{"400", "", answer(400, ""), permanent},
		{"404", "", answer(404, ""), permanent},
		{"422", "", answer(422, ""), permanent},
		{"429", "", answer(429, ""), permanent},
		{"200 success:false", "", answer(200, `{"success": false}`), permanent},
		{"200 success:true", "", answer(200, `{"success": true}`), done},
		{"501", "", answer(501, ""), again},
		{"505", "", answer(505, ""), again},
		{"408", "", answer(408, ""), permanent},
		{"POST 503", "POST", answer(503, ""), again},
	} {
		for _, method := range []string{"POST", "GET"} { // Argyll's rules do not depend on idempotency
			if tt.method != "" && tt.method != method {
				continue
			}
			t.Run(method+" "+tt.outcome, func(t *testing.T) {
				var seen events
				p := retry.Policy{MaxAttempts: 2, OnEvent: seen.add}
				if tt.outcome == "timeout" {
					p.AttemptTimeout = 10 * time.Millisecond
				}
				tr := retryhttp.Argyll(p)
				tr.Check = successField(tr.Check)
				tr.Base = &http.Transport{}
				defer tr.CloseIdleConnections()
				req, err := http.NewRequest(method, serve(t, tt.serve).URL, strings.NewReader("{}"))
				require.NoError(t, err)
				if resp, err := tr.RoundTrip(req); err == nil {
					require.NoError(t, resp.Body.Close())
				}

				switch stop := seen.stop(); {
				case stop.Reason == retry.ReasonSuccess && stop.Attempt == 1:
					assert.Equal(t, tt.want, done)
				case stop.Reason == retry.ReasonPermanent && stop.Attempt == 1:
					assert.Equal(t, tt.want, permanent)
				case stop.Reason == retry.ReasonExhausted && stop.Attempt == 2:
					assert.Equal(t, tt.want, again)
				default:
					assert.Fail(t, "stopped", "%v after %d", stop.Reason, stop.Attempt)
				}
			})
		}
	}
}

// Only the Check that replaces a body can close the original.
func TestSuccessFieldClosesTheBodyItReplaces(t *testing.T) {
	b := &body{Reader: strings.NewReader(`{"success": true}`)}
	answer := response(200)
	answer.Body = b
	require.NoError(t, successField(retryhttp.Check)(nil, answer, nil))
	assert.True(t, b.closed)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	assert.Equal(t, `{"success": true}`, string(text))
}
