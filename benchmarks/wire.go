package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A wire is a kind of request, such as a request over TLS. The requests go over loopback to a
// server in another process.
type wire struct {
	name     string
	server   string // the name of the server, which is a key of endpoints.URLs
	failures int    // how many responses with the status 503 come before the status 200
	headers  int    // how many headers the request has, not counting the headers that net/http adds
}

var wires = []wire{
	{"a first try, http", "http", 0, 0},
	{"a first try, 12 headers", "http", 0, 12},
	{"a first try, TLS", "https", 0, 0},
	{"a first try, HTTP/2", "h2", 0, 0},
	{"two 503, http", "busy", 2, 0},
	{"two 503, HTTP/2", "busy h2", 2, 0},
}

// endpoints contains what a client needs to reach the servers. The process of the servers prints
// its endpoints as JSON.
type endpoints struct {
	URLs        map[string]string // the URL of each server by its name
	Certificate []byte
}

// serve starts the servers, prints their endpoints, and returns when standard input ends.
func serve() error {
	e := endpoints{URLs: map[string]string{}}
	start := func(name string, failures int, secure, http2 bool) {
		s := httptest.NewUnstartedServer(&answers{failures: failures})
		if s.EnableHTTP2 = http2; secure {
			s.StartTLS()
			e.Certificate = s.Certificate().Raw
		} else {
			s.Start()
		}
		e.URLs[name] = s.URL
	}
	start("http", 0, false, false)
	start("https", 0, true, false)
	start("h2", 0, true, true)
	start("busy", 2, false, false)
	start("busy h2", 2, true, true)
	if err := json.NewEncoder(os.Stdout).Encode(e); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// startServers runs serve in another process, so that its CPU time is not measured.
func startServers(ctx context.Context) (e endpoints, err error) {
	binary, err := os.Executable()
	if err != nil {
		return e, err
	}
	cmd := exec.CommandContext(ctx, binary, "-serve")
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		return e, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return e, err
	}
	if err := cmd.Start(); err != nil {
		return e, err
	}
	return e, json.NewDecoder(bufio.NewReader(out)).Decode(&e)
}

// requests is how many requests a client sends in a round.
const requests = 20

// A sender sends n requests one after another.
type sender = func(n int) error

// measureWires prints the table "What does a transport cost?". It has a row for each kind of
// request in the list wires. The first cells of a row are the CPU time of the handwritten loop, and
// the CPU time that each client takes in addition. The last two cells compare retryhttp with the
// loop and with go-retryablehttp. In each round the clients take turns, so that other programs of
// the machine disturb all clients equally. In each round, the CPU time of the loop is subtracted
// from the CPU time of the client. The table shows the median of these differences.
func measureWires(rounds int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e, err := startServers(ctx)
	if err != nil {
		return err
	}
	pool, err := e.transport()
	if err != nil {
		return err
	}
	defer pool.CloseIdleConnections()
	fmt.Print("### What does a transport cost?\n\n| |")
	for _, c := range httpClients {
		fmt.Printf(" %s |", c.name)
	}
	fmt.Printf(" of bare | of go-retryablehttp |\n|%s\n", strings.Repeat(" --- |", len(httpClients)+3))
	for _, w := range wires {
		clients := make([]sender, len(httpClients)) // nil: the client is not measured
		for i, c := range httpClients {
			if w.failures > 0 && c.leaks {
				continue
			}
			if clients[i], err = w.client(ctx, e.URLs[w.server], c.prepare(pool)); err != nil {
				return err
			}
		}
		if err := w.measure(clients, rounds); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// transport returns an http.Transport that trusts the certificate of the servers.
func (e endpoints) transport() (*http.Transport, error) {
	certificate, err := x509.ParseCertificate(e.Certificate)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}, nil
}

// client returns a sender that sends requests to url, through an http.Client with this
// RoundTripper.
func (w wire) client(ctx context.Context, url string, rt http.RoundTripper) (sender, error) {
	client := &http.Client{Transport: rt}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for i := range w.headers {
		req.Header.Set(fmt.Sprintf("X-Header-%d", i), "some value of this header")
	}
	return func(n int) error {
		for range n {
			status, text, err := get(client, req)
			if err != nil || status != http.StatusOK || text != "hello" {
				return fmt.Errorf("%d %q: %w", status, text, err)
			}
		}
		return nil
	}, nil
}

// measure measures how much CPU time each client needs for a request of the kind w. It prints one
// row of the table that measureWires prints: the row for w.
func (w wire) measure(clients []sender, rounds int) error {
	// warm is how many requests each client makes first, to open connections. These requests also show
	// how many allocations a request needs.
	const warm = 100 * requests
	cpu := make([][]float64, len(clients))  // microseconds of each client in each round
	over := make([][]float64, len(clients)) // these microseconds minus those of the handwritten loop
	cells := make([]string, len(clients))
	for i, send := range clients {
		if send == nil {
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := send(warm); err != nil {
			return err
		}
		runtime.ReadMemStats(&after)
		cells[i] = fmt.Sprintf("%.0f", float64(after.Mallocs-before.Mallocs)/warm)
	}
	for round := range rounds {
		for turn := range clients { // each round begins with another client
			i := (round + turn) % len(clients)
			if clients[i] == nil {
				continue
			}
			began := cpuTime()
			if err := clients[i](requests); err != nil {
				return err
			}
			cpu[i] = append(cpu[i], float64(cpuTime()-began)/1e3/requests)
		}
		for i := range clients {
			if clients[i] != nil {
				over[i] = append(over[i], cpu[i][round]-cpu[0][round])
			}
		}
	}
	bare, all := median(cpu[0]), map[string]float64{}
	fmt.Printf("| %s |", w.name)
	for i, c := range httpClients {
		switch {
		case clients[i] == nil:
			fmt.Print(" |")
			continue
		case i == 0:
			fmt.Printf(" %.1f us, %s |", bare, cells[i])
		default:
			fmt.Printf(" %+.1f us, %s |", median(over[i]), cells[i])
		}
		all[c.name] = bare + median(over[i])
	}
	fmt.Printf(" %.2fx | %.2fx |\n", all["retryhttp"]/bare, all["retryhttp"]/all["go-retryablehttp"])
	return nil
}

// cpuTime returns the CPU time that this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
