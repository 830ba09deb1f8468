package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/httpfault"
	"github.com/goretry/retry/retrynet"
)

// If a request is not sent again, its error says why, and what to change. If the request cannot be
// sent again, the error says so even if a limit of the policy is reached too.
func TestRequestsThatAreSentAgain(t *testing.T) {
	boom := errors.New("boom")
	const (
		again     = "2 sent, 200"
		notAgain  = "1 sent, 503: not retryable after 1 attempt (%s): 503 Service Unavailable"
		noGetBody = "the request has no GetBody, so its body cannot be sent again; see retryhttp.SetBody"
		processed = "the server may have processed this %s; see retryhttp.Transport.Idempotent"
		rejected  = ": rejected by RetryIf after 1 attempt: "
		final     = ": permanent error after %s: "
	)
	once := func(req *http.Request) { req.Body = io.NopCloser(strings.NewReader("data")) }
	getBody := func(body io.ReadCloser, err error) edit {
		return ofRequest(func(req *http.Request) {
			req.Body, req.GetBody = body, func() (io.ReadCloser, error) { return nil, err }
		})
	}
	retryIf := func(retries func(error) bool) edit { return policy(retry.Policy{MaxAttempts: 3, RetryIf: retries}) }
	unsent := func(req *http.Request) (*http.Response, error) { return httpfault.Before(boom)(req, nil) }
	asked := 0
	own := &httptrace.ClientTrace{GetConn: func(string) { asked++ }}
	class := func(class *retry.Class) edit {
		return policy(retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Classify: func(error) *retry.Class { return class }})
	}
	only429 := retryIf(func(err error) bool {
		var status *retryhttp.StatusError
		return errors.As(err, &status) && status.HTTPStatusCode() == 429 && status.Header.Get("Retry-After") == "1"
	})
	for _, tt := range []struct {
		name   string
		method string
		edit   edit
		first  any // the answer to the first attempt; the next answer is a 200
		want   string
	}{
		{"POST", "POST", nil, 503, fmt.Sprintf(notAgain, fmt.Sprintf(processed, "POST"))},
		{"POST, an error", "POST", nil, boom, "1 sent: not retryable after 1 attempt (" + fmt.Sprintf(processed, "POST") + "): boom"},
		{"POST, a permanent failure", "POST", nil, 404, "1 sent, 404" + fmt.Sprintf(final, "1 attempt") + "404 Not Found"},
		{"POST in the last attempt", "POST", policy(retry.Policy{}), 503, fmt.Sprintf(notAgain, fmt.Sprintf(processed, "POST"))},
		{"POST with a key", "POST", header("Idempotency-Key", "k"), 503, again},
		{"POST, and Idempotent returns true", "POST", idempotent(true), boom, again},
		{"no method, which is GET, and Idempotent returns false", "", idempotent(false),
			boom, "1 sent: not retryable after 1 attempt (" + fmt.Sprintf(processed, "GET") + "): boom"},

		{"a body with GetBody", "PUT", ofRequest(func(req *http.Request) { rewindable(req, "data") }), 503, again},
		{"a body without GetBody", "PUT", ofRequest(once), 503, fmt.Sprintf(notAgain, noGetBody)},
		{"a body without GetBody, and Idempotent returns true", "POST", func(tr *retryhttp.Transport, req *http.Request) {
			once(req)
			idempotent(true)(tr, req)
		}, 503, fmt.Sprintf(notAgain, noGetBody)},
		{"NoBody", "PUT", ofRequest(func(req *http.Request) { req.Body = http.NoBody }), 503, again},
		{"a Trailer", "PUT", ofRequest(func(req *http.Request) { req.Trailer = http.Header{"Digest": nil} }),
			503, fmt.Sprintf(notAgain, "the request has a Trailer, so it is sent once")},
		{"the longest host", "GET", ofRequest(func(req *http.Request) { req.URL.Host = strings.Repeat("h", 1024) }), boom, again},
		{"a longer host", "GET", ofRequest(func(req *http.Request) { req.URL.Host = strings.Repeat("h", 1025) }),
			boom, "1 sent: not retryable after 1 attempt (the host has more than 1,024 bytes, so the request is sent once): boom"},
		{"a longer Host than that of the URL", "GET", ofRequest(func(req *http.Request) { req.Host = strings.Repeat("h", 1025) }),
			boom, "1 sent: not retryable after 1 attempt (the host has more than 1,024 bytes, so the request is sent once): boom"},
		{"GetBody fails", "PUT", getBody(io.NopCloser(strings.NewReader("data")), errors.New("gone")), 503,
			"1 sent: not retryable after 2 attempts (the request was not sent): retryhttp: GetBody: gone (the attempt before: 503 Service Unavailable)"},
		{"GetBody fails at once", "PUT", getBody(nil, errors.New("gone")), 503, "0 sent: not retryable after 1 attempt (the request was not sent): retryhttp: GetBody: gone"},
		{"GetBody returns neither", "PUT", getBody(nil, nil), 503,
			"0 sent: not retryable after 1 attempt (the request was not sent): retryhttp: GetBody: neither a body nor an error was returned"},

		{"Classify of a POST that was not sent", "POST", class(nil), unsent, "2 sent in 1s, 200"},
		{"Classify with another curve", "POST", class(&retry.Class{Backoff: retry.Fixed(time.Minute)}), unsent, "2 sent in 1m0s, 200"},
		{"Classify with NonRetryable", "POST", class(&retry.Class{NonRetryable: true}), unsent, "1 sent: not retryable after 1 attempt: boom"},
		{"Classify is not asked about a POST that was sent", "POST", policy(retry.Policy{MaxAttempts: 3, Classify: func(error) *retry.Class { panic(boom) }}), boom,
			"1 sent: not retryable after 1 attempt (" + fmt.Sprintf(processed, "POST") + "): boom"},

		{"RetryIf rejects a status", "GET", only429, 503, "1 sent, 503" + rejected + "503 Service Unavailable"},
		{"RetryIf accepts a status", "GET", only429, asksToWait(429, 1), "2 sent in 1s, 200"},
		{"RetryIf sees the error of Base", "GET", retryIf(func(err error) bool { return err != boom }), boom, "1 sent" + rejected + "boom"},
		{"retrynet.Transient, which knows no status, as RetryIf", "GET", retryIf(retrynet.Transient), 503, "1 sent, 503" + rejected + "503 Service Unavailable"},

		{"Check says permanent", "GET", check(returns(retry.Permanent(boom))), 200, "1 sent, 200" + fmt.Sprintf(final, "1 attempt") + "boom"},
		{"Check returns nil", "GET", check(returns(nil)), 503, "1 sent, 503"},
		{"Check returns nil for an error", "GET", check(returns(nil)), boom, "1 sent" + fmt.Sprintf(final, "1 attempt") + "boom"},

		{"MaxElapsed", "GET", policy(retry.Policy{Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second}), boom,
			"1 sent: out of time after 1 attempt (the next delay of 1m0s would exceed MaxElapsed 1s): boom"},
		{"an invalid policy", "GET", policy(retry.Policy{MaxAttempts: -2}), 503, "1 sent: invalid policy after 1 attempt " +
			"(MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited): 503 Service Unavailable"},
		{"an invalid policy, and a success", "GET", policy(retry.Policy{MaxAttempts: -2}), 200, "1 sent, 200"},

		{"Base returns both", "GET", policy(retry.Policy{}), func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 503}, boom },
			"1 sent: gave up after 1 attempt (no limit is set, so there is no retry): boom"},
		{"Base returns neither", "GET", nil, func(*http.Request) (*http.Response, error) { return nil, nil },
			"1 sent" + fmt.Sprintf(final, "1 attempt") + "retryhttp: the RoundTripper *retryhttp_test.scripted returned neither a response nor an error"},
		{"Base returns neither for a POST", "POST", check(func(_ *http.Request, _ *http.Response, err error) error {
			return fmt.Errorf("%.9v", err) // this error is not permanent
		}), func(*http.Request) (*http.Response, error) { return nil, nil },
			"1 sent: not retryable after 1 attempt (" + fmt.Sprintf(processed, "POST") + "): retryhttp"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			var seen events
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(0)}}
			req := request(t, "GET")
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), own))
			req.Method = tt.method
			tt.edit.apply(tr, req)
			tr.Policy.OnEvent = seen.add
			told := ask(t, tr, req, tt.first, 200)
			assert.Equal(t, tt.want, told)
			stop := seen.stop()
			if strings.Contains(tt.name, "GetBody ") {
				stop.Attempt--
			}
			assert.Equal(t, told[:1], fmt.Sprint(stop.Attempt), "the CallFinished says how often a request that succeeds was sent")
			assert.Empty(t, stop.Class)
			assert.Equal(t, strings.Contains(told, "permanent"), retry.IsPermanent(stop.Err))
		})
	}
	assert.Equal(t, 3, asked, "the hooks of the request's own trace are called too")
}

// If GetBody returns a body together with an error, the body is closed.
func TestGetBodyReturnsBoth(t *testing.T) {
	for _, first := range []bool{true, false} {
		opened, req := &body{Reader: strings.NewReader("data")}, request(t, "PUT")
		req.GetBody = func() (io.ReadCloser, error) { return opened, errors.New("gone") }
		if !first {
			req.Body = io.NopCloser(strings.NewReader("data"))
		}
		tr := &retryhttp.Transport{Base: script(503, 200), Policy: retry.Policy{MaxAttempts: 2}}
		_, err := tr.RoundTrip(req)
		assert.ErrorContains(t, err, "GetBody: gone")
		assert.Equal(t, 1, opened.closes)
	}
}

func TestProxyThatRefusesCONNECT(t *testing.T) {
	permanent := func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
		return retry.Permanent(errors.New(resp.Status))
	}
	for attempts, answers := range map[int]func(context.Context, *url.URL, *http.Request, *http.Response) error{3: nil, 1: permanent} {
		var asked atomic.Int64
		proxy := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.WriteHeader(407) })
		to, err := url.Parse(proxy.URL)
		require.NoError(t, err)
		base := &http.Transport{Proxy: http.ProxyURL(to), OnProxyConnectResponse: answers}
		tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}
		for n, method := range []string{"GET", "POST"} { // the proxy has not passed the POST on
			req := request(t, method)
			req.URL.Scheme = "https"
			_, err = tr.RoundTrip(req)
			assert.ErrorContains(t, err, "Proxy Authentication Required")
			assert.EqualValues(t, attempts*(n+1), asked.Load())
		}
	}
}

func TestAttemptTimeout(t *testing.T) {
	const timeout = 50 * ms
	const text = "retryhttp: no response within AttemptTimeout (50ms)"
	const exhausted = "3 sent in 2.15s, timeout: attempts exhausted after 3 attempts (2s waited, attempt 3 ran out of its 50ms): "
	const unchecked = "retryhttp: a response with the status 200 has arrived, but Check did not end within AttemptTimeout (50ms)"
	canceled := func(req *http.Request) (*http.Response, error) {
		_, ok := req.Context().Deadline()
		assert.False(t, ok)
		<-req.Context().Done()
		assert.Equal(t, context.DeadlineExceeded, req.Context().Err())
		assert.EqualError(t, context.Cause(req.Context()), text)
		return nil, errors.New("http: something was canceled")
	}
	late := &body{Reader: strings.NewReader("late")}
	comesLate := func(*http.Request) (*http.Response, error) {
		time.Sleep(timeout + 1) // the Base ignores its context
		return responseWith(200, late), nil
	}
	stalls := func(req *http.Request) (*http.Response, error) { return responseWith(200, stalled{req.Context()}), nil }
	for _, tt := range []struct {
		name   string
		steps  []any
		edit   edit
		checks int
		want   string
	}{
		{"AttemptTimeout ends every attempt, whatever the error of Base is", []any{canceled}, nil, 3, exhausted + text},
		{"Check sees a timeout", []any{canceled}, check(func(_ *http.Request, _ *http.Response, err error) error { return retry.Permanent(err) }), 1, "1 sent in 50ms, timeout: permanent error after 1 attempt (attempt 1 ran out of its 50ms): " + text},
		{"a response that comes too late does not count", []any{comesLate, 200}, nil, 3, "2 sent in 1.050000001s, 200"},
		{"AttemptTimeout ends a Check that reads a stalled body", []any{stalls}, check(retryhttp.WholeBody(nil, 99)), 6, exhausted + unchecked},
		{"an attempt that AttemptTimeout ends does not reach HealthyAfter", []any{canceled, canceled, canceled, retry.Permanent(errReset)},
			ofTransport(func(tr *retryhttp.Transport) { tr.Policy.HealthyAfter = timeout / 2 }), 3, exhausted + text},
		{"AttemptTimeout ends a Prepare, and no request was sent", []any{200}, ofTransport(func(tr *retryhttp.Transport) {
			tr.Idempotent = func(*http.Request) bool { return false }
			tr.Prepare = func(req *http.Request, attempt int, last error) error {
				if attempt > 1 {
					assert.True(t, os.IsTimeout(last))
					return nil
				}
				<-req.Context().Done()
				return req.Context().Err()
			}
		}), 2, "1 sent in 1.05s, 200"},
		{"AttemptTimeout ends a GetBody, and no request was sent", []any{retry.Permanent(errReset)}, func(tr *retryhttp.Transport, req *http.Request) {
			tr.Idempotent = func(*http.Request) bool { return false }
			calls := 0
			req.GetBody = func() (io.ReadCloser, error) {
				if calls++; calls == 1 {
					time.Sleep(timeout + 1)
				}
				return io.NopCloser(strings.NewReader("data")), nil
			}
		}, 2, "1 sent in 1.050000001s: permanent error after 2 attempts (1s waited): connection reset by peer"},
		{"a negative AttemptTimeout is invalid", []any{errReset}, ofTransport(func(tr *retryhttp.Transport) { tr.Policy.AttemptTimeout = -1 }), 1,
			"1 sent: invalid policy after 1 attempt (AttemptTimeout is -1ns: write 0 for none, or a positive duration): connection reset by peer"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr := &retryhttp.Transport{Check: retryhttp.Check, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), AttemptTimeout: timeout}}
			req := request(t, "GET")
			tt.edit.apply(tr, req)
			check, checks := tr.Check, 0
			tr.Check = func(req *http.Request, resp *http.Response, err error) error {
				checks++
				var timeout timeoutError
				if errors.As(err, &timeout) {
					assert.True(t, timeout.Timeout() && timeout.Temporary() && errors.Is(err, context.DeadlineExceeded))
					assert.NoError(t, req.Context().Err(), "the context that Check gets is not done")
				}
				return check(req, resp, err)
			}
			assert.Equal(t, tt.want, ask(t, tr, req, tt.steps...))
			assert.Equal(t, tt.checks, checks)
		})
	}
	assert.True(t, late.closed())
}

func TestContextEnds(t *testing.T) {
	why := errors.New("shutting down")
	const inWait = "1 sent in 1s: canceled after 1 attempt (the next delay is 2s, context canceled: shutting down): "
	closes := &body{Reader: strings.NewReader("sorry")}
	var end func()
	ends := func(answer any) func(*http.Request) (*http.Response, error) {
		return func(req *http.Request) (*http.Response, error) { end(); return script(answer).RoundTrip(req) }
	}
	later := func(answer any) func(*http.Request) (*http.Response, error) {
		return func(req *http.Request) (*http.Response, error) {
			time.AfterFunc(time.Second, end)
			return script(answer).RoundTrip(req)
		}
	}
	for _, tt := range []struct {
		name  string
		first any
		want  string
	}{
		{"before the first attempt", nil, "0 sent: canceled before the first attempt (context canceled: shutting down)"},
		{"in the wait", later(503), inWait + "503 Service Unavailable"},
		{"in the wait after a timeout", later(os.ErrDeadlineExceeded), inWait + "i/o timeout"},
		{"while an attempt fails", ends(responseWith(503, closes)), "1 sent: canceled after 1 attempt (context canceled: shutting down): 503 Service Unavailable"},
		{"while an attempt succeeds", ends(200), "1 sent, 200"},
		{"after the decision", responseWith(404, closes), "1 sent: permanent error after 1 attempt: 404 Not Found (and then shutting down)"},
		{"the deadline ends an attempt", reply{after: time.Hour}, "1 sent in 30s, timeout: deadline exceeded after 1 attempt (context deadline exceeded): context deadline exceeded"},
		{"the deadline is too close for the wait", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
			"1 sent, timeout: deadline too close after 1 attempt (the next delay is 1m0s, 30s are left): dial tcp: connect: connection refused"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			end = func() { cancel(why) }
			if tt.first == nil {
				end()
			}
			ctx, stop := context.WithTimeout(ctx, 30*time.Second)
			defer stop()
			closes.closes = 0
			req, data := request(t, "PUT").WithContext(ctx), &body{Reader: strings.NewReader("data")}
			req.Body, req.GetBody = data, func() (io.ReadCloser, error) { return nil, errors.New("not to be sent again") }
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute)}}
			if strings.Contains(tt.want, "the next delay is 2s") {
				tr.Policy.Backoff = retry.Fixed(2 * time.Second)
			}
			if tt.name == "after the decision" {
				tr.Policy.OnEvent = func(_ context.Context, e retry.Event) {
					if e.Kind == retry.CallFinished {
						end()
					}
				}
			}
			assert.Equal(t, tt.want, ask(t, tr, req, tt.first))
			assert.True(t, data.closed(), "a RoundTripper closes the body even if it returns an error")
			assert.Equal(t, tt.name == "while an attempt fails" || tt.name == "after the decision", closes.closed())
		})
	}
}

// A Base may wrap the body of a response, for example to end a span at its Close. So the caller gets
// the body of Base even if the response has no content, which net/http does not show over HTTP/2.
func TestTheBodyOfBaseIsClosed(t *testing.T) {
	for name, start := range protocols {
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			status, _ := strconv.Atoi(r.URL.Query().Get("status"))
			w.WriteHeader(status)
		}, start)
		closed, bodies := 0, 0
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := server.Client().Transport.RoundTrip(req)
			if bodies++; err == nil {
				resp.Body = &body{Reader: resp.Body, onClose: func() { closed++ }}
			}
			return resp, err
		})
		for _, rt := range []http.RoundTripper{
			&retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}, &retryhttp.Hedge{Base: base, After: time.Hour},
		} {
			for _, method := range []string{"HEAD", "GET", "DELETE"} {
				for _, status := range []int{200, 204, 304, 404, 503} {
					req, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprint(server.URL, "?status=", status), nil)
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					assert.NoError(t, resp.Body.Close())
					assert.Equal(t, bodies, closed, "%s, %T, %s, %d", name, rt, method, status)
				}
			}
		}
	}
}

// A panic in Base or in a hook is not recovered, and leaks no connection.
func TestPanics(t *testing.T) {
	boom := errors.New("boom")
	on := func(kind retry.EventKind) func(*retryhttp.Transport) {
		return func(tr *retryhttp.Transport) {
			tr.Policy.OnEvent = func(_ context.Context, e retry.Event) {
				if e.Kind == kind {
					panic(boom)
				}
			}
		}
	}
	for name, edit := range map[string]func(*retryhttp.Transport){
		"Base": func(tr *retryhttp.Transport) {
			tr.Base = roundTrip(func(*http.Request) (*http.Response, error) { panic(boom) })
		},
		"Prepare": func(tr *retryhttp.Transport) { tr.Prepare = func(*http.Request, int, error) error { panic(boom) } },
		"Check": func(tr *retryhttp.Transport) {
			tr.Check = func(*http.Request, *http.Response, error) error { panic(boom) }
		},
		"Budgets": func(tr *retryhttp.Transport) { tr.Budgets = func(*http.Request) *retry.Budget { panic(boom) } },
		"RetryIf": func(tr *retryhttp.Transport) { tr.Policy.RetryIf = func(error) bool { panic(boom) } },
		"Gate.Key": func(tr *retryhttp.Transport) {
			tr.Gate = &retryhttp.Gate{Key: func(*http.Request) string { panic(boom) }}
		},
		"Gate.OnClose": func(tr *retryhttp.Transport) {
			tr.Gate = &retryhttp.Gate{Unavailable: true, OnClose: func(string, time.Duration, error) { panic(boom) }}
		},
		"OnEvent, attempt_finished": on(retry.AttemptFinished),
		"OnEvent, retry_scheduled":  on(retry.RetryScheduled),
	} {
		bubble(t, name, func(t *testing.T) {
			b, data := &body{Reader: strings.NewReader("sorry")}, &body{Reader: strings.NewReader("data")}
			base := script(responseWith(503, b, "Retry-After", "1"))
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: base}
			edit(tr)
			req := request(t, "PUT")
			req.Body, req.GetBody = data, func() (io.ReadCloser, error) { return data, nil }
			assert.PanicsWithValue(t, boom, func() { _, _ = tr.RoundTrip(req) })
			assert.True(t, data.closed())
			assert.Equal(t, len(base.sent) > 0, b.closed())
			assert.True(t, len(base.sent) == 0 || base.sent[0].Context().Err() != nil)
		})
	}
}

// Check gets the request that was sent. The Request of the response is the caller's request. If a
// Base sets another Request, for example because it follows redirects, the Transport keeps it.
func TestRequestOfAResponse(t *testing.T) {
	req, another := request(t, "GET"), request(t, "GET")
	foreign := response(200)
	foreign.Request = another
	for _, tt := range []struct{ answer, want any }{
		{200, req},
		{reply{status: 200}, req}, // its Request is the request that was sent
		{foreign, another},
	} {
		var got []*http.Request
		base := script(errReset, tt.answer)
		resp := send(t, &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}, Check: func(r *http.Request, resp *http.Response, err error) error {
			got = append(got, r)
			assert.True(t, (resp == nil) != (err == nil), "either a response or an error")
			return retryhttp.Check(r, resp, err)
		}}, req)
		assert.Same(t, tt.want, resp.Request)
		require.Len(t, got, 2)
		assert.Same(t, base.sent[0], got[0])
		assert.Same(t, base.sent[1], got[1])
	}
}

// A Base may set the Request of a response to a copy of the request that it got, as a tracer does.
// The context of this copy would end with the body. But the caller can use the context of the
// Request after reading the body, and can send the Request again.
func TestRequestOfAResponseThatIsACopy(t *testing.T) {
	type key struct{}
	copies := func(status int) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			assert.NoError(t, req.Context().Err())
			resp := textResponse(status, "text")
			resp.Request = req.Clone(context.WithValue(req.Context(), key{}, "a span"))
			resp.Request.URL.Path = "/replica"
			return resp, nil
		})
	}
	for _, status := range []int{200, 404} {
		hedge := &retryhttp.Hedge{Base: copies(status), After: time.Hour}
		for name, rt := range map[string]http.RoundTripper{
			"a Transport":                  &retryhttp.Transport{Base: copies(status)},
			"a Transport over a Transport": &retryhttp.Transport{Base: &retryhttp.Transport{Base: copies(status)}},
			"a Hedge":                      hedge,
			"a Transport over a Hedge":     &retryhttp.Transport{Base: hedge},
		} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				resp := send(t, rt, request(t, "GET").WithContext(ctx))
				assert.Equal(t, "text", textOf(t, resp))
				assert.Equal(t, name != "a Hedge" && status == 404, retryhttp.ErrorOf(resp) != nil)
				assert.Equal(t, "/replica", resp.Request.URL.Path)
				assert.NoError(t, resp.Request.Context().Err())
				assert.Equal(t, status, send(t, rt, resp.Request).StatusCode)
				cancel()
				assert.Error(t, resp.Request.Context().Err())
			})
		}
	}
}

// If a method of an error from Base panics, the request fails and the program goes on, wherever the
// method is called.
func TestErrorsThatPanic(t *testing.T) {
	for name, failure := range map[string]error{
		"typed nil":            (*url.Error)(nil),
		"Error":                panicker{"Error"},
		"Timeout":              panicker{"Timeout"},
		"Is":                   panicker{"Is"},
		"As":                   panicker{"As"},
		"Unwrap":               panicker{"Unwrap"},
		"RetryAfter":           panicker{"RetryAfter"},
		"RetryAfter, the last": errors.Join(os.ErrDeadlineExceeded, panicker{"RetryAfter"}),
		"Error, wrapped":       fmt.Errorf("dial: %w", panicker{"Error"}),
	} {
		t.Run(name, func(t *testing.T) {
			base := script(failure, 200)
			client := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}}
			_, err := client.Get("http://example.test/")
			assert.ErrorContains(t, err, fmt.Sprintf("retry: permanent error after 1 attempt: retryhttp: error of type %T panicked: ", failure))
			assert.False(t, os.IsTimeout(err))
			assert.False(t, retrynet.Transient(err))
			assert.Len(t, base.sent, 1)

			broken := func() *http.Response {
				return responseWith(200, breaks("data: ", failure), "Content-Type", "text/event-stream", "Etag", `"v1"`)
			}
			whole := broken()
			whole.Header.Del("Content-Type")
			for _, tr := range []*retryhttp.Transport{
				{Base: script(whole), Check: retryhttp.WholeBody(nil, 100)}, {Base: script(broken()), Check: retryhttp.FirstEvent(nil, nil)},
				{Base: script(broken(), 503), Resume: true},
			} {
				tr.Policy.MaxAttempts = 3
				resp := send(t, tr)
				err := retryhttp.ErrorOf(resp)
				if tr.Resume {
					_, err = io.ReadAll(resp.Body)
				}
				assert.ErrorContains(t, err, fmt.Sprintf("retryhttp: error of type %T panicked: ", failure))
			}
		})
	}
	_, err := (&retryhttp.Transport{Base: script(fmt.Errorf("dial: %w", errors.Join(errReset, panicker{"Error"})))}).RoundTrip(request(t, "GET"))
	assert.ErrorIs(t, err, errReset)
}

// A panicker is an error with one method that panics.
type panicker struct{ in string }

func (e panicker) method(name string) {
	if e.in == name {
		panic("bug in " + name)
	}
}

// A program may set http.DefaultTransport to a RoundTripper of this package. Then this RoundTripper
// does not call itself. Other RoundTrippers without a Base send their requests through it.
func TestDefaultTransport(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	asked, prepared := 0, 0
	own := roundTrip(func(req *http.Request) (*http.Response, error) { asked++; return before.RoundTrip(req) })
	prepare := func(*http.Request, int, error) error { prepared++; return nil }
	policy := retry.Policy{MaxAttempts: 3}
	for name, tt := range map[string]struct {
		transport       http.RoundTripper
		asked, prepared int // how often two requests come to `own` and to Prepare
	}{
		"a Transport":                        {&retryhttp.Transport{Policy: policy, Prepare: prepare}, 0, 2},
		"a Transport with a Hedge":           {&retryhttp.Transport{Policy: policy, Prepare: prepare, Base: &retryhttp.Hedge{After: time.Hour}}, 0, 2},
		"a Hedge":                            {&retryhttp.Hedge{After: time.Hour}, 0, 0},
		"LendBudget above a Transport":       {retryhttp.LendBudget(&retryhttp.Transport{Prepare: prepare}, 3), 0, 2},
		"LLM":                                {retryhttp.LLM(policy), 0, 0},
		"a Transport with a Base of its own": {&retryhttp.Transport{Policy: policy, Prepare: prepare, Base: retryhttp.LendBudget(own, 3)}, 2, 2},
		"not of this package":                {own, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			http.DefaultTransport, asked, prepared = tt.transport, 0, 0
			for _, client := range []*http.Client{http.DefaultClient, {Transport: &retryhttp.Transport{Policy: policy}}} {
				resp, err := retryhttp.Result(client.Get(server.URL))
				require.NoError(t, err)
				textOf(t, resp)
			}
			http.DefaultClient.CloseIdleConnections()
			assert.Equal(t, [2]int{tt.asked, tt.prepared}, [2]int{asked, prepared})
		})
	}
}

func (e panicker) Error() string             { e.method("Error"); return "fine" }
func (e panicker) Timeout() bool             { e.method("Timeout"); return false }
func (e panicker) Is(error) bool             { e.method("Is"); return false }
func (e panicker) As(any) bool               { e.method("As"); return false }
func (e panicker) Unwrap() error             { e.method("Unwrap"); return nil }
func (e panicker) RetryAfter() time.Duration { e.method("RetryAfter"); return 0 }

func TestCloseIdleConnections(t *testing.T) {
	base := script(200)
	for _, rt := range []http.RoundTripper{&retryhttp.Transport{Base: base}, &retryhttp.Hedge{Base: base}, retryhttp.LendBudget(base, 1), &retryhttp.Transport{Base: roundTrip(nil)}} {
		(&http.Client{Transport: rt}).CloseIdleConnections()
	}
	assert.Equal(t, 3, base.idle, "the last Base has no CloseIdleConnections")
	(&retryhttp.Transport{}).CloseIdleConnections() // closes the idle connections of http.DefaultTransport
}

// All attempts use one connection, whatever the bodies of the errors are.
func TestConnectionIsReused(t *testing.T) {
	for name, answer := range map[string]string{
		"no body":      "Content-Length: 0\r\n\r\n",
		"a short body": "Content-Length: 5\r\n\r\nsorry",
		"a long body":  "Content-Length: 60000\r\n\r\n" + strings.Repeat("x", 60000),
		"in chunks":    "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("5\r\nsorry\r\n", 10) + "0\r\n\r\n",
	} {
		bubble(t, name, func(t *testing.T) {
			conns := map[net.Conn]int{}
			base := piped(18, func(conn net.Conn, req *http.Request) {
				conns[conn]++
				_, _ = io.Copy(io.Discard, req.Body)
				text := answer
				if req.Method == "HEAD" {
					text = text[:strings.Index(text, "\r\n\r\n")+4]
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 503 Busy\r\n"+text)
			})
			for _, method := range []string{"GET", "HEAD", "PUT"} {
				req := request(t, method)
				rewindable(req, "data")
				textOf(t, send(t, &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 5, AttemptTimeout: time.Minute}}, req))
			}
			for range 3 {
				_, err := retryhttp.Result((&retryhttp.Transport{Base: base}).RoundTrip(request(t, "GET")))
				assert.ErrorContains(t, err, "503")
			}
			assert.Equal(t, []int{18}, slices.Collect(maps.Values(conns)))
		})
	}
}

// The context of an attempt is not done before Check has returned, whatever Check does with the
// body. Some Checks, such as those for go-retryablehttp, first look at the error of the context.
// After Check, the context ends with the body that Check has left.
func TestAttemptLivesUntilCheckHasReturned(t *testing.T) {
	text := ""
	handler := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503); _, _ = io.WriteString(w, text) }
	for protocol, start := range protocols {
		server := serve(t, handler, start)
		for name, with := range map[string]func(*http.Response){
			"leaves the body": func(*http.Response) {},
			"closes it":       func(resp *http.Response) { _ = resp.Body.Close() },
			"reads it":        func(resp *http.Response) { _, _ = io.Copy(io.Discard, resp.Body) },
			"drops it":        func(resp *http.Response) { _ = resp.Body.Close(); resp.Body = http.NoBody },
			"copies it": func(resp *http.Response) {
				text, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				resp.Body = io.NopCloser(bytes.NewReader(text))
			},
		} {
			for _, text = range []string{"", strings.Repeat("0123456789abcdef", 1<<16)} {
				for _, timeout := range []time.Duration{0, time.Hour} {
					t.Run(fmt.Sprint(name, ", ", protocol, ", ", len(text), " bytes, ", timeout), func(t *testing.T) {
						var ctx context.Context // the context of the last attempt
						tr := &retryhttp.Transport{Base: server.Client().Transport, Policy: retry.Policy{MaxAttempts: 3, AttemptTimeout: timeout}}
						tr.Check = func(req *http.Request, resp *http.Response, err error) error {
							with(resp)
							if ctx = req.Context(); ctx.Err() != nil {
								return retry.Permanent(ctx.Err())
							}
							return retryhttp.Check(req, resp, err)
						}
						resp := send(t, tr, httptest.NewRequestWithContext(t.Context(), "GET", server.URL, nil))
						assert.ErrorContains(t, retryhttp.ErrorOf(resp), "exhausted after 3 attempts")
						if name == "copies it" {
							assert.NoError(t, ctx.Err(), "the response still has a body")
							assert.Equal(t, text, textOf(t, resp))
						}
						require.NoError(t, resp.Body.Close())
						assert.Error(t, ctx.Err())
					})
				}
			}
		}
	}
}

// Base and Prepare may change the request of an attempt. The caller's request is unchanged, even if
// the attempts share its header because Base is an http.Transport.
func TestCallersRequestIsNotChanged(t *testing.T) {
	change := func(req *http.Request) {
		req.Header.Add("X-Values", "ours")
		req.Header["X-Values"][0] = "ours"
		req.Header.Del("X-Other")
		req.URL.Path += "/ours"
	}
	for _, tt := range []struct {
		name string
		edit edit
	}{
		{"by an http.Transport", nil},
		{"by a Base above an http.Transport", ofTransport(func(tr *retryhttp.Transport) {
			below := tr.Base
			tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) { change(req); return below.RoundTrip(req) })
		})},
		{"by the Proxy of an http.Transport, which may choose by a header and delete it", ofTransport(func(tr *retryhttp.Transport) {
			tr.Base.(*http.Transport).Proxy = func(req *http.Request) (*url.URL, error) { change(req); return nil, nil }
		})},
		{"by Prepare", ofTransport(func(tr *retryhttp.Transport) {
			tr.Prepare = func(req *http.Request, _ int, _ error) error { change(req); return nil }
		})},
		{"by Check", check(func(req *http.Request, resp *http.Response, err error) error {
			change(req)
			return retryhttp.Check(req, resp, err)
		})},
		{"by Resume", ofTransport(func(tr *retryhttp.Transport) { tr.Resume = true })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			served := 0
			base := piped(2, func(conn net.Conn, _ *http.Request) {
				status := 503
				if served++; served%2 == 0 {
					status = 200
				}
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d Status\r\nX-Values: the server's\r\nContent-Length: 5\r\n\r\nsorry", status)
			})
			defer base.CloseIdleConnections()
			tr, req := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}, request(t, "GET")
			req.Header = http.Header{"X-Values": {"a", "b"}, "X-Other": {"c"}}
			tt.edit.apply(tr, req)
			before := req.Clone(t.Context())
			resp := send(t, tr, req)
			assert.Equal(t, 200, resp.StatusCode)
			assert.NoError(t, resp.Body.Close())
			assert.Equal(t, []any{before.Header, before.URL}, []any{req.Header, req.URL})
			req.Header = nil
			assert.NoError(t, send(t, tr, req).Body.Close(), "net/http fails if the Header is nil")
			assert.Nil(t, req.Header)
		})
	}
}

// Users may print the contexts that they get. The text of such a context contains no part of the
// request.
func TestContextsHaveNoSecretsInTheirText(t *testing.T) {
	var texts []string
	add := func(ctx context.Context) { texts = append(texts, fmt.Sprintf("%v %+v %s", ctx, ctx, ctx)) }
	req := request(t, "GET")
	req.Header.Set("Authorization", "secret")
	tr := &retryhttp.Transport{
		Policy: retry.Policy{MaxAttempts: 2, OnEvent: func(ctx context.Context, _ retry.Event) { add(ctx) }},
		Base: script(func(req *http.Request) (*http.Response, error) {
			add(req.Context())
			ctx, cancel := context.WithCancel(req.Context())
			defer cancel()
			add(ctx)
			return nil, errReset
		}, 200),
	}
	assert.Equal(t, 200, send(t, tr, req).StatusCode)
	assert.Contains(t, texts[0], "retryhttp.exchange")
	assert.Contains(t, texts[1], "retryhttp.attempt")
	assert.NotContains(t, strings.Join(texts, "\n"), "secret")
}

// A clone has all the fields of its original. The test fails if Clone forgets a field.
func TestCloneHasAllFields(t *testing.T) {
	full := &retryhttp.Transport{
		Base: http.DefaultTransport, Policy: retry.Default(), Budgets: retryhttp.NoBudgets, Idempotent: retryhttp.Idempotent,
		Prepare: func(*http.Request, int, error) error { return nil }, Check: retryhttp.Check, Advise: retryhttp.AdviceOf,
		StallTimeout: time.Second, Gate: new(retryhttp.Gate), Resume: true,
	}
	of, clone := reflect.ValueOf(full).Elem(), reflect.ValueOf(full.Clone()).Elem()
	for i := range of.NumField() {
		field := of.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		assert.False(t, of.Field(i).IsZero(), "%s is not set here", field.Name)
		if field.Type.Kind() == reflect.Func {
			assert.Equal(t, of.Field(i).Pointer(), clone.Field(i).Pointer(), field.Name)
		} else {
			assert.Equal(t, of.Field(i).Interface(), clone.Field(i).Interface(), field.Name)
		}
	}
}

// A Transport, its clone and a clone of the clone share the Budgets of targets, and nothing else.
func TestCloneSharesTheBudgetsOfTargets(t *testing.T) {
	original := &retryhttp.Transport{Base: script(errReset), Policy: retry.Policy{MaxAttempts: 5}}
	clone := original.Clone()
	again := clone.Clone()
	again.Policy.MaxAttempts = 1
	assert.Equal(t, 5, original.Policy.MaxAttempts)
	for _, tr := range []*retryhttp.Transport{clone, original, again} {
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.ErrorIs(t, err, errReset)
	}
	budget := original.TargetBudget(request(t, "GET"))
	assert.Equal(t, 2, budget.Left())
	assert.Same(t, budget, clone.TargetBudget(request(t, "GET")))
	assert.Same(t, budget, again.TargetBudget(request(t, "GET")))
}

// A protocol that is registered with an http.Transport may change the URL, as the
// protocol of http.NewFileTransport does.
func TestURLOfARegisteredProtocol(t *testing.T) {
	base := new(http.Transport)
	base.RegisterProtocol("file", http.NewFileTransport(http.Dir(t.TempDir())))
	req := request(t, "GET")
	req.URL = &url.URL{Scheme: "file", Host: "host"}
	assert.Equal(t, "<pre>\n</pre>\n", strings.TrimPrefix(textOf(t, send(t, &retryhttp.Transport{Base: base}, req)), "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n"))
	assert.Equal(t, "file://host", req.URL.String())
}
