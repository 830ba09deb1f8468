// Package hook lets the packages of this module change what the loop does. They
// implement these methods on the context that they pass to retry.Do, retry.DoValue
// or retry.Loop, or on the Source of the policy. A context derived from theirs does
// not count, so that calls inside the operation are not affected.
package hook

// A Mark keeps methods of other modules from matching by accident.
type Mark struct{}

// BeforeWait is called once for each retry, after OnEvent was called with
// RetryScheduled and before the wait. The time it takes is part of the wait.
type BeforeWait interface{ BeforeWait(Mark) }

// NoRetry says that the repetitions of a call are not retries, so that they take
// nothing from the Budgets of the context. The method is never called.
type NoRetry interface{ NoRetry(Mark) }

// NoWait is implemented by the Source of a policy whose waits are skipped. The
// clock of the call advances as if they had passed. The method is never called.
type NoWait interface{ NoWait(Mark) }
