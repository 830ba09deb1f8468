package retrylog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Read reads a log, and skips empty lines. If a crash has cut off a line, it
// returns the records of all other lines, what was written behind the cut
// included, and an error that is [ErrCutOff] and names the line. A line that is
// wrong otherwise ends the log with an error that names it.
func Read(r io.Reader) ([]Record, error) {
	var records []Record
	var cutOff error
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return records, fmt.Errorf("retrylog: line %d: %w", number, err)
		}
		last := err == io.EOF
		text, torn := afterTear(bytes.TrimSpace(line))
		if torn && cutOff == nil {
			cutOff = fmt.Errorf("%w within line %d", ErrCutOff, number)
		}
		if len(text) > 0 {
			var record Record
			if err := json.Unmarshal(text, &record); err != nil {
				return records, fmt.Errorf("retrylog: line %d: %w", number, err)
			}
			record.Line = number
			records = append(records, record)
		}
		if last {
			return records, cutOff
		}
	}
}

// afterTear returns a line without what a crash has left of an event at its
// beginning, where the next process has gone on writing.
func afterTear(line []byte) (rest []byte, torn bool) {
	if json.Valid(line) || !bytes.HasPrefix(line, []byte("{")) {
		return line, false
	}
	for i := 1; i < len(line); i++ {
		if line[i] == '{' && json.Valid(line[i:]) {
			return line[i:], true
		}
	}
	return nil, true
}
