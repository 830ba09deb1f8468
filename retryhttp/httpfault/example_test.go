package httpfault_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
)

// A server that answers 503, 503, 200. Nothing listens at its address.
func Example() {
	faults := httpfault.New(nil, httpfault.Status(503, 0), httpfault.Status(503, 0), httpfault.Status(200, 0))
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:   faults,
		Policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)},
	}}
	resp, err := client.Get("http://orders.test/17")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", len(faults.Calls()), "requests")
	// Output: 200 OK after 3 requests
}

// How a client copes if the connection is refused, the server is busy, and an answer
// gets lost.
func Example_lostAnswer() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	faults := httpfault.New(nil,
		httpfault.Before(syscall.ECONNREFUSED),
		httpfault.Status(503, 0),
		httpfault.After(syscall.ECONNRESET),
	)
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:   faults,
		Policy: retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Millisecond)},
	}}

	req, err := http.NewRequest("PUT", server.URL+"/orders/17", strings.NewReader("one teapot"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	for _, call := range faults.Calls() {
		fmt.Printf("%s %q: %d %v\n", call.Method, call.Body, call.Status, call.Err)
	}
	fmt.Println("not reached:", faults.Left(), "not closed:", faults.Open())
	// Output:
	// PUT "": 0 connection refused
	// PUT "one teapot": 503 <nil>
	// PUT "one teapot": 0 connection reset by peer
	// PUT "one teapot": 404 <nil>
	// not reached: 0 not closed: 0
}
