package retrydialect_test

import (
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
)

func TestToTemporal(t *testing.T) {
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
	if limit == retry.Unlimited && p.Backoff != nil { // which waits at least 10ms, whatever the curve says
		limited := p
		limited.MaxAttempts, limited.MaxRetries = 2, 0
		first = limited.Next(retry.Attempt{Number: 1})
		return none && plainCurve(p) && first.Delay >= 10*time.Millisecond && longest.Delay <= century
	}
	return none && plainCurve(p) && first.Delay > 0 && longest.Delay <= century
}
