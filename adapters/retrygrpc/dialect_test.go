package retrygrpc_test

import (
	"context"
	"math"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// sayable returns a random policy that gRPC can express.
func sayable(r *rand.Rand) retry.Policy {
	p := retry.Policy{MaxAttempts: 2 + r.IntN(4), Jitter: retry.Proportional(0.2)}
	base := time.Duration(math.Exp(r.Float64() * math.Log(float64(30*24*time.Hour))))
	p.Backoff = retry.Exponential{Base: base, Factor: 1 + r.Float64()*r.Float64()*9}
	if r.IntN(4) == 0 {
		p.Backoff = retry.Fixed(base)
	}
	if plan := p.Plan(retry.Unlimited); r.IntN(2) == 0 {
		p.MaxDelay = plan[len(plan)-1].Hi + time.Duration(r.IntN(2))
	}
	return p
}

// grpc-go reads the config of retrydialect.ToGRPC, makes as many attempts as the policy, and waits within its
// bounds, in virtual time.
func TestGRPCDecidesAsThePolicy(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 2))
	for range 200 {
		p := sayable(r)
		config, err := retrydialect.ToGRPC(p, "grpc.testing.TestService", "UNAVAILABLE")
		require.NoError(t, err, "%v", p)
		plan := p.Plan(retry.Unlimited)
		synctest.Test(t, func(t *testing.T) {
			times := callByServiceConfig(t, config)
			require.Len(t, times, len(plan)+1, "%v: %s", p, config)
			for i, step := range plan {
				gap, slack := times[i+1].Sub(times[i]), 2+time.Duration(math.Ldexp(float64(step.Hi), -50))
				require.True(t, step.Lo-slack <= gap && gap <= step.Hi+slack, "%v: %s: the delay is %v, want %v to %v", p, config, gap, step.Lo, step.Hi)
			}
		})
	}
}

// callByServiceConfig calls a server that always fails, with gRPC's own retries,
// and returns when the server was called.
func callByServiceConfig(t *testing.T, config string) (times []time.Time) {
	listener := bufconn.Listen(1 << 10)
	srv := grpc.NewServer()
	defer srv.Stop()
	grpc_testing.RegisterTestServiceServer(srv, &server{answer: func(context.Context, int) error {
		times = append(times, time.Now())
		return status.Error(codes.Unavailable, "down")
	}})
	go srv.Serve(listener)

	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(config),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }), grpc.WithIdleTimeout(0))
	require.NoError(t, err)
	defer conn.Close()
	_, err = grpc_testing.NewTestServiceClient(conn).UnaryCall(t.Context(), &grpc_testing.SimpleRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	return times
}
