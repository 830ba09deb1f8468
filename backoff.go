package retry

import (
	"math"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Backoff is a curve of delays. Delay returns the time to wait after the given
// attempt has failed, the first being 1. It must be pure: the same attempt always
// gets the same delay, from any number of goroutines at once. [Policy] treats a
// negative delay as zero, and applies MaxDelay and Jitter itself.
//
// The curves of this package treat an attempt below 1 as 1, return at once for
// every attempt, never return a negative delay, and saturate at the longest
// duration instead of overflowing.
type Backoff interface {
	Delay(attempt int) time.Duration
}

// A BackoffFunc makes a function a [Backoff]. A nil one is no delay.
type BackoffFunc func(attempt int) time.Duration

// Delay calls f.
func (f BackoffFunc) Delay(attempt int) time.Duration {
	if f == nil {
		return 0
	}
	return f(attempt)
}

// Fixed is the same delay each time: d, d, d. Zero or less is no delay.
type Fixed time.Duration

// Delay returns d, whatever the attempt.
func (d Fixed) Delay(int) time.Duration { return max(0, time.Duration(d)) }

// Linear grows by the same step each time: d, 2d, 3d. Zero or less is no
// delay.
type Linear time.Duration

// Delay returns attempt * d.
func (d Linear) Delay(attempt int) time.Duration {
	return saturate.Mul(uint64(max(1, attempt)), max(0, time.Duration(d)))
}

// Fibonacci grows by the Fibonacci numbers: d, d, 2d, 3d, 5d, 8d. Zero or less
// is no delay.
type Fibonacci time.Duration

// Delay returns the attempt-th Fibonacci number, times d.
func (d Fibonacci) Delay(attempt int) time.Duration {
	// The 93rd number is the first that no duration holds.
	a, b := uint64(0), uint64(1)
	for range min(max(1, attempt), 93) - 1 {
		a, b = b, a+b
	}
	return saturate.Mul(b, max(0, time.Duration(d)))
}

// Exponential multiplies the delay by Factor each time: with a Base of 100ms
// 100ms, 200ms, 400ms, 800ms.
type Exponential struct {
	Base   time.Duration // the first delay; zero or less is no delay
	Factor float64       // growth per attempt, finite and at least 1, else treated as 1; 0: 2
}

// Delay returns Base * Factor^(attempt-1). It is computed in float64 and
// truncated. It differs from the exact value by at most 1ns and a share of
// attempt / 2^52; with a Factor of 2 and a Base of up to 100 days it is exact.
func (e Exponential) Delay(attempt int) time.Duration {
	if attempt <= 1 || e.Base <= 0 {
		return max(0, e.Base)
	}
	growth := power(e.factor(), uint64(attempt)-1)
	if growth == 1 {
		return e.Base // a float would round one beyond 104 days
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

// power returns x^n by squaring. math.Pow is not the same to the last bit on
// every platform, and a schedule can be computed again anywhere.
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

// Schedule lists the delays one by one. Past its end the last one repeats. An
// empty Schedule is no delay, and so is a negative entry. A Schedule must not be
// modified once a Policy holds it.
type Schedule []time.Duration

// Delay returns the attempt-th entry, or the last.
func (s Schedule) Delay(attempt int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return max(0, s[min(max(1, attempt), len(s))-1])
}
