package eventlog

import (
	"encoding/json"
	"log/slog"
	"reflect"
	"strconv"
	"time"
)

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
