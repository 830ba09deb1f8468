// Package retrylog logs, counts, records, replays and explains retry events.
//
//	policy.OnEvent = retrylog.Slog(logger)
//
// To write events:
//
//   - [Slog] logs to log/slog: one line for each retry, and one line for the end of a call.
//   - [Counters] counts calls, retries and the reasons why calls stopped, for expvar and
//     metrics.
//   - A [Writer] writes the events as lines of JSON, to a file or a bytes.Buffer.
//
// To read events:
//
//   - [Read] reads a log, and [Replay] rebuilds its calls.
//   - [Call.Check] computes every decision of a call again and compares it with the log.
//   - [Explain] returns a text that says what happened, when and why.
//   - For a long log, use a [Reader], which reads the log line by line. [Call.Add] adds the events
//     to a call one by one.
//
// A policy has only one OnEvent. To use both Slog and Counters, call them from one function:
//
//	log := retrylog.Slog(logger)
//	policy.OnEvent = func(ctx context.Context, e retry.Event) {
//		log(ctx, e)
//		counters.OnEvent(ctx, e)
//	}
//
// Slog, Counters and Writer are safe for concurrent use, and any number of policies can share
// them. To tell the calls in a log apart, put a key into the context of each call, such as
// the ID of a job:
//
//	err := retry.Do(retrylog.WithKey(ctx, job.ID), policy, job.Run)
//
// # The form of a log
//
// A log has one event on each line. This example breaks long lines. The key of the call, if there
// is one, comes first:
//
//	{"key":"17","kind":"attempt_started","time":"2026-11-20T10:00:00Z","attempt":1,"max":4}
//	{"key":"17","kind":"attempt_finished","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":4,
//	 "err":"refused","took":"30ms","elapsed":"30ms"}
//	{"key":"17","kind":"retry_scheduled","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":4,
//	 "err":"refused","elapsed":"30ms","delay":"219.325191ms",
//	 "due":"2026-11-20T10:00:00.249325191Z","lo":"160ms","hi":"240ms","seed":"42"}
//	{"key":"17","kind":"call_finished","time":"2026-11-20T10:00:00.1Z","attempt":1,"max":4,
//	 "err":"refused","cause":"context canceled","elapsed":"100ms","reason":"canceled"}
//
// The delay of a retry can be computed from its line alone: it is retry.Draw(seed, number, lo,
// hi). If a line has no "number", use its "attempt". An attempt_finished line has "hedged":true
// if the answer came from the second request of a retryhttp.Hedge. Unknown keys, kinds and reasons
// are not errors, because a newer version may have written the log.
//
// A pipeline of package retryflow has its own events with more keys. Read ignores the keys about
// rules. Replay rejects some events of a pipeline, for example the wait before a jump to another
// task.
package retrylog
