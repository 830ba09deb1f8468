package retrysim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/goretry/retry"
)

const (
	mostAttempts = 1_000_000 // that a request can become
	endless      = 1000      // the attempts of a call without a limit, for this
	largeRun     = 200_000   // events: a larger system is made smaller
	leastPool    = 50        // of each of its pools, queues and budgets, so that chance is still a small part
	mostRows     = 2_000_000 // of results, for each second of each service: 112 MB
	longRun      = 2_000_000 // events: it is not prolonged further
)

var mostBytes = 256 << 20 // of a run, beside its results; a variable for the tests

// checkSize refuses a system that takes too long to simulate even if no attempt
// fails, or if they all do.
func (s System) checkSize(order []string) error {
	attempts := map[string]float64{}
	for _, name := range order {
		attempts[name] = max(1, attempts[name])
		for i, e := range s.Services[name].Calls {
			limit := e.Policy.EffectiveMax()
			if limit < 0 {
				limit = endless
			}
			if attempts[e.To] = max(attempts[e.To], attempts[name]*float64(limit)); attempts[e.To] > mostAttempts {
				at := fmt.Sprintf("services.%s.calls[%d].retry", name, i)
				return fault(at, "%s: a call from outside can become %.2g attempts at %s, because those of each layer multiply, and more than %d take too long: write fewer max_attempts in one of the layers",
					at, attempts[e.To], e.To, mostAttempts)
			}
		}
	}
	if rows := float64(s.seconds()+s.patience()) * float64(len(order)); rows > mostRows {
		return fault("", "its results are %.2g rows, one for each second of each service, more than %d: write a shorter duration or patience", rows, mostRows)
	}
	if events := s.events(order); events > MaxEvents {
		return fault("", "it takes about %.2g events without a single retry, more than %d: write a shorter duration or a lower rate", events, MaxEvents)
	}
	return nil
}

// patience returns for how many seconds the last calls are waited for.
func (s System) patience() (seconds int) {
	for _, v := range s.Services {
		if v.Rate > 0 {
			seconds = max(seconds, wholeSeconds(cmp.Or(v.Patience, defaultPatience)))
		}
	}
	return seconds
}

// bytes returns how much memory a run holds, beside its results: the requests in flight, the
// queues, the timers, and the budgets of clients. Entries that are stale count too.
func (e *engine) bytes() int {
	const perClient = 16 // of a map, beside what it holds
	entries, clients := 0, 0
	for i := range e.services {
		v := &e.services[i]
		entries += cap(v.queue)
		for k := range v.edges {
			entries += cap(v.edges[k].timeouts)
			if b := v.edges[k].budget; b != nil {
				clients += len(b.of)
			}
		}
	}
	requests := e.live + len(e.free)
	return requests*int(unsafe.Sizeof(request{})) + cap(e.events.events)*int(unsafe.Sizeof(event{})) +
		entries*int(unsafe.Sizeof(entry{})) + clients*(perClient+int(unsafe.Sizeof(held{})))
}

// events returns about how many events a run takes if no attempt fails.
func (s System) events(order []string) float64 {
	peak := func(name string) float64 {
		rate := s.Services[name].Rate
		for _, t := range s.Events {
			if t.Change == Rate && t.Service == name {
				rate = max(rate, t.Value)
			}
		}
		return rate
	}
	load := 0.0
	for _, of := range s.normal(order, peak) {
		load += of
	}
	return 2 * load * float64(s.seconds())
}

// scale returns by what s is divided to be simulated: 1 if it is not large, or if a
// part of it would get so small that queues are not what they were.
func (s System) scale() int {
	order, _ := s.order()
	scale := int(s.events(order) / largeRun)
	divides := func(part int) {
		if part > 0 {
			scale = min(scale, part/leastPool)
		}
	}
	for _, v := range s.Services {
		for _, part := range v.parts() {
			divides(*part)
		}
	}
	for _, t := range s.Events {
		if t.Change == Workers {
			divides(int(t.Value))
		}
	}
	return max(1, scale)
}

// parts returns what is divided of a service beside its rate: workers, places in the
// queue, and clients, or the sizes of budgets where there is one client.
func (v *Service) parts() []*int {
	if v.Clients > 1 {
		return []*int{&v.Workers, &v.Queue, &v.Clients}
	}
	parts := []*int{&v.Workers, &v.Queue}
	for _, e := range v.Calls {
		if b := e.Policy.Budget; b != nil && !slices.Contains(parts, &b.Size) {
			parts = append(parts, &b.Size)
		}
	}
	return parts
}

// divided returns s with this part of its calls and of what handles them.
func (s System) divided(by int) System {
	if by == 1 {
		return s
	}
	s.part = by
	part := func(n int) int { return int(math.Round(float64(n) / float64(by))) }
	s.Events = slices.Clone(s.Events)
	for i, t := range s.Events {
		switch t.Change {
		case Rate:
			s.Events[i].Value /= float64(by)
		case Workers:
			s.Events[i].Value = float64(part(int(t.Value)))
		}
	}
	return s.with(func(_ string, v *Service) {
		own := map[*retry.Budget]*retry.Budget{nil: nil}
		for i, e := range v.Calls {
			if b := e.Policy.Budget; own[b] == nil && b != nil {
				own[b] = &retry.Budget{
					Size: b.Size, Ratio: b.Ratio, RefillEvery: b.RefillEvery, Remember: b.Remember, Grace: b.Grace,
				}
				if v.Clients <= 1 {
					own[b].RefillEvery *= time.Duration(by)
				}
			}
			v.Calls[i].Policy.Budget = own[e.Policy.Budget]
		}
		workers := float64(v.Workers)
		for _, n := range v.parts() {
			if *n > 0 {
				*n = part(*n)
			}
		}
		if v.Rate /= float64(by); v.Workers > 0 {
			v.Work = time.Duration(float64(v.Work) * float64(v.Workers*by) / workers) // so that they can do as much
		}
	})
}
