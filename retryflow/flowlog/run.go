package flowlog

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retrylog"
)

// CheckRuns checks the runs of p in a log that are complete: each has a key of its
// own, has ended, and was not resumed. It checks every call as [CheckPipeline]
// does, and computes from the rules that matched which task comes next. So it finds a
// line that is missing, moved or changed.
//
// It does not find a change of what no other line repeats: the error of a task that
// goes on or jumps, Faults, and a time that differs by less than a second. What a task
// did is not in a log, so it trusts the log about which rule matched. A clock that was
// set during a run looks like a change.
func CheckRuns(p retryflow.Pipeline, calls []retrylog.Call) error {
	runs := map[string]*order{}
	for _, c := range calls {
		if c.Task == "" || len(c.Records) == 0 {
			continue
		}
		if runs[c.Key] == nil {
			runs[c.Key] = &order{Pipeline: p}
		}
		err := CheckPipeline(c, p)
		if err == nil {
			err = runs[c.Key].add(c)
		}
		if err != nil {
			return err
		}
	}
	for _, c := range slices.Backward(calls) {
		if r := runs[c.Key]; r != nil && c.Task != "" && r.next < len(p.Tasks) {
			return fmt.Errorf("retrylog: line %d: the log ends before task %s", r.last.Line, eventlog.Printable(p.Tasks[r.next].Label))
		}
	}
	return nil
}

// An order is how far a run has come.
type order struct {
	retryflow.Pipeline
	next  int // index of the task that comes next; beyond the last, the run has ended
	jumps int
	last  retrylog.Record
}

// add adds the next call of a run, or returns why it cannot follow.
func (o *order) add(c retrylog.Call) error {
	for i, r := range c.Records {
		if err := o.follows(r, i == 0); err != nil {
			return fmt.Errorf("retrylog: line %d: %s: %w", r.Line, r, err)
		}
		o.last = r
	}
	switch flow := o.last.Flow.(flow); {
	case c.Reason == "":
		return fmt.Errorf("retrylog: line %d: task %s did not stop", o.last.Line, eventlog.Printable(c.Task))
	case c.Reason == retry.ReasonSuccess && flow.Directive == retryflow.Continue:
		o.next++
	case c.Reason == retry.ReasonSuccess && flow.Directive == retryflow.Jump && o.jumps < o.limit():
		o.jumps++
		o.next = slices.IndexFunc(o.Tasks, func(t retryflow.Task) bool { return t.Label == flow.To })
	default:
		o.next = len(o.Tasks)
	}
	return nil
}

func (o *order) limit() int {
	if o.MaxJumps == 0 {
		return 10_000
	}
	return o.MaxJumps
}

// follows returns why r cannot come next.
func (o *order) follows(r retrylog.Record, begins bool) error {
	switch {
	case begins && o.next >= len(o.Tasks):
		return errors.New("the run has ended")
	case begins && o.Tasks[o.next].Label != r.Flow.Task():
		return fmt.Errorf("task %s comes next", eventlog.Printable(o.Tasks[o.next].Label))
	case o.last.Flow == nil:
		return nil
	case begins:
		return off(r.Event.Time.Sub(o.last.Event.Time), 0, time.Minute)
	}
	before, e := o.last.Flow.(flow), r.Flow.(flow)
	switch took := e.Elapsed - before.Elapsed; {
	case e.Kind == retry.AttemptStarted && before.Kind != retry.RetryScheduled:
		return errors.New("the retry before it is missing")
	case e.Kind == retry.CallFinished && e.Reason == retry.ReasonSuccess && before.Kind == retry.AttemptFinished && e.Directive == retryflow.Jump && e.Computed > 0 && o.jumps < o.limit():
		return errors.New("the wait before the jump is missing")
	case e.Kind == retry.AttemptFinished && off(e.Took, took, time.Second) != nil:
		return fmt.Errorf("took is %v, and elapsed says %v", e.Took, took)
	default:
		return off(e.Time.Sub(before.Time), took, time.Second)
	}
}

// off returns an error if a clock shows another time than elapsed, by as much as only
// a clock that is set does, or a slow OnEvent.
func off(clock, elapsed, by time.Duration) error {
	if (clock - elapsed).Abs() >= by {
		return fmt.Errorf("time goes on by %v, and elapsed by %v", clock, elapsed)
	}
	return nil
}
