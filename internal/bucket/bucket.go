// Package bucket is the arithmetic of a retry.Budget, which retrysim simulates too.
// Shares are counted in whole billionths, so that a thousand times a thousandth is one,
// and no rounding drifts.
package bucket

import "math"

const (
	Token = 1_000_000_000         // one retry
	Most  = math.MaxInt64 / Token // retries that a Budget can hold
	Fades = 16                    // how often what is beyond Size fades in a Remember
)

// Full returns what a Budget of this Size holds when full.
func Full(size int) int64 { return min(max(0, int64(size)), Most) * Token }

// Share returns what a success puts back. NaN fails the comparison.
func Share(ratio float64) int64 {
	if ratio > 0 {
		return int64(math.Round(min(ratio, 1) * Token))
	}
	return 0
}

// Faded returns what is left of what is beyond Size when it has faded so many times,
// each time by a 16th, and by a billionth at least.
func Faded(beyond, times int64) int64 {
	for ; beyond > 0 && times > 0; times-- {
		beyond -= (beyond + Fades - 1) / Fades
	}
	return beyond
}
