// Package retryflow decides what to do after an operation by matching its
// outcome against ordered rules. The first rule that matches decides.
//
// # Rules for the errors of one call
//
// Different errors often need different policies: many attempts and long waits
// for a rate limit, a few quick attempts for a deadlock, no retry for anything
// else. [Rules.Classify] makes that a field of an ordinary policy:
//
//	rules := retryflow.Rules{
//		{When: retryflow.IfErr(isRateLimit), Do: retryflow.Retry, Policy: patient},
//		{When: retryflow.IfErr(isDeadlock), Do: retryflow.Retry, Policy: quick},
//	}
//	err := retry.Do(ctx, retry.Policy{MaxAttempts: 10, Classify: rules.Classify}, call)
//
// The policy bounds what the rules allow: its MaxAttempts, MaxElapsed and Budget
// hold for all of them together. If you only need to retry one call, stop reading
// here: Classify is enough.
//
// # Pipelines
//
// A [Pipeline] is for work of several steps in which the outcome of one decides
// which one comes next: fetch a page, store it, go back for the next page; ask
// whether a job is done, wait, ask again; try another host after an error. Each
// task has its own rules. A rule can look at results as well as errors, and
// besides retrying it can continue, jump to another task, end the pipeline, or
// fail it. The tasks share a [State].
//
// A pipeline runs in the goroutine of its caller and keeps nothing but the State.
// Record its events and the State, and [Pipeline.Resume] continues a run that
// was cut off. Package flowlog writes, reads and checks logs of these events.
//
// The examples are recipes: pagination, polling, a policy for each error, a
// fallback host, resuming after a crash.
//
// # How a pipeline runs
//
//   - An invalid pipeline runs nothing and returns every fault.
//   - Tasks run in order, each with the state that the previous one left.
//   - Attempts are counted for the task, over all its rules.
//   - After each attempt the rules are tried in order, and the first that matches decides.
//   - A rule without a When always matches, like an else.
//   - A rule whose When fails does not match. The error of the When is in the event, and in the error text if the task fails.
//   - If no rule matches, a success continues and an error fails.
//   - Delay computes the wait from the outcome.
//   - Set changes the state before the directive takes effect.
//   - Attempts computes the limit of a Retry from the outcome.
//   - If Attempts, Delay or Set fails, the task fails with that error and the error of the outcome.
//   - Continue goes on to the next task, even after an error.
//   - Retry runs the task again as the Policy of the rule says, even after a success.
//   - If a rule has no attempts left, the task fails with the last error, and no later rule is tried.
//   - No rule can retry an error marked Permanent, retry earlier than a server asks for, or exceed the bounds of Pipeline.Policy.
//   - Jump goes on to the task that To names. Each time a task is entered, its attempts count from 1.
//   - A jump is not a retry and takes nothing from a Budget.
//   - A jump beyond MaxJumps fails the task that jumps, before its wait.
//   - Break ends the pipeline without an error and skips the remaining tasks.
//   - Fail ends the pipeline with the error of the outcome.
//   - A pipeline ends when its context is done: in a task, in the wait for a retry, or in the wait for a jump.
//   - A panic in one of your functions is not recovered.
package retryflow
