// Quickstart calls an HTTP server that fails as real ones do, and prints what
// happens as it happens.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -url http://127.0.0.1:8080/
//
// Without -url it starts its own server, which refuses the first connection, asks
// the client to wait, cuts off a body, and then answers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrynet"
)

// policy waits about 3 s in all, unless a server asks for more.
var policy = retry.Policy{
	MaxAttempts:    5,
	Backoff:        retry.Exponential{Base: 200 * time.Millisecond},
	MaxDelay:       2 * time.Second,
	Jitter:         retry.Proportional(0.2),
	AttemptTimeout: 2 * time.Second,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("url", "", "call this URL instead of the built-in server that fails")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "quickstart: unexpected argument %q: write -url %s\n", flags.Arg(0), flags.Arg(0))
		return 2
	}

	policy := policy
	policy.OnEvent = func(_ context.Context, e retry.Event) { show(stdout, e) }
	if *url == "" {
		server, err := newFlakyServer()
		if err != nil {
			fmt.Fprintln(stderr, "quickstart:", err)
			return 1
		}
		defer server.close()
		*url = server.url()
		policy.OnEvent = func(_ context.Context, e retry.Event) {
			show(stdout, e)
			if e.Kind == retry.RetryScheduled && e.Attempt == 1 {
				if err := server.start(); err != nil {
					fmt.Fprintln(stderr, "quickstart:", err)
				}
			}
		}
	}

	fmt.Fprintf(stdout, "GET %s\npolicy: %v\n", *url, policy)
	body, err := retry.DoValue(ctx, policy, func(ctx context.Context) (string, error) {
		return get(ctx, *url)
	})
	if err != nil {
		fmt.Fprintln(stdout, err)
		return 1
	}
	fmt.Fprintf(stdout, "%d bytes: %.60q\n", len(body), body)
	return 0
}

// get returns the body of url. Its errors say which failures are permanent, and
// how long a server asks to wait.
func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", retry.Permanent(err)
	}
	res, err := http.DefaultClient.Do(req)
	if retrynet.Permanent(err) {
		return "", retry.Permanent(err)
	}
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500:
		return "", retryhttp.NewStatusError(res) // it knows Retry-After
	case res.StatusCode >= 400:
		return "", retry.Permanent(retryhttp.NewStatusError(res))
	case err != nil:
		return "", fmt.Errorf("the body was cut off after %d bytes: %w", len(body), err)
	}
	return string(body), nil
}

func show(w io.Writer, e retry.Event) {
	switch e.Kind {
	case retry.AttemptStarted:
		fmt.Fprintf(w, "%6.2fs  attempt %d of %d\n", e.Elapsed.Seconds(), e.Attempt, e.Max)
	case retry.AttemptFinished:
		if e.Err != nil {
			fmt.Fprintf(w, "%6.2fs    failed: %v\n", e.Elapsed.Seconds(), e.Err)
		}
	case retry.RetryScheduled:
		fmt.Fprintf(w, "%6.2fs    again in %v", e.Elapsed.Seconds(), e.Delay.Round(time.Millisecond))
		if e.RetryAfter > 0 {
			fmt.Fprintf(w, " (the server asks for %v)", e.RetryAfter)
		}
		fmt.Fprintln(w)
	case retry.CallFinished:
		fmt.Fprintf(w, "%6.2fs  stopped: %v\n", e.Elapsed.Seconds(), e.Reason)
	}
}
