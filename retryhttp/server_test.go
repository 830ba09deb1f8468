package retryhttp_test

import (
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
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

// serve starts a server that is closed when the test ends, with HTTP/1 by default.
func serve(t *testing.T, handler http.HandlerFunc, start ...func(*httptest.Server)) *httptest.Server {
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	for _, start := range append(start, http1)[:1] {
		start(s)
	}
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func http1(s *httptest.Server) { s.Start() }
func http2(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }

var protocols = map[string]func(*httptest.Server){"HTTP/1": http1, "HTTP/2": http2}

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
