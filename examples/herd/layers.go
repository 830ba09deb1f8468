package main

import (
	"context"
	"fmt"
	"io"

	"github.com/goretry/retry"
)

// The number of calls that the lowest layer gets for one call at the top, if every
// layer makes this many attempts to call the one below it, and all fail.
func backendCalls(layers, attempts int, budget *retry.Budget) int {
	n := 0
	call := func(context.Context) error {
		n++
		return errDown
	}
	policy := retry.Policy{MaxAttempts: attempts, Budget: budget}
	for range layers {
		below := call
		call = func(ctx context.Context) error { return retry.Do(ctx, policy, below) }
	}
	_ = call(context.Background()) // it always fails
	return n
}

func printAmplification(w io.Writer) {
	table(w, "Layers that all retry: calls of the lowest one for a single call at the top.", func(w io.Writer) {
		fmt.Fprintln(w, "layers\tattempts each\tcalls\t(known)\twith one budget of 5\t")
		for _, row := range []struct{ layers, attempts, known int }{
			{3, 4, 64},  // Site Reliability Engineering, chapter 22
			{5, 3, 243}, // Amazon Builders' Library, "Timeouts, retries, and backoff with jitter"
		} {
			fmt.Fprintf(w, "%d\t%d\t%d\t(%d)\t%d\t\n", row.layers, row.attempts,
				backendCalls(row.layers, row.attempts, nil), row.known,
				backendCalls(row.layers, row.attempts, &retry.Budget{Size: bucketSize, Ratio: bucketRatio}))
		}
	})
}
