package retrygrpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrygrpc"
)

// A flaky health service answers only every third call.
type flaky struct {
	grpc_health_v1.UnimplementedHealthServer
	calls int
}

func (f *flaky) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if f.calls++; f.calls%3 != 0 {
		return nil, status.Error(codes.Unavailable, "shutting down")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// serve serves the health service on 127.0.0.1.
func serve() (address string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, &flaky{})
	go srv.Serve(listener)
	return listener.Addr().String(), srv.Stop
}

func Example() {
	address, stop := serve()
	defer stop()

	policy := retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Exponential{Base: time.Millisecond},
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Printf("attempt %d: %v; next in %v\n", e.Attempt, status.Code(e.Err), e.Delay)
			}
		},
	}
	retries := retrygrpc.Interceptor{
		Policy: policy,
		Methods: map[string]retry.Policy{
			"/shop.Orders/Charge": {NonRetryable: true}, // must not run twice
		},
	}
	options, err := retries.DialOptions()
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	reply, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(reply.GetStatus(), err)
	// Output:
	// attempt 1: Unavailable; next in 1ms
	// attempt 2: Unavailable; next in 2ms
	// SERVING <nil>
}

// Each attempt lends the service up to three of the retries that are left. If one retry is
// left, it lends none, so neither side retries after the second attempt.
func ExampleLendBudget() {
	address, stop := serve()
	defer stop()

	retries := retrygrpc.Interceptor{Policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Fixed(time.Millisecond)}}
	options, err := retries.DialOptions()
	if err != nil {
		log.Fatal(err)
	}
	options = append(options, retrygrpc.LendBudget(3)...) // after the options of DialOptions
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	ctx := retry.WithBudget(context.Background(), &retry.Budget{Size: 1})
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(retry.ReasonOf(err))
	// Output: budget_exhausted
}
