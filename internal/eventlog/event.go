package eventlog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// MarshalJSON writes the event as package retry does, or package retryflow if it is from a
// pipeline. If there is a key, it is the first field. Hedged is the last one, if it is true.
func (r Record) MarshalJSON() ([]byte, error) {
	var event json.Marshaler = r.Event
	if r.Flow != nil {
		event = r.Flow
	}
	data, err := json.Marshal(event)
	if err == nil && r.Hedged {
		data = append(data[:len(data)-1], `,"hedged":true}`...)
	}
	if err != nil || r.Key == "" {
		return data, err
	}
	key, err := json.Marshal(r.Key)
	return slices.Concat([]byte(`{"key":`), key, []byte(","), data[1:]), err
}

// UnmarshalJSON reads what MarshalJSON writes, with the errors as texts. It skips the keys of a
// pipeline, and others that it does not know. A key that is null is treated as missing.
func (r *Record) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	read, err := readFields(data, fields)
	if err == nil {
		*r = read
	}
	return err
}

// ReadRecord reads what MarshalJSON writes.
func ReadRecord(data []byte) (r Record, err error) {
	err = r.UnmarshalJSON(data)
	return r, err
}

// ReadEvent reads what the MarshalJSON of an event writes. Err and Cause become
// errors of that text. A key that is left out, or null, is a zero field, and null in
// place of an event is the zero event. Unknown keys are skipped. A duplicate key or a
// value of the wrong kind is an error.
func ReadEvent(data []byte) (e retry.Event, err error) {
	if string(data) == "null" {
		return e, nil
	}
	r, err := readFields(data, fields[2:])
	return r.Event, err
}

// readFields reads these fields of a record.
func readFields(data []byte, fields []field) (r Record, err error) {
	const record, event = "retrylog: invalid record", "retry: invalid event"
	if len(data) == 0 || data[0] != '{' {
		return r, strict.NoObject(event, data, `{"kind": "call_finished", ...}`)
	}
	var seen uint // bits of fields
	for key, value := range strict.Members(data) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == string(key) })
		if i < 0 {
			continue
		}
		f, of := fields[i], event
		if f.key == "key" || f.key == "hedged" {
			of = record
		}
		if seen&(1<<i) != 0 {
			return Record{}, fmt.Errorf("%s: duplicate key %q", of, f.key)
		}
		seen |= 1 << i
		if string(value) != "null" && !read(f.of(&r), value) {
			return Record{}, strict.Fault(of, f.key, value, f.write)
		}
	}
	e := &r.Event
	e.Total = cmp.Or(e.Total, e.Attempt) // it is left out where it is the same
	if e.Kind == retry.RetryScheduled {  // and so is what the kind says
		e.Reason, e.Reset = cmp.Or(e.Reason, retry.ReasonRetry), e.Resets > 0 && e.Attempt == 1
	}
	return r, nil
}

// A field is a field of a record as it is read.
type field struct {
	key   string
	write string            // what to write instead of a wrong value
	of    func(*Record) any // a pointer to it
}

const writeTime = `an instant such as "2026-11-20T10:31:00Z"`

var fields = []field{
	{"key", "a text", func(r *Record) any { return &r.Key }},
	{"hedged", "true or false", func(r *Record) any { return &r.Hedged }},
	{"kind", `a text such as "call_finished"`, func(r *Record) any { return &r.Event.Kind }},
	{"time", writeTime, func(r *Record) any { return &r.Event.Time }},
	{"attempt", "a whole number, 1 for the first attempt", func(r *Record) any { return &r.Event.Attempt }},
	{"total", "a whole number", func(r *Record) any { return &r.Event.Total }},
	{"max", "a whole number, -1 for unlimited", func(r *Record) any { return &r.Event.Max }},
	{"resets", "a whole number", func(r *Record) any { return &r.Event.Resets }},
	{"err", "the text of an error", func(r *Record) any { return &r.Event.Err }},
	{"cause", "the text of an error", func(r *Record) any { return &r.Event.Cause }},
	{"took", strict.WriteDuration, func(r *Record) any { return &r.Event.Took }},
	{"elapsed", strict.WriteDuration, func(r *Record) any { return &r.Event.Elapsed }},
	{"delay", strict.WriteDuration, func(r *Record) any { return &r.Event.Delay }},
	{"due", writeTime, func(r *Record) any { return &r.Event.Due }},
	{"lo", strict.WriteDuration, func(r *Record) any { return &r.Event.Lo }},
	{"hi", strict.WriteDuration, func(r *Record) any { return &r.Event.Hi }},
	{"retry_after", strict.WriteDuration, func(r *Record) any { return &r.Event.RetryAfter }},
	{"seed", `a whole number as text, such as "42"`, func(r *Record) any { return &r.Event.Seed }},
	{"class", "the name of a class", func(r *Record) any { return &r.Event.Class }},
	{"reason", `a text such as "attempts_exhausted"`, func(r *Record) any { return &r.Event.Reason }},
}

// read reads a JSON value, which is not null, into a field.
func read(field any, value []byte) bool {
	text, ok := strict.Text(value)
	var err error
	switch field := field.(type) {
	case *int:
		*field, err = strconv.Atoi(string(value))
		return err == nil
	case *bool: // a text in a line of text
		text = strings.Trim(string(value), `"`)
		*field = text == "true"
		return *field || text == "false"
	case *string:
		*field = text
	case *retry.EventKind:
		*field = retry.EventKind(text)
	case *retry.Reason:
		*field = retry.Reason(text)
	case *error:
		*field = errors.New(text)
	case *time.Time:
		err = field.UnmarshalText([]byte(text)) // UnmarshalJSON takes escapes since Go 1.27 alone
	case *time.Duration:
		*field, err = time.ParseDuration(text)
	case *uint64:
		*field, err = strconv.ParseUint(text, 10, 64)
	}
	return ok && err == nil
}
