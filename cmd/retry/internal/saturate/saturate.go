// Package saturate adds and multiplies durations. If a result would overflow, the functions
// return the longest duration.
package saturate

import (
	"math"
	"math/bits"
	"time"
)

// Max is the longest duration, about 292 years.
const Max = time.Duration(math.MaxInt64)

// Text returns a duration as text. The longest duration, about 292 years, may be the result of an
// overflow and not exact. So its text is only "292 years", without smaller units. A duration within
// a second of the longest duration has the same text, because it may be an overflow that was
// rounded.
func Text(d time.Duration) string {
	if d > Max-time.Second {
		return "292 years"
	}
	return d.String()
}

// Texts replaces each duration in the slice `values` by its [Text], and each list of durations by a
// list of their texts. It returns the same slice.
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

// Add returns a + b, or [Max] if the sum overflows. Neither a nor b may be negative.
func Add(a, b time.Duration) time.Duration {
	if a > Max-b {
		return Max
	}
	return a + b
}

// Mul returns n * d, or [Max] if the product overflows. The duration d must not be negative.
func Mul(n uint64, d time.Duration) time.Duration {
	hi, lo := bits.Mul64(n, uint64(d))
	if hi > 0 || lo > math.MaxInt64 {
		return Max
	}
	return time.Duration(lo)
}

// Float returns f nanoseconds, rounded toward zero. It returns [Max] if f is too large for a
// duration. It returns 0 if f is negative or NaN. A conversion in Go is not enough, because its
// result depends on the processor if f is out of range.
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
