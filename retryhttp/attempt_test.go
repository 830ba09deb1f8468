//go:build !race

package retryhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
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

// The type `looped` is a retry loop that an engineer writes by hand around a RoundTripper.
type looped struct{ base http.RoundTripper }

func (l looped) RoundTrip(req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := l.base.RoundTrip(req)
		if err != nil || resp.StatusCode < 500 || attempt == 4 {
			return resp, err
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
		_ = resp.Body.Close()
	}
}

// A request takes at most the listed number of allocations more than with a handwritten loop. Both
// counts include the allocations of the server. The test does not run under the race detector,
// because there a sync.Pool drops values at random.
func TestAllocations(t *testing.T) {
	passes := func(base http.RoundTripper) http.RoundTripper { return roundTrip(base.RoundTrip) }
	for _, tt := range []struct {
		name     string
		start    func(*httptest.Server)
		over     func(base http.RoundTripper) http.RoundTripper // nil: there is an http.Transport below
		headers  int
		failures int
		most     float64
	}{
		{"a first try, http", http1, nil, 0, 0, 8},
		{"a first try with 12 headers", http1, nil, 12, 0, 8},
		{"a first try, TLS", (*httptest.Server).StartTLS, nil, 0, 0, 8},
		{"a first try, HTTP/2", http2, nil, 0, 0, 8},
		{"a first try, with the user's own RoundTripper in between, which may change the header", http1, passes, 0, 0, 9},
		{"two 503, http", http1, nil, 0, 2, 27},
		{"two 503, HTTP/2", http2, nil, 0, 2, 33},
	} {
		t.Run(tt.name, func(t *testing.T) {
			served := 0
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if served++; served%(tt.failures+1) != 0 {
					http.Error(w, "busy", http.StatusServiceUnavailable)
				}
			}, tt.start)
			base := server.Client().Transport
			if tt.over != nil {
				base = tt.over(base)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			require.NoError(t, err)
			for i := range tt.headers {
				req.Header.Set(fmt.Sprint("X-", i), "some value")
			}
			allocations := func(rt http.RoundTripper) float64 {
				client := &http.Client{Transport: rt}
				send := func() {
					resp, err := client.Do(req)
					require.NoError(t, err)
					require.Equal(t, http.StatusOK, resp.StatusCode)
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pools of net/http
				return testing.AllocsPerRun(200, send)
			}
			tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 4}} //retry:vet-ignore policyliteral no waits are measured
			if tt.failures > 0 {
				tr.Budgets = retryhttp.NoBudgets
			}
			more := make([]float64, 5) // the goroutines of net/http allocate a little more or less each time
			for i := range more {
				more[i] = -allocations(looped{base})
				more[i] += allocations(tr)
			}
			slices.Sort(more)
			t.Logf("%v more", more)
			notInlined := testing.AllocsPerRun(10, func() { _ = *req.WithContext(ctx) })
			assert.LessOrEqual(t, more[len(more)/2], tt.most+notInlined)
		})
	}
}

// The caller may change its request when it has closed the body of the response. The second request
// of a Hedge may still be on its way then. The race detector finds a read of the caller's request.
func TestTheCallerChangesItsRequestAfterTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lend := retryhttp.LendBudget(script(reply{after: 60 * ms, status: 200}, reply{after: time.Second, status: 200}), 3)
		slow := roundTrip(func(req *http.Request) (*http.Response, error) {
			if retryhttp.Hedged(req.Context()) {
				time.Sleep(20 * ms)
			}
			return lend.RoundTrip(req)
		})
		tr := &retryhttp.Transport{Base: &retryhttp.Hedge{Base: slow, After: 50 * ms}, Policy: retry.Policy{MaxAttempts: 2}}
		req := request(t, "GET").WithContext(retry.WithBudget(context.Background(), &retry.Budget{Size: 5}))
		resp := send(t, tr, req)
		textOf(t, resp)
		require.NoError(t, resp.Body.Close())
		req.Body, req.GetBody = http.NoBody, nil
		time.Sleep(time.Hour)
	})
}

// Programs that try https first look for http.ErrSchemeMismatch. http.Client returns it if a server
// speaks plain HTTP.
func TestSchemeMismatch(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	for name, rt := range map[string]http.RoundTripper{
		"bare": new(http.Transport), "a Transport": &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3}}, "a Hedge": &retryhttp.Hedge{After: time.Hour},
	} {
		_, err := (&http.Client{Transport: rt}).Get("https" + strings.TrimPrefix(server.URL, "http"))
		assert.ErrorIs(t, err, http.ErrSchemeMismatch, name)
		if e := (*retry.Error)(nil); errors.As(err, &e) {
			assert.Equal(t, []any{retry.ReasonPermanent, 1}, []any{e.Reason, e.Attempts})
			assert.ErrorAs(t, err, new(tls.RecordHeaderError))
		}
	}
	_, err := (&retryhttp.Transport{Base: script(tls.RecordHeaderError{RecordHeader: [5]byte([]byte("SSH-2"))})}).RoundTrip(request(t, "GET"))
	assert.NotErrorIs(t, err, http.ErrSchemeMismatch)
}
