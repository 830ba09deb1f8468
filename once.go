package retry

import "context"

// Once makes one attempt of an operation and decides what follows. It is for operations whose
// attempts somebody else counts, for example a job queue. a.Number is the number of this
// attempt.
//
// Once does the same as [Do] in one attempt. It applies AttemptTimeout, makes the decision of
// [Policy.Next], and reports the events. If a retry follows, Once takes it out of the Budgets
// of p and ctx. A success puts its share back. Once differs from Do in these points:
//
//   - Once never waits. The caller waits for the Delay, or stores the time when the job is
//     due.
//   - A deadline of ctx ends this attempt, and the attempt has failed. The job itself may go
//     on. If ctx is canceled, the Reason is ReasonCanceled.
//   - If ctx is done before the attempt, fn is not called, and the Reason is ReasonCanceled or
//     ReasonDeadline. The job has not failed: hand it out again.
//   - If the limit is used up already, for example because a worker died in the last attempt,
//     fn is not called. The Reason is ReasonExhausted or ReasonNonRetryable.
//   - If p is invalid, fn is called once, whatever a.Number is. So a bad configuration does
//     not end jobs without an attempt.
//   - No attempt makes the count begin anew, because Once does not count attempts. A
//     HealthyAfter only makes the Delay at least 10ms.
//   - a.Classes counts the failures of each class. Store a map of at most 8 names. After each
//     failure, add one to the count of Decision.Class, unless the Reason is ReasonCanceled.
//
// The error is nil after a success, and otherwise an [*Error]. If a retry follows, the Reason
// of the error is ReasonRetry. The Decision has the Reason of the error, or ReasonSuccess.
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
