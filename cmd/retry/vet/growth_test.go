package vet

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/checker"
)

// The work for nested calls grows with the square of their number, because each call looks at all
// calls inside it. If it grew with the cube, 200 calls would take eight times the work of 100.
func TestWorkForNestedCallsGrowsWithTheSquare(t *testing.T) {
	dir := module(t)
	const begin = "return retry.Do(ctx, policy, func(ctx context.Context) error { "
	allocated := func(calls int) float64 {
		name := strconv.Itoa(calls)
		code := strings.Repeat(begin, calls) + "return ping(ctx)" + strings.Repeat(" })", calls)
		program(t, filepath.Join(dir, "docs", "within", name), " "+code+"\n", " ")
		programs := load(t, dir, "./docs/within/"+name)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := checker.Analyze(Analyzers, programs, nil)
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs - before.Mallocs)
	}
	assert.Less(t, allocated(200)/allocated(100), 5.0)
}
