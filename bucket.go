package retry

import "math"

// This file contains the arithmetic of a Budget. A Budget counts in billionths of a retry.
// These are whole numbers, so no rounding errors add up: a thousand times a thousandth is
// exactly one retry. Package retrysim has a copy of this arithmetic, and a test there compares
// its budget with a retry.Budget.
const (
	token      = 1_000_000_000         // a whole retry, in billionths of a retry
	mostTokens = math.MaxInt64 / token // the most retries that a Budget can hold
	decaySteps = 16                    // the surplus decays in this many steps during one Remember
)

// fullOf returns how many billionths of a retry a full Budget of this size holds.
func fullOf(size int) int64 { return min(max(0, int64(size)), mostTokens) * token }

// shareOf returns how many billionths of a retry a success puts back. It returns 0 for NaN,
// because NaN > 0 is false.
func shareOf(ratio float64) int64 {
	if ratio > 0 {
		return int64(math.Round(min(ratio, 1) * token))
	}
	return 0
}

// decayed returns how much of a surplus is left after this many steps of decay. Each step
// removes a 16th of the surplus, rounded up to a whole billionth.
func decayed(surplus, steps int64) int64 {
	for ; surplus > 0 && steps > 0; steps-- {
		surplus -= (surplus + decaySteps - 1) / decaySteps
	}
	return surplus
}
