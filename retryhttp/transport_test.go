package retryhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retrynet"
)

// These tests open no socket: they run in virtual time, so every time is exact.

// A request that is not sent again says why, and what to write. It goes before
// what the policy allows, and marks nothing as permanent.
func TestWhatIsSentAgain(t *testing.T) {
	boom := errors.New("boom")
	const (
		noGetBody = "the request has no GetBody, so its body cannot be sent again; see retryhttp.SetBody"
		processed = "the server may have processed this %s; see retryhttp.Transport.Idempotent"
	)
	type edit = func(*http.Request, *retryhttp.Transport)
	idempotent := func(is bool) edit {
		return func(_ *http.Request, tr *retryhttp.Transport) { tr.Idempotent = func(*http.Request) bool { return is } }
	}
	policy := func(p retry.Policy) edit {
		return func(_ *http.Request, tr *retryhttp.Transport) { tr.Policy = p }
	}
	check := func(check func(*http.Request, *http.Response, error) error) edit {
		return func(_ *http.Request, tr *retryhttp.Transport) { tr.Check = check }
	}
	rewinds := func(req *http.Request, _ *retryhttp.Transport) { rewindable(req, "data") }
	once := func(req *http.Request, _ *retryhttp.Transport) { req.Body = io.NopCloser(strings.NewReader("data")) }
	only429 := retry.Policy{MaxAttempts: 3, RetryIf: func(err error) bool {
		var status *retryhttp.StatusError
		return errors.As(err, &status) && status.HTTPStatusCode() == 429 && status.Header.Get("X-Status") == "429"
	}}
	for _, tt := range []struct {
		name   string
		method string
		edit   edit
		first  any // the answer to the first attempt; nil: 503, and an error. The next one is 200
		sent   int
		reason retry.Reason
		cause  string
	}{
		{"a success", "GET", nil, 200, 1, retry.ReasonSuccess, ""},
		{"a failure", "GET", nil, nil, 2, retry.ReasonSuccess, ""},
		{"a permanent failure", "GET", nil, 404, 1, retry.ReasonPermanent, ""},

		{"POST", "POST", nil, nil, 1, retry.ReasonNonRetryable, fmt.Sprintf(processed, "POST")},
		{"POST, a permanent failure", "POST", nil, 404, 1, retry.ReasonPermanent, ""},
		{"POST in the last attempt", "POST", policy(retry.Policy{}), nil, 1, retry.ReasonNonRetryable, fmt.Sprintf(processed, "POST")},
		{"POST with a key", "POST", func(req *http.Request, _ *retryhttp.Transport) { req.Header.Set("Idempotency-Key", "k") },
			nil, 2, retry.ReasonSuccess, ""},
		{"POST, marked as repeatable", "POST", idempotent(true), nil, 2, retry.ReasonSuccess, ""},
		{"no method, which is GET, marked as not repeatable", "", idempotent(false),
			nil, 1, retry.ReasonNonRetryable, fmt.Sprintf(processed, "GET")},

		{"a body with GetBody", "PUT", rewinds, nil, 2, retry.ReasonSuccess, ""},
		{"a body without", "PUT", once, nil, 1, retry.ReasonNonRetryable, noGetBody},
		{"POST, a body without", "POST", once, nil, 1, retry.ReasonNonRetryable, noGetBody},
		{"a body without, marked as repeatable", "PUT", func(req *http.Request, tr *retryhttp.Transport) {
			once(req, tr)
			idempotent(true)(req, tr)
		}, nil, 1, retry.ReasonNonRetryable, noGetBody},
		{"NoBody", "PUT", func(req *http.Request, _ *retryhttp.Transport) { req.Body = http.NoBody }, nil, 2, retry.ReasonSuccess, ""},

		{"RetryIf rejects a status", "GET", policy(only429), 503, 1, retry.ReasonRejected, ""},
		{"RetryIf accepts a status", "GET", policy(only429), 429, 2, retry.ReasonSuccess, ""},
		{"RetryIf sees the error of Base", "GET", policy(retry.Policy{MaxAttempts: 3, RetryIf: func(err error) bool { return err != boom }}),
			boom, 1, retry.ReasonRejected, ""},
		{"retrynet.Transient, which knows no status, as RetryIf", "GET", policy(retry.Policy{MaxAttempts: 3, RetryIf: retrynet.Transient}),
			503, 1, retry.ReasonRejected, ""},

		{"Check retries another status", "GET", check(func(_ *http.Request, resp *http.Response, err error) error {
			if err == nil && resp.StatusCode == 404 {
				return retryhttp.NewStatusError(resp)
			}
			return retryhttp.Check(nil, resp, err)
		}), 404, 2, retry.ReasonSuccess, ""},
		{"Check says permanent", "GET", check(func(*http.Request, *http.Response, error) error { return retry.Permanent(boom) }),
			200, 1, retry.ReasonPermanent, ""},
		{"Check returns nil", "GET", check(func(*http.Request, *http.Response, error) error { return nil }), 503, 1, retry.ReasonSuccess, ""},
		{"Check returns nil for an error", "GET", check(func(*http.Request, *http.Response, error) error { return nil }),
			boom, 1, retry.ReasonPermanent, ""},

		{"the zero Policy", "GET", policy(retry.Policy{}), nil, 1, retry.ReasonExhausted, ""},
		{"MaxElapsed", "GET", policy(retry.Policy{Backoff: retry.Fixed(time.Minute), MaxElapsed: time.Second}), nil, 1, retry.ReasonElapsed, ""},
		{"an invalid policy, and a success", "GET", policy(retry.Policy{MaxAttempts: -2}), 200, 1, retry.ReasonSuccess, ""},
	} {
		firsts := []any{tt.first}
		if tt.first == nil {
			firsts = []any{503, boom}
		}
		for _, first := range firsts {
			bubble(t, fmt.Sprint(tt.name, ", ", first), func(t *testing.T) {
				var seen events
				base := script(first, 200)
				tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}
				req := request(t, "GET")
				req.Method = tt.method
				if tt.edit != nil {
					tt.edit(req, tr)
				}
				tr.Policy.OnEvent = seen.add
				resp, err := tr.RoundTrip(req)

				stop := seen.stop()
				assert.Equal(t, tt.sent, len(base.sent))
				assert.Equal(t, tt.reason, stop.Reason)
				assert.Equal(t, tt.sent, stop.Attempt, "this is where the caller of a request that succeeds learns how often it was sent")
				if tt.cause != "" {
					assert.EqualError(t, stop.Cause, tt.cause)
					assert.Empty(t, stop.Class)
					assert.False(t, retry.IsPermanent(stop.Err))
				}
				switch {
				case tt.sent == 2:
					require.NoError(t, err)
					assert.Equal(t, 200, resp.StatusCode)
				case first == boom:
					require.ErrorIs(t, err, boom)
					assert.Equal(t, tt.reason, retry.ReasonOf(err))
					if tt.cause != "" {
						assert.EqualError(t, err, "retry: not retryable after 1 attempt ("+tt.cause+"): boom")
						assert.Same(t, boom, retry.Unwrap(err))
					}
				default:
					require.NoError(t, err)
					assert.Equal(t, first, resp.StatusCode)
				}
			})
		}
	}
}

// When the Transport gives up, for any reason, the caller gets the last
// response with its body unread, and a context in which the body can be read.
func TestLastResponseIsUnread(t *testing.T) {
	for name, edit := range map[string]func(*http.Request, *retryhttp.Transport){
		"attempts_exhausted":   func(*http.Request, *retryhttp.Transport) {},
		"retry_after_too_long": func(_ *http.Request, tr *retryhttp.Transport) { tr.Policy.MaxRetryAfter = time.Second },
		"deadline": func(req *http.Request, _ *retryhttp.Transport) {
			ctx, cancel := context.WithTimeout(req.Context(), time.Second)
			t.Cleanup(cancel)
			*req = *req.WithContext(ctx)
		},
		"budget_exhausted": func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Policy.Budget = &retry.Budget{Size: 1}
			tr.Policy.Budget.Take()
		},
	} {
		bubble(t, name, func(t *testing.T) {
			var seen events
			var ctx context.Context
			var last *body
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				ctx, last = req.Context(), &body{Reader: strings.NewReader("the reason")}
				resp := responseWith(503, last)
				resp.Header.Set("Retry-After", "30")
				return resp, nil
			})}
			req := request(t, "GET")
			edit(req, tr)
			tr.Policy.OnEvent = seen.add

			resp, err := tr.RoundTrip(req)
			require.NoError(t, err)
			assert.Equal(t, name, string(seen.stop().Reason))
			assert.Zero(t, last.read, "bytes of the body read before the caller has it")
			assert.False(t, last.closed)
			assert.NoError(t, ctx.Err())
			assert.Equal(t, "the reason", textOf(t, resp))
			assert.Error(t, ctx.Err(), "the end of the body frees the attempt's context")
			require.NoError(t, resp.Body.Close())
			assert.True(t, last.closed)
		})
	}
}

func TestAttemptTimeout(t *testing.T) {
	const timeout = 50 * time.Millisecond
	const text = "retryhttp: no response within AttemptTimeout (50ms)"
	canceled := func(req *http.Request) (*http.Response, error) {
		_, ok := req.Context().Deadline()
		assert.False(t, ok)
		<-req.Context().Done()
		assert.Equal(t, context.Canceled, req.Context().Err())
		child, cancel := context.WithCancel(req.Context())
		defer cancel()
		assert.EqualError(t, context.Cause(child), text)
		return nil, errors.New("http: something was canceled")
	}
	late := &body{Reader: strings.NewReader("late")}
	for _, tt := range []struct {
		name   string
		base   http.RoundTripper
		edit   func(*retryhttp.Transport)
		sent   int
		checks int
		took   time.Duration
		err    string // "": none
	}{
		{"every attempt is cut off, whatever Base says", script(canceled), nil,
			3, 3, 3*timeout + 2*time.Second, "retry: attempts exhausted after 3 attempts (2s waited, attempt 3 ran out of its 50ms): " + text},
		{"Check sees a timeout", script(canceled), func(tr *retryhttp.Transport) {
			tr.Check = func(_ *http.Request, _ *http.Response, err error) error { return retry.Permanent(err) }
		}, 1, 1, timeout, "retry: permanent error after 1 attempt (attempt 1 ran out of its 50ms): " + text},
		{"a response that comes too late does not count", script(func(*http.Request) (*http.Response, error) {
			time.Sleep(timeout + 1) // ignores its context
			return responseWith(200, late), nil
		}, 200), nil, 2, 3, timeout + 1 + time.Second, ""},
		{"a Check that reads a stalled body is cut off too", script(func(req *http.Request) (*http.Response, error) {
			return responseWith(200, &body{Reader: stalled{req.Context()}}), nil
		}), func(tr *retryhttp.Transport) {
			tr.Check = func(_ *http.Request, resp *http.Response, err error) error {
				if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				return err
			}
		}, 3, 6, 3*timeout + 2*time.Second, "retry: attempts exhausted after 3 attempts (2s waited, attempt 3 ran out of its 50ms): " + text},
		{"an attempt that it ends was not healthy", script(canceled, canceled, canceled, retry.Permanent(errors.New("it goes on for ever"))),
			func(tr *retryhttp.Transport) { tr.Policy.HealthyAfter = timeout / 2 },
			3, 3, 3*timeout + 2*time.Second, "retry: attempts exhausted after 3 attempts (2s waited, attempt 3 ran out of its 50ms): " + text},
		{"a negative one is a fault of the policy", script(errors.New("boom")), func(tr *retryhttp.Transport) { tr.Policy.AttemptTimeout = -1 },
			1, 1, 0, "retry: invalid policy after 1 attempt (AttemptTimeout is -1ns: write 0 for none, or a positive duration): boom"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			tr := &retryhttp.Transport{Base: tt.base, Check: retryhttp.Check, Policy: retry.Policy{
				MaxAttempts: 3, Backoff: retry.Fixed(time.Second), AttemptTimeout: timeout,
			}}
			if tt.edit != nil {
				tt.edit(tr)
			}
			check, checks := tr.Check, 0
			tr.Check = func(req *http.Request, resp *http.Response, err error) error {
				checks++
				var timeout interface {
					Timeout() bool
					Temporary() bool
				} // a net.Error
				if errors.As(err, &timeout) {
					assert.True(t, timeout.Timeout() && timeout.Temporary())
					assert.NoError(t, req.Context().Err(), "has the caller gone?")
				}
				return check(req, resp, err)
			}
			start := time.Now()
			_, err := tr.RoundTrip(request(t, "GET"))
			assert.Equal(t, tt.took, time.Since(start))
			assert.Len(t, tt.base.(*scripted).sent, tt.sent)
			assert.Equal(t, tt.checks, checks)
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			assert.EqualError(t, err, tt.err)
			assert.Equal(t, tt.took > 0, errors.Is(err, context.DeadlineExceeded))
			assert.Equal(t, tt.took > 0, os.IsTimeout(err))
		})
	}
	assert.True(t, late.closed)
}

// http.Client reads a response after RoundTrip has returned: the context must not end
// before the body does.
func TestBodyMayTakeLongerThanAttemptTimeout(t *testing.T) {
	for _, status := range []int{200, 404, 503} {
		bubble(t, fmt.Sprint(status), func(t *testing.T) {
			resp := send(t, &retryhttp.Transport{Policy: retry.Policy{AttemptTimeout: time.Second}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				time.Sleep(time.Second - 1)
				return responseWith(status, &slowBody{ctx: req.Context(), times: []time.Duration{time.Hour}, last: io.EOF}), nil
			})})
			time.Sleep(time.Hour)
			assert.Equal(t, "x", textOf(t, resp))
		})
	}
}

func TestContextEnds(t *testing.T) {
	why := errors.New("shutting down")
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute)}
	sorry := &body{Reader: strings.NewReader("sorry")}
	for _, tt := range []struct {
		name     string
		base     func(end func()) *scripted
		attempts int
		took     time.Duration
		status   bool // the error tells what the last attempt failed with
	}{
		{"before the first attempt", func(end func()) *scripted { end(); return script(200) }, 0, 0, false},
		{"in the wait", func(end func()) *scripted { time.AfterFunc(time.Second, end); return script(503) }, 1, time.Second, true},
		{"in the wait after a timeout", func(end func()) *scripted {
			time.AfterFunc(time.Second, end)
			return script(os.ErrDeadlineExceeded)
		}, 1, time.Second, false},
		{"while an attempt fails", func(end func()) *scripted {
			return script(func(*http.Request) (*http.Response, error) { end(); return responseWith(503, sorry), nil })
		}, 1, 0, true},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			base := tt.base(func() { cancel(why) })
			req, data := request(t, "PUT").WithContext(ctx), &body{Reader: strings.NewReader("data")}
			req.Body, req.GetBody = data, func() (io.ReadCloser, error) { return nil, errors.New("not to be sent again") }
			start := time.Now()
			_, err := (&retryhttp.Transport{Base: base, Policy: policy}).RoundTrip(req)
			assert.Equal(t, tt.took, time.Since(start))
			assertCanceled(t, err, why, tt.attempts)
			assert.Len(t, base.sent, tt.attempts)
			assert.True(t, data.closed, "a RoundTripper closes the body, on errors too")
			var status *retryhttp.StatusError
			assert.Equal(t, tt.status, errors.As(err, &status))
		})
	}
	assert.True(t, sorry.closed)

	bubble(t, "while an attempt succeeds", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := (&retryhttp.Transport{Policy: policy, Base: roundTrip(func(*http.Request) (*http.Response, error) {
			cancel(why)
			return response(200), nil
		})}).RoundTrip(request(t, "GET").WithContext(ctx))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
	})

	bubble(t, "after the decision", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := &body{Reader: strings.NewReader("sorry")}
		tr := &retryhttp.Transport{Base: script(responseWith(503, b)), Policy: retry.Policy{OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.CallFinished {
				cancel(why)
			}
		}}}
		_, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
		assert.EqualError(t, err, "retry: gave up after 1 attempt (no limit is set, so there is no retry): "+
			"retryhttp: GET http://example.test/: 503 Service Unavailable (and then shutting down)")
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.ErrorIs(t, err, why)
		assert.True(t, b.closed, "it could not be read")
	})

	for name, first := range map[string]any{
		"by its deadline, in an attempt": func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		},
		"by its deadline, in the wait after an error that says it is no timeout": &net.OpError{
			Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
		},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := (&retryhttp.Transport{Base: script(first), Policy: policy}).RoundTrip(request(t, "GET").WithContext(ctx))
			assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.True(t, os.IsTimeout(err))
		})
	}
}

func assertCanceled(t *testing.T, err, cause error, attempts int) {
	t.Helper()
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, retry.ReasonCanceled, e.Reason)
	assert.Equal(t, attempts, e.Attempts)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, cause)
	assert.False(t, os.IsTimeout(err))
}

// http.Client wraps the Transport's errors in a *url.Error, which takes its
// Timeout from them.
func TestErrorsThroughClient(t *testing.T) {
	boom := errors.New("boom")
	twice := retry.Policy{MaxAttempts: 2}
	for name, tt := range map[string]struct {
		answer  any
		policy  retry.Policy
		reason  retry.Reason
		timeout bool
		text    string
	}{
		"transport error": {boom, twice, retry.ReasonExhausted, false, "retry: attempts exhausted after 2 attempts: boom"},
		"permanent": {&url.Error{Op: "parse", URL: ":", Err: boom}, twice, retry.ReasonPermanent, false,
			`retry: permanent error after 1 attempt: parse ":": boom`},
		"invalid policy": {503, retry.Policy{MaxAttempts: -2}, retry.ReasonInvalid, false,
			"retry: invalid policy after 1 attempt (MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited): " +
				"retryhttp: GET http://example.test/: 503 Service Unavailable"},
		"timeout": {os.ErrDeadlineExceeded, twice, retry.ReasonExhausted, true, "retry: attempts exhausted after 2 attempts: i/o timeout"},
	} {
		bubble(t, name, func(t *testing.T) {
			client := &http.Client{Transport: &retryhttp.Transport{Base: script(tt.answer), Policy: tt.policy}}
			_, err := client.Get("http://example.test/")
			assert.EqualError(t, err, `Get "http://example.test/": `+tt.text)
			var outer *url.Error
			require.ErrorAs(t, err, &outer)
			assert.Equal(t, tt.timeout, outer.Timeout())
			assert.Equal(t, tt.timeout, errors.As(err, new(net.Error)) && outer.Temporary())
			assert.Equal(t, tt.reason, retry.ReasonOf(err))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.reason, e.Reason)
		})
	}
}

func TestGetBodyFails(t *testing.T) {
	gone := errors.New("the file is gone")
	for text, failure := range map[string]error{"the file is gone": gone, "it returned neither a body nor an error": nil} {
		bubble(t, text, func(t *testing.T) {
			req := request(t, "PUT")
			rewindable(req, "data")
			req.GetBody = func() (io.ReadCloser, error) { return nil, failure }
			base := script(503, 200)
			_, err := (&retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 5}}).RoundTrip(req)
			assert.EqualError(t, err, "retry: permanent error after 2 attempts: retryhttp: GetBody: "+text+
				" (the attempt before: retryhttp: PUT http://example.test/: 503 Service Unavailable)")
			assert.Len(t, base.sent, 1)
			assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
			assert.Equal(t, failure == gone, errors.Is(err, gone))
			assert.ErrorAs(t, err, new(*retryhttp.StatusError))
		})
	}
}

func TestRoundTrippersThatBreakTheContract(t *testing.T) {
	boom := errors.New("boom")

	bubble(t, "a response without a body and an error", func(t *testing.T) {
		tr := &retryhttp.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 503}, boom })}
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.ErrorIs(t, err, boom)
	})

	bubble(t, "neither", func(t *testing.T) {
		base := script(func(*http.Request) (*http.Response, error) { return nil, nil })
		_, err := (&retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: base}).RoundTrip(request(t, "GET"))
		assert.EqualError(t, err, "retry: permanent error after 1 attempt: "+
			"retryhttp: the RoundTripper *retryhttp_test.scripted returned neither a response nor an error")
		assert.Len(t, base.sent, 1)
		hopes := func(_ *http.Request, _ *http.Response, err error) error { return fmt.Errorf("%v", err) } // %v: not permanent
		_, err = (&retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: base, Check: hopes}).RoundTrip(request(t, "POST"))
		assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err), "it may have been sent")
		assert.Len(t, base.sent, 2)
	})
}

// A body that is not there, and http.NoBody, stay what they are, and hold nothing:
// neither in the last response nor in one before.
func TestResponseWithoutABody(t *testing.T) {
	for _, none := range []io.ReadCloser{nil, http.NoBody} {
		answer := func(status int) any {
			return func(req *http.Request) (*http.Response, error) {
				_ = req.Context().Done() // as net/http does
				return &http.Response{StatusCode: status, Body: none}, nil
			}
		}
		base := script(answer(503), answer(503), answer(200))
		resp := send(t, &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3}, Base: base})
		assert.Equal(t, 200, resp.StatusCode)
		assert.True(t, resp.Body == none, "http.Client handles that itself")
		for _, req := range base.sent {
			assert.Error(t, req.Context().Err(), "no body to close could free it")
		}
	}
}

// A request with GetBody and no Body, as those of go-retryablehttp, sends what GetBody
// returns in every attempt. One with a Trailer is sent once, and the error says so.
func TestWhereTheBodyComesFrom(t *testing.T) {
	var got []string
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		data, err := io.ReadAll(req.Body)
		got = append(got, string(data))
		return response(503), errors.Join(err, req.Body.Close())
	})
	rt := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3}, Base: base}
	req := request(t, "PUT")
	rewindable(req, "data")
	req.Body = nil
	send(t, rt, req)
	assert.Equal(t, []string{"data", "data", "data"}, got)

	got = nil
	req.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
	_, err := rt.RoundTrip(req)
	assert.ErrorContains(t, err, "retryhttp: GetBody: gone")
	assert.Empty(t, got)

	rewindable(req, "data")
	req.Trailer = http.Header{"Digest": nil}
	resp := send(t, rt, req)
	assert.ErrorContains(t, retryhttp.ErrorOf(resp), "not retryable after 1 attempt (the request has a Trailer, so it is sent once)")
	assert.Equal(t, []string{"data"}, got)
}

// A Transport without Budgets has one for each scheme and host, and the error says so.
// NoBudgets, a Budget of the policy, and one of the context go before it.
func TestBudgetsOfTargets(t *testing.T) {
	const hint = ", for http://db:8080; see retryhttp.Transport.Budgets)"
	policy := retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}
	own := policy
	own.Budget = &retry.Budget{Size: 1}
	for _, row := range []struct {
		name    string
		policy  retry.Policy
		budgets func(*http.Request) *retry.Budget
		lent    *retry.Budget // of the context
		sent    int           // by five requests
		text    string        // of the last error
	}{
		{"nothing is set", policy, nil, nil, 15, "retry budget exhausted after 1 attempt (a retry would have waited 1ms" + hint},
		{"NoBudgets", policy, retryhttp.NoBudgets, nil, 20, "attempts exhausted after 4 attempts"},
		{"one of the policy", own, nil, nil, 6, "retry budget exhausted after 1 attempt (a retry would have waited 1ms): "},
		{"one of Budgets", policy, func(*http.Request) *retry.Budget { return own.Budget }, nil, 5, "(a retry would have waited 1ms): "},
		{"one of the context too", policy, nil, &retry.Budget{Size: 3}, 8, "(a retry would have waited 1ms): "},
	} {
		bubble(t, row.name, func(t *testing.T) {
			sent := 0
			rt := &retryhttp.Transport{Policy: row.policy, Budgets: row.budgets, Base: roundTrip(func(*http.Request) (*http.Response, error) {
				sent++
				return response(503), nil
			})}
			lent := row.lent
			ask := func(url string) error {
				req, err := http.NewRequestWithContext(retry.WithBudget(t.Context(), lent), "GET", url, nil)
				require.NoError(t, err)
				return retryhttp.ErrorOf(send(t, rt, req))
			}
			var err error
			for range 5 {
				err = ask("http://db:8080/rows")
			}
			assert.Equal(t, row.sent, sent)
			assert.ErrorContains(t, err, row.text)
			if row.name == "nothing is set" {
				assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(ask("http://DB.:8080/")), "the same target")
				assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(ask("https://db:8080/")), "another scheme")
				assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(ask("http://db:8081/")), "another port")
				lent = &retry.Budget{}
				assert.ErrorContains(t, ask("http://db:8080/"), "would have waited 1ms): ", "the context's is asked first")
			}
		})
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
		"Prepare": func(tr *retryhttp.Transport) {
			note := tr.Prepare
			tr.Prepare = func(req *http.Request, attempt int, last error) error {
				_ = note(req, attempt, last)
				panic(boom)
			}
		},
		"Check": func(tr *retryhttp.Transport) {
			tr.Check = func(*http.Request, *http.Response, error) error { panic(boom) }
		},
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
			busy := asksToWait(503, 1)
			busy.Body = b
			base := script(busy)
			var ctx context.Context
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: base, Prepare: func(req *http.Request, _ int, _ error) error {
				ctx = req.Context()
				return nil
			}}
			edit(tr)
			req := request(t, "PUT")
			req.Body, req.GetBody = data, func() (io.ReadCloser, error) { return data, nil }
			assert.PanicsWithValue(t, boom, func() { _, _ = tr.RoundTrip(req) })
			assert.True(t, ctx == nil || ctx.Err() != nil)
			assert.True(t, data.closed)
			assert.Equal(t, len(base.sent) > 0, b.closed)
		})
	}
}

// Check gets the request that was sent, and the response has the caller's. If a
// Base sets another request in its response, as one that follows redirects does,
// the Transport keeps it.
func TestRequestOfAResponse(t *testing.T) {
	req, another := request(t, "GET"), request(t, "GET")
	var got []*http.Request
	base := script(errors.New("boom"), 200)
	tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}
	tr.Check = func(r *http.Request, resp *http.Response, err error) error {
		got = append(got, r)
		assert.True(t, (resp == nil) != (err == nil), "either a response or an error")
		return retryhttp.Check(r, resp, err)
	}
	resp := send(t, tr, req)
	require.Len(t, got, 2)
	assert.Same(t, base.sent[0], got[0])
	assert.Same(t, base.sent[1], got[1])
	assert.Same(t, req, resp.Request)

	for _, set := range []func(*http.Request) *http.Request{
		func(sent *http.Request) *http.Request { return sent },
		func(*http.Request) *http.Request { return another },
	} {
		tr.Base = script(func(sent *http.Request) (*http.Response, error) {
			answer := response(200)
			answer.Request = set(sent)
			return answer, nil
		})
		assert.Same(t, set(req), send(t, tr, req).Request)
	}
}

// If a method of an error from Base panics, the request ends and not the
// program, wherever that method is called.
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
			assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
			assert.False(t, os.IsTimeout(err))
			assert.False(t, retrynet.Transient(err))
			assert.Len(t, base.sent, 1)
		})
	}

	t.Run("Error, wrapped and joined", func(t *testing.T) {
		base := script(fmt.Errorf("dial: %w", errors.Join(errBroke, panicker{"Error"})))
		_, err := (&http.Client{Transport: &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 2}}}).Get("https://example.test/")
		assert.ErrorIs(t, err, errBroke)
		assert.Len(t, base.sent, 2)
	})
}

// A panicker is an error with one method that panics.
type panicker struct{ in string }

func (e panicker) method(name string) {
	if e.in == name {
		panic("bug in " + name)
	}
}

func (e panicker) Error() string             { e.method("Error"); return "fine" }
func (e panicker) Timeout() bool             { e.method("Timeout"); return false }
func (e panicker) Is(error) bool             { e.method("Is"); return false }
func (e panicker) As(any) bool               { e.method("As"); return false }
func (e panicker) Unwrap() error             { e.method("Unwrap"); return nil }
func (e panicker) RetryAfter() time.Duration { e.method("RetryAfter"); return 0 }

func TestCloseIdleConnections(t *testing.T) {
	base := &closer{}
	(&http.Client{Transport: &retryhttp.Transport{Base: base}}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	(&retryhttp.Transport{Base: script(200)}).CloseIdleConnections() // has none to close
}

type closer struct {
	scripted
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }

// bubble runs a subtest in virtual time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// request returns a request without a body.
func request(t *testing.T, method string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), method, "http://example.test/", nil)
	require.NoError(t, err)
	return req
}

// rewindable gives a request a body that can be sent again.
func rewindable(req *http.Request, data string) {
	req.ContentLength = int64(len(data))
	req.Body = io.NopCloser(strings.NewReader(data))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }
}

// send sends a GET, or the request that is given, which gets a response.
func send(t *testing.T, rt http.RoundTripper, reqs ...*http.Request) (resp *http.Response) {
	t.Helper()
	if len(reqs) == 0 {
		reqs = []*http.Request{request(t, "GET")}
	}
	resp, err := rt.RoundTrip(reqs[0])
	require.NoError(t, err)
	return resp
}

// textOf reads the body of a response.
func textOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

func response(status int) *http.Response { return textResponse(status, "") }

func textResponse(status int, text string) *http.Response {
	resp := responseWith(status, io.NopCloser(strings.NewReader(text)))
	resp.ContentLength = int64(len(text))
	return resp
}

// responseWith returns a response whose length is not known.
func responseWith(status int, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"X-Status": {fmt.Sprint(status)}}, Body: body, ContentLength: -1}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	return f(req)
}

// script is a RoundTripper that takes one step for each request and repeats the
// last one: a status, a response, an error, or a function.
func script(steps ...any) *scripted { return &scripted{steps: steps} }

type scripted struct {
	steps []any
	sent  []*http.Request
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	step := s.steps[min(len(s.sent), len(s.steps)-1)]
	s.sent = append(s.sent, req)
	return roundTrip(func(*http.Request) (*http.Response, error) {
		switch step := step.(type) {
		case int:
			return response(step), nil
		case *http.Response:
			return step, nil
		case func(*http.Request) (*http.Response, error):
			return step(req)
		default:
			return nil, step.(error)
		}
	}).RoundTrip(req)
}

// events is an OnEvent that records the events. It is safe for concurrent use.
type events struct {
	mu  sync.Mutex
	all []retry.Event
}

func (s *events) add(_ context.Context, e retry.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e)
}

// of returns the events of one kind.
func (s *events) of(kind retry.EventKind) (found []retry.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// stop returns the one CallFinished event, or a zero one.
func (s *events) stop() retry.Event {
	if found := s.of(retry.CallFinished); len(found) == 1 {
		return found[0]
	}
	return retry.Event{}
}

// body records what was done with it.
type body struct {
	io.Reader
	read           int
	closed         bool
	onEOF, onClose func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += n
	if err == io.EOF && b.onEOF != nil {
		b.onEOF()
		b.onEOF = nil
	}
	return n, err
}

func (b *body) Close() error {
	b.closed = true
	if b.onClose != nil {
		b.onClose()
	}
	return nil
}

// funcs is a body of functions; a nil one does nothing.
type funcs struct {
	read  func([]byte) (int, error)
	close func() error
}

func (f funcs) Read(p []byte) (int, error) {
	if f.read == nil {
		return 0, io.EOF
	}
	return f.read(p)
}

func (f funcs) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// endless is a reader that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// stalled is a reader that blocks until its context ends.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
