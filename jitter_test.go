package retry_test

import (
	"errors"
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
		{"full", retry.FullJitter, time.Second, window{0, time.Second}},
		{"full of 0", retry.FullJitter, 0, window{0, 0}},
		{"full of 1", retry.FullJitter, 1, window{0, 1}},
		{"full, the longest delay", retry.FullJitter, longest, window{0, longest}},
		{"full, a negative delay", retry.FullJitter, -time.Second, window{0, 0}},
		{"equal", retry.EqualJitter, time.Second, window{time.Second / 2, time.Second}},
		{"equal, an odd delay", retry.EqualJitter, 7, window{3, 7}},
		{"equal of 1", retry.EqualJitter, 1, window{0, 1}},
		{"equal, the longest delay", retry.EqualJitter, longest, window{longest / 2, longest}},
		{"equal, a negative delay", retry.EqualJitter, math.MinInt64, window{0, 0}},
		{"neither", retry.EqualJitter + 1, time.Second, window{time.Second, time.Second}},
		{"20 %", retry.Proportional(.2), time.Second, window{800 * time.Millisecond, 1200 * time.Millisecond}},
		{"20 % of 4ns", retry.Proportional(.2), 4, window{4, 4}},
		{"20 % of 5ns", retry.Proportional(.2), 5, window{4, 6}},
		{"0 %", retry.Proportional(0), time.Second, window{time.Second, time.Second}},
		{"100 %", retry.Proportional(1), time.Second, window{0, 2 * time.Second}},
		{"100 %, the longest delay", retry.Proportional(1), longest, window{0, longest}},
		{"50 %, the longest delay", retry.Proportional(.5), longest, window{longest - 1<<62, longest}},
		{"20 % of a negative", retry.Proportional(.2), -time.Second, window{0, 0}},
		{"20 %, the most negative delay", retry.Proportional(.2), math.MinInt64, window{0, 0}},
		{"below 0 is treated as 0", retry.Proportional(-.5), time.Second, window{time.Second, time.Second}},
		{"above 1 is treated as 1", retry.Proportional(3), time.Second, window{0, 2 * time.Second}},
		{"infinity is treated as 1", retry.Proportional(math.Inf(1)), time.Second, window{0, 2 * time.Second}},
		{"infinity of 0", retry.Proportional(math.Inf(1)), 0, window{0, 0}},
		{"minus infinity is treated as 0", retry.Proportional(math.Inf(-1)), time.Second, window{time.Second, time.Second}},
		{"NaN is treated as 0", retry.Proportional(math.NaN()), time.Second, window{time.Second, time.Second}},
	} {
		t.Run(row.name, func(t *testing.T) {
			lo, hi := row.jitter.Window(row.d)
			assert.Equal(t, row.want, window{lo, hi})
		})
	}
}

// assertWindows compares each jitter's window with one computed in big numbers.
// Full and equal jitter are exact. The half width of a proportional one is a
// product of two floats: converting the delay and multiplying round once each,
// by at most 2^-53 of the result, and the product is truncated to the
// nanosecond. The bound is 2^-52 and 1ns in all.
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
		f.Add(int64(math.MaxInt64), share)
	}
	f.Fuzz(func(t *testing.T, d int64, share float64) { assertWindows(t, time.Duration(d), share) })
}

// The steps of a delay are curve, cap, jitter window within the cap, hint, and
// one draw, in this order.
func TestOrderOfTheDelay(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		name     string
		policy   retry.Policy
		hint     time.Duration
		least    time.Duration
		greatest time.Duration
	}{
		{"nothing", retry.Policy{}, 0, 0, 0},
		{"curve", retry.Policy{Backoff: retry.Fixed(10 * s)}, 0, 10 * s, 10 * s},
		{"cap above the curve", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 20 * s}, 0, 10 * s, 10 * s},
		{"cap below the curve", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 4 * s}, 0, 4 * s, 4 * s},
		{"the window is that of the capped delay", retry.Policy{Backoff: retry.Fixed(100 * s), MaxDelay: 10 * s, Jitter: retry.FullJitter}, 0, 0, 10 * s},
		{"equal likewise", retry.Policy{Backoff: retry.Fixed(100 * s), MaxDelay: 10 * s, Jitter: retry.EqualJitter}, 0, 5 * s, 10 * s},
		{"proportional, the window of the capped delay, cut to the cap", retry.Policy{Backoff: retry.Fixed(100 * s), MaxDelay: 10 * s, Jitter: retry.Proportional(.5)}, 0, 5 * s, 10 * s},
		{"proportional, partly over the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 11 * s, Jitter: retry.Proportional(.5)}, 0, 5 * s, 11 * s},
		{"proportional, under the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 15 * s, Jitter: retry.Proportional(.5)}, 0, 5 * s, 15 * s},
		{"a jitter without a delay", retry.Policy{Jitter: retry.FullJitter}, 0, 0, 0},

		{"no jitter, Retry-After below", retry.Policy{Backoff: retry.Fixed(10 * s)}, 5 * s, 10 * s, 10 * s},
		{"no jitter, Retry-After the same", retry.Policy{Backoff: retry.Fixed(10 * s)}, 10 * s, 10 * s, 10 * s},
		{"no jitter, Retry-After above", retry.Policy{Backoff: retry.Fixed(10 * s)}, 15 * s, 15 * s, 15 * s},
		{"no jitter, Retry-After above the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 12 * s}, 15 * s, 15 * s, 15 * s},
		{"no curve, Retry-After", retry.Policy{}, 15 * s, 15 * s, 15 * s},
		{"no curve, Retry-After, full", retry.Policy{Jitter: retry.FullJitter}, 15 * s, 15 * s, 30 * s},

		{"full, Retry-After low in the window", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 3 * s, 3 * s, 10 * s},
		{"full, Retry-After half way", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 5 * s, 5 * s, 10 * s},
		{"full, Retry-After high in the window", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 8 * s, 8 * s, 16 * s},
		{"full, Retry-After above", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 60 * s, 60 * s, 120 * s},
		{"full, Retry-After above the cap: at most the cap is added", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 12 * s, Jitter: retry.FullJitter}, 60 * s, 60 * s, 72 * s},
		{"full, Retry-After in the window cut to the cap", retry.Policy{Backoff: retry.Fixed(100 * s), MaxDelay: 10 * s, Jitter: retry.FullJitter}, 4 * s, 4 * s, 10 * s},
		{"full, Retry-After of 1ns", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 1, 1, 10 * s},

		{"equal, Retry-After below", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.EqualJitter}, 4 * s, 5 * s, 10 * s},
		{"equal, Retry-After at the low end", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.EqualJitter}, 5 * s, 5 * s, 10 * s},
		{"equal, Retry-After inside", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.EqualJitter}, 6 * s, 6 * s, 10 * s},
		{"equal, Retry-After above", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.EqualJitter}, 16 * s, 16 * s, 24 * s},
		{"equal, Retry-After above the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 6 * s, Jitter: retry.EqualJitter}, 16 * s, 16 * s, 22 * s},

		{"proportional, Retry-After below", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.Proportional(.25)}, 7 * s, 7500 * time.Millisecond, 12500 * time.Millisecond},
		{"proportional, Retry-After inside", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.Proportional(.25)}, 8 * s, 8 * s, 12500 * time.Millisecond},
		{"proportional, Retry-After high inside", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.Proportional(.25)}, 12 * s, 12 * s, 18 * s},
		{"proportional at the cap, Retry-After at the low end", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 10 * s, Jitter: retry.Proportional(.25)}, 7500 * time.Millisecond, 7500 * time.Millisecond, 10 * s},
		{"proportional, Retry-After above", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.Proportional(.25)}, 20 * s, 20 * s, 30 * s},
		{"proportional, Retry-After above the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 11 * s, Jitter: retry.Proportional(.25)}, 60 * s, 60 * s, 71 * s},
		{"proportional, a small window at the Retry-After", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 40 * s, Jitter: retry.Proportional(.25)}, 60 * s, 60 * s, 90 * s},

		{"the longest curve, full", retry.Policy{Backoff: retry.Fixed(math.MaxInt64), Jitter: retry.FullJitter}, 0, 0, math.MaxInt64},
		{"the longest curve, proportional", retry.Policy{Backoff: retry.Fixed(math.MaxInt64), Jitter: retry.Proportional(.5)}, 0, math.MaxInt64 - 1<<62, math.MaxInt64},
		{"the longest Retry-After", retry.Policy{Backoff: retry.Fixed(s), Jitter: retry.FullJitter, MaxRetryAfter: math.MaxInt64}, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{"a Retry-After that saturates", retry.Policy{Backoff: retry.Fixed(s), Jitter: retry.Proportional(.5), MaxRetryAfter: math.MaxInt64}, math.MaxInt64 - 5, math.MaxInt64 - 5, math.MaxInt64},
		{"the longest Retry-After, a cap", retry.Policy{Backoff: retry.Fixed(s), MaxDelay: s, Jitter: retry.FullJitter, MaxRetryAfter: math.MaxInt64}, math.MaxInt64 - 5, math.MaxInt64 - 5, math.MaxInt64},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.policy.MaxAttempts = 3
			if row.policy.MaxRetryAfter == 0 {
				row.policy.MaxRetryAfter = time.Hour
			}
			a := retry.Attempt{Number: 1}
			if row.hint > 0 {
				a.Err = retry.After(row.hint, errors.New("boom"))
			}
			least, greatest := windowOf(row.policy, a)
			assert.Equal(t, row.least, least, "the shortest delay")
			assert.Equal(t, row.greatest, greatest, "the longest delay")
			assert.True(t, row.policy.Next(a).Retry())
		})
	}
}

func TestThirdPartyWindows(t *testing.T) {
	const s = time.Second
	for _, row := range []struct {
		name     string
		window   fixedWindow
		cap      time.Duration
		least    time.Duration
		greatest time.Duration
	}{
		{"sound", fixedWindow{3 * s, 7 * s}, 10 * s, 3 * s, 7 * s},
		{"a point", fixedWindow{3 * s, 3 * s}, 10 * s, 3 * s, 3 * s},
		{"reversed", fixedWindow{7 * s, 3 * s}, 10 * s, 3 * s, 7 * s},
		{"partly negative", fixedWindow{-5 * s, 7 * s}, 10 * s, 0, 7 * s},
		{"partly negative and reversed", fixedWindow{7 * s, -5 * s}, 10 * s, 0, 7 * s},
		{"negative", fixedWindow{-7 * s, -5 * s}, 10 * s, 0, 0},
		{"the most negative", fixedWindow{math.MinInt64, math.MinInt64}, 10 * s, 0, 0},
		{"partly above the cap", fixedWindow{8 * s, 14 * s}, 10 * s, 8 * s, 10 * s},
		{"up to the cap", fixedWindow{8 * s, 10 * s}, 10 * s, 8 * s, 10 * s},
		{"starting at the cap", fixedWindow{10 * s, 16 * s}, 10 * s, 4 * s, 10 * s},
		{"starting just below the cap", fixedWindow{10*s - 1, 16 * s}, 10 * s, 10*s - 1, 10 * s},
		{"above the cap", fixedWindow{20 * s, 26 * s}, 10 * s, 4 * s, 10 * s},
		{"above the cap and reversed", fixedWindow{26 * s, 20 * s}, 10 * s, 4 * s, 10 * s},
		{"above the cap and wider than it", fixedWindow{20 * s, 50 * s}, 10 * s, 0, 10 * s},
		{"above the cap and as wide as it", fixedWindow{20 * s, 30 * s}, 10 * s, 0, 10 * s},
		{"a point above the cap", fixedWindow{20 * s, 20 * s}, 10 * s, 10 * s, 10 * s},
		{"a point at the cap", fixedWindow{10 * s, 10 * s}, 10 * s, 10 * s, 10 * s},
		{"all durations", fixedWindow{math.MinInt64, math.MaxInt64}, 10 * s, 0, 10 * s},
		{"all durations, reversed", fixedWindow{math.MaxInt64, math.MinInt64}, 10 * s, 0, 10 * s},
		{"at the longest duration", fixedWindow{math.MaxInt64 - 2, math.MaxInt64}, 10 * s, 10*s - 2, 10 * s},
		{"no cap", fixedWindow{20 * s, 26 * s}, 0, 20 * s, 26 * s},
		{"all durations, no cap", fixedWindow{math.MinInt64, math.MaxInt64}, 0, 0, math.MaxInt64},
		{"a cap of 1ns", fixedWindow{20 * s, 26 * s}, 1, 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(9 * s), MaxDelay: row.cap, Jitter: row.window}
			least, greatest := windowOf(p, retry.Attempt{Number: 1})
			assert.Equal(t, row.least, least, "the shortest delay")
			assert.Equal(t, row.greatest, greatest, "the longest delay")
		})
	}
}

// cappedJitters are policies whose curve has reached its cap of 5s.
var cappedJitters = map[string]retry.Jitter{
	"full":                  retry.FullJitter,
	"equal":                 retry.EqualJitter,
	"20 %":                  retry.Proportional(.2),
	"1 %":                   retry.Proportional(.01),
	"100 %":                 retry.Proportional(1),
	"custom, above the cap": fixedWindow{6 * time.Second, 7 * time.Second},
	"custom, at the cap":    fixedWindow{5 * time.Second, 6 * time.Second},
	"custom, up to the cap": fixedWindow{time.Second, 5 * time.Second},
	"custom, reversed":      fixedWindow{9 * time.Second, time.Second},
	"custom, negative":      fixedWindow{-time.Second, 9 * time.Second},
}

func TestCapHoldsAndJitterLivesAtTheCap(t *testing.T) {
	for name, jitter := range cappedJitters {
		t.Run(name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: -1, Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 5 * time.Second, Jitter: jitter}
			for _, attempt := range []int{4, 64, 1000} {
				distinct := map[time.Duration]bool{}
				for seed := range uint64(1000) {
					d := p.Next(retry.Attempt{Number: attempt, Seed: seed + 1}).Delay
					require.LessOrEqual(t, d, p.MaxDelay)
					require.GreaterOrEqual(t, d, time.Duration(0))
					distinct[d] = true
				}
				assert.GreaterOrEqual(t, len(distinct), 990, "distinct delays of 1000 seeds after attempt %d", attempt)
			}
		})
	}
}

// Jitter added after the cap exceeds the cap, and a cap applied after the
// jitter distorts the jitter. Other libraries do one or the other; this one
// does neither.
func TestTrapTrilemmaOfCapAndJitter(t *testing.T) {
	p := retry.Policy{MaxAttempts: -1, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, MaxDelay: time.Second, Jitter: retry.Proportional(.5)}
	var atCap int
	var longest time.Duration
	distinct := map[time.Duration]bool{}
	for seed := range uint64(1000) {
		d := p.Next(retry.Attempt{Number: 20, Seed: seed + 1}).Delay
		longest, distinct[d] = max(longest, d), true
		if d == p.MaxDelay {
			atCap++
		}
	}
	assert.LessOrEqual(t, longest, time.Second, "the cap is a maximum, not 1.5 times one")
	assert.Greater(t, longest, 990*time.Millisecond, "the cap is reached")
	assert.LessOrEqual(t, atCap, 1, "few delays are equal at the cap")
	assert.GreaterOrEqual(t, len(distinct), 990)
}

// In some other libraries the first delay is not capped: an hour, with a
// maximum of a second.
func TestTrapFirstDelayAboveTheCap(t *testing.T) {
	for _, backoff := range []retry.Backoff{
		retry.Fixed(time.Hour), retry.Linear(time.Hour), retry.Fibonacci(time.Hour), retry.Schedule{time.Hour},
		retry.Exponential{Base: time.Hour}, retry.BackoffFunc(func(int) time.Duration { return time.Hour }),
	} {
		for _, jitter := range []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(.5)} {
			p := retry.Policy{MaxAttempts: 3, Backoff: backoff, MaxDelay: time.Second, Jitter: jitter}
			_, greatest := windowOf(p, retry.Attempt{Number: 1})
			assert.Equal(t, time.Second, greatest, "%T, %v", backoff, jitter)
		}
	}
}

// In some other libraries half of the delays near the longest duration are
// negative, and drawing below an overflowed maximum panics.
func TestTrapJitterNearTheLongestDuration(t *testing.T) {
	for _, attempt := range []int{34, 37, 38, 62, 63, 64, 65, 1000, math.MaxInt} {
		for _, jitter := range []retry.Jitter{retry.FullJitter, retry.EqualJitter, retry.Proportional(.5), retry.Proportional(1)} {
			p := retry.Policy{MaxAttempts: -1, Backoff: retry.Exponential{Base: 100 * time.Millisecond}, Jitter: jitter}
			for seed := range uint64(200) {
				require.GreaterOrEqual(t, p.Next(retry.Attempt{Number: attempt, Seed: seed + 1}).Delay, time.Duration(0))
			}
		}
	}
}

// In some other libraries a jitter that is wider than the delay makes half of
// the delays zero.
func TestTrapJitterWiderThanTheDelay(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: fixedWindow{-4 * time.Second, 6 * time.Second}}
	zeros := 0
	for seed := range uint64(1000) {
		if p.Next(retry.Attempt{Number: 1, Seed: seed + 1}).Delay == 0 {
			zeros++
		}
	}
	assert.Zero(t, zeros, "delays below zero do not pile up at zero")
}

// In some other libraries a cap of less than a second has no jitter, and a
// window of one nanosecond panics.
func TestTrapSmallCaps(t *testing.T) {
	for _, jitter := range []retry.Jitter{retry.FullJitter, retry.EqualJitter} {
		for _, cap := range []time.Duration{1, 2, 3, 300 * time.Millisecond} {
			p := retry.Policy{MaxAttempts: -1, Backoff: retry.Exponential{Base: 1}, MaxDelay: cap, Jitter: jitter}
			distinct := map[time.Duration]bool{}
			for seed := range uint64(1000) {
				d := p.Next(retry.Attempt{Number: 100, Seed: seed + 1}).Delay
				require.LessOrEqual(t, d, cap)
				distinct[d] = true
			}
			least, greatest := windowOf(p, retry.Attempt{Number: 100})
			assert.Len(t, distinct, int(min(1000, greatest-least+1)), "%v, cap %v", jitter, cap)
		}
	}
	p := retry.Policy{MaxAttempts: 5, Backoff: retry.Fixed(1), MaxDelay: 1, Jitter: retry.Proportional(.5)}
	assert.EqualValues(t, 1, p.Next(retry.Attempt{Number: 1, Seed: 1}).Delay, "there is no room for a jitter")
}

// The example's Jitter meets the contract of Jitter.
func TestExampleJitterConforms(t *testing.T) {
	for _, d := range boundaryDurations {
		retrytest.TestJitter(t, Extra(d))
	}
}
