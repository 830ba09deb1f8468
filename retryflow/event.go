package retryflow

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goretry/retry"
)

// An Event is an event of package retry, and the task that it is of. Each
// time a task is entered its events begin anew, with attempt 1, and end with a
// Stopped that is of the task, not of the run. After that comes the wait for a
// jump, a RetryScheduled with the Directive Jump, and no event tells that the
// run ended in it. Err of AttemptFinished is what the task is to fail with, or
// else that of the Outcome. Max of AttemptFinished and RetryScheduled is for a
// Retry the tighter limit of the rule and the pipeline.
type Event struct {
	retry.Event
	Task string

	Rule      int       // AttemptFinished, RetryScheduled: which rule matched, the first being 0; else, and where none did, -1
	Directive Directive // AttemptFinished, RetryScheduled: what follows, if attempts and time allow

	Outcome Outcome       // AttemptFinished; its State is as Set left it
	Faults  []error       // AttemptFinished: of rules whose When failed
	Backoff retry.Backoff // RetryScheduled: the curve that Delay is of
}

// event returns what OnEvent is told of e, an event of task.
func event(e retry.Event, task Task, o Outcome, v verdict) Event {
	f := Event{Event: e, Task: task.Label, Rule: -1}
	if v.Do == Retry && (e.Kind == retry.AttemptFinished || e.Kind == retry.RetryScheduled) {
		f.Max = tighter(e.Max, v.Policy.EffectiveMax())
	}
	switch e.Kind {
	case retry.AttemptFinished:
		if f.Err == nil {
			f.Err = o.Err
		}
		f.Rule, f.Directive, f.Outcome, f.Faults = v.index, v.Do, o, v.faults
	case retry.RetryScheduled:
		f.Rule, f.Directive, f.Backoff = v.index, v.Do, v.Policy.Backoff
	}
	return f
}

// tighter returns the smaller of two limits.
func tighter(a, b int) int {
	if a == retry.Unlimited || b != retry.Unlimited && b < a {
		return b
	}
	return a
}

// eventJSON is what the JSON form of an Event has beside that of retry.Event.
type eventJSON struct {
	Task      string    `json:"task"`
	Rule      int       `json:"rule"`
	Directive Directive `json:"directive,omitempty"`
	Faults    []string  `json:"faults,omitempty"`
}

// MarshalJSON writes what [retry.Event.MarshalJSON] does, and task, rule,
// directive and faults. Outcome and Backoff are no part of the form.
func (e Event) MarshalJSON() ([]byte, error) {
	base, err := json.Marshal(e.Event)
	if err != nil {
		return nil, err
	}
	form := eventJSON{Task: e.Task, Rule: e.Rule, Directive: e.Directive}
	for _, fault := range e.Faults {
		form.Faults = append(form.Faults, fault.Error())
	}
	own, err := json.Marshal(form)
	if err != nil {
		return nil, err
	}
	return append(append(base[:len(base)-1], ','), own[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON writes. Faults become errors of that
// text.
func (e *Event) UnmarshalJSON(data []byte) error {
	var base retry.Event
	if err := json.Unmarshal(data, &base); err != nil {
		return err
	}
	form := eventJSON{Rule: -1}
	if err := json.Unmarshal(data, &form); err != nil {
		return fmt.Errorf("retryflow: event: %w", err)
	}
	*e = Event{Event: base, Task: form.Task, Rule: form.Rule, Directive: form.Directive}
	for _, fault := range form.Faults {
		e.Faults = append(e.Faults, errors.New(fault))
	}
	return nil
}
