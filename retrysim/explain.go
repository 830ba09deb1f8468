package retrysim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Explain simulates s several times, with the seeds from 1 to `runs`. It repeats one of these runs
// without retries. It also finds the highest load at which s recovers in all runs. Near this load
// some runs recover and others do not, so about 10 runs are useful. If `runs` is below 1, Explain
// returns an error. If even the run without retries has not recovered at the end, Explain simulates
// a longer Duration, up to 16 times the Duration of s.
func Explain(s System, runs int) (a Answer, err error) {
	if runs < 1 {
		return a, fmt.Errorf("retrysim: runs is %d: write how many runs to simulate, such as 10", runs)
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
	a.WithoutRetries, a.Limits = without.Outcome, answerLimits
	a.Calls, a.Lost, a.LostWithoutRetries = a.Outcome.since, a.Outcome.Lost, without.Outcome.Lost
	a.MarginShare, a.Entry, err = s.margin(runs, a.Outcome.back())
	a.Entries, a.Rate = len(s.entries()), whole.Services[a.Entry].Rate
	a.Margin = a.MarginShare * a.Rate
	return a, err
}

// prolong doubles the Duration of s as long as a run without retries ends with the Verdict
// Draining. It stops before the Duration is more than 16 times the Duration that s had at first, or
// before the run is too large.
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

// runSeeds simulates s with the seeds from 1 to `runs`. If a longer run may have another Verdict,
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

// longDuration returns a Duration that is long enough to show whether the queues get shorter, even
// at a load close to the highest load from which the system recovers. A system with a low rate
// needs a longer Duration.
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
