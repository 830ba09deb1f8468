package main

import (
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

const httpAttempts = 4

// An httpClient sends a request up to four times, without a delay.
type httpClient struct {
	name    string
	prepare func(base http.RoundTripper) http.RoundTripper
	leaks   bool // the client never closes the responses that it does not return
}

var httpClients = []httpClient{
	{"bare", func(base http.RoundTripper) http.RoundTripper { return bareHTTP{base} }, false},
	{"retryhttp", func(base http.RoundTripper) http.RoundTripper {
		policy := retry.Policy{MaxAttempts: httpAttempts} //retry:vet-ignore policyliteral no waits
		return &retryhttp.Transport{Base: base, Budgets: retryhttp.NoBudgets, Policy: policy}
	}, false},
	{"go-retryablehttp", func(base http.RoundTripper) http.RoundTripper {
		client := retryablehttp.NewClient()
		client.HTTPClient.Transport, client.Logger = base, nil
		client.RetryMax, client.RetryWaitMin, client.RetryWaitMax = httpAttempts-1, 0, 0
		return client.StandardClient().Transport
	}, false},
	{"failsafehttp", func(base http.RoundTripper) http.RoundTripper {
		builder := failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(httpAttempts - 1)
		return failsafehttp.NewRoundTripper(base, builder.Build())
	}, true},
}

// bareHTTP is the retry loop that an engineer writes by hand around a RoundTripper.
type bareHTTP struct{ base http.RoundTripper }

func (b bareHTTP) RoundTrip(req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := b.base.RoundTrip(req)
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

// The type `answers` is a server. It first sends some responses with the status 503, then sends one
// with the status 200, and then starts again.
type answers struct {
	failures int // how many responses with the status 503 come before each status 200
	n        int // how many requests have come
}

func (a *answers) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a.n++
	if a.n%(a.failures+1) != 0 {
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "hello")
}

// RoundTrip returns the same responses as ServeHTTP, without a network.
func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, req)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// get sends a request and returns the status and the body of the response.
func get(client *http.Client, req *http.Request) (status int, text string, err error) {
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}
