package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

func environ(variables ...string) func() []string { return func() []string { return variables } }

func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		variables []string
		want      string
	}{
		"the file": {nil, `https://payments.example: 4 attempts, exponential 50ms x2, at most 1s, ±50%, within 10s
https://stock.example: 5 attempts, exponential 200ms x2, at most 5s, ±50%
`},
		"a key from the environment": {[]string{"ORDERS_PAYMENTS__RETRY__MAX_ATTEMPTS=9", "ORDERS_STOCK__RETRY__MAX_DELAY=1s", "OTHERS_LISTEN=x"},
			`https://payments.example: 9 attempts, exponential 50ms x2, at most 1s, ±50%, within 10s
https://stock.example: 5 attempts, exponential 200ms x2, at most 1s, ±50%
`},
		"several keys in one variable, and two limits": {[]string{`ORDERS_PAYMENTS__RETRY={"max_retries": 2, "jitter": "full"}`},
			`https://payments.example: 3 attempts, exponential 50ms x2, at most 1s, full jitter, within 10s
Note: max_attempts and max_retries are both set: the lower limit applies, 3 attempts; set one
https://stock.example: 5 attempts, exponential 200ms x2, at most 5s, ±50%
`},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Zero(t, run("config.yaml", environ(test.variables...), &stdout, &stderr))
			assert.Equal(t, test.want, stdout.String())
			assert.Empty(t, stderr.String())
		})
	}
}

func TestLoadErrors(t *testing.T) {
	const duration = `: write a duration as text, such as "200ms" or "1m30s"`
	for text, want := range map[string]string{
		"payments: {retry: {max_delay: 5}}":     "retry: invalid policy: max_delay is 5" + duration,
		"payments: {retry: {max_attempt: 5}}":   `retry: invalid policy: unknown key "max_attempt": write max_attempts`,
		"payments: {retry: 5}":                  `retry: invalid policy: got 5, want a mapping such as {"max_attempts": 5}`,
		"payments: {retrys: {max_attempts: 5}}": "retrys",
		"payments: [":                           "yaml: line 1: ",
	} {
		t.Run(text, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			var stdout, stderr bytes.Buffer
			assert.Equal(t, 1, run(path, environ(), &stdout, &stderr))
			assert.Contains(t, stderr.String(), want)
			assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line: %q", stderr.String())
			assert.Empty(t, stdout.String())
		})
	}

	_, err := load("config.yaml", environ("ORDERS_STOCK__RETRY__JITTER=20%"))
	require.ErrorContains(t, err, `retry: invalid policy: jitter is "20%": write "full", "equal", or a share of the delay`)
	_, err = load("nowhere.yaml", environ())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// The hook keeps the fields that the file does not set, such as the Budget.
func TestHookKeepsTheDefault(t *testing.T) {
	k := koanf.New(".")
	require.NoError(t, k.Load(file.Provider("config.yaml"), yaml.Parser()))
	budget := &retry.Budget{Size: 10, Ratio: 0.1}
	config := Config{Payments: Service{Retry: retry.Policy{MaxRetries: 7, AttemptTimeout: time.Minute, Budget: budget}}}
	require.NoError(t, k.UnmarshalWithConf("", &config, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{DecodeHook: policyHook}}))
	want := retry.Policy{
		MaxAttempts: 4, Backoff: retry.Exponential{Base: 50 * time.Millisecond}, MaxDelay: time.Second, MaxElapsed: 10 * time.Second,
		AttemptTimeout: time.Minute, Budget: budget,
	}
	assert.Equal(t, want, config.Payments.Retry)
	assert.Same(t, budget, config.Payments.Retry.Budget)
}
