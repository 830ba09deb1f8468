package retryflow

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// An Outcome is what an execution came to.
type Outcome struct {
	Result any            // what it returned
	Err    error          // what it failed with; nil: it succeeded
	Data   map[string]any // what HTTP, SQL or a script said, by any names that the rules know

	// Pipeline fills these in, whatever Run says.

	Attempt int           // 1 for the first execution since the task was entered
	Took    time.Duration // how long it ran
	State   State         // the pipeline's, not a copy, for When and Delay to read
}

// Status returns "success", or "error" if o has an Err.
func (o Outcome) Status() string {
	if o.Err != nil {
		return "error"
	}
	return "success"
}

// A Rule says what follows an outcome that it matches.
type Rule struct {
	// When reports whether the rule matches; nil: it always does. A rule whose
	// When fails does not match.
	When func(Outcome) (bool, error)

	Do Directive

	// Policy is how a Retry is made, and zero for what is none: MaxAttempts, MaxRetries, AttemptCap and
	// NonRetryable say how often the task may be executed, over all its rules;
	// Backoff, MaxDelay, Jitter and MaxRetryAfter how long to wait. The other
	// fields are those of Pipeline.Policy, and must be zero here.
	Policy retry.Policy

	// Delay computes a wait from the outcome, and may be nil. For a Retry it is
	// the first delay of the Policy's curve, in place of its own; each delay,
	// where the curve is nil, a Schedule, or none of package retry's. For a
	// Jump it is the wait before it. A negative wait is none. MaxRetryAfter does
	// not bound it, MaxDelay does, for a Retry.
	Delay func(Outcome) (time.Duration, error)

	To  string                     // Jump: the label of the task
	Set func(State, Outcome) error // changes the state of the pipeline before what follows, which is not Fail; nil: nothing
}

// IfErr returns a When for rules that look at the error alone. It matches an
// outcome whose Err is not nil and has what is reports.
func IfErr(is func(error) bool) func(Outcome) (bool, error) {
	return func(o Outcome) (bool, error) { return o.Err != nil && is(o.Err), nil }
}

// Rules are asked in order: the first that matches says what follows, and no
// other is asked.
type Rules []Rule

// Select is to be the Select of a policy, for rules without a pipeline. It
// returns the Policy of the rule that matches err, with its Delay, if that is
// a Retry, and otherwise one that retries nothing. Only Err of the Outcome is
// set. It has nobody to tell of a When or Delay that fails: the rule does not
// match, or does not retry. What it cannot use, [Rules.Validate] finds.
func (rules Rules) Select(err error) *retry.Policy {
	v := rules.decide(Outcome{Err: err})
	return v.policy()
}

// A verdict is what rules say of an outcome.
type verdict struct {
	Rule           // the one that matches; where none does, it has nothing but Do
	index  int     // of that rule, the first being 0; -1: none matches
	faults []error // of rules that could not be asked

	wait time.Duration // what Delay says
	err  error         // why the task fails, whatever the policies say
}

// decide asks rules about o. Where none matches, success continues and an
// error fails.
func (rules Rules) decide(o Outcome) verdict {
	v := verdict{index: -1, Rule: Rule{Do: Continue}}
	if o.Err != nil {
		v.Do = Fail
	}
	for i, r := range rules {
		matches, err := r.matches(o)
		if err != nil {
			v.faults = append(v.faults, fmt.Errorf("rule %d: when: %w", i, err))
		} else if matches {
			v.index, v.Rule = i, r
			break
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

// follow finds out what v's rule needs to know: the wait, or why to fail.
func (v *verdict) follow(o Outcome) {
	if v.Delay != nil {
		d, err := v.Delay(o)
		if err != nil {
			v.fail("delay", err, o)
		}
		v.wait = max(0, d)
		v.Policy.Backoff = beginningWith(v.wait, v.Policy.Backoff)
	}
	switch {
	case v.Do != Fail:
	case o.Err != nil:
		v.err = o.Err
	default:
		v.err = fmt.Errorf("rule %d fails an outcome that is no error", v.index)
	}
}

// fail notes that a function of the rule failed.
func (v *verdict) fail(function string, err error, o Outcome) {
	v.err = after(fmt.Errorf("rule %d: %s: %w", v.index, function, err), o)
}

// policy returns how the task is executed again, which is not at all unless
// the rule says Retry. Permanent would do that too, but bind every loop around
// the pipeline.
func (v *verdict) policy() *retry.Policy {
	if v.Do != Retry || v.err != nil {
		return &retry.Policy{NonRetryable: true}
	}
	return &v.Policy
}

// failure returns what a loop has to know: nil where the task is done, and
// else an error for its policy to decide on.
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

var errAgain = errors.New("the rules ask for another try of an outcome that is no error")

// beginningWith returns a curve like b whose first delay is d.
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
