package retryflow

import (
	"errors"
	"time"

	"github.com/goretry/retry"
)

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

// ErrNoMatch is the error of a When if the outcome lacks a value that the When needs. The rule then
// does not match, and the next rule is tried. The field Faults of the [Event] contains the error. A
// When may wrap ErrNoMatch in an error of its own.
var ErrNoMatch = errors.New("the rule does not match")

// IfErr returns a When that looks only at the error. This When returns true if Err of the outcome
// is not nil and matches(Err) is true.
func IfErr(matches func(error) bool) func(Outcome) (bool, error) {
	return func(o Outcome) (bool, error) { return o.Err != nil && matches(o.Err), nil }
}

// Rules are tried in order. The first rule that matches decides.
type Rules []Rule

// Classify lets you use rules without a pipeline. Assign it to the Classify of a policy. If the
// rule that matches err says Retry, Classify returns a class with the Policy, Attempts and Delay of
// this rule. The class has no name. For any other err, Classify returns a class that is not
// retried. The rules get an Outcome in which only Err is set.
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

func (r Rule) matches(o Outcome) (bool, error) {
	if r.When == nil {
		return true, nil
	}
	return r.When(o)
}
