package retry_test

import (
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
		job.Attempts++ // when the job is claimed, so that a crash counts
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

// A job can have its own limit, which can lower the policy's limit and never
// raises it. 0 means none.
func ExamplePolicy_ForJob() {
	policy := retry.Policy{MaxAttempts: 5}
	for _, maxAttempts := range []int{0, 3, 20} {
		fmt.Println(maxAttempts, "->", policy.ForJob(maxAttempts))
	}
	// Output:
	// 0 -> 5 attempts
	// 3 -> 3 attempts
	// 20 -> 5 attempts
}

// The ID of a job is enough to compute its delays again, in any worker, and for
// a log a week later.
func ExampleSeedOf() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(10 * time.Minute), Jitter: retry.FullJitter}
	for _, id := range []string{"invoice-17", "invoice-18", "invoice-17"} {
		d := policy.Next(retry.Attempt{Number: 1, Seed: retry.SeedOf(id)})
		fmt.Println(id, retry.SeedOf(id), d.Delay.Round(time.Millisecond))
	}
	// Output:
	// invoice-17 13111388282133112625 7m27.473s
	// invoice-18 11603098643101379242 3m0.11s
	// invoice-17 13111388282133112625 7m27.473s
}
