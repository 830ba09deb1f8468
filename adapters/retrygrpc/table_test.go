package retrygrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrygrpc"
	"github.com/goretry/retry/adapters/retryrpc/calltest"
)

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
