package retry_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/goretry/retry"
)

// A policy is a field of the configuration like any other. A key that is not in
// the file keeps its value. YAML works the same way.
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
	// 3 attempts, fibonacci 100ms, at most 5s, ±20%
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

// A flag can hold a policy, too.
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
