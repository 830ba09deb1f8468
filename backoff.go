package retry

import (
	"math"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Backoff is a curve of delays. Delay returns the time to wait after the failure of an
// attempt. The first attempt has number 1. Delay must be pure: the same attempt always gets
// the same delay, also if several goroutines call Delay at once. A [Policy] treats a negative
// delay as zero, and applies MaxDelay and Jitter itself.
//
// The curves of this package treat an attempt below 1 as 1. They return at once for every
// attempt, never return a negative delay, and return the longest duration instead of
// overflowing.
type Backoff interface {
	Delay(attempt int) time.Duration
}

// A BackoffFunc is a function as a [Backoff]. A nil BackoffFunc is no delay.
type BackoffFunc func(attempt int) time.Duration

// Delay calls f.
func (f BackoffFunc) Delay(attempt int) time.Duration {
	if f == nil {
		return 0
	}
	return f(attempt)
}

// Fixed is a constant delay: d, d, d. Zero or less is no delay.
type Fixed time.Duration

// Delay returns d for every attempt, or 0 if d is negative.
func (d Fixed) Delay(int) time.Duration { return max(0, time.Duration(d)) }

// Linear is a delay that grows by the same step each time: d, 2d, 3d. Zero or less is no
// delay.
type Linear time.Duration

// Delay returns attempt * d.
func (d Linear) Delay(attempt int) time.Duration {
	return saturate.Mul(uint64(max(1, attempt)), max(0, time.Duration(d)))
}

// Fibonacci is a delay that grows by the Fibonacci numbers: d, d, 2d, 3d, 5d, 8d. Zero or
// less is no delay.
type Fibonacci time.Duration

// Delay returns d times the Fibonacci number with this index.
func (d Fibonacci) Delay(attempt int) time.Duration {
	// The 93rd Fibonacci number is the first that overflows a duration.
	a, b := uint64(0), uint64(1)
	for range min(max(1, attempt), 93) - 1 {
		a, b = b, a+b
	}
	return saturate.Mul(b, max(0, time.Duration(d)))
}

// Exponential is a delay that is multiplied by Factor each time. A Base of 100ms with the
// default Factor gives 100ms, 200ms, 400ms, 800ms.
type Exponential struct {
	Base time.Duration // the first delay; zero or less is no delay

	// Factor is the growth from one attempt to the next. 0: 2. In a Policy, any other Factor
	// below 1, infinity and NaN are invalid. Elsewhere they are treated as 1.
	Factor float64
}

// Delay returns Base * Factor^(attempt-1), computed in float64 and truncated. The result
// differs from the exact value by at most 1ns plus the fraction attempt / 2^52 of the value.
// With a Factor of 2 and a Base of up to 100 days, the result is exact.
func (e Exponential) Delay(attempt int) time.Duration {
	if attempt <= 1 || e.Base <= 0 {
		return max(0, e.Base)
	}
	growth := power(e.factor(), uint64(attempt)-1)
	if growth == 1 {
		return e.Base // a float64 would round a Base beyond 104 days
	}
	return saturate.Float(float64(e.Base) * growth)
}

func (e Exponential) factor() float64 {
	switch {
	case e.Factor == 0:
		return 2
	case e.Factor >= 1 && e.Factor <= math.MaxFloat64:
		return e.Factor
	default:
		return 1
	}
}

// power returns x^n by squaring. It is used because the last bit of math.Pow differs between
// platforms, and a delay must be the same on all of them.
func power(x float64, n uint64) float64 {
	y := 1.0
	for ; n > 0 && y < math.MaxInt64; n >>= 1 {
		if n&1 == 1 {
			y *= x
		}
		x *= x
	}
	return y
}

// Schedule lists the delays one by one. After the end of the list, the last delay repeats.
// An empty Schedule is no delay. A negative entry is invalid in a Policy, and no delay
// elsewhere. Do not modify a Schedule that a Policy holds.
type Schedule []time.Duration

// Delay returns the entry for this attempt, or the last entry if the list is shorter.
func (s Schedule) Delay(attempt int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return max(0, s[min(max(1, attempt), len(s))-1])
}
