package flowlog

import (
	"errors"
	"fmt"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retrylog"
)

// CheckPipeline is what Check of a [retrylog.Call] is, for a call that ran a task of p. Outcomes are not in a
// log, so it trusts the log about which rule matched, and about what the rule's Delay
// and Attempts computed. It looks at each call alone, and not at which task comes next.
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
