package docs_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// The test runs the snippets of docs/budget.md in a chain of three servers whose last server always
// answers 503. With a budget of 3 for the request it gets four requests, and without a budget 64.
func TestALentBudgetLimitsTheRetriesOfAllServices(t *testing.T) {
	policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}
	for name, calls := range map[string]int64{"lent": 4, "not lent": 64} {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: &retryhttp.Transport{
				Base:   retryhttp.LendBudget(http.DefaultTransport, 3), // below the Transport: each attempt has a lease of its own
				Policy: policy,
			}}
			if name == "not lent" {
				client = &http.Client{Transport: &retryhttp.Transport{Policy: policy, Budgets: retryhttp.NoBudgets}}
			}
			serve := func(handler http.Handler) string {
				mux := http.NewServeMux()
				if name == "lent" {
					mux.Handle("/", retryhttp.BorrowBudget(handler, 3)) // no request may make more than 3 retries, here and below
				} else {
					mux.Handle("/", handler)
				}
				server := httptest.NewServer(mux)
				t.Cleanup(server.Close)
				return server.URL
			}
			var below atomic.Int64
			next := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				below.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
			}))
			for range 2 {
				address := next
				next = serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					req, err := http.NewRequestWithContext(r.Context(), "GET", address, nil)
					assert.NoError(t, err)
					resp, err := client.Do(req)
					if assert.NoError(t, err) {
						assert.NoError(t, resp.Body.Close())
						w.WriteHeader(resp.StatusCode)
					}
				}))
			}
			ctx := t.Context()
			if name == "lent" {
				ctx = retry.WithBudget(ctx, &retry.Budget{Size: 3})
			}
			req, err := http.NewRequestWithContext(ctx, "GET", next, nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, calls, below.Load())
		})
	}
}

// A ReverseProxy as docs/budget.md sets it up passes on all retries that are lent to it. With
// LendBudget alone, it would keep one of them.
func TestReverseProxyPassesOnTheLease(t *testing.T) {
	var lease []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		lease = r.Header["Retry-Budget"]
	}))
	defer server.Close()
	to, err := url.Parse(server.URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &retryhttp.Transport{Base: retryhttp.LendBudget(nil, 3)}
	req := httptest.NewRequest("GET", "/", nil)
	req.Header.Set("Retry-Budget", "2")
	retryhttp.BorrowBudget(proxy, 3).ServeHTTP(httptest.NewRecorder(), req)
	assert.Equal(t, []string{"2"}, lease)
}
