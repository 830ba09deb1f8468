package retry_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"math/bits"
	randv2 "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exprand "golang.org/x/exp/rand"

	"github.com/goretry/retry"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// goldenGamma is what splitmix64 adds to its state at each step.
const goldenGamma = 0x9e3779b97f4a7c15

// seedDrawing returns the seed from which the number u is drawn for an attempt:
// the mixing function of splitmix64, a bijection, taken backwards. So a test can
// see both ends of a window.
func seedDrawing(u uint64, attempt int) uint64 {
	inverse := func(odd uint64) uint64 { // modulo 2^64, by Newton's method
		x := odd
		for range 6 {
			x *= 2 - odd*x
		}
		return x
	}
	z := u
	z = z ^ z>>31 ^ z>>62
	z *= inverse(0x94d049bb133111eb)
	z = z ^ z>>27 ^ z>>54
	z *= inverse(0xbf58476d1ce4e5b9)
	z = z ^ z>>30 ^ z>>60
	return z - uint64(max(1, attempt))*goldenGamma
}

// windowOf returns the least and the greatest delay that p may draw.
func windowOf(p retry.Policy, a retry.Attempt) (least, greatest time.Duration) {
	a.Seed = seedDrawing(0, a.Number)
	least = p.Next(a).Delay
	a.Seed = seedDrawing(math.MaxUint64, a.Number)
	return least, p.Next(a).Delay
}

// sourceFunc is a function as a Source.
type sourceFunc func() uint64

func (f sourceFunc) Uint64() uint64 { return f() }

// The test vector of splitmix64 for the seed 1234567. With full jitter on the
// longest delay, what is drawn is the upper 63 bits of it.
func TestDrawIsSplitmix64(t *testing.T) {
	p := retry.Policy{Backoff: retry.Fixed(math.MaxInt64), Jitter: retry.FullJitter}
	for i, u := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		assert.Equal(t, time.Duration(u>>1), p.Next(retry.Attempt{Number: i + 1, Seed: 1234567}).Delay, "number %d", i+1)
		assert.EqualValues(t, 1234567, seedDrawing(u, i+1), "and backwards")
	}
}

// The drawn delay is lo + floor(u * (hi-lo+1) / 2^64), with u from the seed.
func TestDrawTakesThePartOfTheWindowThatTheNumberIsOf2To64(t *testing.T) {
	windows := []fixedWindow{
		{0, 0}, {0, 1}, {0, 2}, {7, 9}, {0, 999}, {time.Second, 2 * time.Second}, {1, math.MaxInt64},
		{0, math.MaxInt64}, {math.MaxInt64 - 1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64},
	}
	for _, w := range windows {
		p := retry.Policy{Jitter: w}
		for _, u := range []uint64{0, 1, 1 << 31, math.MaxUint64 / 3, 1<<63 - 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
			size := new(big.Int).Add(big.NewInt(int64(w.hi-w.lo)), big.NewInt(1))
			want := new(big.Int).Mul(new(big.Int).SetUint64(u), size)
			want.Rsh(want, 64).Add(want, big.NewInt(int64(w.lo)))
			for _, attempt := range []int{1, 2, 12, math.MaxInt} {
				got := p.Next(retry.Attempt{Number: attempt, Seed: seedDrawing(u, attempt)}).Delay
				assert.Equal(t, want.Int64(), int64(got), "%v, u = %d, attempt %d", w, u, attempt)
			}
		}
	}
}

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
		{"full of the longest", retry.FullJitter, longest, window{0, longest}},
		{"full of a negative", retry.FullJitter, -time.Second, window{0, 0}},
		{"equal", retry.EqualJitter, time.Second, window{time.Second / 2, time.Second}},
		{"equal of an odd number", retry.EqualJitter, 7, window{3, 7}},
		{"equal of 1", retry.EqualJitter, 1, window{0, 1}},
		{"equal of the longest", retry.EqualJitter, longest, window{longest / 2, longest}},
		{"equal of a negative", retry.EqualJitter, math.MinInt64, window{0, 0}},
		{"neither", retry.EqualJitter + 1, time.Second, window{time.Second, time.Second}},
		{"20 %", retry.Proportional(.2), time.Second, window{800 * time.Millisecond, 1200 * time.Millisecond}},
		{"20 % of 4ns", retry.Proportional(.2), 4, window{4, 4}},
		{"20 % of 5ns", retry.Proportional(.2), 5, window{4, 6}},
		{"0 %", retry.Proportional(0), time.Second, window{time.Second, time.Second}},
		{"100 %", retry.Proportional(1), time.Second, window{0, 2 * time.Second}},
		{"100 % of the longest", retry.Proportional(1), longest, window{0, longest}},
		{"50 % of the longest", retry.Proportional(.5), longest, window{longest - 1<<62, longest}},
		{"20 % of a negative", retry.Proportional(.2), -time.Second, window{0, 0}},
		{"20 % of the most negative", retry.Proportional(.2), math.MinInt64, window{0, 0}},
		{"below 0 counts as 0", retry.Proportional(-.5), time.Second, window{time.Second, time.Second}},
		{"above 1 counts as 1", retry.Proportional(3), time.Second, window{0, 2 * time.Second}},
		{"infinity counts as 1", retry.Proportional(math.Inf(1)), time.Second, window{0, 2 * time.Second}},
		{"infinity of 0", retry.Proportional(math.Inf(1)), 0, window{0, 0}},
		{"minus infinity counts as 0", retry.Proportional(math.Inf(-1)), time.Second, window{time.Second, time.Second}},
		{"NaN counts as 0", retry.Proportional(math.NaN()), time.Second, window{time.Second, time.Second}},
	} {
		t.Run(row.name, func(t *testing.T) {
			lo, hi := row.jitter.Window(row.d)
			assert.Equal(t, row.want, window{lo, hi})
		})
	}
}

// assertWindows compares the window of each jitter with one in big numbers. Full
// and equal are exact. The half width of a proportional one is a product of two
// floats, where converting the delay and multiplying round once each, by at most
// 2^-53 of the result, and is cut to the nanosecond: 2^-52 and 1ns in all.
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
	if centred := big.NewInt(int64(d)); saturated(centred.Add(centred, big.NewInt(int64(d-lo)))) != hi {
		t.Fatalf("%v of %d: %d to %d is not centred", share, delay, lo, hi)
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

// The order of a delay: curve, cap, window inside the cap, hint, one draw.
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
		{"proportional likewise, cut to the cap", retry.Policy{Backoff: retry.Fixed(100 * s), MaxDelay: 10 * s, Jitter: retry.Proportional(.5)}, 0, 5 * s, 10 * s},
		{"proportional, partly over the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 11 * s, Jitter: retry.Proportional(.5)}, 0, 5 * s, 11 * s},
		{"proportional, under the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 15 * s, Jitter: retry.Proportional(.5)}, 0, 5 * s, 15 * s},
		{"a jitter without a delay", retry.Policy{Jitter: retry.FullJitter}, 0, 0, 0},

		{"no jitter, hint below", retry.Policy{Backoff: retry.Fixed(10 * s)}, 5 * s, 10 * s, 10 * s},
		{"no jitter, hint the same", retry.Policy{Backoff: retry.Fixed(10 * s)}, 10 * s, 10 * s, 10 * s},
		{"no jitter, hint above", retry.Policy{Backoff: retry.Fixed(10 * s)}, 15 * s, 15 * s, 15 * s},
		{"no jitter, hint above the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 12 * s}, 15 * s, 15 * s, 15 * s},
		{"no curve, hint", retry.Policy{}, 15 * s, 15 * s, 15 * s},
		{"no curve, hint, full", retry.Policy{Jitter: retry.FullJitter}, 15 * s, 15 * s, 30 * s},

		{"full, hint low in the window", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 3 * s, 3 * s, 10 * s},
		{"full, hint half way", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 5 * s, 5 * s, 10 * s},
		{"full, hint high in the window", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 8 * s, 8 * s, 16 * s},
		{"full, hint above", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 60 * s, 60 * s, 120 * s},
		{"full, hint above the cap: at most the cap is added", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 12 * s, Jitter: retry.FullJitter}, 60 * s, 60 * s, 72 * s},
		{"full, hint in the window cut to the cap", retry.Policy{Backoff: retry.Fixed(100 * s), MaxDelay: 10 * s, Jitter: retry.FullJitter}, 4 * s, 4 * s, 10 * s},
		{"full, hint of 1ns", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.FullJitter}, 1, 1, 10 * s},

		{"equal, hint below", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.EqualJitter}, 4 * s, 5 * s, 10 * s},
		{"equal, hint at the low end", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.EqualJitter}, 5 * s, 5 * s, 10 * s},
		{"equal, hint inside", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.EqualJitter}, 6 * s, 6 * s, 10 * s},
		{"equal, hint above", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.EqualJitter}, 16 * s, 16 * s, 24 * s},
		{"equal, hint above the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 6 * s, Jitter: retry.EqualJitter}, 16 * s, 16 * s, 22 * s},

		{"proportional, hint below", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.Proportional(.25)}, 7 * s, 7500 * time.Millisecond, 12500 * time.Millisecond},
		{"proportional, hint inside", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.Proportional(.25)}, 8 * s, 8 * s, 12500 * time.Millisecond},
		{"proportional, hint high inside", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.Proportional(.25)}, 12 * s, 12 * s, 18 * s},
		{"proportional at the cap, hint at the low end", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 10 * s, Jitter: retry.Proportional(.25)}, 7500 * time.Millisecond, 7500 * time.Millisecond, 10 * s},
		{"proportional, hint above", retry.Policy{Backoff: retry.Fixed(10 * s), Jitter: retry.Proportional(.25)}, 20 * s, 20 * s, 30 * s},
		{"proportional, hint above the cap", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 11 * s, Jitter: retry.Proportional(.25)}, 60 * s, 60 * s, 71 * s},
		{"proportional, a small window at the hint", retry.Policy{Backoff: retry.Fixed(10 * s), MaxDelay: 40 * s, Jitter: retry.Proportional(.25)}, 60 * s, 60 * s, 90 * s},

		{"the longest curve, full", retry.Policy{Backoff: retry.Fixed(math.MaxInt64), Jitter: retry.FullJitter}, 0, 0, math.MaxInt64},
		{"the longest curve, proportional", retry.Policy{Backoff: retry.Fixed(math.MaxInt64), Jitter: retry.Proportional(.5)}, 0, math.MaxInt64 - 1<<62, math.MaxInt64},
		{"the longest hint", retry.Policy{Backoff: retry.Fixed(s), Jitter: retry.FullJitter, MaxRetryAfter: math.MaxInt64}, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{"a hint that saturates", retry.Policy{Backoff: retry.Fixed(s), Jitter: retry.Proportional(.5), MaxRetryAfter: math.MaxInt64}, math.MaxInt64 - 5, math.MaxInt64 - 5, math.MaxInt64},
		{"the longest hint, a cap", retry.Policy{Backoff: retry.Fixed(s), MaxDelay: s, Jitter: retry.FullJitter, MaxRetryAfter: math.MaxInt64}, math.MaxInt64 - 5, math.MaxInt64 - 5, math.MaxInt64},
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
			assert.Equal(t, row.least, least, "the least delay")
			assert.Equal(t, row.greatest, greatest, "the greatest delay")
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
		{"upside down", fixedWindow{7 * s, 3 * s}, 10 * s, 3 * s, 7 * s},
		{"partly negative", fixedWindow{-5 * s, 7 * s}, 10 * s, 0, 7 * s},
		{"partly negative and upside down", fixedWindow{7 * s, -5 * s}, 10 * s, 0, 7 * s},
		{"negative", fixedWindow{-7 * s, -5 * s}, 10 * s, 0, 0},
		{"the most negative", fixedWindow{math.MinInt64, math.MinInt64}, 10 * s, 0, 0},
		{"partly above the cap", fixedWindow{8 * s, 14 * s}, 10 * s, 8 * s, 10 * s},
		{"up to the cap", fixedWindow{8 * s, 10 * s}, 10 * s, 8 * s, 10 * s},
		{"starting at the cap", fixedWindow{10 * s, 16 * s}, 10 * s, 4 * s, 10 * s},
		{"starting just below the cap", fixedWindow{10*s - 1, 16 * s}, 10 * s, 10*s - 1, 10 * s},
		{"above the cap", fixedWindow{20 * s, 26 * s}, 10 * s, 4 * s, 10 * s},
		{"above the cap and upside down", fixedWindow{26 * s, 20 * s}, 10 * s, 4 * s, 10 * s},
		{"above the cap and wider than it", fixedWindow{20 * s, 50 * s}, 10 * s, 0, 10 * s},
		{"above the cap and as wide as it", fixedWindow{20 * s, 30 * s}, 10 * s, 0, 10 * s},
		{"a point above the cap", fixedWindow{20 * s, 20 * s}, 10 * s, 10 * s, 10 * s},
		{"a point at the cap", fixedWindow{10 * s, 10 * s}, 10 * s, 10 * s, 10 * s},
		{"all there is", fixedWindow{math.MinInt64, math.MaxInt64}, 10 * s, 0, 10 * s},
		{"all there is, upside down", fixedWindow{math.MaxInt64, math.MinInt64}, 10 * s, 0, 10 * s},
		{"at the end of all durations", fixedWindow{math.MaxInt64 - 2, math.MaxInt64}, 10 * s, 10*s - 2, 10 * s},
		{"no cap", fixedWindow{20 * s, 26 * s}, 0, 20 * s, 26 * s},
		{"all there is, no cap", fixedWindow{math.MinInt64, math.MaxInt64}, 0, 0, math.MaxInt64},
		{"a cap of 1ns", fixedWindow{20 * s, 26 * s}, 1, 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(9 * s), MaxDelay: row.cap, Jitter: row.window}
			least, greatest := windowOf(p, retry.Attempt{Number: 1})
			assert.Equal(t, row.least, least, "the least delay")
			assert.Equal(t, row.greatest, greatest, "the greatest delay")
		})
	}
}

// cappedJitters are policies whose curve has reached its cap of 5s.
var cappedJitters = map[string]retry.Jitter{
	"full":                          retry.FullJitter,
	"equal":                         retry.EqualJitter,
	"20 %":                          retry.Proportional(.2),
	"1 %":                           retry.Proportional(.01),
	"100 %":                         retry.Proportional(1),
	"a third party's above the cap": fixedWindow{6 * time.Second, 7 * time.Second},
	"a third party's at the cap":    fixedWindow{5 * time.Second, 6 * time.Second},
	"a third party's up to the cap": fixedWindow{time.Second, 5 * time.Second},
	"a third party's upside down":   fixedWindow{9 * time.Second, time.Second},
	"a third party's negative":      fixedWindow{-time.Second, 9 * time.Second},
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

// A jitter on top of the cap breaks the cap, a cap on top of the jitter breaks
// the jitter. Elsewhere it is one or the other; here neither happens.
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
	assert.Greater(t, longest, 990*time.Millisecond, "and it is reached")
	assert.LessOrEqual(t, atCap, 1, "nobody meets at the cap")
	assert.GreaterOrEqual(t, len(distinct), 990)
}

// Elsewhere the first delay goes uncapped: an hour, with a maximum of a second.
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

// Elsewhere half of the delays near the longest duration come out negative, and
// drawing below an overflowed maximum panics.
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

// Elsewhere a jitter that is wider than the delay makes half of the delays zero.
func TestTrapJitterWiderThanTheDelay(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: fixedWindow{-4 * time.Second, 6 * time.Second}}
	zeros := 0
	for seed := range uint64(1000) {
		if p.Next(retry.Attempt{Number: 1, Seed: seed + 1}).Delay == 0 {
			zeros++
		}
	}
	assert.Zero(t, zeros, "what is below zero is not heaped up at zero")
}

// Elsewhere a cap of less than a second has no jitter, and a window of one
// nanosecond panics.
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

// chiSquare returns the statistic of counts that should all be the same.
func chiSquare(counts []int) (x float64) {
	total := 0
	for _, n := range counts {
		total += n
	}
	want := float64(total) / float64(len(counts))
	for _, n := range counts {
		x += (float64(n) - want) * (float64(n) - want) / want
	}
	return x
}

// A chi-square statistic of 100 classes has 99 degrees of freedom. It exceeds
// 160.06 with probability 0.0001, and stays below 54.99, which would be too
// regular to be random, with the same.
const (
	leastChiSquare    = 54.99
	greatestChiSquare = 160.06
)

// The draws of each way to come by a seed and an attempt are spread evenly over
// a window, alone and in pairs: 100 classes, or ten by ten for the pairs, of 1000
// draws each.
func TestDrawGoodnessOfFit(t *testing.T) {
	const draws = 100_000
	random := randv2.New(randv2.NewPCG(1, 2))
	jobs := make([]uint64, draws)
	for i := range jobs {
		jobs[i] = retry.SeedOf(fmt.Sprintf("job-%d", i))
	}
	for _, row := range []struct {
		name string
		draw func(i int) (seed uint64, attempt int)
	}{
		{"random seeds, the first attempt", func(int) (uint64, int) { return random.Uint64(), 1 }},
		{"random seeds, a late attempt", func(int) (uint64, int) { return random.Uint64(), 1_000_000 }},
		{"one seed, its attempts", func(i int) (uint64, int) { return 42, i + 1 }},
		{"the smallest seed, its attempts", func(i int) (uint64, int) { return 1, i + 1 }},
		{"the greatest seed, its attempts", func(i int) (uint64, int) { return math.MaxUint64, i + 1 }},
		{"small consecutive seeds, the first attempt", func(i int) (uint64, int) { return uint64(i) + 1, 1 }},
		{"small consecutive seeds, the second attempt", func(i int) (uint64, int) { return uint64(i) + 1, 2 }},
		{"small consecutive seeds, the tenth attempt", func(i int) (uint64, int) { return uint64(i) + 1, 10 }},
		{"multiples of 2^32", func(i int) (uint64, int) { return uint64(i+1) << 32, 1 }},
		{"times in nanoseconds, a millisecond apart", func(i int) (uint64, int) { return 1_795_176_000_000_000_000 + uint64(i)*1_000_000, 1 }},
		{"keys of consecutive jobs", func(i int) (uint64, int) { return jobs[i], 1 }},
		{"keys of consecutive jobs, three attempts of each", func(i int) (uint64, int) { return jobs[i/3], i%3 + 1 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := retry.Policy{Backoff: retry.Fixed(999_999_999), Jitter: retry.FullJitter}
			single, pairs := make([]int, 100), make([]int, 100)
			previous := -1
			for i := range draws {
				seed, attempt := row.draw(i)
				d := int(p.Next(retry.Attempt{Number: attempt, Seed: seed}).Delay)
				single[d/10_000_000]++
				tenth := d / 100_000_000
				if previous >= 0 {
					pairs[previous*10+tenth]++
				}
				previous = tenth
			}
			for name, counts := range map[string][]int{"single draws": single, "pairs": pairs} {
				x := chiSquare(counts)
				assert.Less(t, x, greatestChiSquare, name)
				assert.Greater(t, x, leastChiSquare, "%s: more regular than chance", name)
			}
		})
	}
}

// Both ends of a window are drawn as often as what lies between. With three
// classes, two degrees of freedom, chi-square exceeds 18.42 with probability
// 0.0001.
func TestDrawBothEndsOfTheWindow(t *testing.T) {
	p := retry.Policy{Jitter: fixedWindow{7, 9}}
	counts := make([]int, 3)
	for seed := range uint64(30_000) {
		counts[p.Next(retry.Attempt{Number: 1, Seed: seed + 1}).Delay-7]++
	}
	assert.Less(t, chiSquare(counts), 18.42, "%v", counts)
}

// Every output bit depends on every bit of the seed: a seed that differs in one
// bit draws a number that differs in half of its 63, give or take.
func TestDrawAvalanche(t *testing.T) {
	p := retry.Policy{Backoff: retry.Fixed(math.MaxInt64), Jitter: retry.FullJitter}
	for bit := range 64 {
		flipped := 0
		const seeds = 1000
		for seed := range uint64(seeds) {
			seed = seed*2_654_435_761 + 12345
			a := p.Next(retry.Attempt{Number: 1, Seed: seed}).Delay
			b := p.Next(retry.Attempt{Number: 1, Seed: seed ^ 1<<bit}).Delay
			flipped += bits.OnesCount64(uint64(a ^ b))
		}
		// 63 * 1000 coins: the mean is 31.5, and six standard deviations are 0.75.
		assert.InDelta(t, 31.5, float64(flipped)/seeds, .75, "bit %d", bit)
	}
}

func TestSeedOf(t *testing.T) {
	plain := func(key string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(key))
		z := h.Sum64()
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	for _, key := range []string{"", "a", "job-1", "job-2", "réservé", "\x00", "\x00\x00", "\xff\xfe", strings.Repeat("long", 1000)} {
		assert.Equal(t, plain(key), retry.SeedOf(key), "%q", key)
		assert.NotZero(t, retry.SeedOf(key))
	}

	const hashesToZero = "\xd5\x6b\xb9\x53\x42\x87\x08\x36"
	require.Zero(t, plain(hashesToZero))
	assert.EqualValues(t, 1, retry.SeedOf(hashesToZero), "0 would mean that a seed is to be drawn")

	seen := map[uint64]bool{}
	for i := range 10_000 {
		seen[retry.SeedOf(fmt.Sprint(i))] = true
	}
	assert.Len(t, seen, 10_000)
}

// goldenPolicies are the schedules in testdata/delays.txt, which stay the same
// for ever: somebody has written a retry's time into a row by them.
var goldenPolicies = []struct {
	name   string
	policy retry.Policy
	hint   time.Duration
}{
	{"default", retry.Default(), 0},
	{"full", retry.Policy{Backoff: retry.Exponential{Base: 100 * time.Millisecond}, MaxDelay: 30 * time.Second, Jitter: retry.FullJitter}, 0},
	{"equal", retry.Policy{Backoff: retry.Linear(time.Second), MaxDelay: 10 * time.Second, Jitter: retry.EqualJitter}, 0},
	{"factor-1.7", retry.Policy{Backoff: retry.Exponential{Base: 130 * time.Millisecond, Factor: 1.7}, Jitter: retry.Proportional(.1)}, 0},
	{"factor-1.1", retry.Policy{Backoff: retry.Exponential{Base: 333_333_333, Factor: 1.1}, Jitter: retry.Proportional(.333)}, 0},
	{"fibonacci", retry.Policy{Backoff: retry.Fibonacci(250 * time.Millisecond), Jitter: retry.Proportional(.5)}, 0},
	{"schedule", retry.Policy{Backoff: retry.Schedule{time.Second, 10 * time.Second, time.Minute, 15 * time.Minute}, Jitter: retry.Proportional(.05)}, 0},
	{"saturated", retry.Policy{Backoff: retry.Exponential{Base: 24 * time.Hour, Factor: 9.87}, Jitter: retry.Proportional(.3)}, 0},
	{"long", retry.Policy{Backoff: longDelays, Jitter: retry.Proportional(1. / 3)}, 0},
	{"hint", retry.Policy{Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 20 * time.Second, Jitter: retry.Proportional(.2)}, 7 * time.Second},
	{"no-jitter", retry.Policy{Backoff: retry.Exponential{Base: 100 * time.Millisecond, Factor: 1.3}}, 0},
}

// longDelays are some decades each, where a float64 rounds to 256ns. There it
// shows if a processor multiplies and adds in one step, without rounding between.
var longDelays = retry.Schedule{
	2_063_322_497_467_419_959, 1_264_262_427_107_894_353, 1_369_970_608_379_498_539, 1_647_981_809_807_871_733,
	1_351_102_338_166_247_641, 2_117_160_850_040_252_251, 1_707_852_599_767_731_087, 1_289_221_048_028_187_175,
	1_295_565_679_044_136_361, 1_267_266_674_035_055_125, 1_662_701_493_673_515_725, 1_460_001_727_108_650_699,
}

// The delays of a seed are the same on every platform and in every version.
func TestGoldenDelays(t *testing.T) {
	seeds := []struct {
		name string
		seed uint64
	}{
		{"1", 1},
		{"2", 2},
		{"42", 42},
		{"2^64-1", math.MaxUint64},
		{`SeedOf("")`, retry.SeedOf("")},
		{`SeedOf("job-1")`, retry.SeedOf("job-1")},
		{`SeedOf("job-2")`, retry.SeedOf("job-2")},
		{`SeedOf("réservé")`, retry.SeedOf("réservé")},
	}
	var got bytes.Buffer
	fmt.Fprintln(&got, "# The delays after the attempts 1 to 12, by policy and seed. What stands here does")
	fmt.Fprintln(&got, "# not change: go test -run TestGoldenDelays -update . rewrites it when one is added.")
	for _, g := range goldenPolicies {
		fmt.Fprintf(&got, "\n== %s\n", g.name)
		for _, s := range seeds {
			fmt.Fprintf(&got, "%-17s", s.name)
			for attempt := 1; attempt <= 12; attempt++ {
				a := retry.Attempt{Number: attempt, Seed: s.seed}
				if g.hint > 0 {
					a.Err = retry.After(g.hint, errors.New("boom"))
				}
				fmt.Fprintf(&got, "  %v", g.policy.Next(a).Delay)
			}
			fmt.Fprintln(&got)
		}
	}

	file := filepath.Join("testdata", "delays.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))), got.String())
}

// lockedSource makes a Source that is for one goroutine safe for many.
type lockedSource struct {
	mu     sync.Mutex
	source retry.Source
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}

// Each Source draws the seeds of its own sequence, the same for the same seed.
func TestSources(t *testing.T) {
	for name, source := range map[string]func() retry.Source{
		"math/rand/v2 PCG":        func() retry.Source { return randv2.NewPCG(1, 2) },
		"math/rand/v2 ChaCha8":    func() retry.Source { return randv2.NewChaCha8([32]byte{1, 2, 3}) },
		"math/rand/v2 Rand":       func() retry.Source { return randv2.New(randv2.NewPCG(1, 2)) },
		"math/rand/v2 PCG locked": func() retry.Source { return &lockedSource{source: randv2.NewPCG(1, 2)} },
		"x/exp/rand":              func() retry.Source { return exprand.NewSource(7) },
		"x/exp/rand Rand":         func() retry.Source { return exprand.New(exprand.NewSource(7)) },
		"x/exp/rand LockedSource": func() retry.Source { s := new(exprand.LockedSource); s.Seed(7); return s },
	} {
		t.Run(name, func(t *testing.T) {
			require.NotNil(t, source())
			a, b, plain := retry.Default(), retry.Default(), retry.Default()
			a.Source, b.Source = source(), source()
			seeds := source()
			distinct := map[time.Duration]bool{}
			for range 1000 {
				d := a.Next(retry.Attempt{Number: 3}).Delay
				require.Equal(t, d, b.Next(retry.Attempt{Number: 3}).Delay, "the same sequence again")
				require.Equal(t, d, plain.Next(retry.Attempt{Number: 3, Seed: seeds.Uint64()}).Delay, "one number of the Source is one seed")
				distinct[d] = true
			}
			assert.GreaterOrEqual(t, len(distinct), 990)
		})
	}
}

// Sources that are safe for concurrent use, in as many goroutines; run it under
// the race detector.
func TestSourcesInManyGoroutines(t *testing.T) {
	locked := new(exprand.LockedSource)
	locked.Seed(7)
	for name, source := range map[string]retry.Source{
		"none":                    nil,
		"math/rand/v2 PCG locked": &lockedSource{source: randv2.NewPCG(1, 2)},
		"ChaCha8 locked":          &lockedSource{source: randv2.NewChaCha8([32]byte{})},
		"x/exp/rand LockedSource": locked,
	} {
		t.Run(name, func(t *testing.T) {
			p := retry.Default()
			p.Source = source
			delays := make([][]time.Duration, 8)
			var wg sync.WaitGroup
			for i := range delays {
				wg.Go(func() {
					for range 250 {
						delays[i] = append(delays[i], p.Next(retry.Attempt{Number: 3}).Delay)
					}
				})
			}
			wg.Wait()
			distinct := map[time.Duration]bool{}
			for _, ds := range delays {
				for _, d := range ds {
					distinct[d] = true
				}
			}
			assert.GreaterOrEqual(t, len(distinct), 1980, "of 2000: no two goroutines draw the same")
		})
	}
}

func TestSourceIsAskedOnlyForASeedThatIsNeeded(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		name    string
		policy  retry.Policy
		attempt retry.Attempt
		asked   int
	}{
		{"seed 0", retry.Default(), retry.Attempt{Number: 1, Err: boom}, 1},
		{"a seed", retry.Default(), retry.Attempt{Number: 1, Err: boom, Seed: 1}, 0},
		{"no jitter", retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}, retry.Attempt{Number: 1, Err: boom}, 0},
		{"no jitter, with a hint", retry.Policy{MaxAttempts: 3}, retry.Attempt{Number: 1, Err: retry.After(time.Second, boom)}, 0},
		{"a jitter of nothing", retry.Policy{MaxAttempts: 3, Jitter: retry.FullJitter}, retry.Attempt{Number: 1, Err: boom}, 0},
		{"an invalid policy", retry.Policy{MaxAttempts: -2, Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter}, retry.Attempt{Number: 1, Err: boom}, 0},
		{"a stop, for its delay is filled", retry.Default(), retry.Attempt{Number: 5, Err: boom}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			asked := 0
			row.policy.Source = sourceFunc(func() uint64 { asked++; return 42 })
			first := row.policy.Next(row.attempt)
			assert.Equal(t, row.asked, asked)
			if row.asked > 0 {
				row.attempt.Seed = 42
				assert.Equal(t, row.policy.Next(row.attempt), first, "what the Source draws is the seed")
			}
		})
	}

	t.Run("a Source that draws 0", func(t *testing.T) {
		p := retry.Default()
		p.Source = sourceFunc(func() uint64 { return 0 })
		assert.Equal(t, p.Next(retry.Attempt{Number: 1, Seed: 1}), p.Next(retry.Attempt{Number: 1}), "0 stands for none drawn")
	})
}
