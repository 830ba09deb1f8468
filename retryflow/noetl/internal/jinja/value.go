package jinja

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
)

// A Value is a value of Python: nil, bool, *big.Int, float64, string, or one of
// the types below.
type Value any

type (
	// markup is a text that Jinja has marked as safe, as tojson does.
	markup string

	// A list is a list or a tuple that an expression has made.
	list struct {
		members []Value
		tuple   bool
	}

	// A dict is a mapping that an expression has made, with its keys in order.
	dict struct {
		keys   []string
		values map[string]Value
	}

	// A goList and a goMap hold a slice and a map of the program. Their members
	// are converted when an expression reads them. A goMap has no order.
	goList struct{ v reflect.Value }
	goMap  struct{ v reflect.Value }

	// A goStruct holds a struct of the program, of which only the exported
	// fields can be read.
	goStruct struct{ v reflect.Value }

	// An undefined stands for a missing value. An if without an else gives a
	// lenient one, which is false, empty and has an empty text.
	undefined struct {
		what    string
		at      node // the missing path, used if what is ""
		lenient bool
	}

	// missing is the value of an argument that was not given.
	missing struct{}
)

type sized interface{ length() int }

type sequence interface {
	sized
	at(e *evaluation, i int) Value
}

type mapping interface {
	sized
	get(e *evaluation, key Value) (Value, bool)
	pairs(e *evaluation) []pair // in any order if the order is lost
	ordered() bool
}

type pair struct{ key, value Value }

func (l *list) length() int                   { return len(l.members) }
func (l *list) at(_ *evaluation, i int) Value { return l.members[i] }

func (l goList) length() int                   { return l.v.Len() }
func (l goList) at(e *evaluation, i int) Value { return e.fromGo(l.v.Index(i)) }

func newDict() *dict { return &dict{values: map[string]Value{}} }

func (d *dict) set(e *evaluation, key string, value Value) {
	e.read(len(key))
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
}

func (d *dict) length() int   { return len(d.keys) }
func (d *dict) ordered() bool { return true }

func (d *dict) get(e *evaluation, key Value) (Value, bool) {
	name, ok := textOf(key)
	if !ok {
		return nil, false
	}
	e.read(len(name))
	v, ok := d.values[name]
	return v, ok
}

func (d *dict) pairs(e *evaluation) []pair {
	e.step(len(d.keys))
	pairs := make([]pair, len(d.keys))
	for i, key := range d.keys {
		pairs[i] = pair{key, d.values[key]}
	}
	return pairs
}

func (m goMap) length() int   { return m.v.Len() }
func (m goMap) ordered() bool { return m.v.Len() < 2 }

func (m goMap) get(e *evaluation, key Value) (Value, bool) {
	if m.v.Type().Key().Kind() != reflect.String {
		for _, p := range m.pairs(e) {
			if e.equal(p.key, key, 0) {
				return p.value, true
			}
		}
		return nil, false
	}
	name, ok := textOf(key)
	if !ok {
		return nil, false
	}
	e.read(len(name))
	k := reflect.New(m.v.Type().Key()).Elem()
	k.SetString(name)
	v := m.v.MapIndex(k)
	return e.fromGo(v), v.IsValid()
}

func (m goMap) pairs(e *evaluation) []pair {
	e.step(m.v.Len())
	pairs := make([]pair, 0, m.v.Len())
	for i := m.v.MapRange(); i.Next(); {
		pairs = append(pairs, pair{e.fromGo(i.Key()), e.fromGo(i.Value())})
	}
	return pairs
}

// isLenient reports whether v is a lenient undefined.
func isLenient(v Value) bool {
	u, ok := v.(*undefined)
	return ok && u.lenient
}

// maxExact is the first integer whose float64 may also stand for another
// integer.
const maxExact = 1 << 53

// fromGo converts a Go value. It calls none of its methods.
func (e *evaluation) fromGo(v reflect.Value) Value {
	for depth := 0; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; depth++ {
		deep(depth)
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return big.NewInt(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return new(big.Int).SetUint64(v.Uint())
	case reflect.Float32, reflect.Float64:
		return fromFloat(v.Float())
	case reflect.String:
		if v.Type() == reflect.TypeFor[json.Number]() {
			return fromNumber(v.String())
		}
		e.read(v.Len())
		return strings.ToValidUTF8(v.String(), "\uFFFD")
	case reflect.Map:
		return goMap{v}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			e.read(v.Len())
			return strings.ToValidUTF8(string(v.Bytes()), "\uFFFD")
		}
		return goList{v}
	default:
		return goStruct{v}
	}
}

// fromFloat returns the number that a float64 was in JSON. Without a fraction
// it is an integer, because 2.0 and 2 are the same float64.
func fromFloat(f float64) Value {
	switch {
	case f != math.Trunc(f) || math.IsInf(f, 0):
		return f
	case math.Abs(f) >= maxExact:
		panic(failf("the whole number %v may have lost digits as a float64: decode JSON with UseNumber", f))
	default:
		return big.NewInt(int64(f))
	}
}

// fromNumber returns a number as Python would read it from JSON.
func fromNumber(text string) Value {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(f, 0) {
			panic(failf("%.40q is not a number", text))
		}
		return f
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || len(text) > maxBits {
		panic(failf("%.40q is not a number", text))
	}
	return integer(n)
}

// field returns an exported field of a struct.
func (s goStruct) field(e *evaluation, name string) (Value, bool) {
	if s.v.Kind() != reflect.Struct {
		return nil, false
	}
	f, ok := s.v.Type().FieldByName(name)
	if !ok || !f.IsExported() {
		return nil, false
	}
	v, err := s.v.FieldByIndexErr(f.Index)
	if err != nil || !v.CanInterface() {
		return nil, false // inside an embedded pointer that is nil, or an embedded struct that is not exported
	}
	return e.fromGo(v), true
}

// toGo converts a value to Go. A value that came from Go is returned unchanged.
func toGo(e *evaluation, v Value, depth int) any {
	e.visit(depth)
	switch v := v.(type) {
	case nil, bool, float64, string:
		return v
	case markup:
		return string(v)
	case *big.Int:
		switch n := v.Int64(); {
		case !v.IsInt64():
			return json.Number(v.String())
		case int64(int(n)) == n:
			return int(n)
		default:
			return n
		}
	case goList:
		return v.v.Interface()
	case goMap:
		return v.v.Interface()
	case goStruct:
		return v.v.Interface()
	case sequence:
		e.grow(memberSize * v.length())
		members := make([]any, v.length())
		for i := range members {
			members[i] = toGo(e, v.at(e, i), depth+1)
		}
		return members
	case *dict:
		m := make(map[string]any, v.length())
		for _, p := range v.pairs(e) {
			m[p.key.(string)] = toGo(e, p.value, depth+1)
		}
		return m
	default:
		panic(unusable(v))
	}
}

// unusable says why a value has no text and cannot be put into the state.
func unusable(v Value) failure {
	switch v := v.(type) {
	case *undefined:
		return v.err()
	case goStruct:
		return failf("%s has no text: write one of its fields", kind(v))
	default:
		return failf("%s cannot be used here", kind(v))
	}
}

func (u *undefined) err() failure {
	return failf("%s is undefined: ask \"is defined\" first, or add \"| default(…)\"", u.name())
}

func (u *undefined) name() string {
	if u.what != "" {
		return u.what
	}
	return path(u.at)
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
	case *big.Int:
		if v.BitLen() > 256 {
			return "a large number"
		}
		return v.String()
	case float64:
		return formatFloat(v)
	case string:
		return fmt.Sprintf("text %.40q", v)
	case markup:
		return "the text of tojson"
	case sequence:
		if isTuple(v) {
			return "a tuple"
		}
		return "a list"
	case mapping:
		return "a mapping"
	case goStruct:
		return "a value of Go's type " + v.v.Type().String()
	case *undefined:
		return v.name() + ", which is undefined,"
	default:
		return "nothing"
	}
}

// isTuple reports whether a sequence is a tuple.
func isTuple(s sequence) bool {
	l, ok := s.(*list)
	return ok && l.tuple
}

// whole returns the integer value of a bool or an integer, and nil for any
// other value.
func whole(v Value) *big.Int {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1)
		}
		return new(big.Int)
	case *big.Int:
		return v
	default:
		return nil
	}
}

// number returns the exact value of a finite number, and nil for any other
// value.
func number(v Value) *big.Rat {
	switch v := v.(type) {
	case bool, *big.Int:
		return new(big.Rat).SetInt(whole(v))
	case float64:
		return new(big.Rat).SetFloat64(v)
	default:
		return nil
	}
}

func isNumber(v Value) bool {
	return isA[float64](v) || whole(v) != nil
}

// textOf returns the text if v is one.
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
