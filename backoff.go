package retry

import (
	"math"
	"time"

	"github.com/goretry/retry/internal/saturate"
)

// A Backoff is a curve of delays. Delay returns how long to wait after an attempt has failed. The
// first attempt has number 1. Delay must be pure: it must always return the same delay for the same
// attempt, even if several goroutines call it at once. A [Policy] treats a negative delay as zero.
// The Policy applies MaxDelay and Jitter, so a Backoff does not need to apply them.
//
// The curves of this package treat an attempt below 1 as attempt 1. They compute a delay
// quickly, even for the largest attempt. They never return a negative delay. If a delay would
// overflow, they return the longest duration.
type Backoff interface {
	Delay(attempt int) time.Duration
}

// A BackoffFunc turns a function into a [Backoff]. A nil BackoffFunc gives no delay.
type BackoffFunc func(attempt int) time.Duration

// Delay returns f(attempt). If f is nil, it returns 0.
func (f BackoffFunc) Delay(attempt int) time.Duration {
	if f == nil {
		return 0
	}
	return f(attempt)
}

// Fixed is a Backoff with a constant delay. Fixed(time.Second) gives 1s, 1s, 1s. A value of
// zero or less gives no delay.
type Fixed time.Duration

// Delay returns d for every attempt, or 0 if d is negative.
func (d Fixed) Delay(int) time.Duration { return max(0, time.Duration(d)) }

// Linear is a Backoff whose delay grows by the same step each time. Linear(time.Second) gives
// 1s, 2s, 3s. A value of zero or less gives no delay.
type Linear time.Duration

// Delay returns `attempt` * d, or 0 if d is negative.
func (d Linear) Delay(attempt int) time.Duration {
	return saturate.Mul(uint64(max(1, attempt)), max(0, time.Duration(d)))
}

// Fibonacci is a Backoff whose delay grows like the Fibonacci numbers. Fibonacci(time.Second)
// gives 1s, 1s, 2s, 3s, 5s, 8s. A value of zero or less gives no delay.
type Fibonacci time.Duration

// Delay returns F(attempt) * d, where F(1) and F(2) are 1. It returns 0 if d is negative.
func (d Fibonacci) Delay(attempt int) time.Duration {
	// The Fibonacci numbers from the 93rd on do not fit into a duration.
	a, b := uint64(0), uint64(1)
	for range min(max(1, attempt), 93) - 1 {
		a, b = b, a+b
	}
	return saturate.Mul(b, max(0, time.Duration(d)))
}

// Exponential is a Backoff whose delay is multiplied by Factor each time. A Base of 100ms with
// the default Factor gives 100ms, 200ms, 400ms, 800ms.
type Exponential struct {
	Base time.Duration // the first delay; zero or less gives no delay

	// Factor is the ratio of a delay to the delay before it. If it is 0, the ratio is 2. In a
	// Policy, any other Factor below 1 is invalid, and so are infinity and NaN. Outside of a
	// Policy, an invalid Factor is treated as 1.
	Factor float64
}

// Delay returns Base * Factor^(attempt-1), computed in float64 and rounded down to whole
// nanoseconds. If v is the exact value, the result is at most 1ns + v * `attempt` / 2^52 away from
// v. With a Factor of 2 and a Base of up to 100 days, the result is exact. If v is longer than
// the longest duration, the result is the longest duration.
func (e Exponential) Delay(attempt int) time.Duration {
	if attempt <= 1 || e.Base <= 0 {
		return max(0, e.Base)
	}
	growth := power(e.factor(), uint64(attempt)-1)
	if growth == 1 {
		return e.Base // a float64 would round a Base of more than 104 days
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

// power returns x^n by squaring. It does not use math.Pow, because the last bit of math.Pow
// differs between platforms. A delay must be the same on all platforms.
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

// Schedule is a Backoff that lists its delays: the first delay follows attempt 1, the second
// delay follows attempt 2. After the end of the list, the last delay repeats. An empty Schedule
// gives no delay. In a Policy, a negative delay is invalid. Outside of a Policy, a negative
// delay is treated as 0. Do not modify a Schedule while a Policy holds it.
type Schedule []time.Duration

// Delay returns s[attempt-1], or the last delay of s if `attempt` is above len(s). It returns 0 if
// s is empty or if the delay is negative.
func (s Schedule) Delay(attempt int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	return max(0, s[min(max(1, attempt), len(s))-1])
}
