package retrylog

import (
	"errors"
	"fmt"
	"math"

	"github.com/goretry/retry"
)

// Check makes each decision of c again with p, and returns a [LineError] that names
// the first line that p would not have written. A retry with the same seed and
// Retry-After must be drawn from the same window, a call that stopped because of
// the count or the policy itself must stop for the same reason, and a wait may fail,
// or end more than a second early (see [Replay]), only if p has a Wait. Max must be
// p's too: for a job with a limit of its own, pass p.ForJob(limit).
//
// A log does not hold everything that a decision depends on. Its errors are only
// texts, so Check does not call RetryIf or Classify, and accepts what they decided: see
// [Call.ByCode]. The spread above a Retry-After may be smaller than
// p's, because it is cut to the time that was left. Check also accepts these stops if
// p can stop for that reason at all: the server asked for too long a wait, the retry
// would have been too late, a Budget was empty (perhaps one from the context), or the
// call itself was invalid (a nil context or function). An attempt that was healthy
// under p need not have begun the call anew, because the job of a queue does not.
//
// A retry.Class without a name is not in a log. If p has no Classify, Check judges
// its failures by p itself, and calls a correct log wrong where the class decided
// otherwise. So name your classes, or pass a p with a Classify: Check then accepts
// any delay and any limit that a class may have.
func (c Call) Check(p retry.Policy) error {
	_, err := c.judge(p)
	return err
}

// ByCode returns the records whose decision [Call.Check] accepts because code made it: the RetryIf
// or Classify of a policy, the Wait of p, or a mark such as retry.Permanent. These are stops for
// reasons that p alone cannot have, and retries whose class p does not know, because the class has
// a name, or p has a Classify. After a record that Check does not accept there are no more.
func (c Call) ByCode(p retry.Policy) []Record {
	byCode, _ := c.judge(p)
	return byCode
}

// judge returns what ByCode and Check return.
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

// differs returns what the policy says instead of e, which follows before; nil if it
// says the same, or cannot know. byCode is whether code made the decision.
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

// healthy reports whether a call begins anew with the attempt that failed in before. That it does
// not is no fault: a queue's job never begins anew. A log without attempts does not say how long
// one was.
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
	cut := e.RetryAfter > 0 && e.Lo == e.RetryAfter && e.Hi < d.Hi // to the time that was left
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

// stop judges a CallFinished. Code decided what the policy cannot do again: RetryIf, Classify,
// Wait, or a mark of the error.
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
	goesOn := says == retry.ReasonRetry || says == retry.ReasonElapsed // as far as the count goes
	switch e.Reason {
	case says:
		return false, nil
	case retry.ReasonPermanent, retry.ReasonRejected:
		byCode = true
	case retry.ReasonWait:
		byCode = j.policy.Wait != nil
	case retry.ReasonNonRetryable:
		byCode = class || e.Cause != nil
	case retry.ReasonExhausted, retry.ReasonInvalid: // the limit of a class, or an invalid one
		byCode = class
	case retry.ReasonRetryAfter, retry.ReasonBudget, retry.ReasonBorrowed:
		may = goesOn // by an error that is not from a log, or a Budget that is not
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

// decide returns the decision of the policy that e reports, as far as it knows the
// class of the failure. The error itself is not known.
func (j judge) decide(e retry.Event) retry.Decision {
	p := j.policy.ForJob(0) // a job waits longer for a server, and a log does not name jobs
	p.RetryIf = nil
	if !j.knows(e) {
		// A class that allows what happened, for the bounds of the policy itself.
		p.Classify = func(error) *retry.Class {
			return &retry.Class{
				Backoff: retry.Fixed(e.Delay), MaxDelay: math.MaxInt64, Jitter: retry.Proportional(0),
			}
		}
		e.RetryAfter = 0
	}
	return p.Next(retry.Attempt{
		Number: number(e), Elapsed: e.Elapsed,
		Err:  retry.After(e.RetryAfter, errors.New("failed")), // which says nothing itself
		Seed: max(1, e.Seed),                                  // 0 would be drawn from Source
	})
}

// knows reports whether the policy knows the class of the failure in e.
func (j judge) knows(e retry.Event) bool {
	return j.policy.Classify == nil && e.Class == ""
}
