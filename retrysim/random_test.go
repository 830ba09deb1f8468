package retrysim

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNormal(t *testing.T) {
	const n, mean = 200_000, 1e8
	s, xs := newStream(7, "db", "work"), make([]float64, n)
	for i := range xs {
		xs[i] = float64(s.normal(mean))
	}
	got, deviation := moments(xs)
	assert.InDelta(t, mean, got, 4*mean/4/math.Sqrt(n))
	assert.InEpsilon(t, mean/4, deviation, 0.02)
	assert.GreaterOrEqual(t, slices.Min(xs), 0.0)
	assert.Equal(t, int64(1<<61), s.exponential(math.MaxFloat64), "what is too long is cut")
}
