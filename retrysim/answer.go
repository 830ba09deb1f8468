package retrysim

import (
	"fmt"
	"strings"
)

// An Answer sums up several runs of a [System]. Its method String describes it in words.
type Answer struct {
	// Entry is the service that loses the largest share of its calls from outside when the load is
	// above the Margin. If several services lose the same share, Entry is the first by name.
	Entry string `json:"entry"`

	Entries int     `json:"entries"` // how many services are called from outside
	Rate    float64 `json:"rate"`    // the Rate of Entry, in calls a second

	// Margin is the highest rate of calls to Entry at which the system comes back in every run, to
	// within 1 %. The system comes back if it recovers, or if its queues are at least getting shorter
	// at the end. To find Margin, Explain multiplies all rates of calls from outside by the same
	// factor, including the rates of events. MarginShare is the highest factor at which the system
	// comes back, so Margin is MarginShare times Rate. Margin is at most 4 times Rate. It is below
	// Rate if the system does not come back in every run at Rate, and otherwise at least Rate. It is 0
	// if the system does not come back with a thousandth of its load.
	Margin      float64 `json:"margin"`
	MarginShare float64 `json:"margin_share"`

	// Outcome is the Outcome of one of the runs. This run has the worst Verdict of all runs. Of the
	// runs with this Verdict, it is the middle one in the order of Recovery, EmptyIn and Lost.
	Outcome Outcome `json:"outcome"`

	// WithoutRetries is the Outcome of a second run, with the same seed, in which each call makes only
	// one attempt.
	WithoutRetries Outcome `json:"without_retries"`

	Run Result `json:"run"` // the run that Outcome describes

	// Calls is how many calls came from outside between the start of the first event and the end of
	// the run. Retries do not change this number. Lost and LostWithoutRetries are how many of these
	// calls failed in the run with retries and in the run without. They do not include the usual share
	// of failed calls. For example, if 2 % of the calls before the first event failed, 2 % of Calls do
	// not count as lost.
	Calls              int `json:"calls"`
	Lost               int `json:"lost"`
	LostWithoutRetries int `json:"lost_without_retries"`

	// Scale is 1 unless the system is large. Explain simulates only a part of a large system: it
	// divides the rates of calls, the workers and the queues by Scale. It also divides the clients of
	// each service by Scale or, if a service has one client, the sizes of its Budgets. Scale is so
	// small that each of these numbers is at least 50 afterwards, except the rates. At the end the
	// counts are multiplied by Scale.
	Scale int `json:"scale"`

	Limits []string `json:"limits"` // sentences about what the simulation cannot tell
}

var answerLimits = []string{
	"This is a model and not a measurement.",
	"It has no caches, connections, load balancers or locks.",
	"It has no garbage collection and no autoscaling.",
	"Do not trust the seconds: they depend on spare capacity, which few know to within 5%.",
	"Trust the margin more.",
	"Workers take requests in the order in which they came.",
	"A service without a number of workers handles all requests at once.",
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
