// Package saturate does arithmetic on durations that stops at the longest
// duration where time.Duration itself would wrap around to a negative one.
package saturate

import (
	"math"
	"math/bits"
	"time"
)

// Max is the longest duration, about 292 years.
const Max = time.Duration(math.MaxInt64)

// Text returns a duration as text. The longest one, also if it was rounded, is what nobody wrote
// and no clock shows: it is "292 years".
func Text(d time.Duration) string {
	if d > Max-time.Second {
		return "292 years"
	}
	return d.String()
}

// Texts returns values with each duration among them, also in a list, as its [Text], to format them.
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

// Add returns a + b. Neither may be negative.
func Add(a, b time.Duration) time.Duration {
	if a > Max-b {
		return Max
	}
	return a + b
}

// Mul returns n * d. d may not be negative.
func Mul(n uint64, d time.Duration) time.Duration {
	hi, lo := bits.Mul64(n, uint64(d))
	if hi > 0 || lo > math.MaxInt64 {
		return Max
	}
	return time.Duration(lo)
}

// Float returns f nanoseconds, rounded toward zero. A negative f and NaN are
// zero, because the result of converting a float that is out of range differs
// between processors.
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
