package jinja

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Value is a value of an expression: nil, bool, int64, float64, string, or one of the types
// below. A whole number that int64 cannot hold is an error.
type Value any

type (
	// markup is a text that Jinja has marked as safe, as tojson does.
	markup string

	// A list or a dict is a value that an expression made.
	list []Value
	dict map[string]Value

	// A goList contains a slice of the program, and a goMap contains a map of the program. A member
	// is converted when an expression reads it.
	goList struct{ v reflect.Value }
	goMap  struct{ v reflect.Value }

	// A goValue contains any other value of the program. An expression can read the exported fields
	// of a struct.
	goValue struct{ v reflect.Value }

	// An undefined stands for a missing value.
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
	keys(e *evaluation) []string // sorted, because a Go map does not keep their order
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

// maxExact is 2^53. From this number on, a float64 may stand for several integers.
const maxExact = 1 << 53

// fromGo converts a Go value. It does not call a method of the value.
func (e *evaluation) fromGo(v reflect.Value) Value {
	for depth := 0; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; depth++ {
		checkDepth(depth)
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return parseInt(strconv.FormatUint(v.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		return fromFloat(v.Float())
	case reflect.String:
		if v.Type() == reflect.TypeFor[json.Number]() {
			return fromNumber(v.String())
		}
		e.countRead(v.Len())
		return strings.ToValidUTF8(v.String(), "\uFFFD")
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			e.countRead(v.Len())
			return strings.ToValidUTF8(string(v.Bytes()), "\uFFFD")
		}
		return goList{v}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			return goMap{v}
		}
	}
	return goValue{v}
}

// fromFloat converts a float64, which may be a number that package json decoded. A float64
// without a fraction becomes an integer, because 2.0 and 2 are the same float64.
func fromFloat(f float64) Value {
	switch {
	case f != math.Trunc(f) || math.IsInf(f, 0):
		return f
	case math.Abs(f) >= maxExact:
		panic(failf("the whole number %v may have lost digits as a float64: "+
			"decode JSON with UseNumber", f))
	default:
		return int64(f)
	}
}

// fromNumber returns a number as Python reads it from JSON.
func fromNumber(text string) Value {
	if !strings.ContainsAny(text, ".eE") && intText.MatchString(text) {
		return parseInt(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(f, 0) {
		panic(failf("%.40q is not a number", text))
	}
	return f
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

// toGo converts a value to Go. A value that came from Go is returned unchanged.
func toGo(e *evaluation, v Value, depth int) any {
	e.visit(depth)
	switch v := v.(type) {
	case markup:
		return string(v)
	case int64:
		if int64(int(v)) == v {
			return int(v)
		}
		return v
	case goList:
		return v.v.Interface()
	case goMap:
		return v.v.Interface()
	case goValue:
		return v.v.Interface()
	case list:
		e.grow(memberSize * len(v))
		members := make([]any, len(v))
		for i := range members {
			members[i] = toGo(e, v[i], depth+1)
		}
		return members
	case dict:
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[key] = toGo(e, value, depth+1)
		}
		return m
	case *undefined:
		panic(v.err())
	default:
		return v
	}
}

// An UndefinedError is the error of an evaluation that needs a missing name or key.
type UndefinedError struct{ name string }

func (e *UndefinedError) Error() string {
	return e.name + ` is undefined: ask "is defined" first, or add "| default(…)"`
}

func (u *undefined) err() failure { return failure{&UndefinedError{u.name}} }

// wrong returns the error of v if v is undefined. Otherwise it returns an error with the
// formatted text.
func wrong(v Value, format string, args ...any) failure {
	if u, ok := v.(*undefined); ok {
		return u.err()
	}
	return failf(format, args...)
}

// kind describes v in an error.
func kind(v Value) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return formatFloat(v)
	case string:
		return fmt.Sprintf("text %.40q", v)
	case markup:
		return "the text of tojson"
	case sequence:
		return "a list"
	case mapping:
		return "a mapping"
	case goValue:
		return "a value of Go's type " + v.v.Type().String()
	default:
		return "nothing"
	}
}

// isA reports whether v is of type T.
func isA[T any](v Value) bool { _, ok := v.(T); return ok }

// textOf returns v if v is a text.
func textOf(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	default:
		return "", false
	}
}
