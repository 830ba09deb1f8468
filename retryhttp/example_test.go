package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// flaky starts a server whose first requests fail with this status.
func flaky(failures, status int) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if failures--; failures >= 0 {
			http.Error(w, "try again", status)
			return
		}
		fmt.Fprintf(w, "%s %s", req.Method, req.URL.Path)
	}))
}

// show closes a response and prints its status.
func show(resp *http.Response, err error) {
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
}

// quick is a policy for examples that hardly waits.
var quick = retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}

func ExampleTransport() {
	server := flaky(2, http.StatusServiceUnavailable)
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{Policy: quick}}
	resp, err := client.Get(server.URL + "/orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(text), err)
	// Output:
	// 200 OK GET /orders <nil>
}

// A response that failed says how often it was requested, and why there was no other
// attempt. In OnEvent, RequestOf knows the request.
func ExampleErrorOf() {
	server := flaky(9, http.StatusServiceUnavailable)
	defer server.Close()

	policy := quick
	policy.MaxAttempts = 2
	policy.OnEvent = func(ctx context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			fmt.Println("again:", retryhttp.RequestOf(ctx).URL.Path)
		}
	}
	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
	resp, err := client.Get(server.URL + "/orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var stopped *retry.Error
	if errors.As(retryhttp.ErrorOf(resp), &stopped) {
		fmt.Println(resp.Status, stopped.Reason, stopped.Attempts)
	}
	// Output:
	// again: /orders
	// 503 Service Unavailable attempts_exhausted 2
}

// SetBody turns a stream into a body that can be sent again.
func ExampleSetBody() {
	attempts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, _ := io.ReadAll(req.Body)
		fmt.Printf("%d bytes: %s\n", req.ContentLength, text)
		if attempts++; attempts == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()

	stream, w := io.Pipe()
	go func() {
		fmt.Fprint(w, "a report")
		w.Close()
	}()
	req, err := http.NewRequest("PUT", server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := retryhttp.SetBody(req, stream, 1<<20); err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: &retryhttp.Transport{Policy: quick}}
	show(client.Do(req))
	// Output:
	// 8 bytes: a report
	// 8 bytes: a report
	// 200 OK
}

// All callers of a server wait when it has asked one of them to. A request that
// cannot wait that long is not sent.
func ExampleGate() {
	var requests int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()

	policy := quick
	policy.MaxRetryAfter = 10 * time.Second
	gate := &retryhttp.Gate{OnClose: func(_ string, wait time.Duration, _ error) {
		fmt.Println("closed for", wait)
	}}
	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy, Gate: gate}}
	show(client.Get(server.URL))
	_, err := client.Get(server.URL + "/other")
	fmt.Println(retry.ReasonOf(err), "after", requests, "request")
	// Output:
	// closed for 30s
	// 429 Too Many Requests
	// retry_after_too_long after 1 request
}

// A server of which one replica pauses. The second request gets an answer from another one.
func ExampleHedge() {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if requests.Add(1) == 1 {
			<-req.Context().Done() // until the client has its answer
			return
		}
		fmt.Fprint(w, "hello")
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: quick,
		Base: &retryhttp.Hedge{
			After:   20 * time.Millisecond, // longer than 95 % of the answers take
			OnHedge: func(_ context.Context, won bool) { fmt.Println("the second request has won:", won) },
		},
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Println(string(text), err)
	// Output:
	// the second request has won: true
	// hello <nil>
}

// A body that breaks off is requested again.
func ExampleWholeBody() {
	short := 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if short--; short >= 0 {
			w.Header().Set("Content-Length", "100")
		}
		fmt.Fprint(w, "hello")
	}))
	defer server.Close()

	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: quick,
		Check:  retryhttp.WholeBody(retryhttp.Check, 1<<20),
	}}
	resp, err := client.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Println(string(text), err)
	// Output: hello <nil>
}

// A POST to a model that is overloaded is sent again, even if only the first event of
// the stream says so.
func ExampleLLM() {
	overloaded := 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if overloaded--; overloaded >= 0 {
			fmt.Fprint(w, "event: error\ndata: {\"error\": {\"type\": \"overloaded_error\", \"message\": \"busy\"}}\n\n")
			return
		}
		fmt.Fprint(w, "event: content_block_delta\ndata: {\"text\": \"hi\"}\n\n")
	}))
	defer server.Close()

	client := &http.Client{Transport: retryhttp.LLM(quick)}
	resp, err := client.Post(server.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Print(strings.TrimSpace(string(text)), " ", err)
	// Output:
	// event: content_block_delta
	// data: {"text": "hi"} <nil>
}
