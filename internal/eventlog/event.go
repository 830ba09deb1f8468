package eventlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// A field is a field of a record, by the key that it has in a log.
type field struct {
	key   string
	of    func(*Record) any // a pointer to it
	kinds int               // the events that may have it
}

// The kinds of events, as bits. Always is that slog writes a field of them even if it is zero.
const (
	started = 1 << iota
	finished
	scheduled
	ended
	always

	each = started | finished | scheduled | ended
)

var bits = map[retry.EventKind]int{
	retry.AttemptStarted: started, retry.AttemptFinished: finished,
	retry.RetryScheduled: scheduled, retry.CallFinished: ended,
}

// known reports whether events of this kind can be judged. Others are of a newer version.
func known(kind retry.EventKind) bool { return bits[kind] != 0 }

// fields are all fields, in the order in which slog writes them.
var fields = []field{
	{"key", func(r *Record) any { return &r.Key }, each},
	{"kind", func(r *Record) any { return &r.Event.Kind }, each | always},
	{"time", func(r *Record) any { return &r.Event.Time }, each},
	{"attempt", func(r *Record) any { return &r.Event.Attempt }, each | always},
	{"total", func(r *Record) any { return &r.Event.Total }, each},
	{"max", func(r *Record) any { return &r.Event.Max }, each | always},
	{"resets", func(r *Record) any { return &r.Event.Resets }, each},
	{"elapsed", func(r *Record) any { return &r.Event.Elapsed }, each | always},
	{"took", func(r *Record) any { return &r.Event.Took }, finished | always},
	{"hedged", func(r *Record) any { return &r.Hedged }, finished},
	{"delay", func(r *Record) any { return &r.Event.Delay }, scheduled | always},
	{"due", func(r *Record) any { return &r.Event.Due }, scheduled | always},
	{"lo", func(r *Record) any { return &r.Event.Lo }, scheduled},
	{"hi", func(r *Record) any { return &r.Event.Hi }, scheduled},
	{"retry_after", func(r *Record) any { return &r.Event.RetryAfter }, scheduled},
	{"seed", func(r *Record) any { return &r.Event.Seed }, scheduled},
	{"class", func(r *Record) any { return &r.Event.Class }, scheduled | ended},
	{"reason", func(r *Record) any { return &r.Event.Reason }, ended},
	{"err", func(r *Record) any { return &r.Event.Err }, finished | scheduled | ended},
	{"cause", func(r *Record) any { return &r.Event.Cause }, ended},
}

// bare returns r without what its other fields say.
func (r Record) bare() Record {
	e := &r.Event
	if e.Total <= e.Attempt {
		e.Total = 0
	}
	if e.Kind == retry.RetryScheduled && e.Retry() {
		e.Reason = ""
	}
	return r
}

// has reports whether a field of r is not zero.
func (f field) has(r *Record) bool { return !reflect.ValueOf(f.of(r)).Elem().IsZero() }

// MarshalJSON writes the event as package retry does. If there is a key, it is the first field.
// Hedged is the last one, if it is true.
func (r Record) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(r.Event)
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
	read, err := readRecord(data)
	if err != nil {
		return fmt.Errorf("retrylog: invalid record: %w", err)
	}
	*r = read
	return nil
}

// ReadEvent reads what the MarshalJSON of an event writes. Err and Cause become errors of that
// text. A key that is left out, or null, is a zero field, and null in place of an event is the
// zero event. Unknown keys are skipped. Of a key that is there twice the last value is read.
func ReadEvent(data []byte) (e retry.Event, err error) {
	if string(data) == "null" {
		return e, nil
	}
	r, err := readRecord(data)
	if err != nil {
		err = fmt.Errorf("retry: invalid event: %w", err)
	}
	return r.Event, err
}

func readRecord(data []byte) (r Record, err error) {
	if !bytes.HasPrefix(data, []byte("{")) {
		return r, fmt.Errorf("got %.60s: write a mapping such as {\"kind\": \"call_finished\", ...}", data)
	}
	v := values{}
	v.object(data, true)
	return v.record()
}

// record returns the record that has these values.
func (v values) record() (r Record, err error) {
	for _, f := range fields {
		if text, ok := v[f.key]; ok {
			if write := read(f.of(&r), text); write != "" {
				return Record{}, fmt.Errorf("%s is %.60q: write %s", f.key, text, write)
			}
		}
	}
	e := &r.Event
	e.Total = cmp.Or(e.Total, e.Attempt) // it is left out where it is the same
	if e.Kind == retry.RetryScheduled {  // and so is what the kind says
		e.Reason, e.Reset = cmp.Or(e.Reason, retry.ReasonRetry), e.Resets > 0 && e.Attempt == 1
	}
	return r, nil
}

// read reads a text into a field. If it cannot, it returns what to write instead.
func read(field any, text string) (write string) {
	var err error
	switch field := field.(type) {
	case *int:
		write = "a whole number"
		*field, err = strconv.Atoi(text)
	case *uint64:
		write = "a whole number"
		*field, err = strconv.ParseUint(text, 10, 64)
	case *bool:
		write = "true or false"
		*field, err = strconv.ParseBool(text)
	case *time.Time:
		write = `an instant such as "2026-11-20T10:31:00Z"`
		*field, err = time.Parse(time.RFC3339, text)
	case *time.Duration:
		write = strict.WriteDuration
		*field, err = time.ParseDuration(text)
	case *error:
		*field = errors.New(text)
	case *string:
		*field = text
	case *retry.EventKind:
		*field = retry.EventKind(text)
	case *retry.Reason:
		*field = retry.Reason(text)
	}
	if err == nil {
		return ""
	}
	return write
}
