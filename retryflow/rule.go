package retryflow

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// Outcome is the result of one attempt of a task. The pipeline sets Task, Attempt, Took and
// State, and overwrites what Run returned in these fields.
type Outcome struct {
	Result any            // what the task returned
	Err    error          // nil if the attempt succeeded
	Data   map[string]any // details of HTTP, SQL or a script, under keys that you choose

	Task    string        // the label of the task
	Attempt int           // 1 for the first attempt since the task was entered
	Took    time.Duration // how long the attempt ran
	State   State         // the State of the pipeline, not a copy, for When and Delay to read
}

// Status returns "success" if Err is nil, and otherwise "error".
func (o Outcome) Status() string {
	if o.Err != nil {
		return "error"
	}
	return "success"
}

// A Rule says what to do after an outcome that it matches.
type Rule struct {
	// When reports whether the rule matches. A rule without a When always matches. If When
	// returns an error, the task fails with this error, because the rule may be the rule
	// that stops the task. But if errors.Is finds [ErrNoMatch] in the error, the rule only
	// does not match.
	When func(Outcome) (bool, error)

	Do Directive

	// Policy applies to a Retry, and must be zero otherwise. MaxAttempts, MaxRetries,
	// AttemptCap and NonRetryable limit the attempts of the task, counted over all its
	// rules. Backoff, MaxDelay and Jitter set the delays. A zero field has no effect; in
	// Classify the value of the call's own policy applies. The other fields must be zero.
	Policy retry.Policy

	// Attempts computes the limit of a Retry from the outcome. It replaces MaxAttempts and
	// MaxRetries of the Policy. A result below 1 fails the task. If Attempts is nil, the
	// limit of the Policy applies.
	Attempts func(Outcome) (int, error)

	// Delay computes a wait from the outcome. A negative result counts as 0. For a Jump it
	// is the wait before the jump. For a Retry it replaces the first delay of the Policy's
	// curve. If the curve is nil, a Schedule or your own, it replaces every delay. MaxDelay
	// limits the delay, and MaxRetryAfter does not. If Delay is nil, the delays of the
	// Policy apply, and a Jump does not wait.
	Delay func(Outcome) (time.Duration, error)

	To string // Jump: the label of the next task

	// Set changes the state before the directive takes effect. It may be nil.
	Set func(State, Outcome) error
}

// ErrNoMatch marks the error of a When as "the rule does not match", because the outcome
// lacks what the rule reads. The pipeline tries the next rule. The error is in Faults of the
// [Event]. A When may wrap ErrNoMatch in its own error.
var ErrNoMatch = errors.New("the rule does not match")

// IfErr returns a When for a rule that looks only at the error. It matches if Err of the
// outcome is not nil and is(Err) returns true.
func IfErr(is func(error) bool) func(Outcome) (bool, error) {
	return func(o Outcome) (bool, error) { return o.Err != nil && is(o.Err), nil }
}

// Rules are tried in order. The first rule that matches decides.
type Rules []Rule

// Classify uses rules without a pipeline: assign it to Policy.Classify. If the rule that
// matches err says Retry, Classify returns a class with the Policy, Attempts and Delay of this
// rule. The class has no name. Otherwise Classify returns a class that is not retried. Rules
// get an Outcome of which only Err is set.
//
// If the When, Attempts or Delay of a rule fails, err is not retried. The Cause of the class
// is the errors of these functions, and the [retry.Error] shows it. [Rules.Validate] finds
// rules that Classify cannot use.
func (rules Rules) Classify(err error) *retry.Class {
	v := rules.decide(Outcome{Err: err})
	class := v.class()
	class.Cause = errors.Join(append(v.faults, v.fault)...)
	return class
}

// A verdict is the decision of rules about an outcome.
type verdict struct {
	Rule           // the rule that matches; if no rule matches, only Do is set
	index  int     // the index of the rule; -1: no rule matches
	faults []error // the errors of each When that failed with ErrNoMatch

	wait  time.Duration // the result of Delay
	fault error         // the error of a function of the rule that failed
	err   error         // why the task fails without a retry; nil: the policies decide
}

// decide applies the rules to o. If no rule matches, a success continues and an error
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

// follow calls Attempts and Delay of the rule of v. If one of these functions fails, v fails
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

// class returns the class of the outcome. It is not retried unless the rule says Retry. To
// mark the error Permanent would stop the task too, but also every loop around the pipeline.
func (v *verdict) class() *retry.Class {
	if v.Do != Retry || v.err != nil {
		return &retry.Class{NonRetryable: true}
	}
	return classOf(v.Policy)
}

// classOf returns the class of a rule that retries. The class has no name, because the
// attempts of a class with a name are counted apart, and the limit of a rule is a limit on all
// attempts of the task.
func classOf(p retry.Policy) *retry.Class {
	c := &retry.Class{
		NonRetryable: p.NonRetryable, Backoff: p.Backoff, MaxDelay: p.MaxDelay, Jitter: p.Jitter,
	}
	if limit := p.EffectiveMax(); limit != retry.Unlimited {
		c.MaxAttempts = limit
	}
	return c
}

// limit returns the lower limit on attempts of the rule and of the pipeline.
func (v *verdict) limit(ofPipeline int) int {
	both := retry.Policy{MaxAttempts: v.Policy.EffectiveMax(), AttemptCap: max(0, ofPipeline)}
	return both.EffectiveMax()
}

// failure returns nil if the task is done, and otherwise the error that the policy of the
// loop decides about.
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

// beginningWith returns a curve of the same type as b whose first delay is d.
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
