package retry_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	randv2 "math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// goldenGamma is what splitmix64 adds to its state at each step.
const goldenGamma = 0x9e3779b97f4a7c15

// seedDrawing returns the seed from which the number u is drawn for an attempt.
// It inverts the mixing function of splitmix64, which is a bijection, so that a
// test can choose either end of a window.
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

// windowOf returns the shortest and the longest delay that p may draw.
func windowOf(p retry.Policy, a retry.Attempt) (least, greatest time.Duration) {
	a.Seed = seedDrawing(0, a.Number)
	least = p.Next(a).Delay
	a.Seed = seedDrawing(math.MaxUint64, a.Number)
	return least, p.Next(a).Delay
}

// A Decision names the window that its delay is drawn from, both ends included.
func TestADecisionNamesItsWindow(t *testing.T) {
	for name, jitter := range cappedJitters {
		for _, row := range []struct {
			base, most, hint time.Duration
		}{{time.Second, 0, 0}, {time.Second, 3 * time.Second, 0}, {time.Second, time.Second, 0}, {time.Second, 0, 5 * time.Second}, {0, 0, 0}} {
			p := retry.Policy{MaxAttempts: 9, Backoff: retry.Exponential{Base: row.base}, MaxDelay: row.most, Jitter: jitter}
			for number := 1; number < 9; number++ {
				a := retry.Attempt{Number: number, Err: retry.After(row.hint, errDial), Seed: 1}
				d := p.Next(a)
				least, greatest := windowOf(p, a)
				assert.Equal(t, least, d.Lo, "%s, %+v, attempt %d", name, row, number)
				assert.Equal(t, greatest, d.Hi, "%s, %+v, attempt %d", name, row, number)
				assert.Equal(t, d.Delay, retry.Draw(d.Seed, number, d.Lo, d.Hi), "%s, %+v, attempt %d", name, row, number)
			}
		}
	}
}

func TestDraw(t *testing.T) {
	for _, row := range []struct {
		name   string
		lo, hi time.Duration
		want   time.Duration // by the seed 42 and the attempt 3
	}{
		{"a window", time.Second, 2 * time.Second, retry.Policy{Jitter: fixedWindow{time.Second, 2 * time.Second}}.Next(retry.Attempt{Number: 3, Seed: 42}).Delay},
		{"a point", time.Second, time.Second, time.Second},
		{"reversed: lo", 2 * time.Second, time.Second, 2 * time.Second},
		{"nothing", 0, 0, 0},
		{"a point below zero", -time.Second, -time.Second, -time.Second},
		{"reversed over all durations: lo", math.MaxInt64, math.MinInt64, math.MaxInt64},
	} {
		t.Run(row.name, func(t *testing.T) {
			assert.Equal(t, row.want, retry.Draw(42, 3, row.lo, row.hi))
		})
	}
	t.Run("both ends of a window, also below zero", func(t *testing.T) {
		for _, w := range []fixedWindow{{0, 1}, {7, 9}, {0, math.MaxInt64}, {-3, 5}, {math.MinInt64, -1}} {
			assert.Equal(t, w.lo, retry.Draw(seedDrawing(0, 3), 3, w.lo, w.hi))
			assert.Equal(t, w.hi, retry.Draw(seedDrawing(math.MaxUint64, 3), 3, w.lo, w.hi))
		}
	})
}

// A RetryScheduled has all that its delay is made from, whatever policy, class or
// server made it.
func TestDrawRecomputesEveryDelayOfAnEvent(t *testing.T) {
	errThrottled, errBusy := errors.New("429"), retry.After(3*time.Second, errors.New("503"))
	throttled := &retry.Class{Name: "throttled", Policy: &retry.Policy{Backoff: retry.Linear(time.Minute), Jitter: retry.EqualJitter}}
	exact := &retry.Class{Policy: &retry.Policy{ExactRetryAfter: true}}
	for name, p := range map[string]retry.Policy{
		"no delay":              {},
		"no jitter":             {Backoff: retry.Linear(time.Second)},
		"jitter":                {Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter},
		"jitter at the cap":     {Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 3 * time.Second, Jitter: retry.Proportional(.2)},
		"a custom jitter":       {Backoff: retry.Fixed(time.Second), Jitter: fixedWindow{9, -9}},
		"exact":                 {Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter, ExactRetryAfter: true},
		"cut above Retry-After": {Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter, MaxElapsed: 3500 * time.Millisecond},
		"classes": {Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter, Classify: func(err error) *retry.Class {
			switch {
			case errors.Is(err, errThrottled):
				return throttled
			case retry.RetryAfterOf(err) > 0:
				return exact
			default:
				return nil
			}
		}},
		"attempts that were healthy": {Backoff: retry.Linear(time.Second), Jitter: retry.FullJitter, HealthyAfter: time.Minute},
	} {
		everyWay(t, name, func(t *testing.T, call caller) {
			var told watch
			p := p
			p.MaxAttempts, p.OnEvent = 9, told.event
			runs := 0
			stopped(t, call(t.Context(), p, func(context.Context) error {
				if runs++; runs%4 == 0 && runs < 20 && p.HealthyAfter > 0 {
					time.Sleep(time.Hour)
				}
				return []error{errBusy, errDial, errThrottled}[runs%3]
			}))
			retries := told.of(retry.RetryScheduled)
			require.Len(t, retries, runs-1)
			for i, e := range retries {
				assert.Equal(t, e.Delay, retry.Draw(e.Seed, e.Attempt, e.Lo, e.Hi), "retry %d", i+1)
				assert.Equal(t, e.Lo == e.Hi, e.Seed == 0, "retry %d: a seed where the delay is random", i+1)
			}
		})
	}
}

// This is splitmix64's published test vector for the seed 1234567. With full
// jitter on the longest delay, the draw is the upper 63 bits of the number.
func TestDrawIsSplitmix64(t *testing.T) {
	p := retry.Policy{Backoff: retry.Fixed(math.MaxInt64), Jitter: retry.FullJitter}
	for i, u := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		assert.Equal(t, time.Duration(u>>1), p.Next(retry.Attempt{Number: i + 1, Seed: 1234567}).Delay, "number %d", i+1)
		assert.EqualValues(t, 1234567, seedDrawing(u, i+1), "and backwards")
	}
}

// The delay is lo + floor(u * (hi-lo+1) / 2^64), with u drawn from the seed.
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

// chiSquare returns the chi-square statistic of counts that should all be
// equal.
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
// 160.06 with probability 0.0001, and it is below 54.99, too regular to be
// random, with the same probability.
const (
	leastChiSquare    = 54.99
	greatestChiSquare = 160.06
)

// For each way to get a seed and an attempt, the draws are spread evenly over
// the window, alone and in pairs. There are 100 classes, or ten by ten for the
// pairs, with 1000 draws each.
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

// Both ends of a window are drawn as often as the values between them. With
// three classes there are two degrees of freedom, and chi-square exceeds 18.42
// with probability 0.0001.
func TestDrawBothEndsOfTheWindow(t *testing.T) {
	p := retry.Policy{Jitter: fixedWindow{7, 9}}
	counts := make([]int, 3)
	for seed := range uint64(30_000) {
		counts[p.Next(retry.Attempt{Number: 1, Seed: seed + 1}).Delay-7]++
	}
	assert.Less(t, chiSquare(counts), 18.42, "%v", counts)
}

// Every output bit depends on every bit of the seed: changing one bit of the
// seed flips about half of the 63 bits of the number.
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
		// These are 63 * 1000 coin flips: the mean is 31.5, and six standard
		// deviations are 0.75.
		assert.InDelta(t, 31.5, float64(flipped)/seeds, .75, "bit %d", bit)
	}
}

// goldenPolicies are the schedules in testdata/delays.txt. They must never
// change, because users may have stored times that were computed from them.
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

// longDelays are decades long, where a float64 rounds to 256ns. They show
// whether a processor fuses a multiplication and an addition without rounding
// in between.
var longDelays = retry.Schedule{
	2_063_322_497_467_419_959, 1_264_262_427_107_894_353, 1_369_970_608_379_498_539, 1_647_981_809_807_871_733,
	1_351_102_338_166_247_641, 2_117_160_850_040_252_251, 1_707_852_599_767_731_087, 1_289_221_048_028_187_175,
	1_295_565_679_044_136_361, 1_267_266_674_035_055_125, 1_662_701_493_673_515_725, 1_460_001_727_108_650_699,
}

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// A seed gives the same delays on every platform and in every version.
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
