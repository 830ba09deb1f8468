package policyfile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The path in -at may be of any length. A path with ten times as many dots takes ten times as much
// memory, and not a hundred times.
func TestLongPathTakesLinearMemory(t *testing.T) {
	f, fault := Parse("policy.yaml", []byte("retry: {max_attempts: 3}\n"))
	require.Nil(t, fault)
	bytes := func(dots int) float64 {
		at := strings.Repeat("a.", dots) + "a"
		return float64(testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				_, fault := f.Only(at)
				require.NotNil(b, fault)
			}
		}).AllocedBytesPerOp())
	}
	assert.Less(t, bytes(20_000), 15*bytes(2_000))
}
