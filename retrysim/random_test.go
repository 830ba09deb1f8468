package retrysim

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExponentialIsALogarithm(t *testing.T) {
	s, again := newStream(1, "db", "work"), newStream(1, "db", "work")
	worst, least := 0.0, 0.0
	for range 100_000 {
		u := float64(again.Uint64()>>11+1) / (1 << 53)
		got := s.exp1()
		worst, least = max(worst, math.Abs(got+math.Log(u))), min(least, got)
	}
	assert.Less(t, worst, 1e-12)
	assert.Zero(t, least)
}

func TestMomentsOfWork(t *testing.T) {
	const n, mean = 200_000, 1e8
	for _, tc := range []struct {
		name      string
		draw      func(stream) int64
		deviation float64
	}{
		{"exponential", func(s stream) int64 { return s.exponential(mean) }, mean},
		{"normal", func(s stream) int64 { return s.normal(mean) }, mean / 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStream(7, "db", "work")
			sum, squares, least := 0.0, 0.0, 0.0
			for range n {
				x := float64(tc.draw(s))
				sum += x
				squares += x * x
				least = min(least, x)
			}
			assert.Zero(t, least)
			assert.InDelta(t, mean, sum/n, 4*tc.deviation/math.Sqrt(n))
			assert.InEpsilon(t, tc.deviation, math.Sqrt(squares/n-sum/n*sum/n), 0.02)
		})
	}
	t.Run("what is too long is cut", func(t *testing.T) {
		assert.Positive(t, newStream(1, "db", "work").exponential(math.MaxFloat64))
	})
}

// Streams of one seed, and of seeds that follow each other, have nothing in common.
func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(100) {
		for _, service := range []string{"a", "b"} {
			for _, use := range []string{"work", "seeds"} {
				seen[newStream(seed, service, use).Uint64()] = true
			}
		}
	}
	assert.Len(t, seen, 400)
}
