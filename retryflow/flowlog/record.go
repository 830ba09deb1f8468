package flowlog

import (
	"context"
	"io"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retrylog"
)

// Flow reads what an event of a pipeline says beside the retry.Event, for internal packages.
func Flow(data []byte) (eventlog.Flow, error) {
	e := new(retryflow.Event)
	err := e.UnmarshalJSON(data)
	return flow{e}, err
}

// A Writer writes events as lines of JSON, each by one call of Write. It writes
// nothing after an error. It is safe for concurrent use.
type Writer struct{ lines *eventlog.Writer }

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{eventlog.NewWriter(w)} }

// OnPipelineEvent writes e. Use it as the OnEvent of pipelines.
func (w *Writer) OnPipelineEvent(ctx context.Context, e retryflow.Event) {
	w.lines.Write(retrylog.Record{Key: retrylog.Key(ctx), Event: e.Event, Flow: flow{&e}})
}

// OnEvent writes e. Use it as the OnEvent of policies.
func (w *Writer) OnEvent(ctx context.Context, e retry.Event) {
	w.lines.Write(retrylog.Record{Key: retrylog.Key(ctx), Event: e})
}

// Err returns the error that ended the log, nil if none did.
func (w *Writer) Err() error { return w.lines.Err() }

// Read reads a log of pipelines, policies or both, as [retrylog.Read] does. Its
// error is [retrylog.ErrCutOff] if a crash has cut off a line.
func Read(r io.Reader) ([]retrylog.Record, error) { return eventlog.Read(r, Flow) }

// PipelineEvents returns the events of pipelines that have this key, for
// [retryflow.Pipeline.Resume]. Each run needs a key of its own. Use the same key
// when you resume it.
func PipelineEvents(records []retrylog.Record, key string) []retryflow.Event {
	var events []retryflow.Event
	for _, r := range records {
		if f, ok := r.Flow.(flow); ok && r.Key == key {
			events = append(events, *f.Event)
		}
	}
	return events
}
