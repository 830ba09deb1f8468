package retrysim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Explain simulates s several times, with the seeds from 1 to runs. It repeats one of these runs
// without retries. It also finds the highest load at which s recovers in all runs. Near this load
// some runs recover and others do not, so about 10 runs are useful. If runs is below 1, Explain
// returns an error. If even the run without retries has not recovered at the end, Explain
// simulates a longer Duration, up to 16 times the Duration of s.
func Explain(s System, runs int) (a Answer, err error) {
	if runs < 1 {
		return a, fmt.Errorf("retrysim: runs is %d: write how many, such as 10", runs)
	}
	if err = s.Validate(); err != nil {
		return a, err
	}
	whole := s
	a.Scale = whole.scale()
	s = whole.divided(a.Scale)
	order, _ := s.order()
	if events := float64(runs) * s.events(order); events > MaxEvents {
		return a, fault("", "%d runs take about %.2g events without a single retry, more than %d: "+
			"write a shorter duration or a lower rate", runs, events, MaxEvents)
	}
	if err = s.prolong(); err != nil {
		return a, err
	}
	if a.Outcome, err = s.runSeeds(runs); err != nil {
		return a, err
	}
	if a.Run, err = Run(s, a.Outcome.seed); err != nil {
		return a, err
	}
	without, err := Run(s.withoutRetries(), a.Outcome.seed)
	if err != nil {
		return a, err
	}
	a.WithoutRetries, a.Limits = without.Outcome, limits
	a.Calls, a.Lost, a.LostWithoutRetries = a.Outcome.since, a.Outcome.Lost, without.Outcome.Lost
	a.MarginShare, a.Entry, err = s.margin(runs, a.Outcome.back())
	a.Entries, a.Rate = len(s.entries()), whole.Services[a.Entry].Rate
	a.Margin = a.MarginShare * a.Rate
	return a, err
}

var limits = []string{
	"This is a model and not a measurement.",
	"It has no caches, connections, load balancers or locks.",
	"It has no garbage collection and no autoscaling.",
	"Do not trust the seconds: they depend on spare capacity, known to 5% at best.",
	"Trust the margin more.",
	"Workers take requests in the order in which they came.",
	"A service without a number of workers handles all requests at once.",
}

// prolong doubles the Duration of s as long as a run without retries ends with the Verdict
// Draining. It stops before the Duration is over 16 times as long, or before the run is too
// large.
func (s *System) prolong() error {
	bare, most := s.withoutRetries(), 16*s.seconds()
	order, _ := s.order()
	for {
		r, err := Run(bare, 1)
		if err != nil || r.Outcome.Verdict != Draining {
			return err
		}
		bare.Duration = 2 * time.Duration(bare.seconds()) * time.Second
		if bare.seconds() > most || bare.events(order) > longRun || bare.Validate() != nil {
			return nil
		}
		s.Duration = bare.Duration
	}
}

// runSeeds simulates s with the seeds from 1 to runs. If a longer run may have another Verdict,
// it starts again with a longer Duration. Of the outcomes with the worst Verdict, it returns the
// middle one in the order of Recovery, EmptyIn and Lost.
func (s *System) runSeeds(runs int) (Outcome, error) {
	order := []Verdict{Recovers, Draining, StaysDown, Overloaded}
	worst, alike := Recovers, []Outcome(nil)
	for seed := range uint64(runs) {
		r, err := Run(*s, seed+1)
		if err != nil {
			return Outcome{}, err
		}
		if long := s.longDuration(); r.inDoubt() && time.Duration(s.seconds())*time.Second < long {
			s.Duration = long
			return s.runSeeds(runs)
		}
		o := r.Outcome
		o.seed = seed + 1
		if slices.Index(order, o.Verdict) > slices.Index(order, worst) {
			worst, alike = o.Verdict, nil
		}
		if o.Verdict == worst {
			alike = append(alike, o)
		}
	}
	slices.SortFunc(alike, func(o, p Outcome) int {
		return cmp.Or(
			cmp.Compare(o.Recovery, p.Recovery),
			cmp.Compare(o.EmptyIn, p.EmptyIn),
			o.Lost-p.Lost,
		)
	})
	o := alike[len(alike)/2]
	o.Runs, o.Agree = runs, len(alike)
	return o, nil
}

// longDuration returns a Duration that is long enough to show whether a queue gets shorter near
// the margin. A system with a low rate needs a longer Duration.
func (s System) longDuration() time.Duration {
	rate := 0.0
	for _, v := range s.Services {
		rate += v.Rate
	}
	return s.lastEnd() + min(max(defaultTail, time.Duration(2e5/rate)*time.Second), 5*time.Minute)
}

// withoutRetries returns a copy of s in which each call makes only one attempt.
func (s System) withoutRetries() System {
	return s.edited(func(_ string, v *Service) {
		for i := range v.Calls {
			v.Calls[i].Policy = retry.Policy{AttemptTimeout: v.Calls[i].Policy.AttemptTimeout}
		}
	})
}

// mostLoad is the highest load that Explain tries, as a multiple of the load of the system.
const mostLoad = 4

// margin returns the highest load at which s comes back with all seeds from 1 to runs. The result
// is a share of the present load, to within 1 %. s comes back if it recovers, or if its queues
// get shorter. back says whether s comes back at its present load with all these seeds. If back
// is true, share is at least 1. Otherwise it is below 1, and 0 if s does not come back at a
// thousandth of its load. If no service has Workers, no load is too high. fails is the entry that
// loses the largest share of its calls above the margin.
func (s System) margin(runs int, back bool) (share float64, fails string, err error) {
	least := 0.0
	if share = 0.99; back {
		least, share = 1, mostLoad
	}
	if !s.hasPool() {
		return math.Floor(share), s.entries()[0], nil
	}
	for seed := range uint64(runs) {
		// With this seed, s comes back at lo and not at hi. At the start of the loop, hi is the result of
		// the earlier seeds, and has not been tested with this seed.
		lo, hi := least, share
		step := share // how far below hi to try next
		if seed > 0 { // most seeds have nearly the same result as the first seed
			step = 0.02 * share
		}
		for try := share; hi-lo > float64(0.01*lo); try = max((lo+hi)/2, hi-step) {
			ok, err := s.loaded(try).comesBack(seed + 1)
			switch {
			case err != nil:
				return 0, "", err
			case ok:
				lo = try
			case try < 1e-3:
				return 0, s.entries()[0], nil
			default:
				hi, step = try, 2*step
			}
		}
		share = lo
	}
	above, err := s.loaded(1.02 * share).simulate(1)
	return share, above.fails, err
}

func (s System) hasPool() bool {
	for _, v := range s.Services {
		if v.Workers > 0 {
			return true
		}
	}
	return false
}

// loaded returns a copy of s in which the rates of calls from outside are multiplied by factor.
func (s System) loaded(factor float64) System {
	s.Events = slices.Clone(s.Events)
	for i := range s.Events {
		if s.Events[i].Change == Rate {
			s.Events[i].Value *= factor
		}
	}
	return s.edited(func(_ string, v *Service) { v.Rate *= factor })
}

// comesBack reports whether s recovers, or its queues get shorter, in the run with this
// seed. It stops a long run early if the verdict is clear.
func (s System) comesBack(seed uint64) (bool, error) {
	if s.isOverloaded() {
		return false, nil
	}
	short := s
	short.Duration = s.lastEnd() + defaultTail
	s.Duration = max(s.Duration, s.longDuration())
	e := newEngine(s, seed)
	r, err := short.goOn(e)
	if err == nil && r.inDoubt() {
		r, err = s.goOn(e)
	}
	return r.Outcome.back(), err
}
