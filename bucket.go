package retry

import "math"

// The arithmetic of a Budget. It counts retries in whole billionths, so that a thousand times
// a thousandth is one retry and no rounding errors add up. Package retrysim has the same
// arithmetic, and a test there compares both.
const (
	token      = 1_000_000_000         // one retry
	mostTokens = math.MaxInt64 / token // how many retries a Budget can hold
	decaySteps = 16                    // how often the surplus above Size decays in a Remember
)

// fullOf returns how many billionths a Budget of this Size holds when it is full.
func fullOf(size int) int64 { return min(max(0, int64(size)), mostTokens) * token }

// shareOf returns how many billionths a success puts back. NaN fails the comparison.
func shareOf(ratio float64) int64 {
	if ratio > 0 {
		return int64(math.Round(min(ratio, 1) * token))
	}
	return 0
}

// decayed returns the rest of a surplus after this many steps. Each step takes a 16th of the
// surplus, rounded up to a billionth.
func decayed(surplus, steps int64) int64 {
	for ; surplus > 0 && steps > 0; steps-- {
		surplus -= (surplus + decaySteps - 1) / decaySteps
	}
	return surplus
}
