package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// A job queue counts the attempts of a job and asks the policy whether and when
// to run it again. The seed comes from the job's ID, so every worker computes
// the same delay.
func ExamplePolicy_Next() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute}, Jitter: retry.Proportional(0.1)}
	job := struct {
		ID       string
		Attempts int
	}{ID: "invoice-17"}

	for {
		job.Attempts++ // counted when the job is claimed, so that a crash counts too
		err := errors.New("connection refused")
		d := policy.Next(retry.Attempt{Number: job.Attempts, Err: err, Seed: retry.SeedOf(job.ID)})
		if !d.Retry() {
			fmt.Println("dead letter after", job.Attempts, "attempts:", d.Reason)
			break
		}
		fmt.Println("run again in", d.Delay.Round(time.Second))
	}
	// Output:
	// run again in 5m15s
	// run again in 14m5s
	// dead letter after 3 attempts: attempts_exhausted
}

// Eligible gets the number of attempts that have been made.
func ExamplePolicy_Eligible() {
	policy := retry.Policy{MaxAttempts: 3}
	for attempts := range 4 {
		fmt.Println(attempts, policy.Eligible(attempts))
	}
	// Output:
	// 0 true
	// 1 true
	// 2 true
	// 3 false
}

// A job can have its own limit. This limit can lower the policy's limit, but not raise it. 0 means
// that the job has no limit.
func ExamplePolicy_ForJob() {
	policy := retry.Policy{MaxAttempts: 5}
	for _, maxAttempts := range []int{0, 3, 20} {
		fmt.Println(maxAttempts, "->", policy.ForJob(maxAttempts))
	}
	// Output:
	// 0 -> 5 attempts, Retry-After at most 24h0m0s
	// 3 -> 3 attempts, Retry-After at most 24h0m0s
	// 20 -> 5 attempts, Retry-After at most 24h0m0s
}

// The row of a job in a database counts its attempts. Each worker that gets the job makes one
// attempt.
func ExampleOnce() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Minute}}
	send := func(context.Context) error { return errors.New("connection refused") }

	for attempts := 1; attempts <= 3; attempts++ {
		d, err := retry.Once(context.Background(), policy, retry.Attempt{Number: attempts}, send)
		if d.Retry() { // a method: d.Reason == retry.ReasonRetry
			fmt.Println("run again in", d.Delay)
		} else {
			fmt.Println(d.Reason, "-", err)
		}
	}
	// Output:
	// run again in 1m0s
	// run again in 2m0s
	// attempts_exhausted - retry: attempts exhausted after 3 attempts: connection refused
}

// Draw computes the delay again from the fields that a line of a log contains.
func ExampleDraw() {
	d := retry.Default().Next(retry.Attempt{Number: 2, Seed: 42})
	fmt.Println(d.Lo, d.Hi, d.Delay == retry.Draw(42, 2, d.Lo, d.Hi))
	// Output: 200ms 600ms true
}
