package jinja

import (
	"maps"
	"reflect"
	"slices"
)

// A Value is a value of an expression: nil, bool, int64, float64, string, or one of the types
// below. A whole number that int64 cannot hold is an error.
type Value any

type (
	// markup is a text that Jinja has marked as safe, as tojson does.
	markup string

	// A list or a dict is a value that the expression itself has made. For example, [1, 2] makes a
	// list.
	list []Value
	dict map[string]Value

	// A goList contains a Go slice or array that the program passed in. A goMap contains a Go map with
	// string keys that the program passed in. A member of a goList or goMap is converted when an
	// expression reads the member.
	goList struct{ v reflect.Value }
	goMap  struct{ v reflect.Value }

	// A goValue contains a value that the program passed in and that none of the other types can hold,
	// such as a struct or a function. An expression can read the exported fields of a struct.
	goValue struct{ v reflect.Value }

	// An undefined is the result of an expression that reads a missing name or key.
	undefined struct{ name string }
)

type sized interface{ length() int }

type sequence interface {
	sized
	at(e *evaluation, i int) Value
}

type mapping interface {
	sized
	get(e *evaluation, key string) (Value, bool)
	keys(e *evaluation) []string // returns the keys in sorted order, because a Go map has no order
}

func (l list) length() int                   { return len(l) }
func (l list) at(_ *evaluation, i int) Value { return l[i] }

func (l goList) length() int                   { return l.v.Len() }
func (l goList) at(e *evaluation, i int) Value { return e.fromGo(l.v.Index(i)) }

func (d dict) length() int { return len(d) }

func (d dict) keys(e *evaluation) []string {
	e.step(len(d))
	return slices.Sorted(maps.Keys(d))
}

func (d dict) get(e *evaluation, key string) (Value, bool) {
	e.countRead(len(key))
	v, ok := d[key]
	return v, ok
}

func (m goMap) length() int { return m.v.Len() }

func (m goMap) keys(e *evaluation) []string {
	e.step(m.v.Len())
	keys := make([]string, 0, m.v.Len())
	for i := m.v.MapRange(); i.Next(); {
		e.countRead(i.Key().Len())
		keys = append(keys, i.Key().String())
	}
	slices.Sort(keys)
	return keys
}

func (m goMap) get(e *evaluation, key string) (Value, bool) {
	e.countRead(len(key))
	k := reflect.New(m.v.Type().Key()).Elem()
	k.SetString(key)
	v := m.v.MapIndex(k)
	return e.fromGo(v), v.IsValid()
}

// field returns an exported field of a struct.
func (s goValue) field(e *evaluation, name string) (Value, bool) {
	if s.v.Kind() != reflect.Struct {
		return nil, false
	}
	f, ok := s.v.Type().FieldByName(name)
	if !ok || !f.IsExported() {
		return nil, false
	}
	v, err := s.v.FieldByIndexErr(f.Index)
	if err != nil || !v.CanInterface() {
		return nil, false // the field is in an embedded nil pointer or in an embedded unexported struct
	}
	return e.fromGo(v), true
}

// isA reports whether the Value v is of type T.
func isA[T any](v Value) bool { _, ok := v.(T); return ok }
