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

// The body of a Loop can assign any number of results, and can leave the loop by
// break, return or goto.
func ExampleLoop() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	dial := func(ctx context.Context, attempt int) (string, error) {
		if attempt == 1 {
			return "", errors.New("connection refused")
		}
		return "connection 17", nil
	}

	var conn string
	var err error
	for attempt, ctx := range retry.Loop(context.Background(), policy, &err) {
		conn, err = dial(ctx, attempt) // with = and not :=, which would declare another err
		fmt.Println("attempt", attempt, err)
	}
	if err != nil {
		fmt.Println("gave up:", err)
		return
	}
	fmt.Println(conn)
	// Output:
	// attempt 1 connection refused
	// attempt 2 <nil>
	// connection 17
}
