package retrygrpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/internal/readmetest"
	"github.com/goretry/retry/adapters/retrygrpc"
)

func TestREADME(t *testing.T) { readmetest.Run(t) }

// The tests below contain the snippets of the README and run each once.

// pb stands for a package that protoc generates.
var pb = struct{ Orders_Charge_FullMethodName string }{grpc_testing.TestService_EmptyCall_FullMethodName}

var creds = insecure.NewCredentials()

func TestREADMEInterceptor(t *testing.T) {
	s := &server{answer: failTimes(1, codes.Unavailable)}
	target := s.serve(t)

	retries := retrygrpc.Interceptor{
		Policy: retry.Default(), // 5 attempts, 200ms x2, at most 5s, ±50 %
		Methods: map[string]retry.Policy{
			pb.Orders_Charge_FullMethodName: {NonRetryable: true}, // must not run twice
		},
	}
	connect := func() (*grpc.ClientConn, error) {
		options, err := retries.DialOptions() // calls retries.Validate
		if err != nil {
			return nil, err
		}
		return grpc.NewClient(target, append(options, grpc.WithTransportCredentials(creds))...)
	}
	conn, err := connect()
	require.NoError(t, err)
	defer conn.Close()
	client := grpc_testing.NewTestServiceClient(conn)
	_, err = client.EmptyCall(t.Context(), &grpc_testing.Empty{})
	assert.Equal(t, retry.ReasonNonRetryable, retry.ReasonOf(err))
	assert.Equal(t, 1, s.attempts())

	s.answer = failTimes(2, codes.Unavailable)
	_, err = client.UnaryCall(t.Context(), &grpc_testing.SimpleRequest{})
	require.NoError(t, err)
	assert.Equal(t, 3, s.attempts())
}

// orders is what protoc-gen-go-grpc makes of a service with a method Ship.
type orders struct{ grpc_testing.TestServiceClient }

func (o orders) Ship(ctx context.Context, order *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return o.UnaryCall(ctx, order)
}

// Of 20 calls that come one after the other, a server that asks for a wait refuses one.
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

func TestREADMEServiceConfig(t *testing.T) {
	use := func(target string, policy retry.Policy) error {
		config, err := retrygrpc.ServiceConfig(policy, "shop.Orders", codes.Unavailable)
		if err != nil {
			return err
		}
		conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds),
			grpc.WithDefaultServiceConfig(config))

		if err != nil {
			return err
		}
		return conn.Close()
	}
	narrow := retry.Default()
	narrow.Jitter = retry.Proportional(0.2) // which is what gRPC draws
	require.NoError(t, use("127.0.0.1:1", narrow))
	require.ErrorContains(t, use("127.0.0.1:1", soon()), "Jitter (jitter) is none")
}
