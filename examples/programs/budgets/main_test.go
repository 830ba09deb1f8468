package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
)

// The outages at the highest load, the blips and the price are as in the tables of docs/budget.md.
// The bold row is the default Budget of a target.
func TestBudgets(t *testing.T) {
	var targets retry.Budgets
	budget, _ := targets.For("")
	budget.Name = ""
	assert.Equal(t, budget, usual.budget)
	assert.Equal(t, 6, staysDown(loads[2], 1000, rows[1].budget, 1))
	assert.Zero(t, staysDown(loads[2], 1000, usual.budget, 1))
	for _, b := range blips[:4] {
		for _, n := range processes {
			assert.Zero(t, b.lost(n, usual.budget), "%s, %d processes", b.name, n)
		}
		assert.Greater(t, b.lost(1, rows[2].budget), 90, b.name)
	}
	lost, down := herds[0].lost(1, usual.budget)
	assert.Equal(t, [2]int{7213, 0}, [2]int{lost, down})
	assert.InDelta(t, 2.0, layers(1, usual.budget), 0.05)
	if os.Getenv("RETRY_LONG") != "" {
		assert.Equal(t, 7, staysDown(loads[2], 1000, nil, 1))
		assert.Equal(t, " | 7213, 7226, 7926 | 2271, 2275, 2462 | 2658, 2663, 2690 | 2.0, 2.0, 2.8", usual.price())
	}
}

var remembers = rows[3] // the default Budget of a target without its Grace

// With noise, and in repeated blips, a Budget with a Grace loses no more calls than a Budget
// without a Grace.
func TestGraceLosesNoMoreThanRemember(t *testing.T) {
	for _, b := range blips[6:] {
		for _, n := range processes[:3] {
			assert.LessOrEqual(t, b.lost(n, usual.budget), b.lost(n, remembers.budget), "%s, %d processes", b.name, n)
		}
	}
}

// With ten seeds, the database recovers from each outage if its load is at most four fifths of its
// capacity. At a higher load, a Grace adds no outage from which the database does not recover.
func TestGraceAddsNoOutage(t *testing.T) {
	if os.Getenv("RETRY_LONG") == "" {
		t.Skip("takes minutes; .ci/soak sets RETRY_LONG")
	}
	const seeds = 10
	down := func(load float64, n int, r row) (down int) {
		for seed := range uint64(seeds) {
			down += staysDown(load, n, r.budget, seed+1)
		}
		return down
	}
	for _, n := range processes {
		for _, load := range append(border, loads...) {
			t.Run(fmt.Sprintf("%v %%, %d processes", load*100, n), func(t *testing.T) {
				t.Parallel()
				grace, without := down(load, n, usual), 0
				if load > 0.8 {
					without = down(load, n, remembers)
				}
				assert.LessOrEqual(t, grace, without)
				t.Log(grace, "stay, without a Grace", without)
			})
		}
	}
}
