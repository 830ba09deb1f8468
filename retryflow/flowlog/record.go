package flowlog

import (
	"context"
	"encoding/json"
	"io"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/eventlog"
	"github.com/goretry/retry/internal/strict"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retrylog"
)

// A Record is an event, the key of its call, and what a pipeline says beside it.
type Record struct {
	retrylog.Record
	Flow *retryflow.Event // the same event as a pipeline reported it; nil: it is not from a pipeline
}

func ofPolicy(ctx context.Context, e retry.Event) Record {
	return Record{Record: retrylog.Record{Key: retrylog.Key(ctx), Event: e}}
}

func ofPipeline(ctx context.Context, e retryflow.Event) Record {
	r := ofPolicy(ctx, e.Event)
	r.Flow = &e
	return r
}

func (r Record) entry() eventlog.Entry {
	entry := eventlog.Entry{Key: r.Key, Event: r.Event, Line: r.Line}
	if r.Flow != nil {
		entry.Flow = flow{r.Flow}
	}
	return entry
}

// MarshalJSON writes the event as package retryflow does if it is from a pipeline,
// and as package retry does otherwise. If there is a key, it is the first field.
func (r Record) MarshalJSON() ([]byte, error) {
	var event json.Marshaler = r.Event
	if r.Flow != nil {
		event = r.Flow
	}
	return eventlog.Marshal(r.Key, event)
}

// UnmarshalJSON reads what MarshalJSON writes: an event of a pipeline if there are a
// task and a rule. A key that is null is treated as missing.
func (r *Record) UnmarshalJSON(data []byte) error {
	var read Record
	if err := read.Record.UnmarshalJSON(data); err != nil || string(data) == "null" {
		return err
	}
	if isOfPipeline(data) {
		read.Flow = new(retryflow.Event)
		if err := read.Flow.UnmarshalJSON(data); err != nil {
			return err
		}
	}
	*r = read
	return nil
}

func isOfPipeline(data []byte) bool {
	task, rule := false, false
	if !eventlog.MayHave(data, "task") {
		return false
	}
	for key := range strict.Members(data) {
		task = task || string(key) == "task"
		rule = rule || string(key) == "rule"
	}
	return task && rule
}

// String returns the line of r in [Explain], with its error.
func (r Record) String() string { return eventlog.Text(r.entry()) }

// A Recorder keeps events in memory. The zero Recorder is empty and ready to use.
// It is safe for concurrent use and must not be copied.
type Recorder struct{ records eventlog.Recorder[Record] }

// OnPipelineEvent keeps e. Use it as the OnEvent of pipelines.
func (r *Recorder) OnPipelineEvent(ctx context.Context, e retryflow.Event) {
	r.records.Add(ofPipeline(ctx, e))
}

// OnEvent keeps e. Use it as the OnEvent of policies.
func (r *Recorder) OnEvent(ctx context.Context, e retry.Event) { r.records.Add(ofPolicy(ctx, e)) }

// Records returns the events so far, in their order.
func (r *Recorder) Records() []Record { return r.records.Records() }

// A Writer writes events as lines of JSON, each by one call of Write. It writes
// nothing after an error. It is safe for concurrent use.
type Writer struct{ lines *eventlog.Writer }

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{eventlog.NewWriter(w)} }

// OnPipelineEvent writes e. Use it as the OnEvent of pipelines.
func (w *Writer) OnPipelineEvent(ctx context.Context, e retryflow.Event) {
	w.lines.Write(ofPipeline(ctx, e))
}

// OnEvent writes e. Use it as the OnEvent of policies.
func (w *Writer) OnEvent(ctx context.Context, e retry.Event) { w.lines.Write(ofPolicy(ctx, e)) }

// Err returns the error that ended the log, nil if none did.
func (w *Writer) Err() error { return w.lines.Err() }

// Read reads a log of pipelines, policies or both, as [retrylog.Read] does. Its
// error is [retrylog.ErrCutOff] if a crash has cut off a line.
func Read(r io.Reader) ([]Record, error) {
	return eventlog.Read(r, func(value []byte, line int) (record Record, kind retry.EventKind, err error) {
		err = record.UnmarshalJSON(value)
		record.Line = line
		return record, record.Event.Kind, err
	})
}

// PipelineEvents returns the events of pipelines that have this key, for
// [retryflow.Pipeline.Resume]. Each run needs a key of its own. Use the same key
// when you resume it.
func PipelineEvents(records []Record, key string) []retryflow.Event {
	var events []retryflow.Event
	for _, r := range records {
		if r.Key == key && r.Flow != nil {
			events = append(events, *r.Flow)
		}
	}
	return events
}

// An Explainer explains a log that is too long for the memory, or grows: it returns
// what [Explain] does, a line at a time. The zero Explainer is ready for the first
// record. It must not be used by two goroutines at once.
type Explainer struct{ entries eventlog.Explainer }

// Line returns the line of r with its end. Its error is left out if it is in the line
// before.
func (x *Explainer) Line(r Record) string { return x.entries.Line(r.entry()) }

// Explain returns readable text, as [retrylog.Explain] does, which says for the
// events of a pipeline what its rules decided.
func Explain(records []Record) string {
	return eventlog.Explain(len(records), func(i int) eventlog.Entry { return records[i].entry() })
}
