package retrysim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
)

const (
	mostAttempts = 1_000_000 // the most attempts that one call from outside may cause at a service
	endless      = 1000      // the assumed limit of a call that has no limit on attempts
	largeRun     = 200_000   // a system is divided (see Answer.Scale) if its run takes more events
	leastPool    = 50        // no pool is divided below this size: chance dominates in small pools
	mostRows     = 2_000_000 // the most rows of a Result, one for each second and service: 112 MB
	longRun      = 2_000_000 // prolong does not lengthen a run to more events than this
)

// checkSize returns an error if the simulation of s would take too long. It considers two cases:
// no attempt fails, or every attempt fails.
func (s System) checkSize(order []string) error {
	if err := s.checkAttempts(order); err != nil {
		return err
	}
	if rows := float64(s.seconds()+s.patience()) * float64(len(order)); rows > mostRows {
		return fault("", "the result would have %.2g rows, one for each second of each service, "+
			"more than %d: write a shorter duration or patience", rows, mostRows)
	}
	if events := s.events(order); events > MaxEvents {
		return fault("", "it takes about %.2g events without a single retry, more than %d: "+
			"write a shorter duration or a lower rate", events, MaxEvents)
	}
	return nil
}

// checkAttempts returns an error if the attempts of all layers multiply to more than
// mostAttempts.
func (s System) checkAttempts(order []string) error {
	attempts := map[string]float64{}
	for _, name := range order {
		attempts[name] = max(1, attempts[name])
		for i, e := range s.Services[name].Calls {
			limit := e.Policy.EffectiveMax()
			if limit < 0 {
				limit = endless
			}
			most := max(attempts[e.To], attempts[name]*float64(limit))
			if attempts[e.To] = most; most > mostAttempts {
				at := fmt.Sprintf("services.%s.calls[%d].retry", name, i)
				return fault(at, "%s: a call from outside can become %.2g attempts at %s, "+
					"because the attempts of all layers multiply, and more than %d take too long: "+
					"write a smaller max_attempts in one of the layers", at, most, e.To, mostAttempts)
			}
		}
	}
	return nil
}

// events estimates how many events a run takes if no attempt fails.
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
	for _, requests := range s.normalLoad(order, peak) {
		load += requests
	}
	return 2 * load * float64(s.seconds())
}

// normalLoad returns how many requests a second each service gets if no attempt fails. rate
// returns how many calls a second a service gets from outside.
func (s System) normalLoad(order []string, rate func(name string) float64) map[string]float64 {
	load := make(map[string]float64, len(order))
	for _, name := range order {
		load[name] += rate(name)
		for _, e := range s.Services[name].Calls {
			load[e.To] += load[name]
		}
	}
	return load
}

// load returns how many requests a second each service gets at the Rates of s if no attempt
// fails.
func (s System) load() map[string]float64 {
	order, _ := s.order()
	return s.normalLoad(order, func(name string) float64 { return s.Services[name].Rate })
}

// scale returns the number by which s is divided before the simulation. It is 1 if s is not
// large. Each pool, queue and budget keeps at least the size leastPool, because smaller queues
// would behave differently.
func (s System) scale() int {
	order, _ := s.order()
	scale := int(s.events(order) / largeRun)
	keep := func(size int) {
		if size > 0 {
			scale = min(scale, size/leastPool)
		}
	}
	for _, v := range s.Services {
		for _, size := range v.sizes() {
			keep(*size)
		}
	}
	for _, t := range s.Events {
		if t.Change == Workers {
			keep(int(t.Value))
		}
	}
	return max(1, scale)
}

// sizes returns pointers to numbers of a service: the workers, the places in the queue, and the
// clients. These numbers and the Rate are divided to simulate a part of a large system. If the
// service has only one client, the sizes of its budgets are divided instead of the clients.
func (v *Service) sizes() []*int {
	if v.Clients > 1 {
		return []*int{&v.Workers, &v.Queue, &v.Clients}
	}
	sizes := []*int{&v.Workers, &v.Queue}
	for _, e := range v.Calls {
		if b := e.Policy.Budget; b != nil && !slices.Contains(sizes, &b.Size) {
			sizes = append(sizes, &b.Size)
		}
	}
	return sizes
}

// divided returns a copy of s in which the rates of calls, the workers and the queues are divided
// by divisor. The clients of each service are divided too. If a service has only one client, the
// sizes of its Budgets are divided instead.
func (s System) divided(divisor int) System {
	if divisor == 1 {
		return s
	}
	s.part = divisor
	part := func(n int) int { return int(math.Round(float64(n) / float64(divisor))) }
	s.Events = slices.Clone(s.Events)
	for i, t := range s.Events {
		switch t.Change {
		case Rate:
			s.Events[i].Value /= float64(divisor)
		case Workers:
			s.Events[i].Value = float64(part(int(t.Value)))
		}
	}
	return s.edited(func(_ string, v *Service) {
		v.copyBudgets(divisor)
		workers := float64(v.Workers)
		for _, n := range v.sizes() {
			if *n > 0 {
				*n = part(*n)
			}
		}
		v.Rate /= float64(divisor)
		if v.Workers > 0 { // keep the capacity although Workers was rounded
			v.Work = time.Duration(float64(v.Work) * float64(v.Workers*divisor) / workers)
		}
	})
}

// copyBudgets replaces the Budgets of v with copies whose sizes can be changed. If v has only one
// client, the method divided divides the sizes of these copies, because the client makes only a
// part of the calls. The refills must become rarer too, so copyBudgets multiplies RefillEvery by
// divisor.
func (v *Service) copyBudgets(divisor int) {
	copies := map[*retry.Budget]*retry.Budget{nil: nil}
	for i, e := range v.Calls {
		if b := e.Policy.Budget; copies[b] == nil && b != nil {
			c := &retry.Budget{
				Size: b.Size, Ratio: b.Ratio, RefillEvery: b.RefillEvery,
				Remember: b.Remember, Grace: b.Grace,
			}
			if v.Clients <= 1 {
				c.RefillEvery *= time.Duration(divisor)
			}
			copies[b] = c
		}
		v.Calls[i].Policy.Budget = copies[e.Policy.Budget]
	}
}
