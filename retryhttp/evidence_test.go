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
	"testing/synctest"
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
	reset := func(conn *net.TCPConn) { _ = conn.SetLinger(0) }
	received := func(answer string) func(*net.TCPConn) {
		return func(conn *net.TCPConn) {
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				return
			}
			// Closing with unread data resets the connection, which can
			// overtake the answer.
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(conn, answer)
		}
	}
	for _, tt := range []struct {
		name  string
		url   func(t *testing.T) string
		base  func(*http.Transport)
		again bool
	}{
		{"refused", func(t *testing.T) string { return "http://" + freeAddr(t) }, nil, true},
		{"DNS, for now", func(*testing.T) string { return "http://example.test" }, func(tr *http.Transport) {
			tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "server misbehaving", IsTemporary: true}}
			}
		}, true},
		{"closed in the TLS handshake", func(t *testing.T) string { return "https://" + rawServer(t, func(*net.TCPConn) {}) }, nil, true},
		{"reset in the TLS handshake", func(t *testing.T) string { return "https://" + rawServer(t, reset) }, nil, true},
		{"a TLS handshake that takes too long", func(t *testing.T) string {
			return "https://" + rawServer(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
		}, func(tr *http.Transport) { tr.TLSHandshakeTimeout = 20 * time.Millisecond }, true},

		{"closed after the request", func(t *testing.T) string { return "http://" + rawServer(t, received("")) }, nil, false},
		{"closed in the answer", func(t *testing.T) string { return "http://" + rawServer(t, received("HTTP/1.1 200 O")) }, nil, false},
		{"reset after the request", func(t *testing.T) string {
			return "http://" + rawServer(t, func(conn *net.TCPConn) { received("")(conn); reset(conn) })
		}, nil, false},
		{"no answer", func(t *testing.T) string {
			return "http://" + rawServer(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
		}, func(tr *http.Transport) { tr.ResponseHeaderTimeout = 20 * time.Millisecond }, false},
		{"503", func(t *testing.T) string {
			return "http://" + rawServer(t, received("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"))
		}, nil, false},
		{"421", func(t *testing.T) string {
			return "http://" + rawServer(t, received("HTTP/1.1 421 Elsewhere\r\nContent-Length: 0\r\n\r\n"))
		}, nil, true},
		{"425", func(t *testing.T) string {
			return "http://" + rawServer(t, received("HTTP/1.1 425 Early\r\nContent-Length: 0\r\n\r\n"))
		}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
			defer base.CloseIdleConnections()
			if tt.base != nil {
				tt.base(base)
			}
			attempts, reason, err := post(t, base, tt.url(t))
			if tt.again {
				assert.Equal(t, 3, attempts, "%v", err)
				assert.Equal(t, retry.ReasonExhausted, reason)
			} else {
				assert.Equal(t, 1, attempts, "%v", err)
				assert.Equal(t, retry.ReasonNonRetryable, reason)
			}
		})
	}
}

// The timeout of an attempt can end before there is a connection, or after.
func TestPostAfterAttemptTimeout(t *testing.T) {
	silent := rawServer(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	short := func(tr *retryhttp.Transport) { tr.Policy.AttemptTimeout = 20 * time.Millisecond }
	base := &http.Transport{}
	defer base.CloseIdleConnections()

	endless := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	attempts, reason, _ := post(t, endless, "http://example.test", short)
	assert.Equal(t, 3, attempts, "there is no connection")
	assert.Equal(t, retry.ReasonExhausted, reason)

	attempts, reason, _ = post(t, base, "https://"+silent, short)
	assert.Equal(t, 3, attempts, "the handshake has not ended")
	assert.Equal(t, retry.ReasonExhausted, reason)

	attempts, reason, _ = post(t, base, "http://"+silent, short)
	assert.Equal(t, 1, attempts, "the request is under way")
	assert.Equal(t, retry.ReasonNonRetryable, reason)
}

// If a Base reports nothing, everything may have been sent, whatever its error
// says. If it reports a connection, nothing has been sent until it reports a
// header, unless the attempt was canceled.
func TestPostThroughABaseThatDoesNotTrace(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	trace := func(req *http.Request) *httptrace.ClientTrace { return httptrace.ContextClientTrace(req.Context()) }
	for _, tt := range []struct {
		name string
		base roundTrip
		sent int
	}{
		{"not at all", func(*http.Request) (*http.Response, error) { return nil, refused }, 1},
		{"that it asks for a connection", func(req *http.Request) (*http.Response, error) {
			trace(req).GetConn("")
			return nil, refused
		}, 3},
		{"that it got one, and wrote nothing", func(req *http.Request) (*http.Response, error) {
			trace(req).GetConn("")
			trace(req).GotConn(httptrace.GotConnInfo{})
			return nil, refused
		}, 3},
		{"that it wrote the header", func(req *http.Request) (*http.Response, error) {
			trace(req).GetConn("")
			trace(req).GotConn(httptrace.GotConnInfo{})
			trace(req).WroteHeaders()
			return nil, refused
		}, 1},
		{"that it wrote the header, and then asks again", func(req *http.Request) (*http.Response, error) {
			trace(req).GetConn("")
			trace(req).GotConn(httptrace.GotConnInfo{})
			trace(req).WroteHeaders()
			trace(req).GetConn("")
			return nil, refused
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attempts, _, err := post(t, tt.base, "http://example.test/")
			assert.ErrorIs(t, err, refused)
			assert.Equal(t, tt.sent, attempts)
		})
	}

	t.Run("that it got a connection, and was then canceled", func(t *testing.T) {
		attempts, _, _ := post(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			trace(req).GetConn("")
			trace(req).GotConn(httptrace.GotConnInfo{})
			<-req.Context().Done() // http.Transport may still be writing
			return nil, req.Context().Err()
		}), "http://example.test/", func(tr *retryhttp.Transport) { tr.Policy.AttemptTimeout = time.Millisecond })
		assert.Equal(t, 1, attempts)
	})
}

// The request's own trace still works, and an idempotent request gets no other
// trace.
func TestTraces(t *testing.T) {
	for method, want := range map[string]int{"GET": 1, "POST": 1} {
		t.Run(method, func(t *testing.T) {
			got := 0
			own := &httptrace.ClientTrace{GetConn: func(string) { got++ }}
			req := request(t, method)
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), own))
			_, err := (&retryhttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
				trace := httptrace.ContextClientTrace(r.Context())
				assert.Equal(t, method == "GET", trace == own)
				trace.GetConn("")
				return response(200), nil
			})}).RoundTrip(req)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	_, err := (&retryhttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		assert.Nil(t, httptrace.ContextClientTrace(r.Context()))
		return response(200), nil
	})}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
}

// A request without GetBody gets one attempt, even if that attempt sent
// nothing.
func TestNothingSentAndNoGetBody(t *testing.T) {
	req := request(t, "POST")
	req.Body = io.NopCloser(strings.NewReader("data"))
	base := httpfault.New(nil, httpfault.Before(nil))
	_, err := (&retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}).RoundTrip(req)
	assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err))
	assert.Len(t, base.Calls(), 1)
}

// The policy's own Classify is called only for an attempt of a POST that the server
// cannot have processed.
func TestClassifyOfAPost(t *testing.T) {
	processed := "the server may have processed this POST; see retryhttp.Transport.Idempotent"
	slow := &retry.Class{Name: "slow", Policy: &retry.Policy{Backoff: retry.Fixed(time.Minute)}}
	for _, tt := range []struct {
		name   string
		fault  httpfault.Fault
		class  *retry.Class
		asked  int
		sent   int
		reason retry.Reason
		cause  string
		delay  time.Duration
	}{
		{"not sent, no class", httpfault.Before(nil), nil, 1, 2, retry.ReasonSuccess, "", time.Second},
		{"not sent, another curve", httpfault.Before(nil), slow, 1, 2, retry.ReasonSuccess, "", time.Minute},
		{"not sent, none allowed", httpfault.Before(nil), &retry.Class{Policy: &retry.Policy{NonRetryable: true}}, 1, 1, retry.ReasonNonRetryable, "", 0},
		{"sent, no class", httpfault.After(nil), nil, 0, 1, retry.ReasonNonRetryable, processed, time.Second},
		{"sent, another curve", httpfault.After(nil), slow, 0, 1, retry.ReasonNonRetryable, processed, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen events
				asked := 0
				faults := httpfault.New(script(200), tt.fault)
				attempts, reason, err := post(t, faults, "http://example.test/", func(tr *retryhttp.Transport) {
					tr.Policy.Backoff = retry.Fixed(time.Second)
					tr.Policy.Classify = func(error) *retry.Class { asked++; return tt.class }
					count := tr.Policy.OnEvent
					tr.Policy.OnEvent = func(ctx context.Context, e retry.Event) { count(ctx, e); seen.add(ctx, e) }
				})
				assert.Equal(t, tt.sent, attempts)
				assert.Equal(t, tt.reason, reason)
				assert.Equal(t, tt.asked, asked)
				if tt.cause == "" {
					assert.NoError(t, seen.stop().Cause)
				} else {
					assert.EqualError(t, seen.stop().Cause, tt.cause)
				}
				var e *retry.Error
				if errors.As(err, &e) {
					assert.Equal(t, tt.delay, e.Delay)
				} else {
					assert.Equal(t, tt.delay, seen.of(retry.RetryScheduled)[0].Delay)
				}
			})
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
	t.Run("the text for an orderly GOAWAY", func(t *testing.T) {
		base := http2Server(t, func(c h2conn, _ uint32) { c.goAway(0, 0x0) })
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://example.test/", io.MultiReader(strings.NewReader("data")))
		require.NoError(t, err)
		_, err = base.RoundTrip(req)
		require.ErrorContains(t, err, orderlyGoAway)
	})
	t.Run("the type for a stream", func(t *testing.T) {
		base := http2Server(t, func(c h2conn, stream uint32) { c.reset(stream, 0x2) })
		req, err := http.NewRequestWithContext(t.Context(), "POST", "https://example.test/", strings.NewReader("data"))
		require.NoError(t, err)
		_, err = base.RoundTrip(req)
		var e streamError
		require.ErrorAs(t, err, &e)
		assert.EqualValues(t, 0x2, e.Code)
	})
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

// If a proxy refuses CONNECT, it will refuse it again, whatever the method is.
func TestProxyThatRefuses(t *testing.T) {
	for _, tt := range []struct {
		status string
		sent   int64
	}{
		{"407 Proxy Authentication Required", 1},
		{"403 Forbidden", 1},
		{"502 Bad Gateway", 1},
		{"503 Service Unavailable", 1},
		{"407", 1},
		{"407 Denied by the order of the admin", 3}, // without the usual text the refusal cannot be recognized
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(method+" "+tt.status, func(t *testing.T) {
				var connects atomic.Int64
				proxy := rawServer(t, func(conn *net.TCPConn) {
					req, err := http.ReadRequest(bufio.NewReader(conn))
					if err == nil && assert.Equal(t, "CONNECT", req.Method) {
						connects.Add(1)
						fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", tt.status)
					}
				})
				base := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}
				defer base.CloseIdleConnections()
				tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}
				req, err := http.NewRequestWithContext(t.Context(), method, "https://example.test/", nil)
				require.NoError(t, err)
				_, err = tr.RoundTrip(req)
				assert.Error(t, err)
				assert.Equal(t, tt.sent, connects.Load(), "%v", err)
				assert.Equal(t, map[bool]retry.Reason{true: retry.ReasonPermanent, false: retry.ReasonExhausted}[tt.sent == 1], retry.ReasonOf(err))
			})
		}
	}

	t.Run("a proxy that cannot be reached", func(t *testing.T) {
		base := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: freeAddr(t)})}
		attempts, reason, _ := post(t, base, "https://example.test/")
		assert.Equal(t, 3, attempts)
		assert.Equal(t, retry.ReasonExhausted, reason)
	})
	t.Run("a proxy's error text for an http URL", func(t *testing.T) {
		base := script(errors.New("Bad Gateway"), 200)
		_, err := (&retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}).RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Len(t, base.sent, 2)
	})
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
