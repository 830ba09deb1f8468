package retry

import (
	"context"
	"time"
)

// Once makes one attempt of an operation whose attempts are counted elsewhere, for
// example by a job queue in a row, and returns what to do next.
// a.Number is the number of this attempt.
//
// Once does what [Do] does in one attempt: it applies AttemptTimeout, decides as
// [Policy.Next] does, takes a retry out of the Budgets of p and ctx where the
// decision is to retry, puts back the share of a success, and reports the events.
// It differs in this:
//
//   - It never waits. The caller waits for the Delay, or stores when the job is due.
//   - A deadline of ctx bounds the attempt, not the job: an attempt that it ends has
//     failed. A cancellation is ReasonCanceled.
//   - If ctx is done before the attempt, fn is not called, and the Reason is
//     ReasonCanceled or ReasonDeadline. This is not a failure of the job: hand it out
//     again.
//   - If the limit is used up already, as when a worker died in the last attempt, fn
//     is not called, and the Reason is ReasonExhausted or ReasonNonRetryable.
//   - If p is invalid, fn is called once whatever Number is, so that a bad
//     configuration does not bury the jobs in flight without a run.
//   - HealthyAfter has no effect, because Once does not count the attempts.
//   - Classes of failure are counted apart if a has Classes: store a small map, and
//     add one to the name in Decision.Class after each failure, except where the
//     Reason is ReasonCanceled.
//
// The error is nil on success, and otherwise an [*Error]. If a retry follows, its
// Reason is ReasonRetry. The Decision has the Reason of the error, or
// ReasonSuccess.
func Once(ctx context.Context, p Policy, a Attempt, fn func(context.Context) error) (d Decision, err error) {
	err = p.once(ctx, &a, fn, &d)
	return
}

func (p *Policy) once(ctx context.Context, a *Attempt, fn func(context.Context) error, d *Decision) error {
	if fn != nil && ctx != nil && a.Number < 2 && p.MaxElapsed == 0 && p.AttemptTimeout == 0 && p.OnEvent == nil && ctx.Err() == nil {
		err := fn(ctx)
		if err == nil {
			p.Budget.Success()
			d.Reason = ReasonSuccess
			return nil
		}
		c := newCall(p, err)
		c.seed = a.Seed
		return c.handBack(ctx, p, a, d)
	}
	return p.watchedOnce(ctx, a, fn, d)
}

// watchedOnce is once with a clock, a watcher, or attempts that were made before.
func (p *Policy) watchedOnce(ctx context.Context, a *Attempt, fn func(context.Context) error, d *Decision) error {
	var c call // on the stack: a success allocates nothing
	c.judge(p)
	c.Attempts, c.seed = max(1, a.Number)-1, a.Seed
	p.HealthyAfter = 0 // the count is not ours; p is a copy, and has been judged
	if c.Cause != nil {
		c.limit = c.Attempts + 1 // an invalid policy: this attempt is made, whatever its number
	}
	if p.MaxElapsed > 0 || p.OnEvent != nil {
		c.start = time.Now().Add(-max(0, a.Elapsed))
	}
	switch {
	case ctx == nil || fn == nil || ctx.Err() != nil:
		c.refuse(ctx, p, fn)
	case c.limit != Unlimited && c.Attempts >= c.limit:
		c.usedUp(ctx, p)
	default:
		if p.OnEvent != nil {
			c.started(ctx, p, c.now())
		}
		if c.attempt(ctx, p, fn) {
			d.Reason = ReasonSuccess
			return nil
		}
	}
	failed := c
	if failed.Reason == "" {
		return failed.handBack(ctx, p, a, d)
	}
	d.Reason = failed.Reason
	return &failed.Error
}

// usedUp stops c because it has no attempt left. That a queue hands the job out
// again and again is no attempt.
func (c *call) usedUp(ctx context.Context, p *Policy) {
	c.Attempts = c.limit
	reason := ReasonExhausted
	if p.NonRetryable {
		reason = ReasonNonRetryable
	}
	c.stop(ctx, p, reason, nil)
}

// handBack ends a call whose attempt failed, also where a retry follows: that is
// made elsewhere.
func (c *call) handBack(ctx context.Context, p *Policy, a *Attempt, d *Decision) error {
	if c.retries(ctx, p, a, d) {
		c.Reason = ReasonRetry
		if p.OnEvent != nil {
			c.tellPaid(ctx, p)
		}
	}
	d.Reason = c.Reason
	return &c.Error
}
