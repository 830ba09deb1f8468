package retrygrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrygrpc"
	"github.com/goretry/retry/adapters/retryrpc/calltest"
)

// A server gives scripted answers and records what it receives.
type server struct {
	grpc_testing.UnimplementedTestServiceServer

	answer   func(ctx context.Context, attempt int) error
	reply    int // the bytes in each message of StreamingOutputCall
	messages int // how many messages StreamingOutputCall and FullDuplexCall send before the answer

	mu       sync.Mutex
	previous []string   // grpc-previous-rpc-attempts of each attempt
	received [][]string // the messages of each attempt
}

func (s *server) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.previous)
}

// begin records an attempt and returns its number.
func (s *server) begin(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	previous := "none"
	if values := md.Get("grpc-previous-rpc-attempts"); len(values) > 0 {
		previous = values[0]
	}
	s.previous = append(s.previous, previous)
	s.received = append(s.received, nil)
	return len(s.previous)
}

func (s *server) receive(attempt int, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(text) > 20 {
		text = strconv.AppendInt(nil, int64(len(text)), 10)
	}
	s.received[attempt-1] = append(s.received[attempt-1], string(text))
}

func (s *server) UnaryCall(ctx context.Context, r *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	n := s.begin(ctx)
	s.receive(n, r.GetPayload().GetBody())
	if err := s.answer(ctx, n); err != nil {
		return nil, err
	}
	return &grpc_testing.SimpleResponse{Username: "attempt " + strconv.Itoa(n)}, nil
}

// EmptyCall is a second unary method, for tests of Interceptor.Methods.
func (s *server) EmptyCall(ctx context.Context, _ *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	return &grpc_testing.Empty{}, s.answer(ctx, s.begin(ctx))
}

func (s *server) StreamingOutputCall(r *grpc_testing.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
	n := s.begin(stream.Context())
	s.receive(n, r.GetPayload().GetBody())
	for range s.messages {
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{Payload: &grpc_testing.Payload{Body: make([]byte, s.reply)}}); err != nil {
			return err
		}
	}
	return s.answer(stream.Context(), n)
}

func (s *server) StreamingInputCall(stream grpc.ClientStreamingServer[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse]) error {
	n := s.begin(stream.Context())
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		s.receive(n, r.GetPayload().GetBody())
	}
	if err := s.answer(stream.Context(), n); err != nil {
		return err
	}
	return stream.SendAndClose(&grpc_testing.StreamingInputCallResponse{AggregatedPayloadSize: int32(n)})
}

// FullDuplexCall answers after it has received the first message.
func (s *server) FullDuplexCall(stream grpc.BidiStreamingServer[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	n := s.begin(stream.Context())
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	s.receive(n, r.GetPayload().GetBody())
	for range s.messages {
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
	if err := s.answer(stream.Context(), n); err != nil {
		return err
	}
	return stream.Send(&grpc_testing.StreamingOutputCallResponse{})
}

// serve serves s on a port of 127.0.0.1 until the test ends, and returns the
// address.
func (s *server) serve(t testing.TB, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer(options...)
	grpc_testing.RegisterTestServiceServer(srv, s)
	go srv.Serve(listener)
	t.Cleanup(srv.Stop)
	return listener.Addr().String()
}

// connect returns a connection to an address. It is closed when the test ends.
func connect(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func dial(t testing.TB, address string, options ...grpc.DialOption) grpc_testing.TestServiceClient {
	t.Helper()
	return grpc_testing.NewTestServiceClient(connect(t, address, options...))
}

// start serves s and returns a client that retries with i.
func (s *server) start(t testing.TB, i retrygrpc.Interceptor) grpc_testing.TestServiceClient {
	t.Helper()
	return dial(t, s.serve(t), dialOptions(t, i)...)
}

func dialOptions(t testing.TB, i retrygrpc.Interceptor) []grpc.DialOption {
	t.Helper()
	options, err := i.DialOptions()
	require.NoError(t, err)
	return options
}

// failTimes returns an answer that fails n times with a code and then succeeds.
func failTimes(n int, code codes.Code) func(context.Context, int) error {
	return func(_ context.Context, attempt int) error {
		if attempt <= n {
			return status.Errorf(code, "failure %d", attempt)
		}
		return nil
	}
}

// alwaysFail returns an answer that always fails with a code.
func alwaysFail(code codes.Code) func(context.Context, int) error { return failTimes(1<<30, code) }

// withRetryInfo returns a status error that asks for each of these waits.
func withRetryInfo(code codes.Code, waits ...time.Duration) error {
	s := status.New(code, "slow down")
	for _, wait := range waits {
		s, _ = s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}
	return s.Err()
}

// pushback sets the trailer that asks for a wait in milliseconds.
func pushback(ctx context.Context, values ...string) {
	for _, value := range values {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", value))
	}
}

// script gives the answers of a row of the table.
func script(answer func(attempt int) calltest.Answer, busy func(ctx context.Context, wait time.Duration) error) func(context.Context, int) error {
	return func(ctx context.Context, attempt int) error {
		switch answer(attempt) {
		case calltest.OK:
			return nil
		case calltest.Down:
			return status.Error(codes.Unavailable, "down")
		case calltest.Busy:
			return busy(ctx, calltest.Wait)
		case calltest.Hang:
			<-ctx.Done()
			return ctx.Err()
		default:
			return status.Error(codes.InvalidArgument, "forbidden")
		}
	}
}

func busyByRetryInfo(_ context.Context, wait time.Duration) error {
	return withRetryInfo(codes.ResourceExhausted, wait)
}

func busyByPushback(ctx context.Context, wait time.Duration) error {
	pushback(ctx, strconv.FormatInt(wait.Milliseconds(), 10))
	return status.Error(codes.Unavailable, "slow down")
}

// soon is a policy with four attempts and very short delays.
func soon() retry.Policy {
	return retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}
}

// calls makes each kind of call, up to its first message.
var calls = map[string]func(context.Context, grpc_testing.TestServiceClient) error{
	"unary": func(ctx context.Context, client grpc_testing.TestServiceClient) error {
		_, err := client.UnaryCall(ctx, &grpc_testing.SimpleRequest{})
		return err
	},
	"server stream": func(ctx context.Context, client grpc_testing.TestServiceClient) error {
		stream, err := client.StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{})
		if err != nil {
			return err
		}
		if _, err = stream.Recv(); errors.Is(err, io.EOF) {
			return nil // the server sends no message
		}
		return err
	},
	"client stream": func(ctx context.Context, client grpc_testing.TestServiceClient) error {
		stream, err := client.StreamingInputCall(ctx)
		if err != nil {
			return err
		}
		for range 3 {
			if err := stream.Send(&grpc_testing.StreamingInputCallRequest{}); err != nil {
				return err
			}
		}
		_, err = stream.CloseAndRecv()
		return err
	},
	"bidirectional stream": func(ctx context.Context, client grpc_testing.TestServiceClient) error {
		stream, err := client.FullDuplexCall(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	},
}

func TestTable(t *testing.T) {
	for name, call := range calls {
		for how, busy := range map[string]func(context.Context, time.Duration) error{"RetryInfo": busyByRetryInfo, "pushback": busyByPushback} {
			t.Run(name+" "+how, func(t *testing.T) {
				calltest.Run(t, func(ctx context.Context, p retry.Policy, answer func(attempt int) calltest.Answer) (int, error) {
					s := &server{answer: script(answer, busy)}
					err := call(ctx, s.start(t, retrygrpc.Interceptor{Policy: p}))
					return s.attempts(), err
				}, map[string]string{"invalid policy": "DialOptions refuses it"})
			})
		}
	}
}
