package retry

import "math"

// The arithmetic of a Budget. Shares are counted in whole billionths, so that a thousand times a
// thousandth is one, and no rounding drifts. Package retrysim has the same arithmetic, and a
// test there that compares the two.
const (
	token      = 1_000_000_000         // one retry
	mostTokens = math.MaxInt64 / token // retries that a Budget can hold
	fadesEach  = 16                    // how often what is beyond Size fades in a Remember
)

// fullOf returns what a Budget of this Size holds when full.
func fullOf(size int) int64 { return min(max(0, int64(size)), mostTokens) * token }

// shareOf returns what a success puts back. NaN fails the comparison.
func shareOf(ratio float64) int64 {
	if ratio > 0 {
		return int64(math.Round(min(ratio, 1) * token))
	}
	return 0
}

// faded returns what is left of what is beyond Size when it has faded so many times,
// each time by a 16th, and by a billionth at least.
func faded(beyond, times int64) int64 {
	for ; beyond > 0 && times > 0; times-- {
		beyond -= (beyond + fadesEach - 1) / fadesEach
	}
	return beyond
}
