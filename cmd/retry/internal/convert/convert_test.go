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
		{"Argyll", "argyll", "{max_retries: -1, backoff: {type: exponential, base: 1s}, max_delay: 1m}",
			"{\n  \"max_retries\": -1,\n  \"backoff\": 1000,\n  \"max_backoff\": 60000,\n  \"backoff_type\": \"exponential\"\n}\n"},
		{"TaskHarbor", "taskharbor", "{max_attempts: 5, backoff: {type: exponential, base: 200ms, factor: 1.5}, max_delay: 5s, jitter: 0.2}",
			"base_delay: 200ms\nmax_delay: 5s\nmultiplier: 1.5\njitter: 0.2\nmax_attempts: 5\n"},
		{"NATS", "nats", "{max_attempts: 6, backoff: {type: exponential, base: 1s}, max_delay: 4s}",
			"{\n  \"max_deliver\": 6,\n  \"backoff\": [\n    1000000000,\n    2000000000,\n    4000000000\n  ]\n}\n"},
		{"Envoy", "envoy", "{max_attempts: 5, backoff: {type: exponential, base: 25ms}, max_delay: 10s, jitter: full, attempt_timeout: 1500ms}",
			"retry_on: 5xx,reset\nnum_retries: 4\nper_try_timeout: 1.5s\nretry_back_off:\n  base_interval: 0.025s\n  max_interval: 10s\n"},
		{"gRPC", "grpc", "{max_attempts: 2, backoff: {type: fixed, base: 1s}, jitter: 0.2}",
			"{\n  \"methodConfig\": [\n    {\n      \"name\": [\n        {}\n      ],\n      \"retryPolicy\": {\n        \"maxAttempts\": 2,\n" +
				"        \"initialBackoff\": \"1s\",\n        \"maxBackoff\": \"1s\",\n        \"backoffMultiplier\": 1,\n" +
				"        \"retryableStatusCodes\": [\n          \"UNAVAILABLE\"\n        ]\n      }\n    }\n  ]\n}\n"},
		{"Temporal", "temporal", "{max_attempts: 9, backoff: {type: fixed, base: 200ms}}",
			"{\n  \"initialInterval\": \"0.2s\",\n  \"backoffCoefficient\": 1,\n  \"maximumInterval\": \"0.2s\",\n  \"maximumAttempts\": 9\n}\n"},
		{"cenkalti", "cenkalti", "{max_attempts: 5, backoff: {type: exponential, base: 200ms}, max_delay: 5s, jitter: 0.2, max_elapsed: 90s}",
			"backoff.WithMaxRetries(backoff.NewExponentialBackOff(\n\tbackoff.WithInitialInterval(200*time.Millisecond),\n\tbackoff.WithMultiplier(2),\n" +
				"\tbackoff.WithRandomizationFactor(0.2),\n\tbackoff.WithMaxInterval(5*time.Second),\n\tbackoff.WithMaxElapsedTime(90*time.Second),\n), 4)\n"},
		{"Istio", "istio", "{max_attempts: 5, backoff: {type: exponential, base: 25ms}, jitter: full, attempt_timeout: 1500ms}",
			"attempts: 4\nperTryTimeout: 1.5s\nretryOn: 5xx,reset\nbackoff: 25ms\n"},
		{"Step Functions", "stepfunctions", "{max_attempts: 5, backoff: {type: exponential, base: 2s}, max_delay: 10s, jitter: full}",
			"[\n  {\n    \"ErrorEquals\": [\n      \"5xx\",\n      \"reset\"\n    ],\n    \"IntervalSeconds\": 2,\n    \"MaxAttempts\": 4,\n" +
				"    \"BackoffRate\": 2,\n    \"MaxDelaySeconds\": 10,\n    \"JitterStrategy\": \"FULL\"\n  }\n]\n"},
		{"the Collector", "otel", "{max_elapsed: 5m, backoff: {type: exponential, base: 5s, factor: 1.5}, max_delay: 30s}",
			"enabled: true\ninitial_interval: 5s\nrandomization_factor: 0\nmultiplier: 1.5\nmax_interval: 30s\nmax_elapsed_time: 5m0s\n"},
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
		{"NATS, growing", "nats", "{max_attempts: -1, backoff: {type: linear, base: 1ns}}", []string{"backoff is longer than a list of 10000 delays: set max_delay"}},
		{"NATS, no delay", "nats", "{max_attempts: 3, backoff: {type: schedule, delays: [1s, 0s]}}", []string{"backoff is a delay of 0s: NATS redelivers after a delay above 0s only"}},
		{"Envoy", "envoy", "{max_attempts: -1, backoff: {type: exponential, base: 1500us, factor: 3}, jitter: 0.2, max_elapsed: 1m}", []string{
			"max_attempts is unlimited in effect: Envoy needs a limit", "max_elapsed is 1m0s: Envoy does not bound the time of all attempts",
			"backoff.factor is 3: Envoy always doubles", "jitter is 0.2: Envoy's is always full", "backoff.base is 1.5ms: Envoy counts whole milliseconds"}},
		{"Envoy, many", "envoy", "{max_attempts: 4294967297, backoff: {type: fixed, base: 1s}}", []string{
			"max_attempts is 4294967297 in effect: Envoy counts up to 4294967295 retries", "jitter is none: Envoy's is always full"}},
		{"cenkalti", "cenkalti", "{max_attempts: 5, backoff: {type: exponential, base: 1s}, max_delay: 5s, jitter: 0.2, max_retry_after: 1m}", []string{
			"max_retry_after is 1m0s: cenkalti/backoff does not know what a server asks for",
			"max_delay is 5s: cenkalti/backoff draws delays up to 6s, beyond its maximum: write the delays as a list, or no jitter"}},
		{"cenkalti, a jitter downwards", "cenkalti", "{max_attempts: 5, backoff: {type: fibonacci, base: 1s}, jitter: full}", []string{
			"jitter is full: cenkalti/backoff spreads a delay to both sides: write a share from 0 to 1", "backoff.type is fibonacci: cenkalti/backoff has no such curve"}},
		{"cenkalti, no delay", "cenkalti", "{max_attempts: 5, max_elapsed: 1s}", []string{"max_elapsed is 1s: a ZeroBackOff has none"}},
		{"Istio", "istio", "{max_attempts: 9, backoff: {type: exponential, base: 1s}, max_delay: 9s, jitter: full}", []string{
			"max_delay is 9s: Istio doubles the first delay up to ten times it, 10s"}},
		{"Istio, one attempt", "istio", "{max_attempts: 1, attempt_timeout: 1s}", []string{"attempt_timeout is 1s: Istio takes none without retries"}},
		{"Step Functions", "stepfunctions", "{max_attempts: 100000001, backoff: {type: linear, base: 1500ms}, max_delay: 9000h, jitter: 0.2}", []string{
			"jitter is 0.2: Step Functions has FULL or none", "max_attempts is 100000001 in effect: Step Functions counts up to 99999999 retries",
			"backoff.type is linear: Step Functions has no such curve", "backoff.base is 1.5s: Step Functions counts whole seconds",
			"max_delay is 9000h0m0s: Step Functions takes at most a year"}},
		{"the Collector", "otel", "{max_attempts: 3, backoff: {type: exponential, base: 2s}, jitter: 0.5, max_elapsed: 1s}", []string{
			"max_attempts is 3 in effect: the Collector has no limit but max_elapsed_time", "max_delay is 0s: the Collector needs a longest delay",
			"max_elapsed is 1s: the Collector takes none below the longest delay, 2s"}},
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

// Settings that can be expressed, read again, decide as the policy does, and can be
// written again. What the readers say of other systems integration/formatstest compares
// with their own types.
func TestExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	options := convert.Options{RetryOn: "reset", Codes: []string{"UNAVAILABLE"}}
	written := map[string]int{}
	policies := 2000
	if os.Getenv("RETRY_LONG") != "" {
		policies = 10_000
	}
	for range policies {
		p := randomPolicy(random)
		want := decisions(p)
		for _, to := range convert.Targets() {
			text, err := convert.Write(to, p, options)
			if err != nil || to == "cenkalti" {
				continue
			}
			written[to]++
			q := read(t, to, text)
			got := decisions(q)
			require.Len(t, got, len(want), "%v: %s:\n%s", p, to, text)
			for n, w := range want {
				require.InDelta(t, w.lo, got[n].lo, 20, "%v: %s:\n%s", p, to, text)
				require.InDelta(t, w.hi, got[n].hi, 20, "%v: %s:\n%s", p, to, text)
			}
			assert.Equal(t, p.AttemptTimeout, q.AttemptTimeout)
			if len(want) > 0 {
				assert.Equal(t, [4]any{p.MaxElapsed, p.MaxRetryAfter, p.ExactRetryAfter, p.HealthyAfter}, [4]any{q.MaxElapsed, q.MaxRetryAfter, q.ExactRetryAfter, q.HealthyAfter})
			}
			again, err := convert.Write(to, q, options)
			require.NoError(t, err, text)
			assert.Equal(t, got, decisions(read(t, to, again)), text)
		}
	}
	for _, to := range convert.Targets() {
		if to != "cenkalti" {
			assert.Greater(t, written[to], policies/200, to)
		}
	}
}

// read reads the settings in a text, which for gRPC and Step Functions are inside.
func read(t *testing.T, dialect, text string) retry.Policy {
	file, err := policyfile.Parse("x", []byte(text))
	require.NoError(t, err)
	block, fault := file.Only("")
	require.Nil(t, fault)
	p, _, faults := block.Read(dialect)
	require.Empty(t, faults, text)
	return p
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
