package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/launchdarkly/eventsource"
	"github.com/openai/openai-go/v3/packages/ssestream"
	r3labs "github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tmaxmax "github.com/tmaxmax/go-sse"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp/sse"
)

// eventReaders read a body of events to its end, each in the fastest way that the library
// documents. They return the number of events, and the number of bytes in their data.
var eventReaders = []struct {
	name string
	read func(body io.Reader) (events, bytes int)
}{
	{"retry", func(body io.Reader) (events, bytes int) {
		s := &sse.Stream{Client: &http.Client{Transport: answerWith{body}}}
		req, _ := http.NewRequest(http.MethodGet, "http://example.test/", nil)
		for e, err := range s.Events(req) {
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // sse treats the end of a body with IDs as a break
				panic(err)
			}
			if err == nil {
				events, bytes = events+1, bytes+len(e.Data)
			}
		}
		return events, bytes
	}},
	{"retry.Read", func(body io.Reader) (events, bytes int) {
		for e, err := range sse.Read(body, 0) {
			if err != nil {
				panic(err)
			}
			events, bytes = events+1, bytes+len(e.Data)
		}
		return events, bytes
	}},
	{"tmaxmax", func(body io.Reader) (events, bytes int) {
		for e, err := range tmaxmax.Read(body, nil) {
			if err != nil {
				panic(err)
			}
			events, bytes = events+1, bytes+len(e.Data)
		}
		return events, bytes
	}},
	{"launchdarkly", func(body io.Reader) (events, bytes int) {
		for d := eventsource.NewDecoder(body); ; {
			e, err := d.Decode()
			if err != nil {
				return events, bytes
			}
			events, bytes = events+1, bytes+len(e.Data())
		}
	}},
	{"r3labs", func(body io.Reader) (events, bytes int) { // a block of lines, which the client parses later
		for r := r3labs.NewEventStreamReader(body, 1<<16); ; {
			e, err := r.ReadEvent()
			if err != nil {
				return events, bytes
			}
			if _, data, ok := strings.Cut(string(e), "data: "); ok {
				events, bytes = events+1, bytes+len(data)
			}
		}
	}},
	{"openai", func(body io.Reader) (events, bytes int) {
		for d := ssestream.NewDecoder(&http.Response{Body: io.NopCloser(body)}); d.Next(); {
			events, bytes = events+1, bytes+len(d.Event().Data)-len("\n")
		}
		return events, bytes
	}},
}

// answerWith answers each request with a body of events.
type answerWith struct{ body io.Reader }

func (a answerWith) RoundTrip(req *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"text/event-stream"}}
	return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(a.body), ContentLength: -1, Request: req}, nil
}

// eventsOf returns n events with data of size bytes.
func eventsOf(n, size int) string {
	var b strings.Builder
	data := strings.Repeat("x", size)
	for i := range n {
		fmt.Fprintf(&b, "id: %d\ndata: %s\n\n", i, data)
	}
	return b.String()
}

const eventsInABody = 10_000

// BenchmarkEvents reads a body of 10,000 events from memory. Times and allocations are for one
// event. cpu-ns/op is CPU time, so other programs do not lengthen it.
func BenchmarkEvents(b *testing.B) {
	for _, size := range []int{20, 1000} {
		body := eventsOf(eventsInABody, size)
		for _, r := range eventReaders {
			b.Run(fmt.Sprintf("%dBytes/lib=%s", size, r.name), func(b *testing.B) {
				b.ReportAllocs()
				before := cpuTime()
				defer func() { b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op") }()
				for n := 0; n < b.N; n += eventsInABody {
					part := body
					if left := b.N - n; left < eventsInABody {
						part = body[:strings.LastIndex(body[:left*(len(body)/eventsInABody)], "\n\n")+2]
					}
					r.read(strings.NewReader(part))
				}
			})
		}
	}
}

func TestEveryReaderReadsTheSame(t *testing.T) {
	for _, size := range []int{20, 1000} {
		for _, r := range eventReaders {
			events, bytes := r.read(strings.NewReader(eventsOf(100, size)))
			assert.Equal(t, []int{100, 100 * size}, []int{events, bytes}, r.name)
		}
	}
}

// A cutter sends numbered events, 20 in each connection, and then cuts the connection as its fields
// say.
type cutter struct {
	last  int
	again int                                  // how many events it sends again
	half  bool                                 // whether it sends half an event before the end
	end   func(http.ResponseWriter)            // cuts the connection; nil ends it without an error
	down  func(request int) (unavailable bool) // whether a request gets a 503; nil means never

	requests int
}

func dataOf(n int) string { return fmt.Sprintf("event %d is whole.", n) }

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.requests++; c.down != nil && c.down(c.requests) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	id, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	if id >= c.last {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	to := min(c.last, id+20)
	for n := max(1, id+1-c.again); n <= to; n++ {
		_, _ = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", n, dataOf(n))
	}
	if c.half && to < c.last {
		_, _ = fmt.Fprintf(w, "id: %d\ndata: %s", to+1, dataOf(to + 1)[:7])
	}
	_ = http.NewResponseController(w).Flush()
	if c.end != nil {
		c.end(w)
	}
}

func resetOf(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

var cutWays = []struct {
	name  string
	http2 bool
	cut   func(*cutter)
}{
	{"reset", false, func(c *cutter) { c.end = resetOf }},
	{"end inside an event", false, func(c *cutter) { c.half = true }},
	{"10 % 503", false, func(c *cutter) { c.end, c.down = resetOf, func(n int) bool { return n%10 == 0 } }},
	{"the last event again", false, func(c *cutter) { c.again = 1 }},
	{"HTTP/2 reset", true, func(c *cutter) { c.half, c.end = true, func(http.ResponseWriter) { panic(http.ErrAbortHandler) } }},
}

// everyMillisecond is the delay of all clients, in the form that r3labs needs.
type everyMillisecond struct{}

func (everyMillisecond) NextBackOff() time.Duration { return time.Millisecond }
func (everyMillisecond) Reset()                     {}

// eventClients return the events of a URL until the stream ends or ctx is done.
var eventClients = []struct {
	name string
	read func(ctx context.Context, client *http.Client, url string, hand func(id, data string))
}{
	{"retry", func(ctx context.Context, client *http.Client, url string, hand func(id, data string)) {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		policy := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(time.Millisecond)}
		for e, err := range (&sse.Stream{Client: client, Policy: policy}).Events(req) {
			if err == nil {
				hand(e.ID, string(e.Data))
			}
		}
	}},
	{"tmaxmax", func(ctx context.Context, client *http.Client, url string, hand func(id, data string)) {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		c := tmaxmax.Client{HTTPClient: client, Backoff: tmaxmax.Backoff{InitialInterval: time.Millisecond, Multiplier: 1, Jitter: -1}}
		conn := c.NewConnection(req)
		conn.SubscribeToAll(func(e tmaxmax.Event) { hand(e.LastEventID, e.Data) })
		_ = conn.Connect()
	}},
	{"launchdarkly", func(ctx context.Context, client *http.Client, url string, hand func(id, data string)) {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		stream, err := eventsource.SubscribeWithRequestAndOptions(req, eventsource.StreamOptionHTTPClient(client),
			eventsource.StreamOptionInitialRetry(time.Millisecond), eventsource.StreamOptionCanRetryFirstConnection(-1),
			eventsource.StreamOptionErrorHandler(func(error) eventsource.StreamErrorHandlerResult {
				return eventsource.StreamErrorHandlerResult{CloseNow: ctx.Err() != nil}
			}))
		if err != nil {
			return
		}
		defer stream.Close()
		for {
			select {
			case e, open := <-stream.Events:
				if !open {
					return
				}
				hand(e.Id(), e.Data())
			case <-ctx.Done():
				return
			}
		}
	}},
	{"r3labs", func(ctx context.Context, client *http.Client, url string, hand func(id, data string)) {
		c := r3labs.NewClient(url)
		c.Connection, c.ReconnectStrategy = client, everyMillisecond{}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.SubscribeRawWithContext(ctx, func(e *r3labs.Event) { hand(string(e.ID), string(e.Data)) })
		}()
		select {
		case <-ended:
		case <-ctx.Done(): // otherwise the client would go on forever
		}
	}},
}

// TestEventsThroughCuts prints the table of README.md: 1,000 events in 50 connections.
func TestEventsThroughCuts(t *testing.T) {
	const last = 1000
	table := map[string][4]int{}
	for _, way := range cutWays {
		for _, c := range eventClients {
			server := &cutter{last: last}
			way.cut(server)
			s := httptest.NewUnstartedServer(server)
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			if s.EnableHTTP2 = way.http2; way.http2 {
				s.StartTLS()
			} else {
				s.Start()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			seen, twice, half := map[string]bool{}, 0, 0
			c.read(ctx, s.Client(), s.URL, func(id, data string) {
				n, _ := strconv.Atoi(id)
				switch {
				case ctx.Err() != nil:
				case data != dataOf(n):
					half++
				case seen[id]:
					twice++
				default:
					seen[id] = true
				}
				if n == last {
					cancel()
				}
			})
			ended := 1
			if ctx.Err() == context.DeadlineExceeded {
				ended = 0
			}
			cancel()
			s.CloseClientConnections()
			s.Close()
			table[way.name+" "+c.name] = [4]int{last - len(seen), twice, half, ended}
		}
	}
	for _, way := range cutWays {
		row := "| " + way.name + " |"
		for _, c := range eventClients {
			r := table[way.name+" "+c.name]
			row += fmt.Sprintf(" %d, %d, %d |", r[0], r[1], r[2])
		}
		t.Log(row)
		assert.Equal(t, [4]int{0, 0, 0, 1}, table[way.name+" retry"], way.name)
	}
	// docs/coming-from.md makes these three claims.
	require.Positive(t, table["10 % 503 tmaxmax"][0], "tmaxmax ends at the first 503")
	require.Positive(t, table["the last event again launchdarkly"][1], "launchdarkly returns the last event again")
	require.Positive(t, table["end inside an event r3labs"][0]+table["end inside an event r3labs"][2], "r3labs returns half an event, or ends")
}
