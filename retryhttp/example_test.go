package retryhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
)

// quick is a policy for examples that hardly waits.
var quick = retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Millisecond)}

// ErrorOf says how often a failed request was sent, and why there was no further attempt. In
// OnEvent, RequestOf returns the request.
func ExampleTransport() {
	policy := quick
	policy.OnEvent = func(ctx context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			fmt.Println("again:", retryhttp.RequestOf(ctx).URL.Path)
		}
	}
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: policy,
		Base:   httpfault.New(nil, httpfault.Status(503, 0), httpfault.Status(503, 0)), // in place of a server
	}}
	resp, err := client.Get("http://example.com/orders")
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

// An Advise that reads the body: this server says in JSON how long to wait. The caller reads
// the same body, because Advise puts back what it has read.
func ExampleAdvice() {
	advise := func(resp *http.Response) retryhttp.Advice {
		head, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
		var said struct{ RetryInMs int64 }
		if err != nil || json.Unmarshal(head, &said) != nil {
			return retryhttp.AdviceOf(resp)
		}
		return retryhttp.Advice{Wait: time.Duration(said.RetryInMs) * time.Millisecond}
	}
	busy := func(*http.Request, http.RoundTripper) (*http.Response, error) {
		body := io.NopCloser(strings.NewReader(`{"RetryInMs": 20}`))
		return &http.Response{StatusCode: 503, Header: http.Header{}, Body: body}, nil
	}
	policy := quick
	policy.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			fmt.Println("the server asks for", retry.RetryAfterOf(e.Err))
		}
	}
	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy, Advise: advise, Base: httpfault.New(nil, busy, busy)}}
	resp, err := client.Get("http://example.com/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Println(string(text), err)
	// Output:
	// the server asks for 20ms
	// {"RetryInMs": 20} <nil>
}

// SetBody turns a stream into a body that can be sent again.
func ExampleSetBody() {
	stream := io.MultiReader(strings.NewReader("a "), strings.NewReader("report"))
	req, err := http.NewRequest("PUT", "http://example.com/reports/17", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := retryhttp.SetBody(req, stream, 1<<20); err != nil {
		fmt.Println(err)
		return
	}
	server := httpfault.New(nil, httpfault.Status(503, 0), httpfault.Status(200, 0))
	resp, err := (&http.Client{Transport: &retryhttp.Transport{Policy: quick, Base: server}}).Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for _, call := range server.Calls() {
		fmt.Printf("%s: %d\n", call.Body, call.Status)
	}
	// Output:
	// a report: 503
	// a report: 200
}

// If a server has asked one caller to wait, all callers of this server wait. A request is not sent
// if its deadline does not allow such a long wait.
func ExampleGate() {
	policy := quick
	policy.MaxRetryAfter = 10 * time.Second
	gate := &retryhttp.Gate{OnClose: func(_ string, wait time.Duration, _ error) {
		fmt.Println("closed for", wait)
	}}
	server := httpfault.New(nil, httpfault.Status(429, 30*time.Second))
	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy, Gate: gate, Base: server}}
	_, err := retryhttp.Result(client.Get("http://example.com/"))
	fmt.Println(retry.ReasonOf(err))
	_, err = client.Get("http://example.com/other")
	fmt.Println(retry.ReasonOf(err), "after", len(server.Calls()), "request")
	// Output:
	// closed for 30s
	// retry_after_too_long
	// retry_after_too_long after 1 request
}

// One replica of a server is slow. The second request gets an answer from another replica.
func ExampleHedge() {
	pauses := httpfault.Slow(time.Hour, nil)
	client := &http.Client{Transport: &retryhttp.Transport{
		Policy: quick,
		Base: &retryhttp.Hedge{
			Base:    httpfault.New(nil, pauses, httpfault.Status(200, 0)),
			After:   20 * time.Millisecond, // longer than 95 % of the answers take
			OnHedge: func(_ context.Context, won bool) { fmt.Println("the second request has won:", won) },
		},
	}}
	resp, err := client.Get("http://example.com/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output:
	// the second request has won: true
	// 200 OK
}

// A POST is sent again if the model is overloaded, even if the status is 200 and only the first
// event of the stream says so.
func ExampleLLM() {
	streams := func(text string) httpfault.Fault {
		return func(*http.Request, http.RoundTripper) (*http.Response, error) {
			header := http.Header{"Content-Type": {"text/event-stream"}}
			return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(text))}, nil
		}
	}
	transport := retryhttp.LLM(quick)
	transport.Base = httpfault.New(nil,
		streams("event: error\ndata: {\"error\": {\"type\": \"overloaded_error\", \"message\": \"busy\"}}\n\n"),
		streams("event: content_block_delta\ndata: {\"text\": \"hi\"}\n\n"))
	resp, err := (&http.Client{Transport: transport}).Post("http://example.com/", "application/json", strings.NewReader("{}"))
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
