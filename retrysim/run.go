package retrysim

import (
	"slices"
	"time"
)

// Run simulates s once. The same seed always gives the same result. Run returns an error if s is
// invalid, or if the run exceeds MaxEvents, MaxInFlight or 256 MB of memory.
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
	if !s.isOverloaded() {
		without, err := calm.simulate(seed)
		if err != nil || without.Outcome.Verdict == Recovers {
			return r, err
		}
	}
	r.Outcome.Verdict, r.Outcome.EmptyIn = Overloaded, 0
	return r, nil
}

// simulate runs s, which is valid, and judges the run by the calls that worked in it.
func (s System) simulate(seed uint64) (Result, error) { return s.goOn(newEngine(s, seed)) }

// goOn simulates until the end of s. The engine may have been made for a copy of s with a longer
// Duration.
func (s System) goOn(e *engine) (Result, error) {
	if err := e.run(s.seconds() + e.patience); err != nil {
		return Result{}, err
	}
	r := e.result(s)
	s.judge(&r)
	return r, nil
}

// result returns the counts of the run. It leaves out the time after the Duration of s, in
// which the engine only waits for the last calls.
func (e *engine) result(s System) Result {
	r := Result{
		Seconds:  make([]Second, s.seconds()),
		Services: make(map[string]Load, len(e.services)),
	}
	normal, begin := s.load(), int(s.firstAt()/time.Second)
	work, wasted := 0.0, 0.0
	for i := range e.services {
		v := &e.services[i]
		l := v.load(len(r.Seconds), max(1, s.part), normal[v.name])
		for k, row := range l.Seconds {
			r.Seconds[k].Calls += row.Calls
			r.Seconds[k].Worked += row.Worked
			r.Outcome.Calls += row.Calls
			r.Outcome.Worked += row.Worked
			if v.Workers > 0 && k >= begin { // with unlimited workers, wasted work delays nobody
				work += row.Busy
				wasted += float64(row.Busy * row.Wasted)
			}
		}
		r.Services[v.name] = l
	}
	r.Outcome.Wasted = wasted / max(work, 1e-9)
	return r
}

// load returns the counts of a service in its first rows, one row for each second. It multiplies
// all counts by scale, because the engine may simulate a part of a larger system.
func (v *service) load(seconds, scale int, normal float64) Load {
	l := Load{
		Normal:   normal * float64(scale),
		Seconds:  slices.Clone(v.rows[:seconds]),
		Waited:   float64(v.waited) / float64(max(1, v.requests)),
		MeanWait: time.Duration(v.wait / float64(max(1, v.started))),
	}
	for k := range l.Seconds {
		row := &l.Seconds[k]
		row.Calls *= scale
		row.Worked *= scale
		row.Requests *= scale
		row.Rejected *= scale
		row.Queue *= scale
		row.Busy *= float64(scale)
		l.Requests += row.Requests
		l.Rejected += row.Rejected
		l.Peak = max(l.Peak, row.Queue)
	}
	return l
}

// isOverloaded reports whether some service gets more work than its workers can do even if no
// attempt fails.
func (s System) isOverloaded() bool {
	normal := s.load()
	for name, v := range s.Services {
		if v.Workers > 0 && normal[name]*v.Work.Seconds() >= float64(v.Workers) {
			return true
		}
	}
	return false
}
