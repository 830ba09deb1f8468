package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// All calls to one target share one Budget. While the target is down, their
// retries in total are at most what the Budget holds.
func ExampleBudget() {
	policy := retry.Policy{MaxAttempts: 4, Budget: &retry.Budget{Size: 5, Ratio: 0.1}}

	attempts := 0
	var err error
	for range 100 {
		err = retry.Do(context.Background(), policy, func(ctx context.Context) error {
			attempts++
			return errors.New("connection refused")
		})
	}
	fmt.Println(attempts, "attempts of 100 calls")
	fmt.Println(err)
	// Output:
	// 105 attempts of 100 calls
	// retry: retry budget exhausted after 1 attempt: connection refused
}

// After an outage, a client that makes few calls gets its next retry after a
// while, and need not wait for ten successful calls.
func ExampleBudget_refillEvery() {
	budget := &retry.Budget{Size: 5, Ratio: 0.1, RefillEvery: 10 * time.Millisecond}
	policy := retry.Policy{MaxAttempts: 2, Budget: budget}
	ctx := context.Background()

	for range 10 { // an outage uses up the budget
		_ = retry.Do(ctx, policy, func(ctx context.Context) error { return errors.New("connection refused") })
	}
	time.Sleep(20 * time.Millisecond)

	attempts := 0
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		if attempts++; attempts == 1 {
			return errors.New("connection reset")
		}
		return nil
	})
	fmt.Println(attempts, "attempts:", err)
	// Output: 2 attempts: <nil>
}

// Each layer of a request that retries multiplies the calls of the layers below.
// A Budget in the context bounds the retries of all of them together.
func ExampleWithBudget() {
	policy := retry.Policy{MaxAttempts: 4}
	queries := 0
	query := func(ctx context.Context) error {
		queries++
		return errors.New("connection refused")
	}
	load := func(ctx context.Context) error { return retry.Do(ctx, policy, query) }
	render := func(ctx context.Context) error { return retry.Do(ctx, policy, load) }
	serve := func(ctx context.Context) error { return retry.Do(ctx, policy, render) }

	ctx := context.Background()
	err := serve(ctx)
	fmt.Println(queries, "queries:", retry.ReasonOf(err))

	queries = 0
	err = serve(retry.WithBudget(ctx, &retry.Budget{Size: 3}))
	fmt.Println(queries, "queries:", retry.ReasonOf(err))
	// Output:
	// 64 queries: attempts_exhausted
	// 4 queries: budget_exhausted
}
