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

// CheckPipeline is what Check of a [retrylog.Call] is, for a call that ran a task of p. Outcomes are not in a
// log, so it trusts the log about which rule matched, and about what the rule's Delay
// and Attempts computed. It looks at each call alone: [CheckRuns] also checks the
// order of the tasks.
func CheckPipeline(c retrylog.Call, p retryflow.Pipeline) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("retrylog: %w", err)
	}
	return c.CheckBy("pipeline", func(r retrylog.Record) (*eventlog.Judge, error) { return judgeOf(p, r) })
}

// judgeOf returns what judges an event of a task, nil if nothing can, or why p cannot
// have reported it.
func judgeOf(p retryflow.Pipeline, r retrylog.Record) (*eventlog.Judge, error) {
	f, ok := r.Flow.(flow)
	if !ok {
		return nil, errors.New("it is of no pipeline: use Check")
	}
	rule, err := ruleOf(p, *f.Event)
	if err != nil {
		return nil, err
	}
	switch computes := rule.Attempts != nil || rule.Delay != nil || rule.Set != nil; {
	case f.Kind == retry.RetryScheduled && f.Directive != retryflow.Retry:
		return nil, nil
	case f.Kind == retry.CallFinished && f.Reason == retry.ReasonNonRetryable && computes: // one of these may have failed
		return nil, nil
	case f.Kind == retry.CallFinished && f.Reason == retry.ReasonNonRetryable && f.Done():
		return nil, fmt.Errorf("rule %d has no function that can fail", f.Rule)
	}
	return &eventlog.Judge{Policy: p.PolicyAfter(*f.Event), Rules: true}, nil
}

// ruleOf returns the rule of p that e names, and an error if p has a different
// one at that index.
func ruleOf(p retryflow.Pipeline, e retryflow.Event) (rule retryflow.Rule, err error) {
	var rules retryflow.Rules
	found := false
	for _, t := range p.Tasks {
		if t.Label == e.Task {
			rules, found = t.Rules, true
		}
	}
	switch {
	case !found:
		return rule, errors.New("the pipeline does not have that task")
	case e.Rule >= len(rules):
		return rule, fmt.Errorf("the task has %d rules", len(rules))
	case e.Rule < 0:
		if e.Directive != "" && e.Directive != retryflow.Continue && e.Directive != retryflow.Fail {
			return rule, fmt.Errorf("without a rule a task cannot %v", e.Directive)
		}
		return rule, nil
	}
	rule = rules[e.Rule]
	if rule.Do != e.Directive || rule.To != e.To {
		return rule, fmt.Errorf("rule %d says %s", e.Rule, say(rule.Do, rule.To))
	}
	return rule, nil
}

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
			return &eventlog.Fault{Record: r, What: fmt.Errorf("%s: %w", r, err)}
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
