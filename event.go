package retry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// An EventKind says what an [Event] tells. The zero EventKind is none.
type EventKind uint8

// The kinds of events, in brackets the text that String and JSON have for
// each.
const (
	AttemptStarted  EventKind = iota + 1 // an execution begins, whatever OnEvent does [attempt_started]
	AttemptFinished                      // it returned [attempt_finished]
	RetryScheduled                       // there will be another, after Delay [retry_scheduled]
	Stopped                              // there will be none, for Reason [stopped]
)

var kindNames = []string{"", "attempt_started", "attempt_finished", "retry_scheduled", "stopped"}

// String returns the name of k: "attempt_started".
func (k EventKind) String() string { return nameOf("EventKind", k, kindNames) }

// MarshalText returns the name of k, or an error if it has none.
func (k EventKind) MarshalText() ([]byte, error) { return marshalName("EventKind", k, kindNames) }

// UnmarshalText sets k to the kind of that name.
func (k *EventKind) UnmarshalText(text []byte) error {
	return unmarshalName("EventKind", k, kindNames, text)
}

// An Event is told to OnEvent as it happens. n executions that all fail are n
// AttemptStarted, n AttemptFinished, n - 1 RetryScheduled and one Stopped. An
// execution that panics is started and never finished, and nothing follows.
type Event struct {
	Kind    EventKind
	Time    time.Time     // when it happened
	Attempt int           // 1 for the first execution; 0 when none ran
	Max     int           // EffectiveMax of the policy
	Err     error         // AttemptFinished: what it failed with; Stopped with ReasonInvalid: the fault
	Took    time.Duration // AttemptFinished: how long this execution ran
	Elapsed time.Duration // since the first execution began
	Delay   time.Duration // RetryScheduled: the wait ...
	Due     time.Time     // ... and when it ends
	Hint    time.Duration // RetryScheduled: what a server asked for; without it the delay cannot be computed again
	Seed    uint64        // RetryScheduled: what drew Delay; 0: nothing was drawn
	Reason  Reason        // Stopped
}

// eventJSON is the JSON form of an Event: its fields by their names in snake
// case, durations as text, what is zero left out.
type eventJSON struct {
	Kind    EventKind `json:"kind"`
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"`
	Max     int       `json:"max"`
	Err     *string   `json:"err,omitempty"`
	Took    duration  `json:"took,omitzero"`
	Elapsed duration  `json:"elapsed,omitzero"`
	Delay   duration  `json:"delay,omitzero"`
	Due     time.Time `json:"due,omitzero"`
	Hint    duration  `json:"hint,omitzero"`
	Seed    seedText  `json:"seed,omitzero"`
	Reason  Reason    `json:"reason,omitzero"`
}

// MarshalJSON writes the fields of e by their names in snake case: durations
// as text, "200ms"; Err as its text; Seed as text too, for a number in JSON
// may lose digits. What is zero is left out, but for kind, time, attempt and
// max.
func (e Event) MarshalJSON() ([]byte, error) {
	j := eventJSON{
		Kind: e.Kind, Time: e.Time, Attempt: e.Attempt, Max: e.Max, Took: duration(e.Took), Elapsed: duration(e.Elapsed),
		Delay: duration(e.Delay), Due: e.Due, Hint: duration(e.Hint), Seed: seedText(e.Seed), Reason: e.Reason,
	}
	if e.Err != nil {
		text := e.Err.Error()
		j.Err = &text
	}
	return json.Marshal(j)
}

// A seedText is a seed that is text in JSON.
type seedText uint64

func (s seedText) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(s), 10), nil }

// UnmarshalJSON is there to say what to write instead of a number.
func (s *seedText) UnmarshalJSON(data []byte) error {
	text, err := strconv.Unquote(string(data))
	if err == nil {
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		*s = seedText(n)
	}
	if err != nil {
		return fmt.Errorf("seed is %s: write a whole number as text, such as \"42\"", data)
	}
	return nil
}

// UnmarshalJSON reads what MarshalJSON writes. Err becomes an error of that
// text. null changes nothing.
func (e *Event) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var j eventJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("retry: event: %w", err)
	}
	*e = Event{
		Kind: j.Kind, Time: j.Time, Attempt: j.Attempt, Max: j.Max, Took: time.Duration(j.Took), Elapsed: time.Duration(j.Elapsed),
		Delay: time.Duration(j.Delay), Due: j.Due, Hint: time.Duration(j.Hint), Seed: uint64(j.Seed), Reason: j.Reason,
	}
	if j.Err != nil {
		e.Err = errors.New(*j.Err)
	}
	return nil
}
