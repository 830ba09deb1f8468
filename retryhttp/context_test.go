package retryhttp_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// A response that failed becomes its error, and is closed.
func TestResult(t *testing.T) {
	for _, tt := range []struct {
		name   string
		first  any
		last   int // 0: an error
		status int // of the response that stays
		want   string
	}{
		{"a success", 503, 200, 200, ""},
		{"a redirect", 503, 304, 304, ""},
		{"a failure that stays", 503, 503, 0, "retry: attempts exhausted after 2 attempts: retryhttp: GET http://example.test/orders: 503 Service Unavailable"},
		{"a final status", 503, 404, 0, "retry: permanent error after 2 attempts: retryhttp: GET http://example.test/orders: 404 Not Found"},
		{"an error", 503, 0, 0, "retry: attempts exhausted after 2 attempts: connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			last := &body{Reader: strings.NewReader("text")}
			steps := script(tt.first, any(responseWith(tt.last, last)))
			if tt.last == 0 {
				steps = script(tt.first, syscall.ECONNREFUSED)
			}
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: steps}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test/orders", nil)
			require.NoError(t, err)
			resp, err := retryhttp.Result(tr.RoundTrip(req))
			assert.Equal(t, tt.status == 0 && tt.last != 0, last.closed)
			if tt.status == 0 {
				assert.Nil(t, resp)
				assert.EqualError(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.status, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
		})
	}
	resp, err := retryhttp.Result((&retryhttp.Transport{Base: script(&http.Response{StatusCode: 503})}).RoundTrip(request(t, "GET")))
	assert.Nil(t, resp)
	assert.ErrorContains(t, err, "503", "without a body")

	foreign := response(503)
	resp, err = retryhttp.Result(foreign, nil)
	assert.NoError(t, err)
	assert.Same(t, foreign, resp)
}

// A last response that failed says why it was the last. The Timeout of an http.Client
// acts as a deadline: a wait that would exceed it does not begin.
func TestErrorOf(t *testing.T) {
	twice := retry.Policy{MaxAttempts: 2}
	asks := response(503)
	asks.Header.Set("Retry-After", "3600")
	hop := response(http.StatusTemporaryRedirect)
	hop.Header.Set("Location", "/b")
	replaces := func(by *http.Request) retryhttp.CheckFunc {
		return func(req *http.Request, resp *http.Response, err error) error {
			resp.Request = by
			return retryhttp.Check(req, resp, err)
		}
	}
	accepts := func(*http.Request, *http.Response, error) error { return nil }
	for _, tt := range []struct {
		name     string
		method   string
		policy   retry.Policy
		check    retryhttp.CheckFunc
		inner    int // attempts of a second Transport below
		answers  []any
		reason   retry.Reason
		attempts int
	}{
		{"a success", "GET", twice, nil, 0, []any{200}, retry.ReasonSuccess, 0},
		{"a success after a failure", "GET", twice, nil, 0, []any{503, 200}, retry.ReasonSuccess, 0},
		{"attempts exhausted", "GET", twice, nil, 0, []any{503}, retry.ReasonExhausted, 2},
		{"the zero Policy", "GET", retry.Policy{}, nil, 0, []any{503}, retry.ReasonExhausted, 1},
		{"a POST", "POST", twice, nil, 0, []any{503}, retry.ReasonNonRetryable, 1},
		{"permanent", "GET", twice, nil, 0, []any{404}, retry.ReasonPermanent, 1},
		{"a wait that is too long", "GET", twice, nil, 0, []any{asks}, retry.ReasonRetryAfter, 1},
		{"a wait that the Timeout of the client would cut", "GET", retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour)}, nil, 0, []any{503}, retry.ReasonDeadline, 1},
		{"no body", "GET", twice, nil, 0, []any{responseWith(503, http.NoBody)}, retry.ReasonExhausted, 2},
		{"redirected after a failure", "GET", twice, nil, 0, []any{503, hop, 503}, retry.ReasonExhausted, 2},
		{"a success after a redirect", "GET", twice, nil, 0, []any{503, hop, 503, 200}, retry.ReasonSuccess, 0},
		{"a Check that sets another request", "GET", twice, replaces(request(t, "GET")), 0, []any{503}, retry.ReasonExhausted, 2},
		{"a Check that removes the request", "GET", twice, replaces(nil), 0, []any{503}, retry.ReasonExhausted, 2},
		{"a Check that accepts it", "GET", twice, accepts, 0, []any{503}, retry.ReasonSuccess, 0},
		{"of two Transports the outer", "GET", twice, nil, 3, []any{503}, retry.ReasonExhausted, 2},
		{"a failure to the inner of two Transports", "GET", twice, accepts, 3, []any{503}, retry.ReasonSuccess, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr := &retryhttp.Transport{Base: script(tt.answers...), Policy: tt.policy, Check: tt.check}
			if tt.inner > 0 {
				tr.Base = &retryhttp.Transport{Base: tr.Base, Policy: retry.Policy{MaxAttempts: tt.inner}}
			}
			client := &http.Client{Transport: tr, Timeout: time.Minute} // wraps the body
			resp, err := client.Do(request(t, tt.method))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			because := retryhttp.ErrorOf(resp)
			assert.Equal(t, tt.reason, retry.ReasonOf(because))
			if tt.attempts == 0 {
				assert.NoError(t, because)
				return
			}
			var e *retry.Error
			require.ErrorAs(t, because, &e)
			assert.Equal(t, tt.attempts, e.Attempts)
			var status *retryhttp.StatusError
			require.ErrorAs(t, because, &status)
			assert.Equal(t, resp.StatusCode, status.StatusCode)
			assert.Equal(t, tt.method, resp.Request.Method)
			copied := *resp
			assert.Same(t, because, retryhttp.ErrorOf(&copied))
		})
	}

	for _, foreign := range []*http.Response{nil, {}, {Request: request(t, "GET")}} {
		assert.NoError(t, retryhttp.ErrorOf(foreign))
	}

	// The request is the caller's in all but its context, which has the same values,
	// and the policy of this request.
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "here"))
	req := request(t, "GET").WithContext(retryhttp.WithPolicy(ctx, twice))
	bare := &http.Response{StatusCode: 503} // without a body
	resp := send(t, &retryhttp.Transport{Base: script(bare)}, req)
	require.ErrorContains(t, retryhttp.ErrorOf(resp), "attempts exhausted after 2 attempts")
	assert.NotSame(t, req, resp.Request)
	assert.Equal(t, req, resp.Request.WithContext(req.Context()))
	assert.Equal(t, "here", resp.Request.Context().Value(key{}))
	assert.Equal(t, 1, retryhttp.AttemptOf(resp.Request.Context()))
	assert.NoError(t, resp.Request.Context().Err())
	again := send(t, &retryhttp.Transport{Base: script(200)}, request(t, "GET").WithContext(resp.Request.Context()))
	assert.NoError(t, retryhttp.ErrorOf(again), "of another request with that context")
	cancel()
	assert.Error(t, resp.Request.Context().Err())
}

// OnEvent and Wait know the request, after a dial that was refused too. Nothing
// below the Transport takes its request for its own.
func TestRequestOf(t *testing.T) {
	req := request(t, "GET")
	var inner, outer, sent []*http.Request
	notes := func(to *[]*http.Request) retry.Policy {
		note := func(ctx context.Context) { *to = append(*to, retryhttp.RequestOf(ctx)) }
		return retry.Policy{
			MaxAttempts: 2, HealthyAfter: time.Hour,
			OnEvent: func(ctx context.Context, _ retry.Event) { note(ctx) },
			Wait:    func(ctx context.Context, _ time.Duration) (time.Duration, error) { note(ctx); return 0, nil },
		}
	}
	below := &retryhttp.Transport{Policy: notes(&inner), Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		assert.Nil(t, retryhttp.RequestOf(r.Context()))
		_ = r.Context().Done()
		assert.Nil(t, retryhttp.RequestOf(r.Context()), "with a context that can be canceled")
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	})}
	_, err := (&retryhttp.Transport{Policy: notes(&outer), Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r)
		return below.RoundTrip(r)
	})}).RoundTrip(req)
	require.Error(t, err)
	require.Len(t, outer, 7, "2 x 2 for the attempts, 1 between them and the wait, 1 at the end")
	for _, got := range outer {
		assert.Same(t, req, got)
	}
	require.Len(t, sent, 2)
	require.Len(t, inner, 2*7)
	for i, got := range inner {
		assert.Same(t, sent[i/7], got)
	}
	assert.Nil(t, retryhttp.RequestOf(t.Context()))
}

// A policy for one request replaces the Transport's policy entirely.
func TestWithPolicy(t *testing.T) {
	ours := &retry.Budget{Size: 10}
	transport := retry.Policy{MaxAttempts: 5, Budget: ours, AttemptTimeout: time.Hour}
	patient := transport
	patient.MaxAttempts = 2
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		inner  *retry.Policy // of a second Transport below
		sent   int
		left   int
		events int
	}{
		{"more attempts", retry.Policy{MaxAttempts: 7}, nil, 7, 10, 0},
		{"the zero Policy", retry.Policy{}, nil, 1, 10, 0},
		{"for the outer of two Transports", retry.Policy{MaxAttempts: 2}, &retry.Policy{MaxAttempts: 3}, 6, 10, 0},
		{"the Transport's, changed", patient, nil, 2, 9, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen events
			transport.OnEvent = seen.add
			if tt.events > 0 {
				tt.policy.OnEvent = seen.add
			}
			base := script(503)
			tr := &retryhttp.Transport{Base: base, Policy: transport}
			if tt.inner != nil {
				tr.Base = &retryhttp.Transport{Base: base, Policy: *tt.inner}
			}
			resp := send(t, tr, request(t, "GET").WithContext(retryhttp.WithPolicy(t.Context(), tt.policy)))
			assert.Equal(t, 503, resp.StatusCode)
			assert.Len(t, base.sent, tt.sent)
			assert.Equal(t, tt.left, ours.Left())
			assert.Len(t, seen.all, tt.events)
		})
	}
}
