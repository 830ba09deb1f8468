package retrylog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/internal/strict"
)

// The struct `values` contains, as text, the value of each known key of a line. If the line is
// JSON, all of these keys are in one object of the line. If a key occurs twice, its last value
// counts. A text may share the memory of the line, so it is valid only until the Reader reads the
// next line.
type values struct {
	texts [][]byte // the value of each key, by key.index; nil if the line lacks the key
	built Record   // the result of the method `record`; a local Record would be allocated per line
}

func newValues() *values {
	return &values{texts: make([][]byte, len(keys))}
}

// The method `object` adds the known keys of a JSON object to v. A group is a key such as
// "kubernetes" whose value is another object. For a group, `object` stores "{}" as the value, and
// adds only those keys of the group that name the source of the line, such as "pod". `outer` is
// false if this call reads the value of a group.
func (v *values) object(object []byte, outer bool) {
	for name, value := range strict.Members(object) {
		k := keys[string(name)]
		if k == nil || !outer && !k.place || string(value) == "null" {
			continue
		}
		text, is := strict.Text(value)
		switch {
		case k.group && bytes.HasPrefix(value, []byte("{")):
			v.set(k, emptyGroup)
			v.object(value, false)
		case is:
			v.set(k, text)
		case !k.group && !k.text && !(k.place && bytes.HasPrefix(value, []byte("{"))):
			v.set(k, value)
		}
	}
}

// emptyGroup is stored as the value of a group, which is a key such as "kubernetes" whose value is
// an object. The keys inside the object are stored on their own.
var emptyGroup = []byte("{}")

// The method `pairs` reads a line of key=value pairs, and adds the known keys to v. It stops at the
// first word that is not a pair, or at a value whose closing quotation mark is missing. It returns
// the rest of the line. The result `endless` reports whether the quotation mark is missing. A line
// of package slog has no rest, because slog quotes every text that contains a space. The method
// takes linear time, because no step copies the rest of the line.
func (v *values) pairs(line []byte) (rest []byte, endless bool) {
	for len(line) > 0 {
		word, _, _ := bytes.Cut(line, []byte(" "))
		name, value, ok := bytes.Cut(word, []byte("="))
		if !ok {
			return line, false
		}
		k, text := keys[string(name)], value
		if bytes.HasPrefix(value, []byte(`"`)) {
			value = strict.Value(line[len(name)+1:])
			word = line[:len(name)+1+len(value)]
			unquoted, err := strconv.Unquote(string(value))
			if err != nil {
				return line, true
			}
			text = []byte(unquoted)
		}
		if string(name) == "level" { // a new event begins here, perhaps after an event that was cut off
			at := v.texts[keys["time"].index]
			if v.clear(); at != nil {
				v.set(keys["time"], at)
			}
		}
		if k != nil {
			v.set(k, text)
		}
		line = bytes.TrimLeft(line[len(word):], " ")
	}
	return nil, false
}

func (v *values) set(k *key, text []byte) { v.texts[k.index] = text }

// The method `get` returns the text of a key, or "" if v lacks the key.
func (v *values) get(name string) string { return string(v.texts[keys[name].index]) }

func (v *values) clear() {
	clear(v.texts)
}

// firstText looks at the values of the keys with these indexes, in order. It returns the first
// value that is neither empty nor "-".
func (v *values) firstText(indexes []int) string {
	for _, i := range indexes {
		if text := v.texts[i]; len(text) > 0 && string(text) != "-" {
			return string(text)
		}
	}
	return ""
}

// requiredKeys returns how many keys of the list `required` have a value in v. It returns 0 if a
// logger wrote the line and the kind is unknown, because another program may use keys with the same
// names.
func (v *values) requiredKeys() (n int) {
	if v.logged() && !isKnown(retry.EventKind(v.get("kind"))) {
		return 0
	}
	for _, i := range required {
		if len(v.texts[i]) > 0 {
			n++
		}
	}
	return n
}

// The method `logged` reports whether a logger wrote the line.
func (v *values) logged() bool { return v.firstText(byLog) != "" }

// wrappedLine returns the line that a program wrote, if Docker, a log collector of Kubernetes or
// journald has stored the line in a JSON object. For any other object it returns "", for example
// for an object that a logger wrote. It also returns "" if the collector has split the line into
// a level and a message, and stored them under keys such as level and msg.
func (v *values) wrappedLine() string {
	switch {
	case v.firstText(loggers) != "", v.get("log") != "" && v.get("message") != "":
		return ""
	case v.get("_TRANSPORT") == "stdout", v.get("_TRANSPORT") == "syslog", v.get("CONTAINER_ID") != "":
		return v.get("MESSAGE")
	case v.get("stream") == "stdout", v.get("stream") == "stderr", v.get("kubernetes") == "{}":
		return cmp.Or(v.get("log"), v.get("message"))
	}
	return ""
}

// record returns the Record that has these values.
func (v *values) record() (Record, *valueFault) {
	r := &v.built
	*r = Record{}
	for i, f := range fields {
		if text := v.texts[i]; text != nil {
			if write := setField(f.pointer(r), text); write != "" {
				return Record{}, &valueFault{f.key, string(text), write}
			}
		}
	}
	e := &r.Event
	e.Number = number(*e) // a log leaves out a Number that equals Attempt
	if e.Kind == retry.RetryScheduled {
		e.Reason = cmp.Or(e.Reason, retry.ReasonRetry) // a log leaves out ReasonRetry
	}
	return *r, nil
}

// A valueFault says which value cannot be read, and what to write instead.
type valueFault struct{ key, text, write string }

func (f *valueFault) Error() string {
	return fmt.Sprintf("%s is %.60q: write %s", f.key, f.text, f.write)
}

// isCut reports whether the line was cut off within this value. The parameter `last` is the last
// key that a complete line has. isCut returns true if the value belongs to this key, and lacks the
// "s" at the end of a duration.
func (f *valueFault) isCut(last string) bool {
	return f.key == last && !strings.HasSuffix(f.text, "s")
}

// setField parses a text and stores the value in a field. If the text is invalid, setField
// returns what to write instead.
func setField(field any, text []byte) (write string) {
	var err error
	switch field := field.(type) {
	case *int:
		write = "a whole number"
		*field, err = strconv.Atoi(string(text))
	case *uint64:
		write = "a whole number"
		*field, err = strconv.ParseUint(string(text), 10, 64)
	case *bool:
		write = "true or false"
		*field, err = strconv.ParseBool(string(text))
	case *time.Time:
		write = `an instant such as "2026-11-20T10:31:00Z"`
		*field, err = time.Parse(time.RFC3339, string(text))
	case *time.Duration:
		write = strict.WriteDuration
		*field, err = time.ParseDuration(string(text))
	case *error:
		*field = errors.New(string(text))
	default: // all other fields are strings
		reflect.ValueOf(field).Elem().SetString(string(text))
	}
	if err == nil {
		return ""
	}
	return write
}
