package retry

import "context"

// Once makes one attempt of an operation and decides whether a retry follows. It is for
// operations whose attempts are counted elsewhere, for example by a job queue. a.Number is the
// number of this attempt.
//
// For this attempt, Once does the same as [Do]: it applies AttemptTimeout, makes the decision
// of [Policy.Next], and reports the events. If a retry follows, Once takes the retry from the
// Budgets of p and ctx. If the attempt succeeds, Once puts a part of a retry back into the
// Budget of p. Once differs from Do in these points:
//
//   - Once never waits. The caller waits for the Delay, or stores the time when the job is
//     due.
//   - If the deadline of ctx ends the attempt, only this attempt has failed. The job may go on
//     with a retry. If ctx is canceled, the Reason is ReasonCanceled.
//   - If ctx is done before the attempt, fn is not called, and the Reason is ReasonCanceled or
//     ReasonDeadline. The job has not failed, so let the queue deliver it again.
//   - If a.Number is above the limit, fn is not called. This can happen if a worker died in the
//     last attempt. The Reason is ReasonExhausted or ReasonNonRetryable.
//   - If p is invalid, fn is called once, whatever a.Number is. So a wrong configuration does
//     not end a job before it has made an attempt.
//   - HealthyAfter does not make the count begin anew, because Once does not count attempts.
//     HealthyAfter only raises short delays: a window that ends below 10ms becomes 10ms.
//   - a.Classes contains the number of earlier failures of each class. Store this map with the
//     job, with at most 8 names. After each failure, add 1 to the count of Decision.Class,
//     unless the Reason is ReasonCanceled.
//
// After a success, the error is nil. Otherwise it is an [*Error]. If a retry follows, the
// Reason of this Error is ReasonRetry. The Decision has the same Reason as the Error, or
// ReasonSuccess after a success.
func Once(
	ctx context.Context, p Policy, a Attempt, fn func(context.Context) error,
) (Decision, error) {
	var c call
	c.prepare(ctx, &p)
	defer c.refund()
	c.once, c.earlier, c.seed = true, a.Classes, a.Seed
	c.Attempts = max(1, a.Number) - 1
	c.number = c.Attempts
	if c.fault != nil {
		c.limit = c.Attempts + 1 // allow this attempt, whatever its number is
	}
	if c.p.watches() {
		c.start = c.now().Add(-max(0, a.Elapsed))
	}
	if c.begin(fn) && c.attempt(fn) && c.decide() && c.pay() && c.announce() {
		c.Reason, c.paid = ReasonRetry, 0 // the caller makes the retry, so nothing is refunded
		e := c.Error
		return c.last, &e
	}
	err := c.stop()
	c.last.Reason = c.Reason
	return c.last, err
}
