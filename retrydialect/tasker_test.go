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
		name          string
		retryable     *bool
		max           *int
		eligible, not []int // attempts
	}{
		{"max_attempts_zero is a fault, and yet a first attempt is eligible", &yes, n(0), []int{0}, []int{1}},
		{"max_attempts_one", &yes, n(1), []int{0}, []int{1}},
		{"max_attempts_three", &yes, n(3), []int{0, 1, 2}, []int{3}},
		{"first_attempt_ignores_retryable", &no, n(1), []int{0}, []int{1}},
		{"retries_require_retryable", &no, n(3), []int{0}, []int{1, 2}},
		{"unlimited_by_large_number", &yes, n(999999), []int{0, 1, 999998}, []int{999999}},
		{"all null", nil, nil, []int{0, 2}, []int{3}},
		{"retryable null, max_attempts 5", nil, n(5), []int{4}, nil},
		{"retryable false, max_attempts null", &no, nil, nil, []int{1}},
	} {
		p, err := retrydialect.Tasker{Retryable: tc.retryable, MaxAttempts: tc.max}.Policy()
		if tc.max != nil && *tc.max == 0 {
			require.ErrorContains(t, err, "max_attempts", tc.name)
		} else {
			require.NoError(t, err, tc.name)
		}
		for want, all := range map[bool][]int{true: tc.eligible, false: tc.not} {
			for _, attempts := range all {
				assert.Equal(t, want, p.Eligible(attempts), "%s, attempts %d", tc.name, attempts)
				if attempts > 0 {
					assert.Equal(t, want, p.Next(retry.Attempt{Number: attempts}).Retry(), "%s, attempts %d: Next says the same", tc.name, attempts)
				}
			}
		}
	}
}
