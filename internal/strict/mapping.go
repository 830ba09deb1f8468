// Package strict decodes a mapping that a person wrote in JSON or YAML. Unknown keys,
// duplicate keys and values of the wrong kind are errors. The text of the error is a single
// line. It names up to 20 faults, and says what to write instead.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Decode decodes a JSON object into v. It calls readKeys, which takes the keys out of the Mapping
// and sets the fields of v. If there is an error, or if the JSON is null, v is unchanged. The text
// of an error starts with `prefix`. If the value is not a mapping, the error shows `example`.
func Decode[T any](v *T, data []byte, prefix, example string, readKeys func(*T, *Mapping)) error {
	m := &Mapping{faults: new(Faults)}
	if err := m.read(data); err != nil {
		return One(prefix, "", fmt.Sprintf("%v, want a mapping such as %s", err, example), err)
	}
	if m.values == nil {
		return nil
	}
	next := *v
	readKeys(&next, m)
	if err := m.faults.Err(prefix); err != nil {
		return err
	}
	*v = next
	return nil
}

// A Mapping is a JSON object whose keys are taken out one by one.
type Mapping struct {
	NullIsFault bool // true: a null is a fault; false: a key with the value null counts as missing

	path   string // the prefix of the keys in errors: "backoff."
	values map[string]json.RawMessage
	keys   []string // the known keys that were taken so far, even if the object lacks them
	faults *Faults
}

// Fault adds a fault for a key of m. See [Faults.Add].
func (m *Mapping) Fault(key string, value any, advice string) {
	m.faults.Add(m.path+key, value, advice)
}

// read reads a JSON object into m. It treats null as an object without keys.
func (m *Mapping) read(data []byte) error {
	if err := json.Unmarshal(data, &m.values); err != nil {
		if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
			return fmt.Errorf("got %s", shown(data))
		}
		return fmt.Errorf("got invalid JSON (%w)", err)
	}
	counts, err := countKeys(data)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if counts[key] > 1 {
			m.faults.add(DuplicateKey, m.path+key, "duplicate key %s", quoted(m.path+key))
		}
	}
	return nil
}

// countKeys counts how often each key is in a JSON object. json.Unmarshal does not report a
// duplicate key: it silently keeps the last value.
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

// The method `take` removes a key from m and returns its value. The result `ok` is false if m does
// not have the key. It is also false if the value is null and NullIsFault is not set.
func (m *Mapping) take(key string) (value json.RawMessage, ok bool) {
	m.keys = append(m.keys, key)
	value, ok = m.values[key]
	delete(m.values, key)
	return value, ok && (m.NullIsFault || !isNull(value))
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

// Take takes a key out of m and returns its value. The result `ok` is false if the key is missing
// or null, or if the value is of the wrong kind. It is also false if isValid returns false for the
// value. A nil isValid accepts any value.
func Take[T any](m *Mapping, key, advice string, isValid func(T) bool) (v T, ok bool) {
	value, ok := m.take(key)
	if !ok {
		return v, false
	}
	if isNull(value) {
		advice += ", or leave the key out"
	}
	return Parse(m, key, value, advice, isValid)
}

// Need does the same as [Take], but a missing key is a fault.
func Need[T any](m *Mapping, key, advice string, isValid func(T) bool) (v T, ok bool) {
	value, ok := m.take(key)
	if !ok {
		m.faults.add(MissingKey, m.path+key, "%s is missing: write %s", m.path+key, advice)
		return v, false
	}
	return Parse(m, key, value, advice, isValid)
}

// Parse decodes the value of a key that has been taken, or a part of this value. It adds a fault
// and returns false in three cases: the value is null, the value is of the wrong kind, or isValid
// returns false for the value.
func Parse[T any](
	m *Mapping, key string, value json.RawMessage, advice string, isValid func(T) bool,
) (v T, ok bool) {
	if isNull(value) || !decode(&v, value) {
		m.Fault(key, shown(value), advice)
		return v, false
	}
	if isValid != nil && !isValid(v) {
		if d, ok := any(v).(Duration); ok && d < 0 && advice == WriteDuration {
			advice += ", 0s or above"
		}
		m.Fault(key, shown(value), advice)
		return v, false
	}
	return v, true
}

func decode[T any](v *T, value json.RawMessage) bool {
	if d, ok := any(v).(*Duration); ok {
		_, ok = d.parse(value)
		return ok
	}
	return json.Unmarshal(value, v) == nil
}

// Inner takes out a key whose value is a mapping, and returns this inner mapping. It returns nil if
// the key is missing or if its value is not a mapping. The faults of the inner mapping are added to
// the faults of m.
func (m *Mapping) Inner(key, advice string) *Mapping {
	value, ok := Take[json.RawMessage](m, key, advice, nil)
	if !ok {
		return nil
	}
	inner := &Mapping{NullIsFault: m.NullIsFault, path: m.path + key + ".", faults: m.faults}
	if err := inner.read(value); err != nil {
		m.Fault(key, shown(value), advice)
		return nil
	}
	return inner
}

// Keys returns the keys that have not been taken, sorted.
func (m *Mapping) Keys() []string { return slices.Sorted(maps.Keys(m.values)) }

// RejectRest adds a fault for each key that has not been taken. If the key is similar to a known
// key, the error says to write the known key. All keys that are similar to no known key are named
// in one text. The parameter `name` is what this text calls m, such as "a policy". Call RejectRest
// after all known keys are taken.
func (m *Mapping) RejectRest(name string) {
	keys := m.Keys()
	for _, key := range keys[:min(len(keys), mostFaults)] {
		if near := nearest(key, m.keys); near != "" {
			m.faults.add(UnknownKey, m.path+key, "unknown key %s: write %s",
				quoted(m.path+key), m.path+near)
			delete(m.values, key)
		}
	}
	if len(m.values) == 0 {
		return
	}
	if len(m.faults.texts) == mostFaults {
		m.faults.more++
		return
	}
	known := fmt.Sprintf("the keys of %s are %s", name, strings.Join(m.keys, ", "))
	var unknown []string
	for i, key := range m.Keys() {
		if i == mostFaults {
			unknown = append(unknown, fmt.Sprintf("and %d more", len(m.values)-mostFaults))
			break
		}
		text := quoted(m.path + key)
		unknown = append(unknown, text)
		m.faults.keep(Finding{UnknownKey, m.path + key, "unknown key " + text + ": " + known})
	}
	m.faults.texts = append(m.faults.texts, "unknown key "+strings.Join(unknown, ", ")+": "+known)
}
