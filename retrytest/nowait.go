package retrytest

import (
	"context"
	"time"

	"github.com/goretry/retry"
)

// NoWait returns a copy of p in which the function Wait skips all waits. The copy is for tests of
// code that cannot run in a bubble of [testing/synctest]. The copy skips both the delays of p and
// the waits that servers ask for (see [retry.After]).
//
// The clock of the call runs ahead as if the skipped waits had taken their time. MaxElapsed and
// the context's deadline count the skipped waits. So the call makes as many attempts as with p
// itself, and stops for the same reason. The events and the [retry.Error] contain the delays of p.
// The times of the events include the skipped waits, so package retrylog can replay a log of the
// events.
//
// NoWait replaces p.Wait. You may change all other fields before or after you call NoWait.
//
//   - An invalid policy stays invalid and makes one attempt.
//   - An unlimited policy stays unlimited. If neither MaxElapsed nor a deadline ends the call,
//     the call keeps a processor busy until the operation succeeds or the context is canceled.
//   - The real clock still applies to attempts, AttemptTimeout, HealthyAfter, the times of a
//     Budget, and cancellations of a context. For example, a context that your test cancels
//     after a second does not end a wait, because the wait takes no time.
//   - If the operation calls [retry.Do] with another policy, this call of retry.Do waits. Apply
//     NoWait to the other policy too.
//   - The delays of each [retry.Class] that p's Classify returns are skipped too.
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
