package findings_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/findings"
	"github.com/goretry/retry/internal/strict"
)

func TestOf(t *testing.T) {
	cause := errors.New("cause")
	err := findings.Of(strict.One("pkg", "a.b", "a.b is wrong", cause))
	require.EqualError(t, err, "pkg: a.b is wrong")
	require.ErrorIs(t, err, cause)
	var found interface{ Findings() []retry.Finding }
	require.ErrorAs(t, err, &found)
	assert.Equal(t, []retry.Finding{retry.Finding{Code: "invalid_value", Key: "a.b"}.WithText("a.b is wrong")}, found.Findings())

	assert.NoError(t, findings.Of(nil))
	assert.Equal(t, cause, findings.Of(cause))
}

func TestWithin(t *testing.T) {
	var invalid *retry.PolicyError
	require.ErrorAs(t, retry.Policy{MaxDelay: -1, Budget: &retry.Budget{}}.Validate(), &invalid)
	var f strict.Faults
	findings.Within(&f, "calls[0].retry", invalid)
	err := f.Err("pkg").(*strict.Error)
	assert.Equal(t, []strict.Finding{
		{Code: "invalid_value", Key: "calls[0].retry.max_delay", Text: "calls[0].retry: max_delay is -1ns: write 0 for none, or a positive duration"},
		{Code: "invalid_value", Key: "calls[0].retry.budget.size", Text: "calls[0].retry: budget.size is 0: write how many retries it holds, at least 1"},
	}, err.Faults)
}
