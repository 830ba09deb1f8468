package noetl

import (
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// Wire returns an event by its names on the wire, for encoding/json: an object
// with event (task.started, task.processed or task.retry_scheduled), task,
// attempt and time. A task.processed has the outcome too, the rule that
// matched (the first being 0; -1: none), its directive, and under faults what
// could not be evaluated. A task.retry_scheduled has delay, in seconds, and
// backoff. Of an event that has no name there, which is Stopped and the
// wait for a jump, Wire returns nil.
func Wire(e retryflow.Event) map[string]any {
	if e.Kind == retry.RetryScheduled && e.Directive == retryflow.Jump {
		return nil
	}
	m := map[string]any{"task": e.Task, "attempt": e.Attempt, "time": e.Time.Format(time.RFC3339Nano)}
	switch e.Kind {
	case retry.AttemptStarted:
		m["event"] = "task.started"
	case retry.AttemptFinished:
		m["event"] = "task.processed"
		m["outcome"] = object(e.Outcome)
		m["rule"] = e.Rule
		m["directive"] = e.Directive.String()
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
