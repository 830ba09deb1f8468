package retryflow

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// Outcome is the result of one attempt of a task. Task.Run sets Result, Err and Data. The
// pipeline overwrites Task, Attempt, Took and State.
type Outcome struct {
	Result any            // the value that the task returned
	Err    error          // the error of the attempt; nil if it succeeded
	Data   map[string]any // details of HTTP, SQL or a script, under keys that you choose

	Task    string        // the label of the task
	Attempt int           // 1 for the first attempt since the task was entered
	Took    time.Duration // how long the attempt ran
	State   State         // the State of the pipeline itself, for When and Delay to read
}

// Status returns "success" if Err is nil, and otherwise "error".
func (o Outcome) Status() string {
	if o.Err != nil {
		return "error"
	}
	return "success"
}

// A Rule says what to do after a matching outcome.
type Rule struct {
	// When reports whether the rule matches. A rule without a When always matches. If When returns
	// an error, the task fails with this error, because this rule might have stopped the task. If
	// the error wraps [ErrNoMatch], the task does not fail: the rule just does not match.
	When func(Outcome) (bool, error)

	Do Directive

	// Policy applies to a Retry. For any other directive it must be zero. MaxAttempts, MaxRetries,
	// AttemptCap and NonRetryable limit the attempts of the task. All rules share one count of
	// attempts. Backoff, MaxDelay and Jitter set the delays. A zero field has no effect in a
	// Pipeline. In Classify, a zero field takes its value from the policy of the call. All other
	// fields must be zero.
	Policy retry.Policy

	// Attempts computes the limit on the attempts of a Retry from the outcome. The result replaces
	// MaxAttempts and MaxRetries of the Policy. If the result is below 1, the task fails. If
	// Attempts is nil, the limit of the Policy applies.
	Attempts func(Outcome) (int, error)

	// Delay computes a wait from the outcome. A negative result counts as 0. For a Jump, the result
	// is the wait before the jump. For a Retry, the result replaces the first delay of the Policy's
	// curve. If the curve is a Schedule, a curve of your own, or nil, the result replaces every
	// delay. MaxDelay limits the delay, and MaxRetryAfter does not. If Delay is nil, the delays of
	// the Policy apply, and a Jump does not wait.
	Delay func(Outcome) (time.Duration, error)

	To string // the label of the next task, if Do is Jump

	// Set changes the state before the directive takes effect. It may be nil.
	Set func(State, Outcome) error
}

// ErrNoMatch is the error of a When if the outcome lacks a value that the When needs. The rule
// then does not match, and the next rule is tried. Faults of the [Event] contains the error. A
// When may wrap ErrNoMatch in an error of its own.
var ErrNoMatch = errors.New("the rule does not match")

// IfErr returns a When that looks only at the error. It returns true if Err of the outcome is not
// nil and matches(Err) is true.
func IfErr(matches func(error) bool) func(Outcome) (bool, error) {
	return func(o Outcome) (bool, error) { return o.Err != nil && matches(o.Err), nil }
}

// Rules are tried in order. The first rule that matches decides.
type Rules []Rule

// Classify lets you use rules without a pipeline. Assign it to the Classify of a policy. If the
// rule that matches err says Retry, Classify returns a class with the Policy, Attempts and Delay
// of this rule. The class has no name. Otherwise Classify returns a class that is not retried.
// The rules get an Outcome in which only Err is set.
//
// If the When, Attempts or Delay of a rule returns an error, err is not retried. The Cause of the
// class contains the errors of these functions, and the text of the [retry.Error] shows this
// Cause. [Rules.Validate] finds rules that Classify cannot use.
func (rules Rules) Classify(err error) *retry.Class {
	v := rules.decide(Outcome{Err: err})
	class := v.class()
	class.Cause = errors.Join(append(v.faults, v.fault)...)
	return class
}

// A verdict is the decision of rules about an outcome.
type verdict struct {
	Rule           // the rule that matches; if no rule matches, only Do is set
	index  int     // the index of the rule; -1 if no rule matches
	faults []error // the errors of each When that failed with ErrNoMatch

	wait  time.Duration // the result of Delay
	fault error         // the error of a function of the rule that failed
	err   error         // why the task fails without a retry; nil if the policies decide
}

// decide applies the rules to o. If no rule matches, it decides Continue after a success and Fail
// after an error.
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

// follow calls Attempts and Delay of the rule in v, and stores their results in v. If one of them
// returns an error, the task will fail.
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
	v.err = withOutcome(v.fault, o)
}

// class returns the class of the outcome. The class is retried only if the rule says Retry. A
// retry.Permanent error would also stop the task, but it would stop every loop around the
// pipeline too.
func (v *verdict) class() *retry.Class {
	if v.Do != Retry || v.err != nil {
		return &retry.Class{NonRetryable: true}
	}
	return classOf(v.Policy)
}

// classOf returns the class of a rule that retries. The attempts of a class with a name would be
// counted separately. This class has no name, because the limit of a rule applies to all attempts
// of the task.
func classOf(p retry.Policy) *retry.Class {
	c := &retry.Class{
		NonRetryable: p.NonRetryable, Backoff: p.Backoff, MaxDelay: p.MaxDelay, Jitter: p.Jitter,
	}
	if limit := p.EffectiveMax(); limit != retry.Unlimited {
		c.MaxAttempts = limit
	}
	return c
}

// limit returns the limit on attempts of the rule or of the pipeline, whichever is lower.
func (v *verdict) limit(ofPipeline int) int {
	both := retry.Policy{MaxAttempts: v.Policy.EffectiveMax(), AttemptCap: max(0, ofPipeline)}
	return both.EffectiveMax()
}

// failure returns nil if the task is done. Otherwise it returns the error for retry.Do, which
// decides whether there is another attempt.
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
