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

// A loop around Do waits for Error.Delay before it calls again. Without that it
// would spin once the Budget is empty: Do returns at once then.
func ExampleError_delay() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond), Budget: &retry.Budget{Size: 2}}
	checks := 0
	check := func(ctx context.Context) error {
		if checks++; checks < 6 {
			return errors.New("not ready yet")
		}
		return nil
	}
	for {
		err := retry.Do(context.Background(), policy, check)
		if err == nil {
			break
		}
		fmt.Println(err)
		var e *retry.Error
		if errors.As(err, &e) {
			time.Sleep(e.Delay)
		}
	}
	fmt.Println("ready after", checks, "checks")
	// Output:
	// retry: attempts exhausted after 3 attempts (2ms waited): not ready yet
	// retry: retry budget exhausted after 1 attempt (the next delay is 1ms): not ready yet
	// retry: retry budget exhausted after 1 attempt (the next delay is 1ms): not ready yet
	// ready after 6 checks
}
