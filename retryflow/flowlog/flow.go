package flowlog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow"
)

// A flow is an event of a pipeline, as package eventlog judges it.
type flow struct{ *retryflow.Event }

func (f flow) Task() string { return f.Event.Task }

func (f flow) Jumps() bool { return f.Directive == retryflow.Jump || f.newer() }

// Done: the task can fail even so, if a function of the rule does.
func (f flow) Done() bool {
	return f.Directive == retryflow.Continue || f.Directive == retryflow.Break || f.Jumps()
}

// newer reports whether the directive is of a newer version: what it may do, this one
// cannot know.
func (f flow) newer() bool {
	switch f.Directive {
	case "", retryflow.Continue, retryflow.Retry, retryflow.Jump, retryflow.Break, retryflow.Fail:
		return false
	default:
		return true
	}
}

// A decision is what the rules of a pipeline said after an attempt.
type decision struct {
	Rule      int
	Directive retryflow.Directive
	To        string
	Limit     int
	Computed  time.Duration
}

func (f flow) decision() decision {
	return decision{f.Rule, f.Directive, f.To, f.Limit, f.Computed}
}

func (f flow) Follows(before eventlog.Flow) error {
	d := f.decision()
	b, follows := before.(flow)
	waits := f.Kind == retry.RetryScheduled && !f.newer()
	switch started := f.Kind == retry.AttemptStarted; {
	case f.Event.Task == "":
		return errors.New("its task has no label")
	case started && d != decision{Rule: -1}:
		return fmt.Errorf("%v comes before a decision, but has one", f.Kind)
	case !started && f.Attempt > 0 && f.Directive == "":
		return errors.New("it has no directive")
	case (f.To != "") != f.Jumps() && !f.newer():
		return fmt.Errorf("directive is %q, and to is %q", f.Directive, f.To)
	case waits && f.Directive != retryflow.Retry && !f.Jumps():
		return fmt.Errorf("directive is %q, which waits for nothing", f.Directive)
	case waits && f.Jumps() && (f.Delay != f.Computed || f.RetryAfter != 0 || f.Seed != 0):
		return fmt.Errorf("delay is %v, but the rule computed %v", f.Delay, f.Computed)
	case follows && started && b.Directive != "" && b.Directive != retryflow.Retry && !b.newer():
		return fmt.Errorf("the rules say %s, and not to retry", say(b.Directive, b.To))
	case follows && !started && f.Kind != retry.AttemptFinished && d != b.decision():
		return errors.New("its rule, directive, to, limit or computed differs from the event before")
	}
	return nil
}

// Describe says what happened in a pipeline, where event says it of a call.
func (f flow) Describe(event string) string {
	text := event
	switch {
	case f.Kind == retry.AttemptFinished && f.Rule < 0:
		text += ", no rule matches: " + say(f.Directive, f.To)
	case f.Kind == retry.AttemptFinished:
		text += fmt.Sprintf(", rule %d says %s", f.Rule, say(f.Directive, f.To))
	case f.Kind == retry.RetryScheduled && f.Directive == retryflow.Jump:
		text = fmt.Sprintf("jumps to %s in %v, at %s", eventlog.Printable(f.To), f.Delay, eventlog.Clock(f.Due))
	case f.Kind == retry.CallFinished && f.Reason == retry.ReasonSuccess:
		text = eventlog.StoppedAfter(f.Event.Event) + ": " + say(f.Directive, f.To)
	case f.Kind == retry.CallFinished && f.Reason == retry.ReasonNonRetryable:
		text = eventlog.StoppedAfter(f.Event.Event) + ": the rules do not retry it"
	}
	if len(f.Faults) > 0 {
		faults := make([]string, len(f.Faults))
		for i, fault := range f.Faults {
			faults[i] = eventlog.Printable(fmt.Sprint(fault))
		}
		text += " (" + strings.Join(faults, ", ") + ")"
	}
	return "task " + eventlog.Printable(f.Event.Task) + ": " + text
}

func say(d retryflow.Directive, to string) string {
	if d == retryflow.Jump {
		return "jump to " + eventlog.Printable(to)
	}
	return eventlog.Printable(string(d))
}
