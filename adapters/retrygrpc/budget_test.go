package retrygrpc_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retrygrpc"
	"github.com/goretry/retry/adapters/retryrpc/calltest"
)

// The client calls A, A calls B, and B calls a leaf, with four attempts each. Under a Budget of
// 3 the leaf gets 4 calls. Without the lease it gets 64 calls.
func TestBudgetOverThreeLayers(t *testing.T) {
	for name, call := range calls {
		for want, lease := range map[int][2]int{64: {}, 4: {9, 9}} {
			t.Run(name, func(t *testing.T) {
				leaf := &server{answer: alwaysFail(codes.Unavailable)}
				options, err := retrygrpc.Interceptor{Policy: soon(), Budgets: retrygrpc.NoBudgets}.DialOptions()
				require.NoError(t, err)
				var borrow []grpc.ServerOption
				if lease[0] > 0 {
					options, borrow = append(options, retrygrpc.LendBudget(lease[0])...), retrygrpc.BorrowBudget(lease[1])
				}
				s := leaf
				for range 2 {
					below := dial(t, s.serve(t, borrow...), options...)
					s = &server{answer: func(ctx context.Context, _ int) error {
						return status.Error(status.Code(call(ctx, below)), "below")
					}}
				}
				budget := &retry.Budget{Size: 3}
				err = call(retry.WithBudget(t.Context(), budget), dial(t, s.serve(t, borrow...), options...))
				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.Equal(t, []int{want, 0}, []int{leaf.attempts(), budget.Left()})
			})
		}
	}
}

func TestBlips(t *testing.T) {
	calltest.Blips(t, func(t *testing.T, up func() bool) func(context.Context) error {
		options, err := retrygrpc.Interceptor{Policy: retry.Default()}.DialOptions()
		require.NoError(t, err)
		attempt := func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
			if up() {
				return nil
			}
			return status.Error(codes.Unavailable, "restarting")
		}
		target := "dns:///" + strings.NewReplacer("/", "-", ",", "").Replace(t.Name())
		conn, err := grpc.NewClient(target, append(options, grpc.WithChainUnaryInterceptor(attempt),
			grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return func(ctx context.Context) error { return conn.Invoke(ctx, "/test/Call", nil, nil) }
	})
}

// hosts counts the hosts of TestBudgetOfTheProcess. Their Budgets outlive a run of the test, so
// each run needs new hosts.
var hosts atomic.Int64

// All clients of a target share its Budget, unless only the dialer knows the server.
func TestBudgetOfTheProcess(t *testing.T) {
	for schemes, retries := range map[string]int{"dns:/// dns:///": 10, "dns:/// ": 10, "passthrough:/// passthrough:///": 60} {
		synctest.Test(t, func(t *testing.T) {
			var attempts atomic.Int64
			host := fmt.Sprintf("h%d.test:1", hosts.Add(1))
			down := status.Error(codes.Unavailable, "down")
			failing := []grpc.DialOption{
				grpc.WithChainUnaryInterceptor(func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
					attempts.Add(1)
					return down
				}),
				grpc.WithChainStreamInterceptor(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, grpc.Streamer, ...grpc.CallOption) (grpc.ClientStream, error) {
					attempts.Add(1)
					return nil, down
				}),
				grpc.WithTransportCredentials(insecure.NewCredentials()),
			}
			for n := range 20 {
				conn, err := grpc.NewClient(strings.Split(schemes, " ")[n%2]+host, append(dialOptions(t, retrygrpc.Interceptor{Policy: soon()}), failing...)...)
				require.NoError(t, err)
				err = calls[slices.Sorted(maps.Keys(calls))[n%4]](t.Context(), grpc_testing.NewTestServiceClient(conn))
				assert.Equal(t, retries == 10 && n > 2, strings.Contains(err.Error(), "see Interceptor.Budgets"), "%d: %v", n, err)
				require.NoError(t, conn.Close())
				time.Sleep(time.Second) // the Grace is over before the Budget is empty
			}
			assert.EqualValues(t, 20+retries, attempts.Load(), schemes)
		})
	}
	i := retrygrpc.Interceptor{Budgets: func(target string) *retry.Budget {
		assert.Equal(t, "127.0.0.1:1", target, "as NewClient got it")
		return nil
	}}
	conn, err := grpc.NewClient("127.0.0.1:1", append(dialOptions(t, i), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	defer conn.Close()
	_ = calls["unary"](t.Context(), grpc_testing.NewTestServiceClient(conn))
}

// 3 of 5 retries are lent. How many come back depends on how the call ends.
func TestLeaseComesBack(t *testing.T) {
	for name, call := range calls {
		for _, fails := range []error{nil, status.Error(codes.Unavailable, "down")} {
			for report, left := range map[string]int{"": 5, "1": 4, "4": 2, "one": 2, "1 2": 3} {
				t.Run(fmt.Sprintf("%s, reports %q, %v", name, report, fails), func(t *testing.T) {
					budget := &retry.Budget{Size: 5}
					s := &server{answer: func(ctx context.Context, _ int) error {
						md, _ := metadata.FromIncomingContext(ctx)
						assert.Equal(t, []string{"3"}, md.Get("retry-budget"))
						assert.Equal(t, 2, budget.Left(), "meanwhile")
						for _, value := range strings.Fields(report) { // there are two values if the server passes on a trailer
							_ = grpc.SetTrailer(ctx, metadata.Pairs("retry-budget-spent", value))
						}
						return fails
					}}
					ctx := metadata.AppendToOutgoingContext(retry.WithBudget(t.Context(), budget), "retry-budget", "77") // is replaced
					_ = call(ctx, dial(t, s.serve(t), retrygrpc.LendBudget(3)...))
					if name == "bidirectional stream" && fails == nil {
						left = 2 // this stream has not ended yet, so its lease has not come back
					}
					assert.Equal(t, left, budget.Left())
				})
			}
		}
		var cancel context.CancelFunc
		hangs := &server{answer: func(ctx context.Context, _ int) error { cancel(); <-ctx.Done(); return nil }}
		for address, left := range map[string]int{"127.0.0.1:1": 5, hangs.serve(t): 2} { // no connection; the answer is lost
			var ctx context.Context
			ctx, cancel = context.WithCancel(t.Context())
			budget := &retry.Budget{Size: 5}
			assert.Error(t, call(retry.WithBudget(ctx, budget), dial(t, address, retrygrpc.LendBudget(3)...)))
			assert.Equal(t, left, budget.Left(), name)
			cancel()
		}
	}
}

// If another attempt may follow, all retries that are left are lent, except one.
func TestLeaseOfEachAttempt(t *testing.T) {
	for sent, policy := range map[string]retry.Policy{"2 2": {MaxAttempts: 2}, "2 1": {MaxAttempts: 2, HealthyAfter: time.Hour}, "2 1 0 0": soon(), "3": {}} {
		for name, call := range calls {
			t.Run(name+", "+sent, func(t *testing.T) {
				var got []string
				s := &server{answer: func(ctx context.Context, _ int) error {
					md, _ := metadata.FromIncomingContext(ctx)
					got = append(got, md.Get("retry-budget")...)
					return status.Error(codes.Unavailable, "down")
				}}
				options, err := retrygrpc.Interceptor{Policy: policy}.DialOptions()
				require.NoError(t, err)
				options = append(options, retrygrpc.LendBudget(9)...)
				_ = call(retry.WithBudget(t.Context(), &retry.Budget{Size: 3}), dial(t, s.serve(t), options...))
				assert.Equal(t, sent, strings.Join(got, " "))
			})
		}
	}
}

// A server may spend as many retries as it was lent, and reports how many it has spent.
func TestBorrow(t *testing.T) {
	for values, most := range map[string]int{"": 3, "2": 2, "0": 0, "99": 3, "2 1": 1, "-1": 0} {
		t.Run(values, func(t *testing.T) {
			reason, report := retry.ReasonBorrowed, []string{strconv.Itoa(most)}
			if values == "" {
				reason, report = retry.ReasonBudget, nil
			}
			s := &server{messages: 1, answer: func(ctx context.Context, _ int) error {
				runs := 0
				err := retry.Do(ctx, retry.Policy{MaxAttempts: 9, Backoff: retry.Fixed(0)}, func(context.Context) error {
					runs++
					return assert.AnError
				})
				assert.Equal(t, reason, retry.ReasonOf(err))
				assert.Equal(t, most+1, runs)
				return nil
			}}
			client := dial(t, s.serve(t, retrygrpc.BorrowBudget(3)...))
			ctx := t.Context()
			for _, value := range strings.Fields(values) {
				ctx = metadata.AppendToOutgoingContext(ctx, "Retry-Budget", value)
			}
			var trailer metadata.MD
			_, err := client.UnaryCall(ctx, &grpc_testing.SimpleRequest{}, grpc.Trailer(&trailer))
			require.NoError(t, err)
			assert.Equal(t, report, trailer.Get("retry-budget-spent"))

			stream, err := client.StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{})
			require.NoError(t, err)
			for err == nil {
				_, err = stream.Recv()
			}
			assert.Equal(t, report, stream.Trailer().Get("retry-budget-spent"), "the retries that were spent after the first message")
		})
	}
}
