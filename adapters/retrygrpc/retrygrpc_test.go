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

func TestCodes(t *testing.T) {
	timeout := soon()
	timeout.AttemptTimeout = time.Minute
	for _, tc := range []struct {
		name     string
		i        retrygrpc.Interceptor
		err      error
		attempts int
	}{
		{"CANCELED", retrygrpc.Interceptor{Policy: soon()}, status.Error(codes.Canceled, ""), 1},
		{"UNKNOWN", retrygrpc.Interceptor{Policy: soon()}, errors.New("no status"), 1},
		{"INVALID_ARGUMENT", retrygrpc.Interceptor{Policy: soon()}, status.Error(codes.InvalidArgument, ""), 1},
		{"DEADLINE_EXCEEDED without an AttemptTimeout", retrygrpc.Interceptor{Policy: soon()}, status.Error(codes.DeadlineExceeded, ""), 1},
		{"DEADLINE_EXCEEDED with one", retrygrpc.Interceptor{Policy: timeout}, status.Error(codes.DeadlineExceeded, ""), 4},
		{"NOT_FOUND", retrygrpc.Interceptor{Policy: soon()}, status.Error(codes.NotFound, ""), 1},
		{"RESOURCE_EXHAUSTED", retrygrpc.Interceptor{Policy: soon()}, status.Error(codes.ResourceExhausted, ""), 1},
		{"RESOURCE_EXHAUSTED with RetryInfo", retrygrpc.Interceptor{Policy: soon()}, withRetryInfo(codes.ResourceExhausted, time.Millisecond), 4},
		{"RESOURCE_EXHAUSTED with a RetryInfo of 0", retrygrpc.Interceptor{Policy: soon()}, withRetryInfo(codes.ResourceExhausted, 0), 4},
		{"ABORTED", retrygrpc.Interceptor{Policy: soon()}, status.Error(codes.Aborted, ""), 1},
		{"INTERNAL", retrygrpc.Interceptor{Policy: soon()}, status.Error(codes.Internal, ""), 1},
		{"INTERNAL with RetryInfo", retrygrpc.Interceptor{Policy: soon()}, withRetryInfo(codes.Internal, time.Millisecond), 1},
		{"UNAVAILABLE", retrygrpc.Interceptor{Policy: soon()}, status.Error(codes.Unavailable, ""), 4},
		{"UNAUTHENTICATED", retrygrpc.Interceptor{Policy: soon()}, status.Error(codes.Unauthenticated, ""), 1},
		{"ABORTED, in Codes", retrygrpc.Interceptor{Policy: soon(), Codes: []codes.Code{codes.Aborted}}, status.Error(codes.Aborted, ""), 4},
		{"UNAVAILABLE, not in Codes", retrygrpc.Interceptor{Policy: soon(), Codes: []codes.Code{codes.Aborted}}, status.Error(codes.Unavailable, ""), 1},
		{"RESOURCE_EXHAUSTED, in Codes", retrygrpc.Interceptor{Policy: soon(), Codes: []codes.Code{codes.ResourceExhausted}}, status.Error(codes.ResourceExhausted, ""), 4},
	} {
		s := &server{answer: func(context.Context, int) error { return tc.err }}
		_, err := s.start(t, tc.i).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{})
		assert.Equal(t, tc.attempts, s.attempts(), tc.name)
		assert.Equal(t, status.Code(tc.err), status.Code(err), tc.name)
		assert.Equal(t, tc.attempts == 1, retry.IsPermanent(err), tc.name)
		assert.Equal(t, tc.attempts == 1, retry.ReasonOf(err) == retry.ReasonPermanent, tc.name)
	}
}

func TestPushback(t *testing.T) {
	for _, tc := range []struct {
		name     string
		code     codes.Code
		values   []string
		attempts int
		wait     time.Duration
		text     string
	}{
		{"a wait", codes.Unavailable, []string{"7"}, 4, 7 * time.Millisecond, ""},
		{"a wait of 0: the policy's delay", codes.Unavailable, []string{"0"}, 4, 0, ""},
		{"a wait for RESOURCE_EXHAUSTED", codes.ResourceExhausted, []string{"7"}, 4, 7 * time.Millisecond, ""},
		{"a wait for a code that is not retried", codes.Internal, []string{"7"}, 1, 0, ""},
		{"a retry is forbidden", codes.Unavailable, []string{"-1"}, 1, 0, `(not retried: the server forbids it, grpc-retry-pushback-ms is ["-1"])`},
		{"not a number", codes.Unavailable, []string{"soon"}, 1, 0, `(not retried: the server forbids it, grpc-retry-pushback-ms is ["soon"])`},
		{"two values", codes.Unavailable, []string{"7", "8"}, 1, 0, `(not retried: the server forbids it, grpc-retry-pushback-ms is ["7" "8"])`},
	} {
		var waits []time.Duration
		p := soon()
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				waits = append(waits, e.RetryAfter)
			}
		}
		s := &server{answer: func(ctx context.Context, _ int) error {
			if err := pushback(ctx, tc.values...); err != nil {
				return err
			}
			return status.Error(tc.code, "busy")
		}}
		client := s.start(t, retrygrpc.Interceptor{Policy: p})
		for name, call := range map[string]func(context.Context, grpc_testing.TestServiceClient) error{"unary": calls["unary"], "stream": calls["server stream"]} {
			before := s.attempts()
			waits = nil
			err := call(t.Context(), client)
			assert.Equal(t, tc.attempts, s.attempts()-before, "%s, %s", tc.name, name)
			assert.Equal(t, tc.code, status.Code(err), "%s, %s", tc.name, name)
			assert.ErrorContains(t, err, tc.text, "%s, %s", tc.name, name)
			assert.Len(t, waits, tc.attempts-1, "%s, %s", tc.name, name)
			for _, wait := range waits {
				assert.Equal(t, tc.wait, wait, "%s, %s", tc.name, name)
			}
		}
	}
}

// A wait too long for a time.Duration becomes the longest one, which is beyond
// every bound.
func TestPushbackOfCenturies(t *testing.T) {
	s := &server{answer: func(ctx context.Context, _ int) error {
		if err := pushback(ctx, "9223372036854775807"); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "busy")
	}}
	_, err := s.start(t, retrygrpc.Interceptor{Policy: soon()}).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{})
	assert.Equal(t, retry.ReasonRetryAfter, retry.ReasonOf(err), "%v", err)
	assert.Equal(t, 1, s.attempts())
}

// The trailer of one attempt does not count for the next.
func TestPushbackOfAnEarlierAttempt(t *testing.T) {
	s := &server{answer: func(ctx context.Context, attempt int) error {
		if attempt == 1 {
			if err := pushback(ctx, "1"); err != nil {
				return err
			}
			return status.Error(codes.ResourceExhausted, "slow down")
		}
		return status.Error(codes.ResourceExhausted, "the disk is full")
	}}
	_, err := s.start(t, retrygrpc.Interceptor{Policy: soon()}).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{})
	assert.Equal(t, 2, s.attempts())
	assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
}

// The call option keeps the trailer of an earlier attempt if an attempt opens no
// stream. It must not count again.
func TestPushbackOfAnAttemptWithoutAStream(t *testing.T) {
	attempts := 0
	err := retrygrpc.Interceptor{Policy: soon()}.Unary()(t.Context(), "/pkg.Service/Method", nil, nil, nil,
		func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, options ...grpc.CallOption) error {
			if attempts++; attempts > 1 {
				return status.Error(codes.ResourceExhausted, "the message is too large")
			}
			*options[len(options)-1].(grpc.TrailerCallOption).TrailerAddr = metadata.Pairs("grpc-retry-pushback-ms", "1")
			return status.Error(codes.ResourceExhausted, "slow down")
		})
	assert.Equal(t, 2, attempts)
	assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err))
}

func TestAttemptsAreNumbered(t *testing.T) {
	s := &server{answer: failTimes(3, codes.Unavailable)}
	client := s.start(t, retrygrpc.Interceptor{Policy: soon(), Budgets: retrygrpc.NoBudgets})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "grpc-previous-rpc-attempts", "7", "tenant", "a")
	for name, call := range calls {
		s.mu.Lock()
		s.previous, s.received = nil, nil
		s.mu.Unlock()
		require.NoError(t, call(t.Context(), client), name)
		assert.Equal(t, []string{"none", "1", "2", "3"}, s.previous, name)
	}

	// A number that a proxy passes on is replaced, not kept beside the new one.
	s.mu.Lock()
	s.previous, s.received = nil, nil
	s.mu.Unlock()
	require.NoError(t, calls["unary"](ctx, client))
	assert.Equal(t, []string{"7", "1", "2", "3"}, s.previous)
}

func TestPolicyOfAMethod(t *testing.T) {
	three, two := soon(), soon()
	three.MaxAttempts, two.MaxAttempts = 3, 2
	i := retrygrpc.Interceptor{
		Policy: soon(),
		Methods: map[string]retry.Policy{
			grpc_testing.TestService_UnaryCall_FullMethodName:           {},
			grpc_testing.TestService_StreamingOutputCall_FullMethodName: two,
			"/grpc.testing.TestService/":                                three,
			"/shop.Orders/":                                             {},
		},
	}
	require.NoError(t, i.Validate())
	s := &server{answer: alwaysFail(codes.Unavailable)}
	client := s.start(t, i)
	for name, attempts := range map[string]int{"unary": 1, "server stream": 2, "client stream": 3, "bidirectional stream": 3} {
		before := s.attempts()
		require.Error(t, calls[name](t.Context(), client), name)
		assert.Equal(t, attempts, s.attempts()-before, name)
	}

	i.Methods = map[string]retry.Policy{"/shop.Orders/": {}, "/shop.Orders/UnaryCall": {}}
	s = &server{answer: alwaysFail(codes.Unavailable)}
	require.Error(t, calls["unary"](t.Context(), s.start(t, i)))
	assert.Equal(t, 4, s.attempts(), "the default Policy, because no name matches")
}

func TestValidate(t *testing.T) {
	bad := retry.Policy{MaxAttempts: -2}
	const write = `: write "/pkg.Service/Method", or "/pkg.Service/" for its other methods`
	for _, tc := range []struct {
		i    retrygrpc.Interceptor
		text string
	}{
		{retrygrpc.Interceptor{}, ""},
		{retrygrpc.Interceptor{Methods: map[string]retry.Policy{"/pkg.Service/Method": {}, "/pkg.Service/": retry.Default()}}, ""},
		{retrygrpc.Interceptor{Policy: bad}, "invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited"},
		{retrygrpc.Interceptor{Methods: map[string]retry.Policy{"pkg.Service/Method": {}}}, `retrygrpc: Methods has "pkg.Service/Method"` + write},
		{retrygrpc.Interceptor{Methods: map[string]retry.Policy{"/pkg.Service": {}}}, `retrygrpc: Methods has "/pkg.Service"` + write},
		{retrygrpc.Interceptor{Methods: map[string]retry.Policy{"//Method": {}}}, `retrygrpc: Methods has "//Method"` + write},
		{retrygrpc.Interceptor{Methods: map[string]retry.Policy{"": {}, "/a/b/c": bad}}, `retrygrpc: Methods has ""` + write + "\n" + `retrygrpc: Methods has "/a/b/c"` + write + "\n" +
			`retrygrpc: Methods["/a/b/c"]: invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited`},
	} {
		err := tc.i.Validate()
		if tc.text == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, tc.text)
	}
}

func TestStatusOfTheError(t *testing.T) {
	s := &server{answer: func(context.Context, int) error { return withRetryInfo(codes.Unavailable, time.Millisecond) }}
	_, err := s.start(t, retrygrpc.Interceptor{Policy: soon()}).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{})
	assert.Equal(t, codes.Unavailable, status.Code(err))
	got, ok := status.FromError(fmt.Errorf("ship: %w", err))
	require.True(t, ok)
	assert.Equal(t, codes.Unavailable, got.Code())
	assert.Equal(t, "ship: retry: attempts exhausted after 4 attempts (3ms waited): rpc error: code = Unavailable desc = slow down", got.Message())
	assert.Len(t, got.Details(), 1)

	last, ok := status.FromError(retry.Unwrap(err))
	require.True(t, ok)
	assert.Equal(t, "slow down", last.Message())
}

// If no attempt was made, there is no status. The code is that of the context's
// error, as in gRPC.
func TestStatusWithoutAnAttempt(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for name, call := range calls {
		s := &server{answer: failTimes(0, codes.OK)}
		client := s.start(t, retrygrpc.Interceptor{Policy: soon()})
		err := call(canceled, client)
		assert.Equal(t, codes.Canceled, status.Code(err), name)
		assert.ErrorIs(t, err, context.Canceled, name)
		assert.EqualError(t, err, "retry: canceled before the first attempt (context canceled)", name)

		err = call(late, client)
		assert.Equal(t, codes.DeadlineExceeded, status.Code(err), name)
		assert.ErrorIs(t, err, context.DeadlineExceeded, name)
		assert.Zero(t, s.attempts(), name)
	}
}

func TestMark(t *testing.T) {
	endless, err := anypb.New(&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: math.MaxInt64, Nanos: math.MinInt32}})
	require.NoError(t, err)
	require.NoError(t, retrygrpc.Mark(nil))
	for _, tc := range []struct {
		name      string
		err       error
		codes     []codes.Code
		permanent bool
		wait      time.Duration
	}{
		{"UNAVAILABLE", status.Error(codes.Unavailable, ""), nil, false, 0},
		{"UNAVAILABLE with RetryInfo", withRetryInfo(codes.Unavailable, time.Second), nil, false, time.Second},
		{"UNAVAILABLE with several", withRetryInfo(codes.Unavailable, time.Second, time.Minute, -time.Hour), nil, false, time.Minute},
		{"UNAVAILABLE with a negative one", withRetryInfo(codes.Unavailable, -time.Hour), nil, false, 0},
		{"UNAVAILABLE with an endless one", status.FromProto(&statuspb.Status{Code: 14, Details: []*anypb.Any{endless}}).Err(), nil, false, math.MaxInt64},
		{"UNAVAILABLE with garbage", status.FromProto(&statuspb.Status{Code: 14, Details: []*anypb.Any{{TypeUrl: endless.TypeUrl, Value: []byte{0xff}}, {TypeUrl: "moon"}, nil}}).Err(), nil, false, 0},
		{"RESOURCE_EXHAUSTED", status.Error(codes.ResourceExhausted, ""), nil, true, 0},
		{"RESOURCE_EXHAUSTED with RetryInfo", withRetryInfo(codes.ResourceExhausted, time.Second), nil, false, time.Second},
		{"NOT_FOUND", status.Error(codes.NotFound, ""), nil, true, 0},
		{"NOT_FOUND, given as retryable", status.Error(codes.NotFound, ""), []codes.Code{codes.NotFound}, false, 0},
		{"UNAVAILABLE, not given as retryable", status.Error(codes.Unavailable, ""), []codes.Code{codes.NotFound}, true, 0},
		{"wrapped", fmt.Errorf("ship: %w", status.Error(codes.Unavailable, "")), nil, false, 0},
		{"no status", errors.New("boom"), nil, true, 0},
	} {
		err := retrygrpc.Mark(tc.err, tc.codes...)
		assert.Equal(t, tc.permanent, retry.IsPermanent(err), tc.name)
		assert.Equal(t, tc.wait, retry.RetryAfterOf(err), tc.name)
		assert.ErrorIs(t, err, tc.err, tc.name)
	}
}

const twoAttempts = `{"methodConfig": [{"name": [{"service": "grpc.testing.TestService"}], "retryPolicy": {
	"maxAttempts": 2, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// The interceptor and gRPC together would make 8 attempts.
func TestAServiceConfigThatRetriesToo(t *testing.T) {
	for name, call := range calls {
		i := retrygrpc.Interceptor{Policy: soon()}
		s := &server{answer: alwaysFail(codes.Unavailable)}
		client := dial(t, s.serve(t), grpc.WithUnaryInterceptor(i.Unary()), grpc.WithStreamInterceptor(i.Stream()), grpc.WithDefaultServiceConfig(twoAttempts))
		err := call(t.Context(), client)
		assert.Equal(t, 2, s.attempts(), "%s: only the attempts of gRPC", name)
		assert.Equal(t, retry.ReasonPermanent, retry.ReasonOf(err), name)
		assert.Equal(t, codes.Unavailable, status.Code(err), name)
		assert.ErrorContains(t, err, "(not retried: the service config has a retryPolicy for /grpc.testing.TestService/", name)
		assert.ErrorContains(t, err, ", and attempts would multiply: remove it, or use DialOptions)", name)

		s = &server{answer: alwaysFail(codes.Unavailable)}
		client = dial(t, s.serve(t), append(dialOptions(t, i), grpc.WithDefaultServiceConfig(twoAttempts))...)
		err = call(t.Context(), client)
		assert.Equal(t, 4, s.attempts(), "%s: only the attempts of the interceptor", name)
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err), name)
	}
}

func TestTheInterceptorsByThemselves(t *testing.T) {
	i := retrygrpc.Interceptor{Policy: soon()}
	s := &server{answer: alwaysFail(codes.Unavailable)}
	client := dial(t, s.serve(t), grpc.WithUnaryInterceptor(i.Unary()), grpc.WithStreamInterceptor(i.Stream()))
	for name, call := range calls {
		before := s.attempts()
		require.Error(t, call(t.Context(), client), name)
		assert.Equal(t, 4, s.attempts()-before, name)
	}

	// A test may call an interceptor without a connection.
	attempts := 0
	err := i.Unary()(t.Context(), "/pkg.Service/Method", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		attempts++
		return status.Error(codes.Unavailable, "")
	})
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.Equal(t, 4, attempts)
}

// Nothing listens, so no call can even be opened.
func TestNoServer(t *testing.T) {
	for name, call := range calls {
		var events []retry.EventKind
		p := soon()
		p.OnEvent = func(_ context.Context, e retry.Event) { events = append(events, e.Kind) }
		client := dial(t, "127.0.0.1:1", dialOptions(t, retrygrpc.Interceptor{Policy: p})...)
		err := call(t.Context(), client)
		assert.Equal(t, codes.Unavailable, status.Code(err), name)
		assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err), name)
		assert.Len(t, events, 12, name)
	}
}
