package retry_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xrand "golang.org/x/exp/rand"

	"github.com/goretry/retry"
)

// fixedWindow is a custom Jitter that always returns the same window. The window may be invalid.
type fixedWindow struct{ lo, hi time.Duration }

func (w fixedWindow) Window(time.Duration) (lo, hi time.Duration) { return w.lo, w.hi }

// seedDrawing returns the seed from which the number u is drawn for an attempt. With this seed, a
// test can choose which delay of a window is drawn. seedDrawing inverts the mixing function of
// splitmix64, which is a bijection.
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
	return z - uint64(max(1, attempt))*0x9e3779b97f4a7c15 // splitmix64 adds this constant at each step
}

// windowOf returns the shortest and the longest delay that p may draw.
func windowOf(p retry.Policy, a retry.Attempt) (least, greatest time.Duration) {
	a.Seed = seedDrawing(0, a.Number)
	least = p.Next(a).Delay
	a.Seed = seedDrawing(math.MaxUint64, a.Number)
	return least, p.Next(a).Delay
}

// A delay is computed in this order: the curve, MaxDelay, the jitter window within MaxDelay, the
// Retry-After, and one draw. A wrong window of a custom Jitter is corrected.
func TestWindow(t *testing.T) {
	const s, longest = time.Second, time.Duration(math.MaxInt64)
	full, equal, half := retry.FullJitter, retry.EqualJitter, retry.Proportional(.5)
	for _, row := range []struct {
		name            string
		curve, cap      time.Duration
		jitter          retry.Jitter
		hint            time.Duration
		least, greatest time.Duration
	}{
		{"nothing", 0, 0, nil, 0, 0, 0},
		{"the delay is cut before the jitter", 100 * s, 10 * s, full, 0, 0, 10 * s},
		{"proportional, partly over the cap", 10 * s, 11 * s, half, 0, 5 * s, 11 * s},
		{"a jitter without a delay", 0, 0, full, 0, 0, 0},
		{"full, a cap of 1ns", 10 * s, 1, full, 0, 0, 1},
		{"equal, a cap of 3ns", 10 * s, 3, equal, 0, 1, 3},
		{"proportional, no room at a cap of 1ns", 1, 1, half, 0, 1, 1},

		{"full, Retry-After low in the window", 10 * s, 0, full, 3 * s, 3 * s, 10 * s},
		{"full, Retry-After above the cap: the jitter adds at most the cap", 10 * s, 12 * s, full, 60 * s, 60 * s, 72 * s},
		{"full, Retry-After of 1ns", 10 * s, 0, full, 1, 1, 10 * s},

		{"the longest curve, proportional", longest, 0, half, 0, longest - 1<<62, longest},
		{"the longest Retry-After", s, 0, full, longest, longest, longest},
		{"a Retry-After that saturates", s, 0, half, longest - 5, longest - 5, longest},
		{"the longest Retry-After, a cap", s, s, full, longest - 5, longest - 5, longest},

		{"a negative curve", -1, s, full, 0, 0, 0},
		{"a negative curve, Retry-After", math.MinInt64, s, full, 5 * s, 5 * s, 6 * s},

		{"custom", 9 * s, 10 * s, fixedWindow{3 * s, 7 * s}, 0, 3 * s, 7 * s},
		{"custom, reversed", 9 * s, 10 * s, fixedWindow{7 * s, 3 * s}, 0, 3 * s, 7 * s},
		{"custom, partly negative: the window starts at 0", 9 * s, 10 * s, fixedWindow{-5 * s, 7 * s}, 0, 0, 7 * s},
		{"custom, partly negative and reversed", 9 * s, 10 * s, fixedWindow{7 * s, -5 * s}, 0, 0, 7 * s},
		{"custom, negative", 9 * s, 10 * s, fixedWindow{-7 * s, math.MinInt64}, 0, 0, 0},
		{"custom, partly above the cap", 9 * s, 10 * s, fixedWindow{8 * s, 14 * s}, 0, 8 * s, 10 * s},
		{"custom, starting at the cap", 9 * s, 10 * s, fixedWindow{10 * s, 16 * s}, 0, 4 * s, 10 * s},
		{"custom, starting just below the cap", 9 * s, 10 * s, fixedWindow{10*s - 1, 16 * s}, 0, 10*s - 1, 10 * s},
		{"custom, above the cap", 9 * s, 10 * s, fixedWindow{20 * s, 26 * s}, 0, 4 * s, 10 * s},
		{"custom, above the cap and wider than it", 9 * s, 10 * s, fixedWindow{20 * s, 50 * s}, 0, 0, 10 * s},
		{"custom, a window of one delay above the cap", 9 * s, 10 * s, fixedWindow{20 * s, 20 * s}, 0, 10 * s, 10 * s},
		{"custom, all durations", 9 * s, 10 * s, fixedWindow{math.MinInt64, longest}, 0, 0, 10 * s},
		{"custom, at the longest duration", 9 * s, 10 * s, fixedWindow{longest - 2, longest}, 0, 10*s - 2, 10 * s},
		{"custom, no cap", 9 * s, 0, fixedWindow{20 * s, 26 * s}, 0, 20 * s, 26 * s},
		{"custom, all durations, no cap", 9 * s, 0, fixedWindow{math.MinInt64, longest}, 0, 0, longest},
		{"custom, a cap of 1ns", 9 * s, 1, fixedWindow{20 * s, 26 * s}, 0, 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			curve := retry.BackoffFunc(func(int) time.Duration { return row.curve })
			p := retry.Policy{MaxAttempts: 3, Backoff: curve, MaxDelay: row.cap, Jitter: row.jitter, MaxRetryAfter: longest}
			a := retry.Attempt{Number: 1, Err: retry.After(row.hint, errDial), Seed: 1}
			want := []time.Duration{row.least, row.greatest}
			least, greatest := windowOf(p, a)
			assert.Equal(t, want, []time.Duration{least, greatest}, "the shortest and the longest delay")
			d := p.Next(a)
			assert.Equal(t, want, []time.Duration{d.Lo, d.Hi}, "Lo and Hi are the ends of the window")
			assert.True(t, d.Retry())
		})
	}
}

func TestDraw(t *testing.T) {
	for _, w := range []fixedWindow{{0, 0}, {time.Second, time.Second}, {2 * time.Second, time.Second}, {-time.Second, -time.Second}, {math.MaxInt64, math.MinInt64}} {
		assert.Equal(t, w.lo, retry.Draw(42, 3, w.lo, w.hi), "%v: if hi is not above lo, the delay is lo", w)
	}
	for _, w := range []fixedWindow{{0, 1}, {7, 9}, {0, math.MaxInt64}, {-3, 5}, {math.MinInt64, -1}} {
		assert.Equal(t, w.lo, retry.Draw(seedDrawing(0, 3), 3, w.lo, w.hi))
		assert.Equal(t, w.hi, retry.Draw(seedDrawing(math.MaxUint64, 3), 3, w.lo, w.hi))
	}
}

// From the fields of each RetryScheduled, Draw computes its Delay again, for every kind of policy,
// class and Retry-After.
func TestDrawRecomputesEveryDelayOfAnEvent(t *testing.T) {
	errThrottled, errBusy := errors.New("429"), retry.After(3*time.Second, errors.New("503"))
	throttled := &retry.Class{Name: "throttled", Backoff: retry.Linear(time.Minute), Jitter: retry.EqualJitter}
	brief := &retry.Class{MaxDelay: 2 * time.Second}
	for name, p := range map[string]retry.Policy{
		"no delay":              {},
		"no jitter":             {Backoff: retry.Linear(time.Second)},
		"jitter":                {Backoff: retry.Exponential{Base: time.Second}, Jitter: retry.FullJitter},
		"jitter at the cap":     {Backoff: retry.Exponential{Base: time.Second}, MaxDelay: 3 * time.Second, Jitter: retry.Proportional(.2)},
		"a custom jitter":       {Backoff: retry.Fixed(time.Second), Jitter: fixedWindow{9, -9}},
		"exact":                 {Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter, RetryAfter: retry.RetryAfterExact},
		"at least":              {Backoff: retry.Fixed(6 * time.Second), Jitter: retry.FullJitter, RetryAfter: retry.RetryAfterAtLeast},
		"cut above Retry-After": {Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter, MaxElapsed: 3500 * time.Millisecond},
		"classes": {Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter, Classify: func(err error) *retry.Class {
			switch {
			case errors.Is(err, errThrottled):
				return throttled
			case retry.RetryAfterOf(err) > 0:
				return brief
			default:
				return nil
			}
		}},
		"attempts that ran past HealthyAfter": {Backoff: retry.Linear(time.Second), Jitter: retry.FullJitter, HealthyAfter: time.Minute},
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
				assert.Equal(t, e.Delay, retry.Draw(e.Seed, e.Number, e.Lo, e.Hi), "retry %d", i+1)
				random := e.Lo < e.Hi || p.RetryAfter == retry.RetryAfterAtLeast && e.Delay == e.RetryAfter // the drawn delay was shorter than the Retry-After
				assert.Equal(t, random, e.Seed != 0, "retry %d: there is a seed if the delay is random", i+1)
			}
		})
	}
}

// The numbers are the published test vector of splitmix64 for the seed 1234567. If the curve gives
// the longest duration and the jitter is full, the delay is the upper 63 bits of such a number.
func TestDrawIsSplitmix64(t *testing.T) {
	p := retry.Policy{Backoff: retry.Fixed(math.MaxInt64), Jitter: retry.FullJitter}
	for i, u := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		assert.Equal(t, time.Duration(u>>1), p.Next(retry.Attempt{Number: i + 1, Seed: 1234567}).Delay, "number %d", i+1)
		assert.EqualValues(t, 1234567, seedDrawing(u, i+1), "and backwards")
	}
}

// A counter counts the calls of its method `draw`, which is the Source of a policy.
type counter struct{ calls, value uint64 }

func (s *counter) draw() uint64 { s.calls++; return s.value + s.calls - 1 }

func TestOneSeedForEachCall(t *testing.T) {
	for _, row := range []struct {
		name  string
		value uint64 // the first value of Source
		set   func(*retry.Policy)
		calls uint64   // how often each call of Do calls Source
		seeds []uint64 // the seeds in the events of two calls
	}{
		{"Source is not called without jitter", 42, func(p *retry.Policy) { p.Jitter = nil }, 0, []uint64{0, 0, 0, 0}},
		{"0 is treated as 1", 0, func(*retry.Policy) {}, 1, []uint64{1, 1, 1, 1}},
		{"no seed in the event of a retry without a delay", 42, func(p *retry.Policy) { p.Backoff = retry.Schedule{time.Second, 0} }, 1, []uint64{42, 0, 43, 0}},
		{"one seed for each call", 42, func(*retry.Policy) {}, 1, []uint64{42, 42, 43, 43}},
		{"no seed without a Backoff and a jitter", 42, func(p *retry.Policy) { p.Jitter, p.Backoff = nil, nil }, 0, []uint64{0, 0, 0, 0}},
		{"no seed for a jitter without a delay", 42, func(p *retry.Policy) { p.Backoff = nil }, 0, []uint64{0, 0, 0, 0}},
		{"one seed for each call, with the delays of a class", 42, func(p *retry.Policy) {
			p.Classify = always(retry.Class{Backoff: retry.Fixed(time.Minute), Jitter: retry.FullJitter})
		}, 1, []uint64{42, 42, 43, 43}},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			var told watch
			source := &counter{value: row.value}
			p := everySecond
			p.Jitter, p.Source, p.OnEvent = retry.FullJitter, source.draw, told.event
			row.set(&p)
			require.NoError(t, call(t.Context(), p, func(context.Context) error { return nil }))
			assert.Zero(t, source.calls, "a success needs no seed")
			runs := 0
			for n := range uint64(2) {
				stopped(t, call(t.Context(), p, fails(&runs)))
				assert.Equal(t, (n+1)*row.calls, source.calls)
			}
			first := p.Next(retry.Attempt{Number: 1, Err: errDial})
			assert.Equal(t, 3*row.calls, source.calls, "Next draws a seed if the Attempt has none")
			assert.Equal(t, first, p.Next(retry.Attempt{Number: 1, Err: errDial, Seed: first.Seed}))
			p.MaxAttempts = 1
			p.Next(retry.Attempt{Number: 1, Err: errDial})
			assert.Equal(t, 4*row.calls, source.calls, "Next draws a delay even if it allows no retry")
			var seeds []uint64
			for _, e := range told.of(retry.RetryScheduled) {
				seeds = append(seeds, e.Seed)
				assert.Equal(t, p.Next(retry.Attempt{Number: e.Attempt, Err: errDial, Seed: e.Seed}).Delay, e.Delay)
			}
			assert.Equal(t, row.seeds, seeds)
		})
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
	assert.EqualValues(t, 1, retry.SeedOf(hashesToZero), "a seed of 0 would mean that no seed has been drawn")

	seen := map[uint64]bool{}
	for i := range 10_000 {
		seen[retry.SeedOf(fmt.Sprint(i))] = true
	}
	assert.Len(t, seen, 10_000)
}

// A custom Jitter may return a window above 0 for a delay of 0.
func TestAJitterWithoutABackoff(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Jitter: fixedWindow{3, 7}}
	lo, hi := windowOf(p, retry.Attempt{Number: 1, Err: errDial})
	assert.Equal(t, []time.Duration{3, 7}, []time.Duration{lo, hi})
}

// In a call without a limit on attempts, short waits are raised to 10ms. So no configuration causes
// a hot loop.
func TestUnlimitedAttemptsWaitAtLeast10ms(t *testing.T) {
	const least = 10 * time.Millisecond
	unlimited := func(b retry.Backoff) retry.Policy { return retry.Policy{MaxAttempts: retry.Unlimited, Backoff: b} }
	full := func(d time.Duration) retry.Policy {
		return retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Fixed(d), Jitter: retry.FullJitter}
	}
	for _, row := range []struct {
		name   string
		policy retry.Policy
		lo, hi time.Duration // the window after the first failure
	}{
		{"no Backoff", unlimited(nil), least, least},
		{"unlimited by MaxRetries", retry.Policy{MaxRetries: retry.Unlimited}, least, least},
		{"unlimited by MaxElapsed alone", retry.Policy{MaxElapsed: time.Minute}, least, least},
		{"Fixed 0", unlimited(retry.Fixed(0)), least, least},
		{"a BackoffFunc", unlimited(retry.BackoffFunc(func(int) time.Duration { return -1 })), least, least},
		{"1ns less", unlimited(retry.Fixed(least - 1)), least, least},
		{"10ms", unlimited(retry.Fixed(least)), least, least},
		{"1ns more", unlimited(retry.Fixed(least + 1)), least + 1, least + 1},
		{"a jitter without a delay", full(0), least, least},
		{"a window that ends below", full(least - 1), least, least},
		{"a window that ends at 10ms is unchanged", full(least), 0, least},
		{"a shorter MaxDelay", with(full(time.Second), func(p *retry.Policy) { p.MaxDelay = time.Millisecond }), least, least},
		{"a Budget and no limit", retry.Policy{Budget: &retry.Budget{Size: 9}}, 0, 0}, // there is one attempt
		{"a limit", retry.Policy{MaxAttempts: 1_000_000, Backoff: retry.Fixed(1)}, 1, 1},
		{"AttemptCap", with(unlimited(retry.Fixed(1)), func(p *retry.Policy) { p.AttemptCap = 9 }), 1, 1},
	} {
		bubble(t, row.name, func(t *testing.T) {
			require.NoError(t, row.policy.Validate())
			lo, hi := windowOf(row.policy, retry.Attempt{Number: 1, Err: errDial})
			assert.Equal(t, []time.Duration{row.lo, row.hi}, []time.Duration{lo, hi})
		})
	}
}

// Any generator can be the Source. Each row compares the seeds of the calls with the outputs of an
// equal generator.
func TestAnyGeneratorCanBeTheSource(t *testing.T) {
	shared := new(xrand.LockedSource)
	shared.Seed(7)
	sameAsShared := xrand.NewSource(7)
	pcg, samePCG := rand.NewPCG(1, 2), rand.NewPCG(1, 2)
	own, sameOwn := &counter{value: 42}, &counter{value: 42}
	for _, row := range []struct {
		name         string
		source, same func() uint64
	}{
		{"golang.org/x/exp/rand", shared.Uint64, sameAsShared.Uint64},
		{"golang.org/x/exp/rand, for one goroutine", xrand.NewSource(8).Uint64, xrand.NewSource(8).Uint64},
		{"math/rand/v2", pcg.Uint64, samePCG.Uint64},
		{"a function of the caller", own.draw, sameOwn.draw},
	} {
		everyWay(t, row.name, func(t *testing.T, call caller) {
			var told watch
			p := everySecond
			p.MaxAttempts, p.Jitter, p.Source, p.OnEvent = 2, retry.FullJitter, row.source, told.event
			for range 3 {
				runs := 0
				stopped(t, call(t.Context(), p, fails(&runs)))
			}
			var seeds, want []uint64
			for _, e := range told.of(retry.RetryScheduled) {
				seeds, want = append(seeds, e.Seed), append(want, row.same())
				assert.Equal(t, retry.Draw(e.Seed, e.Attempt, e.Lo, e.Hi), e.Delay)
			}
			assert.Len(t, seeds, 3)
			assert.Equal(t, want, seeds)
		})
	}
}

// The window above a Retry-After is cut to the time that is left. There is time for the wait
// that the server asked for, so the retry is made.
func TestJitterAboveARetryAfterIsCut(t *testing.T) {
	const second = time.Second
	base := retry.Policy{
		MaxAttempts: 9, Backoff: retry.Fixed(10 * second), Jitter: retry.Proportional(0.5),
		MaxDelay: 25 * second, MaxRetryAfter: 90 * second, MaxElapsed: 100 * second,
	}
	t.Run("the window takes at most half of the time between the Retry-After and MaxElapsed", func(t *testing.T) {
		for left, want := range map[time.Duration]time.Duration{
			80 * second: 40 * second, 60 * second: 40 * second, 60*second - 2: 40*second - 1, 21 * second: 20500 * time.Millisecond,
			20*second + 2: 20*second + 1, 20*second + 1: 20 * second, 20 * second: 20 * second,
			20*second - 1: 40 * second, // there is no time for the Retry-After itself
		} {
			d := base.Next(retry.Attempt{Number: 1, Err: retry.After(20*second, errBoom), Elapsed: base.MaxElapsed - left, Seed: 7})
			assert.Equal(t, want, d.Hi, "%v left", left)
			assert.Equal(t, left >= 20*second, d.Reason == retry.ReasonRetry, "%v left", left)
		}
	})
	bubble(t, "the window takes at most half of the time between the Retry-After and the deadline", func(t *testing.T) {
		for left, want := range map[time.Duration]time.Duration{
			80 * second: 40 * second, 61 * second: 40 * second, 60 * second: 40 * second, 59 * second: 39500 * time.Millisecond,
			21 * second: 20500 * time.Millisecond, 20*second + 2: 20*second + 1, 20*second + 1: 20 * second,
			20 * second: 0, // the Retry-After itself ends at the deadline
		} {
			var told watch
			p := base
			p.MaxAttempts, p.MaxElapsed, p.OnEvent = 2, 0, told.event
			err := retry.Do(within(t.Context(), left, nil), p, failWith(retry.After(20*second, errBoom)))
			if want == 0 {
				assert.Equal(t, retry.ReasonDeadline, retry.ReasonOf(err))
				continue
			}
			assert.Equal(t, want, told.of(retry.RetryScheduled)[0].Hi, "%v left", left)
		}
	})
	bubble(t, "the wait may end late by half of the time that is left", func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 2, Jitter: retry.FullJitter, MaxElapsed: 22 * second}
		p.Wait = func(_ context.Context, d time.Duration) (time.Duration, error) {
			time.Sleep(d + second)
			return 0, nil
		}
		for range 100 {
			runs := 0
			_ = retry.Do(t.Context(), p, func(context.Context) error { runs++; return retry.After(20*second, errBoom) })
			require.Equal(t, 2, runs)
		}
	})
	bubble(t, "under Once, the deadline does not shorten the window", func(t *testing.T) {
		d, _ := retry.Once(within(t.Context(), 21*second, nil), base, retry.Attempt{Number: 1}, failWith(retry.After(20*second, errBoom)))
		assert.Equal(t, []any{retry.ReasonRetry, 40 * second}, []any{d.Reason, d.Hi})
	})
}

// Each row has the delay for a wait that a server asks for, in one mode. The window of the
// curve is 0 to 10s, and the delay drawn from it is 4.3s.
func TestRetryAfterModes(t *testing.T) {
	base := retry.Policy{
		MaxAttempts: 9, Backoff: retry.Fixed(10 * time.Second), Jitter: retry.FullJitter, MaxDelay: 20 * time.Second, MaxElapsed: time.Hour,
	}
	const seed = 7
	drawn := retry.Draw(seed, 1, 0, 10*time.Second)
	from := func(lo, hi, asked time.Duration) retry.Decision {
		d := retry.Decision{Reason: retry.ReasonRetry, Delay: retry.Draw(seed, 1, lo, hi), Lo: lo, Hi: hi, Number: 1, RetryAfter: asked, Seed: seed}
		return d
	}
	longer := askedFor(drawn+1, retry.ReasonRetry)
	longer.Seed = seed // the delay was drawn before it was raised
	for _, row := range []struct {
		name  string
		mode  retry.RetryAfterMode
		asked time.Duration
		want  retry.Decision
	}{
		{"spread: 1ns, which stands for a Retry-After of zero", retry.RetryAfterSpread, 1, from(1, 10*time.Second, 1)},
		{"spread: the window starts at the Retry-After", retry.RetryAfterSpread, 10 * time.Millisecond, from(10*time.Millisecond, 10*time.Second, 10*time.Millisecond)},
		{"spread: too long", retry.RetryAfterSpread, time.Minute + 1, askedFor(time.Minute+1, retry.ReasonRetryAfter)},

		{"at least: the drawn delay is longer", retry.RetryAfterAtLeast, drawn - 1, from(0, 10*time.Second, drawn-1)},
		{"at least: the drawn delay is as long", retry.RetryAfterAtLeast, drawn, from(0, 10*time.Second, drawn)},
		{"at least: the drawn delay is shorter", retry.RetryAfterAtLeast, drawn + 1, longer},
		{"exact: a negative wait has no effect", retry.RetryAfterExact, -time.Hour, from(0, 10*time.Second, 0)},
		{"exact: 1ns", retry.RetryAfterExact, 1, retry.Decision{Reason: retry.ReasonRetry, Delay: 10 * time.Millisecond, Lo: 10 * time.Millisecond, Hi: 10 * time.Millisecond, Number: 1, RetryAfter: 1}},
		{"exact: 10ms", retry.RetryAfterExact, 10 * time.Millisecond, askedFor(10*time.Millisecond, retry.ReasonRetry)},
		{"exact: too long", retry.RetryAfterExact, time.Minute + 1, askedFor(time.Minute+1, retry.ReasonRetryAfter)},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := base
			p.RetryAfter = row.mode
			assert.Equal(t, row.want, p.Next(retry.Attempt{Number: 1, Err: retry.After(row.asked, errBoom), Seed: seed}))
		})
	}
	t.Run("spread: for a Retry-After of 1ns, the window is not cut at MaxElapsed", func(t *testing.T) {
		for asked, want := range map[time.Duration]time.Duration{1: 10 * time.Second, 2: time.Second/2 + 1, 10*time.Millisecond - 1: 505*time.Millisecond - 1, 10 * time.Millisecond: 505 * time.Millisecond} {
			d := base.Next(retry.Attempt{Number: 1, Err: retry.After(asked, errBoom), Elapsed: time.Hour - time.Second, Seed: seed})
			assert.Equal(t, want, d.Hi, asked)
		}
	})
}
