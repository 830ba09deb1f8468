package retry

import (
	"context"
	"time"
)

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
//     not end a job before the job has had an attempt.
//   - HealthyAfter does not make the count begin anew, because Once does not count attempts.
//     HealthyAfter only raises short delays: if the longest delay that may be drawn is below
//     10ms, the delay is 10ms.
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

// An Attempt describes one attempt of an operation whose attempts you count yourself, such as a
// job in a queue. [Policy.Next] decides what follows a failed attempt, and [Once] makes an
// attempt. Use field names in an Attempt literal, because a later version may add fields.
type Attempt struct {
	// Number is 1 for the first attempt, 2 for the second attempt, and so on. A Number below 1 is
	// treated as 1.
	Number int

	// Classes contains the number of earlier failures for each name of a class. nil: no earlier
	// failure had a class.
	//
	// Store these counts between the attempts. If the counts are lost, each failure looks like the
	// first failure of its class. Then a MaxAttempts of 2 or more in a class has no effect, and the
	// Backoff of a class always gives its first delay.
	Classes map[string]int

	// Err is the error of the attempt. Only Next reads it. If Err is nil, Next calls neither RetryIf
	// nor Classify. Then a retry follows, unless the policy is invalid or NonRetryable, or a limit of
	// the policy is reached.
	Err error

	Took time.Duration // how long the attempt ran; Next compares it with HealthyAfter

	// Elapsed is the time since the first attempt began. It is compared with MaxElapsed. For this
	// comparison, [Once] adds to Elapsed how long this attempt ran. [Policy.Next] adds nothing. A
	// negative Elapsed is treated as 0.
	Elapsed time.Duration

	Seed uint64 // selects the delay from the window; 0: Policy.Source draws a seed
}
