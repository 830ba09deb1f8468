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
	mostAttempts = 1_000_000 // the most attempts that one request can cause at a service
	endless      = 1000      // counted as the limit of a call without a limit of attempts
	largeRun     = 200_000   // a system whose run takes more events is simulated in part
	leastPool    = 50        // the least size of its pools, so that chance stays a small part
	mostRows     = 2_000_000 // of a Result, one for each second of each service: 112 MB
	longRun      = 2_000_000 // a run of more events is not prolonged
)

var mostBytes = 256 << 20 // of a run, without its Result; a variable for the tests

// checkSize refuses a system whose simulation would take too long if no attempt fails, or if
// every attempt fails.
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

// checkAttempts refuses a system in which the attempts of all layers multiply to too many.
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

// patience returns the longest Patience of s. A run goes on for this many seconds after its
// end, to see whether the last calls work.
func (s System) patience() (seconds int) {
	for _, v := range s.Services {
		if v.Rate > 0 {
			seconds = max(seconds, wholeSeconds(cmp.Or(v.Patience, defaultPatience)))
		}
	}
	return seconds
}

// bytes returns how much memory a run holds, without its Result: the requests in flight,
// the queues, the timers, and the budgets of clients. It counts stale entries too.
func (e *engine) bytes() int {
	const perClient = 16 // of a map, next to the value
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
	return (e.live+len(e.free))*int(unsafe.Sizeof(request{})) +
		cap(e.events.events)*int(unsafe.Sizeof(event{})) +
		entries*int(unsafe.Sizeof(entry{})) +
		clients*(perClient+int(unsafe.Sizeof(held{})))
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
	for _, requests := range s.normal(order, peak) {
		load += requests
	}
	return 2 * load * float64(s.seconds())
}

// scale returns the number by which s is divided before it is simulated. It is 1 if s is not
// large. It is as small as needed for each pool, queue and budget to keep a size of leastPool,
// because smaller queues would behave differently.
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

// sizes returns what is divided in a service, in addition to its Rate: the workers, the
// places in the queue, and the clients. A service with one client has the sizes of its
// budgets divided instead of its clients.
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

// divided returns s with its calls, and all that handles them, divided by a number.
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
		v.copyBudgets(by)
		workers := float64(v.Workers)
		for _, n := range v.sizes() {
			if *n > 0 {
				*n = part(*n)
			}
		}
		v.Rate /= float64(by)
		if v.Workers > 0 { // the capacity must not change with the rounding of Workers
			v.Work = time.Duration(float64(v.Work) * float64(v.Workers*by) / workers)
		}
	})
}

// copyBudgets gives v its own copies of its Budgets, so that their sizes can be changed. A
// Budget of one client, whose Size will be divided, also refills less often.
func (v *Service) copyBudgets(by int) {
	copies := map[*retry.Budget]*retry.Budget{nil: nil}
	for i, e := range v.Calls {
		if b := e.Policy.Budget; copies[b] == nil && b != nil {
			c := &retry.Budget{
				Size: b.Size, Ratio: b.Ratio, RefillEvery: b.RefillEvery,
				Remember: b.Remember, Grace: b.Grace,
			}
			if v.Clients <= 1 {
				c.RefillEvery *= time.Duration(by)
			}
			copies[b] = c
		}
		v.Calls[i].Policy.Budget = copies[e.Policy.Budget]
	}
}
