package retry_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrytest"
)

func TestJitterWindows(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	type window = fixedWindow
	for _, row := range []struct {
		name   string
		jitter retry.Jitter
		d      time.Duration
		want   window
	}{
		{"equal, an odd delay", retry.EqualJitter, 7, window{3, 7}},
		{"neither", retry.EqualJitter + 1, time.Second, window{time.Second, time.Second}},
		{"20 %", retry.Proportional(.2), time.Second, window{800 * time.Millisecond, 1200 * time.Millisecond}},
		{"20 % of 4ns", retry.Proportional(.2), 4, window{4, 4}},
		{"20 % of 5ns", retry.Proportional(.2), 5, window{4, 6}},
		{"50 %, the longest delay", retry.Proportional(.5), longest, window{longest - 1<<62, longest}},
		{"below 0 is treated as 0", retry.Proportional(-.5), time.Second, window{time.Second, time.Second}},
		{"above 1 is treated as 1", retry.Proportional(3), time.Second, window{0, 2 * time.Second}},
		{"NaN is treated as 0", retry.Proportional(math.NaN()), time.Second, window{time.Second, time.Second}},
	} {
		t.Run(row.name, func(t *testing.T) {
			lo, hi := row.jitter.Window(row.d)
			assert.Equal(t, row.want, window{lo, hi})
		})
	}
	assert.Equal(t, "Spread(3)", (retry.EqualJitter + 1).String(), "it is invalid")
}

// The zero Spread is valid and means no jitter.
func TestJitterZeroSpread(t *testing.T) {
	p := retry.Policy{MaxAttempts: 2, Backoff: retry.Fixed(time.Second), Jitter: retry.Spread(0)}
	require.NoError(t, p.Validate())
	d := p.Next(retry.Attempt{Number: 1, Seed: 7})
	assert.Equal(t, [2]time.Duration{time.Second, time.Second}, [2]time.Duration{d.Lo, d.Hi})
	assert.Equal(t, "none", retry.Spread(0).String())
	assert.Equal(t, "2 attempts, fixed 1s", p.String())

	text, err := p.MarshalJSON()
	require.NoError(t, err)
	read := retry.Default() // Default has a jitter
	require.NoError(t, read.UnmarshalJSON(text))
	assert.Equal(t, retry.Proportional(0), read.Jitter)
}

// assertWindows compares each jitter's window with a window computed in big numbers. Full and equal
// jitter are exact. The half width of a proportional window is a product of two floats. The
// conversion of the delay rounds by at most 2^-53 of the result, and so does the multiplication.
// Then the product is truncated to the nanosecond. So the error is at most 2^-52 of the delay, plus
// 1ns.
func assertWindows(t *testing.T, delay time.Duration, share float64) {
	t.Helper()
	d := max(0, delay)
	if lo, hi := retry.FullJitter.Window(delay); lo != 0 || hi != d {
		t.Fatalf("full jitter of %d: %d to %d", delay, lo, hi)
	}
	if lo, hi := retry.EqualJitter.Window(delay); lo != d/2 || hi != d {
		t.Fatalf("equal jitter of %d: %d to %d", delay, lo, hi)
	}

	lo, hi := retry.Proportional(share).Window(delay)
	sound := 0.0
	if share > 0 {
		sound = min(share, 1)
	}
	width := new(big.Float).SetPrec(200).SetInt64(int64(d))
	width.Mul(width, big.NewFloat(sound))
	bound := new(big.Float).SetMantExp(width, -52)
	bound.Add(bound, big.NewFloat(1))
	off := new(big.Float).SetPrec(200).SetInt64(int64(d - lo))
	off.Sub(off, width)
	if lo < 0 || lo > d || off.Abs(off).Cmp(bound) > 0 {
		t.Fatalf("%v of %d: lo = %d, which is off by %v ns", share, delay, lo, off)
	}
	if center := big.NewInt(int64(d)); saturated(center.Add(center, big.NewInt(int64(d-lo)))) != hi {
		t.Fatalf("%v of %d: %d to %d is not centered", share, delay, lo, hi)
	}
}

var boundaryShares = []float64{
	0, .1, .2, 1. / 3, .5, .999, 1, 3, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, math.MaxFloat64,
}

func TestJitterWindowsAtTheBoundaries(t *testing.T) {
	for _, d := range boundaryDurations {
		for _, share := range boundaryShares {
			assertWindows(t, d, share)
		}
	}
}

func FuzzJitter(f *testing.F) {
	for _, share := range boundaryShares {
		f.Add(int64(time.Second), share)
	}
	f.Fuzz(func(t *testing.T, d int64, share float64) { assertWindows(t, time.Duration(d), share) })
}

// Extra, the Jitter of the example, meets the contract of Jitter.
func TestExampleJitterConforms(t *testing.T) {
	for _, d := range boundaryDurations {
		retrytest.TestJitter(t, Extra(d))
	}
}
