// Package flowlog writes, reads, replays, checks and explains logs of pipelines.
//
//	pipeline.OnEvent = flowlog.NewWriter(file).OnPipelineEvent
//
// It does for a [retryflow.Pipeline] what package retrylog does for the calls of
// policies, and its types have the same names. A log may hold the events of both.
// Each task that is entered is a [Call]. [Call.CheckPipeline] makes the decisions
// of its rules again, and [CheckRuns] the order of the tasks. [PipelineEvents]
// returns the events of one run, with which [retryflow.Pipeline.Resume] continues
// it, also in the middle of the wait before a jump. Give each run a key of its own,
// by [retrylog.WithKey].
//
// Slog and Counters of package retrylog take the [retry.Event] in such an event:
//
//	pipeline.OnEvent = func(ctx context.Context, e retryflow.Event) { counters.OnEvent(ctx, e.Event) }
//
// A line has the keys that package retrylog describes, and those of
// [retryflow.Event]: task, rule, directive and others. Package retrylog reads such a
// line as an event, without them.
package flowlog
