// Package retryflow matches the outcome of an operation against ordered rules. The first
// rule that matches decides what to do next.
//
// # Rules for the errors of one call
//
// Different errors often need different policies: many attempts and long waits after a
// rate limit, a few quick attempts after a deadlock, and no retry after any other error.
// [Rules.Classify] adds such rules to an ordinary policy:
//
//	rules := retryflow.Rules{
//		{When: retryflow.IfErr(isRateLimit), Do: retryflow.Retry, Policy: patient},
//		{When: retryflow.IfErr(isDeadlock), Do: retryflow.Retry, Policy: quick},
//	}
//	err := retry.Do(ctx, retry.Policy{MaxAttempts: 10, Classify: rules.Classify}, call)
//
// The policy bounds the rules: its MaxAttempts, MaxElapsed and Budget hold for all rules
// together. If you only need to retry one call, stop reading here: Classify is enough.
//
// # Pipelines
//
// A [Pipeline] runs several tasks. The outcome of a task decides which task comes next.
// For example: fetch a page, store it, and go back for the next page; ask whether a job is
// done, wait, and ask again; try another host after an error. Each task has its own rules.
// A rule can look at results and errors. It can retry the task, continue with the next
// task, jump to another task, end the pipeline, or fail it. The tasks share a [State].
//
// A pipeline runs in the goroutine of its caller. Its State is all that it keeps. If you
// record the events and the State, [Pipeline.Resume] continues a run that was cut off. An
// [Event] can be written as one line of JSON and read back.
//
// Package retrylog logs and counts the [retry.Event] inside an Event:
//
//	pipeline.OnEvent = func(ctx context.Context, e retryflow.Event) {
//		counters.OnEvent(ctx, e.Event)
//	}
//
// The examples are recipes: pagination, polling, a policy for each error, a
// fallback host, resuming after a crash.
package retryflow
