package retry_test

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

var (
	_ json.Marshaler           = retry.Policy{}
	_ json.Unmarshaler         = (*retry.Policy)(nil)
	_ encoding.TextMarshaler   = retry.Policy{}
	_ encoding.TextUnmarshaler = (*retry.Policy)(nil)
)

func TestConfigDecode(t *testing.T) {
	const ms = time.Millisecond
	for text, want := range map[string]retry.Policy{
		`{}`:     {},
		` { }\n`: {},

		`{"max_attempts": 1}`:                    {MaxAttempts: 1},
		`{"max_attempts": 3}`:                    {MaxAttempts: 3},
		`{"max_attempts": -1}`:                   {MaxAttempts: retry.Unlimited},
		`{"max_attempts": 2147483647}`:           {MaxAttempts: math.MaxInt32},
		`{"max_retries": 3}`:                     {MaxRetries: 3},
		`{"max_retries": -1}`:                    {MaxRetries: retry.Unlimited},
		`{"max_retries": 0}`:                     {MaxAttempts: 1},
		`{"max_retries": 0, "max_attempts": 5}`:  {MaxAttempts: 1},
		`{"max_attempts": 5, "max_retries": 0}`:  {MaxAttempts: 1},
		`{"max_attempts": -1, "max_retries": 0}`: {MaxAttempts: 1},
		`{"max_attempts": 5, "max_retries": 2}`:  {MaxAttempts: 5, MaxRetries: 2},
		`{"max_retries": 2, "max_attempts": 5}`:  {MaxAttempts: 5, MaxRetries: 2},
		`{"max_retries": -1, "max_attempts": 5}`: {MaxAttempts: 5, MaxRetries: retry.Unlimited},
		`{"attempt_cap": 10}`:                    {AttemptCap: 10},
		`{"attempt_cap": 0}`:                     {},
		`{"retryable": true}`:                    {},
		`{"retryable": false}`:                   {NonRetryable: true},

		`{"backoff": {"type": "fixed", "base": "200ms"}}`:                     {Backoff: retry.Fixed(200 * ms)},
		`{"backoff": {"type": "fixed", "base": "0s"}}`:                        {Backoff: retry.Fixed(0)},
		`{"backoff": {"base": "200ms", "type": "linear"}}`:                    {Backoff: retry.Linear(200 * ms)},
		`{"backoff": {"type": "fibonacci", "base": "200ms"}}`:                 {Backoff: retry.Fibonacci(200 * ms)},
		`{"backoff": {"type": "exponential", "base": "200ms"}}`:               {Backoff: retry.Exponential{Base: 200 * ms}},
		`{"backoff": {"type": "exponential", "base": "200ms", "factor": 1}}`:  {Backoff: retry.Exponential{Base: 200 * ms, Factor: 1}},
		`{"backoff": {"type": "exponential", "base": "1s", "factor": 1.5e0}}`: {Backoff: retry.Exponential{Base: time.Second, Factor: 1.5}},
		`{"backoff": {"type": "schedule", "delays": ["5m", "15m", "1h"]}}`:    {Backoff: retry.Schedule{5 * time.Minute, 15 * time.Minute, time.Hour}},
		`{"backoff": {"type": "schedule", "delays": ["0s"]}}`:                 {Backoff: retry.Schedule{0}},

		`{"jitter": "full"}`:  {Jitter: retry.FullJitter},
		`{"jitter": "equal"}`: {Jitter: retry.EqualJitter},
		`{"jitter": 0.2}`:     {Jitter: retry.Proportional(0.2)},
		`{"jitter": 0}`:       {Jitter: retry.Proportional(0)},
		`{"jitter": 1}`:       {Jitter: retry.Proportional(1)},

		`{"max_delay": "1m30s"}`:                                 {MaxDelay: 90 * time.Second},
		`{"max_delay": "0s"}`:                                    {},
		`{"max_delay": "2562047h47m16.854775807s"}`:              {MaxDelay: math.MaxInt64},
		`{"max_retry_after": "1h"}`:                              {MaxRetryAfter: time.Hour},
		`{"max_elapsed": "1.5s"}`:                                {MaxElapsed: 1500 * ms},
		`{"exact_retry_after": true}`:                            {ExactRetryAfter: true},
		`{"exact_retry_after": false}`:                           {},
		`{"attempt_timeout": "1us"}`:                             {AttemptTimeout: time.Microsecond},
		`{"healthy_after": "1m"}`:                                {HealthyAfter: time.Minute},
		`{"healthy_after": "1ms"}`:                               {HealthyAfter: ms},
		`{"healthy_after": "0s"}`:                                {},
		`{"max_attempts": null, "backoff": null, "jitter":null}`: {},
	} {
		t.Run(text, func(t *testing.T) {
			text := strings.ReplaceAll(text, `\n`, "\n")
			var fromJSON, fromText retry.Policy
			require.NoError(t, json.Unmarshal([]byte(text), &fromJSON))
			assert.Equal(t, want, fromJSON)
			require.NoError(t, fromText.UnmarshalText([]byte(text)))
			assert.Equal(t, want, fromText)
		})
	}
}

func TestConfigDecodeErrors(t *testing.T) {
	const (
		attempts = ": write how many attempts in all: 1 for no retry, -1 for unlimited"
		retries  = ": write how many attempts after the first: 0 for no retry, -1 for unlimited"
		ceiling  = ": write how many attempts there may be at most, or 0 for no cap"
		duration = `: write a duration as text, such as "200ms" or "1m30s"`
		jitter   = `: write "full", "equal", or a share of the delay from 0 to 1: 0.2 is ±20 %`
		mapping  = `, want a mapping such as {"max_attempts": 5}`
		backoff  = `: write a mapping such as {"type": "exponential", "base": "200ms"}`
		kinds    = ": write one of fixed, linear, exponential, fibonacci, schedule"
		factor   = ": write a number of at least 1, such as 2"
		healthy  = `: write a duration such as "1m", at least 1ms, or "0s" for never`
		delays   = `: write the delays as a list, such as ["1s", "1m"]`
		keys     = ": the keys of a policy are max_attempts, max_retries, attempt_cap, retryable, backoff, max_delay, jitter, max_retry_after, exact_retry_after, max_elapsed, attempt_timeout, healthy_after"
	)
	for text, want := range map[string]string{
		`"exponential"`:       `got "exponential"` + mapping,
		`[{"max_delay":1}]`:   `got [{"max_delay":1}]` + mapping,
		`5`:                   `got 5` + mapping,
		`true`:                `got true` + mapping,
		`"{\"jitter\": 0.2}"`: `got "{\"jitter\": 0.2}"` + mapping,

		`{"max_attempt": 3}`:                                `unknown key "max_attempt"` + keys,
		`{"Max_Attempts": 3}`:                               `unknown key "Max_Attempts"` + keys,
		`{"MaxAttempts": 3, "max_attempts": 3}`:             `unknown key "MaxAttempts"` + keys,
		`{"nonretryable": true}`:                            `unknown key "nonretryable"` + keys,
		`{"max_attempt": null}`:                             `unknown key "max_attempt"` + keys,
		`{"": 1, "zoo": 1, "budget": 1}`:                    `unknown key "", "budget", "zoo"` + keys,
		`{"a\nb": 1}`:                                       `unknown key "a\nb"` + keys,
		`{"max_attempts": 3, "max_attempts": 4}`:            `duplicate key "max_attempts"`,
		`{"max_attempts": 3, "max_attempts": 3}`:            `duplicate key "max_attempts"`,
		`{"max_delay": null, "max_delay": "1s"}`:            `duplicate key "max_delay"`,
		`{"jitter": 0, "jitter": 0, "jitter": 0}`:           `duplicate key "jitter"`,
		`{"max\u005fdelay": "1s", "max_delay": "1s"}`:       `duplicate key "max_delay"`,
		`{"a\nb": 1, "a\nb": 1}`:                            `duplicate key "a\nb"; unknown key "a\nb"` + keys,
		`{"max_attempts": 0}`:                               `max_attempts is 0` + attempts,
		`{"max_attempts": -2}`:                              `max_attempts is -2` + attempts,
		`{"max_attempts": "3"}`:                             `max_attempts is "3"` + attempts,
		`{"max_attempts": 3.0}`:                             `max_attempts is 3.0` + attempts,
		`{"max_attempts": 2.5}`:                             `max_attempts is 2.5` + attempts,
		`{"max_attempts": 99999999999999999999}`:            `max_attempts is 99999999999999999999` + attempts,
		`{"max_attempts": true}`:                            `max_attempts is true` + attempts,
		`{"max_attempts": {}}`:                              `max_attempts is {}` + attempts,
		`{"max_attempts": "unlimited"}`:                     `max_attempts is "unlimited"` + attempts,
		`{"max_retries": -2}`:                               `max_retries is -2` + retries,
		`{"max_retries": []}`:                               `max_retries is []` + retries,
		`{"attempt_cap": -1}`:                               `attempt_cap is -1` + ceiling,
		`{"attempt_cap": "10"}`:                             `attempt_cap is "10"` + ceiling,
		`{"retryable": "no"}`:                               `retryable is "no": write true or false`,
		`{"retryable": 0}`:                                  `retryable is 0: write true or false`,
		`{"max_delay": 5}`:                                  `max_delay is 5` + duration,
		`{"max_delay": 0}`:                                  `max_delay is 0` + duration,
		`{"max_delay": "5"}`:                                `max_delay is "5"` + duration,
		`{"max_delay": ""}`:                                 `max_delay is ""` + duration,
		`{"max_delay": "5 s"}`:                              `max_delay is "5 s"` + duration,
		`{"max_delay": "1d"}`:                               `max_delay is "1d"` + duration,
		`{"max_delay": "-1s"}`:                              `max_delay is "-1s"` + duration + ", 0s or above",
		`{"max_delay": "300000000h"}`:                       `max_delay is "300000000h"` + duration,
		`{"max_delay": {"seconds":` + "\n" + ` 5}}`:         `max_delay is {"seconds":5}` + duration,
		`{"max_retry_after": 1e3}`:                          `max_retry_after is 1e3` + duration,
		`{"max_elapsed": false}`:                            `max_elapsed is false` + duration,
		`{"exact_retry_after": "yes"}`:                      `exact_retry_after is "yes": write true or false`,
		`{"exact_retry_after": 1}`:                          `exact_retry_after is 1: write true or false`,
		`{"attempt_timeout": ["1s"]}`:                       `attempt_timeout is ["1s"]` + duration,
		`{"healthy_after": 60}`:                             `healthy_after is 60` + healthy,
		`{"healthy_after": "60"}`:                           `healthy_after is "60"` + healthy,
		`{"healthy_after": "999us"}`:                        `healthy_after is "999us"` + healthy,
		`{"healthy_after": "-1m"}`:                          `healthy_after is "-1m"` + healthy,
		`{"jitter": "none"}`:                                `jitter is "none"` + jitter,
		`{"jitter": "Full"}`:                                `jitter is "Full"` + jitter,
		`{"jitter": ""}`:                                    `jitter is ""` + jitter,
		`{"jitter": "20%"}`:                                 `jitter is "20%"` + jitter,
		`{"jitter": "0.2"}`:                                 `jitter is "0.2"` + jitter,
		`{"jitter": 20}`:                                    `jitter is 20` + jitter,
		`{"jitter": -0.1}`:                                  `jitter is -0.1` + jitter,
		`{"jitter": 1e999}`:                                 `jitter is 1e999` + jitter,
		`{"jitter": true}`:                                  `jitter is true` + jitter,
		`{"jitter": {"type": "full"}}`:                      `jitter is {"type":"full"}` + jitter,
		`{"backoff": "exponential"}`:                        `backoff is "exponential"` + backoff,
		`{"backoff": "200ms"}`:                              `backoff is "200ms"` + backoff,
		`{"backoff": 200}`:                                  `backoff is 200` + backoff,
		`{"backoff": ["1s", "2s"]}`:                         `backoff is ["1s","2s"]` + backoff,
		`{"backoff": {}}`:                                   `backoff.type is missing` + kinds,
		`{"backoff": {"base": "1s"}}`:                       `backoff.type is missing` + kinds,
		`{"backoff": {"type": null}}`:                       `backoff.type is null` + kinds,
		`{"backoff": {"type": "cubic"}}`:                    `backoff.type is "cubic"` + kinds,
		`{"backoff": {"type": "Fixed"}}`:                    `backoff.type is "Fixed"` + kinds,
		`{"backoff": {"type": 1}}`:                          `backoff.type is 1` + kinds,
		`{"backoff": {"type": ["fixed"]}}`:                  `backoff.type is ["fixed"]` + kinds,
		`{"backoff": {"type": "fixed"}}`:                    `backoff.base is missing` + duration,
		`{"backoff": {"type": "fixed", "base": null}}`:      `backoff.base is null` + duration,
		`{"backoff": {"type": "linear", "base": 200}}`:      `backoff.base is 200` + duration,
		`{"backoff": {"type": "fibonacci", "base": "-1s"}}`: `backoff.base is "-1s"` + duration + ", 0s or above",
		`{"backoff": {"type": "exponential", "factor": 2}}`: `backoff.base is missing` + duration,
		`{"backoff": {"type": "exponential", "base": "1s", "factor": 0}}`:  `backoff.factor is 0` + factor,
		`{"backoff": {"type": "exponential", "base":"1s","factor":0.999}}`: `backoff.factor is 0.999` + factor,
		`{"backoff": {"type": "exponential", "base":"1s","factor":1e999}}`: `backoff.factor is 1e999` + factor,
		`{"backoff": {"type": "exponential", "base":"1s","factor":"2"}}`:   `backoff.factor is "2"` + factor,
		`{"backoff": {"type": "exponential", "base":"1s","factor":null}}`:  `backoff.factor is null` + factor + ", or leave the key out",
		`{"backoff": {"type": "fixed", "base": "1s", "factor": 2}}`:        `unknown key "backoff.factor": the keys of a backoff of type fixed are type, base`,
		`{"backoff": {"type": "exponential", "base": "1s", "max": "1m"}}`:  `unknown key "backoff.max": the keys of a backoff of type exponential are type, base, factor`,
		`{"backoff": {"type": "schedule", "delays": ["1s"], "base": 1}}`:   `unknown key "backoff.base": the keys of a backoff of type schedule are type, delays`,
		`{"backoff": {"type": "fixed", "type": "fixed", "base": "1s"}}`:    `duplicate key "backoff.type"`,
		`{"backoff": {"type": "schedule"}}`:                                `backoff.delays is missing` + delays,
		`{"backoff": {"type": "schedule", "delays": null}}`:                `backoff.delays is null` + delays,
		`{"backoff": {"type": "schedule", "delays": []}}`:                  `backoff.delays is []` + delays,
		`{"backoff": {"type": "schedule", "delays": "1s"}}`:                `backoff.delays is "1s"` + delays,
		`{"backoff": {"type": "schedule", "delays": ["1s", null]}}`:        `backoff.delays[1] is null` + duration,
		`{"backoff": {"type": "schedule", "delays": [1, "1s", "-1s"]}}`:    `backoff.delays[0] is 1` + duration + `; backoff.delays[2] is "-1s"` + duration + ", 0s or above",

		`{"max_attempts": 0, "max_delay": 5, "max_attempt": 3, "backoff": {"type": "fixed", "base": 1}}`: `max_attempts is 0` + attempts +
			`; backoff.base is 1` + duration + `; max_delay is 5` + duration + `; unknown key "max_attempt"` + keys,
		`{"max_delay": "` + strings.Repeat("ä", 100) + `"}`: `max_delay is "` + strings.Repeat("ä", 59) + `...` + duration,
	} {
		t.Run(text, func(t *testing.T) {
			filled := retry.Policy{MaxAttempts: 7, Jitter: retry.FullJitter, AttemptCap: 9, Backoff: retry.Schedule{1}}
			p := filled
			require.EqualError(t, p.UnmarshalJSON([]byte(text)), "retry: invalid policy: "+want)
			assert.Equal(t, filled, p, "an error does not change the policy")

			var config struct{ Retry retry.Policy }
			config.Retry = filled
			require.ErrorContains(t, json.Unmarshal([]byte(`{"Retry": `+text+`}`), &config), "retry: invalid policy: "+want)
			assert.Equal(t, filled, config.Retry)
		})
	}
}

func TestConfigTextThatIsNotJSON(t *testing.T) {
	for _, text := range []string{"", "\n", "max_attempts: 3", `{"max_attempts": 3`, `{"max_attempts": 3}}`, `{"max_attempts": 3} {}`, `{"max_attempts" 3}`, `{3: 3}`, "\xff"} {
		var p retry.Policy
		err := p.UnmarshalText([]byte(text))
		require.ErrorContains(t, err, "retry: invalid policy: got invalid JSON (", "%q", text)
		assert.ErrorContains(t, err, `, want a mapping such as {"max_attempts": 5}`, "%q", text)
		assert.NotContains(t, err.Error(), "\n")
		assert.Equal(t, retry.Policy{}, p)
	}
}

// In a file, null is a key that was left empty. Alone it is not a policy.
func TestConfigNull(t *testing.T) {
	p := retry.Policy{MaxAttempts: 7}
	require.NoError(t, p.UnmarshalJSON([]byte("null")))
	for _, text := range []string{"null", " null\n"} {
		require.EqualError(t, p.UnmarshalText([]byte(text)), `retry: invalid policy: got null, want a mapping such as {"max_attempts": 5}`)
	}
	assert.Equal(t, retry.Policy{MaxAttempts: 7}, p)
}

// Keys that are valid by themselves decode even if together they are not a
// valid policy yet: code may add a Budget, or a second file a limit.
func TestConfigDecodeLeavesTheWholeToValidate(t *testing.T) {
	var p retry.Policy
	require.NoError(t, json.Unmarshal([]byte(`{"max_attempts": -1}`), &p))
	require.Error(t, p.Validate())
	p.Budget = &retry.Budget{Size: 10, Ratio: 0.1}
	require.NoError(t, p.Validate())
}

func TestConfigDecodeIntoAFilledPolicy(t *testing.T) {
	filled := retry.Policy{
		MaxAttempts: 5, AttemptCap: 10, NonRetryable: true,
		Backoff: retry.Exponential{Base: time.Second, Factor: 3}, MaxDelay: time.Minute, Jitter: retry.FullJitter, MaxRetryAfter: time.Hour, ExactRetryAfter: true,
		MaxElapsed: 2 * time.Hour, AttemptTimeout: time.Second, HealthyAfter: time.Millisecond,
	}
	retries := filled
	retries.MaxAttempts, retries.MaxRetries = 0, 4
	both := filled
	both.MaxRetries = 4
	noCap := filled
	noCap.AttemptCap = 0
	for name, test := range map[string]struct {
		from retry.Policy
		text string
		set  func(*retry.Policy)
	}{
		"nothing":           {filled, `{}`, func(*retry.Policy) {}},
		"null":              {filled, `null`, func(*retry.Policy) {}},
		"every key null":    {filled, `{"max_attempts":null,"max_retries":null,"attempt_cap":null,"retryable":null,"backoff":null,"max_delay":null,"jitter":null,"max_retry_after":null,"exact_retry_after":null,"max_elapsed":null,"attempt_timeout":null,"healthy_after":null}`, func(*retry.Policy) {}},
		"max_attempts":      {filled, `{"max_attempts": 3}`, func(p *retry.Policy) { p.MaxAttempts = 3 }},
		"max_delay":         {filled, `{"max_delay": "1s"}`, func(p *retry.Policy) { p.MaxDelay = time.Second }},
		"no max_delay":      {filled, `{"max_delay": "0s"}`, func(p *retry.Policy) { p.MaxDelay = 0 }},
		"no max_elapsed":    {filled, `{"max_elapsed": "0s"}`, func(p *retry.Policy) { p.MaxElapsed = 0 }},
		"attempt_timeout":   {filled, `{"attempt_timeout": "9s"}`, func(p *retry.Policy) { p.AttemptTimeout = 9 * time.Second }},
		"max_retry_after":   {filled, `{"max_retry_after": "9s"}`, func(p *retry.Policy) { p.MaxRetryAfter = 9 * time.Second }},
		"exact_retry_after": {filled, `{"exact_retry_after": false}`, func(p *retry.Policy) { p.ExactRetryAfter = false }},
		"healthy_after":     {filled, `{"healthy_after": "9s"}`, func(p *retry.Policy) { p.HealthyAfter = 9 * time.Second }},
		"no healthy_after":  {filled, `{"healthy_after": "0s"}`, func(p *retry.Policy) { p.HealthyAfter = 0 }},
		"no jitter":         {filled, `{"jitter": 0}`, func(p *retry.Policy) { p.Jitter = retry.Proportional(0) }},
		"retryable":         {filled, `{"retryable": true}`, func(p *retry.Policy) { p.NonRetryable = false }},

		// A Backoff is one value: keys that are left out are not taken from the
		// one before.
		"backoff": {filled, `{"backoff": {"type": "exponential", "base": "2s"}}`, func(p *retry.Policy) { p.Backoff = retry.Exponential{Base: 2 * time.Second} }},

		"max_retries clears max_attempts":             {filled, `{"max_retries": 2}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 0, 2 }},
		"max_retries 0":                               {filled, `{"max_retries": 0}`, func(p *retry.Policy) { p.MaxAttempts = 1 }},
		"max_attempts clears max_retries":             {retries, `{"max_attempts": 3}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 3, 0 }},
		"max_retries 0 over max_retries":              {retries, `{"max_retries": 0}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 1, 0 }},
		"max_attempts null clears nothing":            {retries, `{"max_attempts": null}`, func(*retry.Policy) {}},
		"max_retries null beside max_attempts":        {retries, `{"max_attempts": 3, "max_retries": null}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 3, 0 }},
		"either clears the other of both":             {both, `{"max_attempts": 3}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 3, 0 }},
		"or the other way":                            {both, `{"max_retries": 3}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 0, 3 }},
		"both over both":                              {both, `{"max_retries": 3, "max_attempts": 9}`, func(p *retry.Policy) { p.MaxAttempts, p.MaxRetries = 9, 3 }},
		"neither clears neither":                      {both, `{"jitter": "full"}`, func(*retry.Policy) {}},
		"attempt_cap lowers":                          {filled, `{"attempt_cap": 9}`, func(p *retry.Policy) { p.AttemptCap = 9 }},
		"attempt_cap the same":                        {filled, `{"attempt_cap": 10}`, func(*retry.Policy) {}},
		"attempt_cap never raises":                    {filled, `{"attempt_cap": 11}`, func(*retry.Policy) {}},
		"attempt_cap 0 does not lift":                 {filled, `{"attempt_cap": 0}`, func(*retry.Policy) {}},
		"attempt_cap where there is none":             {noCap, `{"attempt_cap": 99}`, func(p *retry.Policy) { p.AttemptCap = 99 }},
		"attempt_cap does not replace an invalid one": {retry.Policy{AttemptCap: -1}, `{"attempt_cap": 99}`, func(*retry.Policy) {}},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := test.from, test.from
			test.set(&want)
			require.NoError(t, json.Unmarshal([]byte(test.text), &got))
			assert.Equal(t, want, got)
		})
	}
}

func TestConfigKeepsWhatIsNoPartOfIt(t *testing.T) {
	asked := ""
	p := retry.Policy{
		RetryIf:  func(error) bool { asked += "RetryIf "; return true },
		Classify: func(error) *retry.Class { asked += "Classify "; return nil },
		Wait:     func(context.Context, time.Duration) (time.Duration, error) { asked += "Wait "; return 0, nil },
		OnEvent:  func(context.Context, retry.Event) { asked += "OnEvent " },
		Budget:   &retry.Budget{Size: 3, Ratio: 0.1},
		Source:   func() uint64 { asked += "Source "; return 0 },
	}
	before := p
	data, err := json.Marshal(p)
	require.NoError(t, err)
	assert.Equal(t, `{}`, string(data))

	require.NoError(t, json.Unmarshal([]byte(`{"max_attempts": 4, "jitter": "full"}`), &p))
	assert.Equal(t, 4, p.MaxAttempts)
	assert.Same(t, before.Budget, p.Budget)
	p.RetryIf(io.EOF)
	p.Classify(io.EOF)
	p.Source()
	_, _ = p.Wait(t.Context(), 0)
	p.OnEvent(t.Context(), retry.Event{})
	assert.Equal(t, "RetryIf Classify Source Wait OnEvent ", asked)
}

// Whatever the text is, decoding either fails with an error on one line and
// changes nothing, or gives a policy that can be written and read again. Only
// unlimited attempts without a delay can make that policy invalid.
func FuzzConfigDecode(f *testing.F) {
	for _, text := range []string{fullPolicyJSON, `{"max_retries":0}`, `null`, `{"max_attempts":-1}`, `{"jitter":"equal","jitter":0}`,
		`{"backoff":{"type":"exponential","base":"1s","factor":1.1}}`, `{"backoff":"fixed"}`, `{"max_delay":5}`, `{"a\u2028b\r":1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		filled := retry.Policy{MaxRetries: 3, AttemptCap: 4, Jitter: retry.EqualJitter}
		over := filled
		if err := over.UnmarshalText(text); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "retry: invalid policy: "), "%q", err)
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, filled, over)
			return
		}
		require.True(t, over.AttemptCap > 0 && over.AttemptCap <= 4)
		var p retry.Policy
		require.NoError(t, p.UnmarshalText(text))
		assertRoundTrip(t, p)
		p.Budget = &retry.Budget{Size: 1}
		require.NoError(t, p.Validate())
	})
}

func TestConfigInOtherTypes(t *testing.T) {
	type config struct {
		Name    string                  `json:"name"`
		Retry   retry.Policy            `json:"retry,omitzero"`
		Pointer *retry.Policy           `json:"pointer,omitempty"`
		ByHost  map[string]retry.Policy `json:"by_host,omitempty"`
		List    []retry.Policy          `json:"list,omitempty"`
	}
	const text = `{"name":"payments","pointer":{"max_attempts":2},"by_host":{"a":{"jitter":"full"}},"list":[{},{"max_retries":1}]}`
	want := config{
		Name: "payments", Pointer: &retry.Policy{MaxAttempts: 2},
		ByHost: map[string]retry.Policy{"a": {Jitter: retry.FullJitter}}, List: []retry.Policy{{}, {MaxRetries: 1}},
	}
	var got config
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&got))
	assert.Equal(t, want, got)

	// omitzero leaves out a zero policy; omitempty would not.
	data, err := json.Marshal(got)
	require.NoError(t, err)
	assert.Equal(t, text, string(data))
}

// JSON takes precedence over the text form, which is for flags, environment
// variables and text loggers.
func TestConfigTextFormIsNotTakenForJSON(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2}
	data, err := json.Marshal(map[string]any{"p": p, "pointer": &p})
	require.NoError(t, err)
	assert.Equal(t, `{"p":{"max_attempts":2},"pointer":{"max_attempts":2}}`, string(data))

	var b bytes.Buffer
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key != "p" {
			return slog.Attr{}
		}
		return a
	}}
	slog.New(slog.NewJSONHandler(&b, options)).Info("", "p", p)
	slog.New(slog.NewTextHandler(&b, options)).Info("", "p", p)
	assert.Equal(t, `{"p":{"max_attempts":2}}`+"\n"+`p="{\"max_attempts\":2}"`+"\n", b.String())

	assert.Equal(t, "2 attempts", fmt.Sprint(p))
}

func TestConfigFlag(t *testing.T) {
	parse := func(args ...string) (p retry.Policy, output string, err error) {
		var b strings.Builder
		flags := flag.NewFlagSet("service", flag.ContinueOnError)
		flags.SetOutput(&b)
		flags.TextVar(&p, "retry", retry.Default(), "the retry `policy`")
		err = flags.Parse(args)
		return p, b.String(), err
	}
	p, _, err := parse()
	require.NoError(t, err)
	assert.Equal(t, retry.Default(), p)

	want := retry.Default()
	want.MaxAttempts, want.MaxRetries = 0, 9
	p, _, err = parse(`-retry={"max_retries": 9}`)
	require.NoError(t, err)
	assert.Equal(t, want, p, "the keys that are left out are those of the default")

	_, _, err = parse("-retry", `{"max_delay": 5}`)
	assert.EqualError(t, err, `invalid value "{\"max_delay\": 5}" for flag -retry: retry: invalid policy: max_delay is 5: write a duration as text, such as "200ms" or "1m30s"`)

	_, usage, err := parse("-h")
	require.ErrorIs(t, err, flag.ErrHelp)
	assert.Contains(t, usage, `(default {"max_attempts":5,"backoff":{"type":"exponential","base":"200ms","factor":2},"max_delay":"5s","jitter":0.2})`)
}

// Values that YAML has and JSON cannot express are named in errors like all
// others.
func TestConfigYAMLValuesWithoutJSON(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{map[string]any{"jitter": math.Inf(1)}, `jitter is "+Inf": write `},
		{map[string]any{"jitter": math.NaN()}, `jitter is "NaN": write `},
		{map[string]any{"max_delay": time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)}, `max_delay is "2020-01-02T00:00:00Z": write `},
		{map[any]any{1: 2}, `unknown key "1": `},
		{map[string]any{"backoff": map[any]any{"type": "fixed", "base": "1s", true: 1}}, `unknown key "backoff.true": `},
		{map[string]any{"backoff": map[any]any{"type": "schedule", "delays": []any{map[any]any{1: math.Inf(-1)}}}}, `backoff.delays[0] is {"1":"-Inf"}: write `},
		{map[string]any{"max_attempts": 3.0}, `max_attempts is 3.0: write `},
		{map[string]any{"max_delay": "<5s & \u2028"}, `max_delay is "<5s & \u2028": write `},
		{map[string]any{"max_attempts": uint64(math.MaxUint64)}, `max_attempts is 18446744073709551615: write `},
		{[]any{}, `got [], want `},
		{map[string]any{"jitter": "0.5"}, `jitter is "0.5": write `},
		{map[string]any{"jitter": "0.5e0"}, `jitter is "0.5e0": write `},
		{map[string]any{"jitter": "e"}, `jitter is "e": write `},
		{map[string]any{"jitter": "1e-1"}, `jitter is "1e-1": write `},
		{map[string]any{"max_attempts": "1e1"}, `max_attempts is "1e1": write `},
		{map[string]any{"max_delay": "1e3"}, `max_delay is "1e3": write `},
		{map[string]any{"jitter": func() {}}, `jitter is "0x`},
	} {
		p := retry.Policy{MaxAttempts: 7}
		err := p.UnmarshalYAML(func(v any) error { *v.(*any) = test.value; return nil })
		require.ErrorContains(t, err, "retry: invalid policy: "+test.want)
		assert.Equal(t, retry.Policy{MaxAttempts: 7}, p)
	}

	p := retry.Policy{MaxAttempts: 7}
	broken := errors.New("yaml: unmarshal errors:\n  line 3: mapping key already defined")
	assert.EqualError(t, p.UnmarshalYAML(func(any) error { return broken }),
		"retry: invalid policy: yaml: unmarshal errors: line 3: mapping key already defined", "the library's own error with its line number, on one line")
	require.NoError(t, p.UnmarshalYAML(func(any) error { return nil }), "null")
	assert.Equal(t, retry.Policy{MaxAttempts: 7}, p)
}

// A struct that embeds a Policy gets its methods. This test pins what the
// documentation warns about.
func TestConfigEmbeddedTakesOver(t *testing.T) {
	var config struct {
		retry.Policy
		Name string
	}
	require.NoError(t, json.Unmarshal([]byte(`{"max_attempts": 2}`), &config))
	assert.Equal(t, 2, config.MaxAttempts)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"max_attempts": 2, "Name": "x"}`), &config), `unknown key "Name"`)
	assert.Empty(t, config.Name)
}

// A file that has only wrong values would otherwise make an error many times
// its size.
func TestConfigErrorsNameAtMostTwentyFaults(t *testing.T) {
	list := func(n int, entry string) string { return strings.TrimSuffix(strings.Repeat(entry+",", n), ",") }
	numbered := func(n int) string {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf(`"key%06d":1`, i)
		}
		return strings.Join(keys, ",")
	}
	for _, row := range []struct {
		name, text string
		more       string // the end of the error; "" if it names every fault
	}{
		{"twenty delays", `{"backoff":{"type":"schedule","delays":[` + list(20, `1`) + `]}}`, ""},
		{"twenty-one delays", `{"backoff":{"type":"schedule","delays":[` + list(21, `1`) + `]}}`, "; and 1 more"},
		{"half a megabyte of delays", `{"backoff":{"type":"schedule","delays":[` + list(1<<17, `"a"`) + `]}}`, "; and 131052 more"},
		{"half a megabyte of negative delays", `{"backoff":{"type":"schedule","delays":[` + list(1<<16, `"-1s"`) + `]}}`, "; and 65516 more"},
		{"unknown keys", `{` + numbered(10_000) + `}`, ""},
		{"duplicate keys", `{` + numbered(10_000) + `,` + numbered(10_000) + `}`, "; and 9981 more"},
		{"one long value", `{"max_delay":"` + strings.Repeat("a", 4<<20) + `"}`, ""},
		{"one long duration", `{"jitter":"` + strings.Repeat("x", 4<<20) + `"}`, ""},
		{"one long key", `{"` + strings.Repeat("k", 4<<20) + `":1}`, ""},
		{"one long text", `"` + strings.Repeat("k", 4<<20) + `"`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var p retry.Policy
			err := json.Unmarshal([]byte(row.text), &p)
			require.Error(t, err)
			assert.Less(t, len(err.Error()), 4096)
			if row.more != "" {
				assert.True(t, strings.HasSuffix(err.Error(), row.more), "%s", err)
			} else {
				assert.NotRegexp(t, "; and [0-9]+ more$", err.Error())
			}
			assert.Zero(t, p)
		})
	}
	t.Run("Validate", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Schedule(slices.Repeat([]time.Duration{-1}, 1000))}
		assert.True(t, strings.HasSuffix(p.Validate().Error(), "Backoff: Schedule[19] is -1ns: write 0 for no delay, or a positive duration; and 980 more"))
		p.Backoff = retry.Schedule(slices.Repeat([]time.Duration{-1}, 20))
		assert.True(t, strings.HasSuffix(p.Validate().Error(), "Backoff: Schedule[19] is -1ns: write 0 for no delay, or a positive duration"))
	})
}
