// Package saturate does arithmetic on durations. If a result overflows, it is the longest
// duration, where time.Duration itself would become negative.
package saturate

import (
	"math"
	"math/bits"
	"time"
)

// Max is the longest duration, about 292 years.
const Max = time.Duration(math.MaxInt64)

// Text returns a duration as text. It returns "292 years" for the longest duration, also if that
// was rounded, because only an overflow has that result.
func Text(d time.Duration) string {
	if d > Max-time.Second {
		return "292 years"
	}
	return d.String()
}

// Texts replaces each duration in values, and each list of durations, by its [Text], for fmt. It
// changes values and returns it.
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
