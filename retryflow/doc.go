// Package retryflow has rules that say what follows an operation: the first
// that matches its outcome decides whether it is executed again, and how.
//
// With [retry.Do] they give each kind of failure a policy of its own, and the
// others none:
//
//	rules := retryflow.Rules{
//		{When: retryflow.IfErr(isRateLimit), Do: retryflow.Retry, Policy: patient},
//		{When: retryflow.IfErr(isDeadlock), Do: retryflow.Retry, Policy: quick},
//	}
//	err := retry.Do(ctx, retry.Policy{MaxAttempts: 10, Select: rules.Select}, call)
//
// The policy bounds what the rules allow: all of them together have its
// MaxAttempts, in the time of its MaxElapsed, from its Budget.
//
// In a [Pipeline] the rules of each task say too where to go on: to the next
// task, back to one before, or out. Pages are fetched by a jump back with the
// number of the next page in the state; a job is polled by a jump back, after
// a delay, to itself.
//
// # Rules
//
// These hold in this order:
//
//   - A pipeline that does not validate runs nothing, and says every fault at once.
//   - Tasks run in order, each with the state that the one before left.
//   - An execution that ends is counted; attempts are those of the task, over all its rules.
//   - After each execution the rules are asked in order, and the first that matches says what follows.
//   - A rule without a When always matches: it is the else.
//   - A rule whose When fails does not match; its error is in the event, and in the text of the error of a task that fails.
//   - Where no rule matches, a success continues and an error fails.
//   - Delay computes the wait from the outcome.
//   - Set changes the state before what follows.
//   - A Delay or a Set that fails fails the task, with its error and that of the outcome.
//   - Continue goes on to the next task, after an error too.
//   - Retry executes the task again when the Policy of the rule says, after a success too.
//   - A rule that has no attempts left fails the task with the last error, and no later rule is asked.
//   - No rule makes a retry that package retry would refuse: of an error marked Permanent, before the wait that a server asks for, or beyond the bounds of Pipeline.Policy.
//   - Jump goes on to the task that To names, and each task that is entered counts its attempts anew.
//   - A jump beyond MaxJumps fails the task that jumps, before its wait.
//   - Break ends the pipeline well, and skips the tasks that are left.
//   - Fail ends the pipeline with the error of the outcome.
//   - A context that ends ends the pipeline, in a task, in the wait for a retry and in that for a jump.
//   - A panic in a function of yours passes through.
package retryflow
