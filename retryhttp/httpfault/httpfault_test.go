package httpfault_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retryhttp/httpfault"
)

// The function `echo` returns a server in memory, which answers with the body of the request.
func echo(sent *int) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		*sent++
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("you said " + string(text))), Request: req}, req.Body.Close()
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name    string
		fault   httpfault.Fault
		took    time.Duration
		sent    int    // how many requests reach the server
		read    string // the bytes of the request's body that are read
		status  int
		header  string // the Retry-After of the answer
		err     error  // the error of the request
		body    string // the body of the response
		bodyErr error
	}{
		{"nil", nil, 0, 1, "hello", 200, "", nil, "you said hello", nil},
		{"before", httpfault.Before(boom), 0, 0, "", 0, "", boom, "", nil},
		{"before, nil", httpfault.Before(nil), 0, 0, "", 0, "", io.ErrUnexpectedEOF, "", nil},
		{"after", httpfault.After(boom), 0, 1, "hello", 0, "", boom, "", nil},
		{"after, nil", httpfault.After(nil), 0, 1, "hello", 0, "", io.ErrUnexpectedEOF, "", nil},
		{"in the body", httpfault.InBody(3, boom), 0, 1, "hello", 200, "", nil, "you", boom},
		{"in the body, nil", httpfault.InBody(3, nil), 0, 1, "hello", 200, "", nil, "you", io.ErrUnexpectedEOF},
		{"in the body, at once", httpfault.InBody(0, boom), 0, 1, "hello", 200, "", nil, "", boom},
		{"in the body, below zero", httpfault.InBody(-1, boom), 0, 1, "hello", 200, "", nil, "", boom},
		{"in the body, after more bytes than it has", httpfault.InBody(99, boom), 0, 1, "hello", 200, "", nil, "you said hello", boom},
		{"503 with a wait", httpfault.Status(503, 2*time.Second), 0, 0, "hello", 503, "2", nil, "503 Service Unavailable", nil},
		{"a wait of a nanosecond", httpfault.Status(429, 1), 0, 0, "hello", 429, "1", nil, "429 Too Many Requests", nil},
		{"a wait of a second and a bit", httpfault.Status(429, time.Second+1), 0, 0, "hello", 429, "2", nil, "429 Too Many Requests", nil},
		{"a wait below zero", httpfault.Status(429, -1), 0, 0, "hello", 429, "", nil, "429 Too Many Requests", nil},
		{"a status without a name", httpfault.Status(599, 0), 0, 0, "hello", 599, "", nil, "599 Fault", nil},
		{"slow", httpfault.Slow(time.Hour, nil), time.Hour, 1, "hello", 200, "", nil, "you said hello", nil},
		{"slow, then another", httpfault.Slow(time.Hour, httpfault.Before(boom)), time.Hour, 0, "", 0, "", boom, "", nil},
		{"slow, until its context ends", httpfault.Slow(3*time.Hour, nil), 2 * time.Hour, 0, "", 0, "", context.DeadlineExceeded, "", nil},
		{"a custom fault", func(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
			_ = req.Body.Close()
			return nil, boom
		}, 0, 0, "", 0, "", boom, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				sent := 0
				faults := httpfault.New(echo(&sent), tt.fault)
				closed := 0
				b := &struct {
					io.Reader
					closer
				}{strings.NewReader("hello"), func() { closed++ }}
				req := httptest.NewRequestWithContext(ctx, "PUT", "http://example.test/a?b=c", b)
				req.Header.Set("X-Key", "k")
				assert.Equal(t, 1, faults.Left())

				start := time.Now()
				resp, err := faults.RoundTrip(req)
				assert.Equal(t, tt.took, time.Since(start))
				assert.Equal(t, tt.sent, sent)
				assert.Zero(t, faults.Left())
				assert.Equal(t, 1, closed, "the fault closes the request's body")
				assert.Same(t, b, req.Body, "the request is not modified")
				calls := faults.Calls()
				require.Len(t, calls, 1)
				req.Header.Set("X-Key", "another") // a Call holds copies
				calls[0].Header.Set("X-Key", "a third")
				copy(calls[0].Body, "j")
				calls = faults.Calls()
				assert.Equal(t, tt.read, string(calls[0].Body))
				calls[0].Body = nil
				assert.Equal(t, httpfault.Call{
					Time: start, Method: "PUT", URL: "http://example.test/a?b=c", Header: http.Header{"X-Key": {"k"}}, Status: tt.status, Err: tt.err,
				}, calls[0])
				assert.Equal(t, tt.err, err)
				if tt.err != nil {
					assert.Nil(t, resp)
					assert.Zero(t, faults.Open())
					return
				}
				assert.Equal(t, tt.status, resp.StatusCode)
				assert.Equal(t, tt.header, resp.Header.Get("Retry-After"))
				text, err := io.ReadAll(resp.Body)
				assert.Equal(t, tt.body, string(text))
				assert.Equal(t, tt.bodyErr, err)
				assert.Equal(t, 1, faults.Open(), "a body that was read but not closed")
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close())
				assert.Zero(t, faults.Open())
			})
		})
	}
}

// The base may return an error, a response without a body, or a connection. It may also break the
// contract of http.RoundTripper.
func TestBases(t *testing.T) {
	boom := errors.New("boom")
	conn := struct {
		io.ReadCloser
		io.Writer
	}{io.NopCloser(strings.NewReader("")), io.Discard}
	for name, tt := range map[string]struct {
		resp  *http.Response
		err   error // the error of base
		fault httpfault.Fault
		want  error
		read  error // the error of reading the body
	}{
		"an error":                        {nil, boom, nil, boom, nil},
		"an error, after":                 {nil, boom, httpfault.After(nil), boom, nil},
		"an error, in the body":           {nil, boom, httpfault.InBody(1, nil), boom, nil},
		"no body":                         {&http.Response{}, nil, nil, nil, nil},
		"no body, after":                  {&http.Response{}, nil, httpfault.After(nil), io.ErrUnexpectedEOF, nil},
		"no body, in the body":            {&http.Response{}, nil, httpfault.InBody(1, nil), nil, io.ErrUnexpectedEOF},
		"neither a response nor an error": {nil, nil, nil, nil, nil},
		"a connection":                    {&http.Response{StatusCode: 101, Body: conn}, nil, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			faults := httpfault.New(roundTrip(func(*http.Request) (*http.Response, error) { return tt.resp, tt.err }), tt.fault)
			resp, err := faults.RoundTrip(&http.Request{URL: &url.URL{Host: "example.test"}})
			assert.Equal(t, tt.want, err)
			if resp != nil && resp.Body != nil {
				_, err = io.ReadAll(resp.Body)
				assert.Equal(t, tt.read, err)
				assert.Equal(t, name == "a connection", resp.Body == any(conn))
				require.NoError(t, resp.Body.Close())
			}
			assert.Zero(t, faults.Open())
		})
	}
}

// If reading the request's body fails, the request fails, as it would with a server. The trace of
// the request shows that nothing was sent.
func TestRequests(t *testing.T) {
	boom := errors.New("boom")
	var asked []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GetConn:      func(addr string) { asked = append(asked, addr) },
		GotConn:      func(httptrace.GotConnInfo) { t.Error("a connection") },
		WroteHeaders: func() { t.Error("headers") },
	})
	req := httptest.NewRequestWithContext(ctx, "PUT", "http://example.test/", io.MultiReader(strings.NewReader("hel"), iotest.ErrReader(boom)))
	faults := httpfault.New(nil, httpfault.Status(503, 0), httpfault.Before(nil))
	_, err := faults.RoundTrip(req)
	assert.Equal(t, boom, err)
	assert.Equal(t, "hel", string(faults.Calls()[0].Body))
	assert.Empty(t, asked)
	_, err = faults.RoundTrip(req)
	assert.Equal(t, io.ErrUnexpectedEOF, err)
	assert.Equal(t, []string{"example.test"}, asked)
}

func TestCloseIdleConnections(t *testing.T) {
	closed := 0
	base := struct {
		http.RoundTripper
		closer
	}{nil, func() { closed++ }}
	(&http.Client{Transport: httpfault.New(base)}).CloseIdleConnections()
	assert.Equal(t, 1, closed)
	httpfault.New(roundTrip(nil)).CloseIdleConnections() // this base has no CloseIdleConnections
}

type closer func()

func (c closer) Close() error { c(); return nil }

func (c closer) CloseIdleConnections() { c() }

// The answer to a HEAD, a 204 and a 304 have no body, as from a server.
func TestStatusWithoutABody(t *testing.T) {
	for _, tt := range []struct {
		method string
		status int
	}{{"HEAD", 503}, {"GET", 204}, {"GET", 304}} {
		resp, err := httpfault.New(nil, httpfault.Status(tt.status, 0)).RoundTrip(httptest.NewRequest(tt.method, "http://example.test", nil))
		require.NoError(t, err)
		assert.Equal(t, http.NoBody, resp.Body, tt)
	}
}
