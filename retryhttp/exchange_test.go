package retryhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
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

// If the last answer is a 4xx, and an earlier attempt may have caused it, Before is the error of
// that attempt.
func TestAnswerThatIsLost(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	half := func() *http.Response { return responseWith(200, breaks("sto", io.ErrUnexpectedEOF)) }
	below := ofTransport(func(tr *retryhttp.Transport) {
		tr.Base = &retryhttp.Transport{Base: tr.Base, Policy: retry.Policy{MaxAttempts: 4}}
	})
	once := ofTransport(func(tr *retryhttp.Transport) { tr.Base = &retryhttp.Transport{Base: tr.Base} })
	closed := ofTransport(func(tr *retryhttp.Transport) {
		n := 0
		tr.Base = &retryhttp.Transport{Base: tr.Base, Policy: retry.Policy{Enter: func(context.Context, retry.Event) error {
			if n++; n == 1 {
				return errors.New("closed")
			}
			return nil
		}}}
	})
	errOpen := errors.New("circuit breaker open")
	// The Prepare of this Transport below fails the first time it is called.
	tokenless := ofTransport(func(tr *retryhttp.Transport) {
		n := 0
		tr.Base = &retryhttp.Transport{Base: tr.Base, Prepare: func(*http.Request, int, error) error {
			if n++; n == 1 {
				return errors.New("no token")
			}
			return nil
		}}
	})
	wrapping := func(req *http.Request, resp *http.Response, err error) error {
		if err != nil {
			return fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		return retryhttp.Check(req, resp, err)
	}
	errTaken := errors.New("name_taken")
	// The function `taken` sets the policy p, and a Check that returns errTaken for each 200.
	taken := func(p retry.Policy) edit {
		return ofTransport(func(tr *retryhttp.Transport) {
			tr.Policy = p
			tr.Check = func(req *http.Request, resp *http.Response, err error) error {
				if resp != nil && resp.StatusCode == 200 {
					return errTaken
				}
				return retryhttp.Check(req, resp, err)
			}
		})
	}
	// The function lateCheck takes longer than AttemptTimeout if a connection broke.
	lateCheck := func(req *http.Request, resp *http.Response, err error) error {
		if errors.Is(err, errReset) || errors.Is(err, errNoAnswer) {
			time.Sleep(time.Second + 1)
		}
		return retryhttp.Check(req, resp, err)
	}
	// The function `prepares` sets a Prepare. In the attempt with the number `attempt`, this
	// Prepare takes the time `takes`, and then returns err.
	prepares := func(attempt int, takes time.Duration, err error) edit {
		return ofTransport(func(tr *retryhttp.Transport) {
			tr.Policy.AttemptTimeout = time.Second
			tr.Prepare = func(_ *http.Request, n int, _ error) error {
				if n != attempt {
					return nil
				}
				time.Sleep(takes)
				return err
			}
		})
	}
	// The function `ends` is like `prepares`, but without an AttemptTimeout. The request has a deadline,
	// which passes in this Prepare.
	ends := func(attempt int, err error) edit {
		return func(tr *retryhttp.Transport, req *http.Request) {
			prepares(attempt, time.Minute+1, err).apply(tr, req)
			tr.Policy.AttemptTimeout = 0
			ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
			context.AfterFunc(ctx, cancel)
			*req = *req.WithContext(ctx)
		}
	}
	// The function `keyed` adds an Idempotency-Key, with which an attempt is traced.
	keyed := func(e edit) edit {
		return func(tr *retryhttp.Transport, req *http.Request) {
			e.apply(tr, req)
			req.Header.Set("Idempotency-Key", "k")
		}
	}
	// The function `held` sets a Gate. While the attempt with the number `attempt` runs, the server
	// asks another caller to wait for 50s, which is longer than MaxRetryAfter.
	held := func(attempt int) edit {
		return func(tr *retryhttp.Transport, req *http.Request) {
			tr.Gate, tr.Policy = &retryhttp.Gate{}, retry.Policy{MaxAttempts: 4, MaxRetryAfter: 10 * time.Second}
			tr.Prepare = func(_ *http.Request, n int, _ error) error {
				if n == attempt {
					other := &retryhttp.Transport{Base: script(asksToWait(429, 50)), Gate: tr.Gate}
					_, _ = other.RoundTrip(req.Clone(req.Context()))
				}
				return nil
			}
		}
	}
	// The function `enters` sets an Enter that returns err before the attempt with the number `attempt`.
	enters := func(attempt int, err error) edit {
		return ofTransport(func(tr *retryhttp.Transport) {
			tr.Policy.Enter = func(_ context.Context, e retry.Event) error {
				if e.Attempt != attempt {
					return nil
				}
				return err
			}
		})
	}
	_, again := retry.Once(t.Context(), retry.Policy{MaxAttempts: 2}, retry.Attempt{Number: 1}, func(context.Context) error { return errNoAnswer })
	noSlot := retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { return errors.New("no slot") })
	slow := reply{after: time.Hour, status: 200}
	type step = func(*http.Request) (*http.Response, error)
	unconnected := step(traced("asks", script(refused).RoundTrip))
	// net/http has no type for the error of a proxy that refuses a CONNECT.
	untold := step(traced("asks", script(errors.New("Forbidden")).RoundTrip))
	broken := step(traced("asks got wrote", script(errReset).RoundTrip))
	repeated := func(status int) step {
		return traced("asks got wrote asks got wrote", script(status).RoundTrip)
	}
	late := func(op string) error { return &net.OpError{Op: op, Net: "tcp", Err: os.ErrDeadlineExceeded} }
	for _, tt := range []struct {
		name  string
		edit  edit
		steps []any
		want  string // the text of Before; "": Before is nil
	}{
		{"a reset, a 429, and then no connection", ofTransport(func(tr *retryhttp.Transport) { tr.Policy.MaxAttempts = 3 }), []any{errReset, 429, refused}, "connection reset by peer"},
		{"a reset, and then no connection", nil, []any{errReset, refused}, "connection reset by peer"},
		{"never a connection", nil, []any{refused}, ""},
		{"a reset, and then no connection, which only the trace shows", nil, []any{errReset, untold}, "connection reset by peer"},
		{"a reset, and then a DELETE without a connection", ofRequest(func(req *http.Request) { req.Method = "DELETE" }), []any{errReset, untold}, "connection reset by peer"},
		{"no connection, which only the trace shows, and then a 412", nil, []any{untold, 412}, ""},
		{"a reset, and then a connection that breaks", nil, []any{broken, step(traced("asks got wrote", script(errNoAnswer).RoundTrip))}, "connection reset by peer"},
		{"a reset, and then no connection for a GET", ofRequest(func(req *http.Request) { req.Method = "GET" }), []any{errReset, refused}, ""},
		{"half of a success, a 502, and then a 412", check(retryhttp.WholeBody(nil, 99)), []any{half(), 502, 412}, "retryhttp: the body of the response broke off: unexpected EOF"},
		{"a 502, half of a success, and then a 412", check(retryhttp.WholeBody(nil, 99)), []any{502, half(), 412}, "retryhttp: the body of the response broke off: unexpected EOF"},
		{"a reset, another failure without an answer, and then a 412", nil, []any{errReset, errNoAnswer, 412}, "connection reset by peer"},
		{"a repeat of net/http that gets a 409, and then no token", keyed(prepares(2, 0, errNoAnswer)), []any{repeated(409)}, "net/http has repeated the request"},
		{"a repeat of net/http that gets a 429, and then no token in time", keyed(func(tr *retryhttp.Transport, req *http.Request) {
			prepares(2, time.Second+1, nil).apply(tr, req)
			tr.Policy.MaxAttempts = 2
		}), []any{repeated(429)}, "net/http has repeated the request"},
		{"a reset, no connection, and then no token", prepares(3, 0, errNoAnswer), []any{errReset, refused}, "connection reset by peer"},
		{"a reset, a 429, and then no token", prepares(3, 0, errNoAnswer), []any{errReset, 429}, "connection reset by peer"},
		{"a reset, and then an Enter that retried", enters(2, noSlot), []any{errReset}, "connection reset by peer"},
		{"a 503, and then an Enter that retried", enters(2, noSlot), []any{503}, "503 Service Unavailable"},
		{"a reset, a 503, and then an Enter that retried", enters(3, noSlot), []any{errReset, 503}, "connection reset by peer"},
		{"a reset, a 429, and then an Enter that retried", enters(3, noSlot), []any{errReset, 429}, "connection reset by peer"},
		{"a 429, and then an Enter that retried", enters(2, noSlot), []any{429}, ""},
		{"an Enter that retried, before the first attempt", enters(1, noSlot), []any{412}, ""},
		{"a reset, and then an Enter with an Error that lets a job go on", enters(2, again), []any{errReset}, ""},
		{"a reset, and then an Enter with an Error without a Reason", enters(2, &retry.Error{Err: errNoAnswer}), []any{errReset}, ""},
		{"a 429, two timeouts, and then an Enter that fails", enters(4, errNoAnswer), []any{429, late("read"), late("read")}, "429 Too Many Requests"},
		{"a 429, two timeouts, and then a Gate that is closed", held(3), []any{429, late("read"), late("read")}, "429 Too Many Requests"},
		{"two timeouts, and then no token", prepares(3, 0, errNoAnswer), []any{late("read"), late("read")}, ""},
		{"a timeout, and then no token at the deadline", ends(2, context.DeadlineExceeded), []any{late("read")}, ""},
		{"a timeout, a 429, and then no token at the deadline", ends(3, context.DeadlineExceeded), []any{late("read"), 429}, "read tcp: i/o timeout"},
		{"a timeout, a 429, and then an error of Prepare after the deadline", ends(3, errNoAnswer), []any{late("read"), 429}, "read tcp: i/o timeout"},
		{"a timeout, a 429, and then an error of Prepare after AttemptTimeout", prepares(3, time.Second+1, errNoAnswer), []any{late("read"), 429}, "read tcp: i/o timeout"},
		{"AttemptTimeout, and then a cancellation by the timeout of another request", func(tr *retryhttp.Transport, req *http.Request) {
			tr.Policy = retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Minute}
			ctx, cancel := context.WithCancelCause(req.Context())
			time.AfterFunc(65*time.Second, func() { cancel(late("read")) })
			*req = *req.WithContext(ctx)
		}, []any{slow, func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, context.Cause(req.Context())
		}}, "retryhttp: no response within AttemptTimeout (1m0s)"},
		{"a timeout, and then a deadline with a cause", func(tr *retryhttp.Transport, req *http.Request) {
			tr.Policy = retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Minute}
			ctx, cancel := context.WithTimeoutCause(req.Context(), 65*time.Second, errNoAnswer)
			context.AfterFunc(ctx, cancel)
			*req = *req.WithContext(ctx)
		}, []any{slow, func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, context.Cause(req.Context())
		}}, ""},
		{"a timeout, a 429, and then an error of Base after the deadline", func(tr *retryhttp.Transport, req *http.Request) {
			ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
			context.AfterFunc(ctx, cancel)
			*req = *req.WithContext(ctx)
		}, []any{late("read"), 429, step(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, errNoAnswer
		})}, "read tcp: i/o timeout"},
		{"a reset, and then an error of Prepare after AttemptTimeout, which contains the reset", prepares(2, time.Second+1, errNoAnswer), []any{errReset}, ""},
		{"two timeouts, and then an Enter that retried", enters(3, noSlot), []any{late("read"), late("read")}, "read tcp: i/o timeout"},
		{"a timeout, a 503, and then an Enter that fails", enters(3, errNoAnswer), []any{late("read"), 503}, "read tcp: i/o timeout"},
		{"a reset, and then an Enter that fails", enters(2, errNoAnswer), []any{errReset}, ""},
		{"a reset, a 503, and then an Enter that fails", enters(3, errNoAnswer), []any{errReset, 503}, "connection reset by peer"},
		{"a reset, a 503, and then a Gate that is closed", held(2), []any{errReset, 503}, "connection reset by peer"},
		{"a reset, a 429, and then a Gate that is closed", held(2), []any{errReset, 429}, "connection reset by peer"},
		{"a reset, and then a Gate that is closed", held(1), []any{errReset}, ""},
		{"a 503, and then a Gate that is closed", held(1), []any{503}, ""},
		{"a repeat of net/http that gets a 429, and then a Gate that is closed", keyed(held(1)), []any{repeated(429)}, "net/http has repeated the request"},
		{"a Gate that is closed in each attempt", held(0), []any{412}, ""},
		{"a reset, no token in time, and then a 412", prepares(2, time.Second+1, nil), []any{errReset, 412}, "connection reset by peer"},
		{"a reset, a 429, and then a Check that is late", ofTransport(func(tr *retryhttp.Transport) {
			tr.Policy.AttemptTimeout, tr.Policy.MaxAttempts = time.Second, 3
			tr.Check = func(req *http.Request, resp *http.Response, err error) error {
				if resp != nil && resp.StatusCode == 412 {
					time.Sleep(time.Second + 1)
				}
				return retryhttp.Check(req, resp, err)
			}
		}), []any{errReset, 429, 412}, "connection reset by peer"},
		{"a Transport below may still be writing, and then gets no connection", keyed(below), []any{
			step(traced("asks got", script(context.DeadlineExceeded).RoundTrip)), unconnected, unconnected, unconnected, 412,
		}, "attempts exhausted after 4 attempts: dial tcp: connection refused"},
		{"a Transport below gets no connection, and says so", keyed(below), []any{
			unconnected, unconnected, unconnected, unconnected, 412,
		}, ""},
		{"an open circuit breaker in Base, a reset, and then a 412", nil, []any{errOpen, broken, 412}, "connection reset by peer"},
		{"a reset, an open circuit breaker in Base, and then a 412", nil, []any{broken, errOpen, 412}, "connection reset by peer"},
		{"a 503, an open circuit breaker in Base, and then a 412", nil, []any{step(traced("asks got wrote", script(503).RoundTrip)), errOpen, 412}, "503 Service Unavailable"},
		{"an open circuit breaker in Base, a 503, and then a 412", nil, []any{errOpen, step(traced("asks got wrote", script(503).RoundTrip)), 412}, "503 Service Unavailable"},
		{"a 503, and then an open circuit breaker in Base", nil, []any{step(traced("asks got wrote", script(503).RoundTrip)), errOpen}, "503 Service Unavailable"},
		{"an open circuit breaker in Base, and then a 412", nil, []any{errOpen, 412}, "circuit breaker open"},
		{"a Transport below has no token, a reset, and then a 412", tokenless, []any{broken, 412}, "connection reset by peer"},
		{"a Transport below has no token, and then a 412", tokenless, []any{412}, ""},
		{"no token in time", prepares(1, time.Second+1, nil), []any{412}, ""},
		{"no token in time, with a key", keyed(prepares(1, time.Second+1, nil)), []any{412}, ""},
		{"no token, and no answer before", prepares(2, 0, errNoAnswer), []any{errReset}, ""},
		{"a reset", nil, []any{errReset, 412}, "connection reset by peer"},
		{"503", nil, []any{503, 412}, "503 Service Unavailable"},
		{"504, and then a reset", nil, []any{504, errReset, 412}, "connection reset by peer"},
		{"a reset, and then a 507, as of a quota that the first request has used up", nil, []any{errReset, 507}, "connection reset by peer"},
		{"a reset, and then a success that Check refuses", check(func(req *http.Request, resp *http.Response, err error) error {
			if resp != nil {
				return retry.Permanent(errors.New("name_taken"))
			}
			return retryhttp.Check(req, resp, err)
		}), []any{errReset, 200}, "connection reset by peer"},
		{"a reset, and then a success that Check and RetryIf refuse", taken(retry.Policy{MaxAttempts: 4, RetryIf: func(err error) bool { return err != errTaken }}), []any{errReset, 200}, "connection reset by peer"},
		{"a reset, and then a success that Check and Classify refuse", taken(retry.Policy{MaxAttempts: 4, Classify: func(err error) *retry.Class {
			return &retry.Class{NonRetryable: err == errTaken}
		}}), []any{errReset, 200}, "connection reset by peer"},
		{"a success that Check refuses in each attempt, until RetryIf refuses it too", taken(retry.Policy{MaxAttempts: 4, RetryIf: func() func(error) bool {
			n := 0
			return func(error) bool { n++; return n < 3 }
		}()}), []any{200}, ""},
		{"a job that is still running, until RetryIf refuses its end", ofTransport(func(tr *retryhttp.Transport) {
			tr.Check = func(_ *http.Request, resp *http.Response, _ error) error {
				return fmt.Errorf("the job answers %d", resp.StatusCode)
			}
			tr.Policy.RetryIf = func(err error) bool { return err.Error() == "the job answers 202" }
		}), []any{202, 200}, ""},
		{"a repeat of net/http that gets a success that Check and RetryIf refuse", keyed(taken(retry.Policy{MaxAttempts: 4, RetryIf: func(err error) bool { return err != errTaken }})),
			[]any{repeated(200)}, "net/http has repeated the request"},
		{"503s, until RetryIf refuses one", policy(retry.Policy{MaxAttempts: 4, RetryIf: func() func(error) bool {
			n := 0
			return func(error) bool { n++; return n < 3 }
		}()}), []any{503}, ""},
		{"a 503, and then a 500 that RetryIf refuses", policy(retry.Policy{MaxAttempts: 4, RetryIf: func(err error) bool {
			var e *retryhttp.StatusError
			return errors.As(err, &e) && e.StatusCode == 503
		}}), []any{503, 500}, ""},
		{"a 503, and then a success that Check and RetryIf refuse", taken(retry.Policy{MaxAttempts: 4, RetryIf: func(err error) bool { return err != errTaken }}), []any{503, 200}, "503 Service Unavailable"},
		{"a reset, and then a success that Check refuses in each attempt", taken(retry.Policy{MaxAttempts: 4}), []any{errReset, 200}, ""},
		{"a reset, and then a 503 in each attempt", nil, []any{errReset, 503}, ""},
		{"a reset, and then a 503", nil, []any{errReset, 503, 412}, "connection reset by peer"},
		{"408 of a server that timed out its handler", nil, []any{408, 412}, "408 Request Timeout"},
		{"two answers", nil, []any{503, 504, 412}, "503 Service Unavailable"},
		{"a reset, and then a 429", nil, []any{errReset, 429, 412}, "connection reset by peer"},
		{"a reset, and then a last 429", nil, []any{errReset, 429}, "connection reset by peer"},
		{"a reset, and then a 404, as after a DELETE", nil, []any{errReset, 404}, "connection reset by peer"},
		{"AttemptTimeout", policy(retry.Policy{MaxAttempts: 4, AttemptTimeout: time.Second}), []any{slow, 412}, "retryhttp: no response within AttemptTimeout (1s)"},
		{"AttemptTimeout, a 429, and then AttemptTimeout", policy(retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}), []any{slow, 429, slow}, "429 Too Many Requests"},
		{"AttemptTimeout, a 429, and then the deadline", func(tr *retryhttp.Transport, req *http.Request) {
			tr.Policy = retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Minute}
			ctx, cancel := context.WithTimeout(req.Context(), 65*time.Second)
			context.AfterFunc(ctx, cancel)
			*req = *req.WithContext(ctx)
		}, []any{slow, 429, slow}, "429 Too Many Requests"},
		{"AttemptTimeout, a 429, and then AttemptTimeout, for a Check that wraps the errors", func(tr *retryhttp.Transport, _ *http.Request) {
			tr.Policy, tr.Check = retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}, wrapping
		}, []any{slow, 429, slow}, ""},
		{"a success whose body AttemptTimeout ends, and then AttemptTimeout", func(tr *retryhttp.Transport, _ *http.Request) {
			tr.Policy, tr.Check = retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}, retryhttp.WholeBody(nil, 99)
		}, []any{step(func(req *http.Request) (*http.Response, error) { return responseWith(200, stalled{req.Context()}), nil }), slow},
			"retryhttp: a response with the status 200 has arrived, but Check did not end within AttemptTimeout (1s)"},
		{"AttemptTimeout, and then no answer, with a Check that is late", func(tr *retryhttp.Transport, _ *http.Request) {
			tr.Policy, tr.Check = retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}, lateCheck
		}, []any{slow, errNoAnswer}, "retryhttp: no response within AttemptTimeout (1s)"},
		{"a reset with a Check that is late, a 429, and then AttemptTimeout", func(tr *retryhttp.Transport, _ *http.Request) {
			tr.Policy, tr.Check = retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}, lateCheck
		}, []any{errReset, 429, slow}, "connection reset by peer"},
		{"AttemptTimeout in each attempt", policy(retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}), []any{slow}, ""},
		{"503, and then timeouts of Base", policy(retry.Policy{MaxAttempts: 3}), []any{503, late("read")}, "503 Service Unavailable"},
		{"a timeout of Base in each attempt", nil, []any{late("read")}, ""},
		{"a timeout of Base, and then no connection in time", policy(retry.Policy{MaxAttempts: 2}), []any{late("read"), late("dial")}, "read tcp: i/o timeout"},
		{"AttemptTimeout, and then no token in time", func(tr *retryhttp.Transport, req *http.Request) {
			prepares(2, time.Second+1, nil).apply(tr, req)
			tr.Policy.MaxAttempts = 2
		}, []any{slow}, ""},
		{"a reset, and then no token in time, for a Check that wraps it", func(tr *retryhttp.Transport, req *http.Request) {
			prepares(2, time.Second+1, nil).apply(tr, req)
			tr.Check, tr.Policy.MaxAttempts = wrapping, 2
		}, []any{errReset}, "connection reset by peer"},
		{"a reset, a 429, and then AttemptTimeout", policy(retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Second}), []any{errReset, 429, slow}, "connection reset by peer"},
		{"half an answer", check(retryhttp.WholeBody(nil, 99)), []any{half(), 412}, "retryhttp: the body of the response broke off: unexpected EOF"},
		{"an answer that Check refuses", check(func(req *http.Request, resp *http.Response, err error) error {
			if resp != nil && resp.StatusCode == 200 {
				return errors.New("half")
			}
			return retryhttp.Check(req, resp, err)
		}), []any{200, 412}, "half"},
		{"a deadline in the wait after a 429", ofRequest(func(req *http.Request) {
			ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
			context.AfterFunc(ctx, cancel)
			*req = *req.WithContext(ctx)
		}), []any{errReset, asksToWait(429, 59), asksToWait(429, 59)}, "connection reset by peer"},

		{"a Transport below loses the answer", below, []any{errReset, 412}, "connection reset by peer"},
		{"a Transport below loses the answer, and then gets a 429", below, []any{errReset, 429, 429, 429, 412}, "connection reset by peer"},

		{"a Transport below loses the answers of a request with a key", keyed(below), []any{broken, broken, broken, broken, 412}, "attempts exhausted after 4 attempts: connection reset by peer"},
		{"a Transport below loses the answer, and then gets no connection", below, []any{errReset, refused, refused, refused, 412}, "attempts exhausted after 4 attempts: dial tcp: connection refused"},
		{"a reset of one server and no connection to another", nil, []any{errors.Join(errReset, refused), 412}, "connection reset by peer"},

		{"a connection that was refused", nil, []any{refused, 412}, ""},
		{"a connection that was refused, for a Check that wraps it", check(wrapping), []any{refused, 412}, ""},
		{"no connection to any of two servers", nil, []any{errors.Join(refused, fmt.Errorf("b: %w", refused)), 412}, ""},
		{"no connection to the proxy", nil, []any{&net.OpError{Op: "proxyconnect", Net: "tcp", Err: refused}, 412}, ""},
		{"no connection from a SOCKS proxy", nil, []any{&net.OpError{Op: "socks connect", Net: "tcp", Err: errors.New("unknown error connection refused")}, 412}, ""},
		{"no address, by a DialContext that looks it up", nil, []any{&net.DNSError{Err: "no such host", IsNotFound: true}, 412}, ""},
		{"an Enter of a Transport below that sends nothing", closed, []any{412}, ""},
		{"no connection for a Transport below that sends once", once, []any{refused, 412}, ""},
		{"a Transport below makes one attempt", below, []any{412}, ""},
		{"429", nil, []any{429, 412}, ""},
		{"401 of an expired token", check(failing), []any{401, 403}, ""},
		{"the first attempt", nil, []any{412}, ""},
		{"a last 503", nil, []any{errReset, 503}, ""},
		{"a POST, which is sent again because the server refused it", ofRequest(func(req *http.Request) { req.Method = "POST" }), []any{429, 412}, ""},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr, req := &retryhttp.Transport{Base: script(tt.steps...), Policy: retry.Policy{MaxAttempts: 4}}, request(t, "PUT")
			req.Header.Set("If-None-Match", "*")
			tt.edit.apply(tr, req)
			_, err := retryhttp.Result(tr.RoundTrip(req))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			if tt.want == "" {
				assert.NoError(t, e.Before)
				return
			}
			require.ErrorContains(t, e.Before, tt.want)
			assert.ErrorContains(t, err, "; before that: ")
			assert.False(t, errors.Is(err, errReset), "errors.Is does not find Before")
		})
	}
	for _, first := range []any{errReset, 409, 500} {
		for name, between := range map[string]func(http.RoundTripper) http.RoundTripper{
			"": func(below http.RoundTripper) http.RoundTripper { return below },
			", and another Transport between them": func(below http.RoundTripper) http.RoundTripper {
				return &retryhttp.Transport{Base: below, Policy: retry.Policy{MaxAttempts: 1}}
			},
		} {
			bubble(t, fmt.Sprintf("a Transport below sends a POST twice (%v), so a 429 does not prove that nothing was processed%s", first, name), func(t *testing.T) {
				base := script(first, 429)
				inner := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}, Check: failing, Idempotent: func(*http.Request) bool { return true }}
				resp := send(t, &retryhttp.Transport{Base: between(inner), Policy: retry.Policy{MaxAttempts: 4}}, request(t, "POST"))
				assert.Equal(t, []any{429, 2}, []any{resp.StatusCode, base.count()})
				assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(retryhttp.ErrorOf(resp)))
			})
		}
	}
}

// A server stores an object and dies before it answers. The next attempt is redirected, and the new
// location finds the object. http.Client follows the redirect with a new call of RoundTrip, whose
// error also says which answer was lost.
func TestAnswerThatIsLostBeforeARedirect(t *testing.T) {
	for name, edit := range map[string]func(*testing.T, *retryhttp.Transport){
		"Prepare fails in the second attempt": func(_ *testing.T, tr *retryhttp.Transport) {
			tr.Prepare = func(req *http.Request, n int, _ error) error {
				if req.URL.Path == "/new" && n == 2 {
					return errNoAnswer
				}
				return nil
			}
		},
		"Prepare fails": func(_ *testing.T, tr *retryhttp.Transport) {
			tr.Prepare = func(req *http.Request, _ int, _ error) error {
				if req.URL.Path == "/new" {
					return errNoAnswer
				}
				return nil
			}
		},
		"the Gate is closed": func(t *testing.T, tr *retryhttp.Transport) {
			tr.Gate = &retryhttp.Gate{Key: func(req *http.Request) string { return req.URL.Path }}
			closing := request(t, "GET")
			closing.URL.Path = "/new"
			send(t, &retryhttp.Transport{Base: script(asksToWait(429, 50)), Gate: tr.Gate}, closing)
			tr.Policy.MaxRetryAfter = time.Second
		},
	} {
		bubble(t, "the request to the new location is not sent: "+name, func(t *testing.T) {
			tr := &retryhttp.Transport{Base: script(errReset, response(307, "Location", "/new"), 503), Policy: retry.Policy{MaxAttempts: 3}}
			edit(t, tr)
			_, err := (&http.Client{Transport: tr}).Do(request(t, "PUT"))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, errReset, e.Before, err)
		})
	}
	to := func(status int, path string) any { // a new response each time, because its Request says what was lost
		return func(*http.Request) (*http.Response, error) { return response(status, "Location", path), nil }
	}
	late := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	before := func(t *testing.T, tr *retryhttp.Transport, steps ...any) error {
		tr.Base, tr.Policy = script(steps...), retry.Policy{MaxAttempts: 3}
		_, err := retryhttp.Result((&http.Client{Transport: tr}).Do(request(t, "PUT")))
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		return e.Before
	}
	bubble(t, "a request without a Method, which is a GET", func(t *testing.T) {
		tr := &retryhttp.Transport{Base: script(errReset, to(302, "/new"), 404), Policy: retry.Policy{MaxAttempts: 3}}
		req := request(t, "GET")
		req.Method = ""
		_, err := retryhttp.Result((&http.Client{Transport: tr}).Do(req))
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, errReset, e.Before)
	})
	bubble(t, "a 503 whose error has no status", func(t *testing.T) {
		down := func(req *http.Request, resp *http.Response, err error) error {
			if resp != nil && resp.StatusCode == 503 {
				return errors.New("down")
			}
			return retryhttp.Check(req, resp, err)
		}
		assert.Equal(t, errReset, before(t, &retryhttp.Transport{Check: down}, 503, to(307, "/new"), errReset, 412))
	})
	bubble(t, "a 503, and no token after a reset, whose error the text contains", func(t *testing.T) {
		fails := func(req *http.Request, n int, _ error) error {
			if req.URL.Path == "/new" && n == 2 {
				return errNoAnswer
			}
			return nil
		}
		assert.NoError(t, before(t, &retryhttp.Transport{Prepare: fails}, 503, to(307, "/new"), errReset))
	})
	bubble(t, "a download after the redirect, which breaks off", func(t *testing.T) {
		// The answer that was lost before the redirect is no attempt of the call for the missing bytes.
		files := &source{text: "0123456789", cuts: []int{4}}
		refuses := func(req *http.Request) (*http.Response, error) {
			assert.NotNil(t, req.Response, "the request still says that a redirect led to it")
			return response(403), nil
		}
		base := script(errReset, response(302, "Location", "/signed"), files.RoundTrip, refuses)
		client := &http.Client{Transport: &retryhttp.Transport{Base: base, Resume: true, Policy: retry.Policy{MaxAttempts: 3}}}
		resp, err := client.Do(request(t, "GET"))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.ErrorIs(t, e.Before, io.ErrUnexpectedEOF)
	})
	bubble(t, "a long method", func(t *testing.T) {
		req := request(t, "GET")
		req.Method = strings.Repeat("M", 1<<20)
		_, err := (&retryhttp.Transport{Base: script(errReset), Policy: retry.Policy{MaxAttempts: 3}}).RoundTrip(req)
		require.ErrorContains(t, err, "the server may have processed this MMM")
		assert.Less(t, len(err.Error()), 4<<10)
		tr := &retryhttp.Transport{Base: script(asksToWait(429, 50)), Gate: new(retryhttp.Gate), Policy: retry.Policy{MaxRetryAfter: time.Second}}
		send(t, tr, req)
		_, err = tr.RoundTrip(req)
		require.ErrorContains(t, err, "was not sent")
		assert.Less(t, len(err.Error()), 4<<10)
	})
	bubble(t, "a POST that net/http has repeated, and a 429 after the redirect", func(t *testing.T) {
		again := func(req *http.Request) (*http.Response, error) {
			return traced("asks got wrote asks got wrote", script(response(307, "Location", "/new")).RoundTrip)(req)
		}
		tr := &retryhttp.Transport{Base: script(again, 429, 200), Policy: retry.Policy{MaxAttempts: 3}}
		tr.Idempotent = func(*http.Request) bool { return false }
		req := request(t, "POST")
		req.Header.Set("Idempotency-Key", "k")
		resp, err := (&http.Client{Transport: tr}).Do(req)
		require.NoError(t, err)
		assert.Equal(t, 429, resp.StatusCode)
		assert.ErrorContains(t, retryhttp.ErrorOf(resp), "the server may have processed this POST")
	})
	bubble(t, "a timeout, and an error of Prepare after the deadline", func(t *testing.T) {
		tr := &retryhttp.Transport{Base: script(late, to(307, "/new")), Policy: retry.Policy{MaxAttempts: 3}}
		tr.Prepare = func(req *http.Request, _ int, _ error) error {
			if req.URL.Path != "/new" {
				return nil
			}
			time.Sleep(time.Minute + 1)
			return errNoAnswer
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := (&http.Client{Transport: tr}).Do(request(t, "PUT").WithContext(ctx))
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, late, e.Before)
	})
	for _, tt := range []struct {
		name, method string
		steps        []any
		want         string // the text of Before; "": Before is nil
	}{
		{"a timeout, and a 503 and a timeout after the redirect", "PUT", []any{late, to(307, "/new"), 503, late, late}, "503 Service Unavailable"},
		{"a reset, and timeouts after the redirect", "PUT", []any{errReset, to(307, "/new"), late, late, late}, "connection reset by peer"},
		{"307", "PUT", []any{errReset, to(307, "/new"), 412}, "connection reset by peer"},
		{"308, after a 503", "DELETE", []any{503, to(308, "/new"), 404}, "503 Service Unavailable"},
		{"two redirects", "PUT", []any{errReset, to(307, "/new"), to(307, "/newer"), 412}, "connection reset by peer"},
		{"an answer is lost after the redirect too", "PUT", []any{504, to(307, "/new"), errReset, 412}, "connection reset by peer"},
		{"two answers are lost, both without a status", "PUT", []any{errNoAnswer, to(307, "/new"), errReset, 412}, errNoAnswer.Error()},
		{"a reset, and a 503 after the redirect", "PUT", []any{errReset, to(307, "/new"), 503, 412}, "connection reset by peer"},
		{"two answers are lost, both with a status", "PUT", []any{504, to(307, "/new"), 503, 412}, "504 Gateway Timeout"},
		{"no answer is lost", "PUT", []any{to(307, "/new"), 412}, ""},
		{"429, and then a redirect", "PUT", []any{429, to(307, "/new"), 412}, ""},
		{"303, after which the request is a GET", "PUT", []any{errReset, to(303, "/new"), 404}, ""},
		{"a success after the redirect", "PUT", []any{errReset, to(307, "/new"), 200}, ""},
	} {
		bubble(t, tt.name+", and a Transport above", func(t *testing.T) {
			inner := &retryhttp.Transport{Base: script(tt.steps...), Policy: retry.Policy{MaxAttempts: 3}}
			req := request(t, tt.method)
			rewindable(req, "data")
			_, err := retryhttp.Result((&http.Client{Transport: &retryhttp.Transport{Base: inner}}).Do(req))
			var e *retry.Error
			assert.Equal(t, tt.want != "", errors.As(err, &e) && e.Before != nil)
		})
		bubble(t, tt.name, func(t *testing.T) {
			base := script(tt.steps...)
			client := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}}
			req := request(t, tt.method)
			rewindable(req, "data")
			_, err := retryhttp.Result(client.Do(req))
			assert.Equal(t, len(tt.steps), base.count())
			var e *retry.Error
			if !errors.As(err, &e) {
				assert.NoError(t, err)
				assert.Equal(t, 200, tt.steps[len(tt.steps)-1])
				return
			}
			if tt.want == "" {
				assert.NoError(t, e.Before)
			} else {
				assert.ErrorContains(t, e.Before, tt.want)
			}
		})
	}
}

var errNoAnswer = errors.New("no answer")

// net/http itself repeats a request with an idempotency key if an idle connection breaks. The
// repeat is part of the same attempt, and the answer to the first request is lost.
func TestAnswerThatIsLostInNetHTTP(t *testing.T) {
	const again = "net/http has repeated the request, because its idle connection broke"
	for _, tt := range []struct {
		name, method string
		header       http.Header
		protocol     string
		sent         int // how often net/http sends the request in the last attempt
		want         string
	}{
		{"PUT with a key", "PUT", http.Header{"Idempotency-Key": {"k"}}, "HTTP/1", 2, again},
		{"DELETE with another key", "DELETE", http.Header{"X-Idempotency-Key": {"k"}}, "HTTP/1", 2, again},
		{"POST with a key that is not sent", "POST", http.Header{"Idempotency-Key": nil}, "HTTP/1", 2, again},
		{"PUT", "PUT", nil, "HTTP/1", 1, "EOF"},
		{"HTTP/2", "PUT", http.Header{"Idempotency-Key": {"k"}}, "HTTP/2", 1, "INTERNAL_ERROR"},
		{"HTTP/1, and HTTP/2 from the second connection on", "PUT", http.Header{"Idempotency-Key": {"k"}}, "both", 2, again},
	} {
		for _, breaks := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, ", breaks: ", breaks), func(t *testing.T) {
				var asked atomic.Int64
				server := serve(t, func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.Method == "GET":
					case asked.Add(1) == 1 && breaks:
						panic(http.ErrAbortHandler) // the request is processed, and its answer is lost
					default:
						w.WriteHeader(412)
					}
				}, map[string]func(*httptest.Server){"HTTP/1": http1, "HTTP/2": http2, "both": http1Then2}[tt.protocol])
				base := server.Client().Transport
				req := request(t, "GET")
				req.URL, _ = url.Parse(server.URL)
				textOf(t, send(t, base, req)) // leaves an idle connection
				tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}
				req.Method, req.Header = tt.method, tt.header.Clone()
				var e *retry.Error
				require.ErrorAs(t, retryhttp.ErrorOf(send(t, tr, req)), &e)
				if breaks {
					assert.ErrorContains(t, e.Before, tt.want)
					assert.Equal(t, []int64{2, int64(3 - tt.sent)}, []int64{asked.Load(), int64(e.Attempts)})
				} else {
					assert.NoError(t, e.Before)
					assert.EqualValues(t, 1, asked.Load())
				}
			})
		}
	}
}

// http1Then2 starts a server that speaks HTTP/1 on its first connection, and then HTTP/2, as
// several servers behind one address do while HTTP/2 is rolled out.
func http1Then2(s *httptest.Server) {
	var conns atomic.Int64
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if conns.Add(1) > 1 {
			return nil, nil
		}
		first := s.TLS.Clone()
		first.NextProtos = []string{"http/1.1"}
		return first, nil
	}}
	http2(s)
}

// A problem cannot be compared, because it contains a map.
type problem struct{ fields any }

func (problem) Error() string { return "problem" }

func TestCauseThatCannotBeCompared(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("after the answer: ", late), func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			end := func() { cancel(problem{map[string]any{"id": 1}}) }
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3}}
			tr.Base = roundTrip(func(req *http.Request) (*http.Response, error) {
				if late {
					return response(503), nil
				}
				end()
				return nil, context.Cause(req.Context())
			})
			tr.Check = func(req *http.Request, resp *http.Response, err error) error {
				end()
				return retryhttp.Check(req, resp, err)
			}
			_, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
			require.ErrorContains(t, err, "problem")
			assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
		})
	}
}

// If a Transport below sends a request again after an answer, or a Hedge sends it twice, this is
// not a repeat by net/http.
func TestAnswersThatAreNotLost(t *testing.T) {
	inner := func(base http.RoundTripper) http.RoundTripper {
		return &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}
	}
	accepts := func(base http.RoundTripper) http.RoundTripper {
		return &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}, Check: func(req *http.Request, resp *http.Response, err error) error {
			if err == nil && resp.StatusCode == 412 {
				return nil
			}
			return retryhttp.Check(req, resp, err)
		}}
	}
	hedge := func(base http.RoundTripper) http.RoundTripper { return &retryhttp.Hedge{Base: base, After: 1} }
	for _, tt := range []struct {
		name, method string
		below        func(http.RoundTripper) http.RoundTripper
		answers      []int
		both         bool // the server answers when all requests have arrived
		attempts     int
	}{
		{"a Transport below, POST", "POST", inner, []int{429, 412}, false, 1},
		{"a Transport below, whose Check accepts the last answer", "POST", accepts, []int{429, 412}, false, 1},
		{"a Transport below, POST, which is sent again", "POST", inner, []int{429, 429, 412}, false, 2},
		{"a Hedge below, GET with a key", "GET", hedge, []int{404, 404}, true, 1},
		{"a Hedge below, HEAD with a key", "HEAD", hedge, []int{404, 404}, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked atomic.Int64
			all := make(chan struct{})
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				n := int(asked.Add(1))
				if n == len(tt.answers) {
					close(all)
				}
				if tt.both {
					<-all
				}
				w.WriteHeader(tt.answers[n-1])
			}, protocols["HTTP/1"])
			tr := &retryhttp.Transport{Base: tt.below(server.Client().Transport), Policy: retry.Policy{MaxAttempts: 4}}
			req := request(t, tt.method)
			req.URL, _ = url.Parse(server.URL)
			if tt.both {
				req.Header.Set("Idempotency-Key", "k")
			}
			var e *retry.Error
			require.ErrorAs(t, retryhttp.ErrorOf(send(t, tr, req)), &e)
			assert.NoError(t, e.Before)
			assert.Equal(t, []int{len(tt.answers), tt.attempts}, []int{int(asked.Load()), e.Attempts})
		})
	}
}

// Over HTTP/2, net/http repeats only requests that the server has refused before processing them.
func TestAnswerThatIsNotLostOverHTTP2(t *testing.T) {
	var asked atomic.Int64
	tr := &retryhttp.Transport{Base: http2Server(t, func(c h2conn, stream uint32) {
		if asked.Add(1) == 1 {
			c.reset(stream, 0x7) // REFUSED_STREAM
		} else {
			c.frame(0x1, 0x5, stream, []byte("\x08\x03412")) // a header with one field, ":status: 412"
		}
	})}
	req := request(t, "PUT")
	req.Header.Set("Idempotency-Key", "k")
	var e *retry.Error
	require.ErrorAs(t, retryhttp.ErrorOf(send(t, tr, req)), &e)
	assert.NoError(t, e.Before)
	assert.Equal(t, []int64{2, 1}, []int64{asked.Load(), int64(e.Attempts)})
}
