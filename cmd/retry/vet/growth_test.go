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

// Calls within each other are looked at in the time of a square: each call looks at those within
// it. 300 of them, which made 40 s of work as a cube, take about one.
func TestCallsWithinEachOther(t *testing.T) {
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
