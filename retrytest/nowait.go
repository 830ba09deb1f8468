package retrytest

import (
	"context"
	"time"

	"github.com/goretry/retry"
)

// NoWait returns p with its waits skipped, for tests of code that cannot run in
// a bubble of [testing/synctest]. A call sleeps neither the delays of p nor what
// servers ask for (see [retry.After]), and its clock runs ahead as if the time had
// passed. So it makes as many attempts as under p, and stops for the same reason:
// MaxElapsed and the context's deadline count the skipped waits. The events and
// the [retry.Error] have the delays that p decided, and the events have times to
// match, so package retrylog can replay a log of them.
//
// NoWait sets p.Wait, and replaces the one that p has. You may change all other
// fields before or after, such as Source.
//
//   - An invalid policy stays invalid, and makes one attempt.
//   - An unlimited policy stays unlimited. If neither MaxElapsed nor a deadline
//     ends it, it keeps a processor busy until the operation succeeds or the
//     context is canceled.
//   - Attempts, AttemptTimeout, HealthyAfter, cancellations, Budget.RefillEvery and Remember
//     use the real clock. A cancellation that would have ended a wait comes too
//     late.
//   - An operation that calls [retry.Do] with another policy waits there, unless
//     you apply NoWait to that policy too. The policy of a [retry.Class] needs none.
func NoWait(p retry.Policy) retry.Policy {
	p.Wait = skip
	return p
}

// skip skips a wait, unless ctx is done.
func skip(ctx context.Context, d time.Duration) (skipped time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return d, nil
}
