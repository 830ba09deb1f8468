package retrydialect_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

func TestTaskHarborEffectiveMax(t *testing.T) {
	for _, tc := range []struct{ job, policy, effective int }{
		{5, 25, 5},
		{0, 25, 25},
		{20, 10, 10},
		{10, 0, 10},
		{0, 0, 1},
		{-1, -1, 1},
		{50, 25, 25},
		{20, 15, 15},
		{0, 15, 15},
		{4, -1, 4},
		{math.MaxInt, math.MinInt, math.MaxInt},
	} {
		h := retrydialect.DefaultTaskHarbor()
		h.MaxAttempts = tc.policy
		p, err := h.Policy()
		require.NoError(t, err)
		assertAttempts(t, p.ForJob(tc.job), tc.effective)
	}
}

// A job is dead if nothing follows its last failure.
func TestTaskHarborDeadJobs(t *testing.T) {
	ordinary := errors.New("connection refused")
	for _, tc := range []struct {
		job, policy, failures int
		err                   error
		dead                  bool
	}{
		{5, 0, 4, ordinary, false},
		{5, 0, 5, ordinary, true},
		{20, 10, 9, ordinary, false},
		{20, 10, 10, ordinary, true},
		{5, 0, 1, retry.Permanent(ordinary), true},
	} {
		h := retrydialect.TaskHarbor{MaxAttempts: tc.policy}
		p, err := h.Policy()
		require.NoError(t, err)
		next := p.ForJob(tc.job).Next(retry.Attempt{Number: tc.failures, Err: tc.err})
		assert.Equal(t, tc.dead, !next.Retry(), "job %d, policy %d, failures %d: %v", tc.job, tc.policy, tc.failures, next.Reason)
	}
}

func TestTaskHarborNilFailsFast(t *testing.T) {
	p, err := (*retrydialect.TaskHarbor)(nil).Policy()
	require.NoError(t, err)
	for _, job := range []int{5, 0, -1} {
		assertAttempts(t, p.ForJob(job), 1)
	}
	assert.Equal(t, retry.ReasonNonRetryable, p.Next(retry.Attempt{Number: 1}).Reason)
}

func TestTaskHarborDefaults(t *testing.T) {
	h := retrydialect.DefaultTaskHarbor()
	p, err := h.Policy()
	require.NoError(t, err)
	assert.Equal(t, retry.Policy{
		MaxAttempts: 25,
		Backoff:     retry.Exponential{Base: 200 * time.Millisecond, Factor: 2},
		MaxDelay:    5 * time.Second,
		Jitter:      retry.Proportional(0.2),
	}, p)
}

// No delay that is drawn is longer than the cap, and each is within ±20 %.
func TestTaskHarborJitter(t *testing.T) {
	h := retrydialect.DefaultTaskHarbor()
	p, err := h.Policy()
	require.NoError(t, err)
	nominal := retrydialect.DefaultTaskHarbor()
	nominal.Jitter = 0
	curve, err := nominal.Policy()
	require.NoError(t, err)
	for attempt := 1; attempt < 25; attempt++ {
		d := curve.Next(retry.Attempt{Number: attempt}).Delay
		lo, hi := d-d/5, min(d+d/5, h.MaxDelay)
		for seed := uint64(1); seed <= 1000; seed++ {
			got := p.Next(retry.Attempt{Number: attempt, Seed: seed}).Delay
			require.True(t, lo <= got && got <= hi, "attempt %d, seed %d: %v is outside of %v to %v", attempt, seed, got, lo, hi)
		}
	}
}

func TestTaskHarborNumberThatIsTooLarge(t *testing.T) {
	var h retrydialect.TaskHarbor
	require.EqualError(t, json.Unmarshal([]byte(`{"jitter": 1e999}`), &h), "retrydialect: TaskHarbor: jitter is 1e999: write a number, such as 0.5")
}

func TestTaskHarborNumbersThatAreNone(t *testing.T) {
	for _, tc := range []struct {
		name  string
		set   func(*retrydialect.TaskHarbor)
		fault string
	}{
		{"multiplier NaN", func(h *retrydialect.TaskHarbor) { h.Multiplier = math.NaN() }, "multiplier is NaN"},
		{"multiplier +Inf", func(h *retrydialect.TaskHarbor) { h.Multiplier = math.Inf(1) }, "multiplier is +Inf"},
		{"multiplier the greatest", func(h *retrydialect.TaskHarbor) { h.Multiplier = math.MaxFloat64 }, ""},
		{"multiplier just below 1", func(h *retrydialect.TaskHarbor) { h.Multiplier = math.Nextafter(1, 0) }, "multiplier is 0.9999999999999999"},
		{"jitter NaN", func(h *retrydialect.TaskHarbor) { h.Jitter = math.NaN() }, "jitter is NaN"},
		{"jitter just above 1", func(h *retrydialect.TaskHarbor) { h.Jitter = math.Nextafter(1, 2) }, "jitter is 1.0000000000000002"},
		{"multiplier -Inf", func(h *retrydialect.TaskHarbor) { h.Multiplier = math.Inf(-1) }, ""},
		{"jitter -Inf", func(h *retrydialect.TaskHarbor) { h.Jitter = math.Inf(-1) }, ""},
		{"max_delay MinInt64", func(h *retrydialect.TaskHarbor) { h.MaxDelay = math.MinInt64 }, ""},
		{"base_delay MinInt64", func(h *retrydialect.TaskHarbor) { h.BaseDelay = math.MinInt64 }, ""},
	} {
		h := retrydialect.DefaultTaskHarbor()
		tc.set(&h)
		p, err := h.Policy()
		if tc.fault == "" {
			require.NoError(t, err, tc.name)
			require.NoError(t, p.Validate(), tc.name)
			continue
		}
		require.ErrorContains(t, err, tc.fault, tc.name)
		assert.Zero(t, p, tc.name)
	}
}
