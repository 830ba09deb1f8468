package retrysim

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
)

// Run simulates s once. Everything random follows from the seed. It is an error if s
// is invalid, or if the run exceeds MaxEvents or MaxInFlight.
func Run(s System, seed uint64) (Result, error) {
	if err := s.Validate(); err != nil {
		return Result{}, err
	}
	r, err := s.simulate(seed)
	if err != nil || r.Outcome.Verdict == Recovers || r.Outcome.Verdict == Overloaded {
		return r, err
	}
	calm := s
	calm.Events, calm.Duration = nil, time.Duration(s.seconds())*time.Second
	if !s.exceeds() {
		without, err := calm.simulate(seed)
		if err != nil || without.Outcome.Verdict == Recovers {
			return r, err
		}
	}
	r.Outcome.Verdict, r.Outcome.EmptyIn = Overloaded, 0
	return r, nil
}

// simulate runs s, which is valid, and judges the run by what happened in it.
func (s System) simulate(seed uint64) (Result, error) { return s.goOn(newEngine(s, seed)) }

// goOn simulates until the end of s, which may be the run of an engine for a longer one.
func (s System) goOn(e *engine) (Result, error) {
	if err := e.run(s.seconds() + e.patience); err != nil {
		return Result{}, err
	}
	r := e.result(s)
	s.judge(&r)
	return r, nil
}

// result returns what was counted, without the time after the Duration, in which the
// last calls were waited for.
func (e *engine) result(s System) Result {
	n := s.seconds()
	r := Result{Seconds: make([]Second, n), Services: make(map[string]Load, len(e.services))}
	normal, begin, whole := s.load(), int(s.firstAt()/time.Second), max(1, s.part)
	all, wasted := 0.0, 0.0
	for i := range e.services {
		v := &e.services[i]
		l := Load{Normal: normal[v.name] * float64(whole), Seconds: slices.Clone(v.rows[:n])}
		for k := range l.Seconds {
			row := &l.Seconds[k]
			for _, count := range []*int{&row.Calls, &row.Worked, &row.Requests, &row.Rejected, &row.Queue} {
				*count *= whole
			}
			row.Busy *= float64(whole)
			l.Requests += row.Requests
			l.Rejected += row.Rejected
			l.Peak = max(l.Peak, row.Queue)
			r.Seconds[k].Calls += row.Calls
			r.Seconds[k].Worked += row.Worked
			r.Outcome.Calls += row.Calls
			r.Outcome.Worked += row.Worked
			if v.Workers > 0 && k >= begin { // elsewhere wasted work is in the way of no other
				all += row.Busy
				wasted += float64(row.Busy * row.Wasted)
			}
		}
		l.Waited = float64(v.waited) / float64(max(1, v.requests))
		l.MeanWait = time.Duration(v.wait / float64(max(1, v.started)))
		r.Services[v.name] = l
	}
	r.Outcome.Wasted = wasted / max(all, 1e-9)
	return r
}

// exceeds reports whether a service gets more work than its workers can do, even if
// nothing fails.
func (s System) exceeds() bool {
	normal := s.load()
	for name, v := range s.Services {
		if v.Workers > 0 && normal[name]*v.Work.Seconds() >= float64(v.Workers) {
			return true
		}
	}
	return false
}

// Explain simulates s with the seeds 1 to runs, one of these runs without retries too,
// and finds up to which load s comes back in all of them. Near that load the runs
// disagree: ten are a good number. Below 1 it is an error. All of them are longer than
// the Duration, up to 16 times, where s is not back by then without retries.
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
		return a, fault("", "%d runs take about %.2g events without a single retry, more than %d: write a shorter duration or a lower rate", runs, events, MaxEvents)
	}
	if err = s.prolong(); err != nil {
		return a, err
	}
	if a.Outcome, err = s.several(runs); err != nil {
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

// prolong doubles the Duration while s is not back at its end without retries, but
// about to be.
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

// several runs s with the seeds 1 to runs, for longer if one of them is in doubt. Of the
// outcomes with the worst Verdict it returns the middle one.
func (s *System) several(runs int) (Outcome, error) {
	order := []Verdict{Recovers, Draining, StaysDown, Overloaded}
	worst, alike := Recovers, []Outcome(nil)
	for seed := range uint64(runs) {
		r, err := Run(*s, seed+1)
		if err != nil {
			return Outcome{}, err
		}
		if long := s.long(); r.inDoubt() && time.Duration(s.seconds())*time.Second < long {
			s.Duration = long
			return s.several(runs)
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
		return cmp.Or(cmp.Compare(o.Recovery, p.Recovery), cmp.Compare(o.EmptyIn, p.EmptyIn), o.Lost-p.Lost)
	})
	o := alike[len(alike)/2]
	o.Runs, o.Agree = runs, len(alike)
	return o, nil
}

// long is how long it takes to see whether a queue gets shorter near the margin, where
// there are few requests.
func (s System) long() time.Duration {
	rate := 0.0
	for _, v := range s.Services {
		rate += v.Rate
	}
	return s.lastEnd() + min(max(defaultTail, time.Duration(2e5/rate)*time.Second), 5*time.Minute)
}

// inDoubt reports whether a longer run may say something else.
func (r *Result) inDoubt() bool {
	return !r.growing && (r.Outcome.Verdict == StaysDown || r.Outcome.Verdict == Draining)
}

func (o Outcome) back() bool { return o.Verdict == Recovers || o.Verdict == Draining }

// withoutRetries returns s with one attempt for each call.
func (s System) withoutRetries() System {
	return s.with(func(_ string, v *Service) {
		for i := range v.Calls {
			v.Calls[i].Policy = retry.Policy{AttemptTimeout: v.Calls[i].Policy.AttemptTimeout}
		}
	})
}

// with returns s with each service as edit changes it.
func (s System) with(edit func(name string, v *Service)) System {
	s.Services = maps.Clone(s.Services)
	for name, v := range s.Services {
		v.Calls = slices.Clone(v.Calls)
		edit(name, &v)
		s.Services[name] = v
	}
	return s
}

// mostLoad is how many times its load a system is tried with.
const mostLoad = 4

// margin returns up to how many times its load s comes back in each of the runs with
// the seeds 1 to runs, to 1 %, and which entry loses most of its calls above that. It is
// at least 1 if s is back with the load that it has, and else less; 0 if s is not back
// with a thousandth of it either. Where no service has Workers no load is too high.
func (s System) margin(runs int, back bool) (share float64, fails string, err error) {
	least := 0.0
	if share = 0.99; back {
		least, share = 1, mostLoad
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(s.Services)), func(v Service) bool { return v.Workers > 0 }) {
		return math.Floor(share), s.entries()[0], nil
	}
	for seed := range uint64(runs) {
		lo, hi := least, share // back at lo, and not at hi unless it is the share of the runs before
		step := share          // down from hi: other runs end near the first
		if seed > 0 {
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

// loaded returns s with this many times as many calls from outside.
func (s System) loaded(factor float64) System {
	s.Events = slices.Clone(s.Events)
	for i := range s.Events {
		if s.Events[i].Change == Rate {
			s.Events[i].Value *= factor
		}
	}
	return s.with(func(_ string, v *Service) { v.Rate *= factor })
}

// comesBack reports whether a run recovers, or gets better. Most are decided long
// before the end of a long one.
func (s System) comesBack(seed uint64) (bool, error) {
	if s.exceeds() {
		return false, nil
	}
	short := s
	short.Duration = s.lastEnd() + defaultTail
	s.Duration = max(s.Duration, s.long())
	e := newEngine(s, seed)
	r, err := short.goOn(e)
	if err == nil && r.inDoubt() {
		r, err = s.goOn(e)
	}
	return r.Outcome.back(), err
}

// String says the Answer in a few lines, for people: the margin first.
func (a Answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s comes back %s; you run at %v/s\n", a.Entry, a.marginText(), a.Rate)
	if a.Entries > 1 {
		fmt.Fprintf(&b, "%s is the first of %d entries that fail above that\n", a.Entry, a.Entries)
	}
	fmt.Fprintf(&b, "%v (%d of %d runs)\nwithout retries: %v\n", a.Outcome, a.Outcome.Agree, a.Outcome.Runs, a.WithoutRetries)
	if a.Calls > 0 {
		percent := 100 / float64(a.Calls)
		fmt.Fprintf(&b, "%d of %d calls lost (%.3g%%), %d without retries (%.3g%%)\n",
			a.Lost, a.Calls, percent*float64(a.Lost), a.LostWithoutRetries, percent*float64(a.LostWithoutRetries))
	}
	fmt.Fprintf(&b, "%.0f%% of the work was for callers that had given up\n", 100*a.Outcome.Wasted)
	if a.Scale > 1 {
		fmt.Fprintf(&b, "simulated with 1/%d of the calls, workers and clients; the counts are for all\n", a.Scale)
	}
	return b.String()
}

func (a Answer) marginText() string {
	switch {
	case a.Margin == 0:
		return "at no rate of calls"
	case a.MarginShare == mostLoad:
		return fmt.Sprintf("even at %v/s, %d times your load", a.Margin, mostLoad)
	case a.Margin >= 1000:
		return fmt.Sprintf("up to %.0f/s, %.0f%% of your load", a.Margin, 100*a.MarginShare)
	}
	return fmt.Sprintf("up to %.3g/s, %.0f%% of your load", a.Margin, 100*a.MarginShare)
}

// String says how a run ended.
func (o Outcome) String() string {
	switch {
	case o.Verdict == Recovers && o.Recovery == 0:
		return "recovers at once"
	case o.Verdict == Recovers:
		return fmt.Sprintf("recovers %v after the end of the last event", o.Recovery)
	case o.EmptyIn > 0:
		return fmt.Sprintf("not back yet; its queues are empty in about %v", o.EmptyIn)
	case o.Verdict == Draining:
		return "not back yet, but the last calls have worked"
	case o.Verdict == Overloaded:
		return "overloaded without an event too"
	}
	return string(o.Verdict)
}
