package retrytest

import (
	"math/rand/v2"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/hook"
)

// NoWait returns p with its waits skipped, for tests of code that cannot run in
// a bubble of [testing/synctest]. A call sleeps neither the delays of p nor the
// waits that servers ask for (see [retry.After]), and its clock goes on as if
// they had passed. So it makes as many attempts as under p, and stops for the
// same reason: MaxElapsed and the context's deadline count the skipped waits.
// The events and the [retry.Error] have the delays that p decided, and the
// events have times to match, so package retrylog can replay a log of them.
//
//   - A policy that is not valid stays invalid, and makes one attempt.
//   - An unlimited policy stays unlimited. If neither MaxElapsed nor a deadline
//     ends it, it keeps a processor busy until the operation succeeds or the
//     context is canceled.
//   - Attempts, AttemptTimeout, cancellations and Budget.RefillEvery use the real
//     clock. A cancellation that would have ended a wait comes too late.
//   - The time that OnEvent takes after RetryScheduled is added to the skipped
//     wait. In a wait that is not skipped it is part of the wait.
//   - An operation that calls [retry.Do] with another policy waits there, unless
//     you apply NoWait to that policy too.
//
// NoWait marks the Source of p, so set a Source before, not after. The policies
// that Select returns need no mark.
func NoWait(p retry.Policy) retry.Policy {
	p.Source = noWait{p.Source}
	return p
}

// noWait is a Source that tells the loop to skip its waits. If it holds no other
// Source, it uses math/rand/v2.
type noWait struct{ source retry.Source }

func (n noWait) Uint64() uint64 {
	if n.source == nil {
		return rand.Uint64()
	}
	return n.source.Uint64()
}

func (noWait) NoWait(hook.Mark) {}
