package retrysim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/goretry/retry"
)

// Run simulates s once. Everything random follows from the seed. It is an error if s
// is invalid, or if the run exceeds MaxEvents or MaxInFlight.
func Run(s System, seed uint64) (Result, error) {
	if err := s.begin(); err != nil {
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

// begin validates s, and begins to count its events, unless that has begun.
func (s *System) begin() error {
	if s.MaxEvents > 0 && s.spent == nil {
		s.spent = new(int)
	}
	return s.Validate()
}

// simulate runs s, which is valid, and judges the run by what happened in it.
func (s System) simulate(seed uint64) (Result, error) {
	e := newEngine(s, seed)
	if s.spent != nil {
		e.popped = *s.spent
		defer func() { *s.spent = e.popped }()
	}
	if err := e.run(); err != nil {
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
	normal, begin := s.load(), int(s.firstAt()/time.Second)
	all, wasted := 0.0, 0.0
	for i := range e.services {
		v := &e.services[i]
		l := Load{Normal: normal[v.name], Seconds: v.rows[:n]}
		for k, row := range l.Seconds {
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

// Explain simulates s with the seeds 1 to runs, and some of them again without
// retries, and finds its [Margin]. Near the margin the runs disagree: ten are a good
// number. Below 1 it is an error.
func Explain(s System, runs int) (a Answer, err error) {
	if runs < 1 {
		return a, fmt.Errorf("retrysim: runs is %d: write how many, such as 10", runs)
	}
	if err = s.begin(); err != nil {
		return a, err
	}
	a.Entry, a.Limits = s.entries()[0], limits
	a.Rate = s.Services[a.Entry].Rate
	if a.Margin, err = Margin(s); err != nil {
		return a, err
	}
	if a.Outcome, a.Run, err = s.several(runs); err != nil {
		return a, err
	}
	for bare := s.withoutRetries(); ; bare.Duration = 2 * time.Duration(bare.seconds()) * time.Second {
		if bare.seconds() > 16*s.seconds() || bare.Validate() != nil {
			return a, nil
		}
		a.WithoutRetries, _, err = bare.several(min(runs, 3))
		if err != nil || a.WithoutRetries.Verdict != Draining { // else it is simulated for longer
			return a, err
		}
	}
}

var limits = []string{
	"A model, not a measurement: without caches, connections, garbage collection,",
	"autoscaling, load balancers and locks. Do not trust the seconds: they depend on",
	"spare capacity, which few people know to 5%. Trust the margin more. Workers take",
	"requests in the order in which they came; what has no pool of workers does not.",
}

// several runs s with the seeds 1 to runs. The Outcome has the verdict of most of
// them, of two that are as frequent the worse, and is the outcome of the run in their middle.
// The Result is their first run.
func (s System) several(runs int) (Outcome, Result, error) {
	outcomes, first := map[Verdict][]Outcome{}, map[Verdict]Result{}
	for seed := range runs {
		r, err := Run(s, uint64(seed+1))
		if err != nil {
			return Outcome{}, Result{}, err
		}
		if outcomes[r.Outcome.Verdict] == nil {
			first[r.Outcome.Verdict] = r
		}
		outcomes[r.Outcome.Verdict] = append(outcomes[r.Outcome.Verdict], r.Outcome)
	}
	most := Overloaded
	for _, v := range []Verdict{StaysDown, Draining, Recovers} {
		if len(outcomes[v]) > len(outcomes[most]) {
			most = v
		}
	}
	of := outcomes[most]
	slices.SortFunc(of, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(a.Recovery, b.Recovery), cmp.Compare(a.EmptyIn, b.EmptyIn), a.Lost-b.Lost)
	})
	o := of[len(of)/2]
	o.Runs, o.Agree = runs, len(of)
	return o, first[most], nil
}

// withoutRetries returns s with one attempt for each call.
func (s System) withoutRetries() System {
	s.Services = maps.Clone(s.Services)
	for name, v := range s.Services {
		v.Calls = slices.Clone(v.Calls)
		for i := range v.Calls {
			v.Calls[i].Policy = retry.Policy{AttemptTimeout: v.Calls[i].Policy.AttemptTimeout}
		}
		s.Services[name] = v
	}
	return s
}

// mostMargin is how many times its rate an entry is tried with.
const mostMargin = 10

// Margin returns up to how many calls a second of its first entry by name s comes
// back: most of five runs recover, or their queues get shorter. An event that changes
// the rate of this entry is changed in proportion. It returns 0 if s does not come
// back from a thousandth of the entry's rate either, and at most ten times that rate.
// Where no service has Workers, that is one or the other: no rate is too high.
func Margin(s System) (float64, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	entry := s.entries()[0]
	rate := s.Services[entry].Rate
	// Near the margin a queue gets shorter so slowly that it takes minutes to see it,
	// where there are few requests.
	long := min(max(defaultTail, time.Duration(1e6/rate)*time.Second), 5*time.Minute)
	long = max(s.Duration, s.lastEnd()+long)
	unlimited := !slices.ContainsFunc(slices.Collect(maps.Values(s.Services)), func(v Service) bool { return v.Workers > 0 })

	lo, hi := 0.0, 0.0 // comes back at lo, and not at hi; 0: not found yet
	for factor := 1.0; hi == 0 || hi-lo > float64(0.005*lo); {
		back, err := s.scaled(entry, factor).comesBack(long)
		switch {
		case err != nil:
			return 0, err
		case back && (factor == mostMargin || unlimited):
			return mostMargin * rate, nil
		case back:
			lo = factor
		case lo == 0 && (factor < 1e-3 || unlimited):
			return 0, nil
		default:
			hi = factor
		}
		if factor = (lo + hi) / 2; hi == 0 {
			factor = min(mostMargin, 2*lo)
		}
	}
	return lo * rate, nil
}

// scaled returns s with this many times as many calls to an entry.
func (s System) scaled(entry string, factor float64) System {
	s.Services = maps.Clone(s.Services)
	v := s.Services[entry]
	v.Rate *= factor
	s.Services[entry] = v
	s.Events = slices.Clone(s.Events)
	for i, t := range s.Events {
		if t.Service == entry && t.Change == Rate {
			s.Events[i].Value *= factor
		}
	}
	return s
}

// comesBack reports whether most of five runs recover, or get better. Most are decided
// long before the end of a long run.
func (s System) comesBack(long time.Duration) (bool, error) {
	if s.exceeds() {
		return false, nil
	}
	back, down := 0, 0
	for seed := uint64(1); back < 3 && down < 3; seed++ {
		s.Duration = min(long, s.lastEnd()+defaultTail)
		r, err := s.simulate(seed)
		if v := r.Outcome.Verdict; err == nil && !r.growing && (v == StaysDown || v == Draining) {
			s.Duration = long
			r, err = s.simulate(seed)
		}
		switch v := r.Outcome.Verdict; {
		case err != nil:
			return false, err
		case v == Recovers || v == Draining:
			back++
		default:
			down++
		}
	}
	return back == 3, nil
}

// String says the Answer in a few lines, for people: the margin first.
func (a Answer) String() string {
	margin := fmt.Sprintf("up to %.3g/s", a.Margin)
	switch {
	case a.Margin == 0:
		margin = "at no rate of calls"
	case a.Margin == mostMargin*a.Rate:
		margin = fmt.Sprintf("even at %v/s", a.Margin)
	case a.Margin >= 1000:
		margin = fmt.Sprintf("up to %.0f/s", a.Margin)
	}
	return fmt.Sprintf("%s comes back %s; you run at %v/s\n", a.Entry, margin, a.Rate) +
		fmt.Sprintf("%v (%d of %d runs)\nwithout retries: %v\n", a.Outcome, a.Outcome.Agree, a.Outcome.Runs, a.WithoutRetries) +
		fmt.Sprintf("%d calls lost, %d without retries\n%.0f%% of the work was for callers that had given up\n", a.Outcome.Lost, a.WithoutRetries.Lost, 100*a.Outcome.Wasted)
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
