package retryflow

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// Outcome is the result of one attempt of a task. The pipeline sets Task, Attempt,
// Took and State, and ignores what Run returned in them.
type Outcome struct {
	Result any            // what the task returned
	Err    error          // nil if it succeeded
	Data   map[string]any // details of HTTP, SQL or a script, under any keys that the rules know

	Task    string        // the label of the task
	Attempt int           // 1 for the first attempt since the task was entered
	Took    time.Duration // how long the attempt ran
	State   State         // the pipeline's own, not a copy, for When and Delay to read
}

// Status returns "success", or "error" if o has an Err.
func (o Outcome) Status() string {
	if o.Err != nil {
		return "error"
	}
	return "success"
}

// A Rule says what to do after an outcome that it matches.
type Rule struct {
	// When reports whether the rule matches; a nil When always does. If When fails,
	// the task fails with its error: this rule may be the one that stops the task. If
	// the error has an [ErrNoMatch], the rule does not match instead.
	When func(Outcome) (bool, error)

	Do Directive

	// Policy applies to a Retry, and must be zero otherwise. MaxAttempts,
	// MaxRetries, AttemptCap and NonRetryable limit the attempts of the task,
	// over all its rules. Backoff, MaxDelay and Jitter set the delays. A zero field does
	// nothing; in Classify it leaves the call's own. The other fields must be zero.
	Policy retry.Policy

	// Attempts computes the limit of a Retry from the outcome, in place of the
	// Policy's MaxAttempts; if it is nil, the Policy's own limit applies. A
	// result below 1 fails the task.
	Attempts func(Outcome) (int, error)

	// Delay computes a wait from the outcome; if it is nil, the Policy's own
	// applies. For a Retry it replaces the first delay of the Policy's curve,
	// or every delay if the curve is nil, a Schedule or a custom one. It is
	// limited by MaxDelay, but not by a MaxRetryAfter. For a Jump it is the wait
	// before the jump. A negative result is treated as 0.
	Delay func(Outcome) (time.Duration, error)

	To  string                     // Jump: the label of the task
	Set func(State, Outcome) error // changes the state before the directive takes effect; may be nil
}

// ErrNoMatch, in the tree of an error of a When, says that the rule does not match:
// the outcome does not have what the rule asks for. The next rule is tried, and the
// error is in Faults of the [Event].
var ErrNoMatch = errors.New("the rule does not match")

// IfErr returns a When for rules that look only at the error. It matches an
// outcome whose Err is not nil and for which is returns true.
func IfErr(is func(error) bool) func(Outcome) (bool, error) {
	return func(o Outcome) (bool, error) { return o.Err != nil && is(o.Err), nil }
}

// Rules are tried in order. The first one that matches decides.
type Rules []Rule

// Classify makes rules usable without a pipeline: assign it to
// Policy.Classify. If the rule that matches err says Retry, it returns a class
// without a name that has the rule's Policy, with its Attempts and Delay. Otherwise
// it returns one that is not retried. Only Err of the Outcome is set.
//
// If the When, Attempts or Delay of a rule fails, the error is not retried. The class
// has their errors as its Cause, which the [retry.Error] shows. [Rules.Validate] finds rules that Classify cannot use.
func (rules Rules) Classify(err error) *retry.Class {
	v := rules.decide(Outcome{Err: err})
	class := v.class()
	class.Cause = errors.Join(append(v.faults, v.fault)...)
	return class
}

// A verdict is the decision of rules about an outcome.
type verdict struct {
	Rule           // the rule that matches; if none does, only Do is set
	index  int     // the rule's index, or -1 if none matches
	faults []error // the errors of rules whose When says that they do not match

	wait  time.Duration // the result of Delay
	fault error         // the error of a function of the rule that failed
	err   error         // why the task fails, whatever the policies say
}

// decide applies rules to o. If none matches, a success continues and an error
// fails.
func (rules Rules) decide(o Outcome) verdict {
	v := verdict{index: -1, Rule: Rule{Do: Continue}}
	if o.Err != nil {
		v.Do = Fail
	}
	for i, r := range rules {
		matches, err := r.matches(o)
		switch {
		case errors.Is(err, ErrNoMatch):
			v.faults = append(v.faults, fmt.Errorf("rule %d: when: %w", i, err))
		case err != nil:
			v.Do = Fail
			v.fail(i, "when", err, o)
			return v
		case matches:
			v.index, v.Rule = i, r
			v.follow(o)
			return v
		}
	}
	v.follow(o)
	return v
}

func (r Rule) matches(o Outcome) (bool, error) {
	if r.When == nil {
		return true, nil
	}
	return r.When(o)
}

// follow calls Attempts and Delay of v's rule. If one of them fails, v fails
// the task.
func (v *verdict) follow(o Outcome) {
	if v.Attempts != nil {
		n, err := v.Attempts(o)
		if err == nil && n < 1 {
			err = fmt.Errorf("got %d, want 1 or more", n)
		}
		if err != nil {
			v.fail(v.index, "attempts", err, o)
			return
		}
		v.Policy.MaxAttempts, v.Policy.MaxRetries = n, 0
	}
	if v.Delay != nil {
		d, err := v.Delay(o)
		if err != nil {
			v.fail(v.index, "delay", err, o)
			return
		}
		v.wait = max(0, d)
		v.Policy.Backoff = beginningWith(v.wait, v.Policy.Backoff)
	}
	switch {
	case v.Do != Fail:
	case o.Err != nil:
		v.err = o.Err
	default:
		v.err = fmt.Errorf("rule %d fails a successful outcome", v.index)
	}
}

// fail records that a function of a rule failed.
func (v *verdict) fail(rule int, function string, err error, o Outcome) {
	v.fault = fmt.Errorf("rule %d: %s: %w", rule, function, err)
	v.err = after(v.fault, o)
}

// class returns the class of the outcome. Unless the rule says Retry, it is not
// retried. Marking the error Permanent would also stop the task, but
// every loop around the pipeline as well.
func (v *verdict) class() *retry.Class {
	if v.Do != Retry || v.err != nil {
		return &retry.Class{NonRetryable: true}
	}
	return classOf(v.Policy)
}

// classOf returns the class of a rule that retries. It has no name: the limit of the
// rule is about all attempts of the task.
func classOf(p retry.Policy) *retry.Class {
	c := &retry.Class{NonRetryable: p.NonRetryable, Backoff: p.Backoff, MaxDelay: p.MaxDelay, Jitter: p.Jitter}
	if limit := p.EffectiveMax(); limit != retry.Unlimited {
		c.MaxAttempts = limit
	}
	return c
}

// limit returns the tighter limit of the rule and of the pipeline.
func (v *verdict) limit(ofPipeline int) int {
	return retry.Policy{MaxAttempts: v.Policy.EffectiveMax(), AttemptCap: max(0, ofPipeline)}.EffectiveMax()
}

// failure returns nil if the task is done, and otherwise the error that the
// loop's policy decides on.
func (v *verdict) failure(o Outcome) error {
	switch {
	case v.err != nil:
		return v.err
	case v.Do != Retry:
		return nil
	case o.Err != nil:
		return o.Err
	default:
		return errAgain
	}
}

var errAgain = errors.New("the rules ask to retry a successful outcome")

// beginningWith returns a curve of b's kind whose first delay is d.
func beginningWith(d time.Duration, b retry.Backoff) retry.Backoff {
	switch b := b.(type) {
	case retry.Linear:
		return retry.Linear(d)
	case retry.Fibonacci:
		return retry.Fibonacci(d)
	case retry.Exponential:
		return retry.Exponential{Base: d, Factor: b.Factor}
	default:
		return retry.Fixed(d)
	}
}
