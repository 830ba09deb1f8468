// Package strict reads a mapping that a person wrote, in JSON or YAML. What
// cannot be meant is an error: an unknown key, a key that is there twice, a
// value of the wrong kind. It names everything that is wrong, on one line, and
// says what to write.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Faults is what is wrong.
type Faults []string

// Add adds a fault: the key, its value, and what to write instead.
func (f *Faults) Add(key string, value any, write string) {
	*f = append(*f, fmt.Sprintf("%s is %v: write %s", key, value, write))
}

// Err returns f as an error, nil if it is empty. The error begins with of.
func (f Faults) Err(of string) error {
	if len(f) == 0 {
		return nil
	}
	return errors.New(of + ": " + strings.Join(f, "; "))
}

// Decode reads a JSON object over v: take takes its keys and sets the fields.
// An error leaves v as it was, and so does a null. Errors begin with of, and
// show the example to whoever wrote no mapping at all.
func Decode[T any](v *T, data []byte, of, example string, take func(*T, *Mapping)) error {
	m := &Mapping{faults: new(Faults)}
	if err := m.read(data); err != nil {
		return fmt.Errorf("%s: %w: write a mapping such as %s", of, err, example)
	}
	if m.values == nil {
		return nil
	}
	next := *v
	take(&next, m)
	if err := m.faults.Err(of); err != nil {
		return err
	}
	*v = next
	return nil
}

// A Mapping is a JSON object whose keys are taken out one by one.
type Mapping struct {
	NullIsFault bool // a key that is null is not as good as left out

	path   string // what its keys are called by in errors: "backoff."
	values map[string]json.RawMessage
	keys   []string // that were asked for
	faults *Faults
}

// Fault adds a fault of a key, see [Faults.Add].
func (m *Mapping) Fault(key string, value any, write string) {
	m.faults.Add(m.path+key, value, write)
}

// read reads a JSON object; null is one without values.
func (m *Mapping) read(data []byte) error {
	if err := json.Unmarshal(data, &m.values); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return fmt.Errorf("it is %s", shown(data))
		}
		return fmt.Errorf("it is not JSON: %w", err)
	}
	counts, err := countKeys(data)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[key]; n > 1 {
			*m.faults = append(*m.faults, fmt.Sprintf("key %q is there %d times: keep one", m.path+key, n))
		}
	}
	return nil
}

// countKeys counts how often each key is there in a JSON object. Where a key
// is there twice, json.Unmarshal keeps the last without a word.
func countKeys(object []byte) (map[string]int, error) {
	counts := make(map[string]int)
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		counts[fmt.Sprint(key)]++
		if err := dec.Decode(new(json.RawMessage)); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// take takes a key out of m, false if there is none.
func (m *Mapping) take(key string) (value json.RawMessage, ok bool) {
	m.keys = append(m.keys, key)
	value, ok = m.values[key]
	delete(m.values, key)
	return value, ok && (m.NullIsFault || !isNull(value))
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

// Take takes a key out of m and returns its value, false if there is none: the
// key is left out, or null, or its value is of the wrong kind or not sound. A
// nil sound takes any.
func Take[T any](m *Mapping, key, write string, sound func(T) bool) (v T, ok bool) {
	value, ok := m.take(key)
	if !ok {
		return v, false
	}
	if isNull(value) {
		write += ", or leave the key out"
	}
	return Parse(m, key, value, write, sound)
}

// Need is [Take] for a key that must be there.
func Need[T any](m *Mapping, key, write string, sound func(T) bool) (v T, ok bool) {
	value, ok := m.take(key)
	if !ok {
		m.Fault(key, "missing", write)
		return v, false
	}
	return Parse(m, key, value, write, sound)
}

// Parse returns the value of a key that is taken already, or of a part of it.
func Parse[T any](m *Mapping, key string, value json.RawMessage, write string, sound func(T) bool) (v T, ok bool) {
	if isNull(value) || json.Unmarshal(value, &v) != nil {
		m.Fault(key, shown(value), write)
		return v, false
	}
	if sound != nil && !sound(v) {
		if _, ok := any(v).(Duration); ok { // which is negative, for nothing else is wrong with one
			write += ", 0s or above"
		}
		m.Fault(key, shown(value), write)
		return v, false
	}
	return v, true
}

// Inner takes out a key whose value is a mapping, nil if there is none. What
// is wrong with it is wrong with m.
func (m *Mapping) Inner(key, write string) *Mapping {
	value, ok := Take[json.RawMessage](m, key, write, nil)
	if !ok {
		return nil
	}
	inner := &Mapping{NullIsFault: m.NullIsFault, path: m.path + key + ".", faults: m.faults}
	if err := inner.read(value); err != nil {
		m.Fault(key, shown(value), write)
		return nil
	}
	return inner
}

// RejectRest is called when all the keys that there can be have been taken.
func (m *Mapping) RejectRest(of string) {
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(m.values)) {
		unknown = append(unknown, strconv.Quote(m.path+key))
	}
	if unknown != nil {
		*m.faults = append(*m.faults, fmt.Sprintf("unknown key %s: the keys of %s are %s",
			strings.Join(unknown, ", "), of, strings.Join(m.keys, ", ")))
	}
}

// shown returns JSON for an error, on one line that is not too long.
func shown(value []byte) string {
	var compact bytes.Buffer
	if err := json.Compact(&compact, value); err != nil {
		return strconv.Quote(string(value))
	}
	var b strings.Builder
	for i, r := range []rune(compact.String()) {
		switch {
		case i == 60:
			return b.String() + "..."
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default: // inside of text, where JSON has control characters above U+007E as they are
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
