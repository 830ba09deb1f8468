package retryhttp_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
)

const threeTimes, once = "3 attempts_exhausted", "1 not_retryable"

// post sends a POST that has no key and has a body that can be sent again. It returns a text with
// the number of attempts and the Reason, and also returns the error.
func post(t *testing.T, base http.RoundTripper, url string, timeout time.Duration) (string, error) {
	var seen events
	tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{
		MaxAttempts: 3, Backoff: retry.Fixed(ms), AttemptTimeout: timeout, OnEvent: seen.add,
	}}
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader("data"))
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	return fmt.Sprint(seen.stop().Attempt, " ", seen.stop().Reason), err
}

// A resetConn is a connection whose Close resets it.
type resetConn struct{ net.Conn }

func (c resetConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		err = syscall.ECONNRESET
	}
	return n, err
}

// A POST is retried if there was no connection, because then no byte of it was sent. After the same
// errors on a connection, the server may have processed the request.
func TestPostIsRetriedWhereNothingWasSent(t *testing.T) {
	type dial = func(context.Context, string, string) (net.Conn, error)
	answers := func(answer string) dial {
		return piped(1, func(conn net.Conn, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(conn, answer)
		}).DialContext
	}
	resets := func(dial dial) dial {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return resetConn{conn}, err
		}
	}
	fails := func(err error, after time.Duration) dial {
		return func(context.Context, string, string) (net.Conn, error) { time.Sleep(after); return nil, err }
	}
	closes := piped(0, nil).DialContext
	hangs := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		return client, nil
	}
	for _, tt := range []struct {
		name, scheme string
		dial         dial
		timeout      time.Duration // the AttemptTimeout
		want         string
	}{
		{"refused", "http", fails(syscall.ECONNREFUSED, 0), 0, threeTimes},
		{"a temporary DNS error", "http", fails(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}, 0), 0, threeTimes},
		{"closed in the TLS handshake", "https", closes, 0, threeTimes},
		{"reset in the TLS handshake", "https", resets(closes), 0, threeTimes},
		{"a TLS handshake that takes too long", "https", hangs, 0, threeTimes},
		{"AttemptTimeout, before there is a connection", "http", fails(errReset, 30*time.Second), time.Second, threeTimes},
		{"AttemptTimeout, in the TLS handshake", "https", hangs, time.Second, threeTimes},

		{"closed after the request", "http", answers(""), 0, once},
		{"closed in the answer", "http", answers("HTTP/1.1 200 O"), 0, once},
		{"reset after the request", "http", resets(answers("")), 0, once},
		{"503", "http", answers("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), 0, once},
		{"no answer", "http", hangs, 0, once},
		{"AttemptTimeout, while the request is in flight", "http", hangs, time.Second, once},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := &http.Transport{TLSHandshakeTimeout: time.Minute, ResponseHeaderTimeout: time.Minute, DialContext: tt.dial}
			got, err := post(t, base, tt.scheme+"://example.test/", tt.timeout)
			assert.Equal(t, tt.want, got, "%v", err)
			time.Sleep(time.Minute) // in this time, dials and handshakes end
		})
	}
}

// traced returns a RoundTripper that calls hooks of the request's trace. The parameter `reports`
// names the hooks, in their order.
func traced(reports string, next roundTrip) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(req.Context())
		for report := range strings.FieldsSeq(reports) {
			if trace == nil {
				break
			}
			map[string]func(){
				"asks": func() { trace.GetConn("") }, "got": func() { trace.GotConn(httptrace.GotConnInfo{}) }, "wrote": trace.WroteHeaders,
			}[report]()
		}
		return next(req)
	}
}

// If a Base reports nothing, the request may have been sent, whatever the error says. If a Base
// reports that it asks for a connection, the request counts as sent only after Base reports a
// header. If Base has a connection and the attempt is canceled, the request also counts as sent.
func TestPostThroughABaseThatDoesNotTrace(t *testing.T) {
	for name, tt := range map[string]struct {
		reports  string
		canceled bool
		err      error // the error of Base; nil: the connection is refused
		want     string
	}{
		"nothing":                                                   {"", false, nil, once},
		"that it asks for a connection":                             {"asks", false, nil, threeTimes},
		"that it got one, and wrote nothing":                        {"asks got", false, nil, threeTimes},
		"only that it got one":                                      {"got", false, nil, threeTimes}, // the HTTP/2 of net/http
		"that it got one, asks again, and was then canceled":        {"asks got asks", true, nil, once},
		"that it got one, and was then canceled":                    {"asks got", true, nil, once}, // http.Transport may still be writing
		"that it got one, and then a timeout of its own":            {"asks got", false, fmt.Errorf("inner: %w", context.DeadlineExceeded), once},
		"that it got one, and then the end of a context of its own": {"asks got", false, fmt.Errorf("inner: %w", context.Canceled), once},
		"that it got one, until its Cancel":                         {"asks got", false, errors.New("net/http: request canceled"), once},
		"that it asks, and then a timeout of its own":               {"asks", false, os.ErrDeadlineExceeded, threeTimes},
		"that it wrote the header, until its context ends with the refusal of another request": {"asks got wrote", true, errors.New("stream error: stream ID 3; REFUSED_STREAM; received from peer"), once},
		"that it wrote the header":                 {"asks got wrote", false, nil, once},
		"that it wrote the header, and asks again": {"asks got wrote asks", false, nil, once},
		"that it asks, and was then canceled":      {"asks", true, nil, threeTimes},
	} {
		bubble(t, name, func(t *testing.T) {
			got, err := post(t, traced(tt.reports, func(req *http.Request) (*http.Response, error) {
				if tt.canceled {
					<-req.Context().Done()
				}
				return nil, cmp.Or(tt.err, error(syscall.ECONNREFUSED))
			}), "http://example.test/", time.Second)
			assert.Equal(t, tt.canceled || tt.err != nil, !errors.Is(err, syscall.ECONNREFUSED))
			assert.Equal(t, tt.want, got)
		})
	}
	got, err := post(t, traced("asks", func(*http.Request) (*http.Response, error) { return response(200), errReset }), "http://example.test/", 0)
	assert.Equal(t, once, got, "a response together with an error: %v", err)
}

// A server can stall a renegotiation of TLS on an idle connection. The ConnectionState of this
// connection then waits, so it must not be called for a request that gets the connection.
func TestATraceDoesNotWaitForAHandshake(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	conn := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	go func() { _ = conn.Handshake() }()
	_, err := server.Read(make([]byte, 1)) // the handshake has begun
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := (&retryhttp.Transport{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{Conn: conn, Reused: true})
			return nil, errReset
		})}).RoundTrip(request(t, "POST"))
		done <- err
	}()
	select {
	case err := <-done:
		assert.ErrorIs(t, err, errReset)
	case <-time.After(30 * time.Second):
		assert.Fail(t, "the call waits for the handshake")
	}
}

// The test pins the errors of net/http for HTTP/2 in this version of Go. A request is repeated
// either by http.Transport itself, or by the Transport of this package.
func TestHTTP2Refusals(t *testing.T) {
	const twice = " success, 2 sent"
	for _, tt := range []struct {
		name  string
		first func(h2conn, uint32) // what the server does with the first request
		want  string
	}{
		{"a stream refused", func(c h2conn, stream uint32) { c.reset(stream, 0x7) }, twice},
		{"gone away in an orderly way, before this stream", func(c h2conn, _ uint32) { c.goAway(0, 0x0) }, twice},
		{"gone away with an error, before this stream", func(c h2conn, _ uint32) { c.goAway(0, 0xb) }, twice},
		{"gone away with an error, after this stream", func(c h2conn, stream uint32) { c.goAway(stream, 0x2); c.close() }, once},
		{"another reset", func(c h2conn, stream uint32) { c.reset(stream, 0x2) }, once},
		{"canceled", func(c h2conn, stream uint32) { c.reset(stream, 0x8) }, once},
		{"closed", func(c h2conn, _ uint32) { c.close() }, once},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int64
			got, err := post(t, http2Server(t, func(c h2conn, stream uint32) {
				if requests.Add(1) == 1 {
					tt.first(c, stream)
				} else {
					c.answer(stream)
				}
			}), "http://example.test/", 0)
			assert.Contains(t, fmt.Sprint(got, ", ", requests.Load(), " sent"), tt.want, "%v", err)
			if e := new(asStreamError); tt.name == "another reset" {
				require.ErrorAs(t, err, e)
				assert.EqualValues(t, 0x2, e.Code)
			}
		})
	}

	// http.Transport itself repeats a request after a GOAWAY of an orderly shutdown. The error reaches
	// this package only after six attempts and a minute, or as a text that says why the request cannot
	// be repeated.
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://example.test/", io.MultiReader(strings.NewReader("data")))
	require.NoError(t, err)
	_, err = http2Server(t, func(c h2conn, _ uint32) { c.goAway(0, 0x0) }).RoundTrip(req)
	assert.ErrorContains(t, err, orderlyGoAway)
}

const orderlyGoAway = "http2: Transport received Server's graceful shutdown GOAWAY"

// The answers are listed by how often a POST is sent. It is sent once if the answer does not show
// that the server refused this request. It is sent twice if the answer shows a refusal. A status
// shows a refusal too, but only a Check can retry it.
func TestRefusals(t *testing.T) {
	goAway, reset := errors.New(orderlyGoAway), asStreamError{Code: 0x7}
	for sent, answers := range [][]any{1: {
		asStreamError{Code: 0x8},
		errors.New("stream error: stream ID 3; CANCEL; received from peer"),
		errors.New("http2: Transport: cannot retry err [stream error: stream ID 1; PROTOCOL_ERROR; received from peer] after Request.Body was written; define Request.GetBody to avoid this error"),
		errors.New(`stream error: stream ID 3; PROTOCOL_ERROR; invalid header field name "; REFUSED_STREAM;"`),          // words of the server
		errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=\"\""), // may be about an earlier stream
		fmt.Errorf("EOF (the first time: %s)", orderlyGoAway),
		errors.Join(goAway, io.EOF), // two errors
		errors.Join(reset, io.EOF),
		400, 402, 404, 405, 408, 409, 412, 422, 423, 500, 503, 507,
	}, 2: {
		reset,
		fmt.Errorf("base: %w", reset),
		errors.New("stream error: stream ID 3; REFUSED_STREAM; received from peer"), // the type in golang.org/x/net/http2 has no method As
		goAway,
		&url.Error{Op: "Post", Err: goAway},
		errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"),
		errors.New("http2: Transport: cannot retry err [" + orderlyGoAway + "] after Request.Body was written; define Request.GetBody to avoid this error"), // of a Base that has replaced the body
		errors.New("http2: Transport: cannot retry err [stream error: stream ID 1; REFUSED_STREAM; received from peer] after Request.Body was written; define Request.GetBody to avoid this error"),
		401, 403, 407, 413, 421, 425, 429,
	}} {
		for _, answer := range answers {
			bubble(t, fmt.Sprint(answer), func(t *testing.T) {
				tr := &retryhttp.Transport{Check: failing, Policy: retry.Policy{MaxAttempts: 2}}
				assert.True(t, strings.HasPrefix(ask(t, tr, request(t, "POST"), answer, 200), fmt.Sprint(sent, " sent")))
			})
		}
	}
}

// asStreamError has the same fields and the same As method as net/http's type.
type asStreamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (asStreamError) Error() string { return "stream error" }

func (e asStreamError) As(target any) bool {
	fields := reflect.ValueOf(target).Elem()
	if fields.Kind() != reflect.Struct || fields.NumField() != 3 {
		return false
	}
	fields.FieldByName("Code").SetUint(uint64(e.Code))
	return true
}

// http2Server returns a Base whose connections are pipes. At the other end of each pipe, serve
// answers HTTP/2 requests with any frames, even wrong ones.
func http2Server(t *testing.T, serve func(c h2conn, stream uint32)) *http.Transport {
	return http2Frames(t, func(c h2conn, f http2Frame) {
		if f.kind == 0x1 { // a HEADERS frame
			serve(c, f.stream)
		}
	})
}

// http2Frames is like http2Server, but `serve` gets every frame of a client.
func http2Frames(t *testing.T, serve func(h2conn, http2Frame)) *http.Transport {
	base := &http.Transport{Protocols: new(http.Protocols), DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, conn := net.Pipe()
		c := make(h2conn, 99)   // buffered, so that the server goes on reading while it writes
		c.frame(0x4, 0, 0, nil) // SETTINGS
		go func() {
			defer conn.Close()
			for frame := range c {
				if frame == nil {
					return
				}
				_, _ = conn.Write(frame)
			}
		}()
		go func() {
			defer close(c)
			in := bufio.NewReader(conn)
			_, _ = in.Discard(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
			for {
				f, err := readFrame(in)
				if err != nil {
					return
				}
				serve(c, f)
			}
		}()
		return client, nil
	}}
	base.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// An http2Frame is a frame as in RFC 9113 section 4.1, without its payload.
type http2Frame struct {
	length      int
	kind, flags byte
	stream      uint32
}

func readFrame(in io.Reader) (http2Frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return http2Frame{}, err
	}
	length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	_, err := io.CopyN(io.Discard, in, int64(length))
	return http2Frame{length, head[3], head[4], binary.BigEndian.Uint32(head[5:])}, err
}

// An h2conn gets the frames that are written to a connection; nil closes it.
type h2conn chan []byte

func (c h2conn) frame(kind, flags byte, stream uint32, payload []byte) {
	frame := []byte{0, 0, byte(len(payload)), kind, flags}
	frame = binary.BigEndian.AppendUint32(frame, stream)
	c <- append(frame, payload...)
}

func (c h2conn) reset(stream, code uint32) {
	c.frame(0x3, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

func (c h2conn) goAway(last, code uint32) {
	c.frame(0x7, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}

// The method `answer` sends a header with one field, ":status: 200", and no body.
func (c h2conn) answer(stream uint32) { c.frame(0x1, 0x5, stream, []byte{0x88}) }

func (c h2conn) close() { c <- nil }

// A request that Prepare sends in the context of a POST proves nothing about the POST. A token
// server that cannot be reached does not show that the POST was not sent, and a token server that
// answers does not show that it was sent.
func TestEvidenceIsAboutTheRequestAlone(t *testing.T) {
	refused := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errReset }}
	answers := piped(1, func(conn net.Conn, _ *http.Request) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	for _, tt := range []struct {
		name   string
		tokens http.RoundTripper
		base   http.RoundTripper
		sent   int
	}{
		{"the token server is down, and Base does not report its connections", refused, script(errReset), 1},
		{"the token server answers, and Base has no connection", answers, refused, 2},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			sent := 0
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				sent++
				return tt.base.RoundTrip(req)
			})}
			tr.Prepare = func(req *http.Request, _ int, _ error) error {
				token, err := http.NewRequestWithContext(req.Context(), "GET", "http://token.test/", nil)
				if resp, err := tt.tokens.RoundTrip(token); err == nil {
					_ = resp.Body.Close()
				}
				return err
			}
			_, err := tr.RoundTrip(request(t, "POST"))
			assert.ErrorContains(t, err, "connection reset by peer")
			assert.Equal(t, tt.sent, sent)
		})
	}
}

// The server processes a request on an idle connection and closes the connection without an answer.
// net/http repeats the request, but the new connection is refused. The server may have processed
// the request all the same.
func TestBeforeAfterARepeatThatIsRefused(t *testing.T) {
	for _, method := range []string{"PUT", "POST"} {
		t.Run(method, func(t *testing.T) {
			var asked, dials atomic.Int64
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				switch asked.Add(1) {
				case 1:
				case 2:
					panic(http.ErrAbortHandler)
				default:
					w.WriteHeader(http.StatusPreconditionFailed)
				}
			})
			base := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials.Add(1) == 2 {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}}
			defer base.CloseIdleConnections()
			req := request(t, "GET")
			req.URL, _ = url.Parse(server.URL)
			textOf(t, send(t, base, req))
			req.Method, req.Header = method, http.Header{"Idempotency-Key": {"k"}}
			tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}
			var e *retry.Error
			require.ErrorAs(t, retryhttp.ErrorOf(send(t, tr, req)), &e)
			assert.Equal(t, [...]any{int64(3), int64(3), 2}, [...]any{asked.Load(), dials.Load(), e.Attempts})
			assert.Error(t, e.Before)
		})
	}
}

// The idle connection of a POST is dead, so net/http writes nothing of the POST to it, and sends
// the POST on a new connection. The server has got it once, so a 429 is retried.
func TestARepeatAfterNothingWasWritten(t *testing.T) {
	for name, lend := range map[string]func(http.RoundTripper) http.RoundTripper{
		"http.Transport": func(base http.RoundTripper) http.RoundTripper { return base },
		"LendBudget":     func(base http.RoundTripper) http.RoundTripper { return retryhttp.LendBudget(base, 3) },
	} {
		for _, body := range []string{"", "data"} {
			t.Run(name+" "+body, func(t *testing.T) {
				var asked, dials atomic.Int64
				var dead atomic.Bool
				server := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost && asked.Add(1) == 1 {
						w.WriteHeader(http.StatusTooManyRequests)
					}
				})
				base := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, network, address)
					if dials.Add(1) == 1 {
						return deadConn{conn, &dead}, err
					}
					return conn, err
				}}
				defer base.CloseIdleConnections()
				ctx := retry.WithBudget(t.Context(), &retry.Budget{Size: 5})
				textOf(t, send(t, base, lentRequest{method: "GET"}.to(ctx, server.URL)))
				dead.Store(true)
				tr := &retryhttp.Transport{Base: lend(base), Policy: retry.Policy{MaxAttempts: 3}}
				resp := send(t, tr, lentRequest{method: "POST", body: body}.to(ctx, server.URL))
				assert.Equal(t, [3]int64{http.StatusOK, 2, 2}, [3]int64{int64(resp.StatusCode), asked.Load(), dials.Load()})
			})
		}
	}
}

// A server refuses a POST over HTTP/2, and net/http repeats the POST on a new connection, which
// speaks HTTP/1. The server has got the POST once, so its 412 is not the effect of a lost answer.
func TestARefusalOverHTTP2AndThenHTTP1(t *testing.T) {
	base := http2AndThenHTTP1(t, func(c h2conn, _ uint32) { c.goAway(0, 0) })
	req := lentRequest{method: "POST", key: "Idempotency-Key", body: "data"}.to(t.Context(), "https://example.test/")
	var e *retry.Error
	require.ErrorAs(t, retryhttp.ErrorOf(send(t, &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}, req)), &e)
	assert.NoError(t, e.Before)
	assert.Equal(t, 1, e.Attempts)
}

// A server refuses a GET over HTTP/2, and net/http repeats the GET over HTTP/1. The first server
// has spent no lent retry, so all lent retries come back.
func TestLeaseOfARefusalOverHTTP2AndThenHTTP1(t *testing.T) {
	asked := 0
	lender := retryhttp.LendBudget(http2AndThenHTTP1(t, func(c h2conn, stream uint32) {
		if asked++; asked == 1 { // tells the lender that the host speaks HTTP/2
			c.answer(stream)
		} else {
			c.goAway(1, 0)
		}
	}), 3)
	budget, req := lends(t, "https://example.test/")
	for _, protocol := range []int{2, 1} {
		resp := send(t, lender, req)
		textOf(t, resp)
		assert.Equal(t, protocol, resp.ProtoMajor)
		assert.Equal(t, 5, budget.Left())
	}
}

// A server refuses a request over HTTP/2, and net/http gets no connection for its repeat. No server
// has processed the request, so it counts as not sent, whatever its method and key are.
func TestARefusalOverHTTP2AndThenNoConnection(t *testing.T) {
	restarts := func(t *testing.T) *http.Transport {
		var dials atomic.Int64
		base := http2AndThenHTTP1(t, func(c h2conn, _ uint32) { c.goAway(0, 0) })
		dial := base.DialContext
		base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) == 2 {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			}
			return dial(ctx, network, address)
		}
		return base
	}
	for _, row := range lentRequests {
		t.Run(row.method+" "+row.key+" "+row.body, func(t *testing.T) {
			tr := &retryhttp.Transport{Base: restarts(t), Policy: retry.Policy{MaxAttempts: 3}, Idempotent: func(*http.Request) bool { return false }}
			var e *retry.Error
			require.ErrorAs(t, retryhttp.ErrorOf(send(t, tr, row.to(t.Context(), "https://example.test/"))), &e)
			assert.NoError(t, e.Before)
			assert.Equal(t, 2, e.Attempts, "%v", e)

			budget := &retry.Budget{Size: 5}
			_, err := retryhttp.LendBudget(restarts(t), 3).RoundTrip(row.to(retry.WithBudget(t.Context(), budget), "https://example.test/"))
			assert.ErrorIs(t, err, syscall.ECONNREFUSED)
			assert.Equal(t, 5, budget.Left())
		})
	}
}

// http2AndThenHTTP1 returns a Base whose first connection speaks HTTP/2 with the server `first`.
// All other connections speak HTTP/1, and their answer is a 412.
func http2AndThenHTTP1(t *testing.T, first func(h2conn, uint32)) *http.Transport {
	var conns atomic.Int64
	http1 := piped(1, func(conn net.Conn, _ *http.Request) {
		_, _ = io.WriteString(conn, "HTTP/1.1 412 X\r\nContent-Length: 0\r\n\r\n")
	})
	http2 := http2Server(t, first)
	return overTLS(t, func() (*http.Transport, string) {
		if conns.Add(1) == 1 {
			return http2, "h2"
		}
		return http1, "http/1.1"
	})
}

// overTLS returns a Base whose connections have TLS. The function `next` returns a Base that makes
// the next connection, and the protocol of this connection.
func overTLS(t *testing.T, next func() (*http.Transport, string)) *http.Transport {
	certificates := certificatesForTests()
	base := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(base.CloseIdleConnections)
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		server, protocol := next()
		inner, err := server.DialContext(ctx, network, address)
		require.NoError(t, err)
		client, outer := net.Pipe()
		conn := tls.Server(outer, &tls.Config{Certificates: certificates, NextProtos: []string{protocol}})
		go func() { defer conn.Close(); _, _ = io.Copy(conn, inner) }()
		go func() { defer inner.Close(); _, _ = io.Copy(inner, conn) }()
		return client, nil
	}
	return base
}

// A server makes a payment on an idle connection and dies. net/http repeats the POST, because the
// POST has a key, and gets no connection for the repeat. The error of the dial alone would say that
// nothing was sent.
func TestAPaymentWhoseRepeatGetsNoConnection(t *testing.T) {
	for attempts := 1; attempts <= 3; attempts++ {
		for name, start := range map[string]func(*httptest.Server){"HTTP/1": http1, "HTTP/1 over TLS": (*httptest.Server).StartTLS} {
			t.Run(fmt.Sprintf("%s, %d attempts", name, attempts), func(t *testing.T) {
				var asked, dials atomic.Int64
				server := serve(t, func(http.ResponseWriter, *http.Request) {
					if asked.Add(1) > 1 {
						panic(http.ErrAbortHandler)
					}
				}, start)
				base := server.Client().Transport.(*http.Transport)
				base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					if dials.Add(1) > 1 {
						return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
					}
					return new(net.Dialer).DialContext(ctx, network, address)
				}
				textOf(t, send(t, base, lentRequest{method: "GET"}.to(t.Context(), server.URL)))
				tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: attempts}}
				_, err := tr.RoundTrip(lentRequest{method: "POST", key: "Idempotency-Key", body: "data"}.to(t.Context(), server.URL))
				var e *retry.Error
				require.ErrorAs(t, err, &e)
				assert.ErrorContains(t, e.Before, "net/http has repeated the request")
				assert.EqualValues(t, 2, asked.Load())
			})
		}
	}
}

// A server makes a payment over HTTP/1 and dies. net/http repeats the POST over HTTP/2, and the
// next server refuses the POST. The refusal does not say that the payment was not made.
func TestAPaymentOverHTTP1AndThenARefusalOverHTTP2(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		t.Run(fmt.Sprint("idempotent: ", idempotent), func(t *testing.T) {
			var conns, asked atomic.Int64
			http1 := piped(2, func(conn net.Conn, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				switch asked.Add(1) {
				case 1:
					_, _ = io.WriteString(conn, "HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n")
				case 2:
					_ = conn.Close()
				default:
					_, _ = io.WriteString(conn, "HTTP/1.1 412 X\r\nContent-Length: 0\r\n\r\n")
				}
			})
			refuses := http2Server(t, func(c h2conn, _ uint32) { c.goAway(0, 2) })
			base := overTLS(t, func() (*http.Transport, string) {
				if conns.Add(1) == 2 {
					return refuses, "h2"
				}
				return http1, "http/1.1"
			})
			textOf(t, send(t, base, lentRequest{method: "GET"}.to(t.Context(), "https://example.test/")))
			tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}, Idempotent: func(*http.Request) bool { return idempotent }}
			resp, err := tr.RoundTrip(lentRequest{method: "POST", key: "Idempotency-Key", body: "data"}.to(t.Context(), "https://example.test/"))
			if idempotent {
				require.NoError(t, err)
				err = retryhttp.ErrorOf(resp)
			}
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.ErrorContains(t, e.Before, "net/http has repeated the request")
			assert.EqualValues(t, map[bool]int{true: 3, false: 2}[idempotent], asked.Load())
		})
	}
}

// A server restarts: it refuses a POST over HTTP/2, or has closed the idle connection, and the new
// server does not listen yet. net/http repeats the POST, and gets no connection for the repeat. No
// server can have processed the POST, so it is sent again, and its lease comes back.
func TestAPostDuringARestart(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, body := range []string{"", "data"} {
		for name, lend := range map[string]func(http.RoundTripper) http.RoundTripper{
			"http.Transport": func(base http.RoundTripper) http.RoundTripper { return base },
			"LendBudget":     func(base http.RoundTripper) http.RoundTripper { return retryhttp.LendBudget(base, 3) },
			"another Base": func(base http.RoundTripper) http.RoundTripper {
				return roundTrip(func(req *http.Request) (*http.Response, error) { return base.RoundTrip(req) })
			},
		} {
			for _, key := range []string{"", "k"} {
				for protocol, start := range map[string]func(*testing.T, *atomic.Bool) *http.Transport{
					"HTTP/2": func(t *testing.T, down *atomic.Bool) *http.Transport {
						return http2Server(t, func(c h2conn, stream uint32) {
							if down.CompareAndSwap(true, false) {
								c.goAway(1, 0)
							} else {
								c.answer(stream)
							}
						})
					},
					"HTTP/1": func(t *testing.T, down *atomic.Bool) *http.Transport {
						server := serve(t, func(http.ResponseWriter, *http.Request) {})
						return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
							conn, err := new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
							if !down.Load() {
								return deadConn{conn, down}, err
							}
							return conn, err
						}}
					},
				} {
					t.Run(strings.Join([]string{protocol, name, key, body}, " "), func(t *testing.T) {
						var dials atomic.Int64
						var down atomic.Bool
						base := start(t, &down)
						defer base.CloseIdleConnections()
						dial := base.DialContext
						base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
							if dials.Add(1) == 2 {
								return nil, refused
							}
							return dial(ctx, network, address)
						}
						budget := &retry.Budget{Size: 5}
						ctx := retry.WithBudget(t.Context(), budget)
						textOf(t, send(t, base, lentRequest{method: "GET"}.to(ctx, "http://example.test/")))
						down.Store(true)
						tr := &retryhttp.Transport{Base: lend(base), Policy: retry.Policy{MaxAttempts: 3}}
						request := lentRequest{method: "POST", body: body}
						if key != "" {
							request.key = "Idempotency-Key"
						}
						resp, err := tr.RoundTrip(request.to(ctx, "http://example.test/"))
						if name == "another Base" && key == "" {
							assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err))
							return
						}
						require.NoError(t, err)
						textOf(t, resp)
						if name != "another Base" {
							assert.Equal(t, 4, budget.Left())
						}
					})
				}
			}
		}
	}
}

// The idle connection of a POST is dead, and the dial for the repeat of net/http does not end in
// time. Nothing of the POST was written. If its header is too long for the buffer of net/http, even
// the trace says so. Otherwise a POST with a key counts as sent, because net/http may have repeated
// it after it was written.
func TestAPostWhoseRepeatGetsNoConnectionInTime(t *testing.T) {
	for _, tt := range []struct {
		name, token, key string
		lost             bool
	}{
		{"a short header", "t", "", false},
		{"a long header", strings.Repeat("t", 10_000), "", false},
		{"a short header with a key", "t", "Idempotency-Key", true},
		{"a long header with a key", strings.Repeat("t", 10_000), "Idempotency-Key", false},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var asked, dials atomic.Int64
			var dead atomic.Bool
			base := piped(2, func(conn net.Conn, req *http.Request) {
				asked.Add(1)
				_, _ = io.WriteString(conn, map[string]string{"GET": "HTTP/1.1 200 X", "POST": "HTTP/1.1 412 X"}[req.Method]+"\r\nContent-Length: 0\r\n\r\n")
			})
			defer base.CloseIdleConnections()
			dial := base.DialContext
			base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				n := dials.Add(1)
				if n == 2 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				conn, err := dial(ctx, network, address)
				if n == 1 {
					conn = deadConn{conn, &dead}
				}
				return conn, err
			}
			textOf(t, send(t, base, lentRequest{method: "GET"}.to(t.Context(), "http://example.test/")))
			dead.Store(true)
			tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}}
			req := lentRequest{method: "POST", key: tt.key, body: "data"}.to(t.Context(), "http://example.test/")
			req.Header.Set("Authorization", tt.token)
			resp := send(t, tr, req)
			assert.Equal(t, [3]int64{412, 2, 3}, [3]int64{int64(resp.StatusCode), asked.Load(), dials.Load()})
			var e *retry.Error
			require.ErrorAs(t, retryhttp.ErrorOf(resp), &e)
			assert.Equal(t, tt.lost, e.Before != nil, e)
		})
	}
}

// A deadConn fails to write as soon as `dead` is true.
type deadConn struct {
	net.Conn
	dead *atomic.Bool
}

func (c deadConn) Write(p []byte) (int, error) {
	if c.dead.Load() {
		return 0, errReset
	}
	return c.Conn.Write(p)
}
