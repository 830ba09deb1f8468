package retrydialect_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrydialect"
)

// Tasker asks per row of its table of steps, in which any column may be NULL.
func TestTaskerEligibility(t *testing.T) {
	yes, no := true, false
	n := func(n int) *int { return &n }
	for _, tc := range []struct {
		name      string
		retryable *bool
		max       *int
		attempts  int
		eligible  bool
		fault     bool // max_attempts 0 is one, and yet a first attempt is eligible
	}{
		{"max_attempts_zero", &yes, n(0), 0, true, true},
		{"max_attempts_zero", &yes, n(0), 1, false, true},
		{"max_attempts_one", &yes, n(1), 0, true, false},
		{"max_attempts_one", &yes, n(1), 1, false, false},
		{"max_attempts_three", &yes, n(3), 0, true, false},
		{"max_attempts_three", &yes, n(3), 1, true, false},
		{"max_attempts_three", &yes, n(3), 2, true, false},
		{"max_attempts_three", &yes, n(3), 3, false, false},
		{"first_attempt_ignores_retryable", &no, n(1), 0, true, false},
		{"first_attempt_ignores_retryable", &no, n(1), 1, false, false},
		{"retries_require_retryable", &no, n(3), 0, true, false},
		{"retries_require_retryable", &no, n(3), 1, false, false},
		{"retries_require_retryable", &no, n(3), 2, false, false},
		{"unlimited_by_large_number", &yes, n(999999), 0, true, false},
		{"unlimited_by_large_number", &yes, n(999999), 1, true, false},
		{"unlimited_by_large_number", &yes, n(999999), 999998, true, false},
		{"unlimited_by_large_number", &yes, n(999999), 999999, false, false},
		{"all null", nil, nil, 0, true, false},
		{"all null", nil, nil, 2, true, false},
		{"all null", nil, nil, 3, false, false},
		{"retryable null, max_attempts 5", nil, n(5), 4, true, false},
		{"retryable false, max_attempts null", &no, nil, 1, false, false},
	} {
		p, err := retrydialect.Tasker{Retryable: tc.retryable, MaxAttempts: tc.max}.Policy()
		if tc.fault {
			require.ErrorContains(t, err, "max_attempts", tc.name)
		} else {
			require.NoError(t, err, tc.name)
		}
		assert.Equal(t, tc.eligible, p.Eligible(tc.attempts), "%s, attempts %d", tc.name, tc.attempts)
		if tc.attempts > 0 {
			assert.Equal(t, tc.eligible, p.Next(retry.Attempt{Number: tc.attempts}).Retry(), "%s, attempts %d: Next says the same", tc.name, tc.attempts)
		}
	}
}

// A limit that is not in the block is nothing to warn of.
func TestTaskerLintSpeaksOfWhatIsWritten(t *testing.T) {
	no, three := false, 3
	p, err := retrydialect.Tasker{Retryable: &no}.Policy()
	require.NoError(t, err)
	assert.Empty(t, p.Lint())
	assert.Equal(t, 1, p.ForJob(5).EffectiveMax())

	p, err = retrydialect.Tasker{Retryable: &no, MaxAttempts: &three}.Policy()
	require.NoError(t, err)
	require.Len(t, p.Lint(), 1)
	assert.Contains(t, p.Lint()[0], "max_attempts")
}
