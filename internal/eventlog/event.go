package eventlog

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// ReadEvent reads what the MarshalJSON of an event writes. Err and Cause become
// errors of that text. A key that is left out, or null, is a zero field, and null in
// place of an event is the zero event. Unknown keys are skipped. A duplicate key or a
// value of the wrong kind is an error.
func ReadEvent(data []byte) (e retry.Event, err error) {
	if string(data) == "null" {
		return e, nil
	}
	if len(data) == 0 || data[0] != '{' {
		return e, strict.NoObject(invalidEvent, data, `{"kind": "call_finished", ...}`)
	}
	var seen [len(eventFields)]bool
	next := 0 // the field that usually comes next
	for key, value := range strict.Members(data) {
		i := fieldOf(key, next)
		if i < 0 {
			continue
		}
		field := eventFields[i]
		if seen[i] {
			return retry.Event{}, fmt.Errorf("%s: duplicate key %q", invalidEvent, field.key)
		}
		seen[i], next = true, i+1
		if string(value) != "null" && !field.read(&e, value) {
			return retry.Event{}, strict.Fault(invalidEvent, field.key, value, field.write)
		}
	}
	return e, nil
}

const invalidEvent = "retry: invalid event"

// An eventField is a field of an Event as it is read.
type eventField struct {
	key   string
	write string                                       // what to write instead of a wrong value
	read  func(e *retry.Event, value []byte) (ok bool) // value is not null
}

var eventFields = [...]eventField{
	{"kind", `a text such as "call_finished"`, func(e *retry.Event, value []byte) bool { return readText(&e.Kind, value) }},
	{"time", writeTime, func(e *retry.Event, value []byte) bool { return readTime(&e.Time, value) }},
	{"attempt", "a whole number, 1 for the first attempt", func(e *retry.Event, value []byte) bool { return readInt(&e.Attempt, value) }},
	{"max", "a whole number, -1 for unlimited", func(e *retry.Event, value []byte) bool { return readInt(&e.Max, value) }},
	{"resets", "a whole number", func(e *retry.Event, value []byte) bool { return readInt(&e.Resets, value) }},
	{"err", "the text of an error", func(e *retry.Event, value []byte) bool { return readError(&e.Err, value) }},
	{"cause", "the text of an error", func(e *retry.Event, value []byte) bool { return readError(&e.Cause, value) }},
	{"took", strict.WriteDuration, func(e *retry.Event, value []byte) bool { return readDurationText(&e.Took, value) }},
	{"elapsed", strict.WriteDuration, func(e *retry.Event, value []byte) bool { return readDurationText(&e.Elapsed, value) }},
	{"delay", strict.WriteDuration, func(e *retry.Event, value []byte) bool { return readDurationText(&e.Delay, value) }},
	{"due", writeTime, func(e *retry.Event, value []byte) bool { return readTime(&e.Due, value) }},
	{"lo", strict.WriteDuration, func(e *retry.Event, value []byte) bool { return readDurationText(&e.Lo, value) }},
	{"hi", strict.WriteDuration, func(e *retry.Event, value []byte) bool { return readDurationText(&e.Hi, value) }},
	{"retry_after", strict.WriteDuration, func(e *retry.Event, value []byte) bool { return readDurationText(&e.RetryAfter, value) }},
	{"seed", `a whole number as text, such as "42"`, func(e *retry.Event, value []byte) bool { return readSeed(&e.Seed, value) }},
	{"class", "the name of a class", func(e *retry.Event, value []byte) bool { return readText(&e.Class, value) }},
	{"reason", `a text such as "attempts_exhausted"`, func(e *retry.Event, value []byte) bool { return readText(&e.Reason, value) }},
}

const writeTime = `an instant such as "2026-11-20T10:31:00Z"`

// fieldOf returns the index of the field that has a key, -1 if there is none.
// It looks at those from next on first.
func fieldOf(key []byte, next int) int {
	for i := next; i < len(eventFields); i++ {
		if eventFields[i].key == string(key) {
			return i
		}
	}
	for i := range next {
		if eventFields[i].key == string(key) {
			return i
		}
	}
	return -1
}

func readText[T ~string](v *T, value []byte) bool {
	text, ok := strict.Text(value)
	*v = T(text)
	return ok
}

// Time.UnmarshalJSON takes escapes in its text since Go 1.27 alone.
func readTime(t *time.Time, value []byte) bool {
	text, ok := strict.Text(value)
	return ok && t.UnmarshalText([]byte(text)) == nil
}

func readInt(n *int, value []byte) (ok bool) {
	v, err := strconv.Atoi(string(value))
	*n = v
	return err == nil
}

func readError(err *error, value []byte) bool {
	text, ok := strict.Text(value)
	*err = errors.New(text)
	return ok
}

func readDurationText(d *time.Duration, value []byte) bool {
	text, ok := strict.Text(value)
	v, err := time.ParseDuration(text)
	*d = v
	return ok && err == nil
}

func readSeed(seed *uint64, value []byte) bool {
	text, ok := strict.Text(value)
	v, err := strconv.ParseUint(text, 10, 64)
	*seed = v
	return ok && err == nil
}
