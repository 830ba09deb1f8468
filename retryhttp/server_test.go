package retryhttp_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
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
			base := piped(18, func(conn net.Conn, req *http.Request) {
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
			for range 3 {
				_, err := retryhttp.Result((&retryhttp.Transport{Base: base}).RoundTrip(request(t, "GET")))
				assert.ErrorContains(t, err, "503")
			}
			assert.Equal(t, []int{18}, slices.Collect(maps.Values(conns)))
		})
	}
}

// An attempt lives until Check has returned, whatever Check does with the body, so that one
// that begins with the error of the context, as those for go-retryablehttp do, can retry.
// It ends with the body that Check has left.
func TestAttemptLivesUntilCheckHasReturned(t *testing.T) {
	whole := strings.Repeat("0123456789abcdef", 1<<16)
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = io.WriteString(zip, whole)
	_ = zip.Close()
	handler := func(w http.ResponseWriter, req *http.Request) {
		text := whole
		switch req.URL.Path {
		case "/empty":
			text = ""
		case "/gzip":
			text = packed.String()
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(503)
		_, _ = io.WriteString(w, text)
	}
	http1, http2 := serve(t, handler), serve(t, handler, http2)
	checks := map[string]func(*http.Response){
		"leaves the body": func(*http.Response) {},
		"closes it":       func(resp *http.Response) { _ = resp.Body.Close() },
		"reads it":        func(resp *http.Response) { _, _ = io.Copy(io.Discard, resp.Body) },
		"drops it":        func(resp *http.Response) { _ = resp.Body.Close(); resp.Body = http.NoBody },
		"copies it": func(resp *http.Response) {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(text))
		},
	}
	for name, with := range checks {
		for _, base := range []struct {
			rt  http.RoundTripper
			url string
		}{
			{http1.Client().Transport, http1.URL + "/"}, {http1.Client().Transport, http1.URL + "/empty"}, {http1.Client().Transport, http1.URL + "/gzip"},
			{http2.Client().Transport, http2.URL + "/"}, {http2.Client().Transport, http2.URL + "/empty"}, {http2.Client().Transport, http2.URL + "/gzip"},
			{script(responseWith(503, http.NoBody)), "http://example.test/empty"},
		} {
			for _, timeout := range []time.Duration{0, time.Hour} {
				var ctx context.Context
				tr := &retryhttp.Transport{Base: base.rt, Policy: retry.Policy{MaxAttempts: 3, AttemptTimeout: timeout}}
				tr.Check = func(req *http.Request, resp *http.Response, err error) error {
					with(resp)
					if ctx = req.Context(); ctx.Err() != nil {
						return retry.Permanent(ctx.Err())
					}
					return retryhttp.Check(req, resp, err)
				}
				req, err := http.NewRequestWithContext(t.Context(), "GET", base.url, nil)
				require.NoError(t, err)
				resp := send(t, tr, req)
				assert.ErrorContains(t, retryhttp.ErrorOf(resp), "exhausted after 3 attempts", "%s: %s, %v", name, base.url, timeout)
				if name == "copies it" && !strings.HasSuffix(base.url, "/empty") {
					assert.NoError(t, ctx.Err(), "it has still a body")
					assert.Equal(t, len(whole), len(textOf(t, resp)))
				}
				require.NoError(t, resp.Body.Close())
				assert.Error(t, ctx.Err())
			}
		}
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
