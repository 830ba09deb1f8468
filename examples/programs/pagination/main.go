// Pagination fetches pages from an HTTP server that limits its rate and sometimes
// fails, and stores them in a store that other writers change too. It prints what
// happens, and checks at the end that every item was stored exactly once.
//
//	go run .
//	go run . -pages 50
//	go run . -attempts 1
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	flags := flag.NewFlagSet("pagination", flag.ContinueOnError)
	flags.SetOutput(stderr)
	pages := flags.Int("pages", 8, "how many pages the server has")
	attempts := flags.Int("attempts", 6, "the limit of attempts to fetch a page, and to store it")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	server, err := newPageServer(*pages)
	if err != nil {
		fmt.Fprintln(stderr, "pagination:", err)
		return 1
	}
	defer func() {
		if err := server.close(); err != nil {
			fmt.Fprintln(stderr, "pagination:", err)
			code = 1
		}
	}()
	store := newStore()

	pipeline := copyPages(&client{url: server.url()}, store, *attempts)
	pipeline.OnEvent = func(_ context.Context, e retryflow.Event) { show(stdout, e) }
	if err := pipeline.Run(ctx, retryflow.State{"page": 1}); err != nil {
		fmt.Fprintln(stdout, err)
		return 1
	}
	if err := compare(server.items(), store.rows); err != nil {
		fmt.Fprintln(stdout, "pagination:", err)
		return 1
	}
	fmt.Fprintf(stdout, "%d items, each stored once; %d requests, %d writes\n", len(store.rows), server.requests, store.writes)
	return 0
}

// copyPages returns the pipeline: fetch a page, store it, and jump back for the
// next one while there is one. Each page has all its attempts, because after a jump
// they are counted from 1 again.
func copyPages(c *client, s *store, attempts int) retryflow.Pipeline {
	patient := retry.Policy{MaxAttempts: attempts, MaxDelay: time.Minute} // even if the server asks for more
	quick := retry.Policy{MaxAttempts: attempts, Backoff: retry.Exponential{Base: 4 * time.Millisecond}, MaxDelay: 50 * time.Millisecond, Jitter: retry.EqualJitter}
	return retryflow.Pipeline{
		Tasks: []retryflow.Task{
			{Label: "fetch", Run: c.fetch, Rules: retryflow.Rules{
				{When: retryflow.IfErr(isRateLimit), Do: retryflow.Retry, Policy: patient, Delay: retryAfter},
				{When: retryflow.IfErr(isTransient), Do: retryflow.Retry, Policy: quick},
			}},
			{Label: "store", Run: s.put, Rules: retryflow.Rules{
				{When: retryflow.IfErr(isConflict), Do: retryflow.Retry, Policy: quick},
				{When: hasNext, Do: retryflow.Jump, To: "fetch", Set: turn},
			}},
		},
		Policy: retry.Policy{AttemptTimeout: 5 * time.Second},
	}
}

// hasNext matches a page that is stored and not the last.
func hasNext(o retryflow.Outcome) (bool, error) {
	return o.Err == nil && o.State["fetched"].(page).Next != 0, nil
}

// turn sets the next page as the one to fetch.
func turn(s retryflow.State, _ retryflow.Outcome) error {
	s["page"] = s["fetched"].(page).Next
	return nil
}

// compare returns how the stored items differ from those of the server: which are
// lost, stored twice, or unknown to the server.
func compare(want, got []string) error {
	count := map[string]int{}
	for _, item := range got {
		count[item]++
	}
	for _, item := range want {
		switch n := count[item]; {
		case n == 0:
			return fmt.Errorf("%s is lost", item)
		case n > 1:
			return fmt.Errorf("%s is stored %d times", item, n)
		}
	}
	if len(got) > len(want) {
		return fmt.Errorf("%d items are stored, and the server has %d", len(got), len(want))
	}
	return nil
}

func show(w io.Writer, e retryflow.Event) {
	switch e.Kind {
	case retry.AttemptFinished:
		fmt.Fprintf(w, "%s page %v, attempt %d: ", e.Task, e.Outcome.Result, e.Attempt)
		if e.Outcome.Err != nil {
			fmt.Fprintf(w, "%v: ", e.Outcome.Err)
		}
		fmt.Fprintln(w, e.Directive)
	case retry.RetryScheduled:
		fmt.Fprintf(w, "  again in %v\n", e.Delay.Round(time.Millisecond))
	}
}
