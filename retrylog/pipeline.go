package retrylog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// PipelineEvents returns the events of pipelines that have this key, for
// [retryflow.Pipeline.Resume]. Each run needs a key of its own. Use the same key
// when you resume it.
func PipelineEvents(records []Record, key string) []retryflow.Event {
	var events []retryflow.Event
	for _, r := range records {
		if r.Key == key && r.Flow != nil {
			events = append(events, *r.Flow)
		}
	}
	return events
}

func task(r Record) string {
	if r.Flow == nil {
		return ""
	}
	return r.Flow.Task
}

// directive returns what the rules of a pipeline decided, 0 if r is not from a
// pipeline or nothing was decided.
func directive(r Record) retryflow.Directive {
	if r.Flow == nil {
		return 0
	}
	return r.Flow.Directive
}

// done reports whether the rules of a pipeline say that the task is done,
// whether its attempt failed or not. It can fail even so, if a function of the
// rule does.
func done(r Record) bool {
	switch directive(r) {
	case retryflow.Continue, retryflow.Break, retryflow.Jump:
		return true
	default:
		return false
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

func decisionOf(e *retryflow.Event) decision {
	return decision{e.Rule, e.Directive, e.To, e.Limit, e.Computed}
}

// aloneInPipeline returns why r cannot have happened in a pipeline, whatever
// came before.
func aloneInPipeline(r Record) error {
	f := r.Flow
	if f == nil {
		return nil
	}
	switch d := decisionOf(f); {
	case f.Task == "":
		return errors.New("its task has no label")
	case f.Kind == retry.AttemptStarted && d != decision{Rule: -1}:
		return fmt.Errorf("%v comes before a decision, but has one", f.Kind)
	case f.Kind != retry.AttemptStarted && f.Attempt > 0 && f.Directive == 0:
		return errors.New("it has no directive")
	case (f.To != "") != (f.Directive == retryflow.Jump):
		return fmt.Errorf("directive is %q, and to is %q", f.Directive, f.To)
	case f.Kind != retry.RetryScheduled, f.Directive == retryflow.Retry:
		return nil
	case f.Directive != retryflow.Jump:
		return fmt.Errorf("directive is %q, which waits for nothing", f.Directive)
	case f.Delay != f.Computed || f.Hint != 0 || f.Seed != 0:
		return fmt.Errorf("delay is %v, but the rule computed %v", f.Delay, f.Computed)
	}
	return nil
}

// afterInPipeline returns why r cannot follow an event of the same call as an
// event of a pipeline.
func afterInPipeline(before, r Record) error {
	switch {
	case task(r) != task(before):
		return disorder("its task is %q, but %q in the event before", task(r), task(before))
	case r.Flow == nil:
		return nil
	case r.Event.Kind == retry.AttemptStarted && before.Flow.Directive == retryflow.Jump:
		return errors.New("the task jumps, and is not retried")
	case (r.Event.Kind == retry.RetryScheduled || r.Event.Kind == retry.Stopped) && decisionOf(r.Flow) != decisionOf(before.Flow):
		return errors.New("its rule, directive, to, limit or computed is not that of the event before")
	}
	return nil
}

// leaves returns why r, the Stopped of a task that its rules say is done, cannot
// follow before.
func (c *Call) leaves(before retry.Event, r Record) error {
	switch r.Event.Reason {
	case retry.ReasonSuccess:
		return nil
	case retry.ReasonCanceled, retry.ReasonDeadline:
		if directive(r) == retryflow.Jump { // in its wait
			return c.failedWith(r.Event.Err)
		}
	case retry.ReasonNonRetryable, retry.ReasonPermanent:
	default:
		return fmt.Errorf("reason is %v, but the rules say %v", r.Event.Reason, directive(r))
	}
	return c.stops(before, r.Event) // a function of the rule failed
}

// CheckPipeline is like [Call.Check] for a call that ran a task of p. Outcomes are
// not in a log, so it trusts the log about which rule matched, and about what the
// rule's Delay and Attempts computed.
func (c Call) CheckPipeline(p retryflow.Pipeline) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("retrylog: %w", err)
	}
	if limit := p.PolicyAfter(retryflow.Event{}).EffectiveMax(); len(c.Records) > 0 && limit != c.Max {
		return fmt.Errorf("retrylog: line %d: max is %d, and the pipeline says %d", c.Records[0].Line, c.Max, limit)
	}
	var before retry.Event
	for _, r := range c.Records {
		if err := checkInPipeline(p, before, r); err != nil {
			return fmt.Errorf("retrylog: line %d: %s, and %w", r.Line, describe(r), err)
		}
		before = r.Event
	}
	return nil
}

// checkInPipeline returns what p says instead of r, which follows before.
func checkInPipeline(p retryflow.Pipeline, before retry.Event, r Record) error {
	if r.Flow == nil {
		return errors.New("it is of no pipeline: use Check")
	}
	rule, err := ruleOf(p, *r.Flow)
	if err != nil {
		return err
	}
	computes := rule.Attempts != nil || rule.Delay != nil || rule.Set != nil
	switch {
	case r.Event.Kind == retry.RetryScheduled && r.Flow.Directive == retryflow.Retry:
		return checkRetry(p.PolicyAfter(*r.Flow), before, r.Event)
	case r.Event.Kind != retry.Stopped, done(r) && r.Event.Reason == retry.ReasonSuccess:
		return nil
	case r.Event.Reason == retry.ReasonNonRetryable && computes: // one of these may have failed
		return nil
	case r.Event.Reason == retry.ReasonNonRetryable && done(r):
		return fmt.Errorf("rule %d has no function that can fail", r.Flow.Rule)
	}
	return checkStop(p.PolicyAfter(*r.Flow), before, r.Event)
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
		if e.Directive != 0 && e.Directive != retryflow.Continue && e.Directive != retryflow.Fail {
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

func say(d retryflow.Directive, to string) string {
	if d == retryflow.Jump {
		return "jump to " + printable(to)
	}
	return d.String()
}

// describeFlow says what happened in a pipeline, without when and without the
// error.
func describeFlow(e retryflow.Event) string {
	text := describeEvent(e.Event)
	switch {
	case e.Kind == retry.AttemptFinished && e.Rule < 0:
		text += ", no rule matches: " + say(e.Directive, e.To)
	case e.Kind == retry.AttemptFinished:
		text += fmt.Sprintf(", rule %d says %s", e.Rule, say(e.Directive, e.To))
	case e.Kind == retry.RetryScheduled && e.Directive == retryflow.Jump:
		text = fmt.Sprintf("jumps to %s in %v, at %s", printable(e.To), e.Delay, e.Due.UTC().Format("15:04:05.000"))
	case e.Kind == retry.Stopped && e.Reason == retry.ReasonSuccess:
		text = fmt.Sprintf("stopped after %s: %s", attempts(e.Attempt), say(e.Directive, e.To))
	case e.Kind == retry.Stopped && e.Reason == retry.ReasonNonRetryable:
		text = fmt.Sprintf("stopped after %s: the rules do not retry it", attempts(e.Attempt))
	}
	if len(e.Faults) > 0 {
		faults := make([]string, len(e.Faults))
		for i, fault := range e.Faults {
			faults[i] = printable(textOf(fault))
		}
		text += " (" + strings.Join(faults, ", ") + ")"
	}
	return "task " + printable(e.Task) + ": " + text
}
