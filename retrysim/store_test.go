package retrysim

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// often returns how often something random is tried: more in .ci/soak.
func often(short, long int) int {
	if os.Getenv("RETRY_LONG") != "" {
		return long
	}
	return short
}

func TestHeapSorts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h heap
	var want []event
	for i := range 1500 {
		at, kind := int64(r.IntN(50)), r.Uint64N(6)
		h.push(at, kind, int32(i), 7)
		want = append(want, event{at, kind<<kindShift | uint64(i+1), int32(i), 7})
		if i%3 == 0 { // some leave before others come
			least := slices.MinFunc(want, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key)) })
			require.Equal(t, least, h.pop())
			want = slices.DeleteFunc(want, func(e event) bool { return e == least })
		}
	}
	slices.SortFunc(want, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key)) })
	for _, e := range want {
		require.Equal(t, e, h.pop())
	}
}

func TestRingKeepsOrderWhileItGrows(t *testing.T) {
	var r ring
	pushed, popped := 0, 0
	for step := range 1000 {
		for range step % 7 {
			r.push(entry{id: int32(pushed)})
			pushed++
		}
		for range min(r.n, step%5) {
			require.EqualValues(t, popped, r.pop().id)
			popped++
		}
	}
	assert.Equal(t, pushed-popped, r.n)
}

func TestHistogramIsExactTo3Percent(t *testing.T) {
	var h histogram
	assert.Zero(t, h.at(0.5))
	for d := int64(1); d < 1<<60; d = d*5/4 + 1 {
		h.reset()
		h.add(d)
		assert.InEpsilon(t, d, int64(h.at(0.99)), 0.03, d)
	}
	h.reset()
	for d := range int64(1000) {
		h.add(d * 1e6)
	}
	assert.InEpsilon(t, 500*time.Millisecond, h.at(0.5), 0.03)
	assert.InEpsilon(t, 990*time.Millisecond, h.at(0.99), 0.03)
}

// A simulated budget answers a million random questions as a retry.Budget does.
func TestBudgetIsARetryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		n, each := often(100_000, 1_000_000), 1000
		for range n / each {
			real := &retry.Budget{Size: 1 + r.IntN(5), Ratio: []float64{0, 0.1, 1.0 / 3, 1}[r.IntN(4)]}
			if r.IntN(2) == 0 {
				real.RefillEvery = time.Duration(1+r.IntN(20)) * time.Millisecond
			}
			b := newBudget(real, 3)
			start := time.Now()
			for range each {
				switch r.IntN(4) {
				case 0:
					real.Success()
					b.success(1)
				case 1:
					time.Sleep(time.Duration(r.IntN(10_000_000)))
				default:
					if want, got := real.Take(), b.take(1, int64(time.Since(start))); got != want {
						t.Fatalf("Take is %v, and %v in the simulation: %+v", want, got, b)
					}
				}
			}
		}
	})
}
