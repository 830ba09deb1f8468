package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// The caller may change the header of a response without changing the StatusError of OnEvent and
// ErrorOf.
func TestTheHeaderOfAStatusErrorIsNotTheCallers(t *testing.T) {
	var told error
	p := retry.Policy{MaxAttempts: 2, OnEvent: func(_ context.Context, e retry.Event) { told = e.Err }}
	client := &http.Client{Transport: &retryhttp.Transport{Policy: p, Base: script(response(503, "X-Reason", "busy"))}}
	resp, err := client.Do(request(t, "GET"))
	require.NoError(t, err)
	resp.Header.Set("X-Reason", "changed")
	for _, err := range []error{told, retryhttp.ErrorOf(resp)} {
		var e *retryhttp.StatusError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "busy", e.Header.Get("X-Reason"))
	}
	require.NoError(t, resp.Body.Close())
}

// The text names the request, but contains no part of the URL that may be secret.
func TestStatusError(t *testing.T) {
	for _, tt := range []struct{ method, url, want string }{
		{"GET", "http://example.test/orders/17", "retryhttp: GET http://example.test/orders/17: 503 Service Unavailable"},
		{"", "http://example.test", "retryhttp: GET http://example.test: 503 Service Unavailable"},
		{"POST", "https://user:secret@example.test:8443/a%2Fb/%20c?token=secret#secret", "retryhttp: POST https://example.test:8443/a%2Fb/%20c: 503 Service Unavailable"},
		{"GET", "http://example.test/" + strings.Repeat("a", 4<<20), "retryhttp: GET http://example.test/" + strings.Repeat("a", 1023) + "...: 503 Service Unavailable"},
		{strings.Repeat("M", 4<<20), "http://example.test", "retryhttp: " + strings.Repeat("M", 1024) + "... http://example.test: 503 Service Unavailable"},
		{"A\nB", "http://example.test", "retryhttp: A; B http://example.test: 503 Service Unavailable"},
		{"PUT", "https://token@[::1]:8080/?", "retryhttp: PUT https://[::1]:8080/: 503 Service Unavailable"},
	} {
		u, err := url.Parse(tt.url)
		require.NoError(t, err)
		req := &http.Request{Method: tt.method, URL: u}
		resp := asksToWait(503, 2)
		resp.Request = req
		e := retryhttp.NewStatusError(resp)
		u.Host, req.Method = "another.test", "PATCH"
		assert.EqualError(t, e, tt.want)
		assert.NotContains(t, fmt.Sprintf("%v %+v %s", e, e, e), "secret")
		assert.Equal(t, 503, e.HTTPStatusCode())
		assert.Equal(t, resp.Header, e.Header)
	}
	assert.EqualError(t, retryhttp.NewStatusError(&http.Response{StatusCode: 503, Request: &http.Request{}}), "retryhttp: 503 Service Unavailable")
	assert.EqualError(t, &retryhttp.StatusError{StatusCode: 599}, "retryhttp: 599")
}

// A program may collect the errors of many uploads. They do not hold the memory of the uploads.
func TestAnErrorDoesNotHoldItsRequest(t *testing.T) {
	type cancelKey struct{}
	answers := map[string]func(*http.Request) (*http.Response, error){
		"status": func(req *http.Request) (*http.Response, error) {
			resp := textResponse(503, "busy")
			resp.Request = req
			return resp, nil
		},
		"no answer": func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED },
		"canceled": func(req *http.Request) (*http.Response, error) {
			req.Context().Value(cancelKey{}).(context.CancelFunc)()
			return nil, req.Context().Err()
		},
	}
	errorsOf := map[string]func(*http.Response, error) error{
		"ErrorOf": func(resp *http.Response, err error) error {
			if resp != nil {
				require.NoError(t, resp.Body.Close())
			}
			return errors.Join(err, retryhttp.ErrorOf(resp))
		},
		"Result": func(resp *http.Response, err error) error { _, err = retryhttp.Result(resp, err); return err },
	}
	for answer, base := range answers {
		for name, errorOf := range errorsOf {
			once := roundTrip(base)
			twice := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: once}
			for by, transport := range map[string]http.RoundTripper{
				"no Transport":                  once,
				"a Transport":                   twice,
				"a Transport below a Transport": &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: twice},
				"a Prepare that waits": &retryhttp.Transport{Base: once, Prepare: func(req *http.Request, _ int, _ error) error {
					return retry.Do(req.Context(), retry.Policy{}, func(ctx context.Context) error {
						_, err := base(req)
						return err
					})
				}},
			} {
				t.Run(fmt.Sprint(answer, ", ", name, ", ", by), func(t *testing.T) {
					var held weak.Pointer[[1 << 20]byte]
					fail := func() error {
						large := new([1 << 20]byte)
						held = weak.Make(large)
						req, err := http.NewRequest("PUT", "http://example.test/", bytes.NewReader(large[:]))
						require.NoError(t, err)
						ctx, cancel := context.WithCancel(t.Context())
						req = req.WithContext(context.WithValue(ctx, cancelKey{}, cancel))
						return errorOf(transport.RoundTrip(req))
					}
					err := fail()
					// A timer that was stopped may hold the memory until the runtime removes it.
					for n := 0; held.Value() != nil && n < 1000; n++ {
						runtime.GC()
					}
					assert.Nil(t, held.Value())
					runtime.KeepAlive(err)
				})
			}
		}
	}
}
