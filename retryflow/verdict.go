package retryflow

import (
	"errors"
	"fmt"
	"time"

	"github.com/goretry/retry"
)

// A verdict is the decision of rules about an outcome.
type verdict struct {
	Rule           // the rule that matches; if no rule matches, only Do is set
	index  int     // the index of the rule; -1 if no rule matches
	faults []error // the errors of the rules whose When returned ErrNoMatch

	wait  time.Duration // the result of Delay
	fault error         // the error of When, Attempts, Delay or Set, if it makes the task fail

	// err is why the task fails without a retry. It is nil if the task does not fail, or may be
	// retried.
	err error
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

// The method `follow` calls the functions Attempts and Delay of the rule in v, and stores their
// results in v. If one of the two functions returns an error, the task will fail.
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
		v.err = fmt.Errorf("rule %d says fail for a successful outcome", v.index)
	}
}

// fail stores the error of a function of the rule with the index `rule`, so that the task fails
// with this error. The text of the error calls this function by the name `function`.
func (v *verdict) fail(rule int, function string, err error, o Outcome) {
	v.fault = fmt.Errorf("rule %d: %s: %w", rule, function, err)
	v.err = withOutcome(v.fault, o)
}

// class returns the class of the outcome. The class is retried only if the rule says Retry. For any
// other directive the class is NonRetryable, which stops only the loop of the task. A
// retry.Permanent error would stop every loop around the pipeline too.
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
