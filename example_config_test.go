package retry_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/goretry/retry"
)

// A policy is a field of the configuration like any other. What the file
// leaves out is as it was before; YAML works the same.
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

	// What cannot be meant is an error that says what to write.
	err := json.Unmarshal([]byte(`{"database": {"retry": {"max_delay": 5}}}`), &config)
	fmt.Println(err)
	// Output:
	// 3 attempts, fibonacci 100ms, at most 5s, ±20%
	// retry: invalid policy: max_delay is 5: write a duration as text, such as "200ms" or "1m30s"
}

// In an environment variable a policy is JSON on one line.
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

// In a flag too.
func ExamplePolicy_UnmarshalText_flag() {
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	var policy retry.Policy
	flags.TextVar(&policy, "retry", retry.Default(), "the retry `policy` of the database")

	err := flags.Parse([]string{"-retry", `{"max_attempts": 8, "max_elapsed": "1m"}`})
	fmt.Println(policy, err)
	// Output: 8 attempts, exponential 200ms x2, at most 5s, ±20%, within 1m0s <nil>
}

func ExamplePolicy_MarshalJSON() {
	text, err := json.Marshal(retry.Default())
	fmt.Println(string(text), err)
	// Output: {"max_attempts":5,"backoff":{"type":"exponential","base":"200ms","factor":2},"max_delay":"5s","jitter":0.2} <nil>
}

func ExamplePolicy_Plan() {
	plan := retry.Default().Plan(retry.Unlimited)
	fmt.Println(plan)
	fmt.Println("the last retry starts within", plan[len(plan)-1].Total)
	// Output:
	// after attempt   wait             total at most
	// 1               160ms to 240ms   240ms
	// 2               320ms to 480ms   720ms
	// 3               640ms to 960ms   1.68s
	// 4               1.28s to 1.92s   3.6s
	// the last retry starts within 3.6s
}

func ExamplePolicy_Preview() {
	policy := retry.Policy{
		MaxRetries:     retry.Unlimited,
		Backoff:        retry.Linear(5 * time.Second),
		MaxDelay:       15 * time.Second,
		MaxElapsed:     10 * time.Minute,
		AttemptTimeout: 2 * time.Second,
	}
	fmt.Println(policy.Preview(4))
	// Output:
	// unlimited attempts, linear 5s, at most 15s, within 10m0s, 2s for each
	//
	// after attempt   wait   total at most
	// 1               5s     7s
	// 2               10s    19s
	// 3               15s    36s
	// 4               15s    53s
	// ...
	//
	// The delays reach MaxDelay (max_delay), 15s, after attempt 3.
	// Ends after at most 42 attempts: no retry starts later than MaxElapsed (max_elapsed), 10m, after the first attempt began.
	// Worst case: 10m2s in all, if attempts end with their AttemptTimeout (attempt_timeout), 2s.
}

// A NATS consumer wants the delays as a list, and no jitter.
func ExamplePolicy_Delays() {
	fmt.Println(retry.Default().Delays(10))
	// Output: [200ms 400ms 800ms 1.6s]
}
