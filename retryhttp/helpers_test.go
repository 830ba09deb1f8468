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
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

var errReset = errors.New("connection reset by peer")

const ms = time.Millisecond

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

// An edit changes a Transport or the request that it gets.
type edit func(*retryhttp.Transport, *http.Request)

func (e edit) apply(tr *retryhttp.Transport, req *http.Request) {
	if e != nil {
		e(tr, req)
	}
}

func ofTransport(set func(*retryhttp.Transport)) edit {
	return func(tr *retryhttp.Transport, _ *http.Request) { set(tr) }
}

func ofRequest(set func(*http.Request)) edit {
	return func(_ *retryhttp.Transport, req *http.Request) { set(req) }
}

func header(name string, values ...string) edit {
	return ofRequest(func(req *http.Request) { req.Header[name] = values })
}

func idempotent(is bool) edit {
	return ofTransport(func(tr *retryhttp.Transport) { tr.Idempotent = func(*http.Request) bool { return is } })
}

func policy(p retry.Policy) edit { return ofTransport(func(tr *retryhttp.Transport) { tr.Policy = p }) }

func check(check retryhttp.CheckFunc) edit {
	return ofTransport(func(tr *retryhttp.Transport) { tr.Check = check })
}

// The function `returns` returns a Check whose result is always `failure`.
func returns(failure error) retryhttp.CheckFunc {
	return func(*http.Request, *http.Response, error) error { return failure }
}

// The function `always` returns a value for the field Budgets, which returns b for every request.
func always(b *retry.Budget) func(*http.Request) *retry.Budget {
	return func(*http.Request) *retry.Budget { return b }
}

// The function `send` sends reqs[0], or a GET if there is none. It fails the test if there is no
// response.
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

// textResponse returns a response. The arguments `header` are alternately names and values of its
// header.
func textResponse(status int, text string, header ...string) *http.Response {
	resp := responseWith(status, strings.NewReader(text), header...)
	resp.ContentLength = int64(len(text))
	return resp
}

// responseWith returns a response without a Content-Length.
func responseWith(status int, body io.Reader, header ...string) *http.Response {
	rc, ok := body.(io.ReadCloser)
	if !ok {
		rc = io.NopCloser(body)
	}
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: rc, ContentLength: -1}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// asksToWait returns a response. If seconds is above 0, the response has a Retry-After.
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

// The function `script` returns a Base that takes one step for each request, and repeats the last
// step. A step is a status, a response, an error, a function or a reply. The Base is safe for
// concurrent use.
func script(steps ...any) *scripted { return &scripted{steps: steps} }

type scripted struct {
	mu     sync.Mutex
	steps  []any
	sent   []*http.Request
	at     []time.Time
	bodies []*body // the body of each reply; nil: the reply had no body
	idle   int     // how often CloseIdleConnections was called
}

func (s *scripted) CloseIdleConnections() { s.idle++ }

// The method `count` returns how many requests were sent.
func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.sent)
	s.sent, s.at, s.bodies = append(s.sent, req), append(s.at, time.Now()), append(s.bodies, nil)
	step := s.steps[min(n, len(s.steps)-1)]
	s.mu.Unlock()
	return roundTrip(func(*http.Request) (*http.Response, error) {
		switch step := step.(type) {
		case int:
			return response(step), nil
		case *http.Response:
			return step, nil
		case func(*http.Request) (*http.Response, error):
			return step(req)
		case reply:
			resp, err := step.to(req, n)
			if err == nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.bodies[n] = resp.Body.(*body)
			}
			return resp, err
		default:
			return nil, step.(error)
		}
	}).RoundTrip(req)
}

// A reply answers a request after some time. It fails if the context of the request ends earlier.
type reply struct {
	after  time.Duration
	status int // 0: a connection that is reset
	wait   int // the Retry-After, in seconds; 0: none
	body   func(ctx context.Context) io.Reader
	deaf   bool                // the answer arrives although the context is done
	last   func(*http.Request) // is called when the reply is complete, and may panic
}

func (r reply) to(req *http.Request, n int) (*http.Response, error) {
	req.URL.Path, req.Header["X-Sent"] = fmt.Sprint("/", n), nil // a Base may change the request that it gets
	done := req.Context().Done()
	if r.deaf {
		done = nil
	}
	select {
	case <-time.After(r.after):
	case <-done:
		return nil, req.Context().Err()
	}
	if r.last != nil {
		r.last(req)
	}
	if r.status == 0 {
		return nil, errReset
	}
	resp := asksToWait(r.status, r.wait)
	b := &body{ctx: req.Context(), Reader: strings.NewReader(fmt.Sprint("answer ", n+1))}
	if r.body != nil {
		b.Reader = r.body(req.Context())
	}
	resp.Request, resp.Body, resp.ContentLength = req, b, -1
	return resp, nil
}

// The type `events` records events. Its method `add` is an OnEvent.
type events struct{ all []retry.Event }

func (s *events) add(_ context.Context, e retry.Event) { s.all = append(s.all, e) }

// The method `of` returns the events of one kind.
func (s *events) of(kind retry.EventKind) (found []retry.Event) {
	for _, e := range s.all {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// The method `stop` returns the CallFinished event if there is exactly one, and otherwise a zero
// Event.
func (s *events) stop() retry.Event {
	if found := s.of(retry.CallFinished); len(found) == 1 {
		return found[0]
	}
	return retry.Event{}
}

// A body records what is done with it.
type body struct {
	io.Reader
	onClose      func()
	ctx          context.Context // the context of its attempt; nil: `over` stays false
	read, closes int
	over         bool        // ctx was done when the body was closed
	shared       atomic.Bool // two goroutines used the body at the same time
	used         sync.Mutex
}

func (b *body) use() (release func()) {
	if !b.used.TryLock() {
		b.shared.Store(true)
		return func() {}
	}
	return b.used.Unlock
}

func (b *body) Read(p []byte) (int, error) {
	defer b.use()()
	n, err := b.Reader.Read(p)
	b.read += n
	return n, err
}

func (b *body) Close() error {
	defer b.use()()
	b.closes++
	b.over = b.ctx != nil && b.ctx.Err() != nil
	if b.onClose != nil {
		b.onClose()
	}
	return nil
}

func (b *body) closed() bool { return b.closes > 0 }

// The type `reads` turns a function into a reader.
type reads func([]byte) (int, error)

func (f reads) Read(p []byte) (int, error) { return f(p) }

// The function `breaks` returns a reader that returns the bytes of `text` and then fails with err.
func breaks(text string, err error) io.Reader {
	return io.MultiReader(strings.NewReader(text), iotest.ErrReader(err))
}

// The function `late` returns a reader of one byte. The byte comes after `empty` reads without a
// byte.
func late(empty int) reads {
	return func([]byte) (int, error) {
		if empty--; empty >= 0 {
			return 0, nil
		}
		return 1, io.EOF
	}
}

// The type `endless` is a reader that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// The type `stalled` is a reader that blocks until its context ends.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }

// The function `serve` starts a server and closes it when the test ends. By default it speaks
// HTTP/1.
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

// The function `piped` returns an http.Transport whose connections are pipes. The server at the
// other end answers `requests` requests on a connection, and then closes the connection.
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

// A timeoutError has the methods of a net.Error that the function `ask` calls. Linters report a
// call of the Temporary of net.Error itself, because it is deprecated.
type timeoutError interface {
	Timeout() bool
	Temporary() bool
}

// The function `ask` sends a request through tr to a Base that takes the given steps. It returns a
// text that says how often the request was sent, how long the call took, the last status, and why
// there was no further attempt.
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
