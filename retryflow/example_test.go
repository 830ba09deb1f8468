package retryflow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// One policy for a server that is busy, another for a deadlock, and nothing
// for the rest.
func ExampleRules_Select() {
	isBusy := func(err error) bool { return err.Error() == "429" }
	isDeadlock := func(err error) bool { return err.Error() == "40P01" }
	rules := retryflow.Rules{
		{When: retryflow.IfErr(isBusy), Do: retryflow.Retry, Policy: retry.Policy{MaxAttempts: 8, Backoff: retry.Exponential{Base: 4 * time.Millisecond}}},
		{When: retryflow.IfErr(isDeadlock), Do: retryflow.Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}},
	}
	policy := retry.Policy{
		MaxAttempts: 10, // over all rules
		Select:      rules.Select,
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Println("again in", e.Delay)
			}
		},
	}

	failures := []string{"429", "429", "40P01: no such table"}
	err := retry.Do(context.Background(), policy, func(context.Context) error {
		failure := failures[0]
		failures = failures[1:]
		return errors.New(failure)
	})
	fmt.Println(err)
	// Output:
	// again in 4ms
	// again in 8ms
	// retry: not retryable after 3 attempts (12ms waited): 40P01: no such table
}

// Pages are fetched by a jump back to the task that fetches one, with the
// number of the next in the state.
func ExamplePipeline() {
	fetch := func(_ context.Context, s retryflow.State) retryflow.Outcome {
		page, _ := s["page"].(int)
		fmt.Println("page", page)
		return retryflow.Outcome{Result: page < 2}
	}
	store := func(_ context.Context, s retryflow.State) retryflow.Outcome {
		fmt.Println("stored up to page", s["page"])
		return retryflow.Outcome{}
	}
	hasNext := func(o retryflow.Outcome) (bool, error) { return o.Result == true, nil }
	turn := func(s retryflow.State, _ retryflow.Outcome) error {
		page, _ := s["page"].(int)
		s["page"] = page + 1
		return nil
	}

	pipeline := retryflow.Pipeline{Tasks: []retryflow.Task{
		{Label: "fetch", Run: fetch, Rules: retryflow.Rules{
			{When: retryflow.IfErr(func(error) bool { return true }), Do: retryflow.Retry, Policy: retry.Default()},
			{When: hasNext, Do: retryflow.Jump, To: "fetch", Set: turn},
		}},
		{Label: "store", Run: store},
	}}
	fmt.Println(pipeline.Run(context.Background(), nil))
	// Output:
	// page 0
	// page 1
	// page 2
	// stored up to page 2
	// <nil>
}
