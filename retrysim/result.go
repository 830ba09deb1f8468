package retrysim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/goretry/retry/retrydialect/strict"
)

// A Result is one run of a [System]. In JSON durations are text, such as "1.5s".
type Result struct {
	Outcome Outcome `json:"outcome"`

	// Seconds counts the calls from outside, in a row for each second in which they began.
	Seconds []Second `json:"seconds"`

	Services map[string]Load `json:"services"` // by name

	growing bool   // s has not recovered, and its queues get longer
	fails   string // the entry that loses the largest share of its calls
}

// An Outcome says how a run ended.
type Outcome struct {
	Verdict Verdict `json:"verdict"`

	// Recovery is how long after the end of the last event the system recovered, in whole
	// seconds, if Verdict is Recovers.
	Recovery time.Duration `json:"recovery"`

	// EmptyIn is how long after the end of the run the queues will be empty, if Verdict is
	// Draining. 0: the last calls have worked.
	EmptyIn time.Duration `json:"empty_in,omitzero"`

	// Relapses is how often calls failed for 10s after the system had recovered.
	Relapses int `json:"relapses,omitzero"`

	Calls  int `json:"calls"`  // calls from outside
	Worked int `json:"worked"` // calls that were answered within the Patience

	// Lost is how many calls since the start of the first event did not work, without the
	// share that did not work before that event either.
	Lost int `json:"lost"`

	// Wasted is the share of all work since the start of the first event that was done for
	// callers that had given up. Only services with a number of Workers count.
	Wasted float64 `json:"wasted"`

	Runs  int `json:"runs,omitzero"`  // how many runs [Explain] made; 0: one run of [Run]
	Agree int `json:"agree,omitzero"` // how many of these runs have this Verdict

	seed  uint64
	since int // calls since the start of the first event
}

// A Verdict says whether a system recovers after its events.
type Verdict string

const (
	// Recovers: for 10 seconds on end, enough calls work at each entry. In any 3 of these
	// seconds, the share of calls that work is at least 90 % of the share that worked before
	// the first event. A system without events recovers if its calls work from the start.
	Recovers Verdict = "recovers"

	// Draining: the system has not recovered when the run ends. But its queues get shorter,
	// or its last calls have worked, though not yet for 10 seconds.
	Draining Verdict = "not back yet"

	// StaysDown: the system has not recovered, and its queues do not get shorter. Without
	// its events the system would work, so its own retries and queues keep it down.
	StaysDown Verdict = "stays down"

	// Overloaded: the system does not work without its events either.
	Overloaded Verdict = "overloaded"
)

// A Second counts the calls from outside that began in one second.
type Second struct {
	Calls  int `json:"calls"`
	Worked int `json:"worked"` // calls that were answered within the Patience of their service
}

// A Load is what one service had to do.
type Load struct {
	Normal   float64 `json:"normal"`   // requests in a second if no attempt fails
	Requests int     `json:"requests"` // requests that arrived
	Rejected int     `json:"rejected"` // requests refused by a full queue or a Fail event
	Waited   float64 `json:"waited"`   // the share of the requests that waited for a worker

	// MeanWait is how long a request waited for a worker, as the mean of all requests that
	// got a worker.
	MeanWait time.Duration `json:"mean_wait"`

	Peak int `json:"peak"` // the longest queue at the end of a second

	Seconds []LoadSecond `json:"seconds"`
}

// A LoadSecond is what one service had to do in one second.
type LoadSecond struct {
	Calls  int `json:"calls"`  // calls from outside that began in this second
	Worked int `json:"worked"` // how many of these calls were answered within the Patience

	Requests int     `json:"requests"` // requests that arrived
	Rejected int     `json:"rejected"` // requests refused by a full queue or a Fail event
	Queue    int     `json:"queue"`    // requests that wait for a worker at the end of the second
	Busy     float64 `json:"busy"`     // workers that handled a request, on average

	// Wasted is the share of work for callers that had given up. It counts work that ended
	// in this second.
	Wasted float64 `json:"wasted"`
}

// An Answer sums up several runs of a [System]. Its method String describes it in words.
type Answer struct {
	// Entry is a service that is called from outside: the service that loses the largest
	// share of its calls above the Margin. Of equal services it is the first by name.
	Entry string `json:"entry"`

	Entries int     `json:"entries"` // how many services are called from outside
	Rate    float64 `json:"rate"`    // the Rate of Entry, in calls a second

	// Margin is the highest rate of calls to Entry, to 1 %, at which the system comes back
	// in every run: it recovers, or its queues get shorter. All rates from outside change in
	// the same proportion, which is MarginShare. This includes the rates of events. Margin
	// is 0 if the system does not come back with a thousandth of its load, and at most 4
	// times Rate. It is below Rate if, and only if, a run at Rate does not come back.
	Margin      float64 `json:"margin"`
	MarginShare float64 `json:"margin_share"`

	// Outcome has the worst Verdict of all runs. Of the runs with this Verdict it is the
	// middle one, in the order of Recovery, EmptyIn and Lost.
	Outcome Outcome `json:"outcome"`

	WithoutRetries Outcome `json:"without_retries"` // of the same run with one attempt for each call
	Run            Result  `json:"run"`             // the run of Outcome

	// Calls is how many calls came from outside between the start of the first event and the
	// end of the run. It is the same number with retries and without. Lost and
	// LostWithoutRetries are how many of these calls did not work, without the share that
	// did not work before the event either.
	Calls              int `json:"calls"`
	Lost               int `json:"lost"`
	LostWithoutRetries int `json:"lost_without_retries"`

	// Scale is 1 if the whole system was simulated. A large system is simulated in part: its
	// calls, workers, queues, and clients or budgets are divided by Scale, as long as 50 of
	// each are left. The counts are multiplied by Scale.
	Scale int `json:"scale"`

	Limits []string `json:"limits"` // sentences about what the simulation cannot tell
}

// String describes the Outcome for people.
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
