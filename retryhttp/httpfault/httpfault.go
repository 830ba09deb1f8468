// Package httpfault makes HTTP requests fail according to a script, to test a client. Such a test
// shows whether the client repeats a request that was processed, waits for a Retry-After, sends a
// body again from its beginning, and closes responses.
//
// [New] puts a script in front of any http.RoundTripper. Each request gets the next [Fault] of the
// script. After the last fault, all requests are sent to the server. In this example no server is
// needed, and the answers are 503, 503 and 200:
//
//	busy := httpfault.Status(503, 0)
//	faults := httpfault.New(nil, busy, busy, httpfault.Status(200, 0))
//	client := &http.Client{Transport: &retryhttp.Transport{Base: faults, Policy: policy}}
//
// A script can also pass requests to a real server, break connections and lose answers:
//
//	faults := httpfault.New(http.DefaultTransport,
//		httpfault.Before(syscall.ECONNREFUSED), // the server never sees the first request
//		httpfault.Status(503, 2*time.Second),   // the second gets a 503 with Retry-After: 2
//		httpfault.After(syscall.ECONNRESET),    // the third is processed, but its answer is lost
//		httpfault.InBody(10, nil),              // the fourth answer breaks off after ten bytes
//		httpfault.Slow(time.Second, nil),       // the fifth request takes a second longer
//	)
//
// After the test, [Transport.Calls] returns the requests and the times of their arrival.
// [Transport.Left] returns the number of unused faults, and [Transport.Open] the number of
// responses that were not closed.
package httpfault

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/iotest"
	"time"

	"github.com/goretry/retry/internal/wait"
)

// A Fault handles one request: it answers the request itself, sends it through base, or returns an
// error. Like a RoundTripper, it closes the request's body. A nil Fault sends the request through
// base. You can write your own Fault as a function literal.
type Fault func(req *http.Request, base http.RoundTripper) (*http.Response, error)

// Before returns a fault that fails with err and sends nothing, so the server never sees the
// request. If the request's context has an httptrace, the fault calls the hook GetConn of the
// trace, but not the hook GotConn. net/http does the same if it gets no connection. If err is nil,
// the error is io.ErrUnexpectedEOF.
func Before(err error) Fault {
	return func(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GetConn != nil {
			trace.GetConn(req.URL.Host)
		}
		closeBody(req)
		return nil, broken(err)
	}
}

// After returns a fault that sends the request, closes the answer and fails with err. So the server
// has processed the request, and the client cannot know it. If err is nil, the error is
// io.ErrUnexpectedEOF.
func After(err error) Fault {
	return func(req *http.Request, base http.RoundTripper) (*http.Response, error) {
		resp, failed := base.RoundTrip(req)
		if failed != nil {
			return nil, failed
		}
		if resp.Body != nil {
			_ = resp.Body.Close()
		}
		return nil, broken(err)
	}
}

// InBody returns a fault that sends the request, and makes the body of the answer fail with err
// after n bytes. A body of fewer bytes fails at its end. If err is nil, the error is
// io.ErrUnexpectedEOF.
func InBody(n int64, err error) Fault {
	return func(req *http.Request, base http.RoundTripper) (*http.Response, error) {
		resp, failed := base.RoundTrip(req)
		if failed != nil {
			return nil, failed
		}
		whole := resp.Body
		if whole == nil {
			whole = http.NoBody
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(whole, n), iotest.ErrReader(broken(err))), whole}
		return resp, nil
	}
}

// Status returns a fault that answers the request itself, with a status and a short text. The text
// is missing if the answer has no body, as after a HEAD. Like a server, the fault first reads the
// request's body. If wait is above 0, the answer has a Retry-After in seconds, rounded up. If wait
// is 0 or less, the answer has no Retry-After.
func Status(code int, wait time.Duration) Fault {
	return func(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if req.Body != nil {
			_, err := io.Copy(io.Discard, req.Body)
			closeBody(req)
			if err != nil {
				return nil, err
			}
		}
		text := fmt.Sprintf("%d %s", code, cmp.Or(http.StatusText(code), "Fault"))
		resp := &http.Response{
			Status: text, StatusCode: code,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
			Body:          io.NopCloser(strings.NewReader(text)),
			ContentLength: int64(len(text)),
			Request:       req,
		}
		if req.Method == http.MethodHead || code == http.StatusNoContent ||
			code == http.StatusNotModified {
			resp.Body = http.NoBody // RFC 9110 section 6.4.1
			if req.Method != http.MethodHead {
				resp.ContentLength = 0
			}
		}
		if wait > 0 {
			seconds := (wait-1)/time.Second + 1
			resp.Header.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		}
		return resp, nil
	}
}

// Slow returns a fault that waits for d and then calls the fault `inner`. If the request's context
// is done during the wait, the request is not sent, and fails with the context's error.
func Slow(d time.Duration, inner Fault) Fault {
	return func(req *http.Request, base http.RoundTripper) (*http.Response, error) {
		if _, err := wait.For(req.Context(), d); err != nil {
			closeBody(req)
			return nil, err
		}
		return inner.answer(req, base)
	}
}

// The method `answer` calls f. If f is nil, it sends the request through base.
func (f Fault) answer(req *http.Request, base http.RoundTripper) (*http.Response, error) {
	if f == nil {
		return base.RoundTrip(req)
	}
	return f(req, base)
}

func broken(err error) error { return cmp.Or(err, io.ErrUnexpectedEOF) }

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// A Transport is an http.RoundTripper whose requests fail according to a script. Each request gets
// the next fault of the script when it arrives. A Transport is safe for concurrent use.
type Transport struct {
	base http.RoundTripper

	mu     sync.Mutex
	script []Fault // the faults that are not used yet
	calls  []*Call
	open   int
}

// New returns a Transport whose first request gets the first fault of the script, the second
// request the second fault, and so on. After the script, requests are sent through base. If base is
// nil, http.DefaultTransport is used.
func New(base http.RoundTripper, script ...Fault) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	return &Transport{base: base, script: slices.Clone(script)}
}

// A Call is one request and its answer.
type Call struct {
	Time   time.Time // when the request arrived
	Method string
	URL    string
	Header http.Header // the header of the request
	Body   []byte      // the bytes of the request's body that were read
	Status int         // the status of the answer; 0: there was no answer
	Err    error       // the error of the request; nil: there was an answer
}

// RoundTrip answers req according to the next fault of the script.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call := &Call{
		Time: time.Now(), Method: req.Method, URL: req.URL.String(), Header: req.Header.Clone(),
	}
	fault := t.next(call)
	if req.Body != nil && req.Body != http.NoBody {
		read := req.Body
		req = req.WithContext(req.Context()) // a copy, because a RoundTripper must not modify its request
		req.Body = recorder{read, t, call}
	}

	resp, err := fault.answer(req, t.base)

	t.mu.Lock()
	defer t.mu.Unlock()
	if call.Err = err; err != nil || resp == nil {
		return resp, err
	}
	call.Status = resp.StatusCode
	connection := resp.StatusCode == http.StatusSwitchingProtocols
	if resp.Body != nil && resp.Body != http.NoBody && !connection {
		t.open++
		resp.Body = &counted{ReadCloser: resp.Body, closed: sync.OnceFunc(t.closed)}
	}
	return resp, nil
}

// CloseIdleConnections closes the idle connections of the base. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// Calls returns the requests that have arrived, in the order of their arrival.
func (t *Transport) Calls() []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := make([]Call, len(t.calls))
	for i, call := range t.calls {
		calls[i] = *call
		calls[i].Header = call.Header.Clone()
		calls[i].Body = slices.Clone(call.Body)
	}
	return calls
}

// Left returns how many faults of the script are not used yet.
func (t *Transport) Left() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.script)
}

// Open returns how many responses have a body that is not closed. Responses whose body is
// http.NoBody do not count. Connections after a 101 Switching Protocols do not count either.
func (t *Transport) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// The method `next` stores a call that has arrived, and removes the next fault from the script.
func (t *Transport) next(call *Call) (fault Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, call)
	if len(t.script) > 0 {
		fault, t.script = t.script[0], t.script[1:]
	}
	return fault
}

// The method `closed` is called when a response is closed.
func (t *Transport) closed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
}

// A recorder is the body of a request. It appends the bytes of each Read to the Body of the call.
type recorder struct {
	io.ReadCloser
	t    *Transport
	call *Call
}

func (r recorder) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	r.call.Body = append(r.call.Body, p[:n]...)
	return n, err
}

// The type `counted` is the body of a response. After its first Close, the response counts as
// closed.
type counted struct {
	io.ReadCloser
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}
