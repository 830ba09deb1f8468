// Httpclient calls HTTP servers that misbehave, through an http.Client whose
// transport retries, and prints the policy, its plan, and what happens as it
// happens.
//
//	go run ./examples/httpclient
//	go run ./examples/httpclient -url http://127.0.0.1:8080/
//
// Without -url it starts a server of its own: one call hangs, breaks off and is
// asked to wait before it succeeds; an order is posted with an Idempotency-Key,
// and again after its answer was lost; and one is posted without a key, which
// nobody may send twice.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("httpclient", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("url", "", "get this URL, not what a server of our own has")
	if err := flags.Parse(args); err != nil {
		return 2
	}

	policy := retry.Policy{
		MaxAttempts:    5,
		Backoff:        retry.Exponential{Base: 100 * time.Millisecond},
		MaxDelay:       2 * time.Second,
		Jitter:         retry.Proportional(0.2),
		AttemptTimeout: 5 * time.Second,
		OnEvent:        func(_ context.Context, e retry.Event) { show(stdout, e) },
	}
	calls := []call{{method: http.MethodGet, url: *url, want: http.StatusOK}}
	if *url == "" {
		server := newServer()
		defer server.Close()
		policy.AttemptTimeout = 500 * time.Millisecond
		calls = []call{
			{method: http.MethodGet, url: server.URL + "/report", want: http.StatusOK},
			{method: http.MethodPost, url: server.URL + "/orders", body: "one teapot", key: "order-17", want: http.StatusCreated},
			{method: http.MethodPost, url: server.URL + "/orders", body: "two teapots", want: http.StatusServiceUnavailable},
		}
	}
	fmt.Fprintf(stdout, "policy: %v\n%v\n", policy, policy.Plan(-1))

	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy}}
	defer client.CloseIdleConnections()
	failed := 0
	for _, c := range calls {
		fmt.Fprintf(stdout, "\n%s %s\n", c.method, c.url)
		if c.key != "" {
			fmt.Fprintf(stdout, "Idempotency-Key: %s\n", c.key)
		}
		outcome, err := c.send(ctx, client)
		if err != nil {
			fmt.Fprintln(stdout, err)
			failed = 1
			continue
		}
		fmt.Fprintln(stdout, outcome)
	}
	return failed
}

// A call is a request and the status that it should end with.
type call struct {
	method, url, body, key string
	want                   int
}

func (c call) send(ctx context.Context, client *http.Client) (outcome string, err error) {
	req, err := http.NewRequestWithContext(ctx, c.method, c.url, strings.NewReader(c.body))
	if err != nil {
		return "", err
	}
	if c.key != "" {
		req.Header.Set("Idempotency-Key", c.key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("the body was cut off after %d bytes: %w", len(text), err)
	}
	if resp.StatusCode != c.want {
		return "", fmt.Errorf("the server says %s", resp.Status)
	}
	return fmt.Sprintf("%s, %d bytes: %.60q", resp.Status, len(text), text), nil
}

func show(w io.Writer, e retry.Event) {
	at := fmt.Sprintf("%6.2fs  ", e.Elapsed.Seconds())
	switch e.Kind {
	case retry.AttemptStarted:
		fmt.Fprintf(w, "%sattempt %d of %d\n", at, e.Attempt, e.Max)
	case retry.AttemptFinished:
		if e.Err != nil {
			fmt.Fprintf(w, "%s  failed: %v\n", at, e.Err)
		}
	case retry.RetryScheduled:
		fmt.Fprintf(w, "%s  again in %v", at, e.Delay.Round(time.Millisecond))
		if e.Hint > 0 {
			fmt.Fprintf(w, " (the server asks for %v)", e.Hint)
		}
		fmt.Fprintln(w)
	case retry.Stopped:
		fmt.Fprintf(w, "%sstopped: %v\n", at, e.Reason)
	}
}
