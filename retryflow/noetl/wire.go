package noetl

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// Wire returns an event in NoETL's form, as a mapping for encoding/json. The mapping has these
// keys:
//
//   - event: task.started, task.processed or task.retry_scheduled
//   - task, attempt and time
//   - outcome, in a task.processed
//   - rule, in a task.processed: the index of the rule that matched, or -1
//   - directive, in a task.processed: what the rules decided
//   - faults, in a task.processed: the errors of conditions that need a missing name
//   - delay, in a task.retry_scheduled: the delay in seconds
//   - backoff, in a task.retry_scheduled: the name of the curve
//   - retry: the event as [retryflow.Event.MarshalJSON] writes it, for [ReadWire]
//
// If JSON cannot represent a value of the outcome, Wire replaces the value with a mapping that
// has the key not_json. For NaN and infinite numbers, this key contains the text, such as "NaN".
// For any other value, it contains the name of the Go type. NoETL has no event for a CallFinished
// or for the wait before a jump. For these events, Wire returns nil.
//
// A log of these events is enough for [retryflow.Pipeline.Resume] after a crash. But it contains
// no CallFinished, so Resume starts a task again even if the task had no attempts left. Your
// program must store elsewhere which runs have failed.
func Wire(e retryflow.Event) map[string]any {
	if e.Kind == retry.RetryScheduled && e.Directive == retryflow.Jump {
		return nil
	}
	m := map[string]any{
		"task": e.Task, "attempt": e.Attempt,
		"time": e.Time.Format(time.RFC3339Nano), "retry": e,
	}
	switch e.Kind {
	case retry.AttemptStarted:
		m["event"] = "task.started"
	case retry.AttemptFinished:
		m["event"] = "task.processed"
		m["outcome"] = writable(object(e.Outcome))
		m["rule"] = e.Rule
		m["directive"] = string(e.Directive)
		if len(e.Faults) > 0 {
			faults := make([]string, len(e.Faults))
			for i, fault := range e.Faults {
				faults[i] = fault.Error()
			}
			m["faults"] = faults
		}
	case retry.RetryScheduled:
		m["event"] = "task.retry_scheduled"
		m["delay"] = e.Delay.Seconds()
		m["backoff"] = backoffName(e.Backoff)
	default:
		return nil
	}
	return m
}

// writable returns v in a form that JSON can represent. It replaces each member that JSON cannot
// represent with a not_json mapping. The parameter `outer` contains the addresses of the maps and
// slices around v, because a map may contain itself.
func writable(v any, outer ...uintptr) any {
	if _, err := json.Marshal(v); err == nil {
		return v
	}
	r := reflect.ValueOf(v)
	switch kind := r.Kind(); {
	case (kind == reflect.Map || kind == reflect.Slice) && slices.Contains(outer, r.Pointer()):
	case kind == reflect.Map:
		m := map[string]any{}
		for i := r.MapRange(); i.Next(); {
			m[fmt.Sprint(i.Key())] = writable(i.Value().Interface(), append(outer, r.Pointer())...)
		}
		return m
	case kind == reflect.Slice:
		list := make([]any, r.Len())
		for i := range list {
			list[i] = writable(r.Index(i).Interface(), append(outer, r.Pointer())...)
		}
		return list
	case r.CanFloat():
		return map[string]any{"not_json": fmt.Sprint(v)}
	}
	return map[string]any{"not_json": fmt.Sprintf("%T", v)}
}

func backoffName(b retry.Backoff) string {
	switch b.(type) {
	case retry.Linear:
		return "linear"
	case retry.Exponential:
		return "exponential"
	default:
		return "fixed"
	}
}

// ReadWire reads the JSON of a mapping that [Wire] returned. The event that it returns differs
// from the original event in these points:
//
//   - Errors have only their text.
//   - Result and Data of the Outcome contain JSON values. The numbers in these values are
//     [json.Number].
//   - Backoff is nil, and State of the Outcome is nil.
func ReadWire(data []byte) (retryflow.Event, error) {
	var m struct {
		Event   *string
		Retry   *retryflow.Event
		Outcome map[string]any
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	if err := decoder.Decode(&m); err != nil {
		return retryflow.Event{}, fmt.Errorf("noetl: event: %w", err)
	}
	switch {
	case m.Event == nil:
		return retryflow.Event{}, errors.New(`noetl: event: the key "event" is missing: ` +
			"write task.started, task.processed or task.retry_scheduled")
	case m.Retry == nil:
		return retryflow.Event{}, fmt.Errorf(`noetl: event %q: the key "retry" is missing: `+
			"only events of this package can be read back", *m.Event)
	}
	e := *m.Retry
	if e.Kind == retry.AttemptFinished {
		e.Outcome = outcomeOf(m.Outcome, e)
	}
	return e, nil
}
