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
// A [Pipeline] is for work in several steps in which the outcome of one decides
// which one comes next: fetch a page, store it, go back for the next page; ask
// whether a job is done, wait, ask again; try another host after an error. Each
// task has its own rules. A rule can look at results as well as errors, and
// besides retrying it can continue, jump to another task, end the pipeline, or
// fail it. The tasks share a [State].
//
// A pipeline runs in the goroutine of its caller and keeps nothing but the State.
// Record its events and the State, and [Pipeline.Resume] continues a run that
// was cut off. An [Event] is written and read as JSON, for one line of a log each.
//
// Package retrylog logs and counts the [retry.Event] in it:
//
//	pipeline.OnEvent = func(ctx context.Context, e retryflow.Event) { counters.OnEvent(ctx, e.Event) }
//
// The examples are recipes: pagination, polling, a policy for each error, a
// fallback host, resuming after a crash.
package retryflow
