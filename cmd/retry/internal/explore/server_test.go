package explore

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve starts a server and returns its address.
func serve(t *testing.T) string {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := NewServer(listener, NewInput(), NewSystemInput())
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		assert.Equal(t, http.ErrServerClosed, <-ended)
	})
	return listener.Addr().String()
}

// send sends a request, modified by change, and returns the response and its
// text.
func send(t *testing.T, method, target, body string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	require.NoError(t, err)
	if method == "POST" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(request)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(text)
}

func form(a, b string) string {
	return url.Values{"a": {a}, "b": {b}, "at": {""}, "from": {""}, "outage": {"10s"}, "clients": {"100"}, "size": {"5"}, "ratio": {"0.2"}}.Encode()
}

func TestServer(t *testing.T) {
	site := "http://" + serve(t)

	response, html := send(t, "GET", site+"/", "", nil)
	assert.Equal(t, 200, response.StatusCode)
	assert.Equal(t, "text/html; charset=utf-8", response.Header.Get("Content-Type"))
	assert.Contains(t, html, "<strong>5 attempts, exponential 200ms x2, at most 5s, ±20%</strong> (native)")
	assert.Contains(t, html, "<textarea id=\"a\"")
	policy := response.Header.Get("Content-Security-Policy")
	assert.True(t, strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self'; "), policy)

	for path, kind := range map[string]string{"/page.css": "text/css; charset=utf-8", "/page.js": "text/javascript; charset=utf-8"} {
		response, text := send(t, "GET", site+path, "", nil)
		assert.Equal(t, 200, response.StatusCode)
		assert.Equal(t, kind, response.Header.Get("Content-Type"))
		assert.NotEmpty(t, text)
	}

	// /answer returns only the answer, and the page has it for browsers without
	// scripts.
	response, html = send(t, "POST", site+"/answer", form("max_attempts: 3", ""), nil)
	assert.Equal(t, 200, response.StatusCode)
	assert.Contains(t, html, "<strong>3 attempts</strong>")
	assert.Contains(t, html, "<li>Line 1: 3 attempts without a backoff")
	assert.NotContains(t, html, "<textarea")
	assert.Contains(t, html, "an outage of 10s")
	_, html = send(t, "GET", site+"/?"+form("max_attempts: 3", "jitter: 2 # <i>"), "", nil)
	assert.Contains(t, html, `rows="12" aria-describedby="form-help">max_attempts: 3</textarea>`)
	assert.Contains(t, html, "jitter: 2 # &lt;i&gt;</textarea>")
	assert.Contains(t, html, `role="status" class="fault">Policy B: line 1: jitter is 2: `)
	assert.Contains(t, html, "<li>Line 1: jitter is 2: ")
	assert.Contains(t, html, `name="ratio" type="number" min="0" max="1" step="any" value="0.2"`)

	// What an address does not have is as at the beginning.
	_, html = send(t, "GET", site+"/?outage=1m", "", nil)
	assert.Contains(t, html, "<strong>5 attempts")
	assert.Contains(t, html, `name="outage" value="1m"`)

	for _, test := range []struct {
		name, method, path, body string
		change                   func(*http.Request)
		status                   int
	}{
		{"another path", "GET", "/page.html", "", nil, 404},
		{"another method", "PUT", "/answer", "", nil, 405},
		{"the longest address", "GET", "/?" + form(strings.Repeat("#", MaxText), strings.Repeat("#", MaxText)), "", nil, 200},
		{"not an address", "GET", "/?a=%zz", "", nil, 400},
		{"localhost", "GET", "/", "", func(r *http.Request) { r.Host = "localhost:" + r.URL.Port() }, 200},
		{"another name for this machine", "GET", "/", "", func(r *http.Request) { r.Host = "evil.example:" + r.URL.Port() }, 403},
		{"a name that only begins so", "GET", "/", "", func(r *http.Request) { r.Host = "127.0.0.1.evil.example:" + r.URL.Port() }, 403},
		{"another port", "GET", "/", "", func(r *http.Request) { r.Host = "127.0.0.1:1" }, 403},
		{"a style sheet for another host", "GET", "/page.css", "", func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"a form of another site", "POST", "/answer", form("max_attempts: 3", ""), func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		{"a form of another site, by its header", "POST", "/answer", form("max_attempts: 3", ""), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"its own form", "POST", "/answer", form("max_attempts: 3", ""), func(r *http.Request) { r.Header.Set("Origin", "http://"+r.URL.Host) }, 200},
		{"a form that is too long", "POST", "/answer", form(strings.Repeat("x", maxForm), ""), nil, 400},
		{"a text that is too long", "POST", "/answer", form(strings.Repeat("#", MaxText+1), ""), nil, 200},
		{"not a form", "POST", "/answer", "%zz", nil, 400},
		{"invalid numbers", "POST", "/answer", "a=max_attempts:+3&clients=x&ratio=x&outage=x", nil, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			response, text := send(t, test.method, site+test.path, test.body, test.change)
			assert.Equal(t, test.status, response.StatusCode, text)
			if test.status == 403 {
				assert.NotContains(t, text, "attempts")
			}
		})
	}
	_, html = send(t, "POST", site+"/answer", "a=max_attempts:+3&clients=x&size=1&ratio=x&outage=x", nil)
	assert.Contains(t, html, `<p class="fault">The number of clients is 0: write 1 to 100000.</p>`)
	assert.Contains(t, html, `<p class="fault">The outage needs a length from 1ms to 24h, such as 30s or 5m.</p>`)
	assert.Contains(t, html, `<p class="fault">The budget needs a size of at least 1 and a ratio from 0 to 1.</p>`)
}

// The number of pages that are computed at the same time is limited. Further
// requests wait for their turn, and give up when the browser does.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{turns: make(chan struct{}, computing)}
		for range computing {
			s.turns <- struct{}{}
		}
		show := func(ctx context.Context) (*httptest.ResponseRecorder, chan struct{}) {
			w, answered := httptest.NewRecorder(), make(chan struct{})
			go func() {
				defer close(answered)
				s.show(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil), "answer", func() any { return look(NewInput()) })
			}()
			synctest.Wait()
			return w, answered
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone, goneAnswered := show(ctx)
		patient, answered := show(t.Context())
		assert.Empty(t, patient.Body.String())
		cancel()
		<-goneAnswered
		assert.Empty(t, gone.Body.String())

		<-s.turns
		<-answered
		assert.Contains(t, patient.Body.String(), "5 attempts")
		assert.Len(t, s.turns, computing-1)
	})
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if connection, open := <-p; open {
		return connection, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// The server limits the time and the size of what it reads, and the time of what
// it writes.
func TestLimits(t *testing.T) {
	const get, post = "GET /page.css HTTP/1.1\r\nHost: 127.0.0.1:80\r\n", "POST /answer HTTP/1.1\r\nHost: 127.0.0.1:80\r\n" +
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n"
	for _, test := range []struct {
		name, request string
		reads         bool // the client reads the answer
		want          string
		after         time.Duration
	}{
		{"no header", "", true, "", 5 * time.Second},
		{"a part of the header", post, true, "", 5 * time.Second},
		{"a part of the form", post + "\r\na=", true, "HTTP/1.1 400 Bad Request\r\n", 10 * time.Second},
		{"no further request", get + "\r\n", true, "HTTP/1.1 200 OK\r\n", 10 * time.Second},
		{"a client that only writes", get + "\r\n" + strings.Repeat("x", 8<<10), false, "", 30 * time.Second},
		// net/http adds 4 KiB to the limit.
		{"the longest header", get + "Connection: close\r\nX: " + strings.Repeat("x", maxForm+(3<<10)) + "\r\n\r\n",
			true, "HTTP/1.1 200 OK\r\n", 0},
		{"too long a header", get + "X: " + strings.Repeat("x", maxForm+(4<<10)) + "\r\n\r\n",
			true, "HTTP/1.1 431 Request Header Fields Too Large\r\n", 500 * time.Millisecond}, // net/http lets the client read the answer
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := make(pipes)
				server, err := NewServer(listener, NewInput(), NewSystemInput())
				require.NoError(t, err)
				ended := make(chan error, 1)
				go func() { ended <- server.Serve(listener) }()

				began := time.Now()
				client, connection := net.Pipe()
				listener <- connection
				written := make(chan error, 1)
				go func() {
					_, err := io.WriteString(client, test.request)
					written <- err
				}()
				if test.reads {
					answer, err := io.ReadAll(client)
					assert.NoError(t, err)
					assert.True(t, strings.HasPrefix(string(answer), test.want), "%.100s", answer)
				} else {
					assert.Equal(t, io.ErrClosedPipe, <-written)
				}
				assert.Equal(t, test.after, time.Since(began), "when the server closes the connection")
				require.NoError(t, server.Close())
				assert.Equal(t, http.ErrServerClosed, <-ended)
			})
		})
	}
}

func TestLoopbackOnly(t *testing.T) {
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	require.NoError(t, err)
	defer listener.Close()
	_, err = NewServer(listener, NewInput(), NewSystemInput())
	assert.ErrorContains(t, err, "is not an address of the loopback device")
}
