// Package strict decodes a mapping that a person wrote, in JSON or YAML. Unknown keys,
// duplicate keys and values of the wrong type are errors. The text of the error is a single
// line. It names up to 20 faults, and says what to write instead. The error's method
// Findings returns the faults as values, for programs.
//
// The package is for authors of configuration formats. retrydialect and retrysim use it.
// [Decode] calls a function of yours, which takes each known key out of a [Mapping]:
//
//	func (q *Queue) UnmarshalJSON(data []byte) error {
//		return strict.Decode(q, data, "myqueue: invalid settings", `{"tries": 3}`, (*Queue).read)
//	}
//
//	func (q *Queue) read(m *strict.Mapping) {
//		above0 := func(n int) bool { return n > 0 }
//		if n, ok := strict.Take(m, "tries", "a whole number from 1 on", above0); ok {
//			q.Tries = n
//		}
//		m.RejectRest("a queue")
//	}
//
// For the settings {"tries": 0, "delay": "1s"}, Decode returns this error, in one line:
//
//	myqueue: invalid settings: tries is 0: write a whole number from 1 on;
//	unknown key "delay": the keys of a queue are tries
//
// In all functions, the parameter `prefix` is the text with which the error starts, and the
// parameter `write` says what to write instead of a wrong value.
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

// Decode decodes a JSON object into v. It calls readKeys, which must take the keys out of the
// Mapping and set the fields. After an error, v is unchanged. If `data` is null, v is unchanged
// too, and Decode returns no error. The text of an error starts with the parameter `prefix`. If
// `data` is not an object, the error shows the parameter `example`, which is a valid object.
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

// A Mapping is a JSON object whose keys are taken out one by one. It is not safe for concurrent
// use.
type Mapping struct {
	// NullIsFault says how to treat a key whose value is null. If NullIsFault is true, the null is
	// a fault. If it is false, the key counts as left out.
	NullIsFault bool

	path   string // the prefix of the keys in errors, such as "backoff."
	values map[string]json.RawMessage
	keys   []string // the keys that Take has read so far
	faults *Faults

	// listed contains the paths of all keys that were read, also in inner mappings. It is nil
	// unless the function Keys is reading them.
	listed *[]string
}

// Fault adds the fault that a key of m has an invalid value. See [Faults.Add].
func (m *Mapping) Fault(key string, value any, write string) {
	m.faults.Add(m.path+key, value, write)
}

// Faults returns the Faults that m shares with all mappings around it, and the path of a key of
// m from the outermost mapping, such as "backoff.base".
func (m *Mapping) Faults(key string) (f *Faults, path string) { return m.faults, m.path + key }

// read reads a JSON object into m. If `data` is null, m.values stays nil.
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

// countKeys counts how often each key occurs in a JSON object. If a key occurs twice,
// json.Unmarshal silently keeps the last value.
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

// take removes a key from m and returns its value. It returns false if m lacks the key, or if
// the value is null and NullIsFault is not set.
func (m *Mapping) take(key string) (value json.RawMessage, ok bool) {
	m.keys = append(m.keys, key)
	if m.listed != nil {
		*m.listed = append(*m.listed, m.path+key)
	}
	value, ok = m.values[key]
	delete(m.values, key)
	return value, ok && (m.NullIsFault || !isNull(value))
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }

// Take takes a key out of m and returns its value. It returns false if the key is left out or
// null. If the value is of the wrong type or not valid, Take adds a fault and returns false.
// If `valid` is nil, all values are valid. The parameter `write` is the part of the fault that says
// what to write instead.
func Take[T any](m *Mapping, key, write string, valid func(T) bool) (v T, ok bool) {
	value, ok := m.take(key)
	if !ok {
		return v, false
	}
	if isNull(value) {
		write += ", or leave the key out"
	}
	return Parse(m, key, value, write, valid)
}

// Parse decodes `value`, which may be a part of the value of a key, such as one entry of a
// list. If `value` is null, of the wrong type or not valid, Parse adds a fault for the
// parameter `key` and returns false. Parse takes no key out of m. The parameters `write` and
// `valid` are as in [Take].
func Parse[T any](
	m *Mapping, key string, value json.RawMessage, write string, valid func(T) bool,
) (v T, ok bool) {
	if isNull(value) || !decode(&v, value) {
		m.Fault(key, shown(value), write)
		return v, false
	}
	if valid != nil && !valid(v) {
		if d, ok := any(v).(Duration); ok && d < 0 && write == WriteDuration {
			write += ", 0s or above"
		}
		m.Fault(key, shown(value), write)
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

// Inner takes a key out of m. The value must be a mapping, which Inner returns. Inner returns nil
// if the key is left out, or if its value is not a mapping. Faults of the inner mapping are added
// to the faults of m.
func (m *Mapping) Inner(key, write string) *Mapping {
	value, ok := Take[json.RawMessage](m, key, write, nil)
	inner := &Mapping{
		NullIsFault: m.NullIsFault, path: m.path + key + ".", faults: m.faults, listed: m.listed,
	}
	if !ok && m.listed != nil {
		return inner
	}
	if !ok {
		return nil
	}
	if err := inner.read(value); err != nil {
		m.Fault(key, shown(value), write)
		return nil
	}
	return inner
}

// List takes a key out of m. The value must be a list of mappings, which List returns. Their
// faults are added to the faults of m.
func (m *Mapping) List(key, write string) (list []*Mapping) {
	values, _ := Take[[]json.RawMessage](m, key, write, nil)
	for i, value := range values {
		at := fmt.Sprintf("%s[%d]", key, i)
		inner := &Mapping{NullIsFault: m.NullIsFault, path: m.path + at + ".", faults: m.faults}
		if err := inner.read(value); err != nil || inner.values == nil {
			m.Fault(at, shown(value), write)
			continue
		}
		list = append(list, inner)
	}
	return list
}

// Keys returns the keys that have not been taken, sorted.
func (m *Mapping) Keys() []string { return slices.Sorted(maps.Keys(m.values)) }

// RejectRest adds a fault for each key that has not been taken. Call it after you have taken all
// known keys. The parameter `name` is what the error calls the mapping, such as "a queue".
func (m *Mapping) RejectRest(name string) {
	if len(m.values) == 0 {
		return
	}
	if len(m.faults.texts) == maxFaults {
		m.faults.more++
		return
	}
	known := fmt.Sprintf("the keys of %s are %s", name, strings.Join(m.keys, ", "))
	var unknown []string
	for i, key := range m.Keys() {
		if i == maxFaults {
			unknown = append(unknown, fmt.Sprintf("and %d more", len(m.values)-maxFaults))
			break
		}
		text := quoted(m.path + key)
		unknown = append(unknown, text)
		m.faults.keep(UnknownKey, m.path+key, "unknown key "+text+": "+known)
	}
	m.faults.texts = append(m.faults.texts, "unknown key "+strings.Join(unknown, ", ")+": "+known)
}

// Keys returns the known keys, which are the keys that readKeys takes out of its Mapping. The
// key of an inner mapping comes before the keys of that mapping. These keys are paths such as
// "backoff.base".
func Keys[T any](readKeys func(*T, *Mapping)) (keys []string) {
	readKeys(new(T), &Mapping{faults: new(Faults), listed: &keys})
	return keys
}
