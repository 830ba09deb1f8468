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
	"golang.org/x/tools/go/packages"
)

// The work for nested calls grows with the square of their number, because each call looks at all
// calls inside it. If it grew with the cube, 200 calls would take eight times the work of 100.
func TestWorkForNestedCallsGrowsWithTheSquare(t *testing.T) {
	dir := module(t)
	const begin = "return retry.Do(ctx, policy, func(ctx context.Context) error { "
	for _, calls := range []int{100, 200} {
		code := strings.Repeat(begin, calls) + "return ping(ctx)" + strings.Repeat(" })", calls)
		program(t, filepath.Join(dir, "docs", "within", strconv.Itoa(calls)), " "+code+"\n", " ")
	}
	programs := load(t, dir, "./docs/within/...")
	require.Len(t, programs, 2)
	allocated := func(program *packages.Package) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := checker.Analyze(Analyzers, []*packages.Package{program}, nil)
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs - before.Mallocs)
	}
	assert.Less(t, allocated(programs[1])/allocated(programs[0]), 5.0)
}
