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
	longRun      = 2_000_000 // the method `prolong` lengthens no run to more events than this

	// If a run takes many more events than largeRun, only a part of the system is simulated: see
	// Answer.Scale.
	largeRun = 200_000

	// mostRows is the largest number of rows in a Result. A Result has one row for each second of each
	// service, so this many rows take 112 MB.
	mostRows = 2_000_000

	// If a part of a large system is simulated, each of its services keeps at least this many workers,
	// places in the queue, and clients (or retries in a Budget). Chance would dominate in smaller
	// numbers.
	leastPool = 50
)

// checkSize returns an error if the simulation of s would take too long, or if its Result would
// take too much memory. It considers two cases: no attempt fails, or every attempt fails.
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

// checkAttempts returns an error if one call from outside could become more attempts at a service
// than mostAttempts. If web calls db, and db calls disk, the attempts of both calls multiply.
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

// The method `events` estimates how many events a run takes if no attempt fails.
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

// normalLoad returns how many requests each service gets in a second if no attempt fails. The
// function `rate` returns how many calls a service gets from outside in a second.
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

// load returns how many requests each service gets in a second if no attempt fails and the calls
// from outside come at the Rates of s.
func (s System) load() map[string]float64 {
	order, _ := s.order()
	return s.normalLoad(order, func(name string) float64 { return s.Services[name].Rate })
}

// The method `scale` returns the divisor for the simulation of a large system: the engine simulates
// 1/scale of s. The divisor is 1 if s is not large. After the division, each number that the method
// `sizes` returns, such as the workers, is still at least leastPool, because smaller numbers would
// behave differently.
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

// The method `sizes` returns pointers to the numbers of a service that are divided, like the Rate,
// to simulate a part of a large system: the workers, the places in the queue, and the clients. If
// the service has only one client, the sizes of its Budgets are divided instead of the clients.
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
// by `divisor`. The clients of each service are divided too. If a service has only one client, the
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
		if v.Workers > 0 { // this Work keeps the capacity although Workers was rounded
			v.Work = time.Duration(float64(v.Work) * float64(v.Workers*divisor) / workers)
		}
	})
}

// copyBudgets replaces the Budgets of v with copies whose sizes can be changed. If v has only one
// client, this client makes only a part of its calls in the simulation. So the method `divided`
// reduces the sizes of the copies, and copyBudgets makes the refills rarer: it multiplies
// RefillEvery by `divisor`.
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
