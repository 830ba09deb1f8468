// Command hedge measures clients that send a second request if the answer to the first request is
// slow. It prints the tables for the section "Second requests" of README.md. For each library it
// measures how long requests take, and how many requests and connections a server on loopback gets.
//
//	go run ./hedge
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cristalhq/hedgedhttp"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"

	"github.com/goretry/retry/retryhttp"
)

var (
	rate    = flag.Int("rate", 200, "requests a second")
	median  = flag.Duration("median", 10*time.Millisecond, "median time of an answer")
	measure = flag.Duration("for", 10*time.Second, "how long each case is measured")
)

// slow returns how long a slow answer takes.
func slow() time.Duration { return 50 * *median }

// after returns how long a library waits before it sends a second request.
func after() time.Duration { return 5 * *median }

// A library sends a second request if there is no answer after some time.
type library struct {
	name string
	over func(base http.RoundTripper) http.RoundTripper
}

var libraries = []library{
	{"none", func(base http.RoundTripper) http.RoundTripper { return base }},
	{"retryhttp.Hedge", func(base http.RoundTripper) http.RoundTripper {
		return &retryhttp.Hedge{Base: base, After: after()}
	}},
	{"cristalhq/hedgedhttp", func(base http.RoundTripper) http.RoundTripper {
		rt, err := hedgedhttp.NewRoundTripper(after(), 2, base)
		if err != nil {
			panic(err)
		}
		return rt
	}},
	{"failsafe-go, delay", func(base http.RoundTripper) http.RoundTripper {
		return failsafehttp.NewRoundTripper(base, hedgepolicy.NewWithDelay[*http.Response](after()))
	}},
	{"failsafe-go, quantile", func(base http.RoundTripper) http.RoundTripper {
		hedge := hedgepolicy.NewWithDelayQuantile[*http.Response](0.95, 100, 20)
		return failsafehttp.NewRoundTripper(base, hedge)
	}},
	{"failsafe-go, delay, budget", func(base http.RoundTripper) http.RoundTripper {
		hedge := hedgepolicy.NewBuilderWithDelay[*http.Response](after()).
			WithBudget(budget.NewBuilder().WithMaxRate(0.05).Build()).Build()
		return failsafehttp.NewRoundTripper(base, hedge)
	}},
}

// A trial says how long the answers of the server take.
type trial struct {
	name  string
	share float64 // the share of the answers that are slow
	work  int     // an answer that is not slow takes `work` times the value of the flag -median

	// limit is the load as a share of the largest load that the server can take. 0 means that the
	// server can take any load.
	limit float64
}

// trials lists the trials. Each trial begins with a warm-up, in which a library can learn how long
// the answers usually take. The warm-up sends the requests of trials[0] for two seconds, and is not
// measured.
var trials = []trial{
	{name: "2 % slow", share: 0.02, work: 1},
	{name: "all slow", work: 50},
	{name: "75 % of the limit", work: 15, limit: 0.75},
}

func main() {
	flag.Parse()
	fmt.Println("| | | p50 | p99 | requests | new connections | succeed |")
	fmt.Println("|" + strings.Repeat(" --- |", 7))
	for _, t := range trials {
		for _, l := range libraries {
			r := run(t, l)
			more := 100 * (float64(r.served)/float64(r.sent) - 1)
			fmt.Printf("| %s | %s | %.0f ms | %.0f ms | %+.1f %% | %d | %.1f %% |\n",
				t.name, l.name, ms(r.p50), ms(r.p99), more, r.connections,
				100*float64(r.ok)/float64(r.sent))
		}
	}
	fmt.Println("\n| an answer in time, in memory | time | allocations |")
	fmt.Println("|" + strings.Repeat(" --- |", 3))
	for _, l := range libraries {
		r := inTime(l)
		fmt.Printf("| %s | %.1f us | %d |\n", l.name, float64(r.NsPerOp())/1e3, r.AllocsPerOp())
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// A result is what was measured in a trial.
type result struct {
	sent, ok            int
	served, connections int64 // how many requests and new connections the server got
	p50, p99            time.Duration
}

// run measures a library in the trial t. To warm the library up, run first sends the requests of
// trials[0] for two seconds. These requests are not measured. Then run sends the requests of t. The
// timeout of a request is four times as long as a slow answer takes.
func run(t trial, l library) result {
	s := newServer(trials[0], t)
	defer func() { s.CloseClientConnections(); s.Close() }()
	base := &http.Transport{MaxIdleConns: 1000, MaxIdleConnsPerHost: 1000}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: l.over(base), Timeout: 4 * slow()}
	s.send(client, 0, 2*time.Second)
	s.measured.Store(true)
	took, ok := s.send(client, 1, *measure)
	slices.Sort(took)
	return result{
		sent:        len(took),
		ok:          ok,
		served:      s.served[1].Load(),
		connections: s.connections.Load(),
		p50:         took[len(took)/2],
		p99:         took[len(took)*99/100],
	}
}

// A server answers the requests of the warm-up and of a trial, and counts them separately.
type server struct {
	*httptest.Server
	served      [2]atomic.Int64
	connections atomic.Int64
	measured    atomic.Bool // whether new connections are counted
}

func newServer(pair ...trial) *server {
	s := &server{}
	var room [2]chan bool
	for i, t := range pair {
		if t.limit > 0 {
			room[i] = make(chan bool, int(float64(*rate*t.work)*median.Seconds()/t.limit))
		}
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		i := len(r.URL.Query().Get("measured"))
		t := pair[i]
		s.served[i].Add(1)
		if room[i] != nil { // like a database, the server finishes a request even if the client has gone
			room[i] <- true
			defer func() { <-room[i] }()
		}
		d := time.Duration(t.work) * *median
		if rand.Float64() < t.share {
			d = slow()
		}
		time.Sleep(time.Duration(float64(d) * (0.8 + 0.4*rand.Float64())))
		_, _ = io.WriteString(w, "hello")
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(answer))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew && s.measured.Load() {
			s.connections.Add(1)
		}
	}
	s.Start()
	return s
}

// send sends requests for the time d. If i is 0, they are the requests of the warm-up. If i is 1,
// they are the requests of the trial that is measured. send returns the time that each request
// took, and the number of requests that succeeded.
func (s *server) send(client *http.Client, i int, d time.Duration) (took []time.Duration, ok int) {
	took = make([]time.Duration, max(1, int(d.Seconds()*float64(*rate))))
	url := s.URL + "/?measured=" + strings.Repeat("x", i)
	var succeeded atomic.Int64
	var calls sync.WaitGroup
	began := time.Now()
	for n := range took {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(*rate))))
		calls.Go(func() {
			sent := time.Now()
			if get(client, url) == nil {
				succeeded.Add(1)
			}
			took[n] = time.Since(sent)
		})
	}
	calls.Wait()
	return took, int(succeeded.Load())
}

func get(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || string(text) != "hello") {
		err = fmt.Errorf("%s: %q", resp.Status, text)
	}
	return err
}

// inTime measures a request whose answer comes before a second request is sent.
func inTime(l library) testing.BenchmarkResult {
	return testing.Benchmark(func(b *testing.B) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", nil)
		if err != nil {
			b.Fatal(err)
		}
		rt := l.over(answers{})
		b.ReportAllocs()
		for b.Loop() {
			resp, err := rt.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
}

// The type `answers` is a RoundTripper that returns a response at once.
type answers struct{}

func (answers) RoundTrip(req *http.Request) (*http.Response, error) {
	body := io.NopCloser(strings.NewReader("hello"))
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: req}, nil
}
