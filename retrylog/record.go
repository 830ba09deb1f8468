package retrylog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/ctxvalue"
	"github.com/goretry/retry/internal/strict"
)

// A Record is an event with the key of its call and its place in a log. The JSON of a Record
// contains only the Key, the Event and Hedged.
type Record struct {
	Key   string // the key of the call, see WithKey; "" if the call has no key
	Event retry.Event

	// Hedged is true in an AttemptFinished event if the answer came from the second request of a
	// hedge. See WithHedged.
	Hedged bool

	Line   int    // the number of the line, from 1; 0 if the Record was not read from a log
	Source string // the pod, service or process that the line names; "" if it names none
	Task   string // the task in a pipeline of retryflow; "" if the event is not from a pipeline

	// Logged is true if a logger wrote the line, see Slog. A logger whose level is above Debug does
	// not write the events about attempts, so Replay derives the attempts from the other events.
	Logged bool
}

func recordOf(ctx context.Context, e retry.Event) Record {
	hedged := e.Kind == retry.AttemptFinished && ctxvalue.Hedged(ctx)
	return Record{Key: Key(ctx), Event: e, Hedged: hedged}
}

// A field describes a field of a Record and its key in a log.
type field struct {
	key     string
	pointer func(*Record) any // returns a pointer to the field of a Record
	kinds   []retry.EventKind // the kinds of events that may have the field
	always  bool              // Slog writes the field even if it is zero
}

var (
	each = []retry.EventKind{
		retry.AttemptStarted, retry.AttemptFinished, retry.RetryScheduled, retry.CallFinished,
	}
	finished  = each[1:2]
	scheduled = each[2:3]
	ended     = each[3:]
)

// isKnown reports whether this version knows the kind of a Record. A Record of any other kind was
// written by a newer version.
func isKnown(kind retry.EventKind) bool { return slices.Contains(each, kind) }

// The variable `fields` lists the fields of a Record in the order in which Slog writes them.
var fields = []field{
	{"key", func(r *Record) any { return &r.Key }, each, false},
	{"kind", func(r *Record) any { return &r.Event.Kind }, each, true},
	{"time", func(r *Record) any { return &r.Event.Time }, each, false},
	{"attempt", func(r *Record) any { return &r.Event.Attempt }, each, true},
	{"max", func(r *Record) any { return &r.Event.Max }, each, true},
	{"number", func(r *Record) any { return &r.Event.Number }, each, false},
	{"reset", func(r *Record) any { return &r.Event.Reset }, each[2:], false},
	{"elapsed", func(r *Record) any { return &r.Event.Elapsed }, each, true},
	{"took", func(r *Record) any { return &r.Event.Took }, finished, true},
	{"hedged", func(r *Record) any { return &r.Hedged }, finished, false},
	{"delay", func(r *Record) any { return &r.Event.Delay }, scheduled, true},
	{"due", func(r *Record) any { return &r.Event.Due }, scheduled, true},
	{"lo", func(r *Record) any { return &r.Event.Lo }, scheduled, false},
	{"hi", func(r *Record) any { return &r.Event.Hi }, scheduled, false},
	{"retry_after", func(r *Record) any { return &r.Event.RetryAfter }, scheduled, false},
	{"seed", func(r *Record) any { return &r.Event.Seed }, scheduled, false},
	{"class", func(r *Record) any { return &r.Event.Class }, each[2:], false},
	{"reason", func(r *Record) any { return &r.Event.Reason }, ended, false},
	{"err", func(r *Record) any { return &r.Event.Err }, each[1:], false},
	{"cause", func(r *Record) any { return &r.Event.Cause }, ended, false},
}

// The method `bare` returns a copy of r without the values that a log leaves out. It removes the
// Number if the Number equals the Attempt. It removes the Reason if r is a RetryScheduled event
// with ReasonRetry.
func (r Record) bare() Record {
	e := &r.Event
	if e.Number == e.Attempt {
		e.Number = 0
	}
	if e.Kind == retry.RetryScheduled && e.Retry() {
		e.Reason = ""
	}
	return r
}

// The function `number` returns the Number of e. If the Number is 0, as in an event made by hand,
// it returns the Attempt.
func number(e retry.Event) int { return cmp.Or(e.Number, e.Attempt) }

// isZero reports whether a field of r is zero.
func (f field) isZero(r *Record) bool { return reflect.ValueOf(f.pointer(r)).Elem().IsZero() }

// String returns the line that [Explain] writes for r. The line ends with the error of r, if r has
// an error.
func (r Record) String() string { return string(r.appendLine(nil, true)) }

// MarshalJSON returns the JSON of [retry.Event.MarshalJSON] with up to two more fields. If r has
// a Key, "key" is the first field. If Hedged is true, "hedged" is the last field.
func (r Record) MarshalJSON() ([]byte, error) {
	data, err := r.Event.MarshalJSON() // json.Marshal would check the result once more
	if err == nil && r.Hedged {
		data = append(data[:len(data)-1], `,"hedged":true}`...)
	}
	if err != nil || r.Key == "" {
		return data, err
	}
	key, err := json.Marshal(r.Key)
	return slices.Concat([]byte(`{"key":`), key, []byte(","), data[1:]), err
}

// UnmarshalJSON reads the JSON that MarshalJSON returns. Err and Cause become new errors with the
// text in the JSON. If a key is missing or null, its field is zero. If a key occurs twice, the
// last value is used. Unknown keys are skipped, for example the keys of a pipeline.
func (r *Record) UnmarshalJSON(data []byte) (err error) {
	if !bytes.HasPrefix(data, []byte("{")) && string(data) != "null" {
		return strict.NoObject("retrylog: event", data, `{"kind": "call_finished", ...}`)
	}
	v := newValues()
	v.object(data, true)
	next, fault := v.record()
	if *r = next; fault != nil {
		return fault
	}
	return nil
}
