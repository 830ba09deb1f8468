package retrysim

import (
	"math"
	"slices"
)

// margin returns the highest load at which s comes back with all seeds from 1 to `runs`. The result
// is a share of the present load, to within 1 %. s comes back if it recovers, or if its queues get
// shorter. The parameter `back` says whether s comes back at its present load with all these seeds.
// If `back` is true, `share` is at least 1. Otherwise `share` is below 1, and it is 0 if s does not
// come back at a thousandth of its load. If no service has a limit of Workers, the load makes no
// difference: `share` is mostLoad if `back` is true, and 0 if it is false. `fails` is the service
// that loses the largest share of its calls from outside above the margin.
func (s System) margin(runs int, back bool) (share float64, fails string, err error) {
	least := 0.0
	if share = 0.99; back {
		least, share = 1, mostLoad
	}
	if !s.hasPool() {
		return math.Floor(share), s.entries()[0], nil
	}
	for seed := range uint64(runs) {
		// With this seed, s comes back at the load `lo`, and does not come back at the load `hi`. Only
		// the first `hi` has not been tested with this seed: it is the result of the earlier seeds. So
		// the loop below tries this load first.
		lo, hi := least, share
		step := share // the next load to try is at most this far below `hi`
		if seed > 0 {
			// Most seeds have nearly the same result as the first seed, so the search for a load at which s
			// comes back starts with a small step.
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

// mostLoad is the highest load that Explain tries, as a multiple of the load of the system.
const mostLoad = 4

func (s System) hasPool() bool {
	for _, v := range s.Services {
		if v.Workers > 0 {
			return true
		}
	}
	return false
}

// loaded returns a copy of s in which the rates of calls from outside are multiplied by `factor`.
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
