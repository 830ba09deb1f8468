package retrydialect_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

func TestArgyllExecutions(t *testing.T) {
	for _, tc := range []struct{ maxRetries, executions int }{
		{0, 1},
		{1, 2},
		{3, 4},
		{-1, retry.Unlimited},
		{math.MaxInt - 1, math.MaxInt},
		{math.MaxInt, math.MaxInt},
	} {
		p, err := retrydialect.Argyll{MaxRetries: tc.maxRetries, Backoff: 1000, BackoffType: "fixed"}.Policy()
		require.NoError(t, err)
		assertAttempts(t, p, tc.executions)
	}
}

// A max_retries of 0 is a limit of one attempt, which no job can raise.
func TestArgyllNoRetriesIsALimit(t *testing.T) {
	p, err := retrydialect.Argyll{}.Policy()
	require.NoError(t, err)
	assert.Equal(t, 1, p.ForJob(5).EffectiveMax())
}

func TestArgyllFaultsOfMeaningAtOnce(t *testing.T) {
	p, err := retrydialect.Argyll{MaxRetries: -5, Backoff: -1, MaxBackoff: -1, BackoffType: "cubic"}.Policy()
	for _, key := range []string{"max_retries is -5", "backoff is -1", "max_backoff is -1", "backoff_type is \"cubic\""} {
		require.ErrorContains(t, err, key)
	}
	assert.Zero(t, p)
}
