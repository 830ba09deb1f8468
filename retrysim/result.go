package retrysim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/retrydialect/strict"
)

// A Result describes one run of a [System]. In JSON durations are text, such as "1.5s".
type Result struct {
	Outcome Outcome `json:"outcome"`

	// Seconds has an element for each second of the run. The element counts the calls from outside
	// that began in this second.
	Seconds []Second `json:"seconds"`

	Services map[string]Load `json:"services"` // by name

	growing bool   // the system has not recovered, and its queues get longer
	fails   string // the name of the entry that loses the largest share of its calls
}

// An Outcome says how a run ended.
type Outcome struct {
	Verdict Verdict `json:"verdict"`

	// Recovery is the time from the end of the last event until the system recovered, in whole
	// seconds. It is set only if Verdict is Recovers.
	Recovery time.Duration `json:"recovery"`

	// EmptyIn is an estimate of the time from the end of the run until the queues are empty. It is
	// set only if Verdict is Draining. If Verdict is Draining and EmptyIn is 0, the last calls have
	// worked.
	EmptyIn time.Duration `json:"empty_in,omitzero"`

	// Relapses is how often the system failed again after a recovery. It has failed again if too few
	// calls work for 10s.
	Relapses int `json:"relapses,omitzero"`

	Calls  int `json:"calls"`  // calls from outside
	Worked int `json:"worked"` // calls that were answered within the Patience

	// Lost counts the calls that did not work since the start of the first event. If a share of the
	// calls did not work before this event either, Lost does not count this share.
	Lost int `json:"lost"`

	// Wasted is the share of the work that was done for callers that had given up. It counts the
	// work since the start of the first event, at services with a limited number of Workers.
	Wasted float64 `json:"wasted"`

	Runs  int `json:"runs,omitzero"`  // how many runs [Explain] made; 0 for the one run of [Run]
	Agree int `json:"agree,omitzero"` // how many of these runs have this Verdict

	seed  uint64
	since int // calls since the start of the first event
}

// A Second counts the calls from outside that began in one second.
type Second struct {
	Calls  int `json:"calls"`
	Worked int `json:"worked"` // calls that were answered within the Patience of their service
}

// A Load counts the requests to one service in a run.
type Load struct {
	Normal   float64 `json:"normal"`   // requests in a second if no attempt fails
	Requests int     `json:"requests"` // requests that arrived
	Rejected int     `json:"rejected"` // requests refused by a full queue or a Fail event
	Waited   float64 `json:"waited"`   // the share of the requests that waited for a worker

	// MeanWait is how long a request waited for a worker. It is the mean of all requests that got a
	// worker, with or without a wait.
	MeanWait time.Duration `json:"mean_wait"`

	Peak int `json:"peak"` // the longest queue at the end of a second

	Seconds []LoadSecond `json:"seconds"`
}

// A LoadSecond counts the requests to one service in one second.
type LoadSecond struct {
	Calls  int `json:"calls"`  // calls from outside that began in this second
	Worked int `json:"worked"` // how many of these calls were answered within the Patience

	Requests int     `json:"requests"` // requests that arrived
	Rejected int     `json:"rejected"` // requests refused by a full queue or a Fail event
	Queue    int     `json:"queue"`    // requests that wait for a worker at the end of the second
	Busy     float64 `json:"busy"`     // workers that handled a request, on average

	// Wasted is the share of the work that was done for callers that had given up. It counts the
	// work that ended in this second.
	Wasted float64 `json:"wasted"`
}

// An Answer sums up several runs of a [System]. Its method String describes it in words.
type Answer struct {
	// Entry is the service that loses the largest share of its calls from outside when the load is
	// above the Margin. If several services lose the same share, Entry is the first by name.
	Entry string `json:"entry"`

	Entries int     `json:"entries"` // how many services are called from outside
	Rate    float64 `json:"rate"`    // the Rate of Entry, in calls a second

	// Margin is the highest rate of calls to Entry at which the system comes back in every run, to
	// within 1 %. The system comes back if it recovers or if its queues get shorter. Margin assumes
	// that all rates from outside are multiplied by MarginShare, including the rates of events. Margin
	// is at most 4 times Rate. It is below Rate if the system does not come back in every run at Rate,
	// and otherwise at least Rate. It is 0 if the system does not come back with a thousandth of its
	// load.
	Margin      float64 `json:"margin"`
	MarginShare float64 `json:"margin_share"`

	// Outcome is the Outcome of one of the runs. This run has the worst Verdict of all runs. Of the
	// runs with this Verdict, it is the middle one in the order of Recovery, EmptyIn and Lost.
	Outcome Outcome `json:"outcome"`

	// WithoutRetries is the Outcome of the same run if each call makes only one attempt.
	WithoutRetries Outcome `json:"without_retries"`

	Run Result `json:"run"` // the run that Outcome describes

	// Calls is how many calls came from outside between the start of the first event and the end of
	// the run. Retries do not change this number. Lost and LostWithoutRetries count the calls that
	// did not work, with and without retries. If a share of the calls did not work before the first
	// event either, Lost and LostWithoutRetries do not count this share.
	Calls              int `json:"calls"`
	Lost               int `json:"lost"`
	LostWithoutRetries int `json:"lost_without_retries"`

	// Scale is 1 unless the system is large. In a large system, the calls, workers, queues, and
	// clients or budgets are divided by Scale before the simulation, and at least 50 of each are
	// left. Afterwards the counts are multiplied by Scale.
	Scale int `json:"scale"`

	Limits []string `json:"limits"` // sentences about what the simulation cannot tell
}

// String describes the Outcome for people to read.
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

func (o Outcome) MarshalJSON() ([]byte, error) {
	type plain Outcome
	return json.Marshal(struct {
		plain
		Recovery strict.Duration `json:"recovery"`
		EmptyIn  strict.Duration `json:"empty_in,omitzero"`
	}{plain(o), strict.Duration(o.Recovery), strict.Duration(o.EmptyIn)})
}

func (l Load) MarshalJSON() ([]byte, error) {
	type plain Load
	return json.Marshal(struct {
		plain
		MeanWait strict.Duration `json:"mean_wait"`
	}{plain(l), strict.Duration(l.MeanWait)})
}

// String describes the Answer in a few lines for people to read. The first line is the margin.
func (a Answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s comes back %s; you run at %v/s\n", a.Entry, a.marginText(), a.Rate)
	if a.Entries > 1 {
		fmt.Fprintf(&b, "%s is the first of %d entries that fail above that\n", a.Entry, a.Entries)
	}
	fmt.Fprintf(&b, "%v (%d of %d runs)\n", a.Outcome, a.Outcome.Agree, a.Outcome.Runs)
	fmt.Fprintf(&b, "without retries: %v\n", a.WithoutRetries)
	if a.Calls > 0 {
		percent := 100 / float64(a.Calls)
		fmt.Fprintf(&b, "%d of %d calls lost (%.3g%%), %d without retries (%.3g%%)\n",
			a.Lost, a.Calls, percent*float64(a.Lost),
			a.LostWithoutRetries, percent*float64(a.LostWithoutRetries))
	}
	fmt.Fprintf(&b, "%.0f%% of the work was for callers that had given up\n",
		100*a.Outcome.Wasted)
	if a.Scale > 1 {
		fmt.Fprintf(&b, "simulated with 1/%d of the calls, workers and clients; "+
			"the counts are for the whole system\n", a.Scale)
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
