package retrylog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
	"github.com/goretry/retry/retryflow"
)

type keyInContext struct{}

// WithKey returns a context whose calls have key in a log. Calls that run at the
// same time need different keys, and a call within another one needs a key of its
// own, because otherwise it gets that of the outer call.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyInContext{}, key)
}

// Key returns the key of ctx, "" if it has none.
func Key(ctx context.Context) string {
	key, _ := ctx.Value(keyInContext{}).(string)
	return key
}

// A Record is an event and the key of its call.
type Record struct {
	Key   string
	Event retry.Event
	Flow  *retryflow.Event // the same event as a pipeline reported it; nil: it is not from a pipeline
	Line  int              // the line of the log it was read from, 1 for the first; 0: it was not read
}

// MarshalJSON writes the event as package retry does, or as package retryflow does
// if it is from a pipeline. If there is a key, it is the first field.
func (r Record) MarshalJSON() ([]byte, error) {
	event, err := json.Marshal(r.form())
	if err != nil || r.Key == "" {
		return event, err
	}
	key, err := json.Marshal(r.Key)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"key":`), key, []byte(","), event[1:]), nil
}

func (r Record) form() json.Marshaler {
	if r.Flow != nil {
		return r.Flow
	}
	return r.Event
}

// UnmarshalJSON reads what MarshalJSON writes, as [retry.Event] does, or
// [retryflow.Event] if there are a task and a rule. A key that is null counts as
// missing.
func (r *Record) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	read, found, ofPipeline := Record{}, false, 0
	for name, value := range strict.Members(data) {
		switch string(name) {
		case "task", "rule":
			ofPipeline++
			continue
		case "key":
		default:
			continue
		}
		if found {
			return errors.New(invalidRecord + `: duplicate key "key"`)
		}
		found = true
		text, ok := strict.Text(value)
		if !ok && string(value) != "null" {
			return strict.Fault(invalidRecord, "key", value, "a text")
		}
		read.Key = text
	}
	if ofPipeline == 2 {
		read.Flow = new(retryflow.Event)
		if err := read.Flow.UnmarshalJSON(data); err != nil {
			return err
		}
		read.Event = read.Flow.Event
	} else if err := read.Event.UnmarshalJSON(data); err != nil {
		return err
	}
	*r = read
	return nil
}

const invalidRecord = "retrylog: invalid record"

// A Recorder keeps events in memory. The zero Recorder is empty and ready to use.
// It is safe for concurrent use and must not be copied.
type Recorder struct {
	mu      sync.Mutex // guards records
	records []Record
}

// OnEvent keeps e. Use it as the OnEvent of policies.
func (r *Recorder) OnEvent(ctx context.Context, e retry.Event) {
	r.add(Record{Key: Key(ctx), Event: e})
}

// OnPipelineEvent keeps e. Use it as the OnEvent of pipelines.
func (r *Recorder) OnPipelineEvent(ctx context.Context, e retryflow.Event) {
	r.add(Record{Key: Key(ctx), Event: e.Event, Flow: &e})
}

func (r *Recorder) add(record Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
}

// Records returns the events so far, in their order.
func (r *Recorder) Records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records)
}

// A Writer writes events as lines of JSON, each by one call of Write. It is safe
// for concurrent use.
type Writer struct {
	mu  sync.Mutex // guards the fields below
	w   io.Writer
	err error
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// OnEvent writes e. Use it as the OnEvent of policies. It writes nothing after
// an error: a log with a hole cannot be replayed, but one that is cut off can.
func (w *Writer) OnEvent(ctx context.Context, e retry.Event) {
	w.write(Record{Key: Key(ctx), Event: e})
}

// OnPipelineEvent writes e as OnEvent does. Use it as the OnEvent of pipelines.
func (w *Writer) OnPipelineEvent(ctx context.Context, e retryflow.Event) {
	w.write(Record{Key: Key(ctx), Event: e.Event, Flow: &e})
}

func (w *Writer) write(r Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = w.w.Write(append(line, '\n'))
	}
	if err != nil {
		w.err = fmt.Errorf("retrylog: %w", err)
	}
}

// Err returns the error that ended the log, nil if none did.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// ErrCutOff means that a line of a log is incomplete, as after a crash.
var ErrCutOff = errors.New("retrylog: the log is cut off")

// Read reads a log, and skips empty lines. If a crash has cut off a line, so
// that its JSON is incomplete or has zero bytes in it, Read returns all records
// that are whole, including those written after the cut, and an error that is
// [ErrCutOff] and names the first such line. A line with any other fault ends
// the log with an error that names it.
func Read(r io.Reader) ([]Record, error) {
	var records []Record
	var cutOff error
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, end := in.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return records, fmt.Errorf("retrylog: line %d: %w", number, end)
		}
		before := len(records)
		var err error
		records, err = appendLine(records, bytes.Trim(line, " \t\r\n"))
		for i := before; i < len(records); i++ {
			records[i].Line = number
		}
		switch {
		case err == io.ErrUnexpectedEOF && cutOff == nil:
			cutOff = fmt.Errorf("%w within line %d", ErrCutOff, number)
		case err != nil && err != io.ErrUnexpectedEOF:
			return records, fmt.Errorf("retrylog: line %d: %w", number, err)
		}
		if end == io.EOF {
			return records, cutOff
		}
	}
}

// appendLine appends the records of a line, which is one, except after a crash.
// The error is io.ErrUnexpectedEOF if the line is cut off somewhere.
func appendLine(records []Record, line []byte) ([]Record, error) {
	if json.Valid(line) {
		return appendRecord(records, line)
	}
	torn := bytes.IndexByte(line, 0) >= 0
	// If the end of a line was lost, the next process continued on the same line.
	for part := range bytes.SplitSeq(beginning.ReplaceAll(line, []byte("\n$0")), []byte("\n")) {
		part, _, _ = bytes.Cut(part, []byte{0})
		var err error
		records, err = appendObjects(records, part)
		if err == io.ErrUnexpectedEOF {
			torn = true
		} else if err != nil {
			return records, err
		}
	}
	if torn {
		return records, io.ErrUnexpectedEOF
	}
	return records, nil
}

// beginning is how a record begins. It cannot be anywhere else in a record: in a
// text the quotation marks would be escaped.
var beginning = regexp.MustCompile(`\{"(key|kind)":`)

// appendObjects appends the records in text. The error is io.ErrUnexpectedEOF
// if the last one is incomplete.
func appendObjects(records []Record, text []byte) ([]Record, error) {
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var object json.RawMessage
		err := in.Decode(&object)
		if err == io.EOF {
			return records, nil
		}
		if err == nil {
			records, err = appendRecord(records, object)
		}
		if err != nil {
			return records, err
		}
	}
}

// appendRecord appends the record that a JSON value is.
func appendRecord(records []Record, value []byte) ([]Record, error) {
	records = append(records, Record{})
	r := &records[len(records)-1]
	err := r.UnmarshalJSON(value)
	if err == nil && r.Event.Kind == 0 {
		err = fmt.Errorf("the event has no kind: write one, such as %q", retry.AttemptStarted)
	}
	if err != nil {
		return records[:len(records)-1], err
	}
	return records, nil
}
