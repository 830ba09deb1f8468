package retryconnect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/goretry/retry"
	"github.com/goretry/retry/adapters/retryconnect"
)

const greet = "/greet.Greeter/Greet"

func Example() {
	calls := 0
	server := httptest.NewServer(connect.NewUnaryHandler(greet, func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		if calls++; calls < 3 {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("shutting down"))
		}
		return connect.NewResponse(wrapperspb.String("Hello, " + r.Msg.GetValue())), nil
	}))
	defer server.Close()

	policy := retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Exponential{Base: time.Millisecond},
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Printf("attempt %d: %v; next in %v\n", e.Attempt, connect.CodeOf(e.Err), e.Delay)
			}
		},
	}
	retries := &retryconnect.Interceptor{
		Policy: policy,
		Methods: map[string]retry.Policy{
			"/shop.Orders/Charge": {NonRetryable: true}, // must not run twice
		},
	}
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](
		http.DefaultClient, server.URL+greet, connect.WithInterceptors(retries))

	resp, err := client.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("Ada")))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Msg.GetValue())
	// Output:
	// attempt 1: unavailable; next in 1ms
	// attempt 2: unavailable; next in 2ms
	// Hello, Ada
}
