package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// Polling retries one error, "not ready yet", and gives up at any other error.
// In this example it ends after a minute.
func ExampleDoValue_polling() {
	errNotReady := errors.New("not ready yet")
	poll := retry.Policy{
		MaxElapsed: time.Minute,
		Backoff:    retry.Fixed(time.Millisecond),
		RetryIf:    func(err error) bool { return errors.Is(err, errNotReady) },
	}
	states := []string{"queued", "running", "done"}
	state, err := retry.DoValue(context.Background(), poll, func(ctx context.Context) (string, error) {
		state := states[0]
		states = states[1:]
		if state != "done" {
			return "", fmt.Errorf("the build is %s: %w", state, errNotReady)
		}
		return state, nil
	})
	fmt.Println(state, err)
	// Output: done <nil>
}

// Without a deadline, polling continues until its context is canceled.
func ExampleDoValue_pollingWithoutDeadline() {
	errNotReady := errors.New("not ready yet")
	poll := retry.Policy{
		MaxAttempts: retry.Unlimited,
		Backoff:     retry.Fixed(time.Millisecond),
		RetryIf:     func(err error) bool { return errors.Is(err, errNotReady) },
	}
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	_, err := retry.DoValue(ctx, poll, func(ctx context.Context) (string, error) {
		if calls++; calls == 10 {
			cancel() // the program shuts down
		}
		return "", errNotReady
	})
	fmt.Println(err)
	// Output: retry: canceled after 10 attempts (9ms waited, context canceled): not ready yet
}
