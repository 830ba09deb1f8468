package retrygrpc_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrygrpc"
)

// Mark and the interceptors treat an error in the same way.
func TestCodes(t *testing.T) {
	endless, err := anypb.New(&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: math.MaxInt64, Nanos: math.MinInt32}})
	require.NoError(t, err)
	garbage := []*anypb.Any{{TypeUrl: endless.TypeUrl, Value: []byte{0xff}}, {TypeUrl: "moon"}, nil}
	detailed := func(details ...*anypb.Any) error {
		return status.FromProto(&statuspb.Status{Code: int32(codes.Unavailable), Details: details}).Err()
	}
	aborted := []codes.Code{codes.Aborted}
	for _, tc := range []struct {
		name      string
		err       error
		codes     []codes.Code
		permanent bool
		wait      time.Duration
	}{
		{"CANCELED", status.Error(codes.Canceled, ""), nil, true, 0},
		{"no status", errors.New("boom"), nil, true, 0},
		{"wrapped", fmt.Errorf("ship: %w", status.Error(codes.Unavailable, "")), nil, false, 0},
		{"INVALID_ARGUMENT", status.Error(codes.InvalidArgument, ""), nil, true, 0},
		{"DEADLINE_EXCEEDED", status.Error(codes.DeadlineExceeded, ""), nil, true, 0},
		{"RESOURCE_EXHAUSTED", status.Error(codes.ResourceExhausted, ""), nil, true, 0},
		{"RESOURCE_EXHAUSTED with RetryInfo", withRetryInfo(codes.ResourceExhausted, time.Millisecond), nil, false, time.Millisecond},
		{"RESOURCE_EXHAUSTED with a RetryInfo of 0", withRetryInfo(codes.ResourceExhausted, 0), nil, false, 0},
		{"RESOURCE_EXHAUSTED, in Codes", status.Error(codes.ResourceExhausted, ""), []codes.Code{codes.ResourceExhausted}, false, 0},
		{"ABORTED", status.Error(codes.Aborted, ""), nil, true, 0},
		{"ABORTED, in Codes", status.Error(codes.Aborted, ""), aborted, false, 0},
		{"INTERNAL with RetryInfo", withRetryInfo(codes.Internal, time.Millisecond), nil, true, 0},
		{"UNAVAILABLE", status.Error(codes.Unavailable, ""), nil, false, 0},
		{"UNAVAILABLE, not in Codes", status.Error(codes.Unavailable, ""), aborted, true, 0},
		{"the longest RetryInfo", withRetryInfo(codes.Unavailable, 1, time.Millisecond, -time.Hour), nil, false, time.Millisecond},
		{"a negative RetryInfo", withRetryInfo(codes.Unavailable, -time.Hour), nil, false, 0},
		{"an endless RetryInfo", detailed(endless), nil, false, math.MaxInt64},
		{"garbage", detailed(garbage...), nil, false, 0},
	} {
		marked := retrygrpc.Mark(tc.err, tc.codes...)
		assert.Equal(t, tc.permanent, retry.IsPermanent(marked), tc.name)
		assert.Equal(t, tc.wait, retry.RetryAfterOf(marked), tc.name)
		assert.ErrorIs(t, marked, tc.err, tc.name)

		attempts, reason := 4, retry.ReasonExhausted
		switch {
		case tc.permanent:
			attempts, reason = 1, retry.ReasonPermanent
		case tc.wait == math.MaxInt64:
			attempts, reason = 1, retry.ReasonRetryAfter
		}
		s := &server{answer: func(context.Context, int) error { return tc.err }}
		err := calls["unary"](t.Context(), s.start(t, retrygrpc.Interceptor{Policy: soon(), Codes: tc.codes}))
		assert.Equal(t, attempts, s.attempts(), tc.name)
		assert.Equal(t, status.Code(tc.err), status.Code(err), tc.name)
		assert.Equal(t, reason, retry.ReasonOf(err), tc.name)
	}
	require.NoError(t, retrygrpc.Mark(nil))

	timeout := soon()
	timeout.AttemptTimeout = time.Minute
	s := &server{answer: alwaysFail(codes.DeadlineExceeded)}
	require.Error(t, calls["unary"](t.Context(), s.start(t, retrygrpc.Interceptor{Policy: timeout})))
	assert.Equal(t, 4, s.attempts(), "DEADLINE_EXCEEDED under an AttemptTimeout")
}

func TestPushback(t *testing.T) {
	const forbids = "(not retried: the server forbids it, grpc-retry-pushback-ms is "
	for _, tc := range []struct {
		name   string
		code   codes.Code
		values []string // the values in the first attempt; later attempts have none
		waits  []time.Duration
		text   string
	}{
		{"a wait", codes.Unavailable, []string{"7"}, []time.Duration{7 * time.Millisecond, 0, 0}, "attempts exhausted"},
		{"a wait of 0: the policy's delay", codes.Unavailable, []string{"0"}, []time.Duration{0, 0, 0}, "attempts exhausted"},
		{"a wait for RESOURCE_EXHAUSTED", codes.ResourceExhausted, []string{"7"}, []time.Duration{7 * time.Millisecond}, "permanent error after 2 attempts"},
		{"a wait for a code that is not retried", codes.Internal, []string{"7"}, nil, "permanent error"},
		{"a wait of centuries", codes.Unavailable, []string{"9223372036854775807"}, nil, "gave up after 1 attempt (Retry-After is 292 years"},
		{"a wait above the largest integer", codes.Unavailable, []string{"9223372036854775808"}, nil, forbids + `["9223372036854775808"])`},
		{"a retry is forbidden", codes.Unavailable, []string{"-1"}, nil, forbids + `["-1"])`},
		{"not a number", codes.Unavailable, []string{"soon"}, nil, forbids + `["soon"])`},
		{"nothing", codes.Unavailable, []string{""}, nil, forbids + `[""])`},
		{"two values", codes.Unavailable, []string{"7", "8"}, nil, forbids + `["7" "8"])`},
	} {
		for _, kind := range []string{"unary", "server stream"} {
			var waits []time.Duration
			p := soon()
			p.OnEvent = func(_ context.Context, e retry.Event) {
				if e.Kind == retry.RetryScheduled {
					waits = append(waits, e.RetryAfter)
				}
			}
			s := &server{answer: func(ctx context.Context, attempt int) error {
				if attempt == 1 {
					pushback(ctx, tc.values...)
				}
				return status.Error(tc.code, "busy")
			}}
			err := calls[kind](t.Context(), s.start(t, retrygrpc.Interceptor{Policy: p}))
			assert.Equal(t, tc.waits, waits, "%s, %s", tc.name, kind)
			assert.Equal(t, len(waits)+1, s.attempts(), "%s, %s", tc.name, kind)
			assert.Equal(t, tc.code, status.Code(err), "%s, %s", tc.name, kind)
			assert.ErrorContains(t, err, tc.text, "%s, %s", tc.name, kind)
		}
	}
}

// If an attempt opens no stream, the call option still contains the trailer of an earlier
// attempt. This trailer must not count again.
func TestPushbackOfAnAttemptWithoutAStream(t *testing.T) {
	attempts := 0
	each := func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if attempts++; attempts > 1 {
			return status.Error(codes.ResourceExhausted, "the message is too large")
		}
		*options[len(options)-1].(grpc.TrailerCallOption).TrailerAddr = metadata.Pairs("grpc-retry-pushback-ms", "1")
		return status.Error(codes.ResourceExhausted, "slow down")
	}
	err := calls["unary"](t.Context(), dial(t, "127.0.0.1:1", append(dialOptions(t, retrygrpc.Interceptor{Policy: soon()}), grpc.WithChainUnaryInterceptor(each))...))
	assert.Equal(t, 2, attempts)
	assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
}

// A number that a proxy passes on is replaced, and not sent together with the new number.
func TestAttemptsAreNumbered(t *testing.T) {
	for name, call := range calls {
		for first, ctx := range map[string]context.Context{"none": t.Context(), "7": metadata.AppendToOutgoingContext(t.Context(), "grpc-previous-rpc-attempts", "7")} {
			s := &server{answer: failTimes(3, codes.Unavailable)}
			require.NoError(t, call(ctx, s.start(t, retrygrpc.Interceptor{Policy: soon()})), name)
			assert.Equal(t, []string{first, "1", "2", "3"}, s.previous, name)
		}
	}
}

func TestPolicyOfAMethod(t *testing.T) {
	three, two := soon(), soon()
	three.MaxAttempts, two.MaxAttempts = 3, 2
	s := &server{answer: alwaysFail(codes.Unavailable)}
	client := s.start(t, retrygrpc.Interceptor{Policy: soon(), Methods: map[string]retry.Policy{
		grpc_testing.TestService_UnaryCall_FullMethodName:           {},
		grpc_testing.TestService_StreamingOutputCall_FullMethodName: two,
		"/grpc.testing.TestService/":                                three,
		"/shop.Orders/":                                             {},
		"/shop.Orders/EmptyCall":                                    {},
	}})
	for name, attempts := range map[string]int{"unary": 1, "server stream": 2, "client stream": 3, "bidirectional stream": 3} {
		before := s.attempts()
		require.Error(t, calls[name](t.Context(), client), name)
		assert.Equal(t, attempts, s.attempts()-before, name)
	}
}

func TestStatusOfTheError(t *testing.T) {
	s := &server{answer: func(context.Context, int) error { return withRetryInfo(codes.Unavailable, time.Millisecond) }}
	err := calls["unary"](t.Context(), s.start(t, retrygrpc.Interceptor{Policy: soon()}))
	got, ok := status.FromError(fmt.Errorf("ship: %w", err))
	require.True(t, ok)
	assert.Equal(t, codes.Unavailable, got.Code())
	assert.Equal(t, "ship: retry: attempts exhausted after 4 attempts (3ms waited): rpc error: code = Unavailable desc = slow down", got.Message())
	assert.Len(t, got.Details(), 1)
	assert.Equal(t, "slow down", status.Convert(retry.Unwrap(err)).Message())
}

// If no attempt was made, there is no status. The code is the code of the context's error, as
// in gRPC.
func TestStatusWithoutAnAttempt(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for name, call := range calls {
		for ctx, code := range map[context.Context]codes.Code{canceled: codes.Canceled, late: codes.DeadlineExceeded} {
			s := &server{}
			err := call(ctx, s.start(t, retrygrpc.Interceptor{Policy: soon()}))
			assert.Equal(t, code, status.Code(err), name)
			assert.ErrorIs(t, err, ctx.Err(), name)
			assert.ErrorContains(t, err, " before the first attempt ("+ctx.Err().Error()+")", name)
			assert.Zero(t, s.attempts(), name)
		}
	}
}

const twoAttempts = `{"methodConfig": [{"name": [{"service": "grpc.testing.TestService"}], "retryPolicy": {
	"maxAttempts": 2, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// The interceptor and gRPC together would make 8 attempts.
func TestAServiceConfigThatRetriesToo(t *testing.T) {
	for name, call := range calls {
		s := &server{answer: alwaysFail(codes.Unavailable)}
		client := dial(t, s.serve(t), append(dialOptions(t, retrygrpc.Interceptor{Policy: soon()}), grpc.WithDefaultServiceConfig(twoAttempts))...)
		err := call(t.Context(), client)
		assert.Equal(t, 4, s.attempts(), "%s: only the attempts of the interceptor", name)
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err), name)
	}
}

// If a server asks for a wait, it refuses only one of 20 calls that follow each other.
func TestRecipeGate(t *testing.T) {
	s := &server{answer: func(_ context.Context, attempt int) error {
		if attempt > 1 {
			return nil
		}
		return withRetryInfo(codes.ResourceExhausted, 20*time.Millisecond)
	}}
	client := orders{dial(t, s.serve(t))}
	gate, order := new(retry.Gate), &grpc_testing.SimpleRequest{}

	ship := gate.Hold("orders", func(ctx context.Context) error {
		_, err := client.Ship(ctx, order)
		return retrygrpc.Mark(err)
	})

	for range 20 {
		require.NoError(t, retry.Do(t.Context(), retry.Policy{MaxAttempts: 2}, ship))
	}
	assert.Equal(t, 21, s.attempts())
}

// orders is like the client that protoc-gen-go-grpc generates for a service with a method Ship.
type orders struct{ grpc_testing.TestServiceClient }

func (o orders) Ship(ctx context.Context, order *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return o.UnaryCall(ctx, order)
}
