// Package retrytest tests retry policies, and code that retries, without waiting:
//
//	op := retrytest.NewOp(errDown, errDown, nil) // fails twice, then succeeds
//	err := retry.Do(t.Context(), retrytest.NoWait(policy), op.Run)
//
// For policies:
//
//   - [Table] checks decisions, one in each row.
//   - [Schedule] checks all delays of a policy at once.
//   - [TestBackoff] and [TestJitter] check a Backoff and a Jitter that you wrote.
//
// For code that retries:
//
//   - [NoWait] returns a policy whose waits are skipped.
//   - [Op] is an operation that returns the errors you list, and records its attempts.
//   - [Repeatable] checks that an operation can run twice.
//   - [JobCount] checks that your own queue counts attempts from 1.
//
// The checks take a [testing.TB] and report failures with Errorf. They do not sleep. They work
// inside and outside of a bubble of [testing/synctest]. Inside a bubble, the waits of a policy
// take no real time and are exact to the nanosecond.
package retrytest
