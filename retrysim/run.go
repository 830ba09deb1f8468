package retrysim

import (
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
	if err != nil || r.Verdict == Recovers || r.Verdict == Overloaded {
		return r, err
	}
	calm := s
	calm.Events, calm.Duration = nil, time.Duration(s.seconds())*time.Second
	if !s.exceeds() {
		without, err := calm.simulate(seed)
		if err != nil || without.Verdict == Recovers {
			return r, err
		}
	}
	r.Verdict, r.EmptyIn = Overloaded, 0
	return r, nil
}

// simulate runs s, which is valid, and judges the run by what happened in it.
func (s System) simulate(seed uint64) (Result, error) {
	e := newEngine(s, seed)
	if err := e.run(); err != nil {
		return Result{}, err
	}
	r := e.result(s)
	s.judge(&r)
	all := 0.0
	for _, v := range e.services {
		if v.Workers > 0 { // elsewhere wasted work is in the way of no other
			all += v.allWork
			r.Wasted += v.allLost
		}
	}
	if all > 0 {
		r.Wasted /= all
	}
	return r, nil
}

// result returns what was counted, without the time after the Duration, in which the
// last calls were waited for.
func (e *engine) result(s System) Result {
	n := s.seconds()
	r := Result{Seconds: e.seconds[:n], Services: make(map[string]Load, len(e.services))}
	normal := s.load()
	for i := range e.services {
		v := &e.services[i]
		l := Load{Normal: normal[v.name], Seconds: v.rows[:n]}
		for k, row := range l.Seconds {
			l.Requests += row.Requests
			l.Rejected += row.Rejected
			l.Peak = max(l.Peak, row.Queue)
			r.Seconds[k].Calls += row.Calls
			r.Seconds[k].Worked += row.Worked
		}
		if v.waited > 0 {
			l.Waited = float64(v.waited) / float64(v.requests)
		}
		if v.started > 0 {
			l.MeanWait = time.Duration(v.wait / float64(v.started))
		}
		r.Services[v.name] = l
	}
	for _, sec := range r.Seconds {
		r.Calls += sec.Calls
		r.Worked += sec.Worked
	}
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
func Explain(s System, runs int) (Answer, error) {
	if runs < 1 {
		return Answer{}, fmt.Errorf("retrysim: runs is %d: write how many, such as 10", runs)
	}
	margin, err := Margin(s) // validates s
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Entry: s.entries()[0], Margin: margin, Limits: limits}
	a.Rate = s.Services[a.Entry].Rate
	if a.Outcome, a.Run, err = s.several(runs); err != nil {
		return Answer{}, err
	}
	bare := s.withoutRetries()
	for range 5 { // up to 16 times as long, until its queues are empty
		if a.WithoutRetries, _, err = bare.several(min(runs, 3)); err != nil {
			return Answer{}, err
		}
		bare.Duration = 2 * time.Duration(bare.seconds()) * time.Second
		if a.WithoutRetries.Verdict != Draining || bare.Validate() != nil {
			break
		}
	}
	return a, nil
}

var limits = []string{
	"A model, not a measurement: it has no caches, connections, garbage collection, autoscaling, load balancers or locks.",
	"Do not trust the seconds: they depend on spare capacity, which few people know to 5%. Trust the margin more.",
	"Workers take requests in the order in which they came; a service without a pool of workers does not, and is not simulated well.",
}

// several runs s with the seeds 1 to runs. The Outcome has the verdict of most of
// them, of two that are as frequent the worse, and the Result is the first run with it.
func (s System) several(runs int) (Outcome, Result, error) {
	outcomes := map[Verdict][]Outcome{}
	first := map[Verdict]Result{}
	for seed := range runs {
		r, err := Run(s, uint64(seed+1))
		if err != nil {
			return Outcome{}, Result{}, err
		}
		if outcomes[r.Verdict] == nil {
			first[r.Verdict] = r
		}
		outcomes[r.Verdict] = append(outcomes[r.Verdict], r.Outcome)
	}
	most := Overloaded
	for _, v := range []Verdict{StaysDown, Draining, Recovers} {
		if len(outcomes[v]) > len(outcomes[most]) {
			most = v
		}
	}
	of := outcomes[most]
	return Outcome{
		Verdict: most, Runs: runs, Agree: len(of),
		Recovery: median(of, func(o Outcome) time.Duration { return o.Recovery }),
		EmptyIn:  median(of, func(o Outcome) time.Duration { return o.EmptyIn }),
		Relapses: median(of, func(o Outcome) int { return o.Relapses }),
		Calls:    median(of, func(o Outcome) int { return o.Calls }),
		Worked:   median(of, func(o Outcome) int { return o.Worked }),
		Lost:     median(of, func(o Outcome) int { return o.Lost }),
		Wasted:   median(of, func(o Outcome) float64 { return o.Wasted }),
	}, first[most], nil
}

func median[T int | float64 | time.Duration](of []Outcome, get func(Outcome) T) T {
	var values []T
	for _, o := range of {
		values = append(values, get(o))
	}
	slices.Sort(values)
	return values[len(values)/2]
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

// Margin returns up to how many calls a second of its first entry by name s comes
// back: most of five runs recover, or their queues get shorter. An event that changes
// the rate of this entry is changed in proportion. It returns 0 if s does not come
// back from a thousandth of the entry's rate either, and at most 100 times that rate.
func Margin(s System) (float64, error) {
	if err := s.Validate(); err != nil {
		return 0, err
	}
	entry := s.entries()[0]
	rate := s.Services[entry].Rate
	load, of := 0.0, s.load()
	for _, name := range s.names() { // a sum depends on its order
		load += of[name]
	}
	// Near the margin a queue gets shorter so slowly that it takes minutes to see it,
	// where there are few requests.
	long := min(max(defaultTail, time.Duration(1e6/load)*time.Second), 5*time.Minute)
	long = max(s.Duration, s.lastEnd()+long)

	lo, hi := 0.0, 0.0 // comes back at lo, and not at hi; 0: not found yet
	for factor := 1.0; hi == 0 || hi-lo > float64(0.005*lo); {
		back, err := s.scaled(entry, factor).comesBack(long)
		switch {
		case err != nil:
			return 0, err
		case back:
			lo = factor
		default:
			hi = factor
		}
		switch {
		case lo >= 100:
			return 100 * rate, nil
		case lo == 0 && hi < 1e-3:
			return 0, nil
		case hi == 0:
			factor = min(100, 2*lo)
		default:
			factor = (lo + hi) / 2
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
		for {
			if err := s.Validate(); err != nil {
				return false, err
			}
			r, err := s.simulate(seed)
			if err != nil {
				return false, err
			}
			decided := s.Duration >= long || r.growing || r.Verdict == Recovers || r.Verdict == Overloaded
			if s.Duration = long; !decided {
				continue
			}
			if r.Verdict == Recovers || r.Verdict == Draining {
				back++
			} else {
				down++
			}
			break
		}
	}
	return back == 3, nil
}

// String says the Answer in a few lines, for people: the margin first.
func (a Answer) String() string {
	var b strings.Builder
	switch most := 100 * a.Rate; {
	case a.Margin == 0:
		fmt.Fprintf(&b, "%s comes back at no rate of calls; you run at %s\n", a.Entry, rateText(a.Rate))
	case a.Margin >= most:
		fmt.Fprintf(&b, "%s comes back even at %s; you run at %s\n", a.Entry, shortRate(most), rateText(a.Rate))
	default:
		fmt.Fprintf(&b, "%s comes back up to %s; you run at %s\n", a.Entry, shortRate(a.Margin), rateText(a.Rate))
	}
	fmt.Fprintf(&b, "%v (%d of %d runs)\n", a.Outcome, a.Agree, a.Runs)
	fmt.Fprintf(&b, "without retries: %v\n", a.WithoutRetries)
	fmt.Fprintf(&b, "%d calls lost, %d without retries; %.0f%% of the work was for callers that had given up\n", a.Lost, a.WithoutRetries.Lost, 100*a.Wasted)
	return b.String()
}

// String says how a run ended.
func (o Outcome) String() string {
	switch o.Verdict {
	case Recovers:
		text := "recovers at once"
		if o.Recovery > 0 {
			text = fmt.Sprintf("recovers %v after the end of the last event", o.Recovery)
		}
		if o.Relapses > 0 {
			text += fmt.Sprintf(", with %d relapses", o.Relapses)
		}
		return text
	case Draining:
		if o.EmptyIn == 0 {
			return "not back yet, but the last calls have worked"
		}
		return fmt.Sprintf("not back yet; its queues are empty in about %v", o.EmptyIn)
	case Overloaded:
		return "overloaded without an event too"
	default:
		return string(o.Verdict)
	}
}

// shortRate writes a rate with three digits.
func shortRate(rate float64) string {
	digits := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return rateText(math.Round(rate/digits) * digits)
}
