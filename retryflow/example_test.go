package retryflow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// Each error can have its own policy: many attempts after a busy server, a few quick
// attempts after a deadlock, and no retry after any other error.
func ExampleRules_Classify() {
	isBusy := func(err error) bool { return err.Error() == "429" }
	isDeadlock := func(err error) bool { return err.Error() == "40P01" }
	rules := retryflow.Rules{
		{When: retryflow.IfErr(isBusy), Do: retryflow.Retry, Policy: retry.Policy{MaxAttempts: 8, Backoff: retry.Exponential{Base: 4 * time.Millisecond}}},
		{When: retryflow.IfErr(isDeadlock), Do: retryflow.Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}},
	}
	policy := retry.Policy{
		MaxAttempts: 10, // counted over all rules
		Classify:    rules.Classify,
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

var anyError = retryflow.IfErr(func(error) bool { return true })

// For pagination, the task that fetches a page jumps back to itself, with the
// number of the next page in the state. A failed fetch is retried.
func ExamplePipeline_pagination() {
	fetch := func(_ context.Context, s retryflow.State) retryflow.Outcome {
		page, _ := s["page"].(int)
		fmt.Println("page", page)
		return retryflow.Outcome{Result: page < 2} // the result says whether there are more pages
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
			{When: anyError, Do: retryflow.Retry, Policy: retry.Default()},
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

// For a fallback, a task that has failed twice jumps to the task that asks
// another host. Break ends the pipeline as soon as one host has answered.
func ExamplePipeline_fallback() {
	ask := func(host string) func(context.Context, retryflow.State) retryflow.Outcome {
		return func(_ context.Context, s retryflow.State) retryflow.Outcome {
			fmt.Println("asking", host)
			if host == "primary" {
				return retryflow.Outcome{Err: errors.New("connection refused")}
			}
			s["answer"] = "42"
			return retryflow.Outcome{}
		}
	}
	twice := func(o retryflow.Outcome) (bool, error) { return o.Err != nil && o.Attempt == 2, nil }

	state := retryflow.State{}
	pipeline := retryflow.Pipeline{Tasks: []retryflow.Task{
		{Label: "primary", Run: ask("primary"), Rules: retryflow.Rules{
			{When: twice, Do: retryflow.Jump, To: "fallback"},
			{When: anyError, Do: retryflow.Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Millisecond)}},
			{Do: retryflow.Break},
		}},
		{Label: "fallback", Run: ask("fallback"), Rules: retryflow.Rules{
			{When: anyError, Do: retryflow.Retry, Policy: retry.Default()},
		}},
	}}
	err := pipeline.Run(context.Background(), state)
	fmt.Println(state["answer"], err)
	// Output:
	// asking primary
	// asking primary
	// asking fallback
	// 42 <nil>
}

// A process crashed in the wait before a jump. The next process reads the events that the first
// process appended to a file, and continues: it does not submit again, and it waits only for
// the rest of the time.
func ExamplePipeline_Resume() {
	polls := 0
	pipeline := retryflow.Pipeline{Tasks: []retryflow.Task{
		{Label: "submit", Run: func(context.Context, retryflow.State) retryflow.Outcome {
			fmt.Println("submit")
			return retryflow.Outcome{}
		}},
		{Label: "poll", Run: func(context.Context, retryflow.State) retryflow.Outcome {
			polls++
			fmt.Println("poll", polls)
			return retryflow.Outcome{Result: polls}
		}, Rules: retryflow.Rules{{
			When: func(o retryflow.Outcome) (bool, error) { return o.Result == 1, nil },
			Do:   retryflow.Jump, To: "poll",
			Delay: func(retryflow.Outcome) (time.Duration, error) { return 10 * time.Millisecond, nil },
		}}},
	}}
	ctx, crash := context.WithCancel(context.Background())
	var file bytes.Buffer // in a program a file, opened with os.O_APPEND
	pipeline.OnEvent = func(_ context.Context, e retryflow.Event) {
		if ctx.Err() != nil {
			return
		}
		if err := json.NewEncoder(&file).Encode(e); err != nil {
			fmt.Println("the event is lost:", err)
		}
		if e.Kind == retry.RetryScheduled {
			crash()
		}
	}
	_ = pipeline.Run(ctx, nil)

	var events []retryflow.Event
	for lines := json.NewDecoder(&file); ; {
		var e retryflow.Event
		if err := lines.Decode(&e); err != nil {
			break // io.EOF, or the crash cut off the last line
		}
		events = append(events, e)
	}
	fmt.Println("resume after", len(events), "events")
	fmt.Println(pipeline.Resume(context.Background(), nil, events))
	// Output:
	// submit
	// poll 1
	// resume after 6 events
	// poll 2
	// <nil>
}
