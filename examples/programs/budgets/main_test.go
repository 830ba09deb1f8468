package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry/internal/targets"
)

// What the tables say of the highest load and of a blip, and that the bold row is what
// clients use.
func TestBudgets(t *testing.T) {
	var unset targets.Budgets
	assert.Equal(t, unset.Use(targets.Named("db")).Budget, usual.budget)
	assert.Equal(t, usual.budget, near[3].budget)
	for _, r := range []struct {
		row
		down int
	}{{known[0], 7}, {known[1], 6}, {usual, 0}} {
		assert.Equal(t, r.down, staysDown(loads[2], 1000, r.budget), r.name)
	}
	none, calls := noise(nil)
	budgeted, _ := noise(usual.budget)
	assert.Equal(t, none, budgeted, "noise loses nothing that retries would save")
	assert.Positive(t, calls)
	for _, n := range processes {
		assert.Zero(t, blip(n, usual.budget, 300*time.Millisecond), "%d processes", n)
	}
	assert.Greater(t, blip(1, known[3].budget, 300*time.Millisecond), 100)
}
