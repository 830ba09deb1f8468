package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// A connection, a watch or a stream lives long before it fails. One that was up
// for HealthyAfter begins the call anew: the first delay comes first again. One
// that fails sooner is an attempt like any other, and the delays grow. Here 250ms
// stand for a minute.
func ExampleDo_reconnect() {
	reconnect := retry.Policy{
		MaxAttempts:  retry.Unlimited,
		Backoff:      retry.Exponential{Base: time.Millisecond},
		MaxDelay:     30 * time.Second,
		HealthyAfter: 250 * time.Millisecond,
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Printf("attempt %d: %v, again in %v\n", e.Attempt, e.Err, e.Delay)
			}
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// serve stands for a function that connects, and serves until the connection is
	// lost.
	lives := []time.Duration{0, 0, 250 * time.Millisecond, 0, 0}
	serve := func(ctx context.Context) error {
		time.Sleep(lives[0])
		if lives = lives[1:]; len(lives) == 0 {
			cancel() // the program shuts down
		}
		return errors.New("connection lost")
	}

	err := retry.Do(ctx, reconnect, serve) // attempts are unlimited: if Do returns an error, stop
	fmt.Println(err)
	// Output:
	// attempt 1: connection lost, again in 1ms
	// attempt 2: connection lost, again in 2ms
	// attempt 1: connection lost, again in 1ms
	// attempt 2: connection lost, again in 2ms
	// retry: canceled after 3 attempts (6ms waited, context canceled): connection lost
}
