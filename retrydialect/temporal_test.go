package retrydialect_test

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
	"github.com/goretry/retry/retrytest"
)

// forTemporal is a policy that Temporal can express, from which the rows depart.
func forTemporal() retry.Policy {
	return retry.Policy{MaxAttempts: 4, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: time.Minute}
}

func TestToTemporal(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, tc := range []struct {
		name   string
		policy retry.Policy
		want   retrydialect.Temporal
		json   string
	}{
		{"exponential", retry.Policy{MaxAttempts: 9, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: time.Minute},
			retrydialect.Temporal{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: 9},
			`{"initialInterval":"1s","backoffCoefficient":2,"maximumInterval":"60s","maximumAttempts":9}`},
		{"no cap: Temporal's own would be 100 times the first", retry.Policy{MaxAttempts: 9, Backoff: retry.Exponential{Base: time.Second}},
			retrydialect.Temporal{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 128 * time.Second, MaximumAttempts: 9},
			`{"initialInterval":"1s","backoffCoefficient":2,"maximumInterval":"128s","maximumAttempts":9}`},
		{"a cap that is not reached", retry.Policy{MaxAttempts: 2, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: time.Minute},
			retrydialect.Temporal{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Second, MaximumAttempts: 2},
			`{"initialInterval":"1s","backoffCoefficient":2,"maximumInterval":"1s","maximumAttempts":2}`},
		{"a cap below the first delay", retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 1500 * time.Microsecond},
			retrydialect.Temporal{InitialInterval: 1500 * time.Microsecond, BackoffCoefficient: 2, MaximumInterval: 1500 * time.Microsecond, MaximumAttempts: 3},
			`{"initialInterval":"0.0015s","backoffCoefficient":2,"maximumInterval":"0.0015s","maximumAttempts":3}`},
		{"unlimited", retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(time.Second)},
			retrydialect.Temporal{InitialInterval: time.Second, BackoffCoefficient: 1, MaximumInterval: time.Second},
			`{"initialInterval":"1s","backoffCoefficient":1,"maximumInterval":"1s"}`},
		{"unlimited and growing", retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Exponential{Base: time.Second, Factor: 1.5}, MaxDelay: century},
			retrydialect.Temporal{InitialInterval: time.Second, BackoffCoefficient: 1.5, MaximumInterval: century},
			`{"initialInterval":"1s","backoffCoefficient":1.5,"maximumInterval":"3153600000s"}`},
		{"one attempt, whatever the delays", retry.Policy{Backoff: retry.Fibonacci(time.Second), Jitter: retry.FullJitter},
			retrydialect.Temporal{MaximumAttempts: 1}, `{"maximumAttempts":1}`},
		{"NonRetryable", retry.Policy{MaxAttempts: 5, NonRetryable: true}, retrydialect.Temporal{MaximumAttempts: 1}, `{"maximumAttempts":1}`},
		{"a jitter of nothing", retry.Policy{MaxAttempts: math.MaxInt32, Backoff: retry.Fixed(1), Jitter: retry.Proportional(0)},
			retrydialect.Temporal{InitialInterval: 1, BackoffCoefficient: 1, MaximumInterval: 1, MaximumAttempts: math.MaxInt32},
			`{"initialInterval":"0.000000001s","backoffCoefficient":1,"maximumInterval":"0.000000001s","maximumAttempts":2147483647}`},
	} {
		got, err := retrydialect.ToTemporal(tc.policy)
		require.NoError(t, err, tc.name)
		assert.Equal(t, tc.want, got, tc.name)
		text, err := json.Marshal(got)
		require.NoError(t, err, tc.name)
		assert.Equal(t, tc.json, string(text), tc.name)
	}
}

func TestToTemporalRefusals(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, tc := range []struct {
		name   string
		change func(*retry.Policy)
		fault  string
	}{
		{"no backoff", func(p *retry.Policy) { p.Backoff = nil }, "Backoff (backoff) is no delay: write a Fixed (fixed) or an Exponential (exponential) of at least 1ns"},
		{"no delay", func(p *retry.Policy) { p.Backoff = retry.Exponential{} }, "Backoff (backoff) is no delay: write a Fixed (fixed) or an Exponential (exponential) of at least 1ns"},
		{"Fibonacci", func(p *retry.Policy) { p.Backoff = retry.Fibonacci(time.Second) }, "Backoff (backoff) is a retry.Fibonacci: write a Fixed (fixed) or an Exponential (exponential)"},
		{"Linear", func(p *retry.Policy) { p.Backoff = retry.Linear(time.Second) }, "Backoff (backoff) is a retry.Linear: write a Fixed (fixed) or an Exponential (exponential)"},
		{"Schedule", func(p *retry.Policy) { p.Backoff = retry.Schedule{time.Second} }, "Backoff (backoff) is a retry.Schedule: write a Fixed (fixed) or an Exponential (exponential)"},
		{"a share", func(p *retry.Policy) { p.Jitter = retry.Proportional(0.2) }, "Jitter (jitter) is 0.2: write nil (0), because Temporal has none"},
		{"equal jitter", func(p *retry.Policy) { p.Jitter = retry.EqualJitter }, "Jitter (jitter) is equal: write nil (0), because Temporal has none"},
		{"a custom jitter", func(p *retry.Policy) { p.Jitter = foreignJitter{} }, "Jitter (jitter) is a retrydialect_test.foreignJitter: write nil (0), because Temporal has none"},
		{"unlimited and growing without a cap", func(p *retry.Policy) { p.MaxAttempts, p.MaxDelay = retry.Unlimited, 0 }, "MaxDelay (max_delay) is 0s: write at most 876000h0m0s, 100 years, where Temporal cuts (the delays reach 2562047h47m16.854775807s)"},
		{"a cap above 100 years that is reached", func(p *retry.Policy) { p.MaxAttempts, p.MaxDelay = 100, century+1 }, "MaxDelay (max_delay) is 876000h0m0.000000001s: write at most 876000h0m0s, 100 years, where Temporal cuts (the delays reach 876000h0m0.000000001s)"},
		{"... and one that is not", func(p *retry.Policy) { p.MaxDelay = century + 1 }, ""},
		{"ExactRetryAfter", func(p *retry.Policy) { p.ExactRetryAfter = true }, "ExactRetryAfter (exact_retry_after) is true: write false (Temporal always waits for a NextRetryDelay, however short)"},
		{"MaxRetryAfter", func(p *retry.Policy) { p.MaxRetryAfter = time.Second }, "MaxRetryAfter (max_retry_after) is 1s: write 0s (Temporal waits for a NextRetryDelay of any length)"},
		{"MaxElapsed", func(p *retry.Policy) { p.MaxElapsed = time.Minute }, "MaxElapsed (max_elapsed) is 1m0s: write 0s (ScheduleToCloseTimeout is the nearest, and ends a running attempt too)"},
		{"AttemptTimeout", func(p *retry.Policy) { p.AttemptTimeout = time.Second }, "AttemptTimeout (attempt_timeout) is 1s: write 0s (set StartToCloseTimeout)"},
		{"HealthyAfter", func(p *retry.Policy) { p.HealthyAfter = time.Minute }, "HealthyAfter (healthy_after) is 1m0s: write 0s (Temporal never counts an activity anew; return from one that lives long, and start another)"},
		{"RetryIf", func(p *retry.Policy) { p.RetryIf = func(error) bool { return true } }, "RetryIf is set: write nil (return a non-retryable ApplicationError)"},
		{"Classify", func(p *retry.Policy) { p.Classify = func(error) *retry.Class { return nil } }, "Classify is set: write nil (Temporal has one policy for all errors)"},
		{"Budget", func(p *retry.Policy) { p.Budget = &retry.Budget{Size: 10, Ratio: 0.1} }, "Budget is set: write nil (Temporal has none)"},
		{"OnEvent", func(p *retry.Policy) { p.OnEvent = func(context.Context, retry.Event) {} }, "OnEvent is set: write nil (the server reports no retries to the worker)"},
		{"OnEvent of one attempt", func(p *retry.Policy) {
			p.MaxAttempts, p.OnEvent = 1, func(context.Context, retry.Event) {}
		}, "OnEvent is set: write nil (the server reports no retries to the worker)"},
		{"several at once", func(p *retry.Policy) {
			p.MaxElapsed, p.Jitter, p.MaxAttempts, p.MaxDelay = time.Minute, retry.FullJitter, retry.Unlimited, century+1
		},
			"MaxElapsed (max_elapsed) is 1m0s: write 0s (ScheduleToCloseTimeout is the nearest, and ends a running attempt too); " +
				"Jitter (jitter) is full: write nil (0), because Temporal has none; " +
				"MaxDelay (max_delay) is 876000h0m0.000000001s: write at most 876000h0m0s, 100 years, where Temporal cuts (the delays reach 876000h0m0.000000001s)"},
		{"invalid", func(p *retry.Policy) { p.MaxDelay = -1 }, "invalid policy: MaxDelay is -1ns: write 0 for none, or a positive duration"},
	} {
		p := forTemporal()
		tc.change(&p)
		got, err := retrydialect.ToTemporal(p)
		if tc.fault == "" {
			require.NoError(t, err, tc.name)
			continue
		}
		assert.EqualError(t, err, "retrydialect: Temporal: "+tc.fault, tc.name)
		assert.Zero(t, got, tc.name)
	}
}

// A Source and a Wait say nothing about the delays, so a policy of a test exports
// as that of the program.
func TestToTemporalUnderNoWait(t *testing.T) {
	p := forTemporal()
	want, err := retrydialect.ToTemporal(p)
	require.NoError(t, err)
	p.Source = func() uint64 { return 1 }
	got, err := retrydialect.ToTemporal(retrytest.NoWait(p))
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestToTemporalMoreAttemptsThanAnInt32(t *testing.T) {
	if strconv.IntSize == 32 {
		t.Skip("an int is an int32 here")
	}
	p := forTemporal()
	p.MaxAttempts = math.MaxInt
	_, err := retrydialect.ToTemporal(p)
	assert.EqualError(t, err, "retrydialect: Temporal: MaxAttempts (max_attempts) is 9223372036854775807 in effect: write at most 2147483647, or -1 for unlimited")
}

// Every policy that is accepted is decided again by the formula of Temporal's
// server, and every one that is refused has a field that it has no place for.
func TestToTemporalDecidesAsThePolicy(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 6))
	accepted := 0
	for range 10_000 {
		p := nearTemporal(r)
		exported, err := retrydialect.ToTemporal(p)
		if err != nil {
			require.False(t, temporalCanExpress(p), "%v: %v", p, err)
			continue
		}
		accepted++
		require.True(t, temporalCanExpress(p), "%v: %v", p, exported)
		for attempt := 1; attempt <= 100; attempt++ {
			decideAsTemporal(t, p, exported, attempt)
		}
		decideAsTemporal(t, p, exported, 101+r.IntN(math.MaxInt32-101))
		decideAsTemporal(t, p, exported, max(1, p.EffectiveMax()-1))
		decideAsTemporal(t, p, exported, max(1, p.EffectiveMax()))
	}
	t.Log(accepted, "of 10000 accepted")
	assert.GreaterOrEqual(t, accepted, 3000)
}

// decideAsTemporal compares a decision of p with that of Temporal's server
// v1.32.0: EnsureDefaults and ValidateAndCapProtoDuration when it takes the
// policy, then nextBackoffInterval and ExponentialBackoffAlgorithm.
func decideAsTemporal(t *testing.T, p retry.Policy, exported retrydialect.Temporal, attempt int) {
	t.Helper()
	if exported.InitialInterval == 0 {
		exported.InitialInterval = time.Second
	}
	if exported.MaximumInterval == 0 {
		exported.MaximumInterval = 100 * exported.InitialInterval
	}
	if exported.BackoffCoefficient == 0 {
		exported.BackoffCoefficient = 2
	}
	const century = 100 * 365 * 24 * time.Hour
	require.True(t, exported.MaximumAttempts == 1 || exported.InitialInterval <= exported.MaximumInterval && exported.BackoffCoefficient >= 1, "%v: %v", p, exported)
	initial, most := min(exported.InitialInterval, century), min(exported.MaximumInterval, century)

	d := p.Next(retry.Attempt{Number: attempt})
	if exported.MaximumAttempts > 0 && attempt >= exported.MaximumAttempts {
		require.False(t, d.Retry(), "%v: %v: attempt %d", p, exported, attempt)
		return
	}
	interval := float64(initial) * math.Pow(exported.BackoffCoefficient, float64(attempt-1))
	interval = min(interval, float64(most))
	require.True(t, d.Retry(), "%v: %v: attempt %d", p, exported, attempt)
	require.True(t, near(d.Delay, interval, 1), "%v: %v: attempt %d: %v and %v", p, exported, attempt, d.Delay, time.Duration(interval))
}

// temporalCanExpress says the same as ToTemporal, from the fields that Temporal
// has and the delays of the policy.
func temporalCanExpress(p retry.Policy) bool {
	limit := p.EffectiveMax()
	if limit > math.MaxInt32 || hasMore(p) {
		return false
	}
	if limit == 1 {
		return true
	}
	last := limit - 1
	if limit == retry.Unlimited {
		last = math.MaxInt
	}
	first, longest := p.Next(retry.Attempt{Number: 1}), p.Next(retry.Attempt{Number: last})
	none := p.Jitter == nil || p.Jitter == retry.Proportional(0)
	return none && plainCurve(p) && first.Delay > 0 && longest.Delay <= 100*365*24*time.Hour
}
