package retrysim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
)

const (
	mostAttempts = 1_000_000 // that a request can become
	endless      = 1000      // the attempts of a call without a limit, for this
	largeRun     = 200_000   // events: a larger system is made smaller
	leastPool    = 50        // of each of its pools, queues and budgets, so that chance is still a small part
	longRun      = 2_000_000 // events: it is not prolonged further
)

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
				return fmt.Errorf("%s: services.%s.calls[%d].retry: a call from outside can become %.2g attempts at %s, because those of each layer multiply, and more than %d take too long: write fewer max_attempts in one of the layers",
					invalidSystem, name, i, attempts[e.To], e.To, mostAttempts)
			}
		}
	}
	rows := 100 * float64(s.seconds()) * float64(len(order)) // the results of a second count, because they take memory
	if events, most := rows+s.events(order), cmp.Or(s.MaxEvents, MaxEvents); events > float64(most) {
		return fmt.Errorf("%s: it takes about %.2g events without a single retry, more than %d: write a shorter duration or a lower rate", invalidSystem, events, most)
	}
	return nil
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
		divides(v.Workers)
		divides(v.Queue)
		for _, e := range v.Calls {
			switch b := e.Policy.Budget; {
			case b != nil && v.Clients > 1:
				divides(v.Clients)
			case b != nil:
				divides(b.Size)
			}
		}
	}
	for _, t := range s.Events {
		if t.Change == Workers {
			divides(int(t.Value))
		}
	}
	return max(1, scale)
}

// divided returns s with this part of its calls, workers, places in queues, and clients,
// or budgets where there is one client.
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
	budgets := map[*retry.Budget]*retry.Budget{}
	return s.with(func(_ string, v *Service) {
		if workers := v.Workers; workers > 0 {
			v.Workers = part(workers)
			v.Work = time.Duration(float64(v.Work) * float64(v.Workers*by) / float64(workers)) // so that they can do as much
		}
		v.Rate /= float64(by)
		if v.Queue > 0 {
			v.Queue = part(v.Queue)
		}
		if v.Clients > 1 {
			v.Clients = part(v.Clients)
			return
		}
		for i, e := range v.Calls {
			if b := e.Policy.Budget; b != nil && budgets[b] == nil {
				budgets[b] = &retry.Budget{Size: part(b.Size), Ratio: b.Ratio, RefillEvery: b.RefillEvery * time.Duration(by)}
			}
			v.Calls[i].Policy.Budget = budgets[e.Policy.Budget]
		}
	})
}
