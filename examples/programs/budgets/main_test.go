package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

// What the tables say of the highest load and of blips, and that the bold row is what
// clients use.
func TestBudgets(t *testing.T) {
	var targets retry.Budgets
	budget, _ := targets.For("")
	budget.Name = ""
	assert.Equal(t, budget, usual.budget)
	for _, r := range []struct {
		row
		down int
	}{{rows[0], 7}, {rows[1], 6}, {usual, 0}} {
		assert.Equal(t, r.down, staysDown(loads[2], 1000, r.budget), r.name)
	}
	for _, b := range blips[:4] {
		for _, n := range processes {
			assert.Zero(t, b.lost(n, usual.budget), "%s, %d processes", b.name, n)
		}
		assert.Greater(t, b.lost(1, rows[2].budget), 90, b.name)
	}
	assert.Equal(t, " | 7213, 7226, 7926 | 2.0, 2.0, 2.8", usual.price())
}

// With noise, and in blips that come again, a Grace loses no more calls than a Budget without one.
func TestGraceLosesNoMoreThanRemember(t *testing.T) {
	remember := of("", 10, 0.1, 300, 60, 0)
	for _, b := range blips[6:] {
		for _, n := range processes[:3] {
			assert.LessOrEqual(t, b.lost(n, usual.budget), b.lost(n, remember.budget), "%s, %d processes", b.name, n)
		}
	}
}
