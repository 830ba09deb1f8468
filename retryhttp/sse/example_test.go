package sse_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/sse"
)

// The function `ticker` serves numbered events, and cuts each connection after two and a half
// events.
func ticker(w http.ResponseWriter, r *http.Request) {
	last := 0
	_, _ = fmt.Sscan(r.Header.Get("Last-Event-ID"), &last)
	if last >= 4 {
		w.WriteHeader(http.StatusNoContent) // the stream has ended
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "id: %d\ndata: tick\n\nid: %d\ndata: tock\n\nid: %d\ndata: ti", last+1, last+2, last+3)
}

// The server cuts each connection. The client sends a Last-Event-ID, so each event arrives once.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(ticker))
	defer server.Close()
	req, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	stream := &sse.Stream{
		Client: &http.Client{Transport: &retryhttp.Transport{}},
		Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Millisecond)},
	}
	for event, err := range stream.Events(req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %s\n", event.ID, event.Data)
	}
	// Output:
	// 1 tick
	// 2 tock
	// 3 tick
	// 4 tock
}

// The answer of a language model breaks off. Resume asks the server for the events after the last
// event.
func ExampleStream_resume() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.URL.Query().Get("starting_after") == "" {
			fmt.Fprint(w, "data: 1 Once upon\n\n")
			return // without [DONE]
		}
		fmt.Fprint(w, "data: 2 a time\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	req, err := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(`{"stream":true}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	stream := &sse.Stream{
		Client: &http.Client{Transport: &retryhttp.Transport{Advise: retryhttp.VendorAdvice}},
		Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Millisecond)},
		Last:   func(e sse.Event) bool { return string(e.Data) == "[DONE]" },
		Resume: func(ctx context.Context, last sse.Event) (*http.Request, error) {
			number, _, _ := strings.Cut(string(last.Data), " ")
			return http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"?starting_after="+number, nil)
		},
	}
	for event, err := range stream.Events(req) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(event.Data))
	}
	// Output:
	// 1 Once upon
	// 2 a time
	// [DONE]
}

// Read returns the events of a body, without a client. The last event is cut off, so it is dropped.
func ExampleRead() {
	body := strings.NewReader("event: greeting\ndata: hello\ndata: world\n\n: a comment\ndata: half an ev")
	for event, err := range sse.Read(body, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %q\n", event.Name, event.Data)
	}
	// Output: greeting "hello\nworld"
}

// The request that a client of the Model Context Protocol sends after the connection is lost.
func ExampleResumeByGET() {
	post, err := http.NewRequest(http.MethodPost, "https://example.com/mcp", strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	post.Header.Set("Mcp-Session-Id", "s1")
	get, err := sse.ResumeByGET(post)(context.Background(), sse.Event{ID: "7"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(get.Method, get.URL, get.Header.Get("Mcp-Session-Id"))
	// Output: GET https://example.com/mcp s1
}
