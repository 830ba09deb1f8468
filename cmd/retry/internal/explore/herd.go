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

// A moment is a retry of one client at one time.
type moment struct {
	at     time.Duration
	client int
}

// A herd is a number of clients whose first attempts all fail when an outage begins. Each client
// retries until an attempt succeeds or the client gives up. An attempt succeeds if it starts after
// the outage. An attempt takes no time.
type herd struct {
	moments []moment // the retries of all clients, in the order of their times
	back    int      // how many clients succeed after the outage
}

// mostRetries is the largest number of retries that are computed for one client.
const mostRetries = 1000

// momentsOf returns the times at which clients retry without a budget. drawn is true if jitter
// makes these times random. ok is false if a client makes mostRetries retries or more in the
// outage.
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

// herdOf returns the herd of clients that share a budget. If shared is nil, the clients have no
// budget. A client gives up when the budget refuses its retry.
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

// columns is the number of steps of the curve that rate returns.
const columns = 500

// rate returns a curve of the retries per second from 0 to end, and the largest number of retries
// in any window of time. A window can end at any time. Many windows end between two points of the
// curve. The later point shows the most retries in any of these windows.
func (h *herd) rate(end, window time.Duration) (points []point, most int) {
	first, next := 0, 0 // moments[first:next] are in the window
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
