package retryconnect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryconnect"
	"github.com/goretry/retry/adapters/retryrpc/calltest"
	"github.com/goretry/retry/retryhttp"
)

// Mark and the interceptor treat an error in the same way.
func TestCodes(t *testing.T) {
	named := func(code connect.Code, wait time.Duration, headers ...string) error {
		err := withRetryInfo(code, wait)
		for i := 0; i < len(headers); i += 2 {
			err.Meta().Add(headers[i], headers[i+1])
		}
		return err
	}
	const info, pushback, after, hour = time.Duration(-1), "Grpc-Retry-Pushback-Ms", "Retry-After", time.Hour // info: a RetryInfo with no effect
	const forbids = "(not retried: the server forbids it, grpc-retry-pushback-ms is "
	retryAborted := []connect.Code{connect.CodeAborted}
	garbage := failed(connect.CodeUnavailable)
	detail, err := connect.NewErrorDetail(&anypb.Any{TypeUrl: "moon", Value: []byte{0xff}})
	require.NoError(t, err)
	garbage.AddDetail(detail)
	for _, tc := range []struct {
		name   string
		err    error
		codes  []connect.Code
		reason retry.Reason // the Reason under a policy with two attempts
		wait   time.Duration
		text   string
	}{
		{"canceled", failed(connect.CodeCanceled), nil, retry.ReasonPermanent, 0, ""},
		{"no code", errors.New("no code"), nil, retry.ReasonPermanent, 0, ""},
		{"wrapped", fmt.Errorf("ship: %w", failed(connect.CodeUnavailable)), nil, retry.ReasonExhausted, 0, ""},
		{"invalid_argument", failed(connect.CodeInvalidArgument), nil, retry.ReasonPermanent, 0, ""},
		{"deadline_exceeded", failed(connect.CodeDeadlineExceeded), nil, retry.ReasonPermanent, 0, ""},
		{"resource_exhausted", failed(connect.CodeResourceExhausted), nil, retry.ReasonPermanent, 0, ""},
		{"resource_exhausted with RetryInfo", named(connect.CodeResourceExhausted, time.Millisecond), nil, retry.ReasonExhausted, time.Millisecond, ""},
		{"resource_exhausted with a RetryInfo of 0", named(connect.CodeResourceExhausted, 0), nil, retry.ReasonExhausted, 0, ""},
		{"resource_exhausted with Retry-After", withHeader(connect.CodeResourceExhausted, after, "0"), nil, retry.ReasonExhausted, 1, ""},
		{"resource_exhausted with an invalid Retry-After", withHeader(connect.CodeResourceExhausted, after, "soon"), nil, retry.ReasonPermanent, 0, ""},
		{"aborted", failed(connect.CodeAborted), nil, retry.ReasonPermanent, 0, ""},
		{"aborted, in Codes", failed(connect.CodeAborted), retryAborted, retry.ReasonExhausted, 0, ""},
		{"internal with RetryInfo", named(connect.CodeInternal, time.Millisecond), nil, retry.ReasonPermanent, 0, ""},
		{"unavailable", failed(connect.CodeUnavailable), nil, retry.ReasonExhausted, 0, ""},
		{"unavailable, not in Codes", failed(connect.CodeUnavailable), retryAborted, retry.ReasonPermanent, 0, ""},
		{"garbage", garbage, nil, retry.ReasonExhausted, 0, ""},
		{"a negative RetryInfo", named(connect.CodeUnavailable, -hour), nil, retry.ReasonExhausted, 0, ""},
		{"RetryInfo", named(connect.CodeUnavailable, hour), nil, retry.ReasonRetryAfter, hour, ""},
		{"Retry-After", named(connect.CodeUnavailable, info, after, "3600"), nil, retry.ReasonRetryAfter, hour, ""},
		{"pushback", named(connect.CodeUnavailable, info, pushback, "3600000"), nil, retry.ReasonRetryAfter, hour, ""},
		{"the longest is RetryInfo", named(connect.CodeUnavailable, hour, after, "1", pushback, "1500"), nil, retry.ReasonRetryAfter, hour, ""},
		{"the longest is Retry-After", named(connect.CodeUnavailable, time.Second, after, "3600", pushback, "1500"), nil, retry.ReasonRetryAfter, hour, ""},
		{"the longest is the pushback", named(connect.CodeUnavailable, time.Second, after, "1", pushback, "3600000"), nil, retry.ReasonRetryAfter, hour, ""},
		{"a retry is forbidden", named(connect.CodeUnavailable, info, pushback, "-1"), nil, retry.ReasonPermanent, 0, forbids + `["-1"])`},
	} {
		marked := retryconnect.Mark(tc.err, tc.codes...)
		assert.Equal(t, tc.reason == retry.ReasonPermanent, retry.IsPermanent(marked), tc.name)
		assert.Equal(t, tc.wait, retry.RetryAfterOf(marked), tc.name)
		assert.ErrorIs(t, marked, tc.err, tc.name)
		for protocol, options := range protocols {
			for _, kind := range []string{"unary", "server stream"} {
				s, p := &server{answer: func(context.Context, int) error { return tc.err }}, soon()
				p.MaxAttempts, p.MaxRetryAfter = 2, time.Second
				err := calls[kind](t.Context(), s.start(t, &retryconnect.Interceptor{Policy: p, Codes: tc.codes}, options...))
				assert.Equal(t, tc.reason, retry.ReasonOf(err), "%s, %s, %s: %v", tc.name, protocol, kind, err)
				assert.Equal(t, connect.CodeOf(tc.err), connect.CodeOf(err), "%s, %s, %s", tc.name, protocol, kind)
				assert.ErrorContains(t, err, tc.text, "%s, %s, %s", tc.name, protocol, kind)
			}
		}
	}
	require.NoError(t, retryconnect.Mark(nil))
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

	// A number that a proxy passes on is replaced, and not sent together with the new number.
	s := &server{answer: failTimes(1, connect.CodeUnavailable)}
	req := connect.NewRequest(wrapperspb.String(""))
	req.Header().Set("Grpc-Previous-Rpc-Attempts", "7")
	_, err := s.start(t, &retryconnect.Interceptor{Policy: soon()}).unary.CallUnary(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, []string{"7", "1"}, s.previous)
	assert.Equal(t, []string{"7"}, req.Header().Values("Grpc-Previous-Rpc-Attempts"))
}

// A transport may still be reading the headers of an abandoned attempt.
func TestEachAttemptHasItsOwnHeaders(t *testing.T) {
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
	i.Methods = map[string]retry.Policy{"test.Texts/Unary": {}}
	assert.EqualError(t, i.Validate(), `retryconnect: Methods has "test.Texts/Unary": write "/pkg.Service/Method", or "/pkg.Service/" for all other methods`)
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
		for ctx, code := range map[context.Context]connect.Code{canceled: connect.CodeCanceled, late: connect.CodeDeadlineExceeded} {
			s := &server{}
			err := call(ctx, s.start(t, &retryconnect.Interceptor{Policy: soon()}))
			assert.Equal(t, code, connect.CodeOf(err), name)
			assert.ErrorIs(t, err, ctx.Err(), name)
			assert.Zero(t, s.attempts(), name)
		}
	}
}

// An Interceptor may be given to handlers too. It does not change them.
func TestHandlersAreUnchanged(t *testing.T) {
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

// The client calls A, A calls B, and B calls a leaf, with four attempts each. Under a Budget of
// 3, the leaf gets 4 calls in each protocol. Without the lease of retryhttp it gets 64 calls.
func TestBudgetOverThreeLayers(t *testing.T) {
	for protocol, options := range protocols {
		for name, call := range calls {
			for want, lease := range map[int]bool{64: false, 4: true} {
				t.Run(protocol+" "+name, func(t *testing.T) {
					leaf := &server{answer: alwaysFail(connect.CodeUnavailable)}
					retries := connect.WithInterceptors(&retryconnect.Interceptor{Policy: soon(), Budgets: retryconnect.NoBudgets})
					start := func(s *server) client {
						url, httpClient := serve(t, s.handler())
						if lease {
							url, httpClient = serve(t, retryhttp.BorrowBudget(s.handler(), 3))
							httpClient.Transport = retryhttp.LendBudget(httpClient.Transport, 3)
						}
						return newClient(httpClient, url, append([]connect.ClientOption{retries}, options...)...)
					}
					below := start(leaf)
					for range 2 {
						next := below
						below = start(&server{answer: func(ctx context.Context, _ int) error {
							return connect.NewError(connect.CodeOf(call(ctx, next)), errors.New("below"))
						}})
					}
					budget := &retry.Budget{Size: 3}
					err := call(retry.WithBudget(t.Context(), budget), below)
					assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
					assert.Equal(t, []int{want, 0}, []int{leaf.attempts(), budget.Left()})
				})
			}
		}
	}
}

func TestBlips(t *testing.T) {
	calltest.Blips(t, func(t *testing.T, up func() bool) func(context.Context) error {
		client := newClient(&http.Client{Transport: answers(up)}, "http://orders", connect.WithInterceptors(&retryconnect.Interceptor{Policy: retry.Default()}))
		return func(ctx context.Context) error { return calls["unary"](ctx, client) }
	})
}

// answers is a transport to a server in memory that answers if it is up.
type answers func() bool

func (up answers) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/proto"}}, Body: http.NoBody, Request: req}
	if !up() {
		resp.StatusCode, resp.Header = 503, http.Header{"Content-Type": {"application/json"}}
		resp.Body = io.NopCloser(strings.NewReader(`{"code": "unavailable"}`))
	}
	return resp, nil
}

// All kinds of calls to a target share its Budget.
func TestBudgetOfATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		down := answers(func() bool { attempts.Add(1); return false })
		client := newClient(&http.Client{Transport: down}, "http://down.test", connect.WithInterceptors(&retryconnect.Interceptor{Policy: soon()}))
		for range 5 {
			for _, call := range calls {
				_ = call(t.Context(), client)
				time.Sleep(time.Second) // the Grace is over before the Budget is empty
			}
		}
		assert.EqualValues(t, 5*len(calls)+10, attempts.Load())
		err := calls["unary"](t.Context(), client)
		assert.ErrorContains(t, err, "see Interceptor.Budgets")
		assert.Equal(t, retry.ReasonBudget, retry.ReasonOf(err))
	})
	s, targets := &server{answer: alwaysFail(connect.CodeUnavailable)}, map[string]bool{}
	client := s.start(t, &retryconnect.Interceptor{Policy: soon(), Budgets: func(target string) *retry.Budget {
		targets[target] = true
		return retryconnect.NoBudgets(target)
	}})
	for name, call := range calls {
		before := s.attempts()
		_ = call(t.Context(), client)
		assert.Equal(t, 4, s.attempts()-before, name)
	}
	assert.Len(t, targets, 1)
	for target := range targets {
		assert.Regexp(t, `^127\.0\.0\.1:\d+$`, target)
	}
}
