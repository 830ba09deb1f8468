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
		Jitter:      retry.Proportional(0.2), // ±20 %
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
