package policyfile

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// The findings about the settings of a dialect name only keys of the dialect.
func TestLintInTheWordsOfADialect(t *testing.T) {
	for name, row := range map[string]struct{ from, text, want string }{
		"Argo: attempts beyond maxDuration": {
			"argo", `{limit: "10", backoff: {duration: "1", factor: "2", maxDuration: 1m}}`,
			"backoff.maxDuration unused_attempts: at most 6 of 11 attempts fit into backoff.maxDuration " +
				"of 1m0s: attempt 7 and all later attempts never run",
		},
		"Argo: a delay beyond maxDuration": {
			"argo", `{limit: 2, retryPolicy: Always, backoff: {duration: 2m, maxDuration: 1m}}`,
			"backoff.maxDuration no_time: backoff.maxDuration of 1m0s is shorter than the first delay: " +
				"there is no retry",
		},
		"Argo: no limit": {
			"argo", "{}",
			"limit endless_attempts: nothing ends the attempts, and the delays between them are " +
				"shorter than 1s: set limit",
		},
		"Argyll: no cap": {
			"argyll", "{max_retries: -1, init_backoff: 5000, backoff_type: exponential}",
			"max_backoff growing_delays: unlimited attempts whose delays grow to years: set max_backoff",
		},
		"Step Functions: more than a month": {
			"stepfunctions", "{ErrorEquals: [States.ALL], MaxAttempts: 30, IntervalSeconds: 1, BackoffRate: 2}",
			"MaxAttempts too_long: the delays of the first 30 retries take up to 298261h37m3s: lower " +
				"MaxAttempts, or set a shorter MaxDelaySeconds",
		},
		"Temporal: without an end": {
			"temporal", "{initialInterval: 0.001s, maximumInterval: 0.1s}",
			"maximumAttempts endless_attempts: nothing ends the attempts, and the delays between them " +
				"are shorter than 1s: set maximumAttempts",
		},
		"the Collector: without an end": {
			"otel", "{initial_interval: 1ms, max_interval: 100ms, max_elapsed_time: 0s}",
			"max_elapsed_time endless_attempts: nothing ends the attempts, and the delays between them " +
				"are shorter than 1s: set max_elapsed_time",
		},
		"NATS: without an end": {
			"nats", "{max_deliver: -1, ack_wait: 100ms, ack_policy: explicit}",
			"max_deliver endless_attempts: nothing ends the attempts, and the delays between them are " +
				"shorter than 1s: set max_deliver",
		},
		"Tasker: more than a month": {
			"tasker", "{retryable: true, max_attempts: 30, backoff: exponential, backoff_base_ms: 1000, " +
				"max_backoff_ms: 900000000}",
			"max_attempts too_long: the delays of the first 29 retries take up to 2541h16m15s: lower " +
				"max_attempts, or set a shorter max_backoff_ms",
		},
		"Tasker: a limit without retries": {
			"tasker", "{retryable: false, max_attempts: 3}",
			"retryable unused_limit: retryable is false, so max_attempts has no effect",
		},
		"Tasker: a cap below the first delay": {
			"tasker", "{max_attempts: 3, backoff: exponential, backoff_base_ms: 1000, max_backoff_ms: 10}",
			"max_backoff_ms short_max_delay: max_backoff_ms of 10ms is shorter than the first delay: it " +
				"cuts even the first delay",
		},
		"a policy of the library": {
			Native, "{max_attempts: -1, backoff: {type: fixed, base: 20ms}}",
			"max_attempts endless_attempts: unlimited attempts (max_attempts), at most 20ms apart: a " +
				"target that is down gets 180000 an hour from each call; set max_elapsed, or a longer delay",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := Parse("file.yaml", []byte(row.text))
			require.NoError(t, err)
			block := file.Find("")[0]
			p, _, faults := block.Read(row.from)
			require.Empty(t, faults)
			var got []string
			for _, f := range block.Lint(p) {
				got = append(got, f.Key+" "+f.Code+": "+f.Text)
				assert.Equal(t, row.from != Native, f.Field == "", "a dialect has no fields in Go")
			}
			assert.Equal(t, row.want, strings.Join(got, "; "))
		})
	}
}

// The keys in the terms of a dialect are keys of the dialect.
func TestTermsAreKeys(t *testing.T) {
	for _, d := range dialects {
		if d.name == Native {
			assert.Nil(t, d.terms)
			continue
		}
		require.NotNil(t, d.terms, d.name)
		for _, key := range []string{d.terms.count, d.terms.longest, d.terms.total} {
			assert.True(t, key == "" || slices.Contains(d.all, key), "%s has no key %s", d.name, key)
		}
	}
}

// No text for a dialect names a key of the native form that the dialect lacks.
func TestTermsNameNoOtherKeys(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(1)}
	word := regexp.MustCompile(`[a-z]+(_[a-z]+)+`)
	for _, d := range dialects[1:] {
		for _, rule := range []string{neverRuns, "no_time", "short_max_delay", "growing_delays", "too_long", forever} {
			key, text := d.terms.told(rule, p)
			assert.Equal(t, key == "", text == "", "%s %s", d.name, rule)
			for _, named := range word.FindAllString(text, -1) {
				assert.Contains(t, strings.Join(d.all, " "), named, "%s: %s", d.name, text)
			}
		}
	}
}
