// Package yamltest tests retry.Policy with the YAML libraries that call its methods. The root module
// does not require these libraries.
package yamltest

import (
	"bytes"
	"math"
	"testing"
	"time"

	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"
	yamlv4 "go.yaml.in/yaml/v4"
	sigs "sigs.k8s.io/yaml"

	"github.com/goretry/retry"
)

// A library is a way to read and write YAML.
type library struct {
	name      string
	unmarshal func([]byte, any) error
	marshal   func(any) ([]byte, error)
}

var (
	v3 = library{"go.yaml.in/yaml/v3", yamlv3.Unmarshal, yamlv3.Marshal}
	v4 = library{"go.yaml.in/yaml/v4",
		func(data []byte, v any) error { return yamlv4.Unmarshal(data, v) },
		func(v any) ([]byte, error) { return yamlv4.Marshal(v) }}
	goccyYAML = library{"goccy/go-yaml", goccy.Unmarshal, goccy.Marshal}
	sigsYAML  = library{"sigs.k8s.io/yaml", func(data []byte, v any) error { return sigs.Unmarshal(data, v) }, sigs.Marshal}

	libraries = []library{v3, v4, goccyYAML, sigsYAML}

	// strict lists the libraries with their options against unknown and duplicate keys.
	strict = []library{
		{v3.name + " KnownFields", func(data []byte, v any) error {
			dec := yamlv3.NewDecoder(bytes.NewReader(data))
			dec.KnownFields(true)
			return dec.Decode(v)
		}, v3.marshal},
		{v4.name + " KnownFields", func(data []byte, v any) error {
			dec := yamlv4.NewDecoder(bytes.NewReader(data))
			dec.KnownFields(true)
			return dec.Decode(v)
		}, v4.marshal},
		{goccyYAML.name + " Strict", func(data []byte, v any) error { return goccy.UnmarshalWithOptions(data, v, goccy.Strict()) }, goccyYAML.marshal},
		{sigsYAML.name + " UnmarshalStrict", func(data []byte, v any) error { return sigs.UnmarshalStrict(data, v) }, sigsYAML.marshal},
	}
)

// config is a configuration that contains a policy.
type config struct {
	Name  string       `yaml:"name" json:"name"`
	Retry retry.Policy `yaml:"retry" json:"retry"`
}

func TestDecode(t *testing.T) {
	const s = time.Second
	for text, want := range map[string]retry.Policy{
		"retry:":   {},
		"retry: ~": {},
		"name: x":  {},
		`
name: payments
retry:
  max_attempts: 5            # the first included
  backoff:
    type: exponential
    base: 200ms
    factor: 1.5
  max_delay: 5s
  jitter: 0.2
  max_retry_after: 1m30s
  retry_after: exact
  max_elapsed: "1h"
  attempt_timeout: 1.5s
  healthy_after: 1m
  budget: {size: 100, ratio: 0.1, refill_every: 1m}
`: {
			MaxAttempts: 5, Backoff: retry.Exponential{Base: 200 * time.Millisecond, Factor: 1.5}, MaxDelay: 5 * s, Jitter: retry.Proportional(0.2),
			MaxRetryAfter: 90 * s, RetryAfter: retry.RetryAfterExact, MaxElapsed: time.Hour, AttemptTimeout: 1500 * time.Millisecond, HealthyAfter: time.Minute,
			Budget: &retry.Budget{Size: 100, Ratio: 0.1, RefillEvery: time.Minute},
		},
		"retry: {max_retries: -1, attempt_cap: 10, retryable: false, jitter: full}":  {MaxRetries: retry.Unlimited, AttemptCap: 10, NonRetryable: true, Jitter: retry.FullJitter},
		`{"retry": {"max_attempts": 3, "jitter": "equal"}}`:                          {MaxAttempts: 3, Jitter: retry.EqualJitter},
		"retry:\n  backoff:\n    type: schedule\n    delays:\n    - 5m\n    - 15m\n": {Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute}},
		"retry: {jitter: 1}":                                   {Jitter: retry.Proportional(1)},
		"retry: {jitter: 1.0e-1}":                              {Jitter: retry.Proportional(0.1)},
		"name: &d 5s\nretry: {max_delay: *d, max_elapsed: *d}": {MaxDelay: 5 * s, MaxElapsed: 5 * s},
	} {
		for _, lib := range append(libraries, strict...) {
			t.Run(lib.name+" "+text, func(t *testing.T) {
				var got config
				require.NoError(t, lib.unmarshal([]byte(text), &got))
				assert.Equal(t, want, got.Retry)
			})
		}
	}
}

// Anchors and merge keys work in a policy as in the rest of a file.
func TestDecodeMergedKeys(t *testing.T) {
	const text = `
defaults: &defaults {max_attempts: 3, backoff: &curve {type: fixed, base: 1s}}
retry:
  <<: *defaults
  max_delay: 9s
  backoff: *curve
`
	for _, lib := range libraries {
		var got config
		require.NoError(t, lib.unmarshal([]byte(text), &got), lib.name)
		assert.Equal(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), MaxDelay: 9 * time.Second}, got.Retry, lib.name)
	}
}

func TestDecodeErrors(t *testing.T) {
	const (
		attempts = ": write how many attempts in all: 1 for no retry, -1 for unlimited"
		duration = `: write a duration as text, such as "200ms" or "1m30s"`
		jitter   = `: write "full", "equal", or a share of the delay from 0 to 1: 0.2 is ±20 %`
		mapping  = `, want a mapping such as {"max_attempts": 5}`
		keys     = ": the keys of a policy are max_attempts, max_retries, attempt_cap, retryable, backoff, max_delay, jitter, max_retry_after, retry_after, max_elapsed, attempt_timeout, healthy_after, budget"
	)
	for text, want := range map[string]string{
		"retry: {1: 2}":                `unknown key "1"` + keys,
		"retry: {max_attempts: '1e1'}": `max_attempts is "1e1"` + attempts,
		"retry: {max_delay: '1e3'}":    `max_delay is "1e3"` + duration,
		"retry: {jitter: '1e-1'}":      `jitter is "1e-1"` + jitter,
		"retry: {backoff: {type: exponential, base: 1s, factor: '2e0'}}": `backoff.factor is "2e0": write a number of at least 1, such as 2`,
		"retry: {backoff: {type: exponential, base: 1s, factor: ~}}":     `backoff.factor is null: write a number of at least 1, such as 2, or leave the key out`,
		"retry: {max_delay: 1:30}":                                       `max_delay is "1:30"` + duration,
		"retry:\n  max_delay:\n    seconds: 5\n":                         `max_delay is {"seconds":5}` + duration,
		"retry: {jitter: 20%}":                                           `jitter is "20%"` + jitter,
		"retry: {backoff: {type: fixed, base: 1s, 2: 3}}":                `unknown key "backoff.2": the keys of a backoff of type fixed are type, base`,
		"retry: {backoff: {type: exponential, base: 1s, factor: .5}}":    `backoff.factor is 0.5: write a number of at least 1, such as 2`,
		"retry: {backoff: {type: schedule, delays: [1s, ~, 5]}}":         `backoff.delays[1] is null` + duration + `; backoff.delays[2] is 5` + duration,
		"retry: [max_attempts, 3]":                                       `got ["max_attempts",3]` + mapping,
	} {
		for _, lib := range append(libraries, strict...) {
			t.Run(lib.name+" "+text, func(t *testing.T) {
				filled := config{Retry: retry.Default()}
				got := filled
				require.ErrorContains(t, lib.unmarshal([]byte(text), &got), "retry: invalid policy: "+want)
				assert.Equal(t, filled, got, "the policy is unchanged after an error")
			})
		}
	}
}

// The libraries parse these words and numbers as different types. No library may silently make a word
// or a number zero.
func TestDecodeAmbiguousScalars(t *testing.T) {
	for text, want := range map[string]string{
		"retry: {retryable: no}":                      "retryable",
		"retry: {retryable: off}":                     "retryable",
		"retry: {jitter: .inf}":                       "jitter",
		"retry: {jitter: .nan}":                       "jitter",
		"retry: {max_delay: 2026-01-02}":              "max_delay",
		"retry: {max_attempts: 99999999999999999999}": "max_attempts",
		"retry: {max_attempts: !!str 3}":              "max_attempts",
	} {
		for _, lib := range libraries {
			t.Run(lib.name+" "+text, func(t *testing.T) {
				var got config
				err := lib.unmarshal([]byte(text), &got)
				if err == nil {
					assert.Equal(t, retry.Policy{NonRetryable: true}, got.Retry, "no and off are false")
					return
				}
				assert.Equal(t, retry.Policy{}, got.Retry)
				if lib.name == sigsYAML.name && want == "jitter" {
					return // the library fails before it reaches the policy
				}
				assert.ErrorContains(t, err, "retry: invalid policy: "+want+" is ")
			})
		}
	}
}

// The YAML libraries detect duplicate keys, except for sigs.k8s.io/yaml without
// UnmarshalStrict.
func TestDuplicateKeys(t *testing.T) {
	for text, key := range map[string]string{
		"retry:\n  max_attempts: 3\n  max_attempts: 4\n":             "max_attempts",
		"retry: {backoff: {type: fixed, type: fixed, base: 1s}}":     "type",
		"retry: {backoff: {type: fixed, base: 1s}, backoff: {}}":     "backoff",
		"retry: {\"max_delay\": 1s, max_attempts: 3, max_delay: 1s}": "max_delay",
	} {
		for _, lib := range append([]library{v3, v4, goccyYAML}, strict...) {
			t.Run(lib.name+" "+text, func(t *testing.T) {
				var got config
				require.ErrorContains(t, lib.unmarshal([]byte(text), &got), `key "`+key+`" already `)
				assert.Equal(t, retry.Policy{}, got.Retry)
			})
		}
		for _, lib := range []library{v3, v4} {
			err := lib.unmarshal([]byte(text), new(config))
			assert.ErrorContains(t, err, "retry: invalid policy: ", lib.name)
			assert.NotContains(t, err.Error(), "\n", lib.name)
		}
	}

	var got config
	require.NoError(t, sigsYAML.unmarshal([]byte("retry: {max_attempts: 3, max_attempts: 4}"), &got))
	assert.Equal(t, 4, got.Retry.MaxAttempts, "sigs.k8s.io/yaml reports a duplicate key only with UnmarshalStrict")
}

func TestEncode(t *testing.T) {
	p := retry.Policy{
		MaxAttempts: 5, MaxRetries: -1, AttemptCap: 10, NonRetryable: true,
		Backoff: retry.Exponential{Base: 200 * time.Millisecond, Factor: 1.5}, MaxDelay: 5 * time.Second, Jitter: retry.Proportional(0.2),
		MaxRetryAfter: time.Minute, RetryAfter: retry.RetryAfterExact, MaxElapsed: time.Hour, AttemptTimeout: time.Second, HealthyAfter: 2 * time.Minute,
	}
	const inOrder = `max_attempts: 5
max_retries: -1
attempt_cap: 10
retryable: false
backoff:
    type: exponential
    base: 200ms
    factor: 1.5
max_delay: 5s
jitter: 0.2
max_retry_after: 1m0s
retry_after: exact
max_elapsed: 1h0m0s
attempt_timeout: 1s
healthy_after: 2m0s
`
	for _, test := range []struct {
		lib  library
		want string
	}{
		{v3, inOrder},
		{v4, inOrder},
		{goccyYAML, string(bytes.ReplaceAll([]byte(inOrder), []byte("    "), []byte("  ")))},
		{sigsYAML, `attempt_cap: 10
attempt_timeout: 1s
backoff:
  base: 200ms
  factor: 1.5
  type: exponential
healthy_after: 2m0s
jitter: 0.2
max_attempts: 5
max_delay: 5s
max_elapsed: 1h0m0s
max_retries: -1
max_retry_after: 1m0s
retry_after: exact
retryable: false
`},
	} {
		text, err := test.lib.marshal(p)
		require.NoError(t, err, test.lib.name)
		assert.Equal(t, test.want, string(text), test.lib.name)

		text, err = test.lib.marshal(retry.Policy{RetryIf: func(error) bool { return true }})
		require.NoError(t, err, test.lib.name)
		assert.Equal(t, "{}\n", string(text), test.lib.name)

		_, err = test.lib.marshal(config{Retry: retry.Policy{Backoff: retry.BackoffFunc(nil)}})
		assert.ErrorContains(t, err, "retry: Backoff is a retry.BackoffFunc, which has no text form", test.lib.name)
	}
}

// A policy that a library writes and reads again is the same policy, to the last bit. The fuzz targets
// of package retry do the same with random policies.
func TestRoundTrip(t *testing.T) {
	policies := []retry.Policy{
		{}, retry.Default(),
		{MaxAttempts: math.MaxInt, Jitter: retry.FullJitter, MaxDelay: math.MaxInt64},
		{Backoff: retry.Fibonacci(math.MaxInt64), Jitter: retry.Proportional(1)},
		{Backoff: retry.Exponential{}, Jitter: retry.Proportional(math.SmallestNonzeroFloat64)},
		{Backoff: retry.Exponential{Base: 1, Factor: math.MaxFloat64}, Jitter: retry.Proportional(math.Nextafter(1, 0))},
		{Backoff: retry.Exponential{Base: 1, Factor: math.Nextafter(1, 2)}, Jitter: retry.Proportional(0.1 + 0.2)},
		{Backoff: retry.Exponential{Base: 1, Factor: 1e6}, Jitter: retry.Proportional(1e-7)},
		{Backoff: retry.Schedule{0, 1, math.MaxInt64}},
	}
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) {
			for _, p := range policies {
				want := config{"x", p}
				text, err := lib.marshal(want)
				require.NoError(t, err)
				var got config
				require.NoError(t, lib.unmarshal(text, &got), "%s", text)
				require.Equal(t, want, got, "%s", text)
			}
		})
	}
}

// The documentation of Policy.UnmarshalJSON warns of an embedded and of an inlined policy.
func TestEmbeddedAndInlined(t *testing.T) {
	for _, lib := range libraries {
		var embedded struct {
			retry.Policy `yaml:",inline" json:",inline"`
			Name         string `yaml:"name" json:"name"`
		}
		err := lib.unmarshal([]byte("{name: x, max_attempts: 3}"), &embedded)
		assert.ErrorContains(t, err, `unknown key "name"`, lib.name)
	}
	for _, lib := range []library{v3, v4} {
		var inlined struct {
			Retry retry.Policy `yaml:",inline"`
		}
		require.NoError(t, lib.unmarshal([]byte("max_attempts: 3"), &inlined), lib.name)
		assert.Equal(t, retry.Policy{}, inlined.Retry, lib.name)
	}
}
