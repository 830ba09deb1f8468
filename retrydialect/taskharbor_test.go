package retrydialect_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

func TestTaskHarborEffectiveMax(t *testing.T) {
	for _, tc := range []struct{ job, policy, effective int }{
		{5, 25, 5},
		{0, 25, 25},
		{10, 0, 10},
		{0, 0, 1},
		{-1, -1, 1},
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

func TestNilTaskHarborMakesOneAttempt(t *testing.T) {
	p, err := (*retrydialect.TaskHarbor)(nil).Policy()
	require.NoError(t, err)
	for _, job := range []int{5, 0, -1} {
		assertAttempts(t, p.ForJob(job), 1)
	}
	assert.Equal(t, retry.ReasonNonRetryable, p.Next(retry.Attempt{Number: 1}).Reason)
}

func TestTaskHarborExtremeNumbers(t *testing.T) {
	for _, tc := range []struct {
		name  string
		set   func(*retrydialect.TaskHarbor)
		fault string
	}{
		{"multiplier NaN", func(h *retrydialect.TaskHarbor) { h.Multiplier = math.NaN() }, "multiplier is NaN"},
		{"multiplier +Inf", func(h *retrydialect.TaskHarbor) { h.Multiplier = math.Inf(1) }, "multiplier is +Inf"},
		{"multiplier MaxFloat64", func(h *retrydialect.TaskHarbor) { h.Multiplier = math.MaxFloat64 }, ""},
		{"multiplier just below 1", func(h *retrydialect.TaskHarbor) { h.Multiplier = math.Nextafter(1, 0) }, "multiplier is 0.9999999999999999"},
		{"jitter NaN", func(h *retrydialect.TaskHarbor) { h.Jitter = math.NaN() }, "jitter is NaN"},
		{"jitter just above 1", func(h *retrydialect.TaskHarbor) { h.Jitter = math.Nextafter(1, 2) }, "jitter is 1.0000000000000002"},
		{"jitter -Inf", func(h *retrydialect.TaskHarbor) { h.Jitter = math.Inf(-1) }, ""},
		{"max_delay MinInt64", func(h *retrydialect.TaskHarbor) { h.MaxDelay = math.MinInt64 }, ""},
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
