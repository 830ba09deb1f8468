package retry_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/goretry/retry"
)

// All calls to one target share one Budget. While the target is down, these calls together make at
// most as many retries as the Budget holds.
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

// If several layers of a request retry, their attempts multiply. A Budget in the context limits the
// retries of all layers together.
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
