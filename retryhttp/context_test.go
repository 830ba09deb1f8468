package retryhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// When the Transport gives up, for any reason, the caller gets the last response with its
// body unread, and a context in which the body can be read, however long that takes. It
// says why it was the last. The Timeout of an http.Client acts as a deadline: a wait that
// would exceed it does not begin. Result returns the error in place of the response.
func TestErrorOf(t *testing.T) {
	twice := retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}
	empty := &retry.Budget{Size: 1}
	empty.Take()
	ok, busy, hop := reply{status: 200}, reply{status: 503}, response(http.StatusTemporaryRedirect, "Location", "/b")
	replaces := func(by *http.Request) retryhttp.CheckFunc {
		return func(req *http.Request, resp *http.Response, err error) error {
			resp.Request = by
			return retryhttp.Check(req, resp, err)
		}
	}
	for _, tt := range []struct {
		name     string
		policy   retry.Policy
		check    retryhttp.CheckFunc
		inner    int // attempts of a second Transport below
		answers  []any
		reason   retry.Reason
		attempts int
	}{
		{"a success after a failure", twice, nil, 0, []any{busy, ok}, retry.ReasonSuccess, 0},
		{"attempts exhausted", twice, nil, 0, []any{busy}, retry.ReasonExhausted, 2},
		{"no budget", retry.Policy{MaxAttempts: 2, Budget: empty}, nil, 0, []any{busy}, retry.ReasonBudget, 1},
		{"a wait that the Timeout of the client would cut", retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(3 * time.Hour)}, nil, 0, []any{busy}, retry.ReasonDeadline, 1},
		{"no body", twice, nil, 0, []any{responseWith(503, http.NoBody)}, retry.ReasonExhausted, 2},
		{"redirected after a failure", twice, nil, 0, []any{busy, hop, busy}, retry.ReasonExhausted, 2},
		{"a success after a redirect", twice, nil, 0, []any{busy, hop, busy, ok}, retry.ReasonSuccess, 0},
		{"a Check that sets another request", twice, replaces(request(t, "GET")), 0, []any{busy}, retry.ReasonExhausted, 2},
		{"a Check that removes the request", twice, replaces(nil), 0, []any{busy}, retry.ReasonExhausted, 2},
		{"a Check that accepts it", twice, returns(nil), 0, []any{busy}, retry.ReasonSuccess, 0},
		{"of two Transports the outer", twice, nil, 3, []any{busy}, retry.ReasonExhausted, 2},
		{"a failure to the inner of two Transports", twice, returns(nil), 3, []any{busy}, retry.ReasonSuccess, 0},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := script(tt.answers...)
			tr := &retryhttp.Transport{Policy: tt.policy, Check: tt.check, Base: base}
			if tt.inner > 0 {
				tr.Base = &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: tt.inner}}
			}
			client := &http.Client{Transport: tr, Timeout: 2 * time.Hour} // wraps the body
			resp, err := client.Do(request(t, "GET"))
			require.NoError(t, err)
			last := base.bodies[len(base.bodies)-1]
			if last != nil {
				time.Sleep(time.Hour)
				assert.Equal(t, []any{0, 0, nil}, []any{last.read, last.closes, last.ctx.Err()})
				assert.Equal(t, fmt.Sprint("answer ", base.count()), textOf(t, resp))
				assert.Error(t, last.ctx.Err(), "the end of the body frees the context of the attempt")
			}
			require.NoError(t, resp.Body.Close())
			assert.True(t, last == nil || last.closed())
			assert.Error(t, base.sent[len(base.sent)-1].Context().Err(), "where there is no body, nothing else frees it")
			because := retryhttp.ErrorOf(resp)
			assert.Equal(t, tt.reason, retry.ReasonOf(because))
			same, err := retryhttp.Result(resp, nil)
			if tt.attempts == 0 {
				assert.NoError(t, because)
				assert.NoError(t, err)
				assert.Same(t, resp, same)
				return
			}
			assert.Nil(t, same)
			assert.Same(t, because, err)
			var e *retry.Error
			require.ErrorAs(t, because, &e)
			assert.Equal(t, tt.attempts, e.Attempts)
			var status *retryhttp.StatusError
			require.ErrorAs(t, because, &status)
			assert.Equal(t, resp.StatusCode, status.StatusCode)
			assert.Equal(t, "GET", resp.Request.Method)
			copied := *resp
			assert.Same(t, because, retryhttp.ErrorOf(&copied))
		})
	}

	for _, foreign := range []*http.Response{nil, {}, {Request: request(t, "GET")}} {
		assert.NoError(t, retryhttp.ErrorOf(foreign))
		same, err := retryhttp.Result(foreign, nil)
		assert.NoError(t, err)
		assert.Same(t, foreign, same)
	}
	_, err := retryhttp.Result(nil, errReset)
	assert.Equal(t, errReset, err)

	// A request out of a response that is sent again remembers nothing of it.
	resent, contexts := request(t, "GET"), []int{}
	for range 3 {
		resp := send(t, &retryhttp.Transport{Base: script(404)}, resent)
		assert.Error(t, retryhttp.ErrorOf(resp))
		resent = resp.Request
		contexts = append(contexts, strings.Count(fmt.Sprint(resent.Context()), "WithValue"))
	}
	assert.Equal(t, []int{contexts[0], contexts[0], contexts[0]}, contexts)

	// The request is the caller's in all but its context, which has the same values,
	// and the policy of this request.
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "here"))
	req := request(t, "GET").WithContext(retryhttp.WithPolicy(ctx, twice))
	base := script(&http.Response{StatusCode: 503})
	resp := send(t, &retryhttp.Transport{Base: base}, req)
	assert.Nil(t, resp.Body)
	assert.Equal(t, http.NoBody, send(t, &retryhttp.Transport{Base: script(responseWith(200, http.NoBody))}).Body, "callers compare")
	assert.Error(t, base.sent[1].Context().Err())
	_, err = retryhttp.Result(resp, nil)
	require.EqualError(t, err, "retry: attempts exhausted after 2 attempts: retryhttp: GET http://example.test/: 503 Service Unavailable")
	assert.NotSame(t, req, resp.Request)
	assert.Equal(t, req, resp.Request.WithContext(req.Context()))
	assert.Equal(t, "here", resp.Request.Context().Value(key{}))
	assert.Equal(t, 1, retryhttp.AttemptOf(resp.Request.Context()))
	again := send(t, &retryhttp.Transport{Base: script(200)}, request(t, "GET").WithContext(resp.Request.Context()))
	assert.NoError(t, retryhttp.ErrorOf(again), "of another request with that context")
	assert.NoError(t, resp.Request.Context().Err())
	cancel()
	assert.Error(t, resp.Request.Context().Err())
}

// OnEvent and Wait know the request, after a dial that was refused too. Nothing
// below the Transport takes its request for its own.
func TestRequestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var inner, outer []*http.Request
		notes := func(to *[]*http.Request) retry.Policy {
			note := func(ctx context.Context) {
				assert.Equal(t, "here", ctx.Value(key{}))
				*to = append(*to, retryhttp.RequestOf(ctx))
			}
			return retry.Policy{
				MaxAttempts: 2, Backoff: retry.Fixed(time.Second), HealthyAfter: time.Hour,
				OnEvent: func(ctx context.Context, _ retry.Event) { note(ctx) },
				Wait: func(ctx context.Context, d time.Duration) (time.Duration, error) {
					note(ctx)
					assert.Equal(t, time.Second, d)
					return 0, nil // it may return early
				},
			}
		}
		lowest := script(errReset)
		base := script((&retryhttp.Transport{Policy: notes(&inner), Base: lowest}).RoundTrip)
		req := request(t, "GET").WithContext(context.WithValue(t.Context(), key{}, "here"))
		_, err := (&retryhttp.Transport{Policy: notes(&outer), Base: base}).RoundTrip(req)
		require.Error(t, err)
		assert.True(t, slices.Equal(slices.Repeat([]*http.Request{req}, 7), outer), "2 x 2 for the attempts, 1 between them and the wait, 1 at the end")
		require.Len(t, base.sent, 2)
		assert.True(t, slices.Equal(slices.Concat(slices.Repeat(base.sent[:1], 7), slices.Repeat(base.sent[1:], 7)), inner))
		assert.Nil(t, retryhttp.RequestOf(lowest.sent[0].Context()))
		assert.Nil(t, httptrace.ContextClientTrace(lowest.sent[0].Context()), "an idempotent request is not traced")
		assert.Nil(t, retryhttp.RequestOf(t.Context()))
	})
}

// A policy for one request replaces the Transport's policy entirely. It is not for a
// Transport below.
func TestWithPolicy(t *testing.T) {
	var seen events
	ours := retry.Policy{MaxAttempts: 5, Budget: &retry.Budget{Size: 10}, AttemptTimeout: time.Hour, OnEvent: seen.add}
	patient := ours
	patient.MaxAttempts = 2
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		inner  int   // attempts of the Transport below
		want   []int // requests, what is left of our Budget, our events
	}{
		{"more attempts", retry.Policy{MaxAttempts: 7}, 1, []int{7, 10, 0}},
		{"the zero Policy", retry.Policy{}, 1, []int{1, 10, 0}},
		{"for the outer of two Transports", retry.Policy{MaxAttempts: 2}, 3, []int{6, 10, 0}},
		{"the Transport's, changed", patient, 1, []int{2, 9, 6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := script(503)
			below := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: tt.inner}}
			send(t, &retryhttp.Transport{Base: below, Policy: ours}, request(t, "GET").WithContext(retryhttp.WithPolicy(t.Context(), tt.policy)))
			assert.Equal(t, tt.want, []int{base.count(), ours.Budget.Left(), len(seen.all)})
		})
	}
}
