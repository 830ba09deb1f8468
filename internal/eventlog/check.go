package eventlog

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/goretry/retry"
)

// Check makes each decision of c again with p, and returns an error that names
// the first line that p would not have written. A retry with the same seed and
// Retry-After must be drawn from the same window, a call that stopped because of
// the count or the policy itself must stop for the same reason, and a wait may fail,
// or end more than a second early (see retrylog.Replay), only if p has a Wait. Max must be
// p's too: for a job with a limit of its own, pass p.ForJob(limit).
//
// A log does not hold everything that a decision depends on. Its errors are only
// texts, so Check does not call RetryIf or Classify. Check accepts what they decided,
// and ByCode returns it. The spread above a Retry-After may be smaller than
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
	return c.CheckBy("policy", func(r Record) (*Judge, error) {
		if r.Flow != nil {
			return nil, errors.New("it is of a pipeline: use flowlog.CheckPipeline")
		}
		return &Judge{Policy: p}, nil
	})
}

// ByCode returns the records of c whose decision Check accepts because code
// made it: the RetryIf or Classify of a policy, the Wait of p, or a mark such as
// retry.Permanent. These are stops for reasons that p alone cannot have, and retries
// whose class p does not know, because the class has a name, or p has a Classify.
func (c Call) ByCode(p retry.Policy) (by []Record) {
	j := Judge{Policy: p}
	for _, r := range c.Records {
		if j.byCode(r.Event) {
			by = append(by, r)
		}
	}
	return by
}

// CheckBy makes each decision of c again. judge returns what judges a record, nil if
// nothing can, or why the record is wrong. whose says whose limit is compared.
func (c Call) CheckBy(whose string, judge func(r Record) (*Judge, error)) error {
	var before retry.Event
	for _, r := range c.Records {
		j, err := judge(r)
		if j != nil && err == nil {
			limit := j.Policy.EffectiveMax()
			if limit == math.MaxInt {
				limit = retry.Unlimited // a pipeline without a limit of its own
			}
			if r.Event.Max != limit && j.Policy.Validate() == nil {
				return &Fault{r, fmt.Errorf("max is %d, and the %s says %d", r.Event.Max, whose, limit)}
			}
			err = j.differs(before, r.Event)
		}
		if err != nil {
			return &Fault{r, fmt.Errorf("%s, and %w", describe(r), err)}
		}
		before = r.Event
	}
	return nil
}

// A Judge makes decisions again.
type Judge struct {
	Policy retry.Policy

	// Rules says that the Classify of Policy returns the class of the failure at hand,
	// whatever the error is. Otherwise a Classify, or a class in the log, is code that
	// decided by the error itself, which a log does not hold.
	Rules bool
}

// differs returns what the policy says instead of e, which follows before; nil if it
// says the same, or cannot know.
func (j *Judge) differs(before, e retry.Event) error {
	if before.Kind == retry.AttemptFinished && e.Resets > before.Resets && !j.healthy(before.Took) {
		return fmt.Errorf("under the policy an attempt of %v is not healthy", before.Took)
	}
	switch e.Kind {
	case retry.AttemptStarted:
		return j.goesOn(before, e)
	case retry.RetryScheduled:
		return j.retry(before, e)
	case retry.CallFinished:
		return j.stop(before, e)
	}
	return nil
}

// healthy reports whether a call begins anew with an attempt that failed after this
// time. That it does not is no fault: a queue's job never begins anew.
func (j *Judge) healthy(took time.Duration) bool {
	p := retry.Policy{AttemptTimeout: j.Policy.AttemptTimeout, HealthyAfter: j.Policy.HealthyAfter}
	return p.Next(retry.Attempt{Number: 1, Took: took}).Reset
}

// goesOn judges the end of a wait: only a Wait may return early, by more than the
// clocks of two workers may differ.
func (j *Judge) goesOn(before, e retry.Event) error {
	if before.Kind != retry.RetryScheduled || j.Policy.Wait != nil {
		return nil
	}
	if early := before.Delay - (e.Elapsed - before.Elapsed); early > clockSkew {
		return fmt.Errorf("that is %v before it was due, but the policy has no Wait", early)
	}
	return nil
}

// retry judges a RetryScheduled.
func (j *Judge) retry(before, e retry.Event) error {
	d, window := j.decide(before, e), e.Lo != 0 || e.Hi != 0
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

// stop judges a CallFinished.
func (j *Judge) stop(before, e retry.Event) error {
	invalid := j.Policy.Validate() != nil
	switch success := e.Reason == retry.ReasonSuccess; {
	case success && invalid && e.Cause == nil:
		return fmt.Errorf("the policy says %v", retry.ReasonInvalid)
	case success && !invalid && e.Cause != nil:
		return errors.New("the policy is valid")
	case success:
		return j.goesOn(before, e) // a jump is made
	case e.Reason == retry.ReasonInvalid && e.Err == nil: // the call is, whatever the policy is
		return nil
	}
	if d := j.decide(before, e); !mayStop(j.Policy, e, d.Reason) && (invalid || !j.byCode(e)) {
		return fmt.Errorf("the policy says %v", d.Reason)
	}
	return nil
}

// decide returns the decision of the policy that e reports, as far as it knows the
// class of the failure.
func (j *Judge) decide(before, e retry.Event) retry.Decision {
	p := j.Policy.ForJob(0) // a job waits longer for a server, and a log does not say what it is of
	p.RetryIf = nil
	a := retry.Attempt{Number: e.Attempt, Err: retry.After(e.RetryAfter, before.Err), Elapsed: e.Elapsed, Seed: max(1, e.Seed)} // a seed of 0 would be drawn from Source
	if !j.knows(e) {
		// A class that allows what happened, for the bounds of the policy itself.
		p.Classify = func(error) *retry.Class {
			return &retry.Class{Backoff: retry.Fixed(e.Delay), MaxDelay: math.MaxInt64, Jitter: retry.Proportional(0)}
		}
		a.Err = errFailed
	}
	return p.Next(a)
}

// errFailed stands for an error that must not say anything itself.
var errFailed = errors.New("the attempt failed")

// knows reports whether the policy knows the class of the failure in e.
func (j *Judge) knows(e retry.Event) bool {
	return j.Rules || j.Policy.Classify == nil && e.Class == ""
}

// byCode reports whether code made the decision that e reports: RetryIf, Classify,
// Wait, or a mark of the error. Policy cannot make it again.
func (j *Judge) byCode(e retry.Event) bool {
	if j.Rules || e.Kind == retry.RetryScheduled {
		return !j.knows(e)
	}
	switch e.Reason {
	case retry.ReasonPermanent, retry.ReasonRejected:
		return true
	case retry.ReasonWait:
		return j.Policy.Wait != nil
	case retry.ReasonNonRetryable:
		return !j.Policy.NonRetryable && (e.Cause != nil || !j.knows(e))
	case retry.ReasonExhausted:
		return e.Attempt != j.Policy.EffectiveMax() && !j.knows(e)
	case retry.ReasonInvalid:
		return e.Err != nil && !j.knows(e) // the class was
	default:
		return false
	}
}

// mayStop reports whether a call whose policy says this may end with e, a CallFinished.
func mayStop(p retry.Policy, e retry.Event, says retry.Reason) bool {
	goesOn := says == retry.ReasonRetry || says == retry.ReasonElapsed // as far as the count goes
	switch e.Reason {
	case retry.ReasonExhausted, retry.ReasonNonRetryable, retry.ReasonInvalid:
		return says == e.Reason
	case retry.ReasonRetryAfter:
		return goesOn || says == e.Reason // by an error that is not from a log, and has its mark
	case retry.ReasonElapsed:
		return goesOn && p.MaxElapsed > 0
	case retry.ReasonBudget, retry.ReasonBorrowed:
		return goesOn
	case retry.ReasonRejected:
		return false
	case retry.ReasonWait:
		return p.Wait != nil && says != retry.ReasonInvalid
	default:
		return says != retry.ReasonInvalid
	}
}
