package explore

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim"
)

// A moment is a time at which a client retries.
type moment struct {
	at     time.Duration
	client int
}

// A herd is a number of clients that all fail when an outage begins. Each client retries until it
// succeeds or gives up. Every attempt that starts after the outage succeeds. An attempt takes no
// time.
type herd struct {
	moments []moment // the retries of all clients, in the order of time
	back    int      // how many clients succeed after the outage
}

// mostRetries is how many retries of a client are computed.
const mostRetries = 1000

// momentsOf returns when clients retry without a budget, and in drawn, whether jitter draws these
// times. ok is false if a client makes mostRetries retries or more in the outage.
func momentsOf(p retry.Policy, clients int, outage time.Duration) (all []moment, drawn, ok bool) {
	plan, end := p.Plan(mostRetries), p.MaxElapsed
	if end == 0 {
		end = math.MaxInt64
	}
	random := rand.New(rand.NewPCG(1, 2))
	for client := range clients {
		seed, at := max(1, random.Uint64()), time.Duration(0)
		for i, step := range plan {
			delay := retry.Draw(seed, i+1, step.Lo, step.Hi)
			if delay > end-at {
				break
			}
			at += delay
			drawn = drawn || step.Lo < step.Hi
			if all = append(all, moment{at, client}); at >= outage {
				break
			}
			if i+1 == mostRetries {
				return nil, false, false
			}
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all, drawn, true
}

// herdOf returns the herd whose clients share a budget. If shared is nil they have no budget. A
// client gives up when the budget does not allow its retry.
func herdOf(all []moment, outage time.Duration, shared *retry.Budget) *herd {
	budget := retrysim.NewBudget(shared)
	h, retries, gone := &herd{}, map[int]int{}, map[int]bool{}
	for _, m := range all {
		retries[m.client]++
		if gone[m.client] = gone[m.client] || !budget.Take(m.at, retries[m.client]); gone[m.client] {
			continue
		}
		h.moments = append(h.moments, m)
		if m.at >= outage {
			h.back++
			budget.Success(m.at)
		}
	}
	return h
}

// columns is how many steps a curve of rate has.
const columns = 500

// rate returns a curve of the retries per second from 0 to end, and the largest number of retries
// in any window of time. Many windows end after one point and not after the next point. The next
// point shows the window among them with the most retries.
func (h *herd) rate(end, window time.Duration) (points []point, most int) {
	first, next := 0, 0 // the moments within the window
	within := func(until time.Duration) int {
		for first < next && h.moments[first].at <= until-window {
			first++
		}
		return next - first
	}
	for i := range columns + 1 {
		x, fullest := float64(end)*float64(i)/columns, 0
		for next < len(h.moments) && float64(h.moments[next].at) <= x {
			next++
			fullest = max(fullest, within(h.moments[next-1].at))
		}
		fullest = max(fullest, within(time.Duration(x)))
		points = append(points, point{x, float64(fullest) / window.Seconds()})
		most = max(most, fullest)
	}
	return points, most
}
