package retrytest

import (
	"context"
	"time"

	"github.com/goretry/retry"
)

// NoWait returns p with a Wait that skips all waits. It is for tests of code that cannot run
// in a bubble of [testing/synctest]. A call skips the delays of p and the waits that servers
// ask for (see [retry.After]). The clock of the call runs ahead as if the time had passed. So
// the call makes as many attempts as under p, and stops for the same reason, because
// MaxElapsed and the context's deadline count the skipped waits. The events and the
// [retry.Error] contain the delays according to p. The times of the events include the
// skipped waits, so package retrylog can replay a log of the events.
//
// NoWait replaces p.Wait. You may change all other fields before or after NoWait.
//
//   - An invalid policy stays invalid and makes one attempt.
//   - An unlimited policy stays unlimited. If neither MaxElapsed nor a deadline ends the call,
//     it keeps a processor busy until the operation succeeds or the context is canceled.
//   - Attempts, AttemptTimeout, HealthyAfter, cancellations and the times of a Budget use the
//     real clock. A cancellation that would end a wait comes too late.
//   - If the operation calls [retry.Do] with another policy, that call waits. Apply NoWait to
//     that policy too. The delays of a [retry.Class] are skipped.
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
