package explore

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/preview"
	"github.com/goretry/retry/retrysim"
)

// A moment is the time of one retry, with the client that makes the retry.
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

// momentsOf returns the times at which clients retry without a budget. The result `drawn` is true
// if jitter makes these times random. The result `ok` is false if a client makes mostRetries
// retries or more in the outage.
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

// herdOf returns the herd of clients that share a budget. If the parameter `shared` is nil, the
// clients have no budget. A client gives up when the budget refuses its retry.
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

// columns is the number of steps of the curve that the method `rate` returns.
const columns = 500

// rate returns a curve of the retries per second from 0 to the time `end`. It counts the retries in
// time windows of the length `window`, and a window can end at any time. Each point of the curve
// shows the fullest of the windows that end in the step from the previous point to this point. The
// result `most` is the number of retries in the fullest window of the whole curve.
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

// describe returns one sentence about a herd. The parameter `most` is the largest number of retries
// in one window.
func (h *herd) describe(clients, most int, window time.Duration, drawn bool) string {
	text := "no retry"
	if n := len(h.moments); n > 0 {
		text = fmt.Sprintf("%s, at most %s of them in any %s, which is %s per second",
			counted(n, drawn, "retry", "retries"), number(float64(most), drawn),
			preview.Brief(window), number(float64(most)/window.Seconds(), drawn))
	}
	text += fmt.Sprintf("; %s up", counted(clients-h.back, drawn, "client gives", "clients give"))
	if h.back > 0 {
		at := h.moments[len(h.moments)-1].at
		last := preview.Brief(at)
		if drawn {
			last = "about " + preview.Brief(at.Round(window))
		}
		text += fmt.Sprintf(", %s after the outage, the last at %s",
			counted(h.back, drawn, "succeeds", "succeed"), last)
	}
	return text + "."
}

// An outage describes the outage that the charts of a policy show.
type outage struct {
	Outage  time.Duration // how long attempts fail
	Clients int           // how many clients fail at the same time
	Shared  *retry.Budget // the budget of the policy, or the default budget of a target
}

// outageFor returns an outage that is long enough for several retries of the policy.
func outageFor(p retry.Policy) outage {
	o := outage{
		Outage:  shortest,
		Clients: clients,
		Shared:  cmp.Or(p.Budget, preview.TargetBudget()),
	}
	if plan := p.Plan(maxRows); len(plan) > 0 {
		o.Outage = min(longest, max(shortest, timeStep(plan[len(plan)-1].Total)))
	}
	return o
}
