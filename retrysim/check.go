package retrysim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Condition is what [Check] demands of a system.
type Condition struct {
	text  string
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
	c.miss = func(_ System, r Result) (float64, string) {
		if r.Outcome.Verdict != Recovers {
			return float64(maxTime), r.Outcome.String()
		}
		return float64(r.Outcome.Recovery - d), fmt.Sprintf("recovers only after %v", r.Outcome.Recovery)
	}
	return c
}

// LoadAtMost demands that in any 3 seconds a service gets at most factor times the
// requests that the calls of these seconds make if no attempt fails. If there are
// fewer calls than Rate says, as in a lull, it is factor times the requests of the
// usual number. 1.5 allows one retry for two requests.
func LoadAtMost(service string, factor float64) Condition {
	c := Condition{text: fmt.Sprintf("load on %s at most %.2f times its normal load", service, factor), names: service}
	c.miss = func(s System, r Result) (by float64, what string) {
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
			if load := float64(requests) / normal[service]; load-factor > by {
				by, what = load-factor, fmt.Sprintf("%.2f times at %ds", load, i)
			}
		}
		return by, what
	}
	return c
}

// GoodputAtLeast demands that at least this share of all calls from outside works,
// from the first second to the last.
func GoodputAtLeast(share float64) Condition {
	c := Condition{text: fmt.Sprintf("at least %.4g%% of all calls work", 100*share)}
	c.miss = func(_ System, r Result) (float64, string) {
		got := float64(r.Outcome.Worked) / float64(max(1, r.Outcome.Calls))
		return share - got, fmt.Sprintf("%.4g%% work", 100*got)
	}
	return c
}

// Check simulates s with the seeds 1 to 10, and returns an error if a condition does
// not hold in all of these runs. The error says for each such condition how badly it
// was missed in the worst run, and in how many. It is also an error if s is invalid,
// or if there is no condition. A Duration that is too short for a condition is
// prolonged.
func Check(s System, conditions ...Condition) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if slices.ContainsFunc(conditions, func(c Condition) bool { return c.miss == nil }) || len(conditions) == 0 {
		return errors.New("retrysim: Check without a condition, or with an empty one: write one, such as RecoversWithin(30*time.Second)")
	}
	for _, c := range conditions {
		if _, known := s.Services[c.names]; c.names != "" && !known {
			return fmt.Errorf("retrysim: there is no service %q: the services are %s", c.names, strings.Join(s.names(), ", "))
		}
		s.Duration = max(time.Duration(s.seconds())*time.Second, s.lastEnd()+c.needs)
	}
	runs, worst := make([]int, len(conditions)), make([]float64, len(conditions))
	whats := make([]string, len(conditions))
	for seed := range 10 {
		r, err := Run(s, uint64(seed+1))
		if err != nil {
			return err
		}
		for i, c := range conditions {
			by, what := c.miss(s, r)
			if by > 0 {
				runs[i]++
			}
			if by > worst[i] {
				worst[i], whats[i] = by, what
			}
		}
	}
	var texts []string
	for i, c := range conditions {
		if runs[i] > 0 {
			texts = append(texts, fmt.Sprintf("%s: %s, missed in %d of %d runs", c.text, whats[i], runs[i], 10))
		}
	}
	if texts == nil {
		return nil
	}
	return errors.New("retrysim: " + strings.Join(texts, "; "))
}
