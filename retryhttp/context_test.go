package retryhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// RequestOf returns the request in OnEvent and in Wait, even if no connection could be made. Below
// the Transport it returns nil.
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
					return 0, nil // a Wait may return early
				},
			}
		}
		lowest := script(errReset)
		base := script((&retryhttp.Transport{Policy: notes(&inner), Base: lowest}).RoundTrip)
		req := request(t, "GET").WithContext(context.WithValue(t.Context(), key{}, "here"))
		_, err := (&retryhttp.Transport{Policy: notes(&outer), Base: base}).RoundTrip(req)
		require.Error(t, err)
		assert.True(t, slices.Equal(slices.Repeat([]*http.Request{req}, 7), outer), "two events for each of two attempts, RetryScheduled, the Wait, and CallFinished")
		require.Len(t, base.sent, 2)
		assert.True(t, slices.Equal(slices.Concat(slices.Repeat(base.sent[:1], 7), slices.Repeat(base.sent[1:], 7)), inner))
		assert.Nil(t, retryhttp.RequestOf(lowest.sent[0].Context()))
		assert.Nil(t, httptrace.ContextClientTrace(lowest.sent[0].Context()), "an idempotent request is not traced")
		assert.Nil(t, retryhttp.RequestOf(t.Context()))
	})
	synctest.Test(t, func(t *testing.T) { // OnEvent sends a request in the context that it gets
		told, hedged := script(503), []bool{}
		ours := retry.Policy{MaxAttempts: 2, OnEvent: func(ctx context.Context, e retry.Event) {
			if e.Kind == retry.CallFinished && len(hedged) < 9 {
				hedged = append(hedged, retryhttp.Hedged(ctx))
				send(t, &retryhttp.Transport{Base: told}, request(t, "GET").WithContext(ctx))
			}
		}}
		tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: script(reply{after: time.Hour}, 404), After: ms}}
		send(t, tr, request(t, "GET").WithContext(retryhttp.WithPolicy(t.Context(), ours)))
		assert.Equal(t, []bool{true}, hedged)
		assert.Equal(t, 1, told.count(), "the policy of WithPolicy is not for that request")
		assert.Nil(t, retryhttp.RequestOf(told.sent[0].Context()), "this context is the context of another attempt")
		assert.False(t, retryhttp.Hedged(told.sent[0].Context()))
	})
}

// While the missing bytes of a download are fetched, RequestOf returns a copy of the caller's
// request that has a Range and an If-Range.
func TestRequestOfADownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []*http.Request
		p := resuming
		p.OnEvent = func(ctx context.Context, _ retry.Event) { seen = append(seen, retryhttp.RequestOf(ctx)) }
		tr := &retryhttp.Transport{Base: &source{text: "0123456789", cuts: []int{4, -1}}, Policy: p, Resume: true}
		req := request(t, "GET")
		req.Header.Set("X-Caller", "me")
		resp := send(t, tr, req)
		before := len(seen)
		textOf(t, resp)
		require.Greater(t, len(seen), before)
		assert.True(t, slices.Equal(slices.Repeat([]*http.Request{req}, before), seen[:before]))
		want := http.Header{"X-Caller": {"me"}, "Range": {"bytes=4-"}, "If-Range": {resp.Header.Get("Etag")}}
		for _, copied := range seen[before:] {
			assert.NotSame(t, req, copied)
			assert.Equal(t, want, copied.Header)
			assert.Equal(t, req.URL, copied.URL)
		}
	})
}

// A policy for one request replaces the Transport's policy entirely. A Transport below does not use
// it.
func TestWithPolicy(t *testing.T) {
	var seen events
	ours := retry.Policy{MaxAttempts: 5, Budget: &retry.Budget{Size: 10}, AttemptTimeout: time.Hour, OnEvent: seen.add}
	patient := ours
	patient.MaxAttempts = 2
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		inner  int   // attempts of the Transport below
		want   []int // the number of requests, what is left in the Transport's Budget, the number of events
	}{
		{"more attempts", retry.Policy{MaxAttempts: 7}, 1, []int{7, 10, 0}},
		{"the zero Policy", retry.Policy{}, 1, []int{1, 10, 0}},
		{"two Transports: only the outer one uses it", retry.Policy{MaxAttempts: 2}, 3, []int{6, 10, 0}},
		{"a changed copy of the Transport's policy", patient, 1, []int{2, 9, 6}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := script(503)
			below := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: tt.inner}}
			send(t, &retryhttp.Transport{Base: below, Policy: ours}, request(t, "GET").WithContext(retryhttp.WithPolicy(t.Context(), tt.policy)))
			assert.Equal(t, tt.want, []int{base.count(), ours.Budget.Left(), len(seen.all)})
		})
	}
	bubble(t, "a request that Check sends after the body of a download has broken off does not use it", func(t *testing.T) {
		other, broken := script(503), responseWith(200, breaks("text", errReset), "Etag", `"v"`, "Accept-Ranges", "bytes")
		tr := &retryhttp.Transport{Base: script(broken, 404), Resume: true, Check: func(req *http.Request, resp *http.Response, err error) error {
			if err != nil {
				send(t, &retryhttp.Transport{Base: other}, request(t, "GET").WithContext(req.Context()))
			}
			return retryhttp.Check(req, resp, err)
		}}
		policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}
		resp := send(t, tr, request(t, "GET").WithContext(retryhttp.WithPolicy(t.Context(), policy)))
		_, err := io.ReadAll(resp.Body)
		require.ErrorContains(t, err, "404")
		assert.Equal(t, 1, other.count())
	})
	bubble(t, "a request that Check sends after AttemptTimeout does not use it", func(t *testing.T) {
		other := script(503)
		tr := &retryhttp.Transport{Base: script(200), Check: func(req *http.Request, resp *http.Response, err error) error {
			if resp != nil {
				time.Sleep(2 * time.Second)
				return nil
			}
			send(t, &retryhttp.Transport{Base: other}, request(t, "GET").WithContext(req.Context()))
			return err
		}}
		policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), AttemptTimeout: time.Second}
		_, err := tr.RoundTrip(request(t, "GET").WithContext(retryhttp.WithPolicy(t.Context(), policy)))
		require.ErrorContains(t, err, "attempts exhausted after 2 attempts")
		assert.Equal(t, 2, other.count(), "one request for each attempt")
	})
}

// A request for a token may be sent in the context of an attempt, by any client. It does not belong
// to the attempt: its 429 does not close the Gate, its Hedge does not count as the attempt's Hedge,
// and the Advise and the evidence of the attempt do not apply to it.
func TestWhoseAttemptIsIt(t *testing.T) {
	slow, fast := reply{after: time.Second, status: 200}, reply{after: 10 * ms, status: 200}
	type fetch = func(ctx context.Context, method, url string) error
	inPrepare := func(tr *retryhttp.Transport, get fetch, url string) {
		tr.Prepare = func(req *http.Request, _ int, _ error) error { return get(req.Context(), "GET", url) }
	}
	inBase := func(tr *retryhttp.Transport, get fetch, url string) {
		base := tr.Base
		tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
			if err := get(req.Context(), "GET", url); err != nil {
				return nil, err
			}
			return base.RoundTrip(req)
		})
	}
	for _, tt := range []struct {
		name string
		in   func(*retryhttp.Transport, fetch, string)
		url  string
	}{
		{"sent in Prepare", inPrepare, "http://token.test/"},
		{"sent in Prepare, to the same URL", inPrepare, "http://example.test/"},
		{"sent in Base", inBase, "http://token.test/"},
		{"sent in Base, to the same host", inBase, "http://example.test/token"},
		{"sent in Base, to the same path with a query", inBase, "http://example.test/?token"},
		{"sent in Base, with another scheme", inBase, "https://example.test/"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			closed, told, advised := 0, []bool{}, 0
			tokens := script(slow, reply{after: 10 * ms, status: 429, wait: 9}, slow, fast)
			get := func(ctx context.Context, method, url string) error {
				h := &retryhttp.Hedge{Base: tokens, After: 50 * ms, OnHedge: func(_ context.Context, won bool) { told = append(told, won) }}
				req, err := http.NewRequestWithContext(ctx, method, url, nil)
				require.NoError(t, err)
				assert.Equal(t, "answer 1", textOf(t, send(t, h, req)))
				assert.True(t, retryhttp.Hedged(tokens.sent[1].Context()))
				assert.Equal(t, "answer 4", textOf(t, send(t, h, req)))
				assert.Error(t, retryhttp.Check(req, response(503), nil), "asks AdviceOf")
				return nil
			}
			var hedged []bool
			tr := &retryhttp.Transport{
				Base: script(200), Gate: &retryhttp.Gate{OnClose: func(string, time.Duration, error) { closed++ }},
				Advise: func(*http.Response) retryhttp.Advice { advised++; return retryhttp.Advice{} },
				Policy: retry.Policy{MaxAttempts: 2, OnEvent: func(ctx context.Context, _ retry.Event) { hedged = append(hedged, retryhttp.Hedged(ctx)) }},
			}
			tt.in(tr, get, tt.url)
			assert.Equal(t, 200, send(t, tr).StatusCode)
			assert.Equal(t, []any{0, 0, []bool{false, true}}, []any{closed, advised, told})
			assert.NotContains(t, hedged, true)
		})
	}
	for _, tt := range []struct {
		name string
		edit edit
		sent int
	}{
		{"of a request that is sent once", policy(retry.Policy{}), 2},
		{"of a request that may not be repeated", idempotent(false), 2},
	} {
		bubble(t, "a token for Prepare is hedged, "+tt.name, func(t *testing.T) {
			tokens := script(slow, fast)
			tr := &retryhttp.Transport{Base: script(200), Policy: retry.Policy{MaxAttempts: 2}}
			inPrepare(tr, func(ctx context.Context, method, url string) error {
				req, err := http.NewRequestWithContext(ctx, method, url, nil)
				send(t, &retryhttp.Hedge{Base: tokens, After: 50 * ms}, req)
				return err
			}, "http://token.test/")
			tt.edit.apply(tr, request(t, "GET"))
			send(t, tr)
			assert.Equal(t, tt.sent, tokens.count())
		})
	}
	bubble(t, "Base may lead its own request elsewhere", func(t *testing.T) {
		base := script(404)
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}}
		tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
			req.URL = &url.URL{Scheme: "http", Host: "replica.test"}
			return base.RoundTrip(req)
		})
		tr.Advise = func(*http.Response) retryhttp.Advice { return retryhttp.Advice{Verdict: retryhttp.Again} }
		send(t, tr)
		assert.Equal(t, 2, base.count(), "Advise was asked")
	})
	bubble(t, "a request for a token keeps a retry, although the attempt is sent once", func(t *testing.T) {
		tokens := script(200)
		tr := &retryhttp.Transport{Base: script(200)} // one attempt, so it would lend all retries
		inPrepare(tr, func(ctx context.Context, method, url string) error {
			req, err := http.NewRequestWithContext(ctx, method, url, nil)
			send(t, retryhttp.LendBudget(tokens, 9), req)
			return err
		}, "http://token.test/")
		send(t, tr, request(t, "GET").WithContext(retry.WithBudget(t.Context(), &retry.Budget{Size: 3})))
		assert.Equal(t, "2", leases(tokens))
	})
}
