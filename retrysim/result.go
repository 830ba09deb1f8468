package retrysim

import (
	"encoding/json"
	"time"

	"github.com/goretry/retry/retrydialect/strict"
)

// A Result is one run of a [System].
type Result struct {
	Outcome  Outcome         `json:"outcome"`
	Seconds  []Second        `json:"seconds"`  // the calls from outside, a row for each second in which they began
	Services map[string]Load `json:"services"` // by name

	growing bool   // not recovered, and the queues get longer
	fails   string // the entry that loses the largest share of its calls
}

// An Outcome says how a run ended.
type Outcome struct {
	Verdict  Verdict       `json:"verdict"`
	Recovery time.Duration `json:"recovery"`          // Recovers: how long after the end of the last event, in whole seconds
	EmptyIn  time.Duration `json:"empty_in,omitzero"` // Draining: when the queues will be empty, counted from the end of the run; 0: the last calls have worked
	Relapses int           `json:"relapses,omitzero"` // how often the calls failed again for 10s after they had recovered
	Calls    int           `json:"calls"`             // from outside
	Worked   int           `json:"worked"`            // calls that were answered within the Patience
	Lost     int           `json:"lost"`              // calls since the first event that did not work, beyond the share that did not work before
	Wasted   float64       `json:"wasted"`            // share of all work since the first event that was done for callers that had given up
	Runs     int           `json:"runs,omitzero"`     // of [Explain]: how many runs there were
	Agree    int           `json:"agree,omitzero"`    // of [Explain]: in how many of them the Verdict was the same

	seed  uint64
	since int // calls since the first event
}

// A Verdict says whether a system comes back after what happened to it.
type Verdict string

const (
	// Recovers: 90 % of the share of calls that worked before the first event work
	// again, at each entry, in each 3 seconds of 10 seconds on end. Without an event:
	// nothing is wrong.
	Recovers Verdict = "recovers"

	// Draining: it has not recovered when the run ends, but its queues get shorter, or
	// its last calls have worked, only not for 10 seconds yet.
	Draining Verdict = "not back yet"

	// StaysDown: it has not recovered, and its queues do not get shorter. Without the
	// event it would work, so what keeps it down is its own load.
	StaysDown Verdict = "stays down"

	// Overloaded: it does not work without an event either.
	Overloaded Verdict = "overloaded"
)

// A Second is what became of the calls from outside that began in one second.
type Second struct {
	Calls  int `json:"calls"`
	Worked int `json:"worked"` // answered within the Patience of their service
}

// A Load is what one service had to do.
type Load struct {
	Normal   float64       `json:"normal"`    // requests a second if no attempt fails
	Requests int           `json:"requests"`  // that came
	Rejected int           `json:"rejected"`  // because the queue was full, or by a Fail event
	Waited   float64       `json:"waited"`    // share of the requests that had to wait for a worker
	MeanWait time.Duration `json:"mean_wait"` // for a worker, of all requests that got one
	Peak     int           `json:"peak"`      // the longest queue at the end of a second

	Seconds []LoadSecond `json:"seconds"`
}

// A LoadSecond is what one service had to do in one second.
type LoadSecond struct {
	Calls  int `json:"calls"`  // from outside that began in this second
	Worked int `json:"worked"` // of these, answered within the Patience

	Requests int     `json:"requests"` // that came
	Rejected int     `json:"rejected"` // because the queue was full, or by a Fail event
	Queue    int     `json:"queue"`    // how many wait for a worker at the end of the second
	Busy     float64 `json:"busy"`     // how many handled a request, on average
	Wasted   float64 `json:"wasted"`   // share of the work that ended in this second for callers that had given up
}

// An Answer is what several runs of a [System] say together. String has it in words.
type Answer struct {
	Entry   string  `json:"entry"`   // the service called from outside that loses most above the Margin; of equal ones the first by name
	Entries int     `json:"entries"` // how many services are called from outside
	Rate    float64 `json:"rate"`    // of its calls a second

	// Margin is the highest rate of Entry, to 1 %, at which the system comes back in every
	// run: it recovers, or its queues get shorter. All rates from outside are changed in
	// the same proportion, MarginShare, and with them events that set one. It is 0 if the
	// system does not come back with a thousandth of its load either, and at most 4 times
	// its load. It is below the load exactly if a run at that load does not come back.
	Margin      float64 `json:"margin"`
	MarginShare float64 `json:"margin_share"`

	// Outcome has the worst Verdict of the runs, and is the outcome of the run in the
	// middle of those that have it, in the order of Recovery, EmptyIn and Lost.
	Outcome Outcome `json:"outcome"`

	WithoutRetries Outcome `json:"without_retries"` // of the same run if each call has one attempt
	Run            Result  `json:"run"`             // the run of this Outcome

	// Of the calls from outside between the start of the first event and the end of the
	// run, which are the same with and without retries, so many did not work, beyond the
	// share that did not work before.
	Calls              int `json:"calls"`
	Lost               int `json:"lost"`
	LostWithoutRetries int `json:"lost_without_retries"`

	// A large system is simulated with a part of its calls, workers, queues, and clients or
	// budgets, as long as 50 of each are left. The counts are multiplied by Scale; 1: it
	// was simulated as it is.
	Scale int `json:"scale"`

	Limits []string `json:"limits"` // what to know before believing it: a sentence each
}

// In JSON, durations are text such as "1.5s".

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
