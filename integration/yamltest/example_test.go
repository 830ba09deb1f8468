package yamltest

import (
	"fmt"
	"os"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
)

// A service loads a policy from a file. An environment variable overrides the limit of the file.
func Example() {
	type Config struct {
		URL   string
		Retry retry.Policy
	}
	load := func(file []byte) error {
		config := Config{Retry: retry.Default()} // the file replaces the fields that it names
		if err := yaml.Unmarshal(file, &config); err != nil {
			return err
		}
		if text := os.Getenv("MAX_ATTEMPTS"); text != "" {
			n, err := strconv.Atoi(text)
			if err == nil {
				config.Retry, err = config.Retry.WithMaxAttempts(n) // refuses 0, and replaces the limit of the file
			}
			if err != nil {
				return fmt.Errorf("MAX_ATTEMPTS: %w", err)
			}
		}
		if err := config.Retry.Validate(); err != nil {
			return err
		}
		fmt.Println(config.Retry)          // one line
		fmt.Println(config.Retry.Plan(10)) // a line for each delay
		return nil
	}
	fmt.Println(load([]byte(`
retry: {max_attempts: 6, backoff: {type: exponential, base: 100ms}, max_delay: 5s, jitter: 0.2}
`)))
	for _, text := range []string{"3", "many", "0", "-2"} {
		os.Setenv("MAX_ATTEMPTS", text)
		defer os.Unsetenv("MAX_ATTEMPTS")
		fmt.Println(load([]byte(`retry: {max_retries: 1, backoff: {type: fixed, base: 1s}, jitter: null}`)))
	}
	fmt.Println(load([]byte("retry: {max_attempts: 0}")))
	// Output:
	// 6 attempts, exponential 100ms x2, at most 5s, ±20%
	// after attempt   wait             total at most
	// 1               80ms to 120ms    120ms
	// 2               160ms to 240ms   360ms
	// 3               320ms to 480ms   840ms
	// 4               640ms to 960ms   1.8s
	// 5               1.28s to 1.92s   3.72s
	// <nil>
	// 3 attempts, fixed 1s, at most 5s, ±50%
	// after attempt   wait            total at most
	// 1               500ms to 1.5s   1.5s
	// 2               500ms to 1.5s   3s
	// <nil>
	// MAX_ATTEMPTS: strconv.Atoi: parsing "many": invalid syntax
	// MAX_ATTEMPTS: retry: max attempts is 0: write 1 for no retry, or -1 for unlimited
	// MAX_ATTEMPTS: retry: max attempts is -2: write 1 for no retry, or -1 for unlimited
	// retry: invalid policy: max_attempts is 0: write how many attempts in all: 1 for no retry, -1 for unlimited
}
