package retry_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	randv2 "math/rand/v2"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

// boundaryInts are attempt numbers at which integer arithmetic is likely to go
// wrong.
var boundaryInts = []int{
	math.MinInt, math.MinInt + 1, math.MinInt32, -1000, -2, -1, 0, 1, 2, 3, 4, 5, 10, 34, 53, 54, 62, 63, 64, 65, 91, 92, 93, 94,
	100, 1000, 1 << 20, math.MaxInt32 - 1, math.MaxInt32, math.MaxInt - 1, math.MaxInt,
}

// boundaryDurations are durations at which arithmetic is likely to go wrong.
// From 2^53 on, a float64 cannot represent every whole number.
var boundaryDurations = []time.Duration{
	math.MinInt64, math.MinInt64 + 1, -time.Second, -1, 0, 1, 2, 3, 7, 1000, 333_333_333, time.Second, time.Hour,
	1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<62 - 1, 1 << 62, 1<<62 + 1, math.MaxInt64 - 1, math.MaxInt64,
}

// boundaryFactors are factors at which an Exponential is likely to go wrong.
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

// ordinal returns attempt as the curves count it: a number below 1 is treated as 1.
func ordinal(attempt int) *big.Int { return big.NewInt(int64(max(1, attempt))) }

// plainLinear returns attempt * d.
func plainLinear(d time.Duration, attempt int) time.Duration {
	return saturated(new(big.Int).Mul(ordinal(attempt), big.NewInt(int64(max(0, d)))))
}

// plainFibonacci adds up the Fibonacci numbers until it reaches attempt, or
// until the sum exceeds every duration.
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

// plainSchedule walks through the list.
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

// assertExponential compares a delay with the exact one. Where the floats are
// exact, the delay must be the exact one truncated to the nanosecond; elsewhere
// it must be within the error bound of a product of floats.
//
// With or without squaring, factor^n costs n-1 roundings, each of at most 2^-53
// of the result. Converting the base and multiplying by it cost two more, which
// makes as many roundings as attempts. The truncation to the nanosecond comes
// on top. The bound is 2^-52 for each attempt. That is twice the sum of the
// roundings, because roundings multiply rather than add; it covers them up to
// attempt 2^40, beyond which it would not bound anything.
//
// The curve must keep growing wherever its growth from one attempt to the next,
// factor-1, exceeds the roundings of both, 2*attempt times 2^-53. A delay
// saturates before attempt 44/ln(factor), so this holds at every attempt for
// every factor above 1+1e-7.
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
		exact = huge // adding 1 to more than this takes forever, and to infinity it panics
	}
	bound := new(big.Float).SetPrec(500).SetMantExp(exact, -52)
	bound.Mul(bound, new(big.Float).SetInt64(int64(attempt)))
	bound.Add(bound, big.NewFloat(1))
	least, greatest := new(big.Float).Sub(exact, bound), new(big.Float).Add(exact, bound)
	if got < cut(least) || got > cut(greatest) {
		t.Fatalf("%d * %v^(%d-1) = %d, want %v within %v", base, factor, attempt, got, exact, bound)
	}
}

// assertGrows checks that a curve does not decrease from an attempt to the next
// one.
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
	const s, longest = time.Second, time.Duration(math.MaxInt64)
	for _, row := range []struct {
		name    string
		backoff retry.Backoff
		from    int
		want    []time.Duration
	}{
		{"fixed", retry.Fixed(s), 1, []time.Duration{s, s, s}},
		{"linear", retry.Linear(s), 1, []time.Duration{s, 2 * s, 3 * s, 4 * s}},
		{"fibonacci", retry.Fibonacci(s), 1, []time.Duration{s, s, 2 * s, 3 * s, 5 * s, 8 * s, 13 * s, 21 * s}},
		{"exponential", retry.Exponential{Base: s, Factor: 3}, 1, []time.Duration{s, 3 * s, 9 * s, 27 * s}},
		{"exponential, factor 0 is 2", retry.Exponential{Base: s}, 1, []time.Duration{s, 2 * s, 4 * s, 8 * s}},
		{"exponential, factor 1", retry.Exponential{Base: s, Factor: 1}, 1, []time.Duration{s, s, s}},
		{"exponential, factor 1.5", retry.Exponential{Base: 8, Factor: 1.5}, 1, []time.Duration{8, 12, 18, 27, 40, 60}},
		{"exponential, factor 1, beyond the whole numbers of a float", retry.Exponential{Base: 1<<53 + 1, Factor: 1}, 1, []time.Duration{1<<53 + 1, 1<<53 + 1}},
		{"exponential, an invalid factor is treated as 1", retry.Exponential{Base: s, Factor: .5}, 1, []time.Duration{s, s, s}},
		{"exponential, NaN is treated as 1", retry.Exponential{Base: s, Factor: math.NaN()}, 1, []time.Duration{s, s, s}},
		{"exponential, infinity is treated as 1", retry.Exponential{Base: s, Factor: math.Inf(1)}, 1, []time.Duration{s, s, s}},
		{"schedule", retry.Schedule{s, 5 * s, 2 * s}, 1, []time.Duration{s, 5 * s, 2 * s, 2 * s, 2 * s}},
		{"schedule of one", retry.Schedule{s}, 1, []time.Duration{s, s}},
		{"schedule with a zero in the middle", retry.Schedule{0, s}, 1, []time.Duration{0, s, s}},
		{"schedule with a negative entry", retry.Schedule{-s, s, -s}, 1, []time.Duration{0, s, 0, 0}},
		{"schedule, empty", retry.Schedule{}, 1, []time.Duration{0, 0}},
		{"schedule, nil", retry.Schedule(nil), 1, []time.Duration{0, 0}},
		{"func", retry.BackoffFunc(func(n int) time.Duration { return time.Duration(n) }), 1, []time.Duration{1, 2, 3}},
		{"func, nil", retry.BackoffFunc(nil), 1, []time.Duration{0, 0}},

		{"fixed, attempts below 1", retry.Fixed(s), -1, []time.Duration{s, s, s}},
		{"linear, attempts below 1", retry.Linear(s), -1, []time.Duration{s, s, s, 2 * s}},
		{"fibonacci, attempts below 1", retry.Fibonacci(s), -1, []time.Duration{s, s, s, s, 2 * s}},
		{"exponential, attempts below 1", retry.Exponential{Base: s}, -1, []time.Duration{s, s, s, 2 * s}},
		{"schedule, attempts below 1", retry.Schedule{s, 2 * s}, -1, []time.Duration{s, s, s, 2 * s}},

		{"linear saturates", retry.Linear(longest/3 + 1), 1, []time.Duration{longest/3 + 1, longest/3*2 + 2, longest, longest}},
		{"fibonacci, the last number that a duration holds", retry.Fibonacci(1), 91, []time.Duration{4660046610375530309, 7540113804746346429, longest, longest}},
		{"exponential, the last power that a duration holds", retry.Exponential{Base: 1}, 62, []time.Duration{1 << 61, 1 << 62, longest, longest}},
		{"exponential saturates at once", retry.Exponential{Base: 1, Factor: 1e300}, 1, []time.Duration{1, longest, longest}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for i, want := range row.want {
				assert.Equal(t, want, row.backoff.Delay(row.from+i), "after attempt %d", row.from+i)
			}
		})
	}
}

// A negative duration in a curve means no delay, even without a Policy around
// it.
func TestCurvesAreNeverNegative(t *testing.T) {
	for _, d := range []time.Duration{0, -1, -time.Hour, math.MinInt64} {
		for _, b := range []retry.Backoff{
			retry.Fixed(d), retry.Linear(d), retry.Fibonacci(d), retry.Exponential{Base: d}, retry.Exponential{Base: d, Factor: -2}, retry.Schedule{d},
		} {
			for _, attempt := range boundaryInts {
				assert.Zero(t, b.Delay(attempt), "%T(%v) after %d", b, b, attempt)
			}
		}
	}
}

// A loop over all attempts would take centuries.
func TestCurvesReturnAtOnceAtTheGreatestAttempt(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	ofMaxInt := plainLinear(1, math.MaxInt) // on a 32-bit platform about two seconds
	for _, row := range []struct {
		backoff retry.Backoff
		want    time.Duration
	}{
		{retry.Fixed(1), 1},
		{retry.Linear(1), ofMaxInt},
		{retry.Linear(1 << 40), longest},
		{retry.Fibonacci(1), longest},
		{retry.Exponential{Base: 1, Factor: 1}, 1},
		{retry.Exponential{Base: 1}, longest},
		{retry.Exponential{Base: 1, Factor: 1.0001}, longest},
		{retry.Exponential{Base: 1, Factor: math.MaxFloat64}, longest},
		{retry.Schedule{1, 2}, 2},
	} {
		t.Run(fmt.Sprintf("%T %v", row.backoff, row.backoff), func(t *testing.T) {
			assert.Equal(t, row.want, row.backoff.Delay(math.MaxInt))
			assert.Equal(t, row.backoff.Delay(1), row.backoff.Delay(math.MinInt), "the least attempt is treated as the first")
		})
	}
}

// assertCurves checks that the whole-number curves return exactly what they
// should.
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

func FuzzFixedLinearFibonacci(f *testing.F) {
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, time.Second, 1<<53 + 1, math.MaxInt64} {
		for _, attempt := range []int64{math.MinInt64, 0, 1, 2, 91, 92, 93, 1 << 31, math.MaxInt64} {
			f.Add(int64(d), attempt)
		}
	}
	f.Fuzz(func(t *testing.T, d, attempt int64) { assertCurves(t, time.Duration(d), int(attempt)) })
}

func FuzzSchedule(f *testing.F) {
	for _, attempt := range boundaryInts {
		f.Add([]byte{}, int64(attempt))
		var all []byte
		for _, d := range boundaryDurations {
			all = binary.BigEndian.AppendUint64(all, uint64(d))
		}
		f.Add(all, int64(attempt))
		f.Add(all[:8], int64(attempt))
		f.Add(all[8*10:], int64(attempt))
	}
	f.Fuzz(func(t *testing.T, entries []byte, attempt int64) {
		var s retry.Schedule
		for ; len(entries) >= 8; entries = entries[8:] {
			s = append(s, time.Duration(binary.BigEndian.Uint64(entries)))
		}
		if got, want := s.Delay(int(attempt)), plainSchedule(s, int(attempt)); got != want {
			t.Fatalf("%v after %d: %d, want %d", s, attempt, got, want)
		}
	})
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

func FuzzExponentialIsThatOfCenkalti(f *testing.F) {
	for _, factor := range boundaryFactors {
		f.Add(int64(time.Second), factor)
	}
	f.Fuzz(func(t *testing.T, base int64, factor float64) {
		if base > 0 && factor >= 1 && factor <= 1e18 {
			assertLikeCenkalti(t, time.Duration(base), factor, 70)
		}
	})
}

// assertLikeCenkalti compares the first delays with those of cenkalti/backoff
// with a RandomizationFactor of 0.
//
// cenkalti truncates each delay to the nanosecond before it multiplies the next
// one. So it falls behind by less than 1 + factor + ... + factor^(n-2) =
// (factor^(n-1) - 1) / (factor - 1) nanoseconds. It also converts and
// multiplies at every step, which is two roundings each. With a factor of 2
// only the base is rounded and nothing is truncated, so both give the same
// delays.
func assertLikeCenkalti(t *testing.T, base time.Duration, factor float64, attempts int) {
	t.Helper()
	theirs := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(base), backoff.WithMultiplier(factor), backoff.WithRandomizationFactor(0),
		backoff.WithMaxInterval(math.MaxInt64), backoff.WithMaxElapsedTime(0),
	)
	ours := retry.Exponential{Base: base, Factor: factor}
	for attempt := 1; attempt <= attempts; attempt++ {
		a, b := ours.Delay(attempt), theirs.NextBackOff()
		power, _ := plainPower(factor, attempt-1).Float64()
		rounded := float64(base)*power*float64(attempt)*0x1p-50 + 1
		switch {
		case b < 0:
			return // it overflowed
		case b == math.MaxInt64:
			if float64(a) < math.MaxInt64-rounded {
				t.Fatalf("%d * %v^(%d-1) = %d, and cenkalti's is at its maximum", base, factor, attempt, a)
			}
			return
		case factor == 2 && a != b:
			t.Fatalf("%d * 2^(%d-1) = %d, and cenkalti's is %d", base, attempt, a, b)
		}
		cut := 0.0
		if factor > 1 {
			cut = (power - 1) / (factor - 1)
		}
		if behind := float64(a - b); behind < -rounded || behind > rounded+cut {
			t.Fatalf("%d * %v^(%d-1) = %d, and cenkalti's is %d, %v less; up to %v are explained", base, factor, attempt, a, b, behind, rounded+cut)
		}
	}
}

func TestExponentialIsThatOfCenkalti(t *testing.T) {
	random := randv2.New(randv2.NewPCG(3, 4))
	for _, base := range []time.Duration{1, 7, 999, time.Microsecond, 100 * time.Millisecond, 333_333_333, time.Second, time.Hour, 1<<53 + 1, 1<<62 + 1} {
		for _, factor := range []float64{1, 1.001, 1.1, 1.5, 1.7, 2, 2.5, 3, 10, 1000} {
			assertLikeCenkalti(t, base, factor, 1000)
		}
		for range 20 {
			assertLikeCenkalti(t, base+time.Duration(random.Int64N(int64(base))), 1+random.ExpFloat64(), 1000)
		}
	}
}

// In some other libraries, growth without a cap overflows to a negative delay,
// then to none, and the loop runs hot.
func TestTrapGrowthWithoutACap(t *testing.T) {
	for _, b := range []retry.Backoff{
		retry.Exponential{Base: time.Second}, retry.Exponential{Base: time.Hour}, retry.Exponential{Base: time.Second, Factor: 1.5},
		retry.Exponential{Base: 1, Factor: 1e9}, retry.Linear(math.MaxInt64 / 40), retry.Fibonacci(time.Hour),
	} {
		p := retry.Policy{MaxAttempts: 1_000_000, Backoff: b}
		last := time.Duration(1)
		for attempt := 1; attempt <= 2000; attempt++ {
			next := p.Next(retry.Attempt{Number: attempt})
			require.True(t, next.Retry())
			require.GreaterOrEqual(t, next.Delay, last, "%T %v after %d", b, b, attempt)
			last = next.Delay
		}
		assert.Equal(t, time.Duration(math.MaxInt64), last)
	}
}

// In some other libraries, unlimited retries with an empty schedule, a negative
// constant or forty doublings of one second panic or get a negative delay.
func TestTrapSchedulesWithoutDelays(t *testing.T) {
	boom := errors.New("boom")
	for _, p := range []retry.Policy{
		{MaxAttempts: 41, Backoff: retry.Schedule{}},
		{MaxAttempts: retry.Unlimited, Budget: &retry.Budget{Size: 1}, Backoff: retry.Schedule{}},
		{MaxAttempts: 41, Backoff: retry.Exponential{Base: time.Second}},
	} {
		for attempt := 1; attempt <= 40; attempt++ {
			next := p.Next(retry.Attempt{Number: attempt, Err: boom})
			assert.True(t, next.Retry(), "after %d", attempt)
			assert.GreaterOrEqual(t, next.Delay, time.Duration(0), "after %d", attempt)
		}
	}
	assert.ErrorContains(t, retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Schedule{}}.Validate(), "unlimited attempts without a delay")
	assert.ErrorContains(t, retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(-1)}.Validate(), "Fixed is -1ns")
}

// The example's Backoff meets the contract of Backoff.
func TestExampleBackoffConforms(t *testing.T) {
	for _, d := range boundaryDurations {
		retrytest.TestBackoff(t, Quadratic(d))
	}
}
