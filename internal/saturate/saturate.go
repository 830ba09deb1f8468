// Package saturate computes with durations. If a result would overflow, the functions return the
// longest duration. The operators of Go would wrap around, for example to a negative duration.
package saturate

import (
	"math"
	"math/bits"
	"time"
)

// Max is the longest duration, about 292 years.
const Max = time.Duration(math.MaxInt64)

// Text returns a duration as text. For the longest duration, and for durations that are less than a
// second shorter, it returns "292 years". Such a duration can only come from an overflow. If it is
// less than Max, it was rounded after the overflow.
func Text(d time.Duration) string {
	if d > Max-time.Second {
		return "292 years"
	}
	return d.String()
}

// Texts replaces each duration in the list `values`, and each duration in a list inside it, by the
// result of [Text], so that the list can be passed to fmt. Texts changes the list itself, and
// returns it.
func Texts(values []any) []any {
	for i, value := range values {
		switch d := value.(type) {
		case time.Duration:
			values[i] = Text(d)
		case []time.Duration:
			texts := make([]string, len(d))
			for j := range d {
				texts[j] = Text(d[j])
			}
			values[i] = texts
		}
	}
	return values
}

// Add returns a + b, or Max if the sum would overflow. Neither a nor b may be negative.
func Add(a, b time.Duration) time.Duration {
	if a > Max-b {
		return Max
	}
	return a + b
}

// Mul returns n * d, or Max if the product would overflow. d may not be negative.
func Mul(n uint64, d time.Duration) time.Duration {
	hi, lo := bits.Mul64(n, uint64(d))
	if hi > 0 || lo > math.MaxInt64 {
		return Max
	}
	return time.Duration(lo)
}

// Float returns f nanoseconds, rounded toward zero. It returns Max if f is too large for a
// duration, and 0 if f is negative or NaN. Float is needed because the result of a plain conversion
// differs between processors if the float is out of range.
func Float(f float64) time.Duration {
	switch {
	case f >= math.MaxInt64:
		return Max
	case f > 0:
		return time.Duration(f)
	default:
		return 0
	}
}
