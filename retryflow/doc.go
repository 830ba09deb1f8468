// Package retryflow matches the outcome of an operation against ordered rules. The first
// rule that matches decides what to do next.
//
// # Rules for the errors of one call
//
// Different errors often need different policies. After a rate limit, you may want many attempts
// and long waits. After a deadlock, you may want a few quick attempts. Other errors may need no
// retry. [Rules.Classify] adds a rule for each kind of error to an ordinary policy:
//
//	rules := retryflow.Rules{
//		{When: retryflow.IfErr(isRateLimit), Do: retryflow.Retry, Policy: patient},
//		{When: retryflow.IfErr(isDeadlock), Do: retryflow.Retry, Policy: quick},
//	}
//	err := retry.Do(ctx, retry.Policy{MaxAttempts: 10, Classify: rules.Classify}, call)
//
// MaxAttempts, MaxElapsed and Budget of the policy apply to all rules together. If you only need
// to retry one call, stop reading here: Classify is enough.
//
// # Pipelines
//
// A [Pipeline] runs several tasks. The outcome of a task decides which task comes next. Some
// examples:
//
//   - Pagination: fetch a page, store it, and go back for the next page.
//   - Polling: ask whether a job is done, wait, and ask again.
//   - Fallback: try another host after an error.
//
// Each task has its own rules. A rule can look at results and errors. It can retry the task,
// continue with the next task, jump to another task, or end the pipeline with or without an
// error. The tasks share a [State].
//
// A pipeline runs in the goroutine of its caller. It keeps no data except the State. If you
// record the events and the State, [Pipeline.Resume] continues a run that was cut off. An [Event]
// can be written as one line of JSON and read back.
//
// Package retrylog logs and counts the [retry.Event] inside an Event:
//
//	pipeline.OnEvent = func(ctx context.Context, e retryflow.Event) {
//		counters.OnEvent(ctx, e.Event)
//	}
//
// The examples show pagination, polling, a policy for each error, a fallback host, and how to
// resume after a crash.
package retryflow
