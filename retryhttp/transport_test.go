package retryhttp_test

import (
	"bytes"
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

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		tr := &retryhttp.Transport{
			Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				at = append(at, time.Since(start))
				return response(503), nil
			}),
			Policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 3 * time.Second},
		}
		resp, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second}, at)
	})
}

func TestWhatIsSentAgain(t *testing.T) {
	boom := errors.New("boom")
	retries := retry.Policy{MaxAttempts: 3}
	for _, tt := range []struct {
		name   string
		method string
		edit   func(*http.Request, *retryhttp.Transport)
		first  any // the answer to the first attempt; the next one is 200
		sent   int
		reason retry.Reason
	}{
		{"200", "GET", nil, 200, 1, retry.ReasonSuccess},
		{"304", "GET", nil, 304, 1, retry.ReasonSuccess},
		{"503", "GET", nil, 503, 2, retry.ReasonSuccess},
		{"an error", "GET", nil, boom, 2, retry.ReasonSuccess},
		{"404", "GET", nil, 404, 1, retry.ReasonPermanent},
		{"501", "GET", nil, 501, 1, retry.ReasonPermanent},
		{"505", "GET", nil, 505, 1, retry.ReasonPermanent},
		{"PUT 503", "PUT", nil, 503, 2, retry.ReasonSuccess},
		{"DELETE, an error", "DELETE", nil, boom, 2, retry.ReasonSuccess},

		{"POST 503", "POST", nil, 503, 1, retry.ReasonNonRetryable},
		{"POST 404", "POST", nil, 404, 1, retry.ReasonPermanent},
		{"POST, an error", "POST", nil, boom, 1, retry.ReasonNonRetryable},
		{"POST with a key", "POST", header("Idempotency-Key", "k"), 503, 2, retry.ReasonSuccess},
		{"POST with a key that is not sent", "POST", header("Idempotency-Key"), 503, 2, retry.ReasonSuccess},
		{"POST, marked as repeatable", "POST", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Idempotent = func(*http.Request) bool { return true }
		}, 503, 2, retry.ReasonSuccess},
		{"GET, marked as not repeatable", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Idempotent = func(*http.Request) bool { return false }
		}, 503, 1, retry.ReasonNonRetryable},

		{"a body with GetBody", "PUT", func(req *http.Request, _ *retryhttp.Transport) { rewindable(req, "data") }, 503, 2, retry.ReasonSuccess},
		{"a body without", "PUT", func(req *http.Request, _ *retryhttp.Transport) { req.Body = io.NopCloser(strings.NewReader("data")) }, 503, 1, retry.ReasonNonRetryable},
		{"a body without GetBody, marked as repeatable", "PUT", func(req *http.Request, tr *retryhttp.Transport) {
			req.Body = io.NopCloser(strings.NewReader("data"))
			tr.Idempotent = func(*http.Request) bool { return true }
		}, 503, 1, retry.ReasonNonRetryable},
		{"NoBody", "PUT", func(req *http.Request, _ *retryhttp.Transport) { req.Body, req.GetBody = http.NoBody, nil }, 503, 2, retry.ReasonSuccess},
		{"nil body", "PUT", func(req *http.Request, _ *retryhttp.Transport) { req.Body, req.GetBody = nil, nil }, 503, 2, retry.ReasonSuccess},

		{"RetryIf rejects a status", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Policy.RetryIf = func(err error) bool {
				var status *retryhttp.StatusError
				return errors.As(err, &status) && status.HTTPStatusCode() == 429 && status.Header.Get("X-Status") == "429"
			}
		}, 503, 1, retry.ReasonRejected},
		{"RetryIf accepts a status", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Policy.RetryIf = func(err error) bool {
				var status *retryhttp.StatusError
				return errors.As(err, &status) && status.HTTPStatusCode() == 429 && status.Header.Get("X-Status") == "429"
			}
		}, 429, 2, retry.ReasonSuccess},
		{"RetryIf sees the error of Base", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Policy.RetryIf = func(err error) bool { return err != boom }
		}, boom, 1, retry.ReasonRejected},

		{"Check retries another status", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Check = func(_ *http.Request, resp *http.Response, err error) error {
				if err == nil && resp.StatusCode == 425 {
					return retryhttp.NewStatusError(resp)
				}
				return retryhttp.Check(nil, resp, err)
			}
		}, 425, 2, retry.ReasonSuccess},
		{"Check says permanent", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Check = func(_ *http.Request, resp *http.Response, _ error) error { return retry.Permanent(boom) }
		}, 200, 1, retry.ReasonPermanent},
		{"Check returns nil", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Check = func(*http.Request, *http.Response, error) error { return nil }
		}, 503, 1, retry.ReasonSuccess},
		{"Check returns nil for an error", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Check = func(*http.Request, *http.Response, error) error { return nil }
		}, boom, 1, retry.ReasonPermanent},

		{"the zero Policy", "GET", func(_ *http.Request, tr *retryhttp.Transport) { tr.Policy = retry.Policy{} }, 503, 1, retry.ReasonExhausted},
		{"no budget", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Policy.Budget = &retry.Budget{Size: 1}
			tr.Policy.Budget.Take()
		}, 503, 1, retry.ReasonBudget},
		{"MaxElapsed", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Policy.Backoff, tr.Policy.MaxElapsed = retry.Fixed(time.Minute), time.Second
		}, 503, 1, retry.ReasonElapsed},
		{"Classify", "GET", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Policy.Classify = func(error) *retry.Class { return &retry.Class{Policy: &retry.Policy{NonRetryable: true}} }
		}, 503, 1, retry.ReasonNonRetryable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen events
			base := script(tt.first, 200)
			tr := &retryhttp.Transport{Base: base, Policy: retries}
			req := request(t, tt.method)
			if tt.edit != nil {
				tt.edit(req, tr)
			}
			tr.Policy.OnEvent = seen.add
			resp, err := tr.RoundTrip(req)

			assert.Equal(t, tt.sent, len(base.sent))
			assert.Equal(t, tt.reason, seen.stop().Reason)
			assert.Equal(t, tt.sent, seen.stop().Attempt, "this is where the caller of a request that succeeds learns how often it was sent")
			switch {
			case tt.sent == 2:
				require.NoError(t, err)
				assert.Equal(t, 200, resp.StatusCode)
			case tt.first == boom:
				require.ErrorIs(t, err, boom)
				assert.Equal(t, tt.reason, retry.ReasonOf(err))
			default:
				require.NoError(t, err)
				assert.Equal(t, tt.first, resp.StatusCode)
			}
		})
	}
}

// A request that is not sent again says why, and what to write. It goes before
// what the policy allows, and marks nothing as permanent.
func TestWhyARequestIsNotSentAgain(t *testing.T) {
	boom := errors.New("boom")
	once := func(req *http.Request, _ *retryhttp.Transport) { req.Body = io.NopCloser(strings.NewReader("data")) }
	const (
		processed = "; see retryhttp.Transport.Idempotent"
		noGetBody = "the request has no GetBody, so its body cannot be sent again; see retryhttp.SetBody"
	)
	for _, tt := range []struct {
		name   string
		method string
		edit   func(*http.Request, *retryhttp.Transport)
		policy retry.Policy
		cause  string
	}{
		{"POST", "POST", nil, retry.Default(), "the server may have processed this POST" + processed},
		{"POST, a body that can be sent again", "POST", func(req *http.Request, _ *retryhttp.Transport) { rewindable(req, "data") }, retry.Default(), "the server may have processed this POST" + processed},
		{"PATCH", "PATCH", nil, retry.Default(), "the server may have processed this PATCH" + processed},
		{"no method, which is GET", "", func(_ *http.Request, tr *retryhttp.Transport) {
			tr.Idempotent = func(*http.Request) bool { return false }
		}, retry.Default(), "the server may have processed this GET" + processed},
		{"PUT, a body without GetBody", "PUT", once, retry.Default(), noGetBody},
		{"POST, a body without GetBody", "POST", once, retry.Default(), noGetBody},
		{"in the last attempt", "POST", nil, retry.Policy{}, "the server may have processed this POST" + processed},
		{"with a class", "PUT", once, retry.Policy{MaxAttempts: 3, Classify: func(error) *retry.Class {
			return &retry.Class{Name: "x", Policy: &retry.Policy{MaxAttempts: 2}}
		}}, noGetBody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, answer := range map[string]any{"an error": boom, "a response": 503} {
				var seen events
				p := tt.policy
				p.OnEvent = seen.add
				base := script(answer)
				req := request(t, "GET")
				req.Method = tt.method
				tr := &retryhttp.Transport{Base: base, Policy: p}
				if tt.edit != nil {
					tt.edit(req, tr)
				}
				_, err := tr.RoundTrip(req)
				assert.Len(t, base.sent, 1, name)
				stop := seen.stop()
				assert.Equal(t, retry.ReasonNonRetryable, stop.Reason, name)
				assert.EqualError(t, stop.Cause, tt.cause, name)
				assert.Empty(t, stop.Class, name)
				assert.False(t, retry.IsPermanent(stop.Err), name)
				if answer == boom {
					assert.EqualError(t, err, "retry: not retryable after 1 attempt ("+tt.cause+"): boom")
					assert.Same(t, boom, retry.LastError(err))
					assert.False(t, retry.IsPermanent(err))
				} else {
					assert.NoError(t, err)
				}
			}
		})
	}
}

// When the Transport gives up, for any reason, the caller gets the last
// response with its body unread, and a context in which the body can be read.
func TestLastResponseIsUnread(t *testing.T) {
	for name, edit := range map[string]func(*http.Request, *retry.Policy){
		"attempts_exhausted":   func(_ *http.Request, p *retry.Policy) {},
		"not_retryable":        func(_ *http.Request, p *retry.Policy) { p.NonRetryable = true },
		"rejected":             func(_ *http.Request, p *retry.Policy) { p.RetryIf = func(error) bool { return false } },
		"retry_after_too_long": func(_ *http.Request, p *retry.Policy) { p.MaxRetryAfter = time.Second },
		"elapsed":              func(_ *http.Request, p *retry.Policy) { p.MaxElapsed = time.Second },
		"deadline": func(req *http.Request, _ *retry.Policy) {
			ctx, cancel := context.WithTimeout(req.Context(), time.Second)
			t.Cleanup(cancel)
			*req = *req.WithContext(ctx)
		},
		"budget_exhausted": func(_ *http.Request, p *retry.Policy) { p.Budget = &retry.Budget{Size: 1}; p.Budget.Take() },
		"permanent_error":  func(req *http.Request, _ *retry.Policy) { req.Method = "TEAPOT" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen events
				b := &body{Reader: strings.NewReader("the reason")}
				resp503 := response(503)
				resp503.Header.Set("Retry-After", "30")
				resp503.Body = b
				var ctx context.Context
				tr := &retryhttp.Transport{
					Base: roundTrip(func(req *http.Request) (*http.Response, error) {
						if ctx = req.Context(); b.read > 0 {
							b = &body{Reader: strings.NewReader("the reason")}
							resp503.Body = b
						}
						return resp503, nil
					}),
					Policy: retry.Policy{MaxAttempts: 2},
					Check: func(req *http.Request, resp *http.Response, err error) error {
						if req.Method == "TEAPOT" {
							return retry.Permanent(retryhttp.NewStatusError(resp))
						}
						return retryhttp.Check(req, resp, err)
					},
					Idempotent: func(*http.Request) bool { return true },
				}
				req := request(t, "GET")
				edit(req, &tr.Policy)
				tr.Policy.OnEvent = seen.add

				resp, err := tr.RoundTrip(req)
				require.NoError(t, err)
				assert.Equal(t, name, string(seen.stop().Reason))
				assert.Zero(t, b.read, "bytes of the body read before the caller has it")
				assert.False(t, b.closed)
				assert.NoError(t, ctx.Err())
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, "the reason", string(text))
				assert.Error(t, ctx.Err(), "the end of the body frees the attempt's context")
				require.NoError(t, resp.Body.Close())
				assert.True(t, b.closed)
			})
		})
	}
}

// The order is the decision, the event that announces the wait, the body, and
// the wait.
func TestDecideDrainSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		start := time.Now()
		say := func(format string, args ...any) {
			log = append(log, fmt.Sprintf("%v ", time.Since(start))+fmt.Sprintf(format, args...))
		}
		var ctx context.Context
		tr := &retryhttp.Transport{
			Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				ctx = req.Context()
				say("send")
				resp := response(503)
				resp.Body = &body{Reader: strings.NewReader("sorry"), onEOF: func() { say("read to the end") }, onClose: func() { say("close") }}
				return resp, nil
			}),
			Policy: retry.Policy{
				MaxAttempts: 2, Backoff: retry.Fixed(time.Minute),
				RetryIf: func(error) bool { say("decide"); return true },
				OnEvent: func(_ context.Context, e retry.Event) {
					say("%v, context ended: %v", e.Kind, ctx != nil && ctx.Err() != nil)
				},
			},
		}
		resp, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, []string{
			"0s attempt_started, context ended: false",
			"0s send",
			"0s attempt_finished, context ended: false",
			"0s decide",
			"0s retry_scheduled, context ended: false",
			"0s read to the end",
			"0s close",
			"1m0s attempt_started, context ended: true",
			"1m0s send",
			"1m0s attempt_finished, context ended: false",
			"1m0s decide",
			"1m0s stopped, context ended: false",
			"1m0s close",
		}, log)
	})
}

// Discarding a body is bounded, in bytes and in time.
func TestDrainIsBounded(t *testing.T) {
	const kb64, ms100 = 64 << 10, 100 * time.Millisecond
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
		{"stalled at once", -1, func(ctx context.Context) io.Reader { return stalled{ctx} }, 0, ms100},
		{"stalled after a while", -1, func(ctx context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("sor"), stalled{ctx})
		}, 3, ms100},
		{"broken", -1, func(context.Context) io.Reader { return io.MultiReader(strings.NewReader("sor"), broken{}) }, 3, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var first *body
				var again time.Duration
				start := time.Now()
				tr := &retryhttp.Transport{
					Base: roundTrip(func(req *http.Request) (*http.Response, error) {
						if first != nil {
							again = time.Since(start)
							return response(200), nil
						}
						first = &body{Reader: tt.body(req.Context())}
						resp := response(503)
						resp.ContentLength, resp.Body = tt.length, first
						return resp, nil
					}),
					Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second)},
				}
				resp, err := tr.RoundTrip(request(t, "GET"))
				require.NoError(t, err)
				assert.Equal(t, 200, resp.StatusCode)
				assert.Equal(t, tt.read, first.read)
				assert.True(t, first.closed)
				assert.Equal(t, time.Second, again, "it is part of the wait")
			})
		})
	}
}

// A discarded body is closed once, even if the time for reading it has run out.
func TestDiscardedBodyIsClosedOnce(t *testing.T) {
	for name, r := range map[string]func(context.Context) io.Reader{
		"read":    func(context.Context) io.Reader { return strings.NewReader("sorry") },
		"stalled": func(ctx context.Context) io.Reader { return stalled{ctx} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed := 0
				tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
					if closed > 0 {
						return response(200), nil
					}
					failed := response(503)
					failed.ContentLength = -1
					failed.Body = &body{Reader: r(req.Context()), onClose: func() { closed++ }}
					return failed, nil
				})}
				_, err := tr.RoundTrip(request(t, "GET"))
				require.NoError(t, err)
				assert.Equal(t, 1, closed)
			})
		})
	}
}

// The time for reading a discarded body is part of the wait.
func TestDrainIsPartOfTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		start := time.Now()
		tr := &retryhttp.Transport{
			Policy: retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), MaxElapsed: time.Second, OnEvent: seen.add},
			Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				if len(seen.of(retry.RetryScheduled)) > 0 {
					return response(200), nil
				}
				failed := response(503)
				failed.ContentLength, failed.Body = -1, io.NopCloser(stalled{req.Context()})
				return failed, nil
			}),
		}
		_, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Equal(t, start.Add(time.Second), seen.of(retry.RetryScheduled)[0].Due)
		assert.Equal(t, start.Add(time.Second), seen.of(retry.AttemptStarted)[1].Time)
	})
}

func TestRetryAfterIsWaitedFor(t *testing.T) {
	for _, tt := range []struct {
		name       string
		retryAfter []string
		date       string
		policy     retry.Policy
		delay      time.Duration
		reason     retry.Reason
	}{
		{"seconds", []string{"30"}, "", retry.Policy{}, 30 * time.Second, retry.ReasonSuccess},
		{"a date and the server's clock", []string{"Sat, 01 Jan 2000 09:00:30 GMT"}, "Sat, 01 Jan 2000 09:00:00 GMT", retry.Policy{}, 30 * time.Second, retry.ReasonSuccess},
		{"none", nil, "", retry.Policy{}, time.Second, retry.ReasonSuccess},
		{"malformed", []string{"soon"}, "", retry.Policy{}, time.Second, retry.ReasonSuccess},
		{"negative", []string{"-30"}, "", retry.Policy{}, time.Second, retry.ReasonSuccess},
		{"passed", []string{"Fri, 31 Dec 1999 00:00:00 GMT"}, "", retry.Policy{}, time.Second, retry.ReasonSuccess},
		{"shorter than the backoff", []string{"0"}, "", retry.Policy{}, time.Second, retry.ReasonSuccess},
		{"longer than MaxDelay", []string{"30"}, "", retry.Policy{MaxDelay: 2 * time.Second}, 30 * time.Second, retry.ReasonSuccess},
		{"longer than a minute", []string{"61"}, "", retry.Policy{}, 0, retry.ReasonRetryAfter},
		{"as long as MaxRetryAfter", []string{"3600"}, "", retry.Policy{MaxRetryAfter: time.Hour}, time.Hour, retry.ReasonSuccess},
		{"an epoch as seconds", []string{"1743421694"}, "", retry.Policy{}, 0, retry.ReasonRetryAfter},
		{"a number that overflows to a negative duration in other libraries", []string{"9223372037"}, "", retry.Policy{}, 0, retry.ReasonRetryAfter},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen events
				first := response(503)
				first.Header["Retry-After"] = tt.retryAfter
				if tt.date != "" {
					first.Header.Set("Date", tt.date)
				}
				p := tt.policy
				p.MaxAttempts, p.Backoff, p.OnEvent = 2, retry.Fixed(time.Second), seen.add
				start := time.Now()
				resp, err := (&retryhttp.Transport{Base: script(first, 200), Policy: p}).RoundTrip(request(t, "GET"))
				require.NoError(t, err)
				assert.Equal(t, tt.delay, time.Since(start))
				assert.Equal(t, tt.reason, seen.stop().Reason)
				if tt.reason == retry.ReasonRetryAfter {
					assert.Same(t, first, resp)
				}
			})
		})
	}
}

func TestAttemptTimeout(t *testing.T) {
	const timeout = 50 * time.Millisecond
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), AttemptTimeout: timeout}

	t.Run("every attempt is cut off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start, calls := time.Now(), 0
			tr := &retryhttp.Transport{Policy: policy, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				calls++
				<-req.Context().Done()
				return nil, req.Context().Err()
			})}
			_, err := tr.RoundTrip(request(t, "GET"))
			assert.EqualError(t, err, "retry: attempts exhausted after 3 attempts (2s waited): retryhttp: no response within AttemptTimeout (50ms)")
			assert.Equal(t, 3, calls)
			assert.Equal(t, 3*timeout+2*time.Second, time.Since(start))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.True(t, os.IsTimeout(err))
		})
	})

	t.Run("Check sees a timeout, once, whatever Base says", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var seen []string
			tr := &retryhttp.Transport{Policy: policy, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, errors.New("http: something was canceled")
			}), Check: func(_ *http.Request, resp *http.Response, err error) error {
				seen = append(seen, err.Error())
				return retry.Permanent(err)
			}}
			_, err := tr.RoundTrip(request(t, "GET"))
			assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
			assert.Equal(t, []string{"retryhttp: no response within AttemptTimeout (50ms)"}, seen)
		})
	})

	t.Run("the body of the response may take longer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, status := range []int{200, 404, 503} {
				var ctx context.Context
				tr := &retryhttp.Transport{Policy: policy, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
					ctx = req.Context()
					time.Sleep(timeout - 1)
					resp := response(status)
					resp.Body = &body{Reader: slow{ctx, strings.NewReader("a long story")}}
					return resp, nil
				})}
				resp, err := tr.RoundTrip(request(t, "GET"))
				require.NoError(t, err)
				time.Sleep(time.Hour)
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, "a long story", string(text))
				assert.Error(t, ctx.Err(), "a body that is read to its end frees the context")

				resp, err = tr.RoundTrip(request(t, "GET"))
				require.NoError(t, err)
				assert.NoError(t, ctx.Err())
				require.NoError(t, resp.Body.Close())
				assert.Error(t, ctx.Err(), "a body that is closed frees it too")
			}
		})
	})

	t.Run("a response that comes too late does not count", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			late := &body{Reader: strings.NewReader("late")}
			n := 0
			tr := &retryhttp.Transport{Policy: policy, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				if n++; n == 1 { // an attempt that ignores its context
					time.Sleep(timeout + 1)
					resp := response(200)
					resp.Body = late
					return resp, nil
				}
				return response(200), nil
			})}
			resp, err := tr.RoundTrip(request(t, "GET"))
			require.NoError(t, err)
			assert.Equal(t, 200, resp.StatusCode)
			assert.Equal(t, 2, n)
			assert.True(t, late.closed)
		})
	})

	t.Run("a Check that reads a stalled body is cut off too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			tr := &retryhttp.Transport{Policy: policy, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				resp := response(200)
				resp.Body = &body{Reader: stalled{req.Context()}}
				return resp, nil
			}), Check: func(_ *http.Request, resp *http.Response, err error) error {
				if err != nil {
					return err
				}
				_, err = io.ReadAll(resp.Body)
				return err
			}}
			_, err := tr.RoundTrip(request(t, "GET"))
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
			assert.ErrorContains(t, err, "no response within AttemptTimeout (50ms)")
			assert.Equal(t, 3*timeout+2*time.Second, time.Since(start))
		})
	})

	t.Run("Base sees no deadline, and is canceled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tr := &retryhttp.Transport{Policy: retry.Policy{AttemptTimeout: timeout}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				_, ok := req.Context().Deadline()
				assert.False(t, ok)
				<-req.Context().Done()
				assert.Equal(t, context.Canceled, req.Context().Err())
				return nil, req.Context().Err()
			})}
			_, err := tr.RoundTrip(request(t, "GET"))
			assert.True(t, os.IsTimeout(err))
		})
	})

	t.Run("an attempt that it ends was not healthy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			patient := policy
			patient.HealthyAfter = timeout / 2
			tr := &retryhttp.Transport{Policy: patient, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				if calls++; calls == 10 {
					return nil, retry.Permanent(errors.New("it goes on for ever"))
				}
				<-req.Context().Done()
				return nil, req.Context().Err()
			})}
			_, err := tr.RoundTrip(request(t, "GET"))
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
			assert.Equal(t, 3, calls)
		})
	})

	t.Run("a negative one is a fault of the policy", func(t *testing.T) {
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: -1}, Base: script(503)}
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
		assert.ErrorContains(t, err, "AttemptTimeout is -1ns")
	})
}

// http.Client reads a response after RoundTrip has returned. So the context
// must not end before the body does, with or without an AttemptTimeout, and it
// must not be leaked.
func TestAttemptsContext(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		for name, finish := range map[string]func(io.ReadCloser) error{
			"closed":              func(rc io.ReadCloser) error { return rc.Close() },
			"read":                func(rc io.ReadCloser) error { _, err := io.Copy(io.Discard, rc); return err },
			"closed while unread": func(rc io.ReadCloser) error { _, _ = rc.Read(make([]byte, 1)); return rc.Close() },
		} {
			t.Run(fmt.Sprint(name, timeout), func(t *testing.T) {
				var ctxs []context.Context
				tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3, AttemptTimeout: timeout}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
					for _, ctx := range ctxs {
						assert.Error(t, ctx.Err(), "an attempt that is over")
					}
					ctxs = append(ctxs, req.Context())
					switch len(ctxs) {
					case 1:
						return response(503), nil
					case 2:
						return nil, errors.New("boom")
					default:
						return response(200), nil
					}
				})}
				resp, err := tr.RoundTrip(request(t, "GET"))
				require.NoError(t, err)
				require.Len(t, ctxs, 3)
				assert.NoError(t, ctxs[2].Err())
				require.NoError(t, finish(resp.Body))
				assert.Error(t, ctxs[2].Err())
			})
		}
	}
}

func TestContextEnds(t *testing.T) {
	why := errors.New("shutting down")
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Minute)}

	t.Run("before the first attempt", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		base := script(200)
		req := request(t, "PUT").WithContext(ctx)
		sent := &body{Reader: strings.NewReader("data")}
		req.Body = sent
		_, err := (&retryhttp.Transport{Base: base, Policy: policy}).RoundTrip(req)
		assertCanceled(t, err, why, 0)
		assert.Empty(t, base.sent)
		assert.True(t, sent.closed, "a RoundTripper closes the body, on errors too")
	})

	t.Run("in the wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(why) })
			start := time.Now()
			_, err := (&retryhttp.Transport{Base: script(503), Policy: policy}).RoundTrip(request(t, "GET").WithContext(ctx))
			assert.Equal(t, time.Second, time.Since(start))
			assertCanceled(t, err, why, 1)
			var status *retryhttp.StatusError
			require.ErrorAs(t, err, &status, "what the last attempt failed with")
		})
	})

	t.Run("in the wait after a timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(why) })
			_, err := (&retryhttp.Transport{Base: script(os.ErrDeadlineExceeded), Policy: policy}).RoundTrip(request(t, "GET").WithContext(ctx))
			assertCanceled(t, err, why, 1)
		})
	})

	t.Run("while an attempt fails", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := &body{Reader: strings.NewReader("sorry")}
		_, err := (&retryhttp.Transport{Policy: policy, Base: roundTrip(func(*http.Request) (*http.Response, error) {
			cancel(why)
			resp := response(503)
			resp.Body = b
			return resp, nil
		})}).RoundTrip(request(t, "GET").WithContext(ctx))
		assertCanceled(t, err, why, 1)
		assert.True(t, b.closed)
	})

	t.Run("while an attempt succeeds", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := (&retryhttp.Transport{Policy: policy, Base: roundTrip(func(*http.Request) (*http.Response, error) {
			cancel(why)
			return response(200), nil
		})}).RoundTrip(request(t, "GET").WithContext(ctx))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
	})

	t.Run("after the decision", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := &body{Reader: strings.NewReader("sorry")}
		failed := response(503)
		failed.Body = b
		tr := &retryhttp.Transport{Base: script(failed), Policy: retry.Policy{OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.Stopped {
				cancel(why)
			}
		}}}
		_, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
		assert.EqualError(t, err, "retry: gave up after 1 attempt (no limit is set, so there is no retry): retryhttp: GET http://example.test/: 503 Service Unavailable (and then shutting down)")
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
		assert.ErrorIs(t, err, why)
		assert.True(t, b.closed, "it could not be read")
	})

	t.Run("in the wait, after an error that says it is no timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			_, err := (&retryhttp.Transport{Base: script(refused), Policy: policy}).RoundTrip(request(t, "GET").WithContext(ctx))
			assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
			assert.True(t, os.IsTimeout(err))
		})
	})

	t.Run("by its deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := (&retryhttp.Transport{Policy: policy, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			})}).RoundTrip(request(t, "GET").WithContext(ctx))
			assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.True(t, os.IsTimeout(err))
		})
	})
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
	for name, tt := range map[string]struct {
		base    http.RoundTripper
		policy  retry.Policy
		reason  retry.Reason
		timeout bool
		text    string
	}{
		"transport error": {script(boom), retry.Policy{MaxAttempts: 2}, retry.ReasonExhausted, false,
			`Get "http://example.test/": retry: attempts exhausted after 2 attempts: boom`},
		"permanent": {script(&url.Error{Op: "parse", URL: ":", Err: boom}), retry.Policy{MaxAttempts: 2}, retry.ReasonPermanent, false,
			`Get "http://example.test/": retry: permanent error after 1 attempt: parse ":": boom`},
		"invalid policy": {script(503), retry.Policy{MaxAttempts: -2}, retry.ReasonInvalid, false,
			`Get "http://example.test/": retry: invalid policy after 1 attempt (MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited): retryhttp: GET http://example.test/: 503 Service Unavailable`},
		"timeout": {script(os.ErrDeadlineExceeded), retry.Policy{MaxAttempts: 2}, retry.ReasonExhausted, true,
			`Get "http://example.test/": retry: attempts exhausted after 2 attempts: i/o timeout`},
		"temporary": {script(&net.DNSError{Err: "server misbehaving", Name: "example.test", IsTemporary: true}), retry.Policy{MaxAttempts: 2}, retry.ReasonExhausted, false,
			`Get "http://example.test/": retry: attempts exhausted after 2 attempts: lookup example.test: server misbehaving`},
	} {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: &retryhttp.Transport{Base: tt.base, Policy: tt.policy}}
			_, err := client.Get("http://example.test/")
			assert.EqualError(t, err, tt.text)
			var outer *url.Error
			require.ErrorAs(t, err, &outer)
			assert.Equal(t, tt.timeout, outer.Timeout())
			assert.Equal(t, tt.timeout || name == "temporary", outer.Temporary())
			assert.Equal(t, tt.reason, retry.ReasonOf(err))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.reason, e.Reason)
		})
	}
}

func TestInvalidPolicyStillSendsOnce(t *testing.T) {
	b := &body{Reader: strings.NewReader("sorry")}
	failed := response(503)
	failed.Body = b
	base := script(200, failed)
	tr := &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: -2}}
	resp, err := tr.RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	_, err = tr.RoundTrip(request(t, "GET"))
	assert.Equal(t, retry.ReasonInvalid, retry.ReasonOf(err))
	assert.Len(t, base.sent, 2)
	assert.True(t, b.closed)
}

// Base gets a clone of the request and may change it, except for the map of its
// Trailer, which belongs to the caller. The request itself stays unchanged, and
// the next attempt is sent with the same key.
func TestRequestIsNotModified(t *testing.T) {
	req := request(t, "POST")
	req.Header.Set("Idempotency-Key", "order-17")
	req.Header.Add("Accept", "text/html")
	req.Header.Add("Accept", "text/plain")
	rewindable(req, "data")
	before := req.Clone(req.Context())

	var keys []string
	tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3, AttemptTimeout: time.Hour}, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		assert.NotSame(t, req, r)
		r.Header.Set("Idempotency-Key", "another")
		r.Header["Accept"][0] = "nothing"
		r.Header.Set("Authorization", "secret")
		r.URL.Host, r.URL.Path, r.Host, r.Method = "elsewhere", "/x", "elsewhere", "GET"
		r.ContentLength, r.Close = -1, true
		r.TransferEncoding = append(r.TransferEncoding, "chunked")
		return response(503), nil
	})}
	_, err := tr.RoundTrip(req)
	require.NoError(t, err)
	assert.Equal(t, []string{"order-17", "order-17", "order-17"}, keys)
	assert.Equal(t, before.Header, req.Header)
	assert.Equal(t, before.URL, req.URL)
	assert.Equal(t, before.TransferEncoding, req.TransferEncoding)
	assert.Equal(t, []any{before.Method, before.Host, before.ContentLength, before.Close}, []any{req.Method, req.Host, req.ContentLength, req.Close})
}

func TestBodyOfEachAttempt(t *testing.T) {
	const data = "0123456789"
	got := []string{}
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		// The first two attempts stop reading in the middle.
		b, err := io.ReadAll(io.LimitReader(req.Body, map[int]int64{0: 3, 1: 7, 2: 99}[len(got)]))
		got = append(got, string(b))
		assert.NoError(t, err)
		assert.NoError(t, req.Body.Close())
		return response(map[int]int{1: 503, 2: 503, 3: 200}[len(got)]), nil
	})
	req := request(t, "PUT")
	var bodies []*body
	req.GetBody = func() (io.ReadCloser, error) {
		bodies = append(bodies, &body{Reader: strings.NewReader(data)})
		return bodies[len(bodies)-1], nil
	}
	first := &body{Reader: strings.NewReader(data)}
	req.Body = first
	resp, err := (&retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 3}}).RoundTrip(req)
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, []string{"012", "0123456", data}, got, "each attempt starts at the beginning")
	assert.Len(t, bodies, 2, "the first attempt sends Body itself")
	for i, b := range append(bodies, first) {
		assert.True(t, b.closed, i)
	}
}

func TestGetBodyFails(t *testing.T) {
	gone := errors.New("the file is gone")
	var seen events
	req := request(t, "PUT")
	rewindable(req, "data")
	req.GetBody = func() (io.ReadCloser, error) { return nil, gone }
	base := script(503, 200)
	_, err := (&retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 5, OnEvent: seen.add}}).RoundTrip(req)
	assert.EqualError(t, err, "retry: permanent error after 2 attempts: retryhttp: cannot rewind the request body: the file is gone (the attempt before: retryhttp: PUT http://example.test/: 503 Service Unavailable)")
	assert.ErrorIs(t, err, gone)
	var status *retryhttp.StatusError
	require.ErrorAs(t, err, &status)
	assert.Len(t, base.sent, 1)
	assert.Equal(t, retry.ReasonPermanent, seen.stop().Reason)
}

// A caller with a trailer fills the request's map while the body is read, so a
// clone must share that map.
func TestTrailerIsSent(t *testing.T) {
	req := request(t, "PUT")
	req.Trailer = http.Header{"Digest": nil}
	b := strings.NewReader("data")
	req.Body = &body{Reader: b, onEOF: func() { req.Trailer.Set("Digest", "sum") }}
	_, err := (&retryhttp.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, r.Body)
		assert.NoError(t, err)
		assert.Equal(t, "sum", r.Trailer.Get("Digest"))
		return response(200), nil
	})}).RoundTrip(req)
	require.NoError(t, err)
}

func TestRoundTrippersThatBreakTheContract(t *testing.T) {
	boom := errors.New("boom")

	t.Run("a response and an error", func(t *testing.T) {
		both := response(200)
		b := &body{Reader: endless{}}
		both.Body = b
		n := 0
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(*http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return both, boom
			}
			return response(200), nil
		})}
		resp, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.NotSame(t, both, resp, "the error counts, as for http.Client")
		assert.True(t, b.closed)
		assert.Zero(t, b.read)
	})

	t.Run("a response without a body and an error", func(t *testing.T) {
		tr := &retryhttp.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 503}, boom })}
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.ErrorIs(t, err, boom)
	})

	t.Run("neither", func(t *testing.T) {
		n := 0
		tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(*http.Request) (*http.Response, error) { n++; return nil, nil })}
		_, err := tr.RoundTrip(request(t, "GET"))
		assert.EqualError(t, err, "retry: permanent error after 1 attempt: retryhttp: the RoundTripper retryhttp_test.roundTrip returned neither a response nor an error")
		assert.Equal(t, 1, n)
	})

	t.Run("a response without a body", func(t *testing.T) {
		bare := func(status int) *http.Response { return &http.Response{StatusCode: status} }
		base := script(bare(503), bare(503), bare(200))
		resp, err := (&retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 3}, Base: base}).RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Nil(t, resp.Body, "http.Client handles that itself")
		for _, req := range base.sent {
			assert.Error(t, req.Context().Err(), "no body to close could free it")
		}
	})

	t.Run("a panic", func(t *testing.T) {
		tr := &retryhttp.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) { panic(boom) })}
		assert.PanicsWithValue(t, boom, func() { _, _ = tr.RoundTrip(request(t, "GET")) })
	})
}

// A panic in a hook is not recovered, and leaks no connection.
func TestPanicsInHooks(t *testing.T) {
	for name, edit := range map[string]func(*retryhttp.Transport){
		"Check": func(tr *retryhttp.Transport) {
			tr.Check = func(*http.Request, *http.Response, error) error { panic("boom") }
		},
		"RetryIf": func(tr *retryhttp.Transport) { tr.Policy.RetryIf = func(error) bool { panic("boom") } },
		"OnEvent, attempt_finished": func(tr *retryhttp.Transport) {
			tr.Policy.OnEvent = func(_ context.Context, e retry.Event) {
				if e.Kind == retry.AttemptFinished {
					panic("boom")
				}
			}
		},
		"OnEvent, retry_scheduled": func(tr *retryhttp.Transport) {
			tr.Policy.OnEvent = func(_ context.Context, e retry.Event) {
				if e.Kind == retry.RetryScheduled {
					panic("boom")
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			failed := response(503)
			b := &body{Reader: strings.NewReader("sorry")}
			failed.Body = b
			var ctx context.Context
			tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				ctx = req.Context()
				return failed, nil
			})}
			edit(tr)
			assert.PanicsWithValue(t, "boom", func() { _, _ = tr.RoundTrip(request(t, "GET")) })
			assert.Error(t, ctx.Err())
			assert.True(t, b.closed)
		})
	}
}

func TestCheckGetsTheCallersRequest(t *testing.T) {
	req := request(t, "GET")
	var got []*http.Request
	tr := &retryhttp.Transport{Base: script(errors.New("boom"), 200), Policy: retry.Policy{MaxAttempts: 2}, Check: func(r *http.Request, resp *http.Response, err error) error {
		got = append(got, r)
		assert.True(t, (resp == nil) != (err == nil), "either a response or an error")
		return retryhttp.Check(r, resp, err)
	}}
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Same(t, req, got[0])
	assert.Same(t, req, got[1])
	assert.Same(t, req, resp.Request, "in the response too")
}

// If a Base sets another request in its response, as one that follows redirects
// does, the Transport keeps it.
func TestResponseOfAnotherRequest(t *testing.T) {
	another := request(t, "GET")
	answer := response(200)
	resp, err := (&retryhttp.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) {
		answer.Request = another
		return answer, nil
	})}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	assert.Same(t, another, resp.Request)
}

// A Check may read the body if it replaces it. The replacement is what the
// Transport discards and what the caller gets.
func TestCheckReplacesTheBody(t *testing.T) {
	var replaced []*body
	tr := &retryhttp.Transport{
		Policy: retry.Policy{MaxAttempts: 2},
		Base:   script(textResponse(200, "busy"), textResponse(200, "busy")),
		Check: func(_ *http.Request, resp *http.Response, _ error) error {
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			replaced = append(replaced, &body{Reader: bytes.NewReader(text)})
			resp.Body = replaced[len(replaced)-1]
			return errors.New(string(text))
		},
	}
	resp, err := tr.RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	require.Len(t, replaced, 2)
	assert.True(t, replaced[0].closed)
	assert.False(t, replaced[1].closed)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "busy", string(text))
}

// A body that Check puts in place of another, without closing the first, is not
// bound to the attempt's context. The context must be freed anyway.
func TestCheckReplacesTheBodyAndForgetsTheFirst(t *testing.T) {
	base := script(200, 200)
	_, err := (&retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2}, Base: base, Check: func(_ *http.Request, resp *http.Response, _ error) error {
		resp.Body = io.NopCloser(strings.NewReader("another"))
		if len(base.sent) == 1 {
			return errors.New("again")
		}
		assert.Error(t, base.sent[0].Context().Err(), "the previous attempt is over")
		return nil
	}}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	assert.Len(t, base.sent, 2)
}

// A server's Retry-After is kept if Check wraps the status error, or if its own
// error has a wait.
func TestCheckKeepsRetryAfter(t *testing.T) {
	for name, tt := range map[string]struct {
		check func(*http.Response) error
		want  time.Duration
	}{
		"the error of the status": {func(resp *http.Response) error { return retryhttp.NewStatusError(resp) }, 7 * time.Second},
		"wrapped":                 {func(resp *http.Response) error { return fmt.Errorf("busy: %w", retryhttp.NewStatusError(resp)) }, 7 * time.Second},
		"said by Check":           {func(*http.Response) error { return retry.After(9*time.Second, errors.New("busy")) }, 9 * time.Second},
		"another error":           {func(*http.Response) error { return errors.New("busy") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				busy := response(503)
				busy.Header.Set("Retry-After", "7")
				start := time.Now()
				_, err := (&retryhttp.Transport{Base: script(busy, 200), Policy: retry.Policy{MaxAttempts: 2}, Check: func(_ *http.Request, resp *http.Response, _ error) error {
					if resp.StatusCode == 503 {
						return tt.check(resp)
					}
					return nil
				}}).RoundTrip(request(t, "GET"))
				require.NoError(t, err)
				assert.Equal(t, tt.want, time.Since(start))
			})
		})
	}
}

// retrynet.Transient does not classify statuses, so as a RetryIf it rejects
// them all.
func TestTransientAsRetryIfRejectsEveryStatus(t *testing.T) {
	var seen events
	resp, err := (&retryhttp.Transport{Base: script(503, 200), Policy: retry.Policy{MaxAttempts: 2, RetryIf: retrynet.Transient, OnEvent: seen.add}}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, retry.ReasonRejected, seen.stop().Reason)
}

// If a method of an error from Base panics, the request ends and not the
// program, wherever that method is called.
func TestErrorsThatPanic(t *testing.T) {
	for name, failure := range map[string]error{
		"typed nil":            (*url.Error)(nil),
		"typed nil, wrapped":   fmt.Errorf("proxy: %w", (*net.OpError)(nil)),
		"Error":                panicker{"Error"},
		"Timeout":              panicker{"Timeout"},
		"Is":                   panicker{"Is"},
		"As":                   panicker{"As"},
		"Unwrap":               panicker{"Unwrap"},
		"RetryAfter":           panicker{"RetryAfter"},
		"RetryAfter, the last": errors.Join(os.ErrDeadlineExceeded, panicker{"RetryAfter"}),
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

	t.Run("from GetBody", func(t *testing.T) {
		req := request(t, "PUT")
		rewindable(req, "data")
		req.GetBody = func() (io.ReadCloser, error) { return nil, panicker{"Unwrap"} }
		_, err := (&retryhttp.Transport{Base: script(503), Policy: retry.Policy{MaxAttempts: 3}}).RoundTrip(req)
		assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
		assert.ErrorContains(t, err, "bug in Unwrap")
	})

	t.Run("Timeout, from Check", func(t *testing.T) {
		_, err := (&retryhttp.Transport{Base: script(errors.New("boom")), Check: func(*http.Request, *http.Response, error) error {
			return panicker{"Timeout"}
		}}).RoundTrip(request(t, "GET"))
		assert.EqualError(t, err, "retry: gave up after 1 attempt (no limit is set, so there is no retry): fine")
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

// The body of a 101 Switching Protocols response is the connection, and can be
// written to.
func TestUpgradedBodyCanBeWritten(t *testing.T) {
	conn := &connection{body: body{Reader: strings.NewReader("pong")}}
	resp101 := response(101)
	resp101.Body = conn
	resp, err := (&retryhttp.Transport{Base: script(resp101)}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	rw, ok := resp.Body.(io.ReadWriteCloser)
	require.True(t, ok)
	_, err = io.WriteString(rw, "ping")
	require.NoError(t, err)
	assert.Equal(t, "ping", conn.written.String())
	half, ok := resp.Body.(interface{ CloseWrite() error })
	require.True(t, ok, "as that of net/http")
	assert.NoError(t, half.CloseWrite())
	assert.True(t, conn.halfClosed)
	assert.False(t, conn.closed)
	require.NoError(t, rw.Close())
	assert.True(t, conn.closed)

	resp101.Body = struct {
		io.ReadCloser
		io.Writer
	}{&body{Reader: strings.NewReader("")}, io.Discard}
	resp, err = (&retryhttp.Transport{Base: script(resp101)}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	assert.ErrorIs(t, resp.Body.(interface{ CloseWrite() error }).CloseWrite(), http.ErrNotSupported)

	resp, err = (&retryhttp.Transport{Base: script(200)}).RoundTrip(request(t, "GET"))
	require.NoError(t, err)
	_, ok = resp.Body.(io.Writer)
	assert.False(t, ok)
}

func TestBudgetIsShared(t *testing.T) {
	budget := &retry.Budget{Size: 2, Ratio: 0.5}
	tr := &retryhttp.Transport{Base: script(503), Policy: retry.Policy{MaxAttempts: 9, Budget: budget}}
	var reasons []retry.Reason
	tr.Policy.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind == retry.Stopped {
			reasons = append(reasons, e.Reason)
		}
	}
	for range 2 {
		_, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
	}
	tr.Base = script(200, 404, 503, 200, 503)
	for range 4 {
		_, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
	}
	assert.Equal(t, []retry.Reason{
		retry.ReasonBudget, retry.ReasonBudget, // two retries, then none
		retry.ReasonSuccess,   // adds half a token
		retry.ReasonPermanent, // a 404 adds half a token, too
		retry.ReasonSuccess,   // its retry takes that token
		retry.ReasonBudget,    // half a token pays for no retry
	}, reasons)
}

// Every answer that shows a healthy server adds its share of a token to the
// Budget.
func TestWhatPutsIntoTheBudget(t *testing.T) {
	waiting := func(status int) *http.Response {
		resp := response(status)
		resp.Header.Set("Retry-After", "3600")
		return resp
	}
	for _, tt := range []struct {
		name   string
		answer any
		check  func(*http.Request, *http.Response, error) error
		left   int
	}{
		{"200", 200, nil, 1},
		{"304", 304, nil, 1},
		{"400", 400, nil, 1},
		{"401", 401, nil, 1},
		{"403", 403, nil, 1},
		{"403, with a wait", waiting(403), nil, 0},
		{"404", 404, nil, 1},
		{"408", 408, nil, 0},
		{"421", 421, nil, 1},
		{"425", 425, nil, 0},
		{"429", 429, nil, 0},
		{"499", 499, nil, 1},
		{"500", 500, nil, 0},
		{"501", 501, nil, 0},
		{"600", 600, nil, 0},
		{"no answer", errors.New("boom"), nil, 0},
		{"404, which Check calls a success", 404, func(*http.Request, *http.Response, error) error { return nil }, 1},
		{"404, which Check wants again", 404, func(_ *http.Request, resp *http.Response, _ error) error { return retryhttp.NewStatusError(resp) }, 1},
		{"200, which Check calls a failure", 200, func(*http.Request, *http.Response, error) error { return errors.New("busy") }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			budget := &retry.Budget{Size: 2, Ratio: 1}
			require.True(t, budget.Take())
			require.True(t, budget.Take())
			_, _ = (&retryhttp.Transport{Base: script(tt.answer), Check: tt.check, Policy: retry.Policy{Budget: budget}}).RoundTrip(request(t, "GET"))
			assert.Equal(t, tt.left, budget.Left())
		})
	}
}

// One request in a hundred fails temporarily, and the other 99 get a 404. All
// retries that the ratio allows are made.
func TestBudgetAmongHealthyFailures(t *testing.T) {
	const requests = 10_000
	budget := &retry.Budget{Size: 1, Ratio: 0.1}
	require.True(t, budget.Take())
	sent, again := 0, 0
	tr := &retryhttp.Transport{Policy: retry.Policy{MaxAttempts: 2, Budget: budget}, Base: roundTrip(func(req *http.Request) (*http.Response, error) {
		if retryhttp.AttemptOf(req.Context()) > 1 {
			again++
			return response(404), nil
		}
		if sent++; sent%100 == 0 {
			return response(503), nil
		}
		return response(404), nil
	})}
	for range requests {
		resp, err := tr.RoundTrip(request(t, "GET"))
		require.NoError(t, err)
		assert.Equal(t, 404, resp.StatusCode)
	}
	assert.Equal(t, requests/100, again)
}

// Three layers of four attempts each would be 64 requests at the lowest layer.
// A Budget in the context bounds all of them together.
func TestWithBudgetOverLayers(t *testing.T) {
	for name, tt := range map[string]struct {
		ctx  func(context.Context) context.Context
		sent int
	}{
		"without": {func(ctx context.Context) context.Context { return ctx }, 64},
		"with":    {func(ctx context.Context) context.Context { return retry.WithBudget(ctx, &retry.Budget{Size: 3}) }, 4},
		"none":    {func(ctx context.Context) context.Context { return retry.WithBudget(ctx, &retry.Budget{}) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			base := script(503)
			four := retry.Policy{MaxAttempts: 4}
			tr := &retryhttp.Transport{Policy: four, Base: &retryhttp.Transport{Policy: four, Base: base}}
			ctx := tt.ctx(t.Context())
			err := retry.Do(ctx, four, func(ctx context.Context) error {
				resp, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				return retryhttp.Check(nil, resp, nil)
			})
			assert.Error(t, err)
			assert.Len(t, base.sent, tt.sent)
		})
	}
}

// Events get the request's own context with all its values.
func TestEventsGetTheRequestsContext(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "here")
	n := 0
	tr := &retryhttp.Transport{Base: script(503, 200), Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Hour, OnEvent: func(ctx context.Context, e retry.Event) {
		n++
		assert.Equal(t, "here", ctx.Value(key{}))
		assert.NoError(t, ctx.Err())
	}}}
	_, err := tr.RoundTrip(request(t, "GET").WithContext(ctx))
	require.NoError(t, err)
	assert.Equal(t, 6, n)
}

func TestCloseIdleConnections(t *testing.T) {
	base := &closer{}
	(&http.Client{Transport: &retryhttp.Transport{Base: base}}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	(&retryhttp.Transport{Base: script(200)}).CloseIdleConnections() // has none to close
}

// request returns a request without a body.
func request(t *testing.T, method string) *http.Request {
	req, err := http.NewRequestWithContext(t.Context(), method, "http://example.test/", nil)
	require.NoError(t, err)
	return req
}

func header(key string, values ...string) func(*http.Request, *retryhttp.Transport) {
	return func(req *http.Request, _ *retryhttp.Transport) { req.Header[key] = values }
}

// rewindable gives a request a body that can be sent again.
func rewindable(req *http.Request, data string) {
	req.ContentLength = int64(len(data))
	req.Body = io.NopCloser(strings.NewReader(data))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }
}

func response(status int) *http.Response { return textResponse(status, "") }

func textResponse(status int, text string) *http.Response {
	return &http.Response{
		StatusCode:    status,
		Header:        http.Header{"X-Status": {fmt.Sprint(status)}},
		Body:          io.NopCloser(strings.NewReader(text)),
		ContentLength: int64(len(text)),
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	resp, err := f(req)
	if resp != nil && resp.Request == nil {
		resp.Request = req
	}
	return resp, err
}

// script is a RoundTripper that takes one step for each request and repeats the
// last one: a status, a response, or an error.
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

// stop returns the one Stopped event, or a zero one.
func (s *events) stop() retry.Event {
	if found := s.of(retry.Stopped); len(found) == 1 {
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

// connection is a body that can be written to.
type connection struct {
	body
	written    bytes.Buffer
	halfClosed bool
}

func (c *connection) CloseWrite() error { c.halfClosed = true; return nil }

func (c *connection) Write(p []byte) (int, error) { return c.written.Write(p) }

// endless is a reader that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// stalled is a reader that blocks until its context ends.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }

// slow is a reader that takes an hour for each byte and fails when its context
// ends.
type slow struct {
	ctx context.Context
	r   io.Reader
}

func (s slow) Read(p []byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-time.After(time.Hour):
		return s.r.Read(p[:1])
	}
}

// broken is a reader that fails.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("reset") }

type closer struct {
	scripted
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }
