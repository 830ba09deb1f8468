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
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrygrpc"
)

func payload(body string) *grpc_testing.Payload { return &grpc_testing.Payload{Body: []byte(body)} }

// down and duplex open a stream to s. If no policy is given, they use the policy that the function
// soon returns.
func (s *server) down(t *testing.T, policy ...retry.Policy) grpc.ServerStreamingClient[grpc_testing.StreamingOutputCallResponse] {
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: append(policy, soon())[0]}).StreamingOutputCall(t.Context(), &grpc_testing.StreamingOutputCallRequest{})
	require.NoError(t, err)
	return stream
}

func (s *server) duplex(t *testing.T, ctx context.Context, policy ...retry.Policy) grpc.BidiStreamingClient[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse] {
	stream, err := s.start(t, retrygrpc.Interceptor{Policy: append(policy, soon())[0]}).FullDuplexCall(ctx)
	require.NoError(t, err)
	return stream
}

func message(body string) *grpc_testing.StreamingOutputCallRequest {
	return &grpc_testing.StreamingOutputCallRequest{Payload: payload(body)}
}

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
		stream, received := s.down(t), 0
		_, err := stream.Recv()
		for ; err == nil; _, err = stream.Recv() {
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

// One goroutine sends while another receives, and attempts fail meanwhile.
func TestAStreamInBothDirections(t *testing.T) {
	s := &server{answer: failTimes(3, codes.Unavailable)}
	stream := s.duplex(t, t.Context())
	var sender sync.WaitGroup
	sender.Go(func() {
		for n := range 100 {
			if err := stream.Send(message(fmt.Sprint(n))); err != nil {
				assert.Equal(t, io.EOF, err) // the server has answered
				return
			}
		}
		assert.NoError(t, stream.CloseSend())
	})
	_, err := stream.Recv()
	require.NoError(t, err)
	_, err = stream.Recv()
	assert.Equal(t, io.EOF, err)
	sender.Wait()
	assert.Equal(t, [][]string{{"0"}, {"0"}, {"0"}, {"0"}}, s.received)
}

// The client calls Recv before its first Send.
func TestReceivingBeforeSending(t *testing.T) {
	s := &server{answer: failTimes(1, codes.Unavailable)}
	stream, received := s.duplex(t, t.Context()), make(chan error)
	go func() {
		_, err := stream.Recv()
		received <- err
	}()
	require.NoError(t, stream.Send(message("late")))
	require.NoError(t, <-received)
	assert.Equal(t, [][]string{{"late"}, {"late"}}, s.received)
}

func TestAStreamThatEndsWithoutAMessage(t *testing.T) {
	s, p := &server{}, soon()
	s.answer = func(ctx context.Context, attempt int) error {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("attempt", fmt.Sprint(attempt)))
		return failTimes(1, codes.Unavailable)(ctx, attempt)
	}
	p.Budget = &retry.Budget{Size: 1, Ratio: 1}
	stream := s.down(t, p)
	md, err := stream.Header()
	require.NoError(t, err)
	assert.Nil(t, md, "a stream that failed without headers has none, and is retried")
	for range 2 {
		_, err := stream.Recv()
		assert.Equal(t, io.EOF, err)
	}
	assert.Equal(t, 2, s.attempts())
	assert.Equal(t, 1, p.Budget.Left(), "the end of a stream is a success")
	assert.Equal(t, []string{"2"}, stream.Trailer().Get("attempt"), "the trailer of the last attempt")
}

// A message is kept for the next attempt, up to a limit, even after its stream has failed
// and while the policy waits.
func TestMessagesKeptForTheNextAttempt(t *testing.T) {
	const most, whole = 256<<10 - 8, "attempts exhausted" // a message is 8 bytes longer than its payload
	const tooMuch = "permanent error after 1 attempt: rpc error: code = Unavailable desc = failure 1 (not retried: more than 256 KiB were sent)"
	for _, tc := range []struct {
		name         string
		before, wait []int // sizes of payloads that are sent before Recv, and in the first wait
		attempts     int
		text         string
	}{
		{"exactly the limit", []int{most}, nil, 4, whole},
		{"exactly the limit, in two", []int{most / 2, most/2 - 8}, nil, 4, whole},
		{"a byte above the limit", []int{most + 1}, nil, 1, tooMuch},
		{"a byte above the limit, in two", []int{most / 2, most/2 - 7}, nil, 1, tooMuch},
		{"far above the limit", []int{200 << 10, 200 << 10, 200 << 10}, nil, 1, tooMuch},
		{"above the limit in a wait", []int{8}, []int{most}, 1, "failure 1 (not retried: more than 256 KiB were sent)"},
	} {
		s, p := &server{answer: alwaysFail(codes.Unavailable)}, soon()
		p.Budget = &retry.Budget{Size: 5}
		var send func([]int)
		p.OnEvent = func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled && e.Attempt == 1 {
				send(tc.wait)
			}
		}
		stream := s.duplex(t, t.Context(), p)
		send = func(sizes []int) {
			for _, size := range sizes {
				_ = stream.Send(message(strings.Repeat("x", size)))
			}
		}
		send(tc.before)
		_, err := stream.Recv()
		assert.ErrorContains(t, err, tc.text, tc.name)
		assert.Equal(t, []int{tc.attempts, 5 - tc.attempts + 1}, []int{s.attempts(), p.Budget.Left()}, tc.name)
	}

	// Nothing listens, so no stream is opened.
	stream, err := dial(t, "127.0.0.1:1", dialOptions(t, retrygrpc.Interceptor{Policy: soon()})...).FullDuplexCall(t.Context())
	require.NoError(t, err)
	md, err := stream.Header()
	require.NoError(t, err)
	assert.Nil(t, md)
	assert.Nil(t, stream.Trailer())
	require.NoError(t, stream.Send(message("a")), "it is kept for the next attempt")
	assert.Equal(t, io.EOF, stream.Send(message(strings.Repeat("x", 256<<10))))
	assert.Equal(t, io.EOF, stream.Send(message("b")))
	_, err = stream.Recv()
	assert.ErrorContains(t, err, "(not retried: more than 256 KiB were sent)")
	assert.Equal(t, codes.Unavailable, status.Code(err))
}

func TestHeadersEndTheRetries(t *testing.T) {
	for read, text := range map[bool]string{false: "attempts exhausted after 4 attempts", true: "(not retried: its headers were read)"} {
		s := &server{answer: func(ctx context.Context, _ int) error {
			_ = grpc.SendHeader(ctx, metadata.Pairs("node", "a"))
			return status.Error(codes.Unavailable, "down")
		}}
		stream := s.down(t)
		if read {
			md, err := stream.Header()
			require.NoError(t, err)
			assert.Equal(t, []string{"a"}, md.Get("node"))
		}
		_, err := stream.Recv()
		assert.ErrorContains(t, err, text)
	}
}

func TestTheContextOfAStream(t *testing.T) {
	type key struct{}
	s := &server{answer: failTimes(1, codes.Unavailable)}
	ctx := context.WithValue(t.Context(), key{}, "a")
	stream := s.duplex(t, ctx)
	assert.Equal(t, ctx, stream.Context(), "the caller's context, while another attempt may follow")
	require.NoError(t, stream.Send(message("")))
	_, err := stream.Recv()
	require.NoError(t, err)
	assert.NotEqual(t, ctx, stream.Context())
	assert.Equal(t, "a", stream.Context().Value(key{}))
	assert.NoError(t, stream.Context().Err())
	_, err = stream.Recv()
	assert.Equal(t, io.EOF, err)
	assert.Error(t, stream.Context().Err(), "the context has ended with the stream")
}

// The AttemptTimeout bounds the wait for the first message, not the whole stream.
func TestTheTimeoutOfAStream(t *testing.T) {
	waits, p := make(chan struct{}), soon()
	s := &server{messages: 1, answer: func(context.Context, int) error { <-waits; return nil }}
	p.MaxAttempts, p.AttemptTimeout = retry.Unlimited, 50*time.Millisecond
	stream := s.down(t, p)
	_, err := stream.Recv()
	require.NoError(t, err)
	time.AfterFunc(2*p.AttemptTimeout, func() { close(waits) })
	_, err = stream.Recv()
	assert.Equal(t, io.EOF, err, "the stream may take longer than its AttemptTimeout")
}

// A stub is a stream without a server. It delivers empty messages, and accepts none.
type stub struct {
	grpc.ClientStream
	messages int
	fails    error // the error after the messages
}

func (s *stub) RecvMsg(any) error {
	if s.messages--; s.messages < 0 {
		return s.fails
	}
	return nil
}

func (*stub) SendMsg(any) error    { return io.EOF }
func (*stub) Trailer() metadata.MD { return nil }

// stubbed returns a stream whose attempts come from open, which gets the context of the
// attempt.
func stubbed(t *testing.T, p retry.Policy, desc grpc.StreamDesc, open func(context.Context) (grpc.ClientStream, error)) grpc.ClientStream {
	each := func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
		return open(ctx)
	}
	conn := connect(t, "127.0.0.1:1", append(dialOptions(t, retrygrpc.Interceptor{Policy: p}), grpc.WithChainStreamInterceptor(each))...)
	stream, err := conn.NewStream(t.Context(), &desc, "/pkg.Service/Method")
	require.NoError(t, err)
	return stream
}

// The AttemptTimeout also bounds the opening of a stream.
func TestAStreamThatCannotBeOpened(t *testing.T) {
	p, opened := soon(), 0
	p.MaxAttempts, p.AttemptTimeout = 2, 20*time.Millisecond
	stream := stubbed(t, p, grpc.StreamDesc{ServerStreams: true}, func(ctx context.Context) (grpc.ClientStream, error) {
		opened++
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	})
	assert.Equal(t, 1, opened)
	err := stream.RecvMsg(nil)
	assert.Equal(t, 2, opened)
	assert.Equal(t, retry.ReasonExhausted, retry.ReasonOf(err))
	assert.EqualError(t, retry.Unwrap(err), "rpc error: code = DeadlineExceeded desc = no message within AttemptTimeout (20ms)")
	assert.NoError(t, stream.CloseSend())
}

// The context of a stream is released however the stream ends.
func TestTheContextIsReleased(t *testing.T) {
	for _, tc := range []struct {
		name               string
		desc               grpc.StreamDesc
		messages, receives int
	}{
		{"the reply to a client stream", grpc.StreamDesc{ClientStreams: true}, 1, 1},
		{"the end of a server stream", grpc.StreamDesc{ServerStreams: true}, 2, 3},
		{"the end of a server stream without a message", grpc.StreamDesc{ServerStreams: true}, 0, 1},
	} {
		var opened context.Context
		stream := stubbed(t, soon(), tc.desc, func(ctx context.Context) (grpc.ClientStream, error) {
			opened = ctx
			return &stub{messages: tc.messages, fails: io.EOF}, nil
		})
		var err error
		for range tc.receives {
			require.NoError(t, opened.Err(), tc.name)
			err = stream.RecvMsg(nil)
		}
		assert.Equal(t, tc.messages < tc.receives, err == io.EOF, tc.name)
		assert.Error(t, opened.Err(), tc.name)
	}
}

func TestMessagesOfUnknownSize(t *testing.T) {
	stream := stubbed(t, soon(), grpc.StreamDesc{ClientStreams: true}, func(context.Context) (grpc.ClientStream, error) {
		return &stub{fails: status.Error(codes.Unavailable, "down")}, nil
	})
	assert.Equal(t, io.EOF, stream.SendMsg("a text"))
	assert.ErrorContains(t, stream.RecvMsg(nil), "(not retried: a string was sent, whose size is not known)")
}
