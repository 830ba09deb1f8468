package flowlog

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retrylog"
)

// A Call is a task of a pipeline from when it is entered until it has stopped, or a
// call of a policy.
type Call struct {
	retrylog.Call
	Task    string   // the task that this call ran; "": it is not from a pipeline
	Records []Record // the events themselves
}

// Replay rebuilds the calls of a log, as [retrylog.Replay] does. The jump of a task is
// the retry scheduled after its last attempt. Events that no pipeline can report, such
// as a retry of a task whose rules say to go on, are a fault of the log too.
func Replay(records []Record) ([]Call, error) {
	replayed, err := eventlog.Replay(len(records), func(i int) eventlog.Entry { return records[i].numbered(i).entry() })
	var calls []Call
	for _, r := range replayed {
		c := Call{Task: r.Task, Call: retrylog.Call{Key: r.Key, Max: r.Max, Resets: r.Resets, Reason: r.Reason, Cause: r.Cause, Fault: r.Fault}}
		for _, a := range r.Attempts {
			c.Attempts = append(c.Attempts, retrylog.Attempt(a))
		}
		for _, i := range r.Entries {
			record := records[i].numbered(i)
			c.Records = append(c.Records, record)
			c.Call.Records = append(c.Call.Records, record.Record)
		}
		calls = append(calls, c)
	}
	return calls, err
}

// numbered returns r with its line. If it was not read, that is the one that it would
// be written on, as the i-th of a log.
func (r Record) numbered(i int) Record {
	r.Line = cmp.Or(r.Line, i+1)
	return r
}

// Check is [retrylog.Call.Check] for a call that is not from a pipeline, and an
// error for another one.
func (c Call) Check(p retry.Policy) error {
	if c.Task != "" && len(c.Records) > 0 {
		return fmt.Errorf("retrylog: line %d: task %s is of a pipeline: use CheckPipeline", c.Records[0].Line, eventlog.Printable(c.Task))
	}
	return c.Call.Check(p)
}

// CheckPipeline is like Check for a call that ran a task of p. Outcomes are not in a
// log, so it trusts the log about which rule matched, and about what the rule's Delay
// and Attempts computed. It looks at each call alone: [CheckRuns] also checks the
// order of the tasks.
func (c Call) CheckPipeline(p retryflow.Pipeline) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("retrylog: %w", err)
	}
	return eventlog.Check(len(c.Records), func(i int) eventlog.Entry { return c.Records[i].entry() }, "pipeline",
		func(r eventlog.Entry) (*eventlog.Judge, error) { return judgeOf(p, r) })
}

// judgeOf returns what judges an event of a task, nil if nothing can, or why p cannot
// have reported it.
func judgeOf(p retryflow.Pipeline, r eventlog.Entry) (*eventlog.Judge, error) {
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
