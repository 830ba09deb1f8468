// Package retrytest helps you test retry policies and the code that uses them,
// without waiting:
//
//	op := retrytest.NewOp(errDown, errDown, nil) // fails twice
//	err := retry.Do(t.Context(), retrytest.NoWait(policy), op.Run)
//
// What there is:
//
//   - [Table] checks decisions, one for each row.
//   - [Schedule] checks all the delays of a policy at once.
//   - [Op] is an operation that returns the errors you list, and records its
//     attempts.
//   - [NoWait] returns a policy whose waits are skipped.
//   - [Repeatable] finds operations that can run only once.
//   - [JobCount] checks that a queue of your own counts attempts from 1.
//   - [TestBackoff] and [TestJitter] check a Backoff and a Jitter that you wrote.
//
// None of them sleeps. The checks take a [testing.TB] and report with Errorf.
// All of them work inside and outside of [testing/synctest]. Inside, the waits of
// a policy take no real time and are exact to the nanosecond.
package retrytest
