package retry

import "context"

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
//   - No attempt is healthy, because Once does not count them: HealthyAfter only keeps the
//     Delay at 10ms or more.
//   - Failures of a class are counted by a.Classes: store a small map of at most 8
//     names, and add one to the name in Decision.Class after each failure, except
//     where the Reason is ReasonCanceled.
//
// The error is nil on success, and otherwise an [*Error]. If a retry follows, its
// Reason is ReasonRetry. The Decision has the Reason of the error, or
// ReasonSuccess.
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
		c.limit = c.Attempts + 1 // this attempt is made, whatever its number
	}
	if c.p.watches() {
		c.start = c.now().Add(-max(0, a.Elapsed))
	}
	if c.begin(fn) && c.attempt(fn) && c.decide() && c.pay() && c.announce() {
		c.Reason, c.paid = ReasonRetry, 0 // the retry is made elsewhere
		e := c.Error
		return c.last, &e
	}
	err := c.stop()
	c.last.Reason = c.Reason
	return c.last, err
}
