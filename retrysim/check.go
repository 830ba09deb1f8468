package retrysim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Condition is a demand on a system, such as [RecoversWithin]. [Check] tests conditions.
type Condition struct {
	text    string
	needs   time.Duration // the least time to simulate after the last event
	service string        // the service that the Condition is about; "" if there is none

	// miss returns the amount by which a run misses the Condition, and what happened. `amount` is 0 or
	// negative if the Condition holds.
	miss func(s System, r Result) (amount float64, what string)
}

// RecoversWithin demands that the system recovers within d after the end of its last event.
// The calls of a system without events must succeed from the start.
func RecoversWithin(d time.Duration) Condition {
	return Condition{
		text:  fmt.Sprintf("recovers within %v", d),
		needs: d + (hold+window)*time.Second,
		miss: func(_ System, r Result) (float64, string) {
			o := r.Outcome
			if o.Verdict != Recovers {
				return float64(maxTime), o.String()
			}
			return float64(o.Recovery - d), fmt.Sprintf("recovers only after %v", o.Recovery)
		},
	}
}

// LoadAtMost demands that in any 3 seconds a service gets at most `factor` times its normal load.
// The normal load is the number of requests that the calls of these 3 seconds would make if no
// attempt failed. If fewer calls come from outside than Rate says, the normal load is computed from
// Rate. A factor of 1.5 allows one retry for two requests.
func LoadAtMost(service string, factor float64) Condition {
	return Condition{
		text: fmt.Sprintf("load on %s at most %.2f times its normal load",
			service, factor),
		service: service,
		miss: func(s System, r Result) (amount float64, what string) {
			order, _ := s.order()
			for i := range len(r.Seconds) - window + 1 {
				load := s.loadAt(order, r, service, i)
				if load-factor > amount {
					amount, what = load-factor, fmt.Sprintf("%.2f times at %ds", load, i)
				}
			}
			return amount, what
		},
	}
}

// loadAt returns the load of a service in the 3 seconds that start at the given second, as a
// multiple of its normal load.
func (s System) loadAt(order []string, r Result, service string, second int) float64 {
	normal := s.normalLoad(order, func(entry string) float64 {
		calls, _ := sum(r.Services[entry].Seconds[second : second+window])
		return max(float64(calls), window*s.Services[entry].Rate)
	})
	requests := 0
	for _, row := range r.Services[service].Seconds[second : second+window] {
		requests += row.Requests
	}
	return float64(requests) / normal[service]
}

// GoodputAtLeast demands that at least this share of the calls from outside succeeds. All calls of
// the whole run count. A share of 0.99 is 99 %.
func GoodputAtLeast(share float64) Condition {
	return Condition{
		text: fmt.Sprintf("at least %.4g%% of all calls succeed", 100*share),
		miss: func(_ System, r Result) (float64, string) {
			got := float64(r.Outcome.Worked) / float64(max(1, r.Outcome.Calls))
			return share - got, fmt.Sprintf("%.4g%% work", 100*got)
		},
	}
}

const checkRuns = 10

// Check simulates s with the seeds 1 to 10. It returns an error if any run misses a condition.
// For each missed condition, the error describes the worst run and says how many runs missed the
// condition. Check also returns an error if s is invalid, if there is no condition, or if a
// condition names an unknown service. If the Duration of s is too short for a condition, Check
// simulates a longer time.
func Check(s System, conditions ...Condition) error {
	if err := s.Validate(); err != nil {
		return err
	}
	empty := func(c Condition) bool { return c.miss == nil }
	if len(conditions) == 0 || slices.ContainsFunc(conditions, empty) {
		return errors.New("retrysim: Check got no Condition or an empty Condition: " +
			"write a Condition such as RecoversWithin(30*time.Second)")
	}
	for _, c := range conditions {
		if _, known := s.Services[c.service]; c.service != "" && !known {
			return fmt.Errorf("retrysim: a Condition names the service %q, but the services of the "+
				"System are %s", c.service, strings.Join(s.names(), ", "))
		}
		s.Duration = max(time.Duration(s.seconds())*time.Second, s.lastEnd()+c.needs)
	}
	missed := make([]misses, len(conditions))
	for seed := range uint64(checkRuns) {
		r, err := Run(s, seed+1)
		if err != nil {
			return err
		}
		for i, c := range conditions {
			missed[i].add(c.miss(s, r))
		}
	}
	var texts []string
	for i, c := range conditions {
		if m := missed[i]; m.runs > 0 {
			texts = append(texts, fmt.Sprintf("%s: %s, missed in %d of %d runs",
				c.text, m.what, m.runs, checkRuns))
		}
	}
	if texts == nil {
		return nil
	}
	return errors.New("retrysim: " + strings.Join(texts, "; "))
}

// The struct `misses` counts the runs that miss a Condition, and keeps what happened in the worst
// run.
type misses struct {
	runs  int
	worst float64
	what  string
}

func (m *misses) add(amount float64, what string) {
	if amount > 0 {
		m.runs++
	}
	if amount > m.worst {
		m.worst, m.what = amount, what
	}
}
