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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

const done, again, permanent = "done", "retry", "permanent"

// The function `verdict` says what the loop does with the result of a Check.
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

// The test covers every status, with and without an Idempotency-Key.
func TestCheckStatuses(t *testing.T) {
	final := []int{501, 505, 506, 507, 508, 510, 511}
	for name, key := range map[string]http.Header{
		"none": nil, "one of another name": {"Idempotency": {"k"}}, "one that is not sent": {"Idempotency-Key": nil, "X-Idempotency-Key": {}}, "an empty one": {"Idempotency-Key": {""}},
		"a key": {"Idempotency-Key": {"k"}}, "a key with X": {"X-Idempotency-Key": {"k"}},
	} {
		for status := 100; status < 1000; status++ {
			want := done
			switch {
			case slices.Contains([]int{408, 421, 425, 429}, status), status >= 500 && !slices.Contains(final, status):
				want = again
			case status == 409 && strings.HasPrefix(name, "a key"):
				want = again
			case status >= 400:
				want = permanent
			}
			failure := retryhttp.Check(&http.Request{Header: key}, &http.Response{StatusCode: status}, nil)
			require.Equal(t, want, verdict(failure), "%d, %s", status, name)
			if want != done {
				var e *retryhttp.StatusError
				require.ErrorAs(t, failure, &e)
				require.Equal(t, status, e.StatusCode)
			}
		}
	}
	assert.Equal(t, permanent, verdict(retryhttp.Check(nil, response(409), nil)))
	keyed := response(409)
	keyed.Request = request(t, "POST")
	keyed.Request.Header.Set("Idempotency-Key", "k")
	assert.NotEqual(t, permanent, verdict(retryhttp.Check(nil, keyed, nil)), "without a request, the Request of the response counts")
}

// A header of the request may be the reason for a status. Then another attempt gets the same status.
func TestCheckOfAStatusThatAHeaderHasCaused(t *testing.T) {
	for _, tt := range []struct {
		status        int
		header, value string
		want          string
	}{
		{425, "Early-Data", "1", permanent},
		{425, "Early-Data", "", again}, // net/http sends it, but it says nothing
		{425, "Cache-Control", "only-if-cached", again},
		{504, "Cache-Control", "only-if-cached", permanent},
		{504, "Cache-Control", "max-stale=60, Only-If-Cached", permanent},
		{504, "Cache-Control", "no-cache", again},
		{504, "Early-Data", "1", again},
		{503, "Cache-Control", "only-if-cached", again},
	} {
		req := request(t, "GET")
		req.Header.Set(tt.header, tt.value)
		assert.Equal(t, tt.want, verdict(retryhttp.Check(req, response(tt.status), nil)), "%d, %s: %s", tt.status, tt.header, tt.value)
	}
	for status, name := range map[int]string{425: "early-data", 504: "cache-control"} {
		req := request(t, "GET")
		req.Header[name] = []string{"only-if-cached"}
		assert.Equal(t, permanent, verdict(retryhttp.Check(req, response(status), nil)), "the header %s in lower case", name)
	}
	asked := response(504)
	asked.Request = request(t, "GET")
	asked.Request.Header.Set("Cache-Control", "only-if-cached")
	assert.Equal(t, permanent, verdict(retryhttp.Check(nil, asked, nil)))
}

// The answer to a payment is lost, and the server is still working on the payment when the second
// attempt arrives. The server answers 409 until the payment is done. After that, it sends the lost
// answer again.
func TestConflictOfAKey(t *testing.T) {
	const reset, conflict = "connection reset by peer", "409 Conflict"
	for _, tt := range []struct {
		name  string
		key   string
		edit  edit
		steps []any
		want  string
	}{
		{"a 409 until the first request is done", "Idempotency-Key", nil, []any{errReset, 409, 409, 201}, "4 sent in 3s, 201"},
		{"a 409, and the key is in X-Idempotency-Key", "X-Idempotency-Key", nil, []any{errReset, 409, 201}, "3 sent in 2s, 201"},
		{"a 409, and the key is in lower case", "", ofRequest(func(req *http.Request) { req.Header["idempotency-key"] = []string{"17"} }), []any{errReset, 409, 201}, "3 sent in 2s, 201"},
		{"a 409 with a Retry-After", "Idempotency-Key", nil, []any{errReset, asksToWait(409, 5), 201}, "3 sent in 6s, 201"},
		{"a 409 for each retry", "Idempotency-Key", nil, []any{errReset, 409}, "4 sent in 3s, 409: attempts exhausted after 4 attempts (3s waited): " + conflict + "; before that: " + reset},
		{"a 409 with Stripe-Should-Retry: false", "Idempotency-Key", ofTransport(func(tr *retryhttp.Transport) { tr.Advise = retryhttp.VendorAdvice }),
			[]any{errReset, response(409, "Stripe-Should-Retry", "false")}, "2 sent in 1s, 409: permanent error after 2 attempts (1s waited): " + conflict + "; before that: " + reset},
		{"a 409, and Idempotent returns false", "Idempotency-Key", idempotent(false), []any{409, 201},
			"1 sent, 409: not retryable after 1 attempt (the server may have processed this POST; see retryhttp.Transport.Idempotent): " + conflict},
		{"a 409, and no key", "X", nil, []any{409, 201}, "1 sent, 409: permanent error after 1 attempt: " + conflict},
		{"a 422: the key was sent with another body before", "Idempotency-Key", nil, []any{422, 201}, "1 sent, 422: permanent error after 1 attempt: 422 Unprocessable Entity"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr, req := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Second)}}, request(t, "POST")
			rewindable(req, "10 dollars")
			if tt.key != "" {
				req.Header.Set(tt.key, "17")
			}
			tt.edit.apply(tr, req)
			assert.Equal(t, tt.want, ask(t, tr, req, tt.steps...))
		})
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
		{"DNS: not found, Permanent", retry.Permanent(&net.DNSError{IsNotFound: true}), permanent},
		{"scheme", errors.New(`unsupported protocol scheme "ftp"`), permanent},
		{"a Permanent error of the RoundTripper", &url.Error{Err: retry.Permanent(errors.New("boom"))}, permanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := retryhttp.Check(&http.Request{}, nil, tt.err)
			assert.Equal(t, tt.want, verdict(got))
			assert.ErrorIs(t, got, tt.err)
		})
	}
}
