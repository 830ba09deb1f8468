package eventlog

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
)

// A Recorder keeps records in memory. It is safe for concurrent use.
type Recorder[R any] struct {
	mu      sync.Mutex // guards records
	records []R
}

// Add keeps a record.
func (r *Recorder[R]) Add(record R) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
}

// Records returns a copy of the records so far.
func (r *Recorder[R]) Records() []R {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records)
}

// A Writer writes records as lines of JSON, each by one call of Write. It is safe
// for concurrent use.
type Writer struct {
	mu  sync.Mutex // guards the fields below
	w   io.Writer
	err error
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes a record. It writes nothing after an error.
func (w *Writer) Write(record json.Marshaler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	line, err := json.Marshal(record)
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

// Marshal returns an event as JSON, with the key as its first field if there is
// one.
func Marshal(key string, event json.Marshaler) ([]byte, error) {
	data, err := json.Marshal(event)
	if err != nil || key == "" {
		return data, err
	}
	text, err := json.Marshal(key)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"key":`), text, []byte(","), data[1:]), nil
}
