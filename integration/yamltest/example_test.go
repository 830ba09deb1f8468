package yamltest

import (
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
)

// A policy is a field of the configuration like any other. The fields that the
// file leaves out keep their values.
func Example() {
	const file = `
listen: ":8080"
database:
  url: postgres://localhost/orders
  retry:
    max_attempts: 3
    backoff: {type: fibonacci, base: 100ms}
`
	var config struct {
		Listen   string
		Database struct {
			URL   string
			Retry retry.Policy
		}
	}
	config.Database.Retry = retry.Default()
	if err := yaml.Unmarshal([]byte(file), &config); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.Database.URL, config.Database.Retry)

	err := yaml.Unmarshal([]byte("database: {retry: {max_delay: 5}}"), &config)
	fmt.Println(err)
	// Output:
	// postgres://localhost/orders 3 attempts, fibonacci 100ms, at most 5s, ±20%
	// retry: invalid policy: max_delay is 5: write a duration as text, such as "200ms" or "1m30s"
}

// A policy in a file, with an override from the environment, as a service loads
// it.
func Example_environment() {
	os.Setenv("PAYMENTS_RETRY", `{"max_attempts": 9}`)
	defer os.Unsetenv("PAYMENTS_RETRY")
	type Config struct {
		URL   string
		Retry retry.Policy
	}
	load := func(file []byte) error {
		config := Config{Retry: retry.Default()} // the file replaces the fields that it names
		err := yaml.Unmarshal(file, &config)
		if text := os.Getenv("PAYMENTS_RETRY"); err == nil && text != "" { // {"max_attempts": 9}
			err = config.Retry.UnmarshalText([]byte(text))
		}
		if err != nil {
			return err
		}
		fmt.Println(config.Retry)
		return config.Retry.Validate()
	}
	fmt.Println(load([]byte(`
retry: {max_attempts: 6, backoff: {type: exponential, base: 100ms}, max_delay: 5s, jitter: 0.2}
`)))
	// Output:
	// 9 attempts, exponential 100ms x2, at most 5s, ±20%
	// <nil>
}
