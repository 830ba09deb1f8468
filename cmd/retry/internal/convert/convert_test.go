package convert_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/convert"
	"github.com/goretry/retry/cmd/retry/internal/policyfile"
)

const sec, ms = time.Second, time.Millisecond

func TestWrite(t *testing.T) {
	p := func(text string) (p retry.Policy) {
		require.NoError(t, yaml.Unmarshal([]byte(text), &p), text)
		return p
	}
	options := convert.Options{RetryOn: "5xx,reset", Codes: []string{"UNAVAILABLE"}}
	for _, test := range []struct{ name, to, policy, want string }{
		{"native", "native", "{max_retries: 3, backoff: {type: linear, base: 1s}, jitter: equal}",
			"max_retries: 3\nbackoff:\n  type: linear\n  base: 1s\njitter: equal\n"},
		{"Tasker", "tasker", "{max_attempts: 5, backoff: {type: fibonacci, base: 200ms}, max_delay: 1s}",
			"max_attempts: 5\nbackoff: fibonacci\nbackoff_base_ms: 200\nmax_backoff_ms: 1000\n"},
		{"Tasker, a fixed delay", "tasker", "{max_retries: 2, backoff: {type: fixed, base: 200ms}}",
			"max_attempts: 3\nbackoff: exponential\nbackoff_base_ms: 200\nmax_backoff_ms: 200\n"},
		{"Tasker, no delay", "tasker", "{max_retries: 2, jitter: full}", "max_attempts: 3\nbackoff: none\n"},
		{"Tasker, no retry", "tasker", "{max_attempts: 3, retryable: false, max_elapsed: 1s}", "retryable: false\n"},
		{"Argyll", "argyll", "{max_retries: -1, backoff: {type: exponential, base: 1s}, max_delay: 1m}",
			"{\n  \"max_retries\": -1,\n  \"backoff\": 1000,\n  \"max_backoff\": 60000,\n  \"backoff_type\": \"exponential\"\n}\n"},
		{"Argyll, no retry", "argyll", "{max_attempts: 1, backoff: {type: fibonacci, base: 1s}, max_elapsed: 1s, jitter: full}", "{}\n"},
		{"TaskHarbor", "taskharbor", "{max_attempts: 5, backoff: {type: exponential, base: 200ms, factor: 1.5}, max_delay: 5s, jitter: 0.2}",
			"base_delay: 200ms\nmax_delay: 5s\nmultiplier: 1.5\njitter: 0.2\nmax_attempts: 5\n"},
		{"NATS", "nats", "{max_attempts: 6, backoff: {type: exponential, base: 1s}, max_delay: 4s}",
			"{\n  \"max_deliver\": 6,\n  \"backoff\": [\n    1000000000,\n    2000000000,\n    4000000000\n  ]\n}\n"},
		{"NATS, unlimited", "nats", "{max_attempts: -1, backoff: {type: fixed, base: 1s}}", "{\n  \"max_deliver\": -1,\n  \"backoff\": [\n    1000000000\n  ]\n}\n"},
		{"NATS, no retry", "nats", "{max_attempts: 1}", "{\n  \"max_deliver\": 1\n}\n"},
		{"Envoy", "envoy", "{max_attempts: 5, backoff: {type: exponential, base: 25ms}, max_delay: 10s, jitter: full, attempt_timeout: 1500ms}",
			"retry_on: 5xx,reset\nnum_retries: 4\nper_try_timeout: 1.5s\nretry_back_off:\n  base_interval: 0.025s\n  max_interval: 10s\n"},
		{"Envoy, without a cap", "envoy", "{max_attempts: 5, backoff: {type: exponential, base: 25ms}, jitter: full}",
			"retry_on: 5xx,reset\nnum_retries: 4\nretry_back_off:\n  base_interval: 0.025s\n  max_interval: 0.2s\n"},
		{"Envoy, no retry", "envoy", "{max_attempts: 1}", "retry_on: 5xx,reset\nnum_retries: 0\n"},
		{"gRPC", "grpc", "{max_attempts: 2, backoff: {type: fixed, base: 1s}, jitter: 0.2}",
			"{\n  \"methodConfig\": [\n    {\n      \"name\": [\n        {}\n      ],\n      \"retryPolicy\": {\n        \"maxAttempts\": 2,\n" +
				"        \"initialBackoff\": \"1s\",\n        \"maxBackoff\": \"1s\",\n        \"backoffMultiplier\": 1,\n" +
				"        \"retryableStatusCodes\": [\n          \"UNAVAILABLE\"\n        ]\n      }\n    }\n  ]\n}\n"},
		{"Temporal", "temporal", "{max_attempts: 9, backoff: {type: fixed, base: 200ms}}",
			"{\n  \"initialInterval\": \"0.2s\",\n  \"backoffCoefficient\": 1,\n  \"maximumInterval\": \"0.2s\",\n  \"maximumAttempts\": 9\n}\n"},
		{"cenkalti", "cenkalti", "{max_attempts: 5, backoff: {type: exponential, base: 200ms}, max_delay: 5s, jitter: 0.2, max_elapsed: 90s}",
			"backoff.WithMaxRetries(backoff.NewExponentialBackOff(\n\tbackoff.WithInitialInterval(200*time.Millisecond),\n\tbackoff.WithMultiplier(2),\n" +
				"\tbackoff.WithRandomizationFactor(0.2),\n\tbackoff.WithMaxInterval(5*time.Second),\n\tbackoff.WithMaxElapsedTime(90*time.Second),\n), 4)\n"},
		{"cenkalti, no delay", "cenkalti", "{max_attempts: 5}", "backoff.WithMaxRetries(&backoff.ZeroBackOff{}, 4)\n"},
		{"cenkalti, no retry", "cenkalti", "{}", "&backoff.StopBackOff{}\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, err := convert.Write(test.to, p(test.policy), options)
			require.NoError(t, err)
			assert.Equal(t, test.want, text)
		})
	}

	const rich = "{max_attempts: -1, backoff: {type: exponential, base: 1500us, factor: 1.5}, max_delay: 2500us, jitter: full, max_retry_after: 2m, exact_retry_after: true, max_elapsed: 1h, attempt_timeout: 1us, healthy_after: 1m}"
	for _, test := range []struct {
		name, to, policy string
		want             []string
	}{
		{"Tasker", "tasker", rich, []string{
			"jitter is full: Tasker has none", "max_elapsed is 1h0m0s: Tasker does not bound the time of all attempts",
			"max_retry_after is 2m0s: Tasker does not know what a server asks for", "exact_retry_after is true: Tasker does not know what a server asks for",
			"attempt_timeout is 1µs: Tasker has none", "healthy_after is 1m0s: Tasker never starts the count over",
			"max_attempts is unlimited in effect: Tasker needs a limit", "backoff.factor is 1.5: Tasker always doubles",
			"backoff.base is 1.5ms: Tasker counts whole milliseconds", "max_delay is 2.5ms: Tasker counts whole milliseconds"}},
		{"Tasker, a list", "tasker", "{max_attempts: 3, backoff: {type: schedule, delays: [1s]}}", []string{"backoff.type is schedule: Tasker has no such curve"}},
		{"Tasker, no retry", "tasker", "{attempt_timeout: 1s}", []string{"attempt_timeout is 1s: Tasker has none"}},
		{"Tasker, retryable: false", "tasker", "{retryable: false, attempt_timeout: 1s}", []string{"attempt_timeout is 1s: Tasker has none"}},
		{"Argyll", "argyll", "{max_attempts: 3, backoff: {type: fibonacci, base: 1s}, jitter: 0.5}", []string{
			"jitter is 0.5: Argyll has none", "backoff.type is fibonacci: Argyll has no such curve"}},
		{"TaskHarbor", "taskharbor", "{max_attempts: -1, backoff: {type: linear, base: 1s}, jitter: equal}", []string{
			"max_attempts is unlimited in effect: TaskHarbor needs a limit", "backoff.type is linear: TaskHarbor has no such curve",
			"jitter is equal: TaskHarbor spreads a delay to both sides: write a share from 0 to 1"}},
		{"NATS", "nats", "{max_elapsed: 1m, backoff: {type: exponential, base: 1ns, factor: 1.000000001}, jitter: 1, attempt_timeout: 1s}", []string{
			"jitter is 1: NATS has none", "max_elapsed is 1m0s: NATS does not bound the time of all attempts", "attempt_timeout is 1s: NATS has none"}},
		{"NATS, growing", "nats", "{max_attempts: -1, backoff: {type: linear, base: 1ns}}", []string{"backoff is longer than a list of 10000 delays: set max_delay"}},
		{"NATS, no delay", "nats", "{max_attempts: 3, backoff: {type: schedule, delays: [1s, 0s]}}", []string{"backoff is a delay of 0s: NATS redelivers after a delay above 0s only"}},
		{"Envoy", "envoy", "{max_attempts: -1, backoff: {type: exponential, base: 1500us, factor: 3}, jitter: 0.2, max_elapsed: 1m}", []string{
			"max_attempts is unlimited in effect: Envoy needs a limit", "max_elapsed is 1m0s: Envoy does not bound the time of all attempts",
			"backoff.factor is 3: Envoy always doubles", "jitter is 0.2: Envoy's is always full", "backoff.base is 1.5ms: Envoy counts whole milliseconds"}},
		{"Envoy, many", "envoy", "{max_attempts: 4294967297, backoff: {type: fixed, base: 1s}}", []string{
			"max_attempts is 4294967297 in effect: Envoy counts up to 4294967295 retries", "jitter is none: Envoy's is always full"}},
		{"Envoy, no delay", "envoy", "{max_attempts: 3}", []string{"backoff.type is no delay: Envoy has no such curve"}},
		{"cenkalti", "cenkalti", "{max_attempts: 5, backoff: {type: exponential, base: 1s}, max_delay: 5s, jitter: 0.2, max_retry_after: 1m}", []string{
			"max_retry_after is 1m0s: cenkalti/backoff does not know what a server asks for",
			"max_delay is 5s: cenkalti/backoff draws delays up to 6s, beyond its maximum: write at least that, or no jitter"}},
		{"cenkalti, a jitter downwards", "cenkalti", "{max_attempts: 5, backoff: {type: fibonacci, base: 1s}, jitter: full}", []string{
			"jitter is full: cenkalti/backoff spreads a delay to both sides: write a share from 0 to 1", "backoff.type is fibonacci: cenkalti/backoff has no such curve"}},
		{"cenkalti, no delay", "cenkalti", "{max_attempts: 5, max_elapsed: 1s}", []string{"max_elapsed is 1s: a ZeroBackOff has none"}},
	} {
		t.Run("not "+test.name, func(t *testing.T) {
			text, err := convert.Write(test.to, p(test.policy), options)
			assert.Empty(t, text)
			var refused *convert.Error
			require.ErrorAs(t, err, &refused)
			missing := append([]string{}, test.want...)
			for _, fault := range refused.Faults {
				assert.Contains(t, test.want, fault)
			}
			assert.Len(t, refused.Faults, len(missing), refused.Faults)
		})
	}
	_, err := convert.Write("sidekiq", retry.Policy{}, options)
	assert.EqualError(t, err, `unknown system "sidekiq": write one of `+strings.Join(convert.Targets(), ", "))
}

// randomPolicy returns a policy of which most can be expressed in some system.
func randomPolicy(random *rand.Rand) retry.Policy {
	one := func(n int) bool { return random.IntN(n) == 0 }
	delay := func() time.Duration {
		if one(9) {
			return time.Duration(random.Int64N(int64(sec)))
		}
		return time.Duration(random.Int64N(2000)) * ms
	}
	var p retry.Policy
	for {
		p = retry.Policy{MaxAttempts: 1 + random.IntN(12), NonRetryable: one(20)}
		if one(6) {
			p.MaxAttempts = retry.Unlimited
		}
		if one(10) {
			p.AttemptCap = 1 + random.IntN(12)
		}
		switch random.IntN(8) {
		case 0:
			p.Backoff = retry.Fixed(delay())
		case 1:
			p.Backoff = retry.Linear(delay())
		case 2:
			p.Backoff = retry.Fibonacci(delay())
		case 3:
			p.Backoff = retry.Schedule{delay(), delay(), delay()}
		case 4:
			p.Backoff = retry.Exponential{Base: delay(), Factor: 1 + float64(random.IntN(8))/4}
		case 5, 6:
			p.Backoff = retry.Exponential{Base: delay()}
		}
		if one(2) {
			p.MaxDelay = 4 * delay()
		}
		p.Jitter = []retry.Jitter{nil, nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0), retry.Proportional(0.2)}[random.IntN(6)]
		if one(15) {
			p.MaxElapsed = delay()
		}
		if one(15) {
			p.AttemptTimeout = delay()
		}
		if one(15) {
			p.MaxRetryAfter = delay()
		}
		p.ExactRetryAfter = one(15)
		if one(15) {
			p.HealthyAfter = ms + delay()
		}
		if p.Validate() == nil {
			return p
		}
	}
}

// A window is the range of a delay.
type window struct{ lo, hi time.Duration }

// decisions returns the windows of the first retries of p, up to 40.
func decisions(p retry.Policy) (windows []window) {
	for n := 1; n <= 40; n++ {
		d := p.Next(retry.Attempt{Number: n, Seed: 1})
		if !d.Retry() {
			break
		}
		windows = append(windows, window{d.Lo, d.Hi})
	}
	return windows
}

// Settings that can be expressed decide as the policy does, and a policy that
// was read from a dialect can be written in it. The tests of retrydialect say the
// same of gRPC and Temporal.
func TestExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	written := map[string]int{}
	policies := 2000
	if os.Getenv("RETRY_LONG") != "" {
		policies = 10_000
	}
	for range policies {
		p := randomPolicy(random)
		want := decisions(p)
		for _, to := range []string{"native", "tasker", "argyll", "taskharbor", "nats", "envoy"} {
			text, err := convert.Write(to, p, convert.Options{})
			if err != nil {
				continue
			}
			written[to]++
			var got []window
			switch to {
			case "nats":
				got = natsDecisions(t, text)
			case "envoy":
				got = envoyDecisions(t, text)
			default:
				q := read(t, to, text)
				got = decisions(q)
				assert.Equal(t, p.AttemptTimeout, q.AttemptTimeout)
				if len(want) > 0 {
					assert.Equal(t, p.MaxElapsed, q.MaxElapsed)
					assert.Equal(t, p.MaxRetryAfter, q.MaxRetryAfter)
					assert.Equal(t, p.ExactRetryAfter, q.ExactRetryAfter)
					assert.Equal(t, p.HealthyAfter, q.HealthyAfter)
				}
				again, err := convert.Write(to, q, convert.Options{})
				require.NoError(t, err, text)
				assert.Equal(t, text, again)
			}
			if to != "native" && len(want) > 0 {
				require.False(t, p.ExactRetryAfter, to)
				require.Zero(t, p.HealthyAfter, to)
			}
			require.Len(t, got, len(want), "%v: %s:\n%s", p, to, text)
			if len(want) > 0 {
				require.Equal(t, want, got, "%v: %s:\n%s", p, to, text)
			}
		}
	}
	assert.Equal(t, policies, written["native"])
	for _, to := range []string{"tasker", "argyll", "taskharbor", "nats", "envoy"} {
		assert.Greater(t, written[to], policies/100, to)
	}
}

func read(t *testing.T, dialect, text string) retry.Policy {
	file, err := policyfile.Parse("x", []byte(text))
	require.NoError(t, err)
	blocks := file.Find("")
	p, _, faults := blocks[0].Read(dialect)
	require.Empty(t, faults, text)
	return p
}

// natsDecisions computes the delays as NATS does, which repeats the last delay.
func natsDecisions(t *testing.T, text string) (windows []window) {
	var consumer struct {
		MaxDeliver int `json:"max_deliver"`
		BackOff    []time.Duration
	}
	require.NoError(t, json.Unmarshal([]byte(text), &consumer))
	for n := 1; n <= 40 && (consumer.MaxDeliver < 0 || n < consumer.MaxDeliver); n++ {
		d := consumer.BackOff[min(n, len(consumer.BackOff))-1]
		windows = append(windows, window{d, d})
	}
	return windows
}

// envoyDecisions computes the delays as Envoy does. The interval doubles, or
// becomes the maximum if it would exceed that.
func envoyDecisions(t *testing.T, text string) (windows []window) {
	var settings struct {
		NumRetries   int `yaml:"num_retries"`
		RetryBackOff struct {
			BaseInterval time.Duration `yaml:"base_interval"`
			MaxInterval  time.Duration `yaml:"max_interval"`
		} `yaml:"retry_back_off"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &settings))
	next, most := settings.RetryBackOff.BaseInterval, settings.RetryBackOff.MaxInterval
	for range min(40, settings.NumRetries) {
		windows = append(windows, window{0, next})
		if next < most/2 {
			next *= 2
		} else {
			next = most
		}
	}
	return windows
}

// The expressions for cenkalti/backoff compile, and their delays fill the
// windows of the policies.
func TestCenkalti(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var policies []retry.Policy
	program := "package main\n\nimport (\n\t\"encoding/json\"\n\t\"os\"\n\t\"time\"\n\n\t\"github.com/cenkalti/backoff/v4\"\n)\n\nvar all = []func() backoff.BackOff{\n"
	for len(policies) < 60 {
		p := randomPolicy(random)
		p.MaxElapsed = 0 // because the test does not wait for the delays
		text, err := convert.Write("cenkalti", p, convert.Options{})
		if err == nil && p.Validate() == nil {
			policies = append(policies, p)
			program += "func() backoff.BackOff { return " + strings.TrimSuffix(text, "\n") + "},\n"
		}
	}
	program += `}

func main() {
	var got [][][2]time.Duration // for each expression and retry, the shortest and the longest delay
	for _, build := range all {
		var windows [][2]time.Duration
		for range 300 {
			b := build()
			for n := range 20 {
				d := b.NextBackOff()
				if d == backoff.Stop {
					break
				}
				if n == len(windows) {
					windows = append(windows, [2]time.Duration{d, d})
				}
				windows[n] = [2]time.Duration{min(d, windows[n][0]), max(d, windows[n][1])}
			}
		}
		got = append(got, windows)
	}
	_ = json.NewEncoder(os.Stdout).Encode(got)
	_ = time.Second
}
`
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
	command := exec.Command("go", "run", file)
	command.Stderr = os.Stderr
	output, err := command.Output()
	require.NoError(t, err, program)
	var got [][][2]time.Duration
	require.NoError(t, json.Unmarshal(output, &got))
	require.Len(t, got, len(policies))
	for i, p := range policies {
		want := decisions(p)
		want = want[:min(20, len(want))]
		require.Len(t, got[i], len(want), fmt.Sprint(p))
		for n, w := range want {
			least, most := got[i][n][0], got[i][n][1]
			const rounding = 100 // in nanoseconds, of products of floats
			width := w.hi - w.lo
			assert.True(t, w.lo-rounding <= least && most <= w.hi+rounding, "%v: %v is not within %v", p, got[i][n], w)
			assert.GreaterOrEqual(t, most-least, width-width/8-rounding, "%v", p)
		}
	}
}
