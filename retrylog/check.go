package retrylog

import (
	"errors"
	"fmt"

	"github.com/goretry/retry"
)

// Check makes each decision of c again with p, and returns an error that names
// the first line that p would not have written. A retry with the same seed and
// hint must have the same delay, and a call that stopped because of the count or
// the policy itself must stop for the same reason.
//
// A log does not hold everything that a decision depends on. Its errors are only
// texts, without marks, so RetryIf is not called, and Select is called with an
// error that has the text. Check accepts these stops if p can stop for that reason
// at all: the error was permanent or rejected, the server asked for too long a
// wait, the retry would have been too late, a budget was empty (perhaps one from
// the context), or the call itself was invalid (a nil context or function, or a
// Loop whose body assigned nothing).
func (c Call) Check(p retry.Policy) error {
	if len(c.Records) == 0 {
		return nil
	}
	if c.Task != "" {
		return fmt.Errorf("retrylog: line %d: task %s is of a pipeline: use CheckPipeline", c.Records[0].Line, printable(c.Task))
	}
	if limit := p.EffectiveMax(); limit != c.Max {
		return fmt.Errorf("retrylog: line %d: max is %d, and the policy says %d", c.Records[0].Line, c.Max, limit)
	}
	var before retry.Event
	for _, r := range c.Records {
		var err error
		switch r.Event.Kind {
		case retry.RetryScheduled:
			err = checkRetry(p, before, r.Event)
		case retry.Stopped:
			err = checkStop(p, before, r.Event)
		}
		if err != nil {
			return fmt.Errorf("retrylog: line %d: %s, and %w", r.Line, describe(r), err)
		}
		before = r.Event
	}
	return nil
}

// checkRetry returns what p says instead of e, a RetryScheduled after before.
func checkRetry(p retry.Policy, before, e retry.Event) error {
	switch d := decide(p, before, e); {
	case !d.Retry():
		return fmt.Errorf("the policy says to stop (%v)", d.Reason)
	case d.Delay != e.Delay:
		return fmt.Errorf("the policy says in %v", d.Delay)
	}
	return nil
}

// checkStop returns what p says instead of e, a Stopped after before.
func checkStop(p retry.Policy, before, e retry.Event) error {
	switch e.Reason {
	case retry.ReasonSuccess, retry.ReasonLeft: // before anything was decided
		switch invalid := p.Validate() != nil; {
		case invalid && e.Cause == nil:
			return fmt.Errorf("the policy says %v", retry.ReasonInvalid)
		case !invalid && e.Cause != nil:
			return errors.New("the policy is valid")
		}
		return nil
	case retry.ReasonInvalid:
		if before.Kind == 0 || sameText(before.Err, faultOf(e)) {
			return nil // the call was, whatever the policy
		}
	}
	if d := decide(p, before, e); !mayStop(p, e.Reason, d.Reason) {
		return fmt.Errorf("the policy says %v", d.Reason)
	}
	return nil
}

// decide returns the decision of p between two events. It was made after the first
// of them, so at least the time elapsed in that one had passed.
func decide(p retry.Policy, before, e retry.Event) retry.Decision {
	p.RetryIf = nil
	seed := max(1, e.Seed) // 0 would be drawn from Source
	return p.Next(retry.Attempt{Number: e.Attempt, Err: retry.After(e.Hint, before.Err), Elapsed: before.Elapsed, Seed: seed})
}

// mayStop reports whether a call whose policy says this may stop for reason.
func mayStop(p retry.Policy, reason, says retry.Reason) bool {
	goesOn := says == retry.ReasonRetry || says == retry.ReasonElapsed // as far as the count goes
	switch reason {
	case retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonInvalid:
		return says == reason
	case retry.ReasonRetryAfter:
		return goesOn || says == reason // by an error that is not from a log, and has its mark
	case retry.ReasonElapsed:
		return goesOn && p.MaxElapsed > 0
	case retry.ReasonBudget:
		return goesOn
	case retry.ReasonRejected:
		return says != retry.ReasonInvalid && p.RetryIf != nil
	default:
		return says != retry.ReasonInvalid
	}
}
