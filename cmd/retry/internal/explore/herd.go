package explore

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/cmd/retry/internal/preview"
)

// A moment is a time at which clients retry.
type moment struct {
	at      time.Duration
	clients float64 // not whole if fewer clients were drawn than there are
}

// A herd is what clients do that all fail when an outage begins. Each retries
// until it succeeds, as every attempt does that starts after the outage, or gives
// up. An attempt takes no time.
type herd struct {
	moments []moment  // in order of time
	made    []float64 // how many clients make their first, second, ... retry during the outage
	back    float64   // how many succeed after it
	sure    float64   // the retries during the outage that are made whatever is drawn
	drawn   bool      // the times are drawn
	about   bool      // so is how many of them are during the outage
	unsure  bool      // so is how many clients succeed after it
}

// A herd has at most about maxDraws moments: where clients make more retries, fewer
// clients are drawn.
const maxDraws = 1 << 20

// herdOf returns nil if a client makes more retries in the outage than a plan has.
func herdOf(p retry.Policy, clients int, outage time.Duration) *herd {
	h := &herd{}
	plan, end := p.Plan(retry.Unlimited), p.MaxElapsed
	if end == 0 {
		end = math.MaxInt64
	}
	inside := min(outage-1, end) // the last moment of a retry during the outage
	earliest, latest := time.Duration(0), time.Duration(0)
	for _, step := range plan {
		if earliest >= outage {
			break
		}
		earliest, latest = preview.Add(earliest, step.Lo), preview.Add(latest, step.Hi)
		h.drawn = h.drawn || step.Lo < step.Hi
		h.about = h.about || earliest <= inside && inside < latest
		h.unsure = h.unsure || end >= outage && earliest <= end && end < min(latest, preview.Add(inside, step.Hi))
		if latest <= inside {
			h.sure += float64(clients)
		}
	}
	h.unsure = h.unsure || end >= outage && len(plan) < preview.MostSteps && earliest < outage && outage <= latest
	if !h.draw(plan, clients, outage, end) {
		return nil
	}
	return h
}

// draw draws the retries of each client, and reports whether the plan was long
// enough. Without jitter all clients do the same.
func (h *herd) draw(plan retry.Plan, clients int, outage, end time.Duration) bool {
	random, draws, done := rand.New(rand.NewPCG(1, 2)), 1, 0
	if h.drawn {
		draws = clients
	}
	for ; done < draws && len(h.moments) < maxDraws; done++ {
		seed, at := max(1, random.Uint64()), time.Duration(0)
		for i, step := range plan {
			delay := retry.Draw(seed, step.Attempt, step.Lo, step.Hi)
			if delay > end-at {
				break
			}
			at += delay
			h.moments = append(h.moments, moment{at, 1})
			if at >= outage {
				h.back++
				break
			}
			if i == len(h.made) {
				h.made = append(h.made, 0)
			}
			if h.made[i]++; i+1 == preview.MostSteps {
				return false
			}
		}
	}
	each := float64(clients) / float64(done)
	for i := range h.moments {
		h.moments[i].clients = each
	}
	for i := range h.made {
		h.made[i] *= each
	}
	h.back *= each
	slices.SortFunc(h.moments, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return true
}

// during returns how many retries there are during the outage.
func (h *herd) during() (sum float64) {
	for _, clients := range h.made {
		sum += clients
	}
	return sum
}

// spend returns h where all clients share a budget. No call succeeds during the
// outage, so it allows the first retries, as many as it holds. What it still has
// after the outage is refilled by those that succeed.
func (h *herd) spend(size int, ratio float64) *herd {
	during := h.during()
	left := &retry.Budget{Size: size - int(math.Round(min(during, float64(size)))), Ratio: ratio}
	back := 0.0
	for back < math.Round(h.back) && left.Take() {
		left.Success()
		back++
	}
	more := h.sure < float64(size) // it may hold more than is taken during the outage
	spent := &herd{back: back, drawn: h.drawn, about: h.about && more, unsure: (h.about || h.unsure) && more, made: []float64{min(during, float64(size))}}
	allowed := spent.made[0] + back
	for _, m := range h.moments {
		if allowed <= 0 {
			break
		}
		m.clients = min(m.clients, allowed)
		allowed -= m.clients
		spent.moments = append(spent.moments, m)
	}
	return spent
}

// last returns the time of the last retry.
func (h *herd) last() time.Duration {
	if len(h.moments) == 0 {
		return 0
	}
	return h.moments[len(h.moments)-1].at
}

// columns is how many points a rate has.
const columns = 500

// rate returns the retries per second up to an end, and the most retries in any
// window of time. Each point has the fullest of the windows that end there, or at a
// retry since the point before.
func (h *herd) rate(end, window time.Duration) (points []point, most float64) {
	first, next, within := 0, 0, 0.0
	leave := func(until time.Duration) {
		for ; first < next && h.moments[first].at <= until; first++ {
			within -= h.moments[first].clients
		}
		if first == next {
			within = 0 // without what rounding leaves
		}
	}
	for i := range columns + 1 {
		x, fullest := float64(end)*float64(i)/columns, 0.0
		for ; next < len(h.moments) && float64(h.moments[next].at) <= x; next++ {
			leave(h.moments[next].at - window)
			within += h.moments[next].clients
			fullest = max(fullest, within)
		}
		leave(time.Duration(x) - window)
		points = append(points, point{x, max(fullest, within) / window.Seconds()})
		most = max(most, fullest)
	}
	return points, most
}

// load returns the attempts of each call that begins when the outage does, where
// this share of the attempts during it fails.
func (h *herd) load(failing float64, clients int) float64 {
	retries := 0.0
	for _, made := range slices.Backward(h.made) {
		retries = failing * (made/float64(clients) + retries)
	}
	return 1 + retries
}

// allowedLoad returns the most attempts of each call that a budget allows for this
// many calls: as many retries as it holds, and ratio for each attempt that
// succeeds.
func allowedLoad(failing float64, clients, size int, ratio float64) float64 {
	refill := ratio * (1 - failing)
	return 1 + (float64(size)/float64(clients)+refill)/(1-refill)
}
