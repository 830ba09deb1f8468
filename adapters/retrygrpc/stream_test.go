package retrygrpc_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrygrpc"
)

func payload(body string) *grpc_testing.Payload { return &grpc_testing.Payload{Body: []byte(body)} }

func TestMessagesAreSentAgain(t *testing.T) {
	s := &server{answer: failTimes(2, codes.Unavailable)}
	client := s.start(t, retrygrpc.Interceptor{Policy: soon()})

	stream, err := client.StreamingInputCall(t.Context())
	require.NoError(t, err)
	for _, body := range []string{"a", "b", "c"} {
		require.NoError(t, stream.Send(&grpc_testing.StreamingInputCallRequest{Payload: payload(body)}))
	}
	reply, err := stream.CloseAndRecv()
	require.NoError(t, err)
	assert.EqualValues(t, 3, reply.GetAggregatedPayloadSize(), "the reply of the third attempt")
	assert.Equal(t, [][]string{{"a", "b", "c"}, {"a", "b", "c"}, {"a", "b", "c"}}, s.received)
}

func TestAServerStreamIsRetriedUntilItsFirstMessage(t *testing.T) {
	for _, tc := range []struct {
		messages, attempts int
		reason             retry.Reason
	}{{0, 4, retry.ReasonExhausted}, {1, 1, ""}, {2, 1, ""}} {
		s := &server{answer: alwaysFail(codes.Unavailable), messages: tc.messages}
		client := s.start(t, retrygrpc.Interceptor{Policy: soon()})
		stream, err := client.StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{Payload: payload("q")})
		require.NoError(t, err)
		received := 0
		for {
			if _, err = stream.Recv(); err != nil {
				break
			}
			received++
		}
		assert.Equal(t, tc.messages, received)
		assert.Equal(t, tc.attempts, s.attempts())
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.Equal(t, tc.reason, retry.ReasonOf(err), "after the first message, errors come from gRPC unchanged")
		_, again := stream.Recv()
		assert.Equal(t, err, again, "the same error again")
	}
}

func TestAStreamThatEndsWithoutAMessage(t *testing.T) {
	s := &server{answer: failTimes(1, codes.Unavailable)}
	budget := &retry.Budget{Size: 1, Ratio: 1}
	p := soon()
	p.Budget = budget
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: p}).StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	for range 2 {
		_, err = stream.Recv()
		assert.Equal(t, io.EOF, err)
	}
	assert.Equal(t, 2, s.attempts())
	assert.Equal(t, 1, budget.Left(), "the end of a stream is a success")
}

// One goroutine sends while another receives, and attempts fail meanwhile.
func TestAStreamInBothDirections(t *testing.T) {
	s := &server{answer: failTimes(3, codes.Unavailable)}
	client := s.start(t, retrygrpc.Interceptor{Policy: soon()})
	stream, err := client.FullDuplexCall(t.Context())
	require.NoError(t, err)
	var sender sync.WaitGroup
	sender.Go(func() {
		for n := range 100 {
			if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{Payload: payload(fmt.Sprint(n))}); err != nil {
				assert.Equal(t, io.EOF, err) // the server has answered
				return
			}
		}
		assert.NoError(t, stream.CloseSend())
	})
	_, err = stream.Recv()
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.Equal(t, io.EOF, err)
	sender.Wait()
	assert.Equal(t, [][]string{{"0"}, {"0"}, {"0"}, {"0"}}, s.received)
}

// The client calls Recv before its first Send.
func TestReceivingBeforeSending(t *testing.T) {
	s := &server{answer: failTimes(1, codes.Unavailable)}
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: soon()}).FullDuplexCall(t.Context())
	require.NoError(t, err)
	received := make(chan error)
	go func() {
		_, err := stream.Recv()
		received <- err
	}()
	require.NoError(t, stream.Send(&grpc_testing.StreamingOutputCallRequest{Payload: payload("late")}))
	require.NoError(t, <-received)
	assert.Equal(t, [][]string{{"late"}, {"late"}}, s.received)
}

func TestWhatIsNotSentAgain(t *testing.T) {
	for _, tc := range []struct {
		name     string
		sizes    []int // of the payloads; each message is 8 bytes longer
		attempts int
		text     string
	}{
		{"exactly the limit", []int{128<<10 - 8, 128<<10 - 8}, 4, "attempts exhausted"},
		{"a byte more", []int{128<<10 - 8, 128<<10 - 7}, 1, "(not retried: more than 256 KiB were sent)"},
		{"much more", []int{200 << 10, 200 << 10, 200 << 10}, 1, "(not retried: more than 256 KiB were sent)"},
	} {
		s := &server{answer: alwaysFail(codes.Unavailable)}
		client := s.start(t, retrygrpc.Interceptor{Policy: soon()})
		stream, err := client.StreamingInputCall(t.Context())
		require.NoError(t, err, tc.name)
		for _, size := range tc.sizes {
			require.NoError(t, stream.Send(&grpc_testing.StreamingInputCallRequest{Payload: payload(strings.Repeat("x", size))}), tc.name)
		}
		_, err = stream.CloseAndRecv()
		assert.ErrorContains(t, err, tc.text, tc.name)
		assert.Equal(t, codes.Unavailable, status.Code(err), tc.name)
		assert.Equal(t, tc.attempts, s.attempts(), tc.name)
		assert.Len(t, s.received[0], len(tc.sizes), tc.name)
	}
}

// A message sent to a stream that has failed is kept for the next attempt, up to
// the same limit.
func TestSendingToAStreamThatFailed(t *testing.T) {
	p := soon()
	client := dial(t, "127.0.0.1:1", dialOptions(t, retrygrpc.Interceptor{Policy: p})...)
	stream, err := client.StreamingInputCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&grpc_testing.StreamingInputCallRequest{Payload: payload("a")}), "it is kept for the next attempt")
	assert.Equal(t, io.EOF, stream.Send(&grpc_testing.StreamingInputCallRequest{Payload: payload(strings.Repeat("x", 256<<10))}))
	assert.Equal(t, io.EOF, stream.Send(&grpc_testing.StreamingInputCallRequest{Payload: payload("b")}))
	_, err = stream.CloseAndRecv()
	assert.ErrorContains(t, err, "(not retried: more than 256 KiB were sent)")
	assert.Equal(t, codes.Unavailable, status.Code(err))
}

// If the limit is exceeded while the policy waits, there is no further attempt.
func TestTheLimitIsPassedInAWait(t *testing.T) {
	s := &server{answer: alwaysFail(codes.Unavailable)}
	var stream grpc.BidiStreamingClient[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]
	p := soon()
	p.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			err := stream.Send(&grpc_testing.StreamingOutputCallRequest{Payload: payload(strings.Repeat("x", 256<<10))})
			assert.Equal(t, io.EOF, err)
		}
	}
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: p}).FullDuplexCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&grpc_testing.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	assert.ErrorContains(t, err, "failure 1 (not retried: more than 256 KiB were sent)")
	assert.Equal(t, 1, s.attempts())
}

func TestHeadersEndTheRetries(t *testing.T) {
	for _, read := range []bool{false, true} {
		s := &server{answer: func(ctx context.Context, _ int) error {
			if err := grpc.SendHeader(ctx, metadata.Pairs("node", "a")); err != nil {
				return err
			}
			return status.Error(codes.Unavailable, "down")
		}}
		stream, err := s.start(t, retrygrpc.Interceptor{Policy: soon()}).StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{})
		require.NoError(t, err)
		attempts, text := 4, "attempts exhausted"
		if read {
			md, err := stream.Header()
			require.NoError(t, err)
			assert.Equal(t, []string{"a"}, md.Get("node"))
			attempts, text = 1, "(not retried: its headers were read)"
		}
		_, err = stream.Recv()
		assert.ErrorContains(t, err, text)
		assert.Equal(t, attempts, s.attempts())
	}
}

// A stream that failed without headers has none to read, and is retried.
func TestNoHeaders(t *testing.T) {
	s := &server{answer: failTimes(1, codes.Unavailable)}
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: soon()}).StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	md, err := stream.Header()
	require.NoError(t, err)
	assert.Nil(t, md)
	_, err = stream.Recv()
	assert.Equal(t, io.EOF, err)
	assert.Equal(t, 2, s.attempts())

	stream, err = dial(t, "127.0.0.1:1", dialOptions(t, retrygrpc.Interceptor{Policy: soon()})...).StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	md, err = stream.Header()
	require.NoError(t, err)
	assert.Nil(t, md)
	assert.Nil(t, stream.Trailer())
	_, err = stream.Recv()
	assert.ErrorContains(t, err, "attempts exhausted after 4 attempts")
}

func TestTheContextOfAStream(t *testing.T) {
	type key struct{}
	s := &server{answer: failTimes(1, codes.Unavailable), messages: 0}
	ctx := context.WithValue(t.Context(), key{}, "a")
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: soon()}).FullDuplexCall(ctx)
	require.NoError(t, err)
	assert.Equal(t, ctx, stream.Context(), "the caller's context, while another attempt may follow")
	require.NoError(t, stream.Send(&grpc_testing.StreamingOutputCallRequest{}))
	_, err = stream.Recv()
	require.NoError(t, err)
	assert.NotEqual(t, ctx, stream.Context())
	assert.Equal(t, "a", stream.Context().Value(key{}))
	assert.NoError(t, stream.Context().Err())
	_, err = stream.Recv()
	assert.Equal(t, io.EOF, err)
	assert.Error(t, stream.Context().Err(), "the context has ended with the stream")
}

func TestTheTrailerOfAStream(t *testing.T) {
	s := &server{answer: func(ctx context.Context, attempt int) error {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("attempt", fmt.Sprint(attempt))); err != nil {
			return err
		}
		return failTimes(2, codes.Unavailable)(ctx, attempt)
	}}
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: soon()}).StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, io.EOF, err)
	assert.Equal(t, []string{"3"}, stream.Trailer().Get("attempt"))
}

// The AttemptTimeout bounds the wait for the first message, not the whole stream.
func TestTheTimeoutOfAStream(t *testing.T) {
	for _, tc := range []struct {
		name     string
		hang     int // the number of attempts that hang
		attempts int // at most; on a busy machine more than the first may time out
		code     codes.Code
	}{{"the first attempt hangs", 1, retry.Unlimited, codes.OK}, {"all hang", 9, 4, codes.DeadlineExceeded}} {
		s := &server{}
		s.answer = func(ctx context.Context, attempt int) error {
			if attempt <= tc.hang {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		started := 0
		p := soon()
		p.MaxAttempts, p.AttemptTimeout = tc.attempts, 100*time.Millisecond
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.AttemptStarted {
				started++
			}
		}
		stream, err := s.start(t, retrygrpc.Interceptor{Policy: p}).FullDuplexCall(t.Context())
		require.NoError(t, err, tc.name)
		require.NoError(t, stream.Send(&grpc_testing.StreamingOutputCallRequest{}))
		_, err = stream.Recv()
		assert.Equal(t, tc.code, status.Code(err), tc.name)
		if tc.code == codes.OK {
			assert.Greater(t, started, 1, tc.name)
		} else {
			assert.Equal(t, tc.attempts, started, tc.name)
			assert.EqualError(t, retry.Unwrap(err), "rpc error: code = DeadlineExceeded desc = no message within AttemptTimeout (100ms)")
		}
	}

	waits := make(chan struct{})
	s := &server{messages: 1, answer: func(context.Context, int) error { <-waits; return nil }}
	p := soon()
	p.MaxAttempts, p.AttemptTimeout = retry.Unlimited, 50*time.Millisecond
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: p}).StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	time.AfterFunc(2*p.AttemptTimeout, func() { close(waits) })
	_, err = stream.Recv()
	assert.Equal(t, io.EOF, err, "the stream may take longer than its AttemptTimeout")
}

// The AttemptTimeout also bounds the opening of a stream.
func TestAStreamThatCannotBeOpened(t *testing.T) {
	p := soon()
	p.MaxAttempts, p.AttemptTimeout = 2, 20*time.Millisecond
	var opened int
	open := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
		opened++
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	stream, err := retrygrpc.Interceptor{Policy: p}.Stream()(t.Context(), &grpc.StreamDesc{ServerStreams: true}, nil, "/pkg.Service/Method", open)
	require.NoError(t, err)
	assert.Equal(t, 1, opened)
	err = stream.RecvMsg(nil)
	assert.Equal(t, 2, opened)
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.EqualError(t, retry.Unwrap(err), "rpc error: code = DeadlineExceeded desc = no message within AttemptTimeout (20ms)")
	assert.NoError(t, stream.CloseSend())
}

// A stub is a stream that delivers empty messages without a server.
type stub struct {
	grpc.ClientStream
	messages int
}

func (s *stub) RecvMsg(any) error {
	if s.messages--; s.messages < 0 {
		return io.EOF
	}
	return nil
}

func (*stub) Trailer() metadata.MD { return nil }

// The context of a stream is released however the stream ends.
func TestTheContextIsReleased(t *testing.T) {
	for _, tc := range []struct {
		name     string
		desc     grpc.StreamDesc
		messages int
		receives int
	}{
		{"the reply to a client stream", grpc.StreamDesc{ClientStreams: true}, 1, 1},
		{"the end of a server stream", grpc.StreamDesc{ServerStreams: true}, 2, 3},
		{"the end of a server stream without a message", grpc.StreamDesc{ServerStreams: true}, 0, 1},
	} {
		var opened context.Context
		open := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			opened = ctx
			return &stub{messages: tc.messages}, nil
		}
		stream, err := retrygrpc.Interceptor{Policy: soon()}.Stream()(t.Context(), &tc.desc, nil, "/pkg.Service/Method", open)
		require.NoError(t, err, tc.name)
		for range tc.receives {
			require.NoError(t, opened.Err(), tc.name)
			err = stream.RecvMsg(nil)
		}
		assert.Equal(t, tc.messages < tc.receives, err == io.EOF, tc.name)
		assert.Error(t, opened.Err(), tc.name)
	}
}

// A textCodec has messages that are not a proto.Message.
type textCodec struct{}

func (textCodec) Name() string { return "text" }
func (textCodec) Marshal(v any) ([]byte, error) {
	return []byte(*v.(*string)), nil
}

func (textCodec) Unmarshal(data []byte, v any) error {
	*v.(*string) = string(data)
	return nil
}

func TestMessagesOfUnknownSize(t *testing.T) {
	encoding.RegisterCodec(textCodec{})
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:1", append(dialOptions(t, retrygrpc.Interceptor{Policy: soon()}), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	defer conn.Close()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/pkg.Service/Method", grpc.CallContentSubtype("text"))
	require.NoError(t, err)
	text := "a"
	assert.Equal(t, io.EOF, stream.SendMsg(&text))
	assert.ErrorContains(t, stream.RecvMsg(&text), "(not retried: a *string was sent, whose size is not known)")
}

// Canceling the context while the policy waits ends the stream.
func TestAStreamCanceledInAWait(t *testing.T) {
	s := &server{answer: alwaysFail(codes.Unavailable)}
	ctx, cancel := context.WithCancel(t.Context())
	p := soon()
	p.Backoff = retry.Fixed(time.Hour)
	p.OnEvent = func(_ context.Context, e retry.Event) {
		if e.Kind == retry.RetryScheduled {
			cancel()
		}
	}
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: p}).StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.Equal(t, retry.ReasonCanceled, retry.ReasonOf(err))
	assert.Equal(t, codes.Unavailable, status.Code(err), "the code of the last attempt")
	assert.ErrorIs(t, err, context.Canceled)
}
