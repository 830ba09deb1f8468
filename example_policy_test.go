package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	xrand "golang.org/x/exp/rand"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

// RetryIf decides which failures are worth another attempt.
func ExamplePolicy_retryIf() {
	errNotFound := errors.New("no such user")
	policy := retry.Policy{
		MaxAttempts: 5,
		Backoff:     retry.Fixed(time.Millisecond),
		RetryIf:     func(err error) bool { return !errors.Is(err, errNotFound) },
	}
	calls := 0
	err := retry.Do(context.Background(), policy, func(ctx context.Context) error {
		if calls++; calls == 1 {
			return errors.New("connection refused")
		}
		return errNotFound
	})
	fmt.Println(err)
	// Output: retry: rejected by RetryIf after 2 attempts (1ms waited): no such user
}

// With Classify, limits and delays depend on the error. A server that throttles its clients gets
// more time and fewer attempts than a server that restarts. The class has a name, so throttled
// attempts are counted separately.
func ExampleClass() {
	errThrottled := errors.New("429 Too Many Requests")
	throttled := &retry.Class{Name: "throttled", MaxAttempts: 2, Backoff: retry.Fixed(30 * time.Second)}
	policy := retry.Policy{
		MaxAttempts: 9,
		Backoff:     retry.Fixed(time.Second),
		Classify: func(err error) *retry.Class {
			if errors.Is(err, errThrottled) {
				return throttled
			}
			return nil // the failure has no class, so the policy applies
		},
		OnEvent: func(_ context.Context, e retry.Event) {
			if e.Kind == retry.RetryScheduled {
				fmt.Printf("%v, again in %v\n", e.Err, e.Delay)
			}
		},
	}
	failures := []error{errors.New("connection refused"), errors.New("connection refused"), errThrottled, errThrottled}
	err := retry.Do(context.Background(), retrytest.NoWait(policy), func(context.Context) error {
		err := failures[0]
		failures = failures[1:]
		return err
	})
	fmt.Println(err)
	// Output:
	// connection refused, again in 1s
	// connection refused, again in 1s
	// 429 Too Many Requests, again in 30s
	// retry: attempts exhausted after 4 attempts (32s waited, 2 of "throttled"): 429 Too Many Requests
}

// The method Uint64 of any generator can be the Source. If goroutines share the policy, the
// generator must be safe for concurrent use. The LockedSource of golang.org/x/exp/rand is safe. The
// function rand.Uint64 of math/rand/v2 is safe too. NewSource and NewPCG return generators that are
// not safe.
func ExamplePolicy_source() {
	source := new(xrand.LockedSource)
	source.Seed(7)
	policy := retry.Policy{
		MaxAttempts: 3,
		Backoff:     retry.Fixed(time.Second),
		Jitter:      retry.FullJitter,
		Source:      source.Uint64,
	}
	first, second := policy.Next(retry.Attempt{Number: 1}), policy.Next(retry.Attempt{Number: 1})
	fmt.Println(first.Delay, second.Delay)

	source.Seed(7) // the same delays once more
	fmt.Println(policy.Next(retry.Attempt{Number: 1}).Delay == first.Delay)
	// Output:
	// 314.768325ms 840.617589ms
	// true
}

func ExamplePolicy_Lint() {
	policy := retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute, time.Hour}}
	for _, finding := range policy.Lint() {
		fmt.Printf("%s: %v\n", finding.Code, finding)
		fmt.Println(finding.Key + ": " + finding.InKeys()) // for a policy from a file
	}
	// Output:
	// unused_delays: a Schedule of 3 delays is too long for 3 attempts: the delay of 1h0m0s and all delays after it are never used; MaxAttempts counts the first attempt
	// backoff.delays: a list of 3 delays is too long for 3 attempts: the delay of 1h0m0s and all delays after it are never used; max_attempts counts the first attempt
}

// Default is for calls to a nearby service. If you print a policy, the text describes the policy.
func ExampleDefault() {
	fmt.Println(retry.Default())
	// Output: 5 attempts, exponential 200ms x2, at most 5s, ±50%
}

// WithMaxAttempts replaces the limit of a policy from a file by a limit from a flag or the
// environment.
func ExamplePolicy_WithMaxAttempts() {
	file := retry.Policy{MaxRetries: 2, MaxElapsed: time.Minute, Backoff: retry.Fixed(time.Second)}
	for _, n := range []int{9, 1, -1, 0} {
		policy, err := file.WithMaxAttempts(n)
		fmt.Println(policy, err)
	}
	// Output:
	// 9 attempts, fixed 1s, within 1m0s <nil>
	// 1 attempt, fixed 1s, within 1m0s <nil>
	// unlimited attempts, fixed 1s, within 1m0s <nil>
	// 3 attempts, fixed 1s, within 1m0s retry: max attempts is 0: write 1 for no retry, or -1 for unlimited
}

// Validate names each fault and says what to write instead.
func ExamplePolicy_Validate() {
	policy := retry.Policy{MaxAttempts: -2, MaxDelay: -time.Second}
	fmt.Println(policy.Validate())
	// Output: invalid policy: MaxAttempts is -2: write how many, 0 for not set, or -1 for unlimited; MaxDelay is -1s: write 0 for none, or a positive duration
}

func ExamplePolicy_Plan() {
	plan := retry.Default().Plan(retry.Unlimited)
	fmt.Println(plan)
	fmt.Println("the last retry starts within", plan[len(plan)-1].Total)
	// Output:
	// after attempt   wait             total at most
	// 1               100ms to 300ms   300ms
	// 2               200ms to 600ms   900ms
	// 3               400ms to 1.2s    2.1s
	// 4               800ms to 2.4s    4.5s
	// the last retry starts within 4.5s
}

// A NATS consumer takes its delays as a list, without jitter.
func ExamplePolicy_Delays() {
	fmt.Println(retry.Default().Delays(10))
	// Output: [200ms 400ms 800ms 1.6s]
}

// A policy is a field of the configuration like any other. If the file lacks a key, the field keeps
// its value. YAML works the same way.
func ExamplePolicy_UnmarshalJSON() {
	const file = `{
		"listen": ":8080",
		"database": {
			"url": "postgres://localhost/orders",
			"retry": {"max_attempts": 3, "backoff": {"type": "fibonacci", "base": "100ms"}}
		}
	}`
	var config struct {
		Listen   string
		Database struct {
			URL   string
			Retry retry.Policy
		}
	}
	config.Database.Retry = retry.Default()
	if err := json.Unmarshal([]byte(file), &config); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.Database.Retry)

	// A mistake is an error that says what to write instead.
	err := json.Unmarshal([]byte(`{"database": {"retry": {"max_delay": 5}}}`), &config)
	fmt.Println(err)
	// Output:
	// 3 attempts, fibonacci 100ms, at most 5s, ±50%
	// retry: invalid policy: max_delay is 5: write a duration as text, such as "200ms" or "1m30s"
}

// An environment variable can hold a policy as JSON on one line.
func ExamplePolicy_UnmarshalText_environment() {
	os.Setenv("ORDERS_RETRY", `{"max_retries": 2, "jitter": "full"}`)
	defer os.Unsetenv("ORDERS_RETRY")

	policy := retry.Default()
	if text, ok := os.LookupEnv("ORDERS_RETRY"); ok {
		if err := policy.UnmarshalText([]byte(text)); err != nil {
			fmt.Println("ORDERS_RETRY:", err)
			return
		}
	}
	fmt.Println(policy)
	// Output: 3 attempts, exponential 200ms x2, at most 5s, full jitter
}

func ExamplePolicy_MarshalJSON() {
	text, err := json.Marshal(retry.Default())
	fmt.Println(string(text), err)
	// Output: {"max_attempts":5,"backoff":{"type":"exponential","base":"200ms","factor":2},"max_delay":"5s","jitter":0.5} <nil>
}
