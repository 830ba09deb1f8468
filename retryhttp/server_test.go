package retryhttp_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrynet"
)

// These tests talk to servers on the loopback interface. They wait for
// milliseconds and check the decisions and what the server saw, never the
// clock.

// All attempts use one connection, whatever the bodies of the errors are.
func TestConnectionIsReused(t *testing.T) {
	for name, answer := range map[string]string{
		"no body":      "Content-Length: 0\r\n\r\n",
		"a short body": "Content-Length: 5\r\n\r\nsorry",
		"a long body":  "Content-Length: 60000\r\n\r\n" + strings.Repeat("x", 60000),
		"in chunks":    "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("5\r\nsorry\r\n", 10) + "0\r\n\r\n",
	} {
		bubble(t, name, func(t *testing.T) {
			conns := map[net.Conn]int{}
			base := piped(15, func(conn net.Conn, req *http.Request) {
				conns[conn]++
				_, _ = io.Copy(io.Discard, req.Body)
				text := answer
				if req.Method == "HEAD" {
					text = text[:strings.Index(text, "\r\n\r\n")+4]
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 503 Busy\r\n"+text)
			})
			for _, method := range []string{"GET", "HEAD", "PUT"} {
				req := request(t, method)
				rewindable(req, "data")
				resp := send(t, &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 5, AttemptTimeout: time.Minute}}, req)
				textOf(t, resp)
			}
			assert.Equal(t, []int{15}, slices.Collect(maps.Values(conns)))
		})
	}
}

func TestHTTP2(t *testing.T) {
	s := serve(t, atFirst(
		func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "sorry", http.StatusServiceUnavailable) },
		func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(503)
			for req.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1024))
			}
		},
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, // resets the stream
		func(w http.ResponseWriter, req *http.Request) { // an error response that stalls
			w.WriteHeader(503)
			_ = http.NewResponseController(w).Flush()
			<-req.Context().Done()
		},
		func(w http.ResponseWriter, req *http.Request) {
			text, err := io.ReadAll(req.Body)
			assert.NoError(t, err)
			fmt.Fprintf(w, "%s %s", req.Proto, text)
		},
	), http2)
	var seen events
	client := s.Client()
	client.Transport = &retryhttp.Transport{Base: client.Transport, Policy: retry.Policy{
		MaxAttempts: 9, AttemptTimeout: time.Minute, OnEvent: seen.add,
	}}
	assert.Equal(t, "HTTP/2.0 data", do(t, client, "PUT", s.URL, strings.NewReader("data")))
	assert.Equal(t, 5, seen.stop().Attempt)
	assert.True(t, retrynet.Transient(seen.of(retry.AttemptFinished)[2].Err), "a stream that the server resets")
	assert.EqualValues(t, 1, s.conns.Load(), "only streams are lost")
}

// The server answers without reading the request, and closes the connection
// while the body is being sent.
func TestLargeUpload(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	for proto, start := range protocols {
		t.Run(proto, func(t *testing.T) {
			s := serve(t, atFirst(
				func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
				func(_ http.ResponseWriter, req *http.Request) {
					_, _ = io.CopyN(io.Discard, req.Body, 1<<20)
					panic(http.ErrAbortHandler)
				},
				func(w http.ResponseWriter, req *http.Request) {
					got, err := io.ReadAll(req.Body)
					fmt.Fprint(w, bytes.Equal(data, got), " ", err)
				},
			), start)
			var seen events
			client := s.Client()
			client.Transport = &retryhttp.Transport{Base: client.Transport, Policy: retry.Policy{MaxAttempts: 5, OnEvent: seen.add}}
			assert.Equal(t, "true <nil>", do(t, client, "PUT", s.URL, bytes.NewReader(data)))
			assert.Equal(t, 3, seen.stop().Attempt)
		})
	}
}

// server counts the connections that it accepts.
type server struct {
	*httptest.Server
	conns atomic.Int64
}

// serve starts a server that is closed when the test ends, with HTTP/1 by default.
func serve(t *testing.T, handler http.HandlerFunc, start ...func(*httptest.Server)) *server {
	s := &server{Server: httptest.NewUnstartedServer(handler)}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	for _, start := range append(start, http1)[:1] {
		start(s.Server)
	}
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func http1(s *httptest.Server) { s.Start() }
func http2(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }

var protocols = map[string]func(*httptest.Server){"HTTP/1": http1, "HTTP/2": http2}

// atFirst returns a handler that calls one of these for each request, and repeats
// the last.
func atFirst(handlers ...http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, req *http.Request) {
		handlers[min(int(n.Add(1)), len(handlers))-1](w, req)
	}
}

// rawServer starts a TCP server without HTTP that is closed when the test ends.
// It calls serve with each connection, and then closes the connection.
func rawServer(t *testing.T, serve func(*net.TCPConn)) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { assert.NoError(t, l.Close()); wg.Wait() })
	return l.Addr().String()
}

// freeAddr returns an address on which nothing listens.
func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// do returns the text that a request is answered with.
func do(t *testing.T, client *http.Client, method, url string, data io.Reader) string {
	req, err := http.NewRequest(method, url, data)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	return textOf(t, resp)
}
