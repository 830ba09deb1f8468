package retrylog

import (
	"errors"
	"fmt"
	"math"

	"github.com/goretry/retry"
)

// Check computes each decision of c again with p and compares it with the log. It returns a
// [LineError] for the first line that cannot come from a call with the policy p. If there is no
// such line, it returns nil. Check compares these facts:
//
//   - The Max of an event in the log must be the number of attempts to which p limits a call. For a
//     job with its own limit, pass p.ForJob(limit).
//   - For each retry, the jitter window in the log must equal the window that p computes from the
//     Number and the Retry-After of this retry. The jitter window is the range from Lo to Hi, from
//     which the delay is drawn.
//   - If the call stopped because its attempts were exhausted, because the policy never retries,
//     or because the policy is invalid, p must stop for the same reason.
//   - A wait may fail, or end more than a second early, only if p has a Wait function.
//
// A log does not contain everything that a decision depends on, so Check accepts more than p
// alone allows:
//
//   - Check cannot call RetryIf or Classify, because a log contains only the texts of errors. It
//     accepts the decisions of these functions. [Call.ByCode] lists them.
//   - For a retry with a Retry-After, the jitter window in the log may be smaller than the window
//     that p computes. A call shortens this window if the deadline of the caller, or the end of the
//     time that MaxElapsed allows, is near.
//   - A call may stop where p would retry. The server may have asked for too long a wait, the
//     retry may have been too late, or a Budget may have been empty. Too late means after the
//     caller's deadline or after the MaxElapsed of p. The Budget may come from the context.
//   - A call is invalid, whatever p is, if its context or its function is nil.
//   - An attempt that ran past the HealthyAfter of p restarts the count of attempts, but Check does
//     not require this. The call may be a job in a queue, and the count of a job is never
//     restarted.
//
// A log does not show that a failure had a [retry.Class] without a name. If p has no Classify,
// Check assumes that such a failure had no class. It expects the delay and the limits of p, and may
// reject a correct log. To prevent this, name your classes, or give p a Classify. With a Classify,
// Check accepts every delay and every limit that a class can have.
func (c Call) Check(p retry.Policy) error {
	_, err := c.judge(p)
	return err
}

// ByCode returns the records of the decisions that [Call.Check] accepts because a function of the
// program made them: RetryIf, Classify, Wait or [retry.Permanent]. Each of these records is one of
// two things:
//
//   - a stop for a reason that p alone cannot give
//   - a retry after a failure whose class may have its own limits and delays, which Check does not
//     know. A failure may have such a class if the log names a class, or if p has a Classify.
//
// The result ends before the first record that Check rejects.
func (c Call) ByCode(p retry.Policy) []Record {
	byCode, _ := c.judge(p)
	return byCode
}

// judge returns the results of ByCode and Check.
func (c Call) judge(p retry.Policy) (byCode []Record, err error) {
	j, previous := judge{p}, &Record{}
	for i := range c.Records {
		r := &c.Records[i]
		if limit := p.EffectiveMax(); r.Event.Max != limit && p.Validate() == nil {
			err := fmt.Errorf("max is %d, but under the policy it is %d", r.Event.Max, limit)
			return byCode, &LineError{*r, err}
		}
		code, err := j.compare(previous.Event, r.Event)
		if err != nil {
			return byCode, &LineError{*r, fmt.Errorf("%s, and %w", describe(*r), err)}
		}
		if previous = r; code {
			byCode = append(byCode, *r)
		}
	}
	return byCode, nil
}

// A judge computes the decisions of a policy again.
type judge struct{ policy retry.Policy }

// compare returns an error if the policy would not have made the decision that e reports. The error
// is nil if the log contains too little to tell. The parameter `previous` is the event before e.
// The result `byCode` reports whether a function of the program made the decision.
func (j judge) compare(previous, e retry.Event) (byCode bool, err error) {
	early := previous.Delay - (e.Elapsed - previous.Elapsed)
	waited := previous.Kind == retry.RetryScheduled && !e.Reset && e.Attempt != previous.Attempt
	wrongReset := e.Reset && !j.healthy(previous)
	switch {
	case wrongReset && previous.Kind != retry.AttemptFinished: // the length of the attempt is unknown
		err = fmt.Errorf("reset is true, but under the policy no attempt can restart the count "+
			"of attempts, because HealthyAfter is %v and AttemptTimeout is %v",
			j.policy.HealthyAfter, j.policy.AttemptTimeout)
	case wrongReset:
		err = fmt.Errorf("reset is true, but under the policy an attempt of %v does not restart "+
			"the count of attempts (HealthyAfter is %v, AttemptTimeout is %v)",
			previous.Took, j.policy.HealthyAfter, j.policy.AttemptTimeout)
	case waited && early > clockSkew && j.policy.Wait == nil:
		err = fmt.Errorf("the wait ended %v early, but the policy has no Wait function "+
			"that can end a wait early", early)
	case e.Kind == retry.RetryScheduled:
		return !j.hasNoClass(e), j.compareRetry(e)
	case e.Kind == retry.CallFinished:
		return j.compareStop(e)
	}
	return false, err
}

// healthy reports whether an attempt ran past HealthyAfter. The parameter `previous` is the last
// event of the attempt. If the log contains no events about attempts, it does not say how long the
// attempt ran. In this case, `healthy` reports whether any attempt under the policy can run past
// HealthyAfter.
func (j judge) healthy(previous retry.Event) bool {
	p := retry.Policy{AttemptTimeout: j.policy.AttemptTimeout, HealthyAfter: j.policy.HealthyAfter}
	a := retry.Attempt{Number: 1, Took: previous.Took}
	if previous.Kind != retry.AttemptFinished {
		a.Took = p.HealthyAfter
	}
	return p.Next(a).Reset
}

// compareRetry compares a RetryScheduled event with the policy.
func (j judge) compareRetry(e retry.Event) error {
	d, window := j.decide(e), e.Hi != 0
	// If there is a Retry-After, the call may have shortened the jitter window, because the deadline
	// of the caller, or the end of the time that MaxElapsed allows, was near.
	cut := e.RetryAfter > 0 && e.Lo == e.RetryAfter && e.Hi < d.Hi
	switch {
	case !d.Retry():
		return fmt.Errorf("the policy says to stop (%v)", d.Reason)
	case !j.hasNoClass(e), window && e.Lo == d.Lo && (e.Hi == d.Hi || cut),
		!window && e.Delay == d.Delay:
		return nil
	case window && d.Lo != d.Hi:
		return fmt.Errorf("under the policy the delay is between %v and %v", d.Lo, d.Hi)
	default:
		return fmt.Errorf("under the policy the delay is %v", d.Delay)
	}
}

// compareStop compares a CallFinished event with the policy. The result `byCode` reports whether
// RetryIf, Classify, Wait or retry.Permanent stopped the call. Such a stop cannot be computed
// again.
func (j judge) compareStop(e retry.Event) (byCode bool, err error) {
	invalid := j.policy.Validate() != nil
	switch success := e.Reason == retry.ReasonSuccess; {
	case success && invalid && e.Cause == nil:
		return false, mismatch(retry.ReasonInvalid)
	case success && !invalid && e.Cause != nil:
		return false, errors.New("the cause says that the policy is invalid, but the policy is valid")
	case success, e.Reason == retry.ReasonInvalid && e.Err == nil: // a nil context or function
		return false, nil
	}
	// If mayStop is true, something that Check cannot compute may have stopped the call.
	says, class, mayStop := j.decide(e).Reason, !j.hasNoClass(e), false
	goesOn := says == retry.ReasonRetry || says == retry.ReasonElapsed // attempts are left
	switch e.Reason {
	case says:
		return false, nil
	case retry.ReasonPermanent, retry.ReasonRejected:
		byCode = true
	case retry.ReasonWait:
		byCode = j.policy.Wait != nil
	case retry.ReasonNonRetryable:
		byCode = class || e.Cause != nil
	case retry.ReasonExhausted, retry.ReasonInvalid: // a class can have its own limit, or be invalid
		byCode = class
	case retry.ReasonRetryAfter, retry.ReasonBudget, retry.ReasonBorrowed:
		// The policy allows more attempts. But a Budget may have been empty, or the Retry-After too long.
		// A log contains neither the Budgets nor the Retry-After of a failure that ended a call.
		mayStop = goesOn
	case retry.ReasonElapsed:
		mayStop = goesOn && j.policy.MaxElapsed > 0
	default:
		mayStop = true
	}
	if says == retry.ReasonInvalid || !mayStop && !byCode {
		err = mismatch(says)
	}
	return byCode, err
}

// mismatch returns the error for a call that stopped although the policy says to retry, or that
// stopped for another reason than the policy says. The parameter `reason` is the Reason according
// to the policy.
func mismatch(reason retry.Reason) error {
	if reason == retry.ReasonRetry {
		return errors.New("the policy says to retry")
	}
	return fmt.Errorf("the policy gives the reason %v", reason)
}

// decide computes the decision of e again with the policy. If the class of the failure is
// unknown, `decide` assumes a class whose delay is always the Delay of e.
func (j judge) decide(e retry.Event) retry.Decision {
	p := j.policy.ForJob(0) // e may come from a job, which waits for a longer Retry-After than a call
	p.RetryIf = nil
	if !j.hasNoClass(e) {
		// The log does not contain the real class and its delays. So this code gives Next a class whose
		// delay is always the Delay in the log. Next then only checks this Delay against the limits of
		// the policy, such as MaxAttempts and MaxElapsed.
		p.Classify = func(error) *retry.Class {
			return &retry.Class{
				Backoff: retry.Fixed(e.Delay), MaxDelay: math.MaxInt64, Jitter: retry.Proportional(0),
			}
		}
		e.RetryAfter = 0
	}
	return p.Next(retry.Attempt{
		Number: number(e), Elapsed: e.Elapsed,
		Err:  retry.After(e.RetryAfter, errors.New("failed")), // the log lacks the real error
		Seed: max(1, e.Seed),                                  // Next would call Source for a Seed of 0
	})
}

// hasNoClass reports whether the failure in e certainly has no class, so that the policy alone
// decides.
func (j judge) hasNoClass(e retry.Event) bool {
	return j.policy.Classify == nil && e.Class == ""
}
