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

// The first two requests get a 503, and the third gets a 200. No server is needed.
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

// The first connection is refused, then the server is busy, and then an answer is lost. The example
// shows how a client copes.
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
