package retry

import (
	"encoding/json"
	"fmt"
	"time"
)

// eventJSON is how an Event is written.
type eventJSON struct {
	Kind       EventKind `json:"kind"`
	Time       time.Time `json:"time"`
	Attempt    int       `json:"attempt"`
	Total      int       `json:"total,omitzero"`
	Max        int       `json:"max"`
	Resets     int       `json:"resets,omitzero"`
	Err        *string   `json:"err,omitempty"`
	Cause      *string   `json:"cause,omitempty"`
	Took       duration  `json:"took,omitzero"`
	Elapsed    duration  `json:"elapsed,omitzero"`
	Delay      duration  `json:"delay,omitzero"`
	Due        time.Time `json:"due,omitzero"`
	Lo         duration  `json:"lo,omitzero"`
	Hi         duration  `json:"hi,omitzero"`
	RetryAfter duration  `json:"retry_after,omitzero"`
	Seed       uint64    `json:"seed,omitzero,string"`
	Class      string    `json:"class,omitzero"`
	Reason     Reason    `json:"reason,omitzero"`
}

// MarshalJSON writes the fields of e by their names in snake case: durations
// as text such as "200ms", Err and Cause as their texts, and Seed as text
// because a number in JSON may lose digits. Zero fields are left out, except
// kind, time, attempt and max, and so is a total that is the attempt's number.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.Total <= e.Attempt {
		e.Total = 0
	}
	return json.Marshal(eventJSON{
		Kind: e.Kind, Time: e.Time, Attempt: e.Attempt, Total: e.Total, Max: e.Max, Resets: e.Resets,
		Err: textOf(e.Err), Cause: textOf(e.Cause), Took: duration(e.Took), Elapsed: duration(e.Elapsed),
		Delay: duration(e.Delay), Due: e.Due, Lo: duration(e.Lo), Hi: duration(e.Hi),
		RetryAfter: duration(e.RetryAfter), Seed: e.Seed, Class: e.Class, Reason: e.Reason,
	})
}

// textOf returns the text of an error, nil for none.
func textOf(err error) *string {
	if err == nil {
		return nil
	}
	text := fmt.Sprint(err) // knows a nil pointer whose method Error panics
	return &text
}
