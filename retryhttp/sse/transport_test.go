package sse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryhttp"
	"github.com/goretry/retry/retryhttp/sse"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A load balancer cuts each connection of 100 streams after a minute. No cut takes a retry from the
// Budget, even if the connection got no event.
func TestBalancerThatCutsDoesNotEmptyTheBudget(t *testing.T) {
	for name, text := range map[string]func(n int) string{
		"with events":            func(n int) string { return event(n, "a") },
		"with IDs and no events": func(n int) string { return fmt.Sprintf("id: %d\n\n", n) },
		"quiet":                  func(int) string { return ": ping\n" },
	} {
		for how, end := range map[string]error{"reset": errReset, "a clean end": nil} {
			bubble(t, name+", "+how, func(t *testing.T) {
				budget := &retry.Budget{Size: 10}
				var streams sync.WaitGroup
				for range 100 {
					server := &script{}
					for n := range 10 {
						server.answers = append(server.answers, answer{text: text(n + 1), idle: time.Minute, err: end})
					}
					server.answers = append(server.answers, done)
					client := over(server)
					client.Transport.(*retryhttp.Transport).Budgets = func(*http.Request) *retry.Budget { return budget }
					streams.Go(func() {
						s, req := &sse.Stream{Client: client, Policy: retry.Default()}, request(t, "GET")
						req.Header.Set("Last-Event-ID", "0")
						_, err := collect(s.Events(req))
						assert.NoError(t, err)
						assert.Len(t, server.sent, 11)
					})
				}
				streams.Wait()
				assert.Equal(t, 10, budget.Left())
			})
		}
	}
}

// The first reconnection after progress takes nothing from the Budget. The further attempts in an
// outage take retries from the Budget.
func TestOutageUnderABudget(t *testing.T) {
	budget := func() *retry.Budget { return &retry.Budget{Size: 3} }
	for name, set := range map[string]func(*sse.Stream){
		"of the policy": func(s *sse.Stream) { s.Policy.Budget = budget() },
		"of the target": func(s *sse.Stream) {
			b := budget()
			s.Client.Transport.(*retryhttp.Transport).Budgets = func(*http.Request) *retry.Budget { return b }
		},
	} {
		bubble(t, name, func(t *testing.T) {
			server := &script{answers: []answer{reset(event(1, "a")), reset(event(2, "b")), {failed: errReset}}}
			s := &sse.Stream{Client: over(server), Policy: patient}
			s.Policy.MaxAttempts = retry.Unlimited
			set(s)
			events, err := collect(s.Events(request(t, "GET")))
			assert.Equal(t, []string{"1 a", "2 b"}, events)
			assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err), "%v", err)
			assert.Equal(t, []string{"", "1", "2", "2", "2", "2"}, server.ids())
		})
	}
}

// The streams of a Transport use the Budgets that the Transport keeps for its targets.
func TestStreamsShareTheBudgetsOfTheTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: &retryhttp.Transport{Base: &script{answers: []answer{{failed: errReset}}}}}
		for _, attempts := range []int{5, 5, 3, 1} { // the Budget of the target has 10 retries
			s := &sse.Stream{Client: client, Policy: retry.Default()}
			_, err := collect(s.Events(request(t, "GET")))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, attempts, e.Attempts)
		}
	})
}

// A connection that lasts for HealthyAfter is progress, even without an event.
func TestHealthyAfter(t *testing.T) {
	for _, tt := range []struct {
		name string
		idle time.Duration
		p    retry.Policy
		sent int
	}{
		{"10s if it is not set", 10 * second, patient, 20},
		{"less than 10s", 10*second - 1, patient, 3},
		{"as the policy says", 3 * second, retry.Policy{MaxAttempts: 3, HealthyAfter: 3 * second}, 20},
		{"less than the policy says", 3*second - 1, retry.Policy{MaxAttempts: 3, HealthyAfter: 3 * second}, 3},
		{"a policy that does not retry", time.Hour, retry.Policy{}, 1},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			server := &script{}
			for range 19 {
				server.answers = append(server.answers, answer{text: ":\n", idle: tt.idle, err: errReset})
			}
			server.answers = append(server.answers, done)
			s := &sse.Stream{Client: over(server), Policy: tt.p}
			_, err := collect(s.Events(request(t, "GET")))
			assert.Len(t, server.sent, tt.sent)
			assert.Equal(t, tt.sent < 20, err != nil, "%v", err)
		})
	}
}

// The time before the headers is no progress, however long it is.
func TestAttemptsThatTakeLong(t *testing.T) {
	for name, row := range map[string]struct {
		status  int
		failed  error
		timeout time.Duration
	}{
		"dials that time out":             {0, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, 0},
		"late 504s":                       {504, nil, 0},
		"late streams that break at once": {200, nil, 0},
		"AttemptTimeout":                  {200, nil, 15 * second},
	} {
		for _, budget := range []*retry.Budget{nil, {Size: 2}} {
			bubble(t, name, func(t *testing.T) {
				sent := 0
				base := roundTrip(func(req *http.Request) (*http.Response, error) {
					sent++
					select {
					case <-req.Context().Done():
						return nil, req.Context().Err()
					case <-time.After(30 * second):
						if row.failed != nil {
							return nil, row.failed
						}
						header := http.Header{"Content-Type": {"text/event-stream"}}
						return &http.Response{StatusCode: row.status, Header: header, Body: io.NopCloser(iotest.ErrReader(errReset))}, nil
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				s := &sse.Stream{Client: over(base), Policy: retry.Default()}
				s.Policy.AttemptTimeout, s.Policy.Budget = row.timeout, budget
				_, err := collect(s.Events(request(t, "GET").WithContext(ctx)))
				if budget == nil {
					assert.Equal(t, []any{5, retry.ReasonExhausted}, []any{sent, retry.ReasonOf(err)})
				} else {
					assert.Equal(t, []any{3, retry.ReasonBudget}, []any{sent, retry.ReasonOf(err)})
				}
			})
		}
	}
}

// After a connection without an event that lasted for HealthyAfter, the Transport still decides
// which request may be sent again, and which answer was lost.
func TestQuietConnections(t *testing.T) {
	quiet := func() answer { return answer{text: ":\n", idle: 11 * second, err: errReset} }
	many := func(n int, last answer) (answers []answer) {
		for range n {
			answers = append(answers, quiet())
		}
		return append(answers, last)
	}
	post := func(t *testing.T, key string) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://example.test/jobs", strings.NewReader("job"))
		require.NoError(t, err)
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		return req
	}
	bubble(t, "a POST", func(t *testing.T) {
		server := &script{answers: many(9, done)}
		_, err := collect((&sse.Stream{Client: over(server), Policy: patient}).Events(post(t, "")))
		assert.Equal(t, []any{1, retry.ReasonNonRetryable}, []any{len(server.sent), retry.ReasonOf(err)})
	})
	bubble(t, "a POST whose key Prepare sets", func(t *testing.T) {
		server := &script{answers: many(9, done)}
		client := over(server)
		client.Transport.(*retryhttp.Transport).Prepare = func(req *http.Request, _ int, _ error) error {
			req.Header.Set("Idempotency-Key", "k")
			return nil
		}
		_, err := collect((&sse.Stream{Client: client, Policy: patient}).Events(post(t, "")))
		assert.Equal(t, []any{1, retry.ReasonNonRetryable}, []any{len(server.sent), retry.ReasonOf(err)})
	})
	bubble(t, "a POST with a key, and then a 422", func(t *testing.T) {
		server := &script{answers: many(9, status(422))}
		_, err := collect((&sse.Stream{Client: over(server), Policy: patient}).Events(post(t, "k")))
		var e *retry.Error
		require.ErrorAs(t, err, &e)
		assert.Len(t, server.sent, 10)
		assert.ErrorIs(t, e.Before, errReset)
	})
	bubble(t, "a POST that a redirect has made a GET", func(t *testing.T) {
		server := &script{answers: append([]answer{status(303, "Location", "/jobs/1")}, many(9, stream("data: a\n\n"))...)}
		events, err := collect((&sse.Stream{Client: over(server), Policy: patient}).Events(post(t, "")))
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, events)
		var methods []string
		for _, req := range server.sent {
			methods = append(methods, req.Method)
		}
		assert.Equal(t, "POST"+strings.Repeat(" GET", 10), strings.Join(methods, " "))
	})
	bubble(t, "a Check that waits for the first event", func(t *testing.T) {
		server := &script{answers: many(9, stream("data: a\n\n"))}
		client := over(server)
		client.Transport.(*retryhttp.Transport).Check = retryhttp.FirstEvent(nil, nil)
		events, err := collect((&sse.Stream{Client: client, Policy: patient}).Events(request(t, "GET")))
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, events)
	})
	bubble(t, "a loop in Prepare or in Enter has a HealthyAfter of its own", func(t *testing.T) {
		runs := 0
		loop := func(ctx context.Context) error {
			return retry.Do(ctx, retry.Policy{MaxAttempts: 2, HealthyAfter: second}, func(context.Context) error {
				if runs++; runs%5 == 0 {
					return nil
				}
				time.Sleep(2 * second)
				return errReset
			})
		}
		client := over(&script{answers: []answer{stream("data: a\n\n")}})
		client.Transport.(*retryhttp.Transport).Prepare = func(req *http.Request, _ int, _ error) error { return loop(req.Context()) }
		p := patient
		p.Enter = func(ctx context.Context, _ retry.Event) error { return loop(ctx) }
		events, err := collect((&sse.Stream{Client: client, Policy: p}).Events(request(t, "GET")))
		require.NoError(t, err)
		assert.Equal(t, []any{[]string{"a"}, 10}, []any{events, runs})
	})
	bubble(t, "a loop around a stream has a HealthyAfter of its own", func(t *testing.T) {
		runs := 0
		err := retry.Do(t.Context(), retry.Policy{MaxAttempts: 2, HealthyAfter: time.Minute}, func(context.Context) error {
			if runs++; runs == 5 {
				return nil
			}
			time.Sleep(time.Hour)
			_, err := collect((&sse.Stream{Client: over(&script{answers: []answer{{failed: errReset}}}), Policy: patient}).Events(request(t, "GET")))
			return err
		})
		require.NoError(t, err)
	})
	bubble(t, "the functions of the user get the error of Check", func(t *testing.T) {
		server := &script{answers: []answer{{status: 503, before: time.Minute}, {failed: errReset}, stream("data: a\n\n")}}
		client, p, got := over(server), patient, []error{}
		take := func(err error) { got = append(got, err) }
		client.Transport.(*retryhttp.Transport).Prepare = func(_ *http.Request, n int, last error) error {
			if n > 1 {
				take(last)
			}
			return nil
		}
		p.RetryIf = func(err error) bool { take(err); return true }
		p.Classify = func(err error) *retry.Class { take(err); return nil }
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				take(e.Err)
			}
		}
		events, err := collect((&sse.Stream{Client: client, Policy: p}).Events(request(t, "GET")))
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, events)
		require.Len(t, got, 8)
		for i, err := range got {
			if i < 4 {
				assert.IsType(t, new(retryhttp.StatusError), err)
			} else {
				assert.Equal(t, errReset, err)
			}
		}
	})
	for name, p := range map[string]retry.Policy{"three attempts": patient, "one attempt": {}, "no retry": {NonRetryable: true}} {
		bubble(t, "the error of the stream is the error of Check: "+name, func(t *testing.T) {
			_, err := collect((&sse.Stream{Client: over(&script{answers: []answer{{failed: errReset}}}), Policy: p}).Events(request(t, "GET")))
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, errReset, e.Err)
		})
	}
	bubble(t, "the slow body of a 503, which Advise reads, is no connection", func(t *testing.T) {
		server := &script{answers: []answer{{status: 503, text: "busy", idle: time.Minute}}}
		client := over(server)
		client.Transport.(*retryhttp.Transport).Advise = func(resp *http.Response) retryhttp.Advice {
			_, _ = io.ReadAll(resp.Body)
			return retryhttp.Advice{}
		}
		_, err := collect((&sse.Stream{Client: client, Policy: patient}).Events(request(t, "GET")))
		assert.Equal(t, []any{3, retry.ReasonExhausted}, []any{len(server.sent), retry.ReasonOf(err)})
	})
}

// AttemptTimeout limits the time until the headers arrive, not the time until the first event.
func TestAttemptTimeout(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2, AttemptTimeout: 2 * second}
	for _, tt := range []struct {
		name  string
		first answer
		sent  int
		took  time.Duration
	}{
		{"late headers", answer{before: 3 * second, text: "data: late\n\n"}, 2, 2 * second},
		{"headers in time", answer{before: 2*second - 1, text: "data: a\n\n"}, 1, 2*second - 1},
		{"an hour without an event after the headers", answer{text: ":\n", idle: time.Hour, err: errReset}, 2, time.Hour + 10*time.Millisecond},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			server := &script{answers: []answer{tt.first, stream("data: a\n\n")}}
			s := &sse.Stream{Client: over(server), Policy: p}
			s.Policy.HealthyAfter = time.Minute
			began := time.Now()
			events, err := collect(s.Events(request(t, "GET")))
			require.NoError(t, err)
			assert.Equal(t, []string{"a"}, events)
			assert.Len(t, server.sent, tt.sent)
			wait := time.Duration(0)
			if tt.took%second == 0 && tt.sent == 2 {
				wait = 10 * time.Millisecond // a policy with HealthyAfter waits at least 10ms
			}
			assert.Equal(t, tt.took+wait, time.Since(began))
		})
	}
	bubble(t, "late headers from a base that ignores its context", func(t *testing.T) {
		server := &script{answers: []answer{{text: event(1, "a"), idle: -1}, stream("data: b\n\n")}}
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			if len(server.sent) == 0 {
				time.Sleep(2*second + 1) // after AttemptTimeout, and not at the same moment
			}
			return server.RoundTrip(req)
		})
		var failures []error
		s := &sse.Stream{Client: over(base), Policy: p}
		s.Policy.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				failures = append(failures, e.Err)
			}
		}
		events, err := collect(s.Events(request(t, "GET")))
		require.NoError(t, err)
		assert.Equal(t, []string{"b"}, events)
		assert.Zero(t, server.open)
		require.Len(t, failures, 1)
		assert.ErrorContains(t, failures[0], "sse: no headers within AttemptTimeout")
	})
	bubble(t, "the error names AttemptTimeout", func(t *testing.T) {
		s := &sse.Stream{Client: over(&script{answers: []answer{{before: time.Hour, text: "data: a\n\n"}}}), Policy: p}
		_, err := collect(s.Events(request(t, "GET")))
		require.ErrorContains(t, err, "sse: no headers within AttemptTimeout")
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
	})
}

// After progress, the first reconnection waits only if the policy or the server asks for a wait.
func TestFirstReconnectionDoesNotWait(t *testing.T) {
	const floor = 10 * time.Millisecond
	for _, tt := range []struct {
		name    string
		p       retry.Policy
		answers []answer
		took    time.Duration
	}{
		{"unlimited attempts", retry.Policy{MaxAttempts: retry.Unlimited}, []answer{reset(event(1, "a")), reset(event(2, "b")), done}, 0},
		{"HealthyAfter", retry.Policy{MaxAttempts: 2, HealthyAfter: second}, []answer{reset(event(1, "a")), reset(event(2, "b")), done}, 0},
		{"MaxElapsed", retry.Policy{MaxElapsed: second}, []answer{reset(event(1, "a")), reset(event(2, "b")), done}, 0},
		{"the second reconnection waits", retry.Policy{MaxAttempts: retry.Unlimited},
			[]answer{reset(event(1, "a")), reset(""), reset(""), reset(event(2, "b")), done}, 2 * floor},
		{"before progress", retry.Policy{MaxAttempts: retry.Unlimited}, []answer{reset(""), reset(""), done}, 2 * floor},
		{"a delay of the policy", retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(3 * time.Millisecond)},
			[]answer{reset(event(1, "a")), done}, 3 * time.Millisecond},
		{"a delay of the server", retry.Policy{MaxAttempts: retry.Unlimited}, []answer{reset("retry: 4\n" + event(1, "a")), done}, 4 * time.Millisecond},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := &sse.Stream{Client: over(&script{answers: tt.answers}), Policy: tt.p}
			began := time.Now()
			_, err := collect(s.Events(request(t, "GET")))
			require.NoError(t, err)
			assert.Equal(t, tt.took, time.Since(began))
		})
	}
}

// If another request closes the Gate, the Gate holds the reconnection.
func TestClosedGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{answers: []answer{reset(event(1, "a")), status(429, "Retry-After", "60"), stream(event(2, "b")), done}}
		client := over(server)
		client.Transport.(*retryhttp.Transport).Gate = new(retryhttp.Gate)
		s := &sse.Stream{Client: client, Policy: retry.Policy{MaxAttempts: 2, MaxRetryAfter: time.Hour}}
		for e, err := range s.Events(request(t, "GET")) {
			require.NoError(t, err)
			if e.ID == "1" { // a 429 for another request closes the Gate
				resp, err := client.Get("http://example.test/other")
				require.NoError(t, err)
				require.Equal(t, 429, resp.StatusCode)
				_ = resp.Body.Close()
			}
		}
		held := server.at[2].Sub(server.at[1])
		assert.GreaterOrEqual(t, held, time.Minute)
		assert.LessOrEqual(t, held, time.Minute*5/4)
		assert.Equal(t, []string{"", "", "1", "2"}, server.ids())
	})
}

// The wait in a field "retry" is about the stream alone. A refusal of the stream without a wait
// closes no Gate.
func TestRetryFieldClosesNoGate(t *testing.T) {
	for _, code := range []int{403, 429} {
		bubble(t, fmt.Sprint(code), func(t *testing.T) {
			closed := 0
			server := &script{answers: []answer{stream("retry: 30000\n" + event(1, "a")), status(code), stream(event(2, "b")), done}}
			tr := &retryhttp.Transport{Base: server, Gate: &retryhttp.Gate{OnClose: func(string, time.Duration, error) { closed++ }}}
			tr.Check = again
			events, err := collect((&sse.Stream{Client: &http.Client{Transport: tr}, Policy: patient}).Events(request(t, "GET")))
			require.NoError(t, err)
			assert.Equal(t, []string{"1 a", "2 b"}, events)
			assert.Zero(t, closed)
			assert.GreaterOrEqual(t, server.at[2].Sub(server.at[1]), 30*second)
		})
	}
}

// After a field "retry", the retry after a 401 without a Retry-After is still free: it is made even
// if the Budget of the target is empty.
func TestRetryFieldAndAnEmptyBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{answers: []answer{stream("retry: 1000\n" + event(1, "a")), status(401), stream(event(2, "b")), done}}
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/down" {
				return nil, errReset
			}
			return server.RoundTrip(req)
		})
		client := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: retry.Policy{MaxAttempts: 20}, Check: again}}
		for range 3 {
			_, err := client.Get("http://example.test/down")
			require.Error(t, err)
		}
		_, err := client.Get("http://example.test/down")
		require.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
		events, err := collect((&sse.Stream{Client: client, Policy: patient}).Events(request(t, "GET")))
		require.NoError(t, err)
		assert.Equal(t, []string{"1 a", "2 b"}, events)
	})
}

// The function `again` is a Check that retries each status from 400 on.
func again(req *http.Request, resp *http.Response, err error) error {
	if resp != nil && resp.StatusCode >= 400 {
		return retryhttp.NewStatusError(resp)
	}
	return retryhttp.Check(req, resp, err)
}

// Prepare gets the number of the attempt, counted anew for each reconnection, and the error of the
// previous attempt.
func TestPrepareAndCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		server := &script{answers: []answer{reset(event(1, "a")), status(401), status(503), stream(event(2, "b")), done}}
		client := over(server)
		tr := client.Transport.(*retryhttp.Transport)
		tr.Prepare = func(req *http.Request, attempt int, last error) error {
			var e *retryhttp.StatusError
			_ = errors.As(last, &e)
			told = append(told, fmt.Sprint(attempt, " ", e != nil && e.StatusCode == 401, " ", req.Header.Get("Last-Event-ID")))
			return nil
		}
		tr.Check = func(req *http.Request, resp *http.Response, err error) error {
			if err == nil && resp.StatusCode == 401 {
				return retryhttp.NewStatusError(resp)
			}
			return retryhttp.Check(req, resp, err)
		}
		_, err := collect((&sse.Stream{Client: client, Policy: patient}).Events(request(t, "GET")))
		require.NoError(t, err)
		assert.Equal(t, []string{"1 false ", "1 false 1", "2 true 1", "3 false 1", "1 false 2"}, told)
	})
}

// If a connection breaks after progress, Check gets the request of this connection, as Prepare left
// it, with a context that is not done. If Check changes the request, the next request is unchanged.
func TestCheckOfAConnectionThatBreaksAfterProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		client := over(&script{answers: []answer{reset(event(1, "a")), reset(event(2, "b")), done}})
		tr := client.Transport.(*retryhttp.Transport)
		tr.Prepare = func(req *http.Request, _ int, _ error) error {
			req.Header.Set("X-Token", "token")
			return nil
		}
		tr.Check = func(req *http.Request, resp *http.Response, err error) error {
			if err != nil {
				h := req.Header
				told = append(told, fmt.Sprint(req.Method, " ", h.Get("Last-Event-ID"), " ", h.Get("Authorization"), " ", h.Get("X-Token"), " ", req.Context().Err()))
				h.Del("Authorization")
			}
			return retryhttp.Check(req, resp, err)
		}
		req := request(t, "POST")
		req.Header.Set("Authorization", "secret")
		_, err := collect((&sse.Stream{Client: client, Policy: patient, Resume: sse.ResumeByGET(req)}).Events(req))
		require.NoError(t, err)
		assert.Equal(t, []string{"POST  secret token <nil>", "GET 1 secret token <nil>"}, told)
		assert.Equal(t, "secret", req.Header.Get("Authorization"))
	})
}

// The Policy of the stream replaces the Policy of each Transport, wherever the Transport is.
func TestAttemptsDoNotMultiply(t *testing.T) {
	five := retry.Policy{MaxAttempts: 5}
	for name, client := range map[string]func(base http.RoundTripper) http.RoundTripper{
		"the Transport of the client": func(base http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: base, Policy: five}
		},
		"a Transport inside another RoundTripper": func(base http.RoundTripper) http.RoundTripper {
			return roundTrip((&retryhttp.Transport{Base: base, Policy: five}).RoundTrip)
		},
		"a Transport above a Transport": func(base http.RoundTripper) http.RoundTripper {
			return &retryhttp.Transport{Base: &retryhttp.Transport{Base: base, Policy: five}, Policy: five}
		},
		"no Transport": func(base http.RoundTripper) http.RoundTripper { return base },
	} {
		bubble(t, name, func(t *testing.T) {
			server := &script{answers: []answer{status(503)}}
			s := &sse.Stream{Client: &http.Client{Transport: client(server)}, Policy: patient}
			req := request(t, "GET")
			_, err := collect(s.Events(req.WithContext(retryhttp.WithPolicy(req.Context(), five))))
			require.ErrorContains(t, err, "attempts exhausted after 3 attempts")
			assert.Len(t, server.sent, 3)
		})
	}
}

// If the client has no retryhttp.Transport, the only Budget is the Budget of the policy.
func TestNoBudgetWithoutATransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{answers: []answer{status(503)}}
		s := &sse.Stream{Client: &http.Client{Transport: server}, Policy: retry.Policy{MaxAttempts: 20}}
		_, err := collect(s.Events(request(t, "GET")))
		require.ErrorContains(t, err, "attempts exhausted after 20 attempts")
		assert.Len(t, server.sent, 20)
	})
}

// OnEvent gets the events of a call for each connection, and of another call for each wait after
// progress.
func TestOnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		p := patient
		p.OnEvent = func(ctx context.Context, e retry.Event) {
			of := retryhttp.RequestOf(ctx) != nil
			switch e.Kind {
			case retry.RetryScheduled:
				told = append(told, fmt.Sprint("attempt ", e.Attempt, ": ", e.Err, ", again in ", e.Delay, " ", of))
			case retry.CallFinished:
				told = append(told, fmt.Sprint(e.Reason, " ", e.Attempt, " ", of))
			}
		}
		server := &script{answers: []answer{reset(event(1, "a")), reset(""), stream(event(2, "b")), done}}
		_, err := collect((&sse.Stream{Client: over(server), Policy: p}).Events(request(t, "GET")))
		require.NoError(t, err)
		assert.Equal(t, []string{
			"success 1 true",
			"attempt 1: connection reset by peer, again in 1s false", "success 2 false",
			"attempt 1: connection reset by peer, again in 1s true", "success 2 true",
			"attempt 1: unexpected EOF, again in 1s false", "success 2 false",
			"success 1 true",
		}, told)
	})
}

// Enter is called once for each request, and not for the wait before a reconnection.
func TestEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, p := 0, patient
		p.Enter = func(context.Context, retry.Event) error { entered++; return nil }
		server := &script{answers: []answer{reset(event(1, "a")), reset(""), stream(event(2, "b")), done}}
		_, err := collect((&sse.Stream{Client: over(server), Policy: p}).Events(request(t, "GET")))
		require.NoError(t, err)
		assert.Equal(t, 4, entered)
	})
}

// All requests have the header of the first request, and also the headers that a browser sends.
func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{answers: []answer{stream(event(5, "a")), done}}
		req := request(t, "GET")
		req.Header.Set("Last-Event-ID", "4")
		req.Header.Set("Authorization", "Bearer x")
		_, err := collect((&sse.Stream{Client: over(server), Policy: patient}).Events(req))
		require.NoError(t, err)
		assert.Equal(t, []string{"4", "5"}, server.ids())
		for _, sent := range server.sent {
			assert.Equal(t, []string{"text/event-stream"}, sent.Header.Values("Accept"))
			assert.Equal(t, []string{"no-cache"}, sent.Header.Values("Cache-Control"))
			assert.Equal(t, []string{"Bearer x"}, sent.Header.Values("Authorization"))
			assert.Len(t, sent.Header.Values("Last-Event-ID"), 1)
		}
		assert.Equal(t, "4", req.Header.Get("Last-Event-ID"), "the caller's request is unchanged")

		server = &script{answers: []answer{reset("id\ndata: a\n\n"), done}} // an empty ID resets the ID of the request
		_, err = collect((&sse.Stream{Client: over(server), Policy: patient, Lossy: true}).Events(req))
		require.NoError(t, err)
		assert.Equal(t, []string{"4", ""}, server.ids())

		server = &script{answers: []answer{stream(event(5, "a")), done}}
		bare := &http.Request{URL: &url.URL{Scheme: "http", Host: "example.test"}} // the Header is nil
		_, err = collect((&sse.Stream{Client: over(server), Policy: patient}).Events(bare))
		require.NoError(t, err)
		assert.Equal(t, "5", server.sent[1].Header.Get("Last-Event-ID"))
	})
}

// If a GET has a body that can be sent again, each connection sends the body.
func TestGETWithABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []string
		server := &script{answers: []answer{reset(event(1, "a")), status(503), done}}
		s := &sse.Stream{Policy: patient, Client: over(roundTrip(func(req *http.Request) (*http.Response, error) {
			body := make([]byte, 10)
			n, _ := req.Body.Read(body)
			bodies = append(bodies, string(body[:n]))
			return server.RoundTrip(req)
		}))}
		req := request(t, "POST")
		req.Method = "GET"
		_, err := collect(s.Events(req))
		require.NoError(t, err)
		assert.Equal(t, []string{"{}", "{}", "{}"}, bodies)
	})
	bubble(t, "http.NoBody is not a body", func(t *testing.T) {
		server := &script{answers: []answer{reset(event(1, "a")), done}}
		req := request(t, "GET")
		req.Body = http.NoBody
		_, err := collect((&sse.Stream{Client: over(server), Policy: patient}).Events(req))
		require.NoError(t, err)
		assert.Equal(t, []string{"", "1"}, server.ids())
	})
	bubble(t, "without GetBody it is sent once", func(t *testing.T) {
		server := &script{answers: []answer{reset(event(1, "a")), done}}
		req := request(t, "POST")
		req.Method, req.GetBody = "GET", nil
		s := &sse.Stream{Client: over(server), Policy: patient}
		events, err := collect(s.Events(req))
		assert.Equal(t, []string{"1 a"}, events)
		assert.Len(t, server.sent, 1)
		require.ErrorIs(t, err, errReset)
		assert.ErrorContains(t, err, "cannot go on, because the body of its request needs a GetBody")
		require.ErrorAs(t, err, new(*sse.BrokenError))
	})
}

// A POST of the Model Context Protocol is continued by a GET.
func TestResumeByGET(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &script{answers: []answer{reset(event("s/1", "{}")), status(503), stream(event("s/2", "{}")), done}}
		req := request(t, "POST")
		for _, name := range []string{"Mcp-Session-Id", "Content-Type", "Content-Digest", "Repr-Digest", "Expect", "Idempotency-Key", "x-idempotency-key"} {
			req.Header[name] = []string{name}
		}
		s := &sse.Stream{Client: over(server), Policy: patient, Resume: sse.ResumeByGET(req)}
		events, err := collect(s.Events(req))
		require.NoError(t, err)
		assert.Equal(t, []string{"s/1 {}", "s/2 {}"}, events)
		assert.Equal(t, []string{"POST", "s/1", "s/1", "s/2"}, server.ids())
		get := server.sent[1]
		assert.Nil(t, get.Body)
		assert.Zero(t, get.ContentLength)
		assert.Equal(t, []string{"Accept", "Cache-Control", "Last-Event-Id", "Mcp-Session-Id"}, slices.Sorted(maps.Keys(get.Header)))

		server = &script{answers: []answer{reset("data: {}\n\n")}}
		s = &sse.Stream{Client: over(server), Policy: patient, Resume: sse.ResumeByGET(req)}
		_, err = collect(s.Events(request(t, "POST")))
		require.ErrorContains(t, err, "because Resume failed: the events of the stream have no ID")
	})
}

// Resume gets the last event with the newest ID, in a context that has no policy of its own.
func TestResumeGetsTheLastEventWithTheNewestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got sse.Event
		server := &script{answers: []answer{reset("event: x\n" + event(1, "a") + "id: 2\n\n"), done}}
		s := &sse.Stream{Client: over(server), Policy: patient}
		s.Resume = func(ctx context.Context, last sse.Event) (*http.Request, error) {
			got = last
			return http.NewRequestWithContext(ctx, "GET", "http://example.test/next", nil)
		}
		_, err := collect(s.Events(request(t, "POST")))
		require.NoError(t, err)
		assert.Equal(t, sse.Event{Name: "x", Data: []byte("a"), ID: "2"}, got)
		assert.Equal(t, []string{"POST", "2"}, server.ids())
		assert.Equal(t, "/next", server.sent[1].URL.Path)
	})
}

// A RoundTripper that is not from net/http may return a response without a body, or no response. It
// may do so in time or too late.
func TestNoBody(t *testing.T) {
	for name, resp := range map[string]*http.Response{
		"no response": nil,
		"no body":     {StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}},
	} {
		for _, after := range []time.Duration{0, 2 * second} {
			bubble(t, fmt.Sprint(name, " after ", after), func(t *testing.T) {
				sent := 0
				s := &sse.Stream{
					Policy: retry.Policy{MaxAttempts: 2, AttemptTimeout: second},
					Client: over(roundTrip(func(*http.Request) (*http.Response, error) {
						time.Sleep(after)
						sent++
						return resp, nil
					})),
				}
				events, err := collect(s.Events(request(t, "GET")))
				assert.Empty(t, events)
				switch {
				case after > 0:
					assert.ErrorContains(t, err, "sse: no headers within AttemptTimeout")
				case resp == nil:
					assert.ErrorContains(t, err, "returned neither a response nor an error")
				default:
					assert.NoError(t, err, "a stream without a body ends without an error")
					assert.Equal(t, 1, sent)
				}
			})
		}
	}
}

// A Transport applies also if it is http.DefaultTransport, and the Client does not name it.
func TestATransportThatIsTheDefault(t *testing.T) {
	before := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = before })
	policy := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(time.Millisecond)}
	for name, client := range map[string]func() *http.Client{
		"no Client":                           func() *http.Client { return nil },
		"a Client without a Transport":        func() *http.Client { return &http.Client{} },
		"a Client with http.DefaultTransport": func() *http.Client { return &http.Client{Transport: http.DefaultTransport} },
	} {
		t.Run(name, func(t *testing.T) {
			var asked, prepared atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(429)
				_, _ = io.WriteString(w, `{"error":{"code":"insufficient_quota"}}`)
			}))
			defer server.Close()
			tr := retryhttp.LLM(policy)
			tr.Prepare = func(*http.Request, int, error) error { prepared.Add(1); return nil }
			http.DefaultTransport = tr
			req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL, nil)
			require.NoError(t, err)
			_, err = collect((&sse.Stream{Client: client(), Policy: policy}).Events(req))
			assert.ErrorContains(t, err, "the account cannot pay: insufficient_quota")
			assert.Equal(t, [...]int64{1, 1}, [...]int64{asked.Load(), prepared.Load()})
		})
	}
}
