package jobqueue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/jobqueue"
	"github.com/goretry/retry/retryjob"
)

func TestPolicies(t *testing.T) {
	for name, row := range map[string]struct {
		policy  retry.Policy
		refused bool
	}{
		"no limit":           {retry.Policy{Backoff: retry.Fixed(1)}, true},
		"a cap is no limit":  {retry.Policy{AttemptCap: 3}, true},
		"MaxAttempts":        {retry.Policy{MaxAttempts: 1}, false},
		"unlimited":          {retry.Policy{MaxAttempts: retry.Unlimited}, false},
		"MaxRetries":         {retry.Policy{MaxRetries: 1}, false},
		"MaxElapsed":         {retry.Policy{MaxElapsed: 1}, false},
		"one attempt, meant": {retry.Policy{NonRetryable: true}, false},
	} {
		_, err := jobqueue.NewPolicies("adapter", row.policy)
		if row.refused {
			assert.ErrorContains(t, err, "adapter: the policy has no limit, so no job would be retried: write MaxAttempts", name)
		} else {
			assert.NoError(t, err, name)
		}
	}
	invalid := retry.Policy{MaxAttempts: -2}
	_, err := jobqueue.NewPolicies("adapter", invalid)
	assert.ErrorContains(t, err, "adapter: invalid policy: MaxAttempts")
	p, err := jobqueue.NewPolicies("adapter", retry.Policy{MaxAttempts: 2})
	require.NoError(t, err)
	assert.ErrorContains(t, p.Set("adapter: kind", "mail", invalid), "adapter: kind mail: invalid policy: MaxAttempts")
	assert.Equal(t, 2, p.Of("mail").MaxAttempts, "an invalid policy is not set")
	require.NoError(t, p.Set("adapter: kind", "mail", retry.Policy{MaxAttempts: 3}))
	assert.Equal(t, 3, p.Of("mail").MaxAttempts)
	assert.Equal(t, 2, p.Of("other").MaxAttempts)
}

func TestLetterOf(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		want retryjob.DeadLetter
		err  string
	}{
		"a dead letter": {`{"key":"k","reason":"attempts_exhausted","attempts":3}`, retryjob.DeadLetter{Key: "k", Reason: retry.ReasonExhausted, Attempts: 3}, ""},
		"none":          {"", retryjob.DeadLetter{}, "adapter: there is no header H: this is no dead letter"},
		"no JSON":       {"boom", retryjob.DeadLetter{}, "adapter: header H: invalid character"},
		"cut off":       {`{"key":"k"`, retryjob.DeadLetter{}, "adapter: header H: unexpected end"},
	} {
		d, err := jobqueue.LetterOf("adapter", "H", row.text)
		if row.err == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, row.err, name)
		}
		assert.Equal(t, row.want, d, name)
	}
}

func TestLimit(t *testing.T) {
	for text, want := range map[string]int{"": 0, "1": 1, "9223372036854775807": 1<<63 - 1} {
		n, err := jobqueue.Limit("H", text)
		assert.NoError(t, err, text)
		assert.Equal(t, want, n, text)
	}
	for _, text := range []string{"0", "-1", "1.5", " 1", "9223372036854775808", "two"} {
		n, err := jobqueue.Limit("H", text)
		assert.EqualError(t, err, `header H is "`+text+`": write a whole number from 1 on, or leave it out`)
		assert.Zero(t, n, text)
	}
}

func TestShorten(t *testing.T) {
	assert.Equal(t, "", jobqueue.Shorten("", 3))
	assert.Equal(t, "abc", jobqueue.Shorten("abc", 3))
	assert.Equal(t, "abc", jobqueue.Shorten("abcd", 3))
	assert.Equal(t, "ab", jobqueue.Shorten("abü", 3), "no half of a character")
}
