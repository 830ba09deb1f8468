package httpfault_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
)

// How a client copes if the connection is refused, the server is busy, and an answer
// gets lost.
func Example() {
	orders := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		orders++
		fmt.Fprint(w, "order ", orders)
	}))
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
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	fmt.Println(resp.StatusCode, string(text), err)

	for _, call := range faults.Calls() {
		fmt.Printf("%s %q: %d %v\n", call.Method, call.Body, call.Status, call.Err)
	}
	fmt.Println("not reached:", faults.Left(), "not closed:", faults.Open())
	// Output:
	// 200 order 2 <nil>
	// PUT "": 0 connection refused
	// PUT "one teapot": 503 <nil>
	// PUT "one teapot": 0 connection reset by peer
	// PUT "one teapot": 200 <nil>
	// not reached: 0 not closed: 0
}
