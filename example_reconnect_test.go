package retry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// A client that reconnects forever calls Do once for each lasting connection. A
// connection that has been up for a minute counts as a success, so the delays
// start from the beginning after it. A connection that is lost soon counts as a
// failure, so the delays keep growing.
func ExampleDo_reconnect() {
	reconnect := retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Exponential{Base: time.Millisecond},
		MaxDelay:    30 * time.Second,
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Printf("%v, next attempt in %v\n", e.Err, e.Delay)
			}
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// serve stands for a function that connects, serves until the connection is
	// lost, and returns how long that took.
	lives := []time.Duration{0, 2 * time.Second, time.Hour, 0, time.Hour}
	serve := func(ctx context.Context) (up time.Duration, err error) {
		up, lives = lives[0], lives[1:]
		if len(lives) == 0 {
			cancel() // the program shuts down
		}
		return up, fmt.Errorf("connection lost after %v", up)
	}

	for ctx.Err() == nil {
		err := retry.Do(ctx, reconnect, func(ctx context.Context) error {
			up, err := serve(ctx)
			if up >= time.Minute {
				return nil
			}
			return err
		})
		if err != nil { // with unlimited attempts an error is always a reason to stop
			fmt.Println(err)
			break
		}
	}
	// Output:
	// connection lost after 0s, next attempt in 1ms
	// connection lost after 2s, next attempt in 2ms
	// connection lost after 0s, next attempt in 1ms
}
