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
)

type keyInContext struct{}

// WithKey returns a context whose calls are known by key in a log. Two calls
// that run at once must not have the same one; nor must a call within another,
// which inherits the key of its context.
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
	Line  int // of the log that it was read from, the first being 1; 0: of none
}

// MarshalJSON writes the event as package retry does, with the key as its
// first field if there is one.
func (r Record) MarshalJSON() ([]byte, error) {
	event, err := json.Marshal(r.Event)
	if err != nil || r.Key == "" {
		return event, err
	}
	key, err := json.Marshal(r.Key)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"key":`), key, []byte(","), event[1:]), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Record) UnmarshalJSON(data []byte) error {
	var key struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(data, &key); err != nil {
		return err
	}
	var event retry.Event
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	*r = Record{Key: key.Key, Event: event}
	return nil
}

// A Recorder keeps events in memory. The zero Recorder is empty and ready; it
// may be used by any number of calls at once and must not be copied.
type Recorder struct {
	mu      sync.Mutex // guards records
	records []Record
}

// OnEvent is to be the OnEvent of a policy.
func (r *Recorder) OnEvent(ctx context.Context, e retry.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, Record{Key: Key(ctx), Event: e})
}

// Records returns the events so far, in the order in which they came.
func (r *Recorder) Records() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records)
}

// A Writer writes events as lines of JSON, each by one call of Write. It may
// be used by any number of calls at once.
type Writer struct {
	mu  sync.Mutex // guards the fields below
	w   io.Writer
	err error
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// OnEvent is to be the OnEvent of a policy. It writes nothing after an error:
// a log with a hole cannot be replayed, one that is cut off can.
func (w *Writer) OnEvent(ctx context.Context, e retry.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	line, err := json.Marshal(Record{Key: Key(ctx), Event: e})
	if err == nil {
		_, err = w.w.Write(append(line, '\n'))
	}
	if err != nil {
		w.err = fmt.Errorf("retrylog: %w", err)
	}
}

// Err returns the error that ended the log, if one did.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// ErrCutOff says that a line of a log is not whole, as after a crash.
var ErrCutOff = errors.New("retrylog: the log is cut off")

// beginning is how a record begins. It is nowhere else in one: in a text the
// quotation marks would be escaped.
var beginning = regexp.MustCompile(`\{"(key|kind)":`)

// Read reads a log, and skips empty lines. If a crash has cut off a line, so
// that its JSON is incomplete or zero bytes are in it, it returns the
// records of all that is whole, what was written behind the cut included, and
// an error that is [ErrCutOff] and names the first such line. A line that is
// wrong otherwise ends the log with an error that names it.
func Read(r io.Reader) ([]Record, error) {
	var records []Record
	var cutOff error
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, end := in.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return records, fmt.Errorf("retrylog: line %d: %w", number, end)
		}
		torn := bytes.IndexByte(line, 0) >= 0
		// Where the end of a line is lost, the next process has gone on in it.
		for text := range bytes.SplitSeq(beginning.ReplaceAll(line, []byte("\n$0")), []byte("\n")) {
			text, _, _ = bytes.Cut(text, []byte{0})
			read, err := decode(text)
			for _, record := range read {
				record.Line = number
				records = append(records, record)
			}
			if err == io.ErrUnexpectedEOF {
				torn = true
			} else if err != nil {
				return records, fmt.Errorf("retrylog: line %d: %w", number, err)
			}
		}
		if torn && cutOff == nil {
			cutOff = fmt.Errorf("%w within line %d", ErrCutOff, number)
		}
		if end == io.EOF {
			return records, cutOff
		}
	}
}

// decode returns the records in text. The error is io.ErrUnexpectedEOF if the
// last one is incomplete.
func decode(text []byte) ([]Record, error) {
	var records []Record
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var r Record
		switch err := in.Decode(&r); {
		case err == io.EOF:
			return records, nil
		case err != nil:
			return records, err
		case r.Event.Kind == 0:
			return records, fmt.Errorf("the event has no kind: write one, such as %q", retry.AttemptStarted)
		}
		records = append(records, r)
	}
}
