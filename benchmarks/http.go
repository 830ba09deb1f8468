package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/hashicorp/go-retryablehttp"
)

// An httpClient is a client that sends a request up to four times, without a
// delay, through a base.
type httpClient struct {
	name   string
	module string // whose version is printed; empty for the loop written by hand

	// prepare builds what users build once, including the request, and returns
	// the function that they call for each response.
	prepare func(ctx context.Context, base http.RoundTripper, url string) (func() (*http.Response, error), error)
}

const httpAttempts = 4

var httpClients = []httpClient{
	{"bare", "", func(ctx context.Context, base http.RoundTripper, url string) (func() (*http.Response, error), error) {
		client := &http.Client{Transport: base}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		return func() (*http.Response, error) { return bareHTTP(client, req) }, err
	}},
	{"retryhttp", ours.module, func(ctx context.Context, base http.RoundTripper, url string) (func() (*http.Response, error), error) {
		return through(ctx, &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: httpAttempts}}, url) //retry:vet-ignore policyliteral no waits are measured
	}},
	{"go-retryablehttp, StandardClient", "github.com/hashicorp/go-retryablehttp", func(ctx context.Context, base http.RoundTripper, url string) (func() (*http.Response, error), error) {
		return through(ctx, retryablehttpClient(base).StandardClient().Transport, url)
	}},
	{"go-retryablehttp, its own", "github.com/hashicorp/go-retryablehttp", func(ctx context.Context, base http.RoundTripper, url string) (func() (*http.Response, error), error) {
		client := retryablehttpClient(base)
		req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		return func() (*http.Response, error) { return client.Do(req) }, err
	}},
	{"failsafehttp", failsafeGo.module, func(ctx context.Context, base http.RoundTripper, url string) (func() (*http.Response, error), error) {
		policy := failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(httpAttempts - 1).Build()
		return through(ctx, failsafehttp.NewRoundTripper(base, policy), url)
	}},
}

// through returns calls of an http.Client with a RoundTripper.
func through(ctx context.Context, rt http.RoundTripper, url string) (func() (*http.Response, error), error) {
	client := &http.Client{Transport: rt}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	return func() (*http.Response, error) { return client.Do(req) }, err
}

func retryablehttpClient(base http.RoundTripper) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient.Transport = base
	client.RetryMax, client.RetryWaitMin, client.RetryWaitMax = httpAttempts-1, 0, 0
	client.Logger = nil
	return client
}

// bareHTTP is the loop that an engineer writes by hand around an http.Client.
func bareHTTP(client *http.Client, req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := client.Do(req)
		if err == nil && resp.StatusCode < 500 || attempt == httpAttempts {
			return resp, err
		}
		if err == nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
			_ = resp.Body.Close()
		}
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
	}
}

// inMemory returns a RoundTripper that answers 503 this many times, then 200, and
// then starts again. For each response it allocates what net/http does.
func inMemory(failures int) http.RoundTripper { return &memory{failures: failures} }

type memory struct{ failures, n int }

func (m *memory) RoundTrip(req *http.Request) (*http.Response, error) {
	status, text := http.StatusServiceUnavailable, "busy"
	if m.n == m.failures {
		status, text, m.n = http.StatusOK, "hello", -1
	}
	m.n++
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"text/plain"}},
		Body:          io.NopCloser(strings.NewReader(text)),
		ContentLength: int64(len(text)),
		Request:       req,
	}, nil
}

// ServeHTTP answers as RoundTrip does, for a server.
func (m *memory) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	resp, _ := m.RoundTrip(req)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// An httpWork is one measurement of the clients.
type httpWork struct {
	work  // its name, title and base
	bench func(httpClient) func(*testing.B)
}

var httpWorks = []httpWork{
	{work{name: "HTTPFirstTry", title: "first try, in memory", base: "HTTPFirstTry"}, func(c httpClient) func(*testing.B) { return benchInMemory(c, 0) }},
	{work{name: "HTTPFirstTryLoopback", title: "first try, loopback", base: "HTTPFirstTryLoopback"}, func(c httpClient) func(*testing.B) { return benchLoopback(c, 0) }},
	{work{name: "HTTPTwoFailures", title: "two 503, in memory", base: "HTTPTwoFailures"}, func(c httpClient) func(*testing.B) { return benchInMemory(c, 2) }},
	{work{name: "HTTPTwoFailuresLoopback", title: "two 503, loopback", base: "HTTPTwoFailuresLoopback"}, func(c httpClient) func(*testing.B) { return benchLoopback(c, 2) }},
}

func benchInMemory(c httpClient, failures int) func(*testing.B) {
	return func(b *testing.B) { benchHTTP(b, c, inMemory(failures), "http://example.test/orders") }
}

func benchLoopback(c httpClient, failures int) func(*testing.B) {
	return func(b *testing.B) {
		server := httptest.NewServer(&memory{failures: failures})
		defer server.Close()
		base := &http.Transport{}
		defer base.CloseIdleConnections()
		benchHTTP(b, c, base, server.URL+"/orders")
	}
}

// benchHTTP measures calls that end with 200. It reads the body.
func benchHTTP(b *testing.B, c httpClient, base http.RoundTripper, url string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	send, err := c.prepare(ctx, base, url)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		resp, err := send()
		if err != nil {
			b.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || string(text) != "hello" {
			b.Fatal(resp.StatusCode, string(text), err)
		}
	}
}
