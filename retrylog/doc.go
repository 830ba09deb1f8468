// Package retrylog logs, counts, records, replays and explains retry events.
//
//	policy.OnEvent = retrylog.Slog(logger)
//
// [Slog] logs to log/slog, one line for each retry and one for the end of a call.
// [Counters] count calls, retries and the reasons for stopping, for expvar and for
// metrics. [Writer] and [Recorder] keep the events themselves: [Replay] rebuilds
// the calls from them, [Call.Check] makes every decision again and compares, and
// [Explain] prints them as text that says when and why.
//
// A policy has one OnEvent. To have several, call them from one:
//
//	log := retrylog.Slog(logger)
//	policy.OnEvent = func(ctx context.Context, e retry.Event) {
//		log(ctx, e)
//		counters.OnEvent(ctx, e)
//	}
//
// Everything here is safe for concurrent use and can be shared by any number of
// policies. To distinguish the calls in a log, put a key into the context of each
// call, such as the id of a job:
//
//	err := retry.Do(retrylog.WithKey(ctx, job.ID), policy, job.Run)
//
// # Pipelines
//
// [Writer.OnPipelineEvent] and [Recorder.OnPipelineEvent] keep the events of a
// [retryflow.Pipeline] with their task and the rule that decided. Each task that
// is entered is a [Call]. [Call.CheckPipeline] checks one, and a run that was cut
// off continues from its [PipelineEvents], also in the middle of the wait before
// a jump. Give each run a key of its own. Slog and Counters take the
// [retry.Event] in such an event:
//
//	pipeline.OnEvent = func(ctx context.Context, e retryflow.Event) { counters.OnEvent(ctx, e.Event) }
//
// # Form
//
// A log has one event on each line, with the key first if there is one:
//
//	{"key":"17","kind":"attempt_started","time":"2026-11-20T10:00:00Z","attempt":1,"max":4}
//	{"key":"17","kind":"attempt_finished","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":4,"err":"refused","took":"30ms","elapsed":"30ms"}
//	{"key":"17","kind":"retry_scheduled","time":"2026-11-20T10:00:00.03Z","attempt":1,"max":4,"err":"refused","elapsed":"30ms","delay":"212ms","due":"2026-11-20T10:00:00.242Z","seed":"42"}
//	{"key":"17","kind":"stopped","time":"2026-11-20T10:00:00.1Z","attempt":1,"max":4,"err":"refused","cause":"context canceled","elapsed":"100ms","reason":"canceled"}
//
// Events of pipelines also have task, rule, directive and the other keys that
// [retryflow.Event] writes.
//
// Unknown keys are skipped, so a log may hold more. Logs written before events
// had a cause can be read too. In those, err is missing from retry_scheduled and
// stopped, or says what was wrong with the policy.
package retrylog
