package retrylog

import (
	"errors"
	"fmt"
	"math"

	"github.com/goretry/retry"
)

// Check makes each decision of c again with p. It returns a [LineError] for the first line that
// a call under p could not have written, or nil. Check compares these facts:
//
//   - Max must be the limit of p. For a job with its own limit, pass p.ForJob(limit).
//   - A retry must have the window that p has for its number and Retry-After.
//   - If the count of attempts or p itself stopped the call, p must have the same reason.
//   - A wait may fail, or end more than a second early (see [Replay]), only if p has a Wait.
//
// A log does not contain everything that a decision depends on. The errors in a log are only
// texts, so Check does not call RetryIf or Classify, and accepts their decisions: see
// [Call.ByCode]. The window above a Retry-After may be smaller than under p, because it is cut
// to the time that was left. If p can stop for such a reason, Check accepts a stop because the
// server asked for a longer wait, because the retry would have been too late, because a Budget
// was empty (perhaps a Budget of the context), or because the call was invalid (a nil context
// or function). If an attempt ran past the HealthyAfter of p, the call does not have to begin
// anew, because the job of a queue never begins anew.
//
// A log does not contain a retry.Class without a name. If p has no Classify, Check compares the
// failures of such a class with p itself, and may reject a correct log. So name your classes,
// or pass a p with a Classify: then Check accepts every delay and limit that a class may have.
func (c Call) Check(p retry.Policy) error {
	_, err := c.judge(p)
	return err
}

// ByCode returns the records whose decision [Call.Check] accepts because code made the decision:
// the RetryIf or Classify of a policy, the Wait of p, or retry.Permanent. These are stops for
// reasons that p alone cannot have, and retries whose class p does not know. p does not know the
// class if the class has a name, or if p has a Classify. ByCode ends before the first record
// that Check rejects.
func (c Call) ByCode(p retry.Policy) []Record {
	byCode, _ := c.judge(p)
	return byCode
}

// judge returns the results of ByCode and Check.
func (c Call) judge(p retry.Policy) (byCode []Record, err error) {
	j, before := judge{p}, &Record{}
	for i := range c.Records {
		r := &c.Records[i]
		if limit := p.EffectiveMax(); r.Event.Max != limit && p.Validate() == nil {
			err := fmt.Errorf("max is %d, and the policy says %d", r.Event.Max, limit)
			return byCode, &LineError{*r, err}
		}
		code, err := j.differs(before.Event, r.Event)
		if err != nil {
			return byCode, &LineError{*r, fmt.Errorf("%s, and %w", describe(*r), err)}
		}
		if before = r; code {
			byCode = append(byCode, *r)
		}
	}
	return byCode, nil
}

// A judge makes the decisions of a policy again.
type judge struct{ policy retry.Policy }

// differs returns an error if the policy decides otherwise than e says. before is the event
// before e. The error is nil if the decision is the same, or if the log does not contain enough
// to know. byCode reports whether code made the decision.
func (j judge) differs(before, e retry.Event) (byCode bool, err error) {
	early := before.Delay - (e.Elapsed - before.Elapsed)
	waited := before.Kind == retry.RetryScheduled && !e.Reset && e.Attempt != before.Attempt
	switch {
	case e.Reset && !j.healthy(before):
		err = fmt.Errorf("under the policy an attempt of %v is not healthy", before.Took)
	case waited && early > clockSkew && j.policy.Wait == nil:
		err = fmt.Errorf("that is %v before it was due, but the policy has no Wait", early)
	case e.Kind == retry.RetryScheduled:
		return !j.knows(e), j.retry(e)
	case e.Kind == retry.CallFinished:
		return j.stop(e)
	}
	return false, err
}

// healthy reports whether the attempt that failed in before ran past HealthyAfter, so that the
// call may begin anew. A log without attempts does not say how long an attempt ran. Then healthy
// reports whether the policy allows it.
func (j judge) healthy(before retry.Event) bool {
	p := retry.Policy{AttemptTimeout: j.policy.AttemptTimeout, HealthyAfter: j.policy.HealthyAfter}
	a := retry.Attempt{Number: 1, Took: before.Took}
	if before.Kind != retry.AttemptFinished {
		a.Took = p.HealthyAfter
	}
	return p.Next(a).Reset
}

// retry judges a RetryScheduled.
func (j judge) retry(e retry.Event) error {
	d, window := j.decide(e), e.Hi != 0
	// The window above a Retry-After may have been cut to the time that was left.
	cut := e.RetryAfter > 0 && e.Lo == e.RetryAfter && e.Hi < d.Hi
	switch {
	case !d.Retry():
		return fmt.Errorf("the policy says to stop (%v)", d.Reason)
	case !j.knows(e), window && e.Lo == d.Lo && (e.Hi == d.Hi || cut), !window && e.Delay == d.Delay:
		return nil
	case window && d.Lo != d.Hi:
		return fmt.Errorf("the policy says in %v to %v", d.Lo, d.Hi)
	default:
		return fmt.Errorf("the policy says in %v", d.Delay)
	}
}

// stop judges a CallFinished. byCode reports that a RetryIf, Classify, Wait or retry.Permanent
// stopped the call. The policy cannot make such a decision again.
func (j judge) stop(e retry.Event) (byCode bool, err error) {
	invalid := j.policy.Validate() != nil
	switch success := e.Reason == retry.ReasonSuccess; {
	case success && invalid && e.Cause == nil:
		return false, fmt.Errorf("the policy says %v", retry.ReasonInvalid)
	case success && !invalid && e.Cause != nil:
		return false, errors.New("the policy is valid")
	case success, e.Reason == retry.ReasonInvalid && e.Err == nil: // the call itself is invalid
		return false, nil
	}
	says, class, may := j.decide(e).Reason, !j.knows(e), false
	goesOn := says == retry.ReasonRetry || says == retry.ReasonElapsed // the count allows a retry
	switch e.Reason {
	case says:
		return false, nil
	case retry.ReasonPermanent, retry.ReasonRejected:
		byCode = true
	case retry.ReasonWait:
		byCode = j.policy.Wait != nil
	case retry.ReasonNonRetryable:
		byCode = class || e.Cause != nil
	case retry.ReasonExhausted, retry.ReasonInvalid: // the limit of a class, or an invalid class
		byCode = class
	case retry.ReasonRetryAfter, retry.ReasonBudget, retry.ReasonBorrowed:
		may = goesOn // a log contains neither the Retry-After of a stop nor the Budgets
	case retry.ReasonElapsed:
		may = goesOn && j.policy.MaxElapsed > 0
	default:
		may = true
	}
	if says == retry.ReasonInvalid || !may && !byCode {
		err = fmt.Errorf("the policy says %v", says)
	}
	return byCode, err
}

// decide makes the decision of e again with the policy. If the policy does not know the class of
// the failure, decide assumes a class that allows the delay of e.
func (j judge) decide(e retry.Event) retry.Decision {
	p := j.policy.ForJob(0) // a job waits longer for a server, and e may be the event of a job
	p.RetryIf = nil
	if !j.knows(e) {
		// This class allows the delay of e, so that only the limits of the policy decide.
		p.Classify = func(error) *retry.Class {
			return &retry.Class{
				Backoff: retry.Fixed(e.Delay), MaxDelay: math.MaxInt64, Jitter: retry.Proportional(0),
			}
		}
		e.RetryAfter = 0
	}
	return p.Next(retry.Attempt{
		Number: number(e), Elapsed: e.Elapsed,
		Err:  retry.After(e.RetryAfter, errors.New("failed")), // in place of the real error
		Seed: max(1, e.Seed),                                  // for 0, Next would call Source
	})
}

// knows reports whether the policy knows the class of the failure in e.
func (j judge) knows(e retry.Event) bool {
	return j.policy.Classify == nil && e.Class == ""
}
