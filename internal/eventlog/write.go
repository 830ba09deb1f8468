package eventlog

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strconv"
	"sync"
	"time"
)

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
func (w *Writer) Write(record Record) {
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

// Attrs returns the fields of r for package slog: those that are not zero, and those that an event
// of its kind always has.
func Attrs(r Record) []slog.Attr {
	r = r.bare()
	attrs, must := make([]slog.Attr, 0, 16), bits[r.Event.Kind]|always
	for _, f := range fields {
		if f.key != "time" && (f.kinds&must == must || f.has(&r)) { // slog has the time
			attrs = append(attrs, slog.Attr{Key: f.key, Value: attrOf(f.of(&r))})
		}
	}
	return attrs
}

// attrOf returns the value of a field. A duration is a text, as in the JSON of an event: a number
// of milliseconds would lose digits that the delay follows from.
func attrOf(field any) slog.Value {
	switch field := field.(type) {
	case *int:
		return slog.IntValue(*field)
	case *bool:
		return slog.BoolValue(*field)
	case *time.Time:
		return slog.TimeValue(*field)
	case *error:
		return slog.AnyValue(asText(*field))
	case *uint64:
		return slog.StringValue(strconv.FormatUint(*field, 10))
	case *time.Duration:
		return slog.StringValue(field.String())
	default: // of texts
		return slog.StringValue(Printable(reflect.ValueOf(field).Elem().String()))
	}
}

// asText returns err, or an error around it if a handler would not log its text, or
// if that is not printable.
func asText(err error) error {
	text := textOf(err)
	safe := Printable(text)
	_, marshals := err.(json.Marshaler)
	_, values := err.(slog.LogValuer)
	if safe != text || marshals || values {
		return &textError{safe, err}
	}
	return err
}

type textError struct {
	text string
	err  error
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.err }
