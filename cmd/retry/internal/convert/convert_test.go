package convert_test

import (
	"bytes"
	"encoding/json"
	"errors"
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
	"github.com/goretry/retry/internal/strict"
)

var options = convert.Options{RetryOn: "5xx,reset", Codes: []string{"UNAVAILABLE"}}

// Every setting that a system does not have is a fault.
func TestFaults(t *testing.T) {
	data, err := os.ReadFile("testdata/faults.yaml")
	require.NoError(t, err)
	var cases []struct {
		To     string
		Policy retry.Policy
		Want   []string
	}
	require.NoError(t, yaml.Unmarshal(data, &cases))
	for _, c := range cases {
		t.Run(c.To, func(t *testing.T) {
			text, _, err := convert.Write(c.To, c.Policy, options)
			refused := new(strict.Error)
			assert.Equal(t, text == "", errors.As(err, &refused), err)
			assert.ElementsMatch(t, c.Want, refused.Texts)
		})
	}
	_, _, err = convert.Write("sidekiq", retry.Policy{}, options)
	assert.EqualError(t, err, `unknown system "sidekiq": write one of `+strings.Join(convert.Targets(), ", "))
}

// randomPolicy returns a policy of which most can be expressed in some system.
func randomPolicy(random *rand.Rand) retry.Policy {
	one := func(n int) bool { return random.IntN(n) == 0 }
	delay := func() time.Duration {
		unit := []time.Duration{time.Millisecond, time.Millisecond, time.Second, time.Nanosecond}[random.IntN(4)]
		return time.Duration(random.Int64N(min(2000, int64(4*time.Second/unit)))) * unit
	}
	for {
		curves := []retry.Backoff{nil, retry.Fixed(delay()), retry.Linear(delay()), retry.Fibonacci(delay()), retry.Schedule{delay(), delay(), delay()},
			retry.Exponential{Base: delay(), Factor: 1 + float64(random.IntN(8))/4}, retry.Exponential{Base: delay()}, retry.Exponential{Base: delay()}}
		jitters := []retry.Jitter{nil, nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0), retry.Proportional(0.2)}
		p := retry.Policy{MaxAttempts: 1 + random.IntN(12), Backoff: curves[random.IntN(8)], Jitter: jitters[random.IntN(6)], NonRetryable: one(20)}
		if one(15) {
			p.RetryAfter = []retry.RetryAfterMode{retry.RetryAfterExact, retry.RetryAfterAtLeast}[random.IntN(2)]
		}
		if one(6) {
			p.MaxAttempts = retry.Unlimited
		}
		if one(10) {
			p.AttemptCap = 1 + random.IntN(12)
		}
		if one(2) {
			p.MaxDelay = 4 * delay()
		}
		for _, d := range []*time.Duration{&p.MaxElapsed, &p.AttemptTimeout, &p.MaxRetryAfter, &p.HealthyAfter} {
			if one(15) {
				*d = time.Millisecond + delay()
			}
		}
		if p.Validate() == nil {
			return p
		}
	}
}

// decisions returns the ranges of the first delays of p, up to 40.
func decisions(p retry.Policy) (windows [][2]time.Duration) {
	for n := 1; n <= 40; n++ {
		d := p.Next(retry.Attempt{Number: n, Seed: 1})
		if !d.Retry() {
			break
		}
		windows = append(windows, [2]time.Duration{d.Lo, d.Hi})
	}
	return windows
}

// near checks that decisions are the same; floats round some delays.
func near(t *testing.T, want, got [][2]time.Duration, text string) {
	t.Helper()
	require.Len(t, got, len(want), text)
	for n, w := range want {
		require.InDelta(t, w[0], got[n][0], 20, text)
		require.InDelta(t, w[1], got[n][1], 20, text)
	}
}

// Settings that can be expressed, read again, decide as the policy does, and can be
// written again. What the readers say of other systems integration/formatstest compares
// with their own types.
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
		for _, to := range convert.Targets() {
			text, _, err := convert.Write(to, p, options)
			if err != nil || to == "cenkalti" {
				continue
			}
			written[to] += min(1, len(want))
			q := read(t, to, text)
			got := decisions(q)
			near(t, want, got, fmt.Sprintf("%v: %s:\n%s", p, to, text))
			assert.Equal(t, p.AttemptTimeout, q.AttemptTimeout)
			if len(want) > 0 {
				assert.Equal(t, [4]any{p.MaxElapsed, p.MaxRetryAfter, p.RetryAfter, p.HealthyAfter}, [4]any{q.MaxElapsed, q.MaxRetryAfter, q.RetryAfter, q.HealthyAfter})
			}
			again, _, err := convert.Write(to, q, options)
			require.NoError(t, err, text)
			assert.Equal(t, got, decisions(read(t, to, again)), text)
		}
	}
	for _, to := range convert.Targets() {
		if to != "cenkalti" {
			assert.Greater(t, written[to], policies/500, to)
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
// windows of the policies, in the program of testdata/cenkalti.txt.
func TestCenkalti(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var policies []retry.Policy
	var expressions string
	for len(policies) < 60 {
		p := randomPolicy(random)
		p.MaxElapsed = 0 // because the test does not wait for the delays
		text, _, err := convert.Write("cenkalti", p, convert.Options{})
		if err == nil && p.Validate() == nil {
			policies = append(policies, p)
			expressions += "func() backoff.BackOff { return " + strings.TrimSuffix(text, "\n") + "},\n"
		}
	}
	program, err := os.ReadFile("testdata/cenkalti.txt")
	require.NoError(t, err)
	program = bytes.Replace(program, []byte("// expressions\n"), []byte(expressions), 1)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, program, 0o600))
	command := exec.Command("go", "run", file)
	command.Stderr = os.Stderr
	output, err := command.Output()
	require.NoError(t, err, string(program))
	var got [][][2]time.Duration
	require.NoError(t, json.Unmarshal(output, &got))
	require.Len(t, got, len(policies))
	for i, p := range policies {
		want := decisions(p)
		want = want[:min(20, len(want))]
		require.Len(t, got[i], len(want), fmt.Sprint(p))
		for n, w := range want {
			least, most := got[i][n][0], got[i][n][1]
			const rounding = 1000 // in nanoseconds, of products of floats
			width := w[1] - w[0]
			assert.True(t, w[0]-rounding <= least && most <= w[1]+rounding, "%v: %v is not within %v", p, got[i][n], w)
			assert.GreaterOrEqual(t, most-least, width-width/8-rounding, "%v", p)
		}
	}
}
