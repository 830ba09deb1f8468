package explore

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/preview"
)

// momentsOf gives up if a client makes too many retries.
func TestMomentsGiveUpAfterTooManyRetries(t *testing.T) {
	fast := retry.Policy{MaxAttempts: 1_000_000, Backoff: retry.Fixed(time.Millisecond)}
	all, drawn, ok := momentsOf(fast, 3, 999*time.Millisecond)
	assert.Equal(t, []any{3 * 999, false, true}, []any{len(all), drawn, ok})
	_, _, ok = momentsOf(fast, 3, 1001*time.Millisecond)
	assert.False(t, ok)
	fast.Jitter = retry.FullJitter
	all, drawn, ok = momentsOf(fast, 1000, 200*time.Millisecond)
	assert.Equal(t, []any{true, true}, []any{drawn, ok})
	assert.InEpsilon(t, 400, len(all)/1000, 0.02)
}

// Each client of a herd retries when Policy.Next says, and takes its retries from a retry.Budget.
func TestHerdRetriesWhenPolicyNextSays(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	delay := func() time.Duration {
		return []time.Duration{0, 1, 3 * time.Millisecond, 200 * time.Millisecond, time.Second, time.Hour, math.MaxInt64}[random.IntN(7)]
	}
	returned, denied := 0, 0
	for range 2000 {
		p := retry.Policy{
			MaxAttempts: 1 + random.IntN(8), MaxDelay: delay(), MaxElapsed: delay(), AttemptTimeout: delay(),
			Backoff: []retry.Backoff{retry.Fixed(delay()), retry.Linear(delay()), retry.Exponential{Base: delay()}}[random.IntN(3)],
			Jitter:  []retry.Jitter{nil, retry.FullJitter, retry.EqualJitter, retry.Proportional(0.3)}[random.IntN(4)],
		}
		clients, outage := 1+random.IntN(9), max(time.Millisecond, min(24*time.Hour, delay()))
		var want []moment
		seeds := rand.New(rand.NewPCG(1, 2))
		for client := range clients {
			seed, at := max(1, seeds.Uint64()), time.Duration(0)
			for n := 1; at < outage || n == 1; n++ {
				d := p.Next(retry.Attempt{Number: n, Elapsed: at, Seed: seed})
				if !d.Retry() || d.Delay > math.MaxInt64-at {
					break
				}
				at += d.Delay
				want = append(want, moment{at, client})
			}
		}
		slices.SortStableFunc(want, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
		got, drawn, ok := momentsOf(p, clients, outage)
		require.True(t, ok)
		require.Equal(t, want, got, "%v, outage %v", p, outage)
		require.False(t, drawn && p.Jitter == nil)

		size := 1 + random.IntN(20)
		h, none := herdOf(got, outage, &retry.Budget{Size: size}), herdOf(got, outage, nil)
		require.Equal(t, got, none.moments)
		require.LessOrEqual(t, len(h.moments), size)
		require.GreaterOrEqual(t, h.back, none.back-(len(got)-len(h.moments)))
		full := herdOf(got, outage, &retry.Budget{Size: size, Ratio: 1})
		require.GreaterOrEqual(t, full.back, h.back, "each success adds a retry to the budget")
		returned, denied = returned+h.back, denied+len(got)-len(h.moments)
	}
	assert.Greater(t, returned, 500)
	assert.Greater(t, denied, 500)
}

// A client whose retry is refused makes no later retry. Another client takes the retry that a
// success adds to the budget.
func TestRefusedClientMakesNoLaterRetry(t *testing.T) {
	all := []moment{{1, 0}, {1, 1}, {2, 0}, {5, 2}, {6, 0}, {6, 3}}
	for _, tc := range []struct {
		budget *retry.Budget
		want   []moment
		back   int
	}{
		{nil, all, 3},
		{&retry.Budget{Size: 1}, []moment{{1, 0}}, 0},
		{&retry.Budget{Size: 3, Ratio: 1}, []moment{{1, 0}, {1, 1}, {2, 0}}, 0},
		{&retry.Budget{Size: 4, Ratio: 1}, []moment{{1, 0}, {1, 1}, {2, 0}, {5, 2}, {6, 0}, {6, 3}}, 3},
		{&retry.Budget{Size: 4}, []moment{{1, 0}, {1, 1}, {2, 0}, {5, 2}}, 1},
		{&retry.Budget{Size: 1, Grace: 5}, []moment{{1, 0}, {1, 1}, {2, 0}, {5, 2}}, 1},
		{&retry.Budget{Size: 1, Grace: 4}, []moment{{1, 0}, {1, 1}, {2, 0}}, 0},
	} {
		h := herdOf(all, 5, tc.budget)
		assert.Equal(t, herd{tc.want, tc.back}, *h, tc.budget)
	}
}

func TestRate(t *testing.T) {
	// A window can start at any time. These moments are in one window, before and after a point of the
	// curve.
	h := &herd{moments: slices.Concat(slices.Repeat([]moment{{990 * time.Millisecond, 0}}, 3), slices.Repeat([]moment{{1010 * time.Millisecond, 0}}, 4))}
	points, most := h.rate(5*time.Second, 100*time.Millisecond)
	assert.Equal(t, 7, most)
	for i, want := range map[int]float64{100: 30, 101: 70, 108: 70, 109: 40, 110: 40, 112: 0} {
		assert.Equal(t, point{float64(i) * 1e7, want}, points[i])
	}
	_, most = h.rate(5*time.Second, 20*time.Millisecond)
	assert.Equal(t, 4, most, "a window of 20ms does not contain both times")

	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		h, end, window := &herd{}, time.Duration(1+random.IntN(3000)), time.Duration(1+random.IntN(100))
		for range random.IntN(60) {
			h.moments = append(h.moments, moment{time.Duration(random.Int64N(int64(end) + 1)), 0})
		}
		slices.SortFunc(h.moments, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
		fullest := 0
		for _, last := range h.moments {
			within := 0
			for _, m := range h.moments {
				if last.at-window < m.at && m.at <= last.at {
					within++
				}
			}
			fullest = max(fullest, within)
		}
		points, most := h.rate(end, window)
		highest := slices.MaxFunc(points, func(a, b point) int { return cmp.Compare(a.y, b.y) })
		require.Equal(t, fullest, most)
		require.InDelta(t, fullest, highest.y*window.Seconds(), 1e-9)
	}
}

func TestNumberIsRounded(t *testing.T) {
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
	assert.Equal(t, "0 retries", counted(0, true, "retry", "retries"))
}

// Clients whose policy has no Budget share the default Budget of a target, with all its fields.
func TestOutageSharesTheDefaultBudget(t *testing.T) {
	p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}
	var targets retry.Budgets
	budget, _ := targets.For("a target")
	assert.Equal(t, budget, outageFor(p).Shared)
	assert.Positive(t, outageFor(p).Shared.Grace)
	p.Budget = &retry.Budget{Size: 3}
	assert.Equal(t, p.Budget, outageFor(p).Shared)

	html := pageOf(t, "policy.yaml", "max_attempts: 3\nbackoff: {type: fixed, base: 1s}\n", "")
	for _, line := range strings.Split(preview.BudgetText(budget), ", ") {
		assert.Contains(t, html, line)
	}
}
