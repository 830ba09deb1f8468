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

// serveGreetings serves a method that answers only every third call.
func serveGreetings() *httptest.Server {
	calls := 0
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		if calls++; calls%3 != 0 {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("shutting down"))
		}
		return connect.NewResponse(wrapperspb.String("Hello, " + r.Msg.GetValue())), nil
	}))
	return httptest.NewServer(mux)
}

func Example() {
	server := serveGreetings()
	defer server.Close()

	retries := &retryconnect.Interceptor{Policy: retry.Policy{
		MaxAttempts: 4,
		Backoff:     retry.Exponential{Base: time.Millisecond},
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Printf("attempt %d: %v; next in %v\n", e.Attempt, connect.CodeOf(e.Err), e.Delay)
			}
		},
	}}
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

// Mark is for calls that you retry without an interceptor.
func ExampleMark() {
	server := serveGreetings()
	defer server.Close()
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](http.DefaultClient, server.URL+greet)

	policy := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Millisecond)}
	_, err := retry.DoValue(context.Background(), policy, func(ctx context.Context) (*connect.Response[wrapperspb.StringValue], error) {
		resp, err := client.CallUnary(ctx, connect.NewRequest(wrapperspb.String("Ada")))
		return resp, retryconnect.Mark(err)
	})
	fmt.Println(err)
	// Output: retry: attempts exhausted after 2 attempts (1ms waited): unavailable: shutting down
}
