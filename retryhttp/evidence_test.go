package retryhttp_test

import (
	"bufio"
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
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
)

// post sends a POST without a key, with a body that can be sent again. It
// returns the number of attempts, the reason and the error.
func post(t *testing.T, base http.RoundTripper, url string, timeout time.Duration) (int, retry.Reason, error) {
	var seen events
	tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{
		MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond), AttemptTimeout: timeout, OnEvent: seen.add,
	}}
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader("data"))
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	stop := seen.stop()
	return stop.Attempt, stop.Reason, err
}

// A POST is retried if there was no connection, because nothing can have left
// the machine. If there was a connection, the same errors mean that the server
// may have processed the request.
func TestPostIsRetriedWhereNothingWasSent(t *testing.T) {
	closes := func(*net.TCPConn) {}
	resets := func(conn *net.TCPConn) { _ = conn.SetLinger(0) }
	received := func(answer string, end func(*net.TCPConn)) func(*net.TCPConn) {
		return func(conn *net.TCPConn) {
			if req, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				// Closing with unread data resets the connection, which can
				// overtake the answer.
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(conn, answer)
				end(conn)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		scheme string
		server func(*net.TCPConn) // nil: nothing listens
		again  bool
	}{
		{"refused", "http", nil, true},
		{"closed in the TLS handshake", "https", closes, true},
		{"reset in the TLS handshake", "https", resets, true},

		{"closed after the request", "http", received("", closes), false},
		{"closed in the answer", "http", received("HTTP/1.1 200 O", closes), false},
		{"reset after the request", "http", received("", resets), false},
		{"503", "http", received("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", closes), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := "127.0.0.1:1"
			if tt.server != nil {
				addr = rawServer(t, tt.server)
			}
			base := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			defer base.CloseIdleConnections()
			assertPosted(t, base, tt.scheme+"://"+addr, 0, tt.again)
		})
	}
	pipe := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		return client, nil
	}
	dnsError := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}
	fails := func(err error, after time.Duration) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { time.Sleep(after); return nil, err }
	}
	for _, tt := range []struct {
		name, scheme string
		dial         func(context.Context, string, string) (net.Conn, error)
		timeout      time.Duration // of an attempt
		again        bool
	}{
		{"DNS, for now", "http", fails(dnsError, 0), 0, true},
		{"a TLS handshake that takes too long", "https", pipe, 0, true},
		{"no answer", "http", pipe, 0, false},
		{"AttemptTimeout, before there is a connection", "http", fails(errReset, 30*time.Second), time.Second, true},
		{"AttemptTimeout, in the TLS handshake", "https", pipe, time.Second, true},
		{"AttemptTimeout, while the request is under way", "http", pipe, time.Second, false},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			base := &http.Transport{DialContext: tt.dial, TLSHandshakeTimeout: time.Minute, ResponseHeaderTimeout: time.Minute}
			assertPosted(t, base, tt.scheme+"://example.test/", tt.timeout, tt.again)
			time.Sleep(time.Minute) // until dials and handshakes end
		})
	}
}

// assertPosted sends a POST without a key, with a body that can be sent again, which
// fails three times or is sent once.
func assertPosted(t *testing.T, base http.RoundTripper, url string, timeout time.Duration, again bool) {
	attempts, reason, err := post(t, base, url, timeout)
	if again {
		assert.Equal(t, 3, attempts, "%v", err)
		assert.Equal(t, retry.ReasonExhausted, reason)
	} else {
		assert.Equal(t, 1, attempts, "%v", err)
		assert.Equal(t, retry.ReasonNonRetryable, reason)
	}
}

// If a Base reports nothing, everything may have been sent, whatever its error
// says. If it reports a connection, nothing has been sent until it reports a
// header, unless the attempt was canceled.
func TestPostThroughABaseThatDoesNotTrace(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, tt := range map[string]struct {
		reports  string
		canceled bool
		attempts int
	}{
		"nothing":                               {"", false, 1},
		"that it asks for a connection":         {"asks", false, 3},
		"that it got one, and wrote nothing":    {"asks got", false, 3},
		"the same, and was then canceled":       {"asks got", true, 1}, // http.Transport may still be writing
		"that it wrote the header":              {"asks got wrote", false, 1},
		"the same, and then that it asks again": {"asks got wrote asks", false, 1},
		"that it asks, and was then canceled":   {"asks", true, 3},
	} {
		bubble(t, name, func(t *testing.T) {
			attempts, _, err := post(t, roundTrip(func(req *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(req.Context())
				for report := range strings.FieldsSeq(tt.reports) {
					map[string]func(){
						"asks": func() { trace.GetConn("") }, "got": func() { trace.GotConn(httptrace.GotConnInfo{}) }, "wrote": trace.WroteHeaders,
					}[report]()
				}
				if tt.canceled {
					<-req.Context().Done()
				}
				return nil, refused
			}), "http://example.test/", time.Second)
			assert.Equal(t, tt.canceled, !errors.Is(err, refused))
			assert.Equal(t, tt.attempts, attempts)
		})
	}
}

// The request's own trace still works, and an idempotent request gets no other
// trace.
func TestTraces(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		got, base := 0, script(200)
		own := &httptrace.ClientTrace{GetConn: func(string) { got++ }}
		req := request(t, method)
		send(t, &retryhttp.Transport{Base: base}, req.WithContext(httptrace.WithClientTrace(req.Context(), own)))
		trace := httptrace.ContextClientTrace(base.sent[0].Context())
		assert.Equal(t, method == "GET", trace == own)
		trace.GetConn("")
		assert.Equal(t, 1, got)
	}
}

// The policy's own Classify is called only for an attempt of a POST that the server
// cannot have processed.
func TestClassifyOfAPost(t *testing.T) {
	unsent := func(req *http.Request) (*http.Response, error) { return httpfault.Before(errReset)(req, nil) }
	slow := &retry.Class{Name: "slow", Backoff: retry.Fixed(time.Minute)}
	for _, tt := range []struct {
		name  string
		first any
		class *retry.Class
		asked int
		want  string
	}{
		{"not sent, no class", unsent, nil, 1, "2 sent in 1s, 200"},
		{"not sent, another curve", unsent, slow, 1, "2 sent in 1m0s, 200"},
		{"not sent, none allowed", unsent, &retry.Class{NonRetryable: true}, 1, "1 sent: not retryable after 1 attempt: connection reset by peer"},
		{"sent, another curve", errReset, slow, 0,
			"1 sent: not retryable after 1 attempt (the server may have processed this POST; see retryhttp.Transport.Idempotent): connection reset by peer"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			asked := 0
			tr := &retryhttp.Transport{Policy: retry.Policy{
				MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Classify: func(error) *retry.Class { asked++; return tt.class },
			}}
			assert.Equal(t, tt.want, ask(t, tr, request(t, "POST"), tt.first, 200))
			assert.Equal(t, tt.asked, asked)
		})
	}
}

// The test pins how net/http's errors for HTTP/2 look in this version of Go.
func TestHTTP2Refusals(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first func(h2conn, uint32) // what the server does with the first request
		again bool
	}{
		{"a stream refused", func(c h2conn, stream uint32) { c.reset(stream, 0x7) }, true},
		{"gone away in an orderly way, before this stream", func(c h2conn, _ uint32) { c.goAway(0, 0x0) }, true},
		{"gone away with an error, before this stream", func(c h2conn, _ uint32) { c.goAway(0, 0xb) }, true},
		{"gone away with an error, after this stream", func(c h2conn, stream uint32) { c.goAway(stream, 0x2); c.conn.Close() }, false},
		{"another reset", func(c h2conn, stream uint32) { c.reset(stream, 0x2) }, false},
		{"canceled", func(c h2conn, stream uint32) { c.reset(stream, 0x8) }, false},
		{"closed", func(c h2conn, _ uint32) { c.conn.Close() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int64
			base := http2Server(t, func(c h2conn, stream uint32) {
				if requests.Add(1) == 1 {
					tt.first(c, stream)
					return
				}
				c.answer(stream)
			})
			attempts, reason, err := post(t, base, "https://example.test/", 0)
			if tt.again { // by http.Transport itself, or by the Transport of this package
				require.NoError(t, err)
				assert.Equal(t, retry.ReasonSuccess, reason)
				assert.EqualValues(t, 2, requests.Load())
			} else {
				assert.Equal(t, retry.ReasonNonRetryable, reason, "%v", err)
				assert.Equal(t, 1, attempts)
			}
		})
	}

	// http.Transport repeats such a request itself. Its error gets here only
	// after six attempts and a minute, or in the text that says why it cannot
	// repeat the request.
	fails := func(serve func(h2conn, uint32), body io.Reader) error {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://example.test/", body)
		require.NoError(t, err)
		_, err = http2Server(t, serve).RoundTrip(req)
		return err
	}
	err := fails(func(c h2conn, _ uint32) { c.goAway(0, 0x0) }, io.MultiReader(strings.NewReader("data")))
	assert.ErrorContains(t, err, orderlyGoAway)
	var e asStreamError
	require.ErrorAs(t, fails(func(c h2conn, stream uint32) { c.reset(stream, 0x2) }, strings.NewReader("data")), &e)
	assert.EqualValues(t, 0x2, e.Code)
}

const orderlyGoAway = "http2: Transport received Server's graceful shutdown GOAWAY"

// A refusal counts if Base reports it in one of these ways, and only if it is
// about this request. What the status says about the request holds for a Check that
// retries the status, too.
func TestRefusalsByWhatTheySay(t *testing.T) {
	goAway, reset := errors.New(orderlyGoAway), asStreamError{Code: 0x7}
	for sent, answers := range [][]any{1: {
		asStreamError{Code: 0x8},
		errors.New("stream error: stream ID 3; CANCEL; received from peer"),
		errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=\"\""), // after this stream
		fmt.Errorf("EOF (the first time: %s)", orderlyGoAway),
		errors.Join(goAway, io.EOF), // two errors
		errors.Join(reset, io.EOF),
		403, 409, 429, 503,
	}, 2: {
		reset,
		fmt.Errorf("base: %w", reset),
		errors.New("stream error: stream ID 3; REFUSED_STREAM; received from peer"), // golang.org/x/net/http2, whose type has no such method
		goAway,
		&url.Error{Op: "Post", Err: goAway},
		errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"),
		401, 421, 425,
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

// http2Server starts a server that speaks just enough HTTP/2 to misbehave. It
// returns a Base that connects to it for every address.
func http2Server(t *testing.T, serve func(c h2conn, stream uint32)) *http.Transport {
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	config := &tls.Config{Certificates: cert.TLS.Certificates, NextProtos: []string{"h2"}}
	cert.Close()
	addr := rawServer(t, func(tcp *net.TCPConn) {
		conn := tls.Server(tcp, config)
		defer conn.Close()
		stop := context.AfterFunc(t.Context(), func() { tcp.Close() }) // a client may keep a connection that it cannot use
		defer stop()
		c := h2conn{conn}
		if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		c.frame(0x4, 0, 0, nil) // SETTINGS
		for {
			kind, stream, err := c.read()
			if err != nil {
				return
			}
			if kind == 0x1 { // HEADERS
				serve(c, stream)
			}
		}
	})
	base := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// An h2conn reads and writes frames as in RFC 9113 section 4.1.
type h2conn struct{ conn net.Conn }

func (c h2conn) read() (kind byte, stream uint32, err error) {
	var head [9]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return 0, 0, err
	}
	length := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
	_, err = io.CopyN(io.Discard, c.conn, length)
	return head[3], binary.BigEndian.Uint32(head[5:]), err
}

func (c h2conn) frame(kind, flags byte, stream uint32, payload []byte) {
	frame := []byte{0, 0, byte(len(payload)), kind, flags}
	frame = binary.BigEndian.AppendUint32(frame, stream)
	_, _ = c.conn.Write(append(frame, payload...))
}

func (c h2conn) reset(stream, code uint32) {
	c.frame(0x3, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

func (c h2conn) goAway(last, code uint32) {
	c.frame(0x7, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}

// answer sends a header with one field, ":status: 200", and no body.
func (c h2conn) answer(stream uint32) { c.frame(0x1, 0x5, stream, []byte{0x88}) }
