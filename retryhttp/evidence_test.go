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
func post(t *testing.T, base http.RoundTripper, url string, edit ...func(*retryhttp.Transport)) (int, retry.Reason, error) {
	var seen events
	tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond), OnEvent: seen.add}}
	for _, edit := range edit {
		edit(tr)
	}
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
	const short = 20 * time.Millisecond
	closes := func(*net.TCPConn) {}
	resets := func(conn *net.TCPConn) { _ = conn.SetLinger(0) }
	silent := func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) }
	received := func(answer string, end func(*net.TCPConn)) func(*net.TCPConn) {
		return func(conn *net.TCPConn) {
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				return
			}
			// Closing with unread data resets the connection, which can
			// overtake the answer.
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(conn, answer)
			end(conn)
		}
	}
	for _, tt := range []struct {
		name   string
		scheme string
		server func(*net.TCPConn) // nil: nothing listens
		base   *http.Transport
		again  bool
	}{
		{"refused", "http", nil, &http.Transport{}, true},
		{"DNS, for now", "http", closes, &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}
		}}, true},
		{"closed in the TLS handshake", "https", closes, &http.Transport{}, true},
		{"reset in the TLS handshake", "https", resets, &http.Transport{}, true},
		{"a TLS handshake that takes too long", "https", silent, &http.Transport{TLSHandshakeTimeout: short}, true},

		{"closed after the request", "http", received("", closes), &http.Transport{}, false},
		{"closed in the answer", "http", received("HTTP/1.1 200 O", closes), &http.Transport{}, false},
		{"reset after the request", "http", received("", resets), &http.Transport{}, false},
		{"no answer", "http", silent, &http.Transport{ResponseHeaderTimeout: short}, false},
		{"503", "http", received("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", closes), &http.Transport{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.base.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			defer tt.base.CloseIdleConnections()
			addr := freeAddr(t)
			if tt.server != nil {
				addr = rawServer(t, tt.server)
			}
			attempts, reason, err := post(t, tt.base, tt.scheme+"://"+addr)
			if tt.again {
				assert.Equal(t, 3, attempts, "%v", err)
				assert.Equal(t, retry.ReasonExhausted, reason)
			} else {
				assert.Equal(t, 1, attempts, "%v", err)
				assert.Equal(t, retry.ReasonNonRetryable, reason)
			}
		})
	}
	pipe := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		return client, nil
	}
	for _, tt := range []struct {
		name, scheme string
		dial         func(context.Context, string, string) (net.Conn, error)
		reason       retry.Reason
	}{
		{"before there is a connection", "http", func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(30 * time.Second)
			return nil, errReset
		}, retry.ReasonExhausted},
		{"in the TLS handshake", "https", pipe, retry.ReasonExhausted},
		{"while the request is under way", "http", pipe, retry.ReasonNonRetryable},
	} {
		bubble(t, "AttemptTimeout, "+tt.name, func(t *testing.T) {
			base := &http.Transport{DialContext: tt.dial, TLSHandshakeTimeout: time.Minute}
			_, reason, _ := post(t, base, tt.scheme+"://example.test/", func(tr *retryhttp.Transport) { tr.Policy.AttemptTimeout = time.Second })
			assert.Equal(t, tt.reason, reason)
			time.Sleep(time.Minute) // until dials and handshakes end
		})
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
					switch report {
					case "asks":
						trace.GetConn("")
					case "got":
						trace.GotConn(httptrace.GotConnInfo{})
					case "wrote":
						trace.WroteHeaders()
					}
				}
				if tt.canceled {
					<-req.Context().Done()
				}
				return nil, refused
			}), "http://example.test/", func(tr *retryhttp.Transport) { tr.Policy.AttemptTimeout = time.Second })
			assert.Equal(t, tt.canceled, !errors.Is(err, refused))
			assert.Equal(t, tt.attempts, attempts)
		})
	}
}

// The request's own trace still works, and an idempotent request gets no other
// trace.
func TestTraces(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		got := 0
		own := &httptrace.ClientTrace{GetConn: func(string) { got++ }}
		req := request(t, method)
		base := script(200)
		send(t, &retryhttp.Transport{Base: base}, req.WithContext(httptrace.WithClientTrace(req.Context(), own)))
		trace := httptrace.ContextClientTrace(base.sent[0].Context())
		assert.Equal(t, method == "GET", trace == own)
		trace.GetConn("")
		assert.Equal(t, 1, got)
	}
	base := script(200)
	send(t, &retryhttp.Transport{Base: base})
	assert.Nil(t, httptrace.ContextClientTrace(base.sent[0].Context()))
}

// The policy's own Classify is called only for an attempt of a POST that the server
// cannot have processed.
func TestClassifyOfAPost(t *testing.T) {
	processed := errors.New("the server may have processed this POST; see retryhttp.Transport.Idempotent")
	slow := &retry.Class{Name: "slow", Backoff: retry.Fixed(time.Minute)}
	for _, tt := range []struct {
		name   string
		fault  httpfault.Fault
		class  *retry.Class
		asked  int
		sent   int
		reason retry.Reason
		cause  error
		delay  time.Duration
	}{
		{"not sent, no class", httpfault.Before(nil), nil, 1, 2, retry.ReasonSuccess, nil, time.Second},
		{"not sent, another curve", httpfault.Before(nil), slow, 1, 2, retry.ReasonSuccess, nil, time.Minute},
		{"not sent, none allowed", httpfault.Before(nil), &retry.Class{NonRetryable: true}, 1, 1, retry.ReasonNonRetryable, nil, time.Second},
		{"sent, no class", httpfault.After(nil), nil, 0, 1, retry.ReasonNonRetryable, processed, time.Second},
		{"sent, another curve", httpfault.After(nil), slow, 0, 1, retry.ReasonNonRetryable, processed, time.Second},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var seen events
			asked := 0
			start := time.Now()
			_, err := (&retryhttp.Transport{Base: httpfault.New(script(200), tt.fault), Policy: retry.Policy{
				MaxAttempts: 3, Backoff: retry.Fixed(time.Second), OnEvent: seen.add,
				Classify: func(error) *retry.Class { asked++; return tt.class },
			}}).RoundTrip(request(t, "POST"))
			stop := seen.stop()
			assert.Equal(t, tt.sent, stop.Attempt)
			assert.Equal(t, tt.reason, stop.Reason)
			assert.Equal(t, tt.asked, asked)
			assert.Equal(t, tt.cause, stop.Cause)
			var e *retry.Error
			if errors.As(err, &e) {
				assert.Equal(t, tt.delay, e.Delay)
			} else {
				assert.Equal(t, tt.delay, time.Since(start))
			}
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
			attempts, reason, err := post(t, base, "https://example.test/")
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
	var e streamError
	require.ErrorAs(t, fails(func(c h2conn, stream uint32) { c.reset(stream, 0x2) }, strings.NewReader("data")), &e)
	assert.EqualValues(t, 0x2, e.Code)
}

const orderlyGoAway = "http2: Transport received Server's graceful shutdown GOAWAY"

// streamError has the same fields as net/http's type.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

// A refusal counts if Base reports it in one of these ways, and only if it is
// about this request.
func TestRefusalsByWhatTheySay(t *testing.T) {
	goAway := errors.New(orderlyGoAway)
	for _, tt := range []struct {
		name string
		err  error
		sent int
	}{
		{"a stream refused", asStreamError{Code: 0x7}, 2},
		{"a stream refused, wrapped", fmt.Errorf("base: %w", asStreamError{Code: 0x7}), 2},
		{"another reset", asStreamError{Code: 0x8}, 1},
		{"golang.org/x/net/http2, whose type has no such method", errors.New("stream error: stream ID 3; REFUSED_STREAM; received from peer"), 2},
		{"the same, another code", errors.New("stream error: stream ID 3; CANCEL; received from peer"), 1},
		{"gone away", goAway, 2},
		{"gone away, wrapped", &url.Error{Op: "Post", Err: goAway}, 2},
		{"gone away with an error", errors.New("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"), 2},
		{"gone away after this stream", errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=\"\""), 1},
		{"another error, whose text quotes a refusal", fmt.Errorf("EOF (the first time: %s)", orderlyGoAway), 1},
		{"two errors", errors.Join(goAway, io.EOF), 1},
		{"two errors, of one type", errors.Join(asStreamError{Code: 0x7}, io.EOF), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := script(tt.err, 200)
			_, _, _ = post(t, base, "https://example.test/")
			assert.Len(t, base.sent, tt.sent)
		})
	}
}

// asStreamError has the same As method as net/http's type.
type asStreamError streamError

func (asStreamError) Error() string { return "stream error" }

func (e asStreamError) As(target any) bool {
	fields := reflect.ValueOf(target).Elem()
	if fields.Kind() != reflect.Struct || fields.NumField() != 3 {
		return false
	}
	fields.FieldByName("Code").SetUint(uint64(e.Code))
	return true
}

// What the status says about the request holds for a Check that retries the
// status, too.
func TestPostThatWasNotApplied(t *testing.T) {
	for status, sent := range map[int]int{401: 2, 421: 2, 425: 2, 403: 1, 409: 1, 429: 1, 503: 1} {
		base := script(status, 200)
		send(t, &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}, Check: func(_ *http.Request, resp *http.Response, _ error) error {
			if resp.StatusCode != 200 {
				return retryhttp.NewStatusError(resp)
			}
			return nil
		}}, request(t, "POST"))
		assert.Len(t, base.sent, sent, status)
	}
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
