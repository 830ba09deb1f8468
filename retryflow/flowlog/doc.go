// Package flowlog writes, reads and checks logs of pipelines.
//
//	pipeline.OnEvent = flowlog.NewWriter(file).OnPipelineEvent
//
// A log of pipelines has the records of package retrylog, and may have those of policies too.
// Each task that is entered is a [retrylog.Call]: retrylog.Replay rebuilds the calls, and
// retrylog.Explain prints them with what the rules decided. [CheckPipeline] makes the decisions
// of the rules again. [PipelineEvents] returns the events of one run, with which
// [retryflow.Pipeline.Resume] continues it, also in the middle of the wait before a jump.
// Give each run a key of its own, by [retrylog.WithKey].
//
// Slog and Counters of package retrylog take the [retry.Event] in such an event:
//
//	pipeline.OnEvent = func(ctx context.Context, e retryflow.Event) { counters.OnEvent(ctx, e.Event) }
//
// A line has the keys that package retrylog describes, and those of
// [retryflow.Event]: task, rule, directive and others. Package retrylog reads such a
// line as an event, without them.
package flowlog
