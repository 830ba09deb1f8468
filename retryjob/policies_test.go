package retryjob_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryjob"
)

func TestPolicies(t *testing.T) {
	for name, row := range map[string]struct {
		policy  retry.Policy
		refused bool
	}{
		"no limit":           {retry.Policy{Backoff: retry.Fixed(1)}, true},
		"only an AttemptCap": {retry.Policy{AttemptCap: 3}, true},
		"MaxAttempts":        {retry.Policy{MaxAttempts: 1}, false},
		"unlimited":          {retry.Policy{MaxAttempts: retry.Unlimited}, false},
		"MaxRetries":         {retry.Policy{MaxRetries: 1}, false},
		"MaxElapsed":         {retry.Policy{MaxElapsed: 1}, false},
		"NonRetryable":       {retry.Policy{NonRetryable: true}, false},
	} {
		_, err := retryjob.NewPolicies("adapter", row.policy)
		if row.refused {
			assert.ErrorContains(t, err, "adapter: the policy sets no limit, and without a limit no job is retried: set MaxAttempts", name)
		} else {
			assert.NoError(t, err, name)
		}
	}
	invalid := retry.Policy{MaxAttempts: -2}
	_, err := retryjob.NewPolicies("adapter", invalid)
	assert.ErrorContains(t, err, "adapter: invalid policy: MaxAttempts")
	p, err := retryjob.NewPolicies("adapter", retry.Policy{MaxAttempts: 2})
	require.NoError(t, err)
	assert.ErrorContains(t, p.Set("adapter: kind", "mail", invalid), "adapter: kind mail: invalid policy: MaxAttempts")
	assert.Equal(t, 2, p.Of("mail").MaxAttempts, "an invalid policy is not set")
	require.NoError(t, p.Set("adapter: kind", "mail", retry.Policy{MaxAttempts: 3}))
	assert.Equal(t, 3, p.Of("mail").MaxAttempts)
	assert.Equal(t, 2, p.Of("other").MaxAttempts)
}
