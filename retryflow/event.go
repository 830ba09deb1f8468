package retryflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// Event is an event of package retry, with the task and the rule that it belongs to.
// Each time a task is entered, its events start with attempt 1 and end with a CallFinished
// for the task. There is no event for the end of the run. A wait before a jump is a
// RetryScheduled with the Directive Jump. The CallFinished of that task follows after the
// wait.
//
// Err of AttemptFinished is the error that the task fails with, or else the error of the
// Outcome. Err of RetryScheduled is the error of the Outcome if Directive is Jump.
//
// Max is the EffectiveMax of Pipeline.Policy. It is the same in all events of a task. Rule
// and the fields after it say what the rules decided after the last attempt. They are not
// set in AttemptStarted, where Rule is -1.
type Event struct {
	retry.Event
	Task string

	Rule      int       // index of the rule that matched; -1: no rule matched
	Directive Directive // what to do next, if attempts and time allow it
	To        string    // Jump: the label of the next task

	// Limit is the lower limit on attempts of the rule and of the pipeline, or Unlimited,
	// if Directive is Retry. Otherwise it is 0.
	Limit int

	Computed time.Duration // the result of the rule's Delay; 0 if the rule has no Delay

	Outcome Outcome       // AttemptFinished: the outcome, with the State after Set has changed it
	Faults  []error       // AttemptFinished: the errors of each When that failed with ErrNoMatch
	Backoff retry.Backoff // RetryScheduled: the curve from which the delay was computed
}

// event returns the event of the pipeline for e, which is an event of a task.
func event(e retry.Event, task Task, o Outcome, v verdict) Event {
	f := Event{Event: e, Task: task.Label, Rule: -1}
	switch e.Kind {
	case retry.AttemptStarted:
		return f
	case retry.AttemptFinished:
		if f.Err == nil {
			f.Err = o.Err
		}
		f.Outcome, f.Faults = o, v.faults
	case retry.RetryScheduled:
		f.Backoff = v.Policy.Backoff
	}
	f.Rule, f.Directive, f.To, f.Computed = v.index, v.Do, v.To, v.wait
	if v.Do == Retry {
		f.Limit = v.limit(e.Max)
	}
	return f
}

// eventJSON holds the keys that an Event adds to the JSON form of a retry.Event.
type eventJSON struct {
	Task      string    `json:"task"`
	Rule      int       `json:"rule"`
	Directive Directive `json:"directive,omitempty"`
	To        string    `json:"to,omitempty"`
	Limit     int       `json:"limit,omitempty"`
	Computed  string    `json:"computed,omitempty"`
	Faults    []string  `json:"faults,omitempty"`
}

// MarshalJSON writes the keys of [retry.Event.MarshalJSON], and the keys task, rule,
// directive, to, limit, computed and faults. It does not write Outcome and Backoff.
func (e Event) MarshalJSON() ([]byte, error) {
	base, err := json.Marshal(e.Event)
	if err != nil {
		return nil, err
	}
	form := eventJSON{Task: e.Task, Rule: e.Rule, Directive: e.Directive, To: e.To, Limit: e.Limit}
	if e.Computed != 0 {
		form.Computed = e.Computed.String()
	}
	for _, fault := range e.Faults {
		form.Faults = append(form.Faults, fault.Error())
	}
	own, err := json.Marshal(form)
	if err != nil {
		return nil, err
	}
	return append(append(base[:len(base)-1], ','), own[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON writes. Each of the Faults becomes an error with the
// same text.
func (e *Event) UnmarshalJSON(data []byte) error {
	var base retrylog.Record
	if err := base.UnmarshalJSON(data); err != nil {
		return err
	}
	form := eventJSON{Rule: -1}
	if err := json.Unmarshal(data, &form); err != nil {
		return fmt.Errorf("retryflow: event: %w", err)
	}
	*e = Event{
		Event: base.Event, Task: form.Task, Rule: form.Rule, Directive: form.Directive,
		To: form.To, Limit: form.Limit,
	}
	if form.Computed != "" {
		var err error
		if e.Computed, err = time.ParseDuration(form.Computed); err != nil {
			return fmt.Errorf("retryflow: event: computed is %.40q: "+
				`write a duration, such as "200ms"`, form.Computed)
		}
	}
	for _, fault := range form.Faults {
		e.Faults = append(e.Faults, errors.New(fault))
	}
	return nil
}
