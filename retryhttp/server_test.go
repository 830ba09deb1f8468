package retryhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

func TestRefused(t *testing.T) {
	var seen events
	client := clientOf(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond), OnEvent: seen.add})
	_, err := client.Get("http://" + freeAddr(t))
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.True(t, retrynet.Transient(err), "%v", err)
	assert.Len(t, seen.of(retry.AttemptFinished), 3)
}

func TestRefusedUntilTheServerIsUp(t *testing.T) {
	addr := freeAddr(t)
	up := sync.OnceFunc(func() {
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
		s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
	})
	client := clientOf(t, retry.Policy{MaxAttempts: 3, OnEvent: func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			up()
		}
	}})
	assert.Equal(t, "hello", get(t, client, "http://"+addr))
}

// A connection that breaks before the headers are complete is an error of the
// transport. If it breaks in the body of a response that the caller gets, the
// caller sees the error when reading. If it breaks in a body that is discarded,
// it has no effect.
func TestReset(t *testing.T) {
	const transportError, statusError = "an error of the transport", "a status"
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	for _, tt := range []struct {
		name   string
		sent   string // before the first connection is reset
		failed string // what the first attempt failed with
		body   error  // what reading the body ends with
	}{
		{"before the status", "", transportError, nil},
		{"in the status", "HTTP/1.1 20", transportError, nil},
		{"in the headers", "HTTP/1.1 200 OK\r\nContent-Len", transportError, nil},
		{"in the body of an error", "HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nsor", statusError, nil},
		{"in the body of the answer", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "", syscall.ECONNRESET},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var n atomic.Int64
			answered := make(chan struct{})
			addr := rawServer(t, func(conn *net.TCPConn) {
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				if n.Add(1) > 1 {
					_, _ = io.WriteString(conn, ok)
					return
				}
				_, _ = io.WriteString(conn, tt.sent)
				if strings.Contains(tt.sent, "\r\n\r\n") {
					<-answered // until the headers have arrived, because a reset may overtake them
				}
				_ = conn.SetLinger(0)
			})

			var seen events
			client := clientOf(t, retry.Policy{MaxAttempts: 3, OnEvent: func(ctx context.Context, e retry.Event) {
				seen.add(ctx, e)
				if e.Kind == retry.AttemptFinished && e.Attempt == 1 {
					close(answered)
				}
			}})
			resp, err := client.Get("http://" + addr)
			require.NoError(t, err)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if tt.body != nil {
				assert.ErrorIs(t, err, tt.body)
			} else {
				require.NoError(t, err)
				assert.Equal(t, "hello", string(text))
			}

			var status *retryhttp.StatusError
			switch first := seen.of(retry.AttemptFinished)[0].Err; {
			case first == nil:
				assert.Empty(t, tt.failed)
			case errors.As(first, &status):
				assert.Equal(t, statusError, tt.failed)
			default:
				assert.Equal(t, transportError, tt.failed, "%v", first)
			}
			assert.Equal(t, map[bool]int{false: 1, true: 2}[tt.failed != ""], seen.stop().Attempt)
		})
	}
}

func TestSlowHeaders(t *testing.T) {
	var n atomic.Int64
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if n.Add(1) <= 2 {
			<-req.Context().Done()
			return
		}
		fmt.Fprint(w, "hello")
	})
	var seen events
	client := clientOf(t, retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(time.Millisecond), AttemptTimeout: 50 * time.Millisecond, OnEvent: seen.add})
	assert.Equal(t, "hello", get(t, client, s.URL))
	for _, e := range seen.of(retry.AttemptFinished)[:2] {
		assert.True(t, os.IsTimeout(e.Err), "%v", e.Err)
		assert.EqualError(t, e.Err, "retryhttp: no response within AttemptTimeout (50ms)")
	}
}

// The second half of the body is sent long after the timeout.
func TestSlowBody(t *testing.T) {
	const timeout = 50 * time.Millisecond
	rest := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "first half, ")
		_ = http.NewResponseController(w).Flush()
		<-rest
		fmt.Fprint(w, "second half")
	})
	client := clientOf(t, retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(time.Millisecond), AttemptTimeout: timeout})
	resp, err := client.Get(s.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	time.Sleep(2 * timeout)
	close(rest)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "first half, second half", string(text))
}

// The hint in each form reaches the loop. The test cancels the wait.
func TestRetryAfterFromAServer(t *testing.T) {
	for _, tt := range []struct {
		name       string
		retryAfter []string
		hint       time.Duration
	}{
		{"seconds", []string{"7"}, 7 * time.Second},
		{"IMF-fixdate", []string{"Sun, 06 Nov 1994 08:49:44 GMT"}, 7 * time.Second},
		{"RFC 850", []string{"Sunday, 06-Nov-94 08:49:44 GMT"}, 7 * time.Second},
		{"asctime", []string{"Sun Nov  6 08:49:44 1994"}, 7 * time.Second},
		{"a date that has passed", []string{"Sun, 06 Nov 1994 08:49:30 GMT"}, 0},
		{"malformed", []string{"in a while"}, 0},
		{"negative", []string{"-7"}, 0},
		{"twice", []string{"3", "7"}, 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", "Sun, 06 Nov 1994 08:49:37 GMT") // the date in RFC 9110's examples
				w.Header()["Retry-After"] = tt.retryAfter
				w.WriteHeader(503)
			})
			ctx, cancel := context.WithCancel(t.Context())
			var seen events
			client := clientOf(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour), OnEvent: func(ctx context.Context, e retry.Event) {
				seen.add(ctx, e)
				if e.Kind == retry.RetryScheduled {
					cancel()
				}
			}})
			req, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
			require.NoError(t, err)
			_, err = client.Do(req)
			assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
			scheduled := seen.of(retry.RetryScheduled)
			require.Len(t, scheduled, 1)
			assert.Equal(t, tt.hint, scheduled[0].RetryAfter)
			assert.Equal(t, max(time.Hour, tt.hint), scheduled[0].Delay)
		})
	}

	t.Run("huge", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999999999999999")
			w.WriteHeader(429)
			fmt.Fprint(w, "go away")
		})
		var seen events
		client := clientOf(t, retry.Policy{MaxAttempts: 2, OnEvent: seen.add})
		resp, err := client.Get(s.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "go away", string(text))
		assert.Equal(t, retry.ReasonRetryAfter, seen.stop().Reason)
	})
}

// An error response without end costs its connection, and delays no caller.
func TestEndlessErrorBody(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Millisecond, time.Hour} {
		t.Run(fmt.Sprint("a write every ", pause), func(t *testing.T) {
			var n atomic.Int64
			ended := make(chan struct{})
			s := serve(t, func(w http.ResponseWriter, req *http.Request) {
				if n.Add(1) > 1 {
					fmt.Fprint(w, "hello")
					return
				}
				defer close(ended)
				w.WriteHeader(503)
				for {
					if _, err := w.Write(make([]byte, 1024)); err != nil {
						return
					}
					if http.NewResponseController(w).Flush() != nil {
						return
					}
					select {
					case <-req.Context().Done():
						return
					case <-time.After(pause):
					}
				}
			})
			assert.Equal(t, "hello", get(t, clientOf(t, retry.Policy{MaxAttempts: 2}), s.URL))
			<-ended // until the server has noticed
			assert.EqualValues(t, 2, s.conns.Load())
		})
	}
}

func TestRedirects(t *testing.T) {
	var calls []string
	var mu sync.Mutex
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		text, _ := io.ReadAll(req.Body)
		call := fmt.Sprintf("%s %s key=%q body=%q", req.Method, req.URL.Path, req.Header.Get("Idempotency-Key"), text)
		mu.Lock()
		first := !slices.Contains(calls, call)
		calls = append(calls, call)
		mu.Unlock()
		switch {
		case first:
			w.WriteHeader(503)
		case req.URL.Path == "/a":
			http.Redirect(w, req, "/b", http.StatusTemporaryRedirect)
		case req.URL.Path == "/b":
			http.Redirect(w, req, "/c", http.StatusSeeOther)
		default:
			fmt.Fprint(w, "arrived")
		}
	})
	client := clientOf(t, retry.Policy{MaxAttempts: 2})
	req, err := http.NewRequest("POST", s.URL+"/a", strings.NewReader("data"))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k")
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "arrived", string(text))
	assert.Equal(t, "/c", resp.Request.URL.Path)
	assert.Equal(t, []string{
		`POST /a key="k" body="data"`, `POST /a key="k" body="data"`,
		`POST /b key="k" body="data"`, `POST /b key="k" body="data"`,
		`GET /c key="k" body=""`, `GET /c key="k" body=""`,
	}, calls, "each hop has its own attempts")
	assert.EqualValues(t, 1, s.conns.Load())
}

func TestIdempotencyKeyOnTheWire(t *testing.T) {
	for name, tt := range map[string]struct {
		key  []string
		want []string
	}{
		"a key":          {[]string{"order-17"}, []string{"order-17"}},
		"an invalid key": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var keys [][]string
			s := serve(t, func(w http.ResponseWriter, req *http.Request) {
				keys = append(keys, req.Header["Idempotency-Key"])
				w.WriteHeader(503)
			})
			req, err := http.NewRequest("POST", s.URL, strings.NewReader("data"))
			require.NoError(t, err)
			req.Header["Idempotency-Key"] = tt.key
			resp, err := clientOf(t, retry.Policy{MaxAttempts: 3}).Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, [][]string{tt.want, tt.want, tt.want}, keys)
		})
	}
}

// All attempts use one connection, whatever the bodies of the errors are.
func TestConnectionIsReused(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no body": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"a short body": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "sorry", http.StatusServiceUnavailable)
		},
		"a long body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "60000")
			w.WriteHeader(503)
			_, _ = w.Write(make([]byte, 60000))
		},
		"in chunks": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			for range 10 {
				_, _ = w.Write(make([]byte, 100))
				_ = http.NewResponseController(w).Flush()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, answer)
			for _, method := range []string{"GET", "HEAD", "PUT"} {
				req, err := http.NewRequest(method, s.URL, strings.NewReader("data"))
				require.NoError(t, err)
				var seen events
				client := clientOf(t, retry.Policy{MaxAttempts: 5, AttemptTimeout: time.Minute, OnEvent: seen.add})
				s.conns.Store(0)
				resp, err := client.Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, 5, seen.stop().Attempt)
				assert.EqualValues(t, 1, s.conns.Load(), method)
			}
		})
	}
}

// A request that waits for its next attempt holds no connection: another
// request gets through on the only one.
func TestConnectionIsFreeDuringTheWait(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/busy" {
			http.Error(w, "sorry", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "hello")
	})
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan struct{})
	base := &http.Transport{MaxConnsPerHost: 1}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour), OnEvent: func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			close(waiting)
		}
	}}}}
	failed := make(chan error)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/busy", nil)
		_, err := client.Do(req)
		failed <- err
	}()
	<-waiting
	assert.Equal(t, "hello", get(t, client, s.URL))
	cancel()
	assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(<-failed))
	assert.EqualValues(t, 1, s.conns.Load())
}

func TestHTTP2(t *testing.T) {
	var n atomic.Int64
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		assert.NoError(t, err)
		switch n.Add(1) {
		case 1:
			http.Error(w, "sorry", http.StatusServiceUnavailable)
		case 2:
			w.WriteHeader(503)
			for req.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1024))
			}
		case 3:
			panic(http.ErrAbortHandler) // resets the stream
		case 4:
			w.WriteHeader(503)
			_ = http.NewResponseController(w).Flush()
			<-req.Context().Done() // an error response that stalls
		default:
			fmt.Fprintf(w, "%s %s", req.Proto, text)
		}
	}, http2)
	var seen events
	client := s.Client()
	client.Transport = &retryhttp.Transport{Base: client.Transport, Policy: retry.Policy{MaxAttempts: 9, AttemptTimeout: time.Minute, OnEvent: seen.add}}
	req, err := http.NewRequest("PUT", s.URL, strings.NewReader("data"))
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "HTTP/2.0 data", string(text))
	assert.Equal(t, 5, seen.stop().Attempt)
	assert.True(t, retrynet.Transient(seen.of(retry.AttemptFinished)[2].Err), "a stream that the server resets")
	assert.EqualValues(t, 1, s.conns.Load(), "only streams are lost")
}

// The server answers without reading the request, and closes the connection
// while the body is being sent.
func TestLargeUpload(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	want := sha256.Sum256(data)
	for _, proto := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", proto), func(t *testing.T) {
			var n atomic.Int64
			var got atomic.Pointer[[32]byte]
			handler := func(w http.ResponseWriter, req *http.Request) {
				switch n.Add(1) {
				case 1:
					w.WriteHeader(503)
				case 2:
					_, _ = io.CopyN(io.Discard, req.Body, 1<<20)
					panic(http.ErrAbortHandler)
				default:
					h := sha256.New()
					_, err := io.Copy(h, req.Body)
					assert.NoError(t, err)
					sum := [32]byte(h.Sum(nil))
					got.Store(&sum)
				}
			}
			var s *server
			if proto == 2 {
				s = serve(t, handler, http2)
			} else {
				s = serve(t, handler)
			}
			var seen events
			client := s.Client()
			client.Transport = &retryhttp.Transport{Base: client.Transport, Policy: retry.Policy{MaxAttempts: 5, OnEvent: seen.add}}
			req, err := http.NewRequest("PUT", s.URL, bytes.NewReader(data))
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, 3, seen.stop().Attempt)
			require.NotNil(t, got.Load())
			assert.Equal(t, want, *got.Load())
		})
	}
}

// There are at most four connections, so a single one that is not returned
// would block everything.
func TestConcurrentUse(t *testing.T) {
	const callers, requests, conns = 16, 10, 4
	var n atomic.Int64
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		text, _ := io.ReadAll(req.Body)
		switch n.Add(1) % 4 {
		case 1:
			http.Error(w, "sorry", http.StatusServiceUnavailable)
		case 2:
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		default:
			fmt.Fprintf(w, "%s %s", req.Header.Get("Idempotency-Key"), text)
		}
	})
	base := &http.Transport{MaxConnsPerHost: conns}
	defer base.CloseIdleConnections()
	var seen events
	client := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: retry.Policy{
		MaxAttempts: 1000, Backoff: retry.Fixed(time.Millisecond), Jitter: retry.FullJitter, AttemptTimeout: time.Minute, OnEvent: seen.add,
	}}}
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range requests {
				key := fmt.Sprintf("%d-%d", i, j)
				req, err := http.NewRequest("POST", s.URL, strings.NewReader("body of "+key))
				if !assert.NoError(t, err) {
					return
				}
				req.Header.Set("Idempotency-Key", key)
				resp, err := client.Do(req)
				if !assert.NoError(t, err) {
					return
				}
				text, err := io.ReadAll(resp.Body)
				assert.NoError(t, err)
				assert.NoError(t, resp.Body.Close())
				assert.Equal(t, key+" body of "+key, string(text))
			}
		})
	}
	wg.Wait()
	assert.Len(t, seen.of(retry.Stopped), callers*requests)
	assert.Greater(t, len(seen.of(retry.AttemptStarted)), callers*requests)
}

// The Timeout of an http.Client covers all attempts and acts as a deadline of
// the request's context. A wait that would exceed it does not begin, and the
// caller gets the response.
func TestClientTimeout(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "sorry", http.StatusServiceUnavailable) })
	var seen events
	client := clientOf(t, retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Hour), OnEvent: seen.add})
	client.Timeout = time.Minute
	resp, err := client.Get(s.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "sorry\n", string(text))
	assert.Equal(t, retry.ReasonDeadline, seen.stop().Reason)
}

// The zero Transport makes one attempt, through http.DefaultTransport.
func TestZeroTransport(t *testing.T) {
	var n atomic.Int64
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		http.Error(w, "sorry", http.StatusServiceUnavailable)
	})
	client := &http.Client{Transport: &retryhttp.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(s.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 503, resp.StatusCode)
	assert.EqualValues(t, 1, n.Load())
}

// After everything that can happen to a request, there are as many goroutines
// as before.
func TestNoGoroutineIsLeft(t *testing.T) {
	for proto, start := range map[string]func(*httptest.Server){
		"HTTP/1": (*httptest.Server).Start,
		"HTTP/2": http2,
	} {
		t.Run(proto, func(t *testing.T) { testNoGoroutineIsLeft(t, proto, start) })
	}
}

func testNoGoroutineIsLeft(t *testing.T, proto string, start func(*httptest.Server)) {
	before := runtime.NumGoroutine()
	t.Run("everything", func(t *testing.T) {
		var n atomic.Int64
		s := serve(t, func(w http.ResponseWriter, req *http.Request) {
			assert.True(t, strings.HasPrefix(req.Proto, proto), req.Proto)
			_, _ = io.Copy(io.Discard, req.Body) // until the body is read, a server does not notice that its client has gone
			switch req.URL.Path {
			case "/stall":
				w.WriteHeader(503)
				_ = http.NewResponseController(w).Flush()
				<-req.Context().Done()
			case "/hang":
				<-req.Context().Done()
			case "/flaky":
				if n.Add(1)%2 == 1 {
					http.Error(w, "sorry", http.StatusServiceUnavailable)
				}
			case "/abort":
				panic(http.ErrAbortHandler)
			default:
				http.Error(w, "sorry", http.StatusServiceUnavailable)
			}
		}, start)
		client := s.Client()
		client.Transport = &retryhttp.Transport{Base: client.Transport, Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Millisecond), AttemptTimeout: 20 * time.Millisecond}}
		t.Cleanup(client.CloseIdleConnections)
		for _, path := range []string{"/stall", "/hang", "/flaky", "/abort", "/503"} {
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
				req, err := http.NewRequestWithContext(ctx, "PUT", s.URL+path, strings.NewReader("data"))
				require.NoError(t, err)
				if resp, err := client.Do(req); err == nil {
					require.NoError(t, resp.Body.Close())
				}
				cancel()
			}
		}
	})
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// server counts the connections that it accepts.
type server struct {
	*httptest.Server
	conns atomic.Int64
}

// serve starts a server that is closed when the test ends.
func serve(t *testing.T, handler http.HandlerFunc, start ...func(*httptest.Server)) *server {
	s := &server{Server: httptest.NewUnstartedServer(handler)}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	if len(start) == 0 {
		s.Start()
	}
	for _, start := range start {
		start(s.Server)
	}
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func http2(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }

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

// clientOf returns a client with this policy and its own connections.
func clientOf(t *testing.T, p retry.Policy) *http.Client {
	client := &http.Client{Transport: &retryhttp.Transport{Base: &http.Transport{}, Policy: p}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func get(t *testing.T, client *http.Client, url string) string {
	resp, err := client.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}
