// Httpclient calls HTTP servers that misbehave, through an http.Client whose
// transport retries. It prints the policy and its plan, logs what happens with
// log/slog, and reports the same as metrics and spans, with expvar, Prometheus and
// OpenTelemetry.
//
//	go run .
//	go run . -url http://127.0.0.1:8080/
//
// Without -url it starts its own server. One call has an attempt that hangs, one
// that breaks off, and one whose response asks for a wait, before it succeeds. An
// order is posted with an Idempotency-Key, and again after its response was lost.
// Another is posted without a key, and must not be sent twice.
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
	url := flags.String("url", "", "get this URL instead of calling the built-in server")
	if err := flags.Parse(args); err != nil {
		return 2
	}

	policy := retry.Policy{
		MaxAttempts:    5,
		Backoff:        retry.Exponential{Base: 100 * time.Millisecond},
		MaxDelay:       2 * time.Second,
		Jitter:         retry.Proportional(0.2),
		AttemptTimeout: 5 * time.Second,
		Budget:         &retry.Budget{Size: 10, Ratio: 0.1},
	}
	watching, err := observe("shop", policy.Budget, stdout)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	policy.OnEvent = watching.onEvent
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
		callCtx, span := watching.tracer.Start(ctx, c.method)
		outcome, err := c.send(callCtx, client)
		if err != nil {
			outcome, failed = err.Error(), 1
		}
		fmt.Fprintln(stdout, outcome)
		span.End()
	}
	if err := watching.report(context.WithoutCancel(ctx), stdout); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
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
