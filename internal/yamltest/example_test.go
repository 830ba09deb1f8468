package yamltest

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
)

// A policy is a field of the configuration like any other. What the file
// leaves out is as it was before.
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
