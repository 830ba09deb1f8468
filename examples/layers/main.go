// Layers sends requests through three processes, web, orders and stock, which all
// retry, and prints how many calls each of them got: with a Budget that ends with the
// process, and with one that is lent to the next.
//
//	go run ./examples/layers
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var policy = retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}

// Each request of the client may have three retries, in all layers together.
const budget, requests = 3, 20

func main() {
	if below, is := os.LookupEnv("LAYERS_BELOW"); is {
		serve(below, os.Getenv("LAYERS_LEND") == "1")
		return
	}
	run(os.Stdout)
}

func check(err error) {
	if err != nil {
		log.Fatal("layers: ", err)
	}
}

// newClient returns an HTTP client that retries, and lends its Budgets. None of its own
// stands beside them.
func newClient(lend bool) *http.Client {
	if !lend {
		return &http.Client{Transport: &retryhttp.Transport{Policy: policy, Budgets: retryhttp.NoBudgets}}
	}
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:   retryhttp.LendBudget(http.DefaultTransport, 3), // below the Transport: each attempt has a lease of its own
		Policy: policy,
	}}
	client.Transport.(*retryhttp.Transport).Budgets = retryhttp.NoBudgets
	return client
}

// get returns the status of url and what it answers.
func get(ctx context.Context, client *http.Client, url string) (status int, body string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	check(err)
	resp, err := client.Do(req)
	check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	check(err)
	return resp.StatusCode, string(text)
}

// serve is one of the three processes. It answers what the one below answers, and
// stock, which has none below, what the query says. It ends with its standard input.
func serve(below string, lend bool) {
	var calls atomic.Int64
	client := newClient(lend)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, stock := calls.Add(1), r.URL.Query().Get("stock")
		if below != "" {
			status, _ := get(r.Context(), client, below+"?"+r.URL.RawQuery)
			w.WriteHeader(status)
		} else if stock == "down" || stock == "flaky" && n%3 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux := http.NewServeMux()
	if lend {
		mux.Handle("/", retryhttp.BorrowBudget(handler, 3)) // no request may make more than 3 retries, here and below
	} else {
		mux.Handle("/", handler)
	}
	mux.HandleFunc("/calls", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, calls.Swap(0)) })

	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Printf("http://%v/\n", l.Addr())
	go http.Serve(l, mux)
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
}

// start starts a process that calls the one at the URL below, and returns its own URL.
func start(below string, lend int) (url string, stop func()) {
	self, err := os.Executable()
	check(err)
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = append(os.Environ(), "LAYERS_BELOW="+below, "LAYERS_LEND="+strconv.Itoa(lend)), os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	check(errors.Join(inErr, outErr, cmd.Start()))
	_, err = fmt.Fscanln(out, &url)
	check(err)
	return url, func() { _ = in.Close(); _ = cmd.Wait() }
}

func run(w io.Writer) {
	fmt.Fprintf(w, "%d requests, each with a Budget of %d; client, web and orders make up to %d attempts.\n\n", requests, budget, policy.MaxAttempts)
	fmt.Fprintf(w, "%-32s %7s %7s %7s %7s\n", "calls of", "web", "orders", "stock", "worked")
	for lend, name := range []string{"not lent,", "lent,"} {
		client := newClient(lend > 0)
		var urls [3]string // web, orders, stock
		for i, below := 2, ""; i >= 0; i, below = i-1, urls[i] {
			url, stop := start(below, lend)
			defer stop()
			urls[i] = url
		}
		for _, stock := range []string{"works", "flaky", "down"} {
			worked := 0
			for range requests {
				ctx := retry.WithBudget(context.Background(), &retry.Budget{Size: budget})
				if status, _ := get(ctx, client, urls[0]+"?stock="+stock); status == http.StatusOK {
					worked++
				}
			}
			fmt.Fprintf(w, "Budget %-12s stock %-6s", name, stock)
			for _, url := range urls {
				_, calls := get(context.Background(), http.DefaultClient, url+"calls")
				fmt.Fprintf(w, " %7s", calls)
			}
			fmt.Fprintf(w, " %7d\n", worked)
		}
	}
}
