package retrydialect_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry/retrydialect"
)

func TestArgyllAttempts(t *testing.T) {
	for _, maxRetries := range []int{math.MaxInt - 1, math.MaxInt} {
		p, err := retrydialect.Argyll{MaxRetries: maxRetries, Backoff: 1000, BackoffType: "fixed"}.Policy()
		require.NoError(t, err)
		assertAttempts(t, p, math.MaxInt)
	}
	p, err := retrydialect.Argyll{}.Policy()
	require.NoError(t, err)
	assert.Equal(t, 1, p.ForJob(5).EffectiveMax(), "a max_retries of 0 is a limit that a job cannot raise")
}

// Argyll retries every error of the transport and every status of 500 and above, and no other
// status. The Transport of the example does the same.
func TestArgyllRetryable(t *testing.T) {
	for status := 100; status < 700; status++ {
		assert.Equal(t, status >= 500, retrydialect.ArgyllRetryable(status, nil), status)
		assert.True(t, retrydialect.ArgyllRetryable(status, errors.New("reset")), status)
	}
}
