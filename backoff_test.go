package retry_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

// boundaryInts are attempt numbers at which integer arithmetic may go wrong.
var boundaryInts = []int{
	math.MinInt, math.MinInt + 1, math.MinInt32, -1000, -2, -1, 0, 1, 2, 3, 4, 5, 10, 34, 53, 54, 62, 63, 64, 65, 91, 92, 93, 94,
	100, 1000, 1 << 20, math.MaxInt32 - 1, math.MaxInt32, math.MaxInt - 1, math.MaxInt,
}

// boundaryDurations are durations at which arithmetic may go wrong. From 2^53 on, a float64 cannot
// represent every whole number.
var boundaryDurations = []time.Duration{
	math.MinInt64, math.MinInt64 + 1, -time.Second, -1, 0, 1, 2, 3, 7, 1000, 333_333_333, time.Second, time.Hour,
	1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<62 - 1, 1 << 62, 1<<62 + 1, math.MaxInt64 - 1, math.MaxInt64,
}

// boundaryFactors are factors at which an Exponential may go wrong.
var boundaryFactors = []float64{
	0, math.Copysign(0, -1), 1, math.Nextafter(1, 2), math.Nextafter(1, 0), 1 + 1e-9, 1.000001, 1.1, 1.5, 1.7, 2, 2.5, 3, 10, 1e9, 1e18, 9.3e18, 1e300,
	math.MaxFloat64, math.SmallestNonzeroFloat64, .5, -1, -2, math.NaN(), math.Inf(1), math.Inf(-1),
}

// saturated returns x as a duration, or the longest duration if x exceeds it.
func saturated(x *big.Int) time.Duration {
	if !x.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(x.Int64())
}

// cut returns x as a duration, truncated to the nanosecond.
func cut(x *big.Float) time.Duration {
	if x.Cmp(big.NewFloat(math.MaxInt64)) >= 0 {
		return math.MaxInt64
	}
	d, _ := x.Int64()
	return time.Duration(d)
}

// plainLinear returns `attempt` * d. It treats an attempt below 1 as attempt 1.
func plainLinear(d time.Duration, attempt int) time.Duration {
	return saturated(new(big.Int).Mul(big.NewInt(int64(max(1, attempt))), big.NewInt(int64(max(0, d)))))
}

// plainFibonacci adds up the Fibonacci numbers until it has added as many of them as the parameter
// `attempt` says, or until the sum exceeds every duration.
func plainFibonacci(d time.Duration, attempt int) time.Duration {
	a, b := new(big.Int), big.NewInt(int64(max(0, d)))
	if b.Sign() == 0 {
		return 0
	}
	for i := 1; i < attempt && b.IsInt64(); i++ {
		a, b = b, new(big.Int).Add(a, b)
	}
	return saturated(b)
}

// plainSchedule finds the delay by walking through the list.
func plainSchedule(s []time.Duration, attempt int) (d time.Duration) {
	for i, entry := range s {
		if i == 0 || i < attempt {
			d = max(0, entry)
		}
	}
	return d
}

// plainExponential returns base * factor^(attempt-1) with 500 bits of
// precision, not rounded to a duration.
func plainExponential(base time.Duration, factor float64, attempt int) *big.Float {
	switch {
	case factor == 0:
		factor = 2
	case !(factor >= 1) || math.IsInf(factor, 0):
		factor = 1
	}
	d := new(big.Float).SetPrec(500).SetInt64(int64(max(0, base)))
	if d.Sign() == 0 {
		return d
	}
	return d.Mul(d, plainPower(factor, max(1, attempt)-1))
}

// plainPower returns x^n by repeated squaring.
func plainPower(x float64, n int) *big.Float {
	if n == 0 {
		return new(big.Float).SetPrec(500).SetInt64(1)
	}
	half := plainPower(x, n/2)
	y := new(big.Float).SetPrec(500).Mul(half, half)
	if n%2 == 1 {
		y.Mul(y, big.NewFloat(x))
	}
	return y
}

// assertExponential compares a delay with the exact delay. If the floats are exact, the delay
// must be the exact delay, truncated to the nanosecond. Otherwise the delay must be within the
// error bound of a product of floats.
//
// With or without squaring, factor^n costs n-1 roundings, each of at most 2^-53 of the result.
// Converting the base is one more rounding, and so is multiplying by the base. So there are as many
// roundings as attempts. The truncation to the nanosecond is added to this error. The bound is
// 2^-52 for each attempt. This is twice the sum of the roundings, because the errors of roundings
// multiply and do not add. The bound is useful up to attempt 2^40.
//
// From one attempt to the next, the exact curve grows by factor-1. The computed curve must grow too
// if factor-1 exceeds the roundings of both delays, 2*attempt times 2^-53. A delay saturates before
// attempt 44/ln(factor), so every curve with a factor above 1+1e-7 must grow at every attempt.
func assertExponential(t *testing.T, base time.Duration, factor float64, attempt int) {
	t.Helper()
	b := retry.Exponential{Base: base, Factor: factor}
	got := b.Delay(attempt)
	if got < 0 {
		t.Fatalf("%d * %v^(%d-1) is negative: %d", base, factor, attempt, got)
	}
	exact := plainExponential(base, factor, attempt)
	grows := factor == 0 || factor > 1 && !math.IsInf(factor, 0)
	if !grows || factor == 0 || factor > 1+1e-7 {
		assertGrows(t, b, attempt)
	}
	doubles := (factor == 0 || factor == 2) && base <= 1<<53
	if doubles || !grows || attempt <= 1 {
		if got != cut(exact) {
			t.Fatalf("%d * %v^(%d-1) = %d, want exactly %v", base, factor, attempt, got, exact)
		}
		return
	}
	if int64(attempt) > 1<<40 {
		return
	}
	if huge := new(big.Float).SetMantExp(big.NewFloat(1), 1000); exact.Cmp(huge) > 0 {
		exact = huge // adding 1 to a larger number takes forever, and adding 1 to infinity panics
	}
	bound := new(big.Float).SetPrec(500).SetMantExp(exact, -52)
	bound.Mul(bound, new(big.Float).SetInt64(int64(attempt)))
	bound.Add(bound, big.NewFloat(1))
	least, greatest := new(big.Float).Sub(exact, bound), new(big.Float).Add(exact, bound)
	if got < cut(least) || got > cut(greatest) {
		t.Fatalf("%d * %v^(%d-1) = %d, want %v within %v", base, factor, attempt, got, exact, bound)
	}
}

// assertGrows checks that the delay after an attempt is not longer than the delay after the next
// attempt.
func assertGrows(t *testing.T, b retry.Backoff, attempt int) {
	t.Helper()
	if attempt == math.MaxInt {
		attempt--
	}
	if now, next := b.Delay(attempt), b.Delay(attempt+1); now < 0 || next < now {
		t.Fatalf("%T(%v): %d after %d, and then %d", b, b, now, attempt, next)
	}
}

func TestCurves(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		name    string
		backoff retry.Backoff
		want    []time.Duration // the delays after attempts 0, 1, 2 and so on; attempt 0 is treated as 1
	}{
		{"fixed", retry.Fixed(s), []time.Duration{s, s, s}},
		{"linear", retry.Linear(s), []time.Duration{s, s, 2 * s, 3 * s}},
		{"fibonacci", retry.Fibonacci(s), []time.Duration{s, s, s, 2 * s, 3 * s, 5 * s, 8 * s, 13 * s}},
		{"exponential", retry.Exponential{Base: s, Factor: 3}, []time.Duration{s, s, 3 * s, 9 * s, 27 * s}},
		{"exponential, factor 0 is 2", retry.Exponential{Base: s}, []time.Duration{s, s, 2 * s, 4 * s, 8 * s}},
		{"exponential, truncated", retry.Exponential{Base: 8, Factor: 1.5}, []time.Duration{8, 8, 12, 18, 27, 40, 60}},
		{"schedule", retry.Schedule{s, 5 * s, 2 * s}, []time.Duration{s, s, 5 * s, 2 * s, 2 * s, 2 * s}},
		{"schedule with a zero", retry.Schedule{0, s}, []time.Duration{0, 0, s, s}},
		{"schedule with a negative entry", retry.Schedule{-s, s, -s}, []time.Duration{0, 0, s, 0, 0}},
		{"schedule, empty", retry.Schedule{}, []time.Duration{0, 0, 0}},
		{"schedule, nil", retry.Schedule(nil), []time.Duration{0, 0, 0}},
		{"func", retry.BackoffFunc(func(n int) time.Duration { return time.Duration(n) }), []time.Duration{0, 1, 2, 3}},
		{"func, nil", retry.BackoffFunc(nil), []time.Duration{0, 0, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for attempt, want := range row.want {
				assert.Equal(t, want, row.backoff.Delay(attempt), "after attempt %d", attempt)
			}
		})
	}
}

// assertCurves compares the whole-number curves with their exact values. A negative duration gives
// no delay. Delay must also return quickly for the largest attempt, where a loop over all attempts
// would take centuries.
func assertCurves(t *testing.T, d time.Duration, attempt int) {
	t.Helper()
	for _, curve := range []struct {
		backoff retry.Backoff
		want    time.Duration
	}{
		{retry.Fixed(d), max(0, d)},
		{retry.Linear(d), plainLinear(d, attempt)},
		{retry.Fibonacci(d), plainFibonacci(d, attempt)},
	} {
		if got := curve.backoff.Delay(attempt); got != curve.want {
			t.Fatalf("%T(%d) after %d: %d, want %d", curve.backoff, d, attempt, got, curve.want)
		}
		assertGrows(t, curve.backoff, attempt)
	}
	for _, s := range []retry.Schedule{nil, {d}, {d, 1, d}} {
		if got, want := s.Delay(attempt), plainSchedule(s, attempt); got != want {
			t.Fatalf("%v after %d: %d, want %d", s, attempt, got, want)
		}
	}
}

func TestCurvesAtTheBoundaries(t *testing.T) {
	for _, d := range boundaryDurations {
		for _, attempt := range boundaryInts {
			assertCurves(t, d, attempt)
			for _, factor := range boundaryFactors {
				assertExponential(t, d, factor, attempt)
			}
		}
	}
}

func FuzzCurves(f *testing.F) {
	for _, d := range boundaryDurations {
		f.Add(int64(d), int64(92)) // the test above covers the boundaries of both arguments
	}
	f.Fuzz(func(t *testing.T, d, attempt int64) { assertCurves(t, time.Duration(d), int(attempt)) })
}

func FuzzExponential(f *testing.F) {
	for _, factor := range boundaryFactors {
		f.Add(int64(time.Second), factor, int64(12))
		f.Add(int64(1<<53+1), factor, int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, base int64, factor float64, attempt int64) {
		assertExponential(t, time.Duration(base), factor, int(attempt))
	})
}

// Quadratic, the Backoff of the example, meets the contract of Backoff.
func TestExampleBackoffConforms(t *testing.T) {
	for _, d := range boundaryDurations {
		retrytest.TestBackoff(t, Quadratic(d))
	}
}
