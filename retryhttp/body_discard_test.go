package retryhttp_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

// The function `takes` returns a reader whose end arrives after the time d.
func takes(d time.Duration) reads {
	return func([]byte) (int, error) { time.Sleep(d); return 0, io.EOF }
}

// Discarding a body is limited in bytes, reads and time. Bodies are discarded before a retry, by
// Result, and if Base returns an error together with a response. Before a retry, this time is part
// of the wait, and the policy's Wait gets the rest of the delay. Close must not be called during a
// Read, because a Base that pools its readers would use the reader for another response.
func TestDiscard(t *testing.T) {
	const kb64, ms90 = 64 << 10, 90 * ms
	for _, tt := range []struct {
		name   string
		length int64 // the Content-Length
		body   func(context.Context) io.Reader
		read   int
		took   time.Duration
	}{
		{"empty", 0, func(context.Context) io.Reader { return strings.NewReader("") }, 0, 0},
		{"short, length not known", -1, func(context.Context) io.Reader { return strings.NewReader("sorry") }, 5, 0},
		{"as long as the bound", kb64, func(context.Context) io.Reader { return io.LimitReader(endless{}, kb64) }, kb64, 0},
		{"known to be longer", kb64 + 1, func(context.Context) io.Reader { return endless{} }, 0, 0},
		{"endless", -1, func(context.Context) io.Reader { return endless{} }, kb64, 0},
		{"slow", -1, func(context.Context) io.Reader { return takes(30 * ms) }, 0, 30 * ms},
		{"without progress", -1, func(context.Context) io.Reader {
			return reads(func([]byte) (int, error) { time.Sleep(7 * ms); return 0, nil })
		}, 0, ms90 + ms},
		{"a byte after 99 reads without one", -1, func(context.Context) io.Reader { return late(99) }, 1, 0},
		{"a byte after 100 reads without one", -1, func(context.Context) io.Reader { return late(100) }, 0, 0},
		{"stalled after a while", -1, func(ctx context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("sor"), stalled{ctx})
		}, 3, ms90},
		{"stalled, and slow to notice that its context has ended", -1, func(ctx context.Context) io.Reader {
			return reads(func([]byte) (int, error) { <-ctx.Done(); time.Sleep(ms); return 0, ctx.Err() })
		}, 0, ms90 + ms},
		{"broken", -1, func(context.Context) io.Reader { return breaks("sor", errReset) }, 3, 0},
	} {
		run := func(name string, status int, beside error, p retry.Policy, then func(*testing.T, *retryhttp.Transport)) {
			bubble(t, tt.name+", "+name, func(t *testing.T) {
				var first *body
				base := script(func(req *http.Request) (*http.Response, error) {
					first = &body{ctx: req.Context(), Reader: tt.body(req.Context())}
					resp := responseWith(status, first)
					resp.ContentLength = tt.length
					return resp, beside
				}, 200)
				then(t, &retryhttp.Transport{Base: base, Policy: p})
				read := tt.read
				if name == "Result" && tt.length > kb64 {
					read = 1 << 10 // Result reads only the Body of the StatusError
				}
				assert.Equal(t, []int{read, 1}, []int{first.read, first.closes})
				assert.False(t, first.shared.Load(), "closed while it is read")
				assert.True(t, tt.length <= kb64 || first.over, "the context of a body that is not read ends before the body is closed")
			})
		}
		for _, delay := range []time.Duration{0, 20 * ms, time.Second} {
			var seen events
			policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(delay), MaxElapsed: time.Second, OnEvent: seen.add}
			run(delay.String(), 503, nil, policy, func(t *testing.T, tr *retryhttp.Transport) {
				start, left := time.Now(), time.Duration(-1) // the delay that the policy's Wait gets
				tr.Policy.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) {
					left = d
					time.Sleep(d)
					return 0, nil
				}
				assert.Equal(t, 200, send(t, tr).StatusCode)
				assert.Equal(t, max(0, delay-tt.took), left)
				assert.Equal(t, start.Add(delay), seen.of(retry.RetryScheduled)[0].Due)
				assert.Equal(t, start.Add(max(delay, tt.took)), seen.of(retry.AttemptStarted)[1].Time)
				assert.Equal(t, max(delay, tt.took), seen.stop().Elapsed)
			})
		}
		for name, err := range map[string]error{"Result": nil, "next to an error": errReset} {
			run(name, 404, err, retry.Policy{}, func(t *testing.T, tr *retryhttp.Transport) {
				start := time.Now()
				resp, _ := retryhttp.Result(tr.RoundTrip(request(t, "GET")))
				assert.Nil(t, resp)
				assert.Equal(t, tt.took, time.Since(start))
			})
		}
	}
}

// A body that ignores its context delays the call for at most 100 ms, whether Read or Close hangs.
// A goroutine goes on reading the body, and closes the body after the last Read.
func TestDiscardOfABodyThatHangs(t *testing.T) {
	const canceled = ": canceled after 1 attempt (context canceled: connection reset by peer): 503 Service Unavailable"
	for _, tt := range []struct {
		name  string
		in    string
		ends  bool // the request's context ends after 20 ms
		heeds bool // the body ends with the context of the attempt
		want  string
	}{
		{"in Read", "Read", false, false, "2 sent in 100ms, 200"},
		{"in Close", "Close", false, false, "2 sent in 100ms, 200"},
		{"in Read, after a buffer in io.NopCloser", "buffer", false, false, "2 sent in 100ms, 200"},
		{"in Read, until the request's context ends", "Read", true, true, "1 sent in 20ms" + canceled},
		{"in Read, even after the request's context has ended", "Read", true, false, "1 sent in 100ms" + canceled},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.ends {
				time.AfterFunc(20*ms, func() { cancel(errReset) })
			}
			release := make(chan struct{})
			var first context.Context // the context of the first attempt
			hang := func() {
				if tt.heeds {
					<-first.Done()
				} else {
					<-release
				}
			}
			b := &body{Reader: reads(func([]byte) (int, error) { hang(); return 0, io.EOF })}
			var sent io.Reader = b
			switch tt.in {
			case "Close":
				b.Reader, b.onClose = strings.NewReader(""), hang
			case "buffer": // has a WriteTo, as bytes.Reader has, and no Close
				sent = bufio.NewReader(b)
			}
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}}
			assert.Equal(t, tt.want, ask(t, tr, request(t, "GET").WithContext(ctx), func(req *http.Request) (*http.Response, error) {
				first = req.Context()
				return responseWith(503, sent), nil
			}, 200))
			synctest.Wait()
			assert.Error(t, first.Err())
			assert.Equal(t, tt.heeds || tt.in == "Close", b.closed())
			close(release)
			synctest.Wait()
			assert.Equal(t, tt.in != "buffer", b.closed())
		})
	}
}

// RoundTrip waits 90 ms for the rest of a 503 if Base is an http.Transport, and 100 ms if a
// function of the user may have set the body. A protocol that the user has registered for http may
// return a body that ignores its context. Then RoundTrip waits for each Read.
func TestDiscardOfABodyOfAnHTTPTransport(t *testing.T) {
	const head = "HTTP/1.1 503 Service Unavailable\r\n"
	for _, tt := range []struct {
		name, answer string
		registered   func(*http.Request) io.Reader // returns the body of a registered protocol; nil: the answer comes over HTTP/1
		edit         edit
		took         time.Duration
	}{
		{"whole", head + "Content-Length: 5\r\n\r\nsorry", nil, nil, 0},
		{"in chunks", head + "Transfer-Encoding: chunked\r\n\r\n5\r\nsorry\r\n0\r\n\r\n", nil, nil, 0},
		{"longer than the Transport reads", head + "Content-Length: 100000\r\n\r\nsorry", nil, nil, 0},
		{"the rest never arrives", head + "Content-Length: 9\r\n\r\nsorry", nil, nil, 90 * ms},
		{"no byte arrives", head + "Content-Length: 9\r\n\r\n", nil, nil, 90 * ms},
		{"the rest never arrives, in gzip", head + "Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nsorry", nil, nil, 90 * ms},
		{"the rest never arrives, under a StallTimeout", head + "Content-Length: 9\r\n\r\nsorry", nil,
			ofTransport(func(tr *retryhttp.Transport) { tr.StallTimeout = 20 * ms }), 20 * ms},
		{"the rest never arrives, with a Prepare", head + "Content-Length: 9\r\n\r\nsorry", nil,
			ofTransport(func(tr *retryhttp.Transport) { tr.Prepare = func(*http.Request, int, error) error { return nil } }), 90 * ms},
		{"a Check sets a body that hangs", head + "Content-Length: 5\r\n\r\nsorry", nil,
			check(func(req *http.Request, resp *http.Response, err error) error {
				if err == nil {
					resp.Body = io.NopCloser(takes(time.Hour))
				}
				return retryhttp.Check(req, resp, err)
			}), 100 * ms},
		{"an Advise sets a body that hangs", head + "Content-Length: 5\r\n\r\nsorry", nil,
			ofTransport(func(tr *retryhttp.Transport) {
				tr.Advise = func(resp *http.Response) retryhttp.Advice {
					resp.Body = io.NopCloser(takes(time.Hour))
					return retryhttp.Advice{}
				}
			}), 100 * ms},
		{"a body of a registered protocol waits for its context", "", func(req *http.Request) io.Reader { return stalled{req.Context()} }, nil, 90 * ms},
		{"a body of a registered protocol ignores its context", "", func(*http.Request) io.Reader {
			return takes(time.Minute)
		}, nil, time.Minute}, // a documented exception: see SECURITY.md
	} {
		bubble(t, tt.name, func(t *testing.T) {
			served := make(chan struct{})
			defer close(served)
			base := piped(1, func(conn net.Conn, _ *http.Request) {
				_, _ = io.WriteString(conn, tt.answer)
				<-served
			})
			defer base.CloseIdleConnections()
			if tt.registered != nil {
				base.RegisterProtocol("http", roundTrip(func(req *http.Request) (*http.Response, error) {
					return responseWith(503, tt.registered(req)), nil
				}))
			}
			var waited time.Duration
			start, tr := time.Now(), &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)}}
			tr.Policy.Wait = func(context.Context, time.Duration) (time.Duration, error) {
				waited = time.Since(start)
				return 0, errReset // there is one attempt
			}
			tt.edit.apply(tr, nil)
			_, err := tr.RoundTrip(request(t, "GET"))
			require.ErrorIs(t, err, errReset)
			assert.Equal(t, tt.took, waited)
			time.Sleep(time.Hour) // until the goroutine that still reads has ended
		})
	}
}

// The Close of a connection of the user's own DialContext may not end a Read. Then the call waits
// for a Read of a body of net/http, but not if a function of the user gets the response.
func TestDiscardWhenCloseDoesNotEndARead(t *testing.T) {
	for _, tt := range []struct {
		name  string
		check retryhttp.CheckFunc
		took  time.Duration
	}{
		{"an http.Transport alone", nil, time.Minute},
		{"a Check", retryhttp.Check, 100 * ms},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := piped(1, func(conn net.Conn, _ *http.Request) {
				_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nsorry")
				time.Sleep(time.Minute)
			})
			dial := base.DialContext
			base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				return staysOpen{conn}, err
			}
			start, tr := time.Now(), &retryhttp.Transport{Base: base, Check: tt.check}
			resp, err := tr.RoundTrip(request(t, "GET"))
			require.NoError(t, err)
			_, err = retryhttp.Result(resp, nil)
			assert.Error(t, err)
			assert.Equal(t, tt.took, time.Since(start))
			time.Sleep(time.Hour) // until the last Read has ended
		})
	}
}

// The Close of a TLS connection writes an alert, for up to 5 s. If the server has stopped reading,
// neither a retry nor Result waits for the Close.
func TestDiscardOverTLSToAServerThatStopsReading(t *testing.T) {
	certificates, config := certificatesForTests(), &tls.Config{InsecureSkipVerify: true}
	dial := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			conn := tls.Server(server, &tls.Config{Certificates: certificates})
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nsorry")
			time.Sleep(time.Minute)
		}()
		return client, nil
	}
	type wrapped struct{ net.Conn } // net/http does not see that it is a TLS connection
	dialTLS := func() (net.Conn, error) {
		conn, err := dial(context.Background(), "", "")
		return wrapped{tls.Client(conn, config)}, err
	}
	bubble(t, "DialContext", func(t *testing.T) {
		testDiscardOverTLS(t, &http.Transport{TLSClientConfig: config, DialContext: dial})
	})
	bubble(t, "DialTLSContext", func(t *testing.T) {
		testDiscardOverTLS(t, &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return dialTLS() }})
	})
	bubble(t, "DialTLS", func(t *testing.T) {
		//lint:ignore SA1019 users may still set DialTLS
		testDiscardOverTLS(t, &http.Transport{DialTLS: func(string, string) (net.Conn, error) { return dialTLS() }})
	})
}

func testDiscardOverTLS(t *testing.T, base *http.Transport) {
	base.DisableKeepAlives = true
	start, tr := time.Now(), &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(ms)}}
	req := request(t, "GET")
	req.URL.Scheme = "https"
	resp := send(t, tr, req)
	assert.Equal(t, 100*ms, time.Since(start))
	_, err := retryhttp.Result(resp, nil)
	var e *retryhttp.StatusError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "sorry", string(e.Body))
	assert.Equal(t, 200*ms, time.Since(start))
	time.Sleep(time.Hour) // until the last Read has ended
}

// certificatesForTests returns the certificates of httptest.
func certificatesForTests() []tls.Certificate {
	of := httptest.NewUnstartedServer(nil)
	of.StartTLS()
	defer of.Close()
	return of.TLS.Certificates
}

// staysOpen is a connection whose Close does nothing.
type staysOpen struct{ net.Conn }

func (staysOpen) Close() error { return nil }

// A 503 whose body never ends does not block the call, over HTTP/1 and over HTTP/2.
func TestDiscardOfAStreamThatNeverEnds(t *testing.T) {
	for name, start := range protocols {
		t.Run(name, func(t *testing.T) {
			var served atomic.Int32
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if served.Add(1) > 1 {
					return
				}
				w.WriteHeader(503)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done() // when the attempt ends, the stream is canceled or the connection closed
			}, start)
			req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
			require.NoError(t, err)
			resp := send(t, &retryhttp.Transport{Base: server.Client().Transport, Policy: retry.Policy{MaxAttempts: 2}}, req)
			assert.Equal(t, 200, resp.StatusCode)
			assert.NoError(t, resp.Body.Close())
		})
	}
}

// If a body panics while it is discarded, the caller can recover the panic. The panic must not end
// the program.
func TestDiscardOfABodyThatPanics(t *testing.T) {
	panics := func(what string) func() { return func() { panic(what) } }
	for name, tt := range map[string]struct{ read, close func() }{
		"in Read":        {panics("bug in the body"), nil},
		"in Close":       {func() {}, panics("bug in the body")},
		"in both":        {panics("another"), panics("bug in the body")},
		"runtime.Goexit": {runtime.Goexit, nil},
	} {
		bubble(t, name, func(t *testing.T) {
			b := &body{Reader: reads(func([]byte) (int, error) { tt.read(); return 0, io.EOF }), onClose: tt.close}
			defer func() {
				assert.Equal(t, name != "runtime.Goexit", recover() == "bug in the body")
				assert.True(t, b.closed())
			}()
			assert.Equal(t, "2 sent, 200", ask(t, &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}}, request(t, "GET"), responseWith(503, b), 200))
		})
	}
}

// After a 101 the body is the connection, and only Close ends a Read of it. So it is closed without
// a Read.
func TestDiscardOfAConnection(t *testing.T) {
	var open sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		open.Go(func() {
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\nhello")
			_, _ = io.Copy(io.Discard, conn) // until the client closes it
		})
	}))
	defer server.Close()
	attempts := 0
	tr := &retryhttp.Transport{Base: new(http.Transport), Policy: retry.Policy{MaxAttempts: 3}}
	tr.Check = func(_ *http.Request, resp *http.Response, err error) error {
		attempts++
		return cmp.Or(err, errors.New("no Sec-WebSocket-Accept"))
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
	require.NoError(t, err)
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"chat"}}
	_, err = retryhttp.Result(tr.RoundTrip(req))
	require.ErrorContains(t, err, "no Sec-WebSocket-Accept")
	open.Wait() // until all three connections are closed
	assert.Equal(t, 3, attempts)
}

// The server stops reading an upload over HTTP/2 and answers with the beginning of a 503. net/http
// then holds a lock of the connection, for which a Read and a Close of the body wait. Neither
// RoundTrip nor Result waits for the lock.
func TestAServerThatStopsReadingOverHTTP2HoldsNobody(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		address, cut := deafHTTP2(t)
		base := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: attempts}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+address, bytes.NewReader(make([]byte, 64<<20)))
		require.NoError(t, err)
		returned := make(chan error, 1)
		go func() {
			_, err := retryhttp.Result(tr.RoundTrip(req))
			returned <- err
		}()
		select {
		case err := <-returned:
			assert.Error(t, err, attempts)
		case <-time.After(30 * time.Second):
			assert.Fail(t, "the call waits until the connection is cut", attempts)
			cut()
			<-returned
		}
		cancel()
		cut()
	}
}

// If the server stops reading an upload over HTTP/2, a Read of the response's body waits for a lock
// of net/http. WriteByteTimeout of the http.Transport ends this Read.
func TestWriteByteTimeoutEndsARead(t *testing.T) {
	for name, tr := range map[string]*retryhttp.Transport{
		"WholeBody":    {Check: retryhttp.WholeBody(returns(nil), 1<<20), Policy: retry.Policy{AttemptTimeout: time.Second}},
		"StallTimeout": {Check: returns(nil), StallTimeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			address, cut := deafHTTP2(t)
			defer cut()
			tr.Base = &http.Transport{
				ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
				HTTP2: &http.HTTP2Config{WriteByteTimeout: time.Second},
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://"+address, bytes.NewReader(make([]byte, 64<<20)))
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() {
				resp, err := tr.RoundTrip(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
				}
				ended <- err
			}()
			select {
			case err := <-ended:
				assert.Error(t, err)
			case <-time.After(30 * time.Second):
				assert.Fail(t, "the Read waits until the connection is cut")
			}
		})
	}
}

// deafHTTP2 starts a server of HTTP/2 with large windows. When it has got the header of a request,
// it waits until the client has filled the buffers of the connection, answers with a part of a 503,
// and reads nothing more. The function `cut` closes all connections.
func deafHTTP2(t *testing.T) (address string, cut func()) {
	certificates := certificatesForTests()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	frame := func(kind, flags byte, stream uint32, payload ...byte) []byte {
		head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
		return append(binary.BigEndian.AppendUint32(head, stream), payload...)
	}
	done := make(chan struct{})
	serve := func(raw net.Conn) {
		defer raw.Close()
		conn := tls.Server(raw, &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}})
		if _, err := io.ReadFull(conn, make([]byte, len(http2Preface))); err != nil {
			return
		}
		_, _ = conn.Write(frame(4, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff)) // SETTINGS: a window of 2 GiB
		_, _ = conn.Write(frame(8, 0, 0, 0x7f, 0, 0, 0))                // WINDOW_UPDATE
		for head := make([]byte, 9); ; {
			if _, err := io.ReadFull(conn, head); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, conn, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
				return
			}
			if head[3] == 1 { // HEADERS
				stream := binary.BigEndian.Uint32(head[5:])
				time.Sleep(300 * time.Millisecond) // the client fills the buffers
				_, _ = conn.Write(frame(1, 4, stream, 0x48, 3, '5', '0', '3'))
				_, _ = conn.Write(frame(0, 0, stream, make([]byte, 8<<10)...))
				<-done
				return
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetReadBuffer(16 << 10)
			go serve(conn)
		}
	}()
	var once atomic.Bool
	return l.Addr().String(), func() {
		if !once.Swap(true) {
			close(done)
			_ = l.Close()
		}
	}
}

const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
