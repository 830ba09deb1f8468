package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
)

func TestPrepare(t *testing.T) {
	boom := errors.New("boom")
	var attempts []int
	var lasts []error
	var sent []string
	base := script(503, boom, 200)
	tr := &retryhttp.Transport{
		Policy: retry.Policy{MaxAttempts: 3},
		Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			text, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			sent = append(sent, req.URL.Host+" "+req.Header.Get("X-Signature")+" "+string(text))
			return base.RoundTrip(req)
		}),
		Prepare: func(req *http.Request, attempt int, last error) error {
			attempts, lasts = append(attempts, attempt), append(lasts, last)
			assert.Equal(t, attempt, retryhttp.AttemptOf(req.Context()))
			assert.NoError(t, req.Context().Err())
			assert.Empty(t, req.Header.Get("X-Signature"), "each attempt begins with the caller's request")
			req.Header.Set("X-Signature", strings.Repeat("s", attempt))
			req.URL.Host = "replica.test"
			return nil
		},
	}
	req := request(t, "PUT")
	rewindable(req, "data")
	_, err := tr.RoundTrip(req)
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, attempts)
	assert.Equal(t, []string{"replica.test s data", "replica.test ss data", "replica.test sss data"}, sent)
	require.Len(t, lasts, 3)
	assert.NoError(t, lasts[0])
	var status *retryhttp.StatusError
	require.ErrorAs(t, lasts[1], &status)
	assert.Equal(t, 503, status.StatusCode)
	assert.Equal(t, boom, lasts[2])
	assert.Empty(t, req.Header)
	assert.Equal(t, "example.test", req.URL.Host)
}

// An error of Prepare ends the call: nothing is sent, Check is not called, and
// the body is closed.
func TestPrepareStops(t *testing.T) {
	boom := errors.New("no such key")
	for _, tt := range []struct {
		name   string
		at     int // the attempt that Prepare stops
		err    error
		text   string
		reason retry.Reason
	}{
		{"the first", 1, boom, "retry: permanent error after 1 attempt: retryhttp: Prepare: no such key", retry.ReasonPermanent},
		{"the second", 2, boom, "retry: permanent error after 2 attempts: retryhttp: Prepare: no such key (the attempt before: retryhttp: PUT http://example.test/: 503 Service Unavailable)", retry.ReasonPermanent},
		{"an After has no effect", 1, retry.After(time.Second, boom), "retry: permanent error after 1 attempt: retryhttp: Prepare: no such key", retry.ReasonPermanent},
		{"an error that panics", 1, panicker{"Unwrap"}, "retry: permanent error after 1 attempt: retryhttp: error of type *fmt.wrapError panicked: bug in Unwrap", retry.ReasonPermanent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var bodies []*body
			base := script(503)
			checked := 0
			tr := &retryhttp.Transport{
				Base: base, Policy: retry.Policy{MaxAttempts: 5},
				Prepare: func(_ *http.Request, attempt int, _ error) error {
					if attempt == tt.at {
						return tt.err
					}
					return nil
				},
				Check: func(req *http.Request, resp *http.Response, err error) error {
					checked++
					return retryhttp.Check(req, resp, err)
				},
			}
			req := request(t, "PUT")
			open := func() (io.ReadCloser, error) {
				bodies = append(bodies, &body{Reader: strings.NewReader("data")})
				return bodies[len(bodies)-1], nil
			}
			req.Body, _ = open()
			req.GetBody = open
			_, err := tr.RoundTrip(req)
			assert.EqualError(t, err, tt.text)
			assert.Equal(t, tt.reason, retry.ReasonOf(err))
			assert.Len(t, base.sent, tt.at-1)
			assert.Equal(t, tt.at-1, checked)
			require.Len(t, bodies, tt.at)
			for _, b := range bodies {
				assert.True(t, b.closed)
			}
		})
	}
}

func TestPrepareThatPanics(t *testing.T) {
	b := &body{Reader: strings.NewReader("data")}
	req := request(t, "PUT")
	req.Body = b
	var ctx context.Context
	tr := &retryhttp.Transport{Base: script(200), Prepare: func(req *http.Request, _ int, _ error) error {
		ctx = req.Context()
		panic("boom")
	}}
	assert.PanicsWithValue(t, "boom", func() { _, _ = tr.RoundTrip(req) })
	assert.True(t, b.closed)
	assert.Error(t, ctx.Err())
}

// The AttemptTimeout covers Prepare, which may have to fetch a token. If it
// ends there, the attempt has failed and may be retried, because nothing was
// sent.
func TestPrepareThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := script(200)
		tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}, Prepare: func(req *http.Request, attempt int, last error) error {
			if attempt == 1 {
				<-req.Context().Done()
				return req.Context().Err()
			}
			assert.True(t, os.IsTimeout(last))
			return nil
		}}
		resp, err := tr.RoundTrip(request(t, "POST"))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Len(t, base.sent, 1)
	})
}

// A request whose Header is nil, which http.Client never sends, gets one if
// Prepare needs it.
func TestPrepareWithoutAHeader(t *testing.T) {
	req := request(t, "GET")
	req.Header = nil
	base := script(200)
	_, err := (&retryhttp.Transport{Base: base, Prepare: retryhttp.PrepareEnvoy}).RoundTrip(req)
	require.NoError(t, err)
	assert.Equal(t, "1", base.sent[0].Header.Get("X-Envoy-Attempt-Count"))
	assert.Nil(t, req.Header)
}

func TestReadyMadePrepare(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(*http.Request, int, error) error
		policy  retry.Policy
		body    bool // a body that can only be sent once
		header  string
		want    []string
	}{
		{"AWS", retryhttp.PrepareAWS, retry.Policy{MaxAttempts: 3}, false, "amz-sdk-request", []string{"attempt=1; max=3", "attempt=2; max=3", "attempt=3; max=3"}},
		{"AWS, without a limit", retryhttp.PrepareAWS, retry.Policy{MaxElapsed: time.Second, Backoff: retry.Fixed(time.Second)}, false, "amz-sdk-request", []string{"attempt=1", "attempt=2"}},
		{"AWS, once", retryhttp.PrepareAWS, retry.Policy{}, false, "amz-sdk-request", []string{"attempt=1; max=1"}},
		{"AWS, a body that can only be sent once", retryhttp.PrepareAWS, retry.Policy{MaxAttempts: 3}, true, "amz-sdk-request", []string{"attempt=1; max=1"}},
		{"Envoy", retryhttp.PrepareEnvoy, retry.Policy{MaxAttempts: 3}, false, "x-envoy-attempt-count", []string{"1", "2", "3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := script(503)
				req := request(t, "PUT")
				if tt.body {
					req.Body = io.NopCloser(strings.NewReader("data"))
				}
				_, err := (&retryhttp.Transport{Base: base, Policy: tt.policy, Prepare: tt.prepare}).RoundTrip(req)
				require.NoError(t, err)
				var got []string
				for _, sent := range base.sent {
					got = append(got, sent.Header.Get(tt.header))
				}
				assert.Equal(t, tt.want, got)
			})
		})
	}

	req := request(t, "GET")
	require.NoError(t, retryhttp.PrepareAWS(req, 2, nil))
	assert.Equal(t, "attempt=2", req.Header.Get("Amz-Sdk-Request"), "outside of a Transport")
}

// The context that Base gets has the number of the attempt, and so have
// contexts derived from it. A second Transport below counts its own attempts.
func TestAttemptOf(t *testing.T) {
	assert.Equal(t, 1, retryhttp.AttemptOf(t.Context()))

	type key struct{}
	var outer, inner []int
	base := script(503, 503, 503, 200)
	tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		ctx := context.WithValue(req.Context(), key{}, "span")
		outer = append(outer, retryhttp.AttemptOf(ctx))
		return (&retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			inner = append(inner, retryhttp.AttemptOf(req.Context()))
			return base.RoundTrip(req)
		})}).RoundTrip(req.WithContext(ctx))
	})}
	resp, err := tr.RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, []int{1, 2}, outer)
	assert.Equal(t, []int{1, 2, 1, 2}, inner)
}

// A policy for one request replaces the Transport's policy entirely, and on
// each hop of a redirect.
func TestWithPolicy(t *testing.T) {
	var seen events
	ours := &retry.Budget{Size: 10}
	transport := retry.Policy{MaxAttempts: 5, Budget: ours, OnEvent: seen.add, AttemptTimeout: time.Hour}
	patient := transport
	patient.MaxAttempts = 2
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		sent   int
		events int
	}{
		{"fewer attempts", retry.Policy{MaxAttempts: 2}, 2, 0},
		{"more attempts", retry.Policy{MaxAttempts: 7}, 7, 0},
		{"the zero Policy", retry.Policy{}, 1, 0},
		{"the Transport's, changed", patient, 2, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen = events{}
			base := script(503)
			ctx := retryhttp.WithPolicy(t.Context(), tt.policy)
			resp, err := (&retryhttp.Transport{Base: base, Policy: transport}).RoundTrip(request(t, "GET").WithContext(ctx))
			require.NoError(t, err)
			assert.Equal(t, 503, resp.StatusCode)
			assert.Len(t, base.sent, tt.sent)
			assert.Len(t, seen.all, tt.events)
		})
	}
	assert.Equal(t, 9, ours.Left(), "taken by the last policy")

	t.Run("an invalid one", func(t *testing.T) {
		ctx := retryhttp.WithPolicy(t.Context(), retry.Policy{MaxAttempts: -9})
		_, err := (&retryhttp.Transport{Base: script(503), Policy: transport}).RoundTrip(request(t, "GET").WithContext(ctx))
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	})

	t.Run("for the outer of two Transports", func(t *testing.T) {
		base := script(503)
		ctx := retryhttp.WithPolicy(t.Context(), retry.Policy{MaxAttempts: 2})
		tr := &retryhttp.Transport{Base: &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}}
		_, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
		require.NoError(t, err)
		assert.Len(t, base.sent, 6)
	})

	t.Run("redirects", func(t *testing.T) {
		server := httptest.NewServer(http.RedirectHandler("/b", http.StatusFound))
		defer server.Close()
		faults := httpfault.New(nil, nil, httpfault.Status(503, 0), httpfault.Status(503, 0), httpfault.Status(200, 0))
		client := &http.Client{Transport: &retryhttp.Transport{Base: faults}}
		req, err := http.NewRequestWithContext(retryhttp.WithPolicy(t.Context(), retry.Policy{MaxAttempts: 3}), "GET", server.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 200, resp.StatusCode)
		assert.Zero(t, faults.Left())
	})
}

// What the status says about the request holds for a Check that retries the
// status, too.
func TestPostThatWasNotApplied(t *testing.T) {
	for status, sent := range map[int]int{401: 2, 421: 2, 425: 2, 403: 1, 409: 1, 429: 1, 503: 1} {
		base := script(status, 200)
		_, err := (&retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}, Check: func(_ *http.Request, resp *http.Response, _ error) error {
			if resp.StatusCode != 200 {
				return retryhttp.NewStatusError(resp)
			}
			return nil
		}}).RoundTrip(request(t, "POST"))
		require.NoError(t, err)
		assert.Len(t, base.sent, sent, status)
	}
}
