package explore

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

// All retries count, however many they are. The number of steps is bounded.
func TestHerd(t *testing.T) {
	const s = time.Second
	assert.Equal(t, 1_500_000.0, herdOf(retry.Policy{MaxElapsed: 5 * time.Minute, Backoff: retry.Fixed(200 * time.Millisecond)}, 1000, time.Hour).during())
	fast := retry.Policy{MaxAttempts: 1_000_000, Backoff: retry.Fixed(time.Millisecond)}
	assert.Equal(t, 9999.0, herdOf(fast, 1, 10*s).during())
	assert.Nil(t, herdOf(fast, 1, 10*s+1))
	fast.Jitter = retry.FullJitter // 20,000 in the mean
	assert.Nil(t, herdOf(fast, 1, 10*s))
	assert.InEpsilon(t, 400, herdOf(fast, 1000, s/5).during()/1000, 0.02)

	// If fewer clients are drawn, each stands for more.
	many := retry.Policy{MaxAttempts: 1001, Backoff: retry.Fixed(time.Millisecond), Jitter: retry.FullJitter}
	h := herdOf(many, 100_000, time.Minute)
	assert.InDelta(t, maxDraws, len(h.moments), 1000)
	assert.InDelta(t, 1000*100_000, h.during(), 1)
	assert.False(t, h.about)
}

// What a herd says is drawn is drawn, and nothing else.
func TestDrawn(t *testing.T) {
	jitter := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.EqualJitter} // 0.5s to 1s, 1s to 2s
	elapsed := func(d time.Duration) retry.Policy { p := jitter; p.MaxElapsed = d; return p }
	long := retry.Policy{MaxElapsed: 2 * time.Second, Backoff: retry.Fixed(time.Second), Jitter: retry.FullJitter}
	for _, test := range []struct {
		name          string
		p             retry.Policy
		outage        time.Duration
		about, unsure bool
		sure          float64
	}{
		{"all retries are during the outage", jitter, 2*time.Second + 1, false, false, 20},
		{"the last may be after it", jitter, 2 * time.Second, true, true, 10},
		{"the first may be after it, and else the last is", jitter, time.Second, true, false, 0},
		{"the first is after it", jitter, time.Second / 2, false, false, 0},
		{"there is time for all", elapsed(2 * time.Second), time.Minute, false, false, 20},
		{"there may be time for the last", elapsed(2*time.Second - 1), time.Minute, true, false, 10},
		{"there may be time for none", elapsed(time.Second - 1), time.Minute, true, false, 0},
		{"there may be time for the last after it", elapsed(2*time.Second - 2), time.Second, true, true, 0},
		{"there is time until a retry after it", long, time.Second, true, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := herdOf(test.p, 10, test.outage)
			assert.True(t, h.drawn)
			assert.Equal(t, test.about, h.about)
			assert.Equal(t, test.unsure, h.unsure)
			assert.Equal(t, test.sure, h.sure)
		})
	}
	// A budget that is used up makes exact what was not.
	h := herdOf(jitter, 10, 2*time.Second)
	assert.False(t, h.spend(10, 0).about || h.spend(10, 0).unsure)
	assert.True(t, h.spend(11, 0).about && h.spend(11, 0).unsure)
}

// Each client of a herd does what Policy.Next says, and pays from a retry.Budget.
func TestHerdIsNext(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	delay := func() time.Duration {
		return []time.Duration{0, 1, 3 * time.Millisecond, 200 * time.Millisecond, time.Second, time.Hour, math.MaxInt64}[random.IntN(7)]
	}
	type one struct {
		at     time.Duration
		client int
	}
	returned, denied := 0, 0
	for range 2000 {
		p := retry.Policy{
			MaxAttempts: 1 + random.IntN(8), MaxDelay: delay(), MaxElapsed: delay(), AttemptTimeout: delay(),
			Backoff: []retry.Backoff{retry.Fixed(delay()), retry.Linear(delay()), retry.Exponential{Base: delay()}}[random.IntN(3)],
			Jitter:  []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0.3)}[random.IntN(4)],
		}
		clients, size, ratio := 1+random.IntN(9), 1+random.IntN(20), []float64{0, 0.1, 0.5, 1}[random.IntN(4)]
		outage := max(time.Millisecond, min(24*time.Hour, delay()))

		var all []one
		seeds := rand.New(rand.NewPCG(1, 2))
		for client := range clients {
			seed, at := max(1, seeds.Uint64()), time.Duration(0)
			for n := 1; at < outage || n == 1; n++ {
				d := p.Next(retry.Attempt{Number: n, Elapsed: at, Seed: seed})
				if !d.Retry() || d.Delay > math.MaxInt64-at {
					break
				}
				at += d.Delay
				all = append(all, one{at, client})
			}
		}
		slices.SortStableFunc(all, func(a, b one) int { return int(max(-1, min(1, a.at-b.at))) })
		h := herdOf(p, clients, outage)
		require.NotNil(t, h)
		if p.Jitter == nil {
			require.Equal(t, [4]any{false, false, false, h.during()}, [4]any{h.drawn, h.about, h.unsure, h.sure})
		}
		for _, of := range []struct {
			*herd
			budget *retry.Budget
		}{{h, &retry.Budget{Size: len(all) + 1}}, {h.spend(size, ratio), &retry.Budget{Size: size, Ratio: ratio}}} {
			var want, got []time.Duration
			empty, back := map[int]bool{}, 0
			for _, one := range all {
				if empty[one.client] = empty[one.client] || !of.budget.Take(); empty[one.client] {
					denied++
					continue
				}
				if want = append(want, one.at); one.at >= outage {
					of.budget.Success()
					back++
				}
			}
			for _, m := range of.moments {
				for range int(math.Round(m.clients)) {
					got = append(got, m.at)
				}
			}
			require.Equal(t, want, got, "%v, outage %v, budget %d %v", p, outage, size, ratio)
			require.InDelta(t, back, of.back, 1e-9)
			require.InDelta(t, len(want)-back, of.during(), 1e-9)
			returned += back
		}
	}
	assert.Greater(t, returned, 500)
	assert.Greater(t, denied, 500)
}

func TestRate(t *testing.T) {
	// A window begins anywhere: these two are in one, on both sides of a bin's end.
	h := &herd{moments: []moment{{990 * time.Millisecond, 3}, {1010 * time.Millisecond, 4}}}
	points, most := h.rate(5*time.Second, 100*time.Millisecond)
	assert.Equal(t, 7.0, most)
	assert.Equal(t, point{1e9, 30}, points[100])
	assert.Equal(t, point{1.01e9, 70}, points[101])
	assert.Equal(t, point{1.08e9, 70}, points[108])
	assert.Equal(t, point{1.09e9, 40}, points[109])
	assert.Equal(t, point{1.1e9, 40}, points[110])
	assert.Equal(t, point{1.12e9, 0}, points[112])
	_, most = h.rate(5*time.Second, 20*time.Millisecond)
	assert.Equal(t, 4.0, most, "a window of 20ms has not both ends")

	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		h, end, window := &herd{}, time.Duration(1+random.IntN(3000)), time.Duration(1+random.IntN(100))
		for range random.IntN(60) {
			h.moments = append(h.moments, moment{time.Duration(random.Int64N(int64(end) + 1)), float64(random.IntN(5))})
		}
		slices.SortFunc(h.moments, func(a, b moment) int { return int(a.at - b.at) })
		fullest := 0.0
		for _, last := range h.moments {
			within := 0.0
			for _, m := range h.moments {
				if last.at-window < m.at && m.at <= last.at {
					within += m.clients
				}
			}
			fullest = max(fullest, within)
		}
		points, most := h.rate(end, window)
		highest := slices.MaxFunc(points, func(a, b point) int { return int(max(-1, min(1, a.y-b.y))) })
		require.Equal(t, fullest, most)
		require.InDelta(t, fullest, highest.y*window.Seconds(), 1e-9)
	}
}

func TestLoad(t *testing.T) {
	p := retry.Policy{MaxAttempts: 6, Backoff: retry.Fixed(3 * time.Second)}
	for failing, want := range map[float64]float64{0: 1, 0.5: 1 + 0.5 + 0.25 + 0.125, 1: 4} { // the outage ends before the last two retries
		assert.InDelta(t, want, herdOf(p, 7, 10*time.Second).load(failing, 7), 1e-12)
	}
	for _, test := range []struct{ failing, ratio, want float64 }{
		{1, 0.5, 1.1},         // what the budget holds
		{0.5, 0, 1.1},         // likewise
		{0.5, 0.2, 1.1 / 0.9}, // 1.1 + 0.1 for each attempt
	} {
		assert.InEpsilon(t, test.want, allowedLoad(test.failing, 100, 10, test.ratio), 1e-12)
	}
	assert.True(t, math.IsInf(allowedLoad(0, 100, 10, 1), 1), "a retry for each success")
}

func TestNumber(t *testing.T) {
	for _, test := range []struct {
		v     float64
		about bool
		want  string
	}{
		{0, false, "0"}, {1.04, false, "1"}, {193.75, false, "193.8"}, {999.94, false, "999.9"}, {999.96, false, "1,000"},
		{1234.5, false, "1,235"}, {9_999_999.9999999, false, "10,000,000"},
		{0, true, "about 0"}, {0.6, true, "about 1"}, {93.4, true, "about 93"}, {933, true, "about 930"}, {995, true, "about 1,000"}, {1e12, true, "about 1,000,000,000,000"},
	} {
		assert.Equal(t, test.want, number(test.v, test.about))
	}
	assert.Equal(t, "1 retry", counted(1, false, "retry", "retries"))
	assert.Equal(t, "about 1 retries", counted(1, true, "retry", "retries"))
}
