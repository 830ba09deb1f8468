package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

func ExampleDo() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	errRefused := errors.New("connection refused")

	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		return errRefused
	})
	fmt.Println(err)
	fmt.Println(retry.ReasonOf(err))
	fmt.Println(errors.Is(err, errRefused))
	// Output:
	// retry: attempts exhausted after 3 attempts (2ms waited): connection refused
	// attempts_exhausted
	// true
}

func ExampleDoValue() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	calls := 0

	greeting, err := retry.DoValue(context.Background(), policy, func(ctx context.Context) (string, error) {
		if calls++; calls == 1 {
			return "", errors.New("connection refused")
		}
		return "hello", nil
	})
	fmt.Println(greeting, err)
	// Output: hello <nil>
}
