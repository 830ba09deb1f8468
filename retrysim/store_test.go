package retrysim

import (
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goretry/retry"
)

// often returns how often something random is tried: more in .ci/soak.
func often(short, long int) int {
	if os.Getenv("RETRY_LONG") != "" {
		return long
	}
	return short
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
			b := newBudget(real)
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
