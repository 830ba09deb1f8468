package retrysim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/goretry/retry/retrydialect/strict"
)

// An Outcome says how a run ended.
type Outcome struct {
	Verdict Verdict `json:"verdict"`

	// Recovery is the time from the end of the last event until the system recovered, in whole
	// seconds. It is set only if Verdict is Recovers.
	Recovery time.Duration `json:"recovery"`

	// EmptyIn is an estimate of the time from the end of the run until the queues are empty. It is
	// set only if Verdict is Draining. If Verdict is Draining and EmptyIn is 0, there is no estimate.
	// Then enough calls succeeded in the last 3 seconds, but not yet for 10 seconds.
	EmptyIn time.Duration `json:"empty_in,omitzero"`

	// Relapses is how often the system failed again after a recovery. A failure counts if too few
	// calls succeeded in 10 consecutive seconds.
	Relapses int `json:"relapses,omitzero"`

	Calls  int `json:"calls"`  // calls from outside
	Worked int `json:"worked"` // calls that succeeded within the Patience

	// Lost is how many of the calls since the start of the first event failed. It does not include the
	// usual share of failed calls. For example, if 2 % of the calls before this event failed, 2 % of
	// the calls since its start do not count as lost.
	Lost int `json:"lost"`

	// Wasted is the share of the work that was done for callers that had given up. Only the work of
	// services with a limited number of Workers counts, from the start of the first event in
	// System.Events.
	Wasted float64 `json:"wasted"`

	Runs  int `json:"runs,omitzero"`  // how many runs [Explain] made; 0 for the one run of [Run]
	Agree int `json:"agree,omitzero"` // how many of these runs ended with the Verdict above

	seed  uint64
	since int // calls since the start of the first event
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
		return "not back yet, but the last calls have succeeded"
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

func (o Outcome) back() bool { return o.Verdict == Recovers || o.Verdict == Draining }
