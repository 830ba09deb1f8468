package retrysim

import "time"

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

// simulate makes one run of s, and judges the run by the calls that succeeded in it. s must be
// valid.
func (s System) simulate(seed uint64) (Result, error) { return s.goOn(newEngine(s, seed)) }

// goOn simulates the Duration of s, and then the longest Patience. The engine may have been made
// for a copy of s with a longer Duration.
func (s System) goOn(e *engine) (Result, error) {
	if err := e.run(s.seconds() + e.patience); err != nil {
		return Result{}, err
	}
	r := e.result(s)
	s.judge(&r)
	return r, nil
}
