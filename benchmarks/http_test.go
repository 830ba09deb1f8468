package main

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The numbers can be compared only if every client does the same: it sends as often
// and returns the same.
func TestEveryClientDoesTheSame(t *testing.T) {
	for _, c := range httpClients {
		t.Run(c.name, func(t *testing.T) {
			for failures, want := range map[int]struct {
				sent, status int
			}{0: {1, 200}, 2: {3, 200}, 3: {4, 200}} {
				base := &counting{base: inMemory(failures)}
				send, err := c.prepare(t.Context(), base, "http://example.test/orders")
				require.NoError(t, err)
				for n := 1; n <= 2; n++ {
					resp, err := send()
					require.NoError(t, err)
					text, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					assert.Equal(t, want.status, resp.StatusCode)
					assert.Equal(t, "hello", string(text))
					assert.Equal(t, n*want.sent, base.sent)
					if c.name == "failsafehttp" {
						assert.Equal(t, n, base.closed, "it does not close the responses that it does not return")
					} else {
						assert.Equal(t, base.sent, base.closed, "no response is left open")
					}
				}
			}

			ctx, cancel := context.WithCancel(t.Context())
			base := &counting{base: inMemory(99), then: cancel}
			send, err := c.prepare(ctx, base, "http://example.test/orders")
			require.NoError(t, err)
			_, err = send()
			assert.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 1, base.sent, "a canceled request is not sent again")
		})
	}
}

// counting counts the requests and the responses that were closed.
type counting struct {
	base         http.RoundTripper
	then         func()
	sent, closed int
}

func (c *counting) RoundTrip(req *http.Request) (*http.Response, error) {
	c.sent++
	resp, err := c.base.RoundTrip(req)
	if err == nil {
		resp.Body = &closing{resp.Body, c}
	}
	if c.then != nil {
		c.then()
	}
	return resp, err
}

type closing struct {
	io.ReadCloser
	c *counting
}

func (c *closing) Close() error {
	c.c.closed++
	return c.ReadCloser.Close()
}

func TestEveryHTTPBenchmarkRuns(t *testing.T) {
	benchmarksTake(t, "16x")
	for _, w := range httpWorks {
		for _, c := range httpClients {
			assert.Equal(t, 16, testing.Benchmark(w.bench(c)).N, "%s of %s", w.name, c.name)
		}
	}
}

// The benchmark of a client that does not do the work fails, so that it has no
// number.
func TestNoHTTPBenchmarkIsOfAnotherOutcome(t *testing.T) {
	benchmarksTake(t, "16x")
	other := httpClient{name: "other", prepare: func(context.Context, http.RoundTripper, string) (func() (*http.Response, error), error) {
		return func() (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
		}, nil
	}}
	for _, w := range httpWorks {
		assert.Zero(t, testing.Benchmark(w.bench(other)).N, w.name)
	}
}
