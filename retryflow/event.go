package retryflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// An Event is a [retry.Event] of a task, together with the decision of the rules. Each time a
// task is entered, its events start with attempt 1 and end with a CallFinished. The end of the
// whole run has no event. If a task waits before a jump, the wait is a RetryScheduled with the
// Directive Jump. The CallFinished of the task follows after this wait.
//
// In an AttemptFinished, Err is the error with which the task fails or is retried. If the task
// neither fails nor is retried, for example because a rule says Continue after an error, Err is the
// error of the Outcome. In a RetryScheduled with the Directive Jump, Err is the error of the
// Outcome.
//
// Max is the EffectiveMax of Pipeline.Policy in all events. Rule and the fields after Rule say
// what the rules decided after the last attempt. In an AttemptStarted, Rule is -1 and the fields
// after Rule are zero.
type Event struct {
	retry.Event
	Task string

	Rule      int       // the index of the rule that matched; -1 if no rule matched
	Directive Directive // what to do next, if attempts and time allow it
	To        string    // the label of the next task, if Directive is Jump

	// If Directive is Retry, Limit is the limit on attempts of the rule or of the pipeline,
	// whichever is lower. It is Unlimited if neither has a limit. For any other Directive, Limit is
	// 0.
	Limit int

	Computed time.Duration // the result of the rule's Delay; 0 if the rule has no Delay

	// Outcome is set in an AttemptFinished. It is the outcome of the attempt. State of the Outcome
	// already has the changes that the function Set of the rule made.
	Outcome Outcome

	// Faults is set in an AttemptFinished. It contains the errors of the rules whose function When
	// returned ErrNoMatch or an error that wraps ErrNoMatch.
	Faults []error

	// Backoff is set in a RetryScheduled. It is the curve from which the delay was computed.
	Backoff retry.Backoff
}

// event turns e, a retry.Event of a task, into an Event of the pipeline.
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

// MarshalJSON writes the keys of [retry.Event.MarshalJSON], and the keys `task`, `rule`,
// `directive`, `to`, `limit`, `computed` and `faults`. It does not write Outcome and Backoff.
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

// UnmarshalJSON reads the JSON that MarshalJSON writes. Each text under the key `faults` becomes an
// error with this text.
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
