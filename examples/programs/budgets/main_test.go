package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/targets"
)

// What the table says of the highest load, and that its bold row is the default.
func TestBudgets(t *testing.T) {
	var unset targets.Budgets[string]
	for _, row := range []struct {
		name string
		b    *retry.Budget
		down int
	}{{"none", nil, 7}, {"one every 10s", budgets[1].budget, 6}, {"the default", unset.Of("db"), 0}} {
		down, err := staysDown(loads[2:], 1000, row.b)
		require.NoError(t, err)
		assert.Equal(t, row.down, down, row.name)
	}
	assert.Equal(t, unset.Of("db"), budgets[3].budget)
	none, calls, err := lost(nil)
	require.NoError(t, err)
	budgeted, _, err := lost(unset.Of("db"))
	require.NoError(t, err)
	assert.Equal(t, none, budgeted, "noise loses nothing that retries would save")
	assert.Positive(t, calls)
}
