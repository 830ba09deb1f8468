package retrydialect_test

import (
	"cmp"
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
		{"a cap below the first delay", retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 1500 * time.Microsecond},
			retrydialect.Temporal{InitialInterval: 1500 * time.Microsecond, BackoffCoefficient: 2, MaximumInterval: 1500 * time.Microsecond, MaximumAttempts: 3},
			`{"initialInterval":"0.0015s","backoffCoefficient":2,"maximumInterval":"0.0015s","maximumAttempts":3}`},
		{"unlimited", retry.Policy{MaxRetries: retry.Unlimited, Backoff: retry.Fixed(time.Second)},
			retrydialect.Temporal{InitialInterval: time.Second, BackoffCoefficient: 1, MaximumInterval: time.Second},
			`{"initialInterval":"1s","backoffCoefficient":1,"maximumInterval":"1s"}`},
		{"one attempt, whatever the delays", retry.Policy{Backoff: retry.Fibonacci(time.Second), Jitter: retry.FullJitter},
			retrydialect.Temporal{MaximumAttempts: 1}, `{"maximumAttempts":1}`},
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
	p, one := forTemporal(), 1
	p.MaxAttempts = math.MaxInt32 + one
	_, err := retrydialect.ToTemporal(p)
	assert.EqualError(t, err, "retrydialect: Temporal: MaxAttempts (max_attempts) is 2147483648 in effect: write at most 2147483647, or -1 for unlimited")
}

// Every policy that is accepted is decided again by the formula of Temporal's server v1.32.0:
// EnsureDefaults and ValidateAndCapProtoDuration when it takes the policy, then
// nextBackoffInterval and ExponentialBackoffAlgorithm.
func TestToTemporalDecidesAsThePolicy(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 6))
	accepted := 0
	for range 5000 {
		p := drawn(r, nil, retry.Unlimited, 1, 2+r.IntN(10), 2+r.IntN(1000))
		exported, err := retrydialect.ToTemporal(p)
		if err != nil {
			continue
		}
		accepted++
		for _, attempt := range []int{1, 2, 3, 4, 5, 10, 100, 101 + r.IntN(math.MaxInt32-101), max(1, p.EffectiveMax()-1), max(1, p.EffectiveMax())} {
			decideAsTemporal(t, p, exported, attempt)
		}
	}
	assert.Greater(t, accepted, 3000)
}

func decideAsTemporal(t *testing.T, p retry.Policy, exported retrydialect.Temporal, attempt int) {
	t.Helper()
	initial := cmp.Or(exported.InitialInterval, time.Second)
	longest := cmp.Or(exported.MaximumInterval, 100*initial)
	require.True(t, exported.MaximumAttempts == 1 || initial <= longest && exported.BackoffCoefficient >= 1, "%v: %v", p, exported)

	d := p.Next(retry.Attempt{Number: attempt})
	if exported.MaximumAttempts > 0 && attempt >= exported.MaximumAttempts {
		require.False(t, d.Retry(), "%v: %v: attempt %d", p, exported, attempt)
		return
	}
	interval := min(float64(min(initial, century))*math.Pow(exported.BackoffCoefficient, float64(attempt-1)), float64(min(longest, century)))
	require.True(t, d.Retry(), "%v: %v: attempt %d", p, exported, attempt)
	require.True(t, near(d.Delay, interval, 1), "%v: %v: attempt %d: %v and %v", p, exported, attempt, d.Delay, time.Duration(interval))
}
