package retryhttp_test

import (
	"bufio"
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
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var errReset = errors.New("connection reset by peer")

// bubble runs a subtest in virtual time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// request returns a request without a body.
func request(t *testing.T, method string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), method, "http://example.test/", nil)
	require.NoError(t, err)
	return req
}

// rewindable gives a request a body that can be sent again.
func rewindable(req *http.Request, data string) {
	req.ContentLength = int64(len(data))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }
	req.Body, _ = req.GetBody()
}

// send sends a GET, or the request that is given, which gets a response.
func send(t *testing.T, rt http.RoundTripper, reqs ...*http.Request) (resp *http.Response) {
	t.Helper()
	resp, err := rt.RoundTrip(append(reqs, request(t, "GET"))[0])
	require.NoError(t, err)
	return resp
}

// textOf reads the body of a response.
func textOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

func response(status int, header ...string) *http.Response {
	return textResponse(status, "", header...)
}

// textResponse returns a response with names and values of its header.
func textResponse(status int, text string, header ...string) *http.Response {
	resp := responseWith(status, io.NopCloser(strings.NewReader(text)), header...)
	resp.ContentLength = int64(len(text))
	return resp
}

// responseWith returns a response whose length is not known.
func responseWith(status int, body io.ReadCloser, header ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: body, ContentLength: -1}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// asksToWait returns a response with a Retry-After, if that is above 0.
func asksToWait(status, seconds int) *http.Response {
	if seconds > 0 {
		return response(status, "Retry-After", strconv.Itoa(seconds))
	}
	return response(status)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	return f(req)
}

// script is a RoundTripper that takes one step for each request and repeats the
// last one: a status, a response, an error, or a function.
func script(steps ...any) *scripted { return &scripted{steps: steps} }

type scripted struct {
	steps []any
	sent  []*http.Request
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	step := s.steps[min(len(s.sent), len(s.steps)-1)]
	s.sent = append(s.sent, req)
	return roundTrip(func(*http.Request) (*http.Response, error) {
		switch step := step.(type) {
		case int:
			return response(step), nil
		case *http.Response:
			return step, nil
		case func(*http.Request) (*http.Response, error):
			return step(req)
		default:
			return nil, step.(error)
		}
	}).RoundTrip(req)
}

// events is an OnEvent that records the events. It is safe for concurrent use.
type events struct {
	mu  sync.Mutex
	all []retry.Event
}

func (s *events) add(_ context.Context, e retry.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e)
}

// of returns the events of one kind.
func (s *events) of(kind retry.EventKind) (found []retry.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// stop returns the one CallFinished event, or a zero one.
func (s *events) stop() retry.Event {
	if found := s.of(retry.CallFinished); len(found) == 1 {
		return found[0]
	}
	return retry.Event{}
}

// body records what was done with it.
type body struct {
	io.Reader
	read    int
	closed  bool
	onClose func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += n
	return n, err
}

func (b *body) Close() error {
	b.closed = true
	if b.onClose != nil {
		b.onClose()
	}
	return nil
}

// funcs is a body of functions; a nil one does nothing.
type funcs struct {
	read  func([]byte) (int, error)
	close func() error
}

func (f funcs) Read(p []byte) (int, error) {
	if f.read == nil {
		return 0, io.EOF
	}
	return f.read(p)
}

func (f funcs) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// breaks returns a body that ends with an error after this text.
func breaks(text string, err error) io.ReadCloser {
	return io.NopCloser(io.MultiReader(strings.NewReader(text), iotest.ErrReader(err)))
}

// late is a body of one byte, which comes after so many reads.
func late(reads int) funcs {
	return funcs{read: func([]byte) (int, error) {
		if reads--; reads >= 0 {
			return 0, nil
		}
		return 1, io.EOF
	}}
}

// endless is a reader that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// stalled is a reader that blocks until its context ends.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }

// closer is a Base with connections to close.
type closer struct {
	scripted
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }

// serve starts a server that is closed when the test ends, with HTTP/1 by default.
func serve(t *testing.T, handler http.HandlerFunc, start ...func(*httptest.Server)) *httptest.Server {
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	append(start, http1)[0](s)
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

// piped returns an http.Transport whose connections are pipes, each to a server that
// answers so many requests and closes the connection.
func piped(requests int, serve func(net.Conn, *http.Request)) *http.Transport {
	return &http.Transport{DisableKeepAlives: requests == 1, ReadBufferSize: 128 << 10, DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			in := bufio.NewReader(server)
			for range requests {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				serve(server, req)
			}
		}()
		return client, nil
	}}
}

// A timeoutError is a net.Error, whose Temporary is deprecated: net/http's own asks for it.
type timeoutError interface {
	Timeout() bool
	Temporary() bool
}

// ask sends a request through tr to a Base that takes these steps. It returns how often it
// was sent, in what time, and what came of it: the status, and why it was the last.
func ask(t *testing.T, tr *retryhttp.Transport, req *http.Request, steps ...any) string {
	base := script(steps...)
	tr.Base = base
	start := time.Now()
	resp, err := tr.RoundTrip(req)
	told := fmt.Sprint(len(base.sent), " sent")
	if took := time.Since(start); took > 0 {
		told += fmt.Sprint(" in ", took)
	}
	if err == nil {
		told, err = fmt.Sprint(told, ", ", resp.StatusCode), retryhttp.ErrorOf(resp)
	}
	if e, ok := err.(timeoutError); ok && e.Timeout() && e.Temporary() {
		told += ", timeout"
	}
	if err != nil {
		told += strings.ReplaceAll(strings.TrimPrefix(err.Error(), "retry"), "retryhttp: "+req.Method+" http://example.test/: ", "")
	}
	return told
}
