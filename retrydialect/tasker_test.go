package retrydialect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
		limit     int // of attempts; one is eligible always
	}{
		{"max_attempts_one", &yes, n(1), 1},
		{"max_attempts_three", &yes, n(3), 3},
		{"retries_require_retryable", &no, n(3), 1},
		{"unlimited_by_large_number", &yes, n(999999), 999999},
		{"all null", nil, nil, 3},
		{"retryable null, max_attempts 5", nil, n(5), 5},
		{"retryable false, max_attempts null", &no, nil, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := retrydialect.Tasker{Retryable: tc.retryable, MaxAttempts: tc.max}.Policy()
			require.NoError(t, err)
			assertAttempts(t, p, tc.limit)
		})
	}
	p, err := retrydialect.Tasker{MaxAttempts: n(0)}.Policy()
	require.ErrorContains(t, err, "max_attempts")
	assertAttempts(t, p, 1)
}
