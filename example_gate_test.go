package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// One refusal holds all callers of an API until the server's wait is over.
func ExampleGate() {
	gate := retry.Gate{OnClose: func(key string, wait time.Duration, cause error) {
		fmt.Println("all calls of", key, "wait for", wait, "because of", cause)
	}}
	answers := []error{retry.After(20*time.Millisecond, errors.New("429 Too Many Requests")), nil}
	charge := gate.Hold("billing", func(ctx context.Context) error {
		answer := answers[0] // stands for a call of the API
		answers = answers[1:]
		return answer
	})
	fmt.Println(retry.Do(context.Background(), retry.Default(), charge))
	// Output:
	// all calls of billing wait for 20ms because of 429 Too Many Requests
	// <nil>
}
