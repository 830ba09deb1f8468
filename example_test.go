package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

func Example() {
	policy := retry.Policy{
		MaxAttempts: 4, // attempts in all: the first and three retries
		Backoff:     retry.Exponential{Base: 10 * time.Millisecond},
		MaxDelay:    time.Second,
		Jitter:      retry.Proportional(0.5), // ±50 %
	}
	calls := 0
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		if calls++; calls < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	fmt.Println(calls, err)
	// Output: 3 <nil>
}

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

// The context does not contain the number of the attempt, so the function counts in a
// variable.
func ExampleDo_attemptNumber() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}
	attempt := 0

	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		attempt++
		fmt.Println("attempt", attempt, "of", policy.EffectiveMax())
		return errors.New("connection refused")
	})
	fmt.Println(err)
	// Output:
	// attempt 1 of 3
	// attempt 2 of 3
	// attempt 3 of 3
	// retry: attempts exhausted after 3 attempts (2ms waited): connection refused
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

// If the server asks one caller of an API to wait, the Gate holds back all callers until this wait
// is over.
func ExampleGate() {
	gate := retry.Gate{OnClose: func(key string, wait time.Duration, cause error) {
		fmt.Println("all calls to", key, "wait for", wait, "because of", cause)
	}}
	answers := []error{retry.After(20*time.Millisecond, errors.New("429 Too Many Requests")), nil}
	charge := gate.Hold("billing", func(ctx context.Context) error {
		answer := answers[0] // a real program would call the API here
		answers = answers[1:]
		return answer
	})
	fmt.Println(retry.Do(context.Background(), retry.Default(), charge))
	// Output:
	// all calls to billing wait for 20ms because of 429 Too Many Requests
	// <nil>
}
