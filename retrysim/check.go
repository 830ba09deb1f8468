package retrysim

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Condition is what [Check] demands of a system.
type Condition struct {
	text  string
	fault string        // what is wrong with the Condition itself; "": nothing
	needs time.Duration // how long to simulate after the last event, at least
	names string        // the service that it is about; "": none

	// miss returns how badly a run misses the Condition, 0 if it holds, and what
	// happened.
	miss func(s System, r Result) (by float64, what string)
}

// RecoversWithin demands that s has recovered this long after the end of its last
// event, and without an event that nothing is wrong.
func RecoversWithin(d time.Duration) Condition {
	c := Condition{text: fmt.Sprintf("recovers within %v", d), needs: d + (hold+window)*time.Second}
	if d < 0 || d > maxTime {
		c.fault = fmt.Sprintf("RecoversWithin(%v): write a duration such as 30s", d)
	}
	c.miss = func(_ System, r Result) (float64, string) {
		switch {
		case r.Verdict != Recovers:
			return float64(maxTime), r.Outcome.String()
		case r.Recovery > d:
			return float64(r.Recovery - d), fmt.Sprintf("recovers only after %v", r.Recovery)
		}
		return 0, ""
	}
	return c
}

// LoadAtMost demands that in any 3 seconds a service gets at most factor times the
// requests that the calls of these seconds make if no attempt fails. If there are
// fewer calls than Rate says, as in a lull, it is factor times the requests of the
// usual number. 1.5 allows one retry for two requests.
func LoadAtMost(service string, factor float64) Condition {
	c := Condition{text: fmt.Sprintf("load on %s at most %.2f times its normal load", service, factor), names: service}
	if !(factor > 0) {
		c.fault = fmt.Sprintf("LoadAtMost(%q, %v): write a factor above 0, such as 1.5", service, factor)
	}
	c.miss = func(s System, r Result) (worst float64, what string) {
		order, _ := s.order()
		rows := r.Services[service].Seconds
		for i := range len(rows) - window + 1 {
			normal := s.normal(order, func(entry string) float64 {
				calls, _ := sum(r.Services[entry].Seconds[i : i+window])
				return max(float64(calls), window*s.Services[entry].Rate)
			})
			requests := 0
			for _, row := range rows[i : i+window] {
				requests += row.Requests
			}
			if load := float64(requests) / normal[service]; load > factor && load > worst {
				worst, what = load, fmt.Sprintf("%.2f times at %ds", load, i)
			}
		}
		return worst, what
	}
	return c
}

// GoodputAtLeast demands that at least this share of all calls from outside works,
// from the first second to the last.
func GoodputAtLeast(share float64) Condition {
	c := Condition{text: fmt.Sprintf("at least %.4g%% of all calls work", 100*share)}
	if !(share >= 0 && share <= 1) {
		c.fault = fmt.Sprintf("GoodputAtLeast(%v): write a share between 0 and 1, such as 0.95", share)
	}
	c.miss = func(_ System, r Result) (float64, string) {
		got := float64(r.Worked) / float64(max(1, r.Calls))
		if got < share {
			return share - got, fmt.Sprintf("%.4g%% work", 100*got)
		}
		return 0, ""
	}
	return c
}

// checkRuns is how many seeds Check simulates.
const checkRuns = 10

// Check simulates s with the seeds 1 to 10, and returns an error if a condition does
// not hold in all of these runs. The error says for each such condition how badly it
// was missed in the worst run, and in how many. It is also an error if s or a
// condition is invalid, or if there is none. A Duration that is too short for a
// condition is prolonged.
//
//	err := retrysim.Check(system, retrysim.RecoversWithin(30*time.Second), retrysim.LoadAtMost("payments", 1.5))
func Check(s System, conditions ...Condition) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if len(conditions) == 0 {
		return errors.New("retrysim: Check without a condition: write one, such as RecoversWithin(30*time.Second)")
	}
	for _, c := range conditions {
		_, known := s.Services[c.names]
		switch {
		case c.miss == nil:
			return errors.New("retrysim: an empty Condition: write one, such as RecoversWithin(30*time.Second)")
		case c.fault != "":
			return errors.New("retrysim: " + c.fault)
		case c.names != "" && !known:
			return fmt.Errorf("retrysim: there is no service %q: the services are %s", c.names, strings.Join(s.names(), ", "))
		}
		s.Duration = max(time.Duration(s.seconds())*time.Second, s.lastEnd()+c.needs)
	}
	type missed struct {
		runs int
		by   float64
		what string
	}
	misses := make([]missed, len(conditions))
	for seed := range checkRuns {
		r, err := Run(s, uint64(seed+1))
		if err != nil {
			return err
		}
		for i, c := range conditions {
			if by, what := c.miss(s, r); by > 0 {
				m := &misses[i]
				if m.runs++; by > m.by {
					m.by, m.what = by, what
				}
			}
		}
	}
	var texts []string
	for i, m := range misses {
		if m.runs > 0 {
			texts = append(texts, fmt.Sprintf("%s: %s, missed in %d of %d runs", conditions[i].text, m.what, m.runs, checkRuns))
		}
	}
	if texts == nil {
		return nil
	}
	return errors.New("retrysim: " + strings.Join(texts, "; "))
}
