package sse_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/sse"
)

// A feed is a server that sends numbered events, and cuts each connection after some events.
type feed struct {
	last  int // the number of the last event
	each  int // how many new events each connection gets
	again int // how many earlier events each connection gets again
	cut   func(http.ResponseWriter, int)
	down  func(n int) bool // reports whether the n-th request gets a 503

	requests, cuts atomic.Int64
}

func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := f.requests.Add(1); f.down != nil && f.down(int(n)) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	id, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	if id == f.last {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for n := max(1, id+1-f.again); n <= min(f.last, id+f.each); n++ {
		_, _ = io.WriteString(w, event(n, n))
	}
	f.cuts.Add(1)
	f.cut(w, min(f.last, id+f.each)+1)
}

// The function `half` sends half of the event n.
func half(w http.ResponseWriter, n int) {
	_, _ = fmt.Fprintf(w, "id: %d\ndata: %d", n, n)
	_ = http.NewResponseController(w).Flush()
}

func abort(http.ResponseWriter, int) { panic(http.ErrAbortHandler) }

// After half an event, resetAfter resets the connection over HTTP/1, and the stream over HTTP/2.
func resetAfter(w http.ResponseWriter, n int) {
	half(w, n)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		abort(w, n)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// The variable `ways` lists the ways in which a connection is cut.
var ways = map[string]func(*feed){
	"reset":                func(f *feed) { f.cut = resetAfter },
	"end inside an event":  func(f *feed) { f.cut = half },
	"10 % 503":             func(f *feed) { f.cut, f.down = resetAfter, func(n int) bool { return n%10 == 0 } },
	"the last event again": func(f *feed) { f.cut, f.again = func(http.ResponseWriter, int) {}, 1 },
	"aborted": func(f *feed) {
		f.cut = func(w http.ResponseWriter, n int) { _ = http.NewResponseController(w).Flush(); abort(w, n) }
	},
}

// The function `length` returns how many events a feed has, and after how many events it cuts a
// connection. So there are 50 cuts, or 1,000 cuts with RETRY_LONG.
func length() (events, each int) {
	if os.Getenv("RETRY_LONG") != "" {
		return 20_000, 20
	}
	return 1_000, 20
}

// readsAll reads a feed, and asserts that each event arrives once, in order.
func readsAll(t *testing.T, client *http.Client, url string, f *feed) {
	s := &sse.Stream{Client: client, Policy: retry.Policy{MaxAttempts: retry.Unlimited}}
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	require.NoError(t, err)
	n := 0
	for e, err := range s.Events(req) {
		require.NoError(t, err)
		n++
		require.Equal(t, strconv.Itoa(n), e.ID)
		require.Equal(t, e.ID, string(e.Data))
	}
	assert.Equal(t, f.last, n)
	assert.EqualValues(t, (f.last+f.each-1)/f.each, f.cuts.Load())
}

func newFeed(way func(*feed)) *feed {
	f := &feed{}
	f.last, f.each = length()
	way(f)
	return f
}

// The type `listener` is a net.Listener whose connections are pipes, so that a server runs in a
// bubble.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newListener() *listener { return &listener{conns: make(chan net.Conn), done: make(chan struct{})} }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *listener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (l *listener) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// The function `protocols` returns HTTP/1, or HTTP/2 without TLS.
func protocols(http2 bool) *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(!http2)
	p.SetUnencryptedHTTP2(http2)
	return &p
}

// Whatever cuts a stream, each event arrives once, and no goroutine is left. A bubble fails if a
// goroutine is left at its end.
func TestCutsInABubble(t *testing.T) {
	for name, way := range ways {
		for _, http2 := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, HTTP/%d", name, map[bool]int{false: 1, true: 2}[http2]), func(t *testing.T) {
				f, l := newFeed(way), newListener()
				server := &http.Server{Handler: f, Protocols: protocols(http2), ErrorLog: log.New(io.Discard, "", 0)}
				go func() { _ = server.Serve(l) }()
				base := &http.Transport{DialContext: l.dial, Protocols: protocols(http2)}
				readsAll(t, over(base), "http://example.test/", f)
				base.CloseIdleConnections()
				_ = server.Close()
			})
		}
	}
}

// The type `dialer` counts open connections, so that a test can wait until all are closed.
type dialer struct{ open sync.WaitGroup }

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return &counted{Conn: conn, done: sync.OnceFunc(d.open.Done)}, nil
}

type counted struct {
	net.Conn
	done func()
}

func (c *counted) Close() error { defer c.done(); return c.Conn.Close() }

// The function `serve` starts a server on loopback, and returns a client and a dialer that counts
// the connections of this client.
func serve(t *testing.T, h http.Handler, http2 bool) (*httptest.Server, *http.Transport, *dialer) {
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	d := &dialer{}
	if http2 {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	base := server.Client().Transport.(*http.Transport).Clone()
	base.DialContext = d.dial
	return server, base, d
}

// The test cuts real connections over loopback. Each event arrives once, and at the end each
// connection is closed.
func TestCutsOfConnections(t *testing.T) {
	for name, way := range ways {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/%d", name, map[bool]int{false: 1, true: 2}[http2]), func(t *testing.T) {
				f := newFeed(way)
				server, base, d := serve(t, f, http2)
				readsAll(t, over(base), server.URL, f)
				base.CloseIdleConnections()
				d.open.Wait() // hangs if a connection is still open
			})
		}
	}
}

// The events arrive compressed and in small pieces, because the server flushes after each piece.
func TestGzipWithFlush(t *testing.T) {
	f := &feed{last: 300, each: 100}
	server, base, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "gzip", r.Header.Get("Accept-Encoding"))
		id, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		if id == f.last {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		f.cuts.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for n := id + 1; n <= id+f.each; n++ {
			for piece := range strings.SplitSeq(event(n, n), ":") {
				_, _ = io.WriteString(z, piece+map[bool]string{true: ":"}[!strings.HasSuffix(piece, "\n\n")])
				_ = z.Flush()
			}
		}
		_ = http.NewResponseController(w).Flush() // the compressed data has no end
	}), false)
	readsAll(t, over(base), server.URL, f)
}

// A proxy passes a stream on only after it has read the whole stream.
func TestProxyThatBuffers(t *testing.T) {
	f := newFeed(ways["end inside an event"])
	server, base, _ := serve(t, f, false)
	to, err := url.Parse(server.URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			resp.Body = io.NopCloser(strings.NewReader(string(text)))
			resp.ContentLength = int64(len(text))
		}
		return resp, err
	})
	front, client, _ := serve(t, proxy, false)
	readsAll(t, over(client), front.URL, f)
}

// A server that shuts down sends a GOAWAY and lets its streams end. The next request goes to the
// next server.
func TestGOAWAYThatLetsAStreamEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listeners := make(chan *listener, 2)
		leaves, left := make(chan struct{}), make(chan struct{})
		var servers []*http.Server
		for n := range 2 {
			l := newListener()
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-ID") == "4" {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, event(2*n+1, "a"))
				_ = http.NewResponseController(w).Flush()
				if n == 0 {
					close(leaves)
					synctest.Wait() // GOAWAY has been sent
				}
				_, _ = io.WriteString(w, event(2*n+2, "b"))
			})
			server := &http.Server{Handler: handler, Protocols: protocols(true)}
			go func() { _ = server.Serve(l) }()
			listeners <- l
			servers = append(servers, server)
		}
		go func() {
			<-leaves
			assert.NoError(t, servers[0].Shutdown(context.Background()))
			close(left)
		}()
		base := &http.Transport{Protocols: protocols(true), DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (<-listeners).dial(ctx, network, address)
		}}
		s := &sse.Stream{Client: over(base), Policy: patient}
		events, err := collect(s.Events(request(t, "GET")))
		require.NoError(t, err)
		assert.Equal(t, []string{"1 a", "2 b", "3 a", "4 b"}, events)
		<-left
		base.CloseIdleConnections()
		_ = servers[1].Close()
	})
}

// Several streams share a Transport, and each of them gets all events.
func TestStreamsAtOnce(t *testing.T) {
	f := newFeed(ways["10 % 503"])
	server, base, d := serve(t, f, false)
	client := &http.Client{Transport: &retryhttp.Transport{Base: base, Budgets: retryhttp.NoBudgets}}
	s := &sse.Stream{Client: client, Policy: retry.Policy{MaxAttempts: retry.Unlimited}}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
			if !assert.NoError(t, err) {
				return
			}
			n := 0
			for e, err := range s.Events(req) {
				n++
				if !assert.NoError(t, err) || !assert.Equal(t, strconv.Itoa(n), e.ID) {
					return
				}
			}
			assert.Equal(t, f.last, n)
		})
	}
	all.Wait()
	base.CloseIdleConnections()
	d.open.Wait()
}
