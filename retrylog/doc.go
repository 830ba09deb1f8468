// Package retrylog logs, counts, records, replays and explains retry events.
//
//	policy.OnEvent = retrylog.Slog(logger)
//
// [Slog] logs to log/slog, one line for each retry and one for the end of a call.
// [Counters] count calls, retries and the reasons for stopping, for expvar and for
// metrics. A [Writer] keeps the events themselves, in a file or a bytes.Buffer, and [Read]
// reads them: [Replay] rebuilds the calls from them, [Call.Check] makes every decision again
// and compares, and [Explain] prints them as text that says when and why. A [Reader] and
// [Call.Add] do the same event by event, for tools that read long logs.
//
// A policy has one OnEvent. To have several, call them from one:
//
//	log := retrylog.Slog(logger)
//	policy.OnEvent = func(ctx context.Context, e retry.Event) {
//		log(ctx, e)
//		counters.OnEvent(ctx, e)
//	}
//
// What a policy calls is safe for concurrent use and can be shared by any number of
// policies. To distinguish the calls in a log, put a key into the context of each
// call, such as the id of a job:
//
//	err := retry.Do(retrylog.WithKey(ctx, job.ID), policy, job.Run)
//
// # Form
//
// A log has one event on each line, with the key first if there is one:
//
//	{"key":"17","kind":"attempt_started","time":"2026-11-20T10:00:00Z","attempt":1,"max":4}
//	{"key":"17","kind":"attempt_finished","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":4,"err":"refused","took":"30ms","elapsed":"30ms"}
//	{"key":"17","kind":"retry_scheduled","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":4,"err":"refused","elapsed":"30ms","delay":"219.325191ms","due":"2026-11-20T10:00:00.249325191Z","lo":"160ms","hi":"240ms","seed":"42"}
//	{"key":"17","kind":"call_finished","time":"2026-11-20T10:00:00.1Z","attempt":1,"max":4,"err":"refused","cause":"context canceled","elapsed":"100ms","reason":"canceled"}
//
// Every delay follows from its own line: it is retry.Draw(seed, number, lo, hi). On a line without
// "number" the number is the attempt. If the second request of a retryhttp.Hedge has answered an
// attempt, the line has "hedged":true.
// Unknown keys, kinds and reasons are not errors, so a log may hold more, and may be
// from a newer version.
//
// A pipeline of package retryflow has events of its own, which have more keys. Read reads them as
// events of calls, without its rules, and not all of them can be replayed.
package retrylog
