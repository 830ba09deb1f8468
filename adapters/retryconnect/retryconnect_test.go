package retryconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryconnect"
)

func TestCodes(t *testing.T) {
	timeout := soon()
	timeout.AttemptTimeout = time.Minute
	for _, tc := range []struct {
		name     string
		i        *retryconnect.Interceptor
		err      error
		attempts int
	}{
		{"canceled", &retryconnect.Interceptor{Policy: soon()}, failed(connect.CodeCanceled), 1},
		{"unknown", &retryconnect.Interceptor{Policy: soon()}, errors.New("no code"), 1},
		{"invalid_argument", &retryconnect.Interceptor{Policy: soon()}, failed(connect.CodeInvalidArgument), 1},
		{"deadline_exceeded without an AttemptTimeout", &retryconnect.Interceptor{Policy: soon()}, failed(connect.CodeDeadlineExceeded), 1},
		{"deadline_exceeded with one", &retryconnect.Interceptor{Policy: timeout}, failed(connect.CodeDeadlineExceeded), 4},
		{"resource_exhausted", &retryconnect.Interceptor{Policy: soon()}, failed(connect.CodeResourceExhausted), 1},
		{"resource_exhausted with RetryInfo", &retryconnect.Interceptor{Policy: soon()}, withRetryInfo(connect.CodeResourceExhausted, time.Millisecond), 4},
		{"resource_exhausted with a RetryInfo of 0", &retryconnect.Interceptor{Policy: soon()}, withRetryInfo(connect.CodeResourceExhausted, 0), 4},
		{"resource_exhausted with Retry-After", &retryconnect.Interceptor{Policy: soon()}, withHeader(connect.CodeResourceExhausted, "Retry-After", "0"), 4},
		{"resource_exhausted with an invalid Retry-After", &retryconnect.Interceptor{Policy: soon()}, withHeader(connect.CodeResourceExhausted, "Retry-After", "soon"), 1},
		{"aborted", &retryconnect.Interceptor{Policy: soon()}, failed(connect.CodeAborted), 1},
		{"internal with RetryInfo", &retryconnect.Interceptor{Policy: soon()}, withRetryInfo(connect.CodeInternal, time.Millisecond), 1},
		{"unavailable", &retryconnect.Interceptor{Policy: soon()}, failed(connect.CodeUnavailable), 4},
		{"unauthenticated", &retryconnect.Interceptor{Policy: soon()}, failed(connect.CodeUnauthenticated), 1},
		{"aborted, in Codes", &retryconnect.Interceptor{Policy: soon(), Codes: []connect.Code{connect.CodeAborted}}, failed(connect.CodeAborted), 4},
		{"unavailable, not in Codes", &retryconnect.Interceptor{Policy: soon(), Codes: []connect.Code{connect.CodeAborted}}, failed(connect.CodeUnavailable), 1},
	} {
		for protocol, options := range protocols {
			s := &server{answer: func(context.Context, int) error { return tc.err }}
			_, err := s.start(t, tc.i, options...).unary.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String("")))
			assert.Equal(t, tc.attempts, s.attempts(), "%s, %s", tc.name, protocol)
			assert.Equal(t, connect.CodeOf(tc.err), connect.CodeOf(err), "%s, %s", tc.name, protocol)
			assert.Equal(t, tc.attempts == 1, retry.IsPermanent(err), "%s, %s", tc.name, protocol)
			assert.Equal(t, tc.attempts == 1, retry.ReasonOf(err) == retry.ReasonPermanent, "%s, %s", tc.name, protocol)
		}
	}
}

func TestWhatTheServerSays(t *testing.T) {
	both := withRetryInfo(connect.CodeUnavailable, 2*time.Second)
	var err *connect.Error
	require.ErrorAs(t, both, &err)
	err.Meta().Set("Retry-After", "1")
	err.Meta().Set("Grpc-Retry-Pushback-Ms", "1500")
	var other *connect.Error
	require.ErrorAs(t, withRetryInfo(connect.CodeUnavailable, time.Second), &other)
	other.Meta().Set("Retry-After", "3")
	const forbids = "(not retried: the server forbids it, grpc-retry-pushback-ms is "
	for _, tc := range []struct {
		name   string
		err    error
		reason retry.Reason
		hint   time.Duration
		text   string
	}{
		{"nothing", failed(connect.CodeUnavailable), retry.ReasonExhausted, 0, ""},
		{"RetryInfo", withRetryInfo(connect.CodeUnavailable, time.Hour), retry.ReasonRetryAfter, time.Hour, ""},
		{"Retry-After", withHeader(connect.CodeUnavailable, "Retry-After", "3600"), retry.ReasonRetryAfter, time.Hour, ""},
		{"pushback", withHeader(connect.CodeUnavailable, "grpc-retry-pushback-ms", "3600000"), retry.ReasonRetryAfter, time.Hour, ""},
		{"the longest of several", both, retry.ReasonRetryAfter, 2 * time.Second, ""},
		{"the longest, in the header", other, retry.ReasonRetryAfter, 3 * time.Second, ""},
		{"pushback of centuries", withHeader(connect.CodeUnavailable, "grpc-retry-pushback-ms", "9223372036854775807"), retry.ReasonRetryAfter, 9223372036 * time.Second, ""},
		{"a retry is forbidden", withHeader(connect.CodeUnavailable, "grpc-retry-pushback-ms", "-1"), retry.ReasonPermanent, 0, forbids + `["-1"])`},
		{"not a number", withHeader(connect.CodeUnavailable, "grpc-retry-pushback-ms", "soon"), retry.ReasonPermanent, 0, forbids + `["soon"])`},
		{"two values", withHeader(connect.CodeUnavailable, "grpc-retry-pushback-ms", "1", "2"), retry.ReasonPermanent, 0, forbids + `["1" "2"])`},
	} {
		p := soon()
		p.MaxAttempts, p.MaxRetryAfter = 2, time.Second
		for protocol, options := range protocols {
			s := &server{answer: func(context.Context, int) error { return tc.err }}
			c := s.start(t, &retryconnect.Interceptor{Policy: p}, options...)
			for _, kind := range []string{"unary", "server stream"} {
				err := calls[kind](t.Context(), c)
				assert.Equal(t, tc.reason, retry.ReasonOf(err), "%s, %s, %s: %v", tc.name, protocol, kind, err)
				assert.ErrorContains(t, err, tc.text, "%s, %s, %s", tc.name, protocol, kind)
				var e *retry.Error
				require.ErrorAs(t, err, &e)
				if tc.hint > 0 {
					assert.Equal(t, tc.hint, e.Delay.Truncate(time.Second), "%s, %s, %s", tc.name, protocol, kind)
				}
			}
		}
	}
}

// A server that does not speak Connect, such as a load balancer, answers with HTTP
// statuses. Connect does not pass its headers on to interceptors.
func TestStatusesOfHTTP(t *testing.T) {
	for _, tc := range []struct {
		status     int
		retryAfter string
		requests   int
		code       connect.Code
		reason     retry.Reason
	}{
		{503, "", 4, connect.CodeUnavailable, retry.ReasonExhausted},
		{502, "", 4, connect.CodeUnavailable, retry.ReasonExhausted},
		{429, "0", 4, connect.CodeUnavailable, retry.ReasonExhausted},
		{503, "3600", 4, connect.CodeUnavailable, retry.ReasonExhausted},
		{404, "", 1, connect.CodeUnimplemented, retry.ReasonPermanent},
		{401, "", 1, connect.CodeUnauthenticated, retry.ReasonPermanent},
	} {
		requests := 0
		url, http := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			if tc.retryAfter != "" {
				w.Header().Set("Retry-After", tc.retryAfter)
			}
			http.Error(w, "sorry", tc.status)
		}))
		err := calls["unary"](t.Context(), newClient(http, url, connect.WithInterceptors(&retryconnect.Interceptor{Policy: soon()})))
		assert.Equal(t, tc.requests, requests, tc.status)
		assert.Equal(t, tc.code, connect.CodeOf(err), tc.status)
		assert.Equal(t, tc.reason, retry.ReasonOf(err), "%d: %v", tc.status, err)
	}
}

func TestNoServer(t *testing.T) {
	for protocol, options := range protocols {
		for name, call := range calls {
			var events []retry.EventKind
			p := soon()
			p.OnEvent = func(_ context.Context, e retry.Event) { events = append(events, e.Kind) }
			c := newClient(http.DefaultClient, "http://127.0.0.1:1", append(options, connect.WithInterceptors(&retryconnect.Interceptor{Policy: p}))...)
			err := call(t.Context(), c)
			assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), "%s, %s", protocol, name)
			assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err), "%s, %s: %v", protocol, name, err)
			assert.Len(t, events, 12, "%s, %s", protocol, name)
		}
	}
}

func TestAttemptsAreNumberedAndTheSame(t *testing.T) {
	for protocol, options := range protocols {
		s := &server{answer: failTimes(2, connect.CodeUnavailable)}
		c := s.start(t, &retryconnect.Interceptor{Policy: soon()}, options...)
		req := connect.NewRequest(wrapperspb.String("hello"))
		req.Header().Set("Tenant", "a")
		resp, err := c.unary.CallUnary(t.Context(), req)
		require.NoError(t, err, protocol)
		assert.Equal(t, "attempt 3", resp.Msg.GetValue(), protocol)
		assert.Equal(t, []string{"none", "1", "2"}, s.previous, protocol)
		assert.Equal(t, []string{"a", "a", "a"}, s.tenants, protocol)
		assert.Equal(t, [][]string{{"hello"}, {"hello"}, {"hello"}}, s.received, protocol)

		// The caller's request is unchanged and may be used again.
		assert.Empty(t, req.Header().Values("Grpc-Previous-Rpc-Attempts"), protocol)
		_, err = c.unary.CallUnary(t.Context(), req)
		require.NoError(t, err, protocol)
		assert.Equal(t, "none", s.previous[3], protocol)
	}

	// A number that a proxy passes on is replaced, not kept beside the new one.
	s := &server{answer: failTimes(1, connect.CodeUnavailable)}
	req := connect.NewRequest(wrapperspb.String(""))
	req.Header().Set("Grpc-Previous-Rpc-Attempts", "7")
	_, err := s.start(t, &retryconnect.Interceptor{Policy: soon()}).unary.CallUnary(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, []string{"7", "1"}, s.previous)
	assert.Equal(t, []string{"7"}, req.Header().Values("Grpc-Previous-Rpc-Attempts"))
}

// A transport may still be reading the headers of an abandoned attempt.
func TestEachAttemptHasHeadersOfItsOwn(t *testing.T) {
	for protocol, options := range protocols {
		var sent []http.Header
		c := newClient(&http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			sent = append(sent, r.Header)
			return nil, errors.New("connection refused")
		})}, "http://127.0.0.1:1", append(options, connect.WithInterceptors(&retryconnect.Interceptor{Policy: soon(), Budgets: retryconnect.NoBudgets}))...)
		for name, call := range calls {
			sent = nil
			require.Error(t, call(t.Context(), c), name)
			var previous [][]string
			for _, header := range sent {
				previous = append(previous, header.Values("Grpc-Previous-Rpc-Attempts"))
			}
			assert.Equal(t, [][]string{nil, {"1"}, {"2"}, {"3"}}, previous, "%s, %s", protocol, name)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestPolicyOfAMethod(t *testing.T) {
	three := soon()
	three.MaxAttempts = 3
	i := &retryconnect.Interceptor{Policy: soon(), Methods: map[string]retry.Policy{unary: {}, "/test.Texts/": three, "/test.Other/": {}}}
	require.NoError(t, i.Validate())
	s := &server{answer: alwaysFail(connect.CodeUnavailable)}
	c := s.start(t, i)
	for name, attempts := range map[string]int{"unary": 1, "server stream": 3, "client stream": 3, "stream in both directions": 3} {
		before := s.attempts()
		require.Error(t, calls[name](t.Context(), c), name)
		assert.Equal(t, attempts, s.attempts()-before, name)
	}

	i.Methods = map[string]retry.Policy{"test.Texts/Unary": {MaxAttempts: -2}}
	assert.EqualError(t, i.Validate(), `retryconnect: Methods has "test.Texts/Unary": write "/pkg.Service/Method", or "/pkg.Service/" for its other methods`+"\n"+
		`retryconnect: Methods["test.Texts/Unary"]: invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited`)
	s = &server{answer: alwaysFail(connect.CodeUnavailable)}
	require.Error(t, calls["unary"](t.Context(), s.start(t, i)))
	assert.Equal(t, 4, s.attempts(), "the default Policy, because no name matches")
}

func TestTheError(t *testing.T) {
	s := &server{answer: alwaysFail(connect.CodeUnavailable)}
	err := calls["unary"](t.Context(), s.start(t, &retryconnect.Interceptor{Policy: soon()}))
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(fmt.Errorf("ship: %w", err)))
	assert.EqualError(t, err, "retry: attempts exhausted after 4 attempts (3ms waited): unavailable: failure 4")
	assert.EqualError(t, retry.Unwrap(err), "unavailable: failure 4")

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for name, call := range calls {
		s := &server{answer: failTimes(0, 0)}
		c := s.start(t, &retryconnect.Interceptor{Policy: soon()})
		err := call(canceled, c)
		assert.Equal(t, connect.CodeCanceled, connect.CodeOf(err), name)
		assert.ErrorIs(t, err, context.Canceled, name)
		err = call(late, c)
		assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err), name)
		assert.ErrorIs(t, err, context.DeadlineExceeded, name)
		assert.Zero(t, s.attempts(), name)
	}
}

func TestMark(t *testing.T) {
	require.NoError(t, retryconnect.Mark(nil))
	for _, tc := range []struct {
		name      string
		err       error
		codes     []connect.Code
		permanent bool
		wait      time.Duration
	}{
		{"unavailable", failed(connect.CodeUnavailable), nil, false, 0},
		{"unavailable with RetryInfo", withRetryInfo(connect.CodeUnavailable, time.Second), nil, false, time.Second},
		{"unavailable with Retry-After", withHeader(connect.CodeUnavailable, "Retry-After", "7"), nil, false, 7 * time.Second},
		{"not_found", failed(connect.CodeNotFound), nil, true, 0},
		{"not_found, given as retryable", failed(connect.CodeNotFound), []connect.Code{connect.CodeNotFound}, false, 0},
		{"wrapped", fmt.Errorf("ship: %w", failed(connect.CodeUnavailable)), nil, false, 0},
		{"no code", errors.New("boom"), nil, true, 0},
	} {
		err := retryconnect.Mark(tc.err, tc.codes...)
		assert.Equal(t, tc.permanent, retry.IsPermanent(err), tc.name)
		assert.Equal(t, tc.wait, retry.RetryAfterOf(err), tc.name)
		assert.ErrorIs(t, err, tc.err, tc.name)
	}
}

// An Interceptor may be given to handlers too. It does not change them.
func TestHandlersAreLeftAlone(t *testing.T) {
	s := &server{answer: alwaysFail(connect.CodeUnavailable)}
	retries := connect.WithInterceptors(&retryconnect.Interceptor{Policy: soon()})
	mux := http.NewServeMux()
	mux.Handle(unary, connect.NewUnaryHandler(unary, s.unary, retries))
	mux.Handle(down, connect.NewServerStreamHandler(down, s.down, retries))
	url, http := serve(t, mux)
	c := newClient(http, url)
	for _, kind := range []string{"unary", "server stream"} {
		before := s.attempts()
		err := calls[kind](t.Context(), c)
		assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err), kind)
		assert.Equal(t, 1, s.attempts()-before, kind)
	}
}
