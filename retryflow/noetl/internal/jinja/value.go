package jinja

import (
	"encoding/json"
	"errors"
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
		keys   []Value
		values map[string]Value // by the hash of the key
	}

	// A goList and a goMap hold a slice and a map of the program. Their members
	// are converted when an expression reads them. A goMap has no order.
	goList struct{ v reflect.Value }
	goMap  struct{ v reflect.Value }

	// A goStruct holds a struct of the program, of which only the exported
	// fields can be read.
	goStruct struct{ v reflect.Value }

	// An interval is a range of integers.
	interval struct{ start, stop, step int64 }

	// A view is the keys, values or items of a mapping.
	view struct {
		kind string
		of   mapping
	}

	// A generator is the result of a lazy filter. It is always true, and its
	// members can be read only once.
	generator struct {
		each func(e *evaluation, yield func(Value) error) error
		done bool
	}

	// A method is a method that has not been called.
	method struct{ name string }

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

type sequence interface {
	length() int
	at(e *evaluation, i int) (Value, error)
}

type mapping interface {
	length() int
	get(e *evaluation, key Value) (Value, bool, error)
	pairs(e *evaluation) ([]pair, error) // in any order if the order is lost
	ordered() bool
}

type pair struct{ key, value Value }

func (l *list) length() int                            { return len(l.members) }
func (l *list) at(_ *evaluation, i int) (Value, error) { return l.members[i], nil }

func (l goList) length() int                            { return l.v.Len() }
func (l goList) at(e *evaluation, i int) (Value, error) { return e.fromGo(l.v.Index(i)) }

func (r interval) length() int {
	switch {
	case r.step > 0 && r.start < r.stop:
		return count(uint64(r.stop)-uint64(r.start), uint64(r.step))
	case r.step < 0 && r.start > r.stop:
		return count(uint64(r.start)-uint64(r.stop), -uint64(r.step))
	default:
		return 0
	}
}

// count returns how many steps fit into width, rounded up.
func count(width, step uint64) int {
	if n := (width-1)/step + 1; n <= math.MaxInt {
		return int(n)
	}
	return math.MaxInt
}

func (r interval) at(_ *evaluation, i int) (Value, error) {
	return big.NewInt(r.start + int64(i)*r.step), nil
}

func newDict() *dict { return &dict{values: map[string]Value{}} }

func (d *dict) set(e *evaluation, key, value Value) error {
	h, err := e.hash(key)
	if err != nil {
		return err
	}
	if _, ok := d.values[h]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[h] = value
	return nil
}

func (d *dict) length() int   { return len(d.keys) }
func (d *dict) ordered() bool { return true }

func (d *dict) get(e *evaluation, key Value) (Value, bool, error) {
	h, err := e.hash(key)
	if err != nil {
		return nil, false, err
	}
	v, ok := d.values[h]
	return v, ok, nil
}

func (d *dict) pairs(e *evaluation) ([]pair, error) {
	if err := e.step(len(d.keys)); err != nil {
		return nil, err
	}
	pairs := make([]pair, len(d.keys))
	for i, key := range d.keys {
		h, err := e.hash(key)
		if err != nil {
			return nil, err
		}
		pairs[i] = pair{key, d.values[h]}
	}
	return pairs, nil
}

func (m goMap) length() int   { return m.v.Len() }
func (m goMap) ordered() bool { return m.v.Len() < 2 }

func (m goMap) get(e *evaluation, key Value) (Value, bool, error) {
	if _, err := e.hash(key); err != nil {
		return nil, false, err
	}
	k := reflect.New(m.v.Type().Key()).Elem()
	switch n := number(key); {
	case k.Kind() == reflect.String:
		s, ok := key.(string)
		if !ok {
			return nil, false, nil
		}
		k.SetString(s)
	case k.CanInt() && n != nil && n.IsInt() && n.Num().IsInt64() && !k.OverflowInt(n.Num().Int64()):
		k.SetInt(n.Num().Int64())
	case k.CanUint() && n != nil && n.IsInt() && n.Num().IsUint64() && !k.OverflowUint(n.Num().Uint64()):
		k.SetUint(n.Num().Uint64())
	case k.Kind() == reflect.String || k.CanInt() || k.CanUint():
		return nil, false, nil
	default:
		pairs, err := m.pairs(e)
		for _, p := range pairs {
			if same, err := e.equal(p.key, key, 0); err != nil || same {
				return p.value, same, err
			}
		}
		return nil, false, err
	}
	v := m.v.MapIndex(k)
	if !v.IsValid() {
		return nil, false, nil
	}
	value, err := e.fromGo(v)
	return value, true, err
}

func (m goMap) pairs(e *evaluation) ([]pair, error) {
	if err := e.step(m.v.Len()); err != nil {
		return nil, err
	}
	pairs := make([]pair, 0, m.v.Len())
	for i := m.v.MapRange(); i.Next(); {
		key, err := e.fromGo(i.Key())
		if err != nil {
			return nil, err
		}
		value, err := e.fromGo(i.Value())
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair{key, value})
	}
	return pairs, nil
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
func (e *evaluation) fromGo(v reflect.Value) (Value, error) {
	for depth := 0; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; depth++ {
		if err := deep(depth); err != nil {
			return nil, err
		}
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Invalid:
		return nil, nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return big.NewInt(v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return new(big.Int).SetUint64(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return fromFloat(v.Float())
	case reflect.String:
		if v.Type() == reflect.TypeFor[json.Number]() {
			return fromNumber(v.String())
		}
		return strings.ToValidUTF8(v.String(), "\uFFFD"), e.read(v.Len())
	case reflect.Map:
		return goMap{v}, nil
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			if err := e.read(v.Len()); err != nil {
				return nil, err
			}
			return strings.ToValidUTF8(string(v.Bytes()), "\uFFFD"), nil
		}
		return goList{v}, nil
	default:
		return goStruct{v}, nil
	}
}

// fromFloat returns the number that a float64 was in JSON. Without a fraction
// it is an integer, because 2.0 and 2 are the same float64.
func fromFloat(f float64) (Value, error) {
	switch {
	case f != math.Trunc(f) || math.IsInf(f, 0):
		return f, nil
	case math.Abs(f) >= maxExact:
		return nil, fmt.Errorf("the whole number %v may have lost digits as a float64: decode JSON with UseNumber", f)
	default:
		return big.NewInt(int64(f)), nil
	}
}

// fromNumber returns a number as Python would read it from JSON.
func fromNumber(text string) (Value, error) {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(f, 0) {
			return nil, fmt.Errorf("%.40q is not a number", text)
		}
		return f, nil
	}
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || len(text) > maxBits {
		return nil, fmt.Errorf("%.40q is not a number", text)
	}
	return integer(n)
}

// field returns an exported field of a struct.
func (s goStruct) field(e *evaluation, name string) (Value, bool, error) {
	if s.v.Kind() != reflect.Struct {
		return nil, false, nil
	}
	f, ok := s.v.Type().FieldByName(name)
	if !ok || !f.IsExported() {
		return nil, false, nil
	}
	v, err := s.v.FieldByIndexErr(f.Index)
	if err != nil {
		return nil, false, nil // inside an embedded pointer that is nil
	}
	if !v.CanInterface() {
		return nil, false, nil // inside an embedded struct that is not exported
	}
	value, err := e.fromGo(v)
	return value, true, err
}

// toGo converts a value to Go. A value that came from Go is returned unchanged.
func toGo(e *evaluation, v Value, depth int) (any, error) {
	if err := e.visit(depth); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil, bool, float64, string:
		return v, nil
	case markup:
		return string(v), nil
	case *big.Int:
		if v.IsInt64() {
			if n := v.Int64(); int64(int(n)) == n {
				return int(n), nil
			}
			return v.Int64(), nil
		}
		return json.Number(v.String()), nil
	case goList:
		return v.v.Interface(), nil
	case goMap:
		return v.v.Interface(), nil
	case goStruct:
		return v.v.Interface(), nil
	case sequence:
		if err := e.grow(memberSize * v.length()); err != nil {
			return nil, err
		}
		members := make([]any, v.length())
		for i := range members {
			member, err := v.at(e, i)
			if err != nil {
				return nil, err
			}
			if members[i], err = toGo(e, member, depth+1); err != nil {
				return nil, err
			}
		}
		return members, nil
	case *dict:
		m := make(map[string]any, v.length())
		pairs, err := v.pairs(e)
		for _, p := range pairs {
			name, ok := p.key.(string)
			if !ok {
				return nil, fmt.Errorf("the key %s of a mapping is not a text", kind(p.key))
			}
			if m[name], err = toGo(e, p.value, depth+1); err != nil {
				return nil, err
			}
		}
		return m, err
	default:
		return nil, unusable(v)
	}
}

// unusable says why a value has no text and cannot be put into the state.
func unusable(v Value) error {
	switch v := v.(type) {
	case *undefined:
		return v.err()
	case *generator, view:
		return fmt.Errorf("%s has no value of its own: add \"| list\"", kind(v))
	case *method:
		return fmt.Errorf("%s is a method: call it", v.name)
	case goStruct:
		return fmt.Errorf("%s has no text: write one of its fields", kind(v))
	default:
		return fmt.Errorf("%s cannot be used here", kind(v))
	}
}

func (u *undefined) err() error {
	return fmt.Errorf("%s is undefined: ask \"is defined\" first, or add \"| default(…)\"", u.name())
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
	case *list:
		if v.tuple {
			return "a tuple"
		}
		return "a list"
	case goList:
		return "a list"
	case mapping:
		return "a mapping"
	case interval:
		return "a range"
	case view:
		return "the " + v.kind + " of a mapping"
	case *generator:
		return "a generator"
	case *method:
		return "the method " + v.name
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

func isInteger(v Value) bool {
	_, ok := v.(*big.Int)
	return ok
}

// hash returns a text that is the same for all equal keys of a mapping.
func (e *evaluation) hash(v Value) (string, error) {
	switch v := v.(type) {
	case nil:
		return "none", nil
	case string:
		return "s" + v, e.read(len(v))
	case bool, *big.Int:
		return "n" + whole(v).Text(62), nil
	case float64:
		switch r := number(v); {
		case math.IsNaN(v):
			return "", errors.New("nan cannot be a key")
		case r == nil:
			return "f" + formatFloat(v), nil
		case r.IsInt():
			return "n" + r.Num().Text(62), nil
		default:
			return "f" + formatFloat(v), nil
		}
	case *list:
		if !v.tuple {
			return "", errors.New("a list cannot be a key")
		}
		var b strings.Builder
		for _, member := range v.members {
			h, err := e.hash(member)
			if err == nil {
				err = e.grow(memberSize + len(h))
			}
			if err == nil {
				err = e.step(1)
			}
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "t%d:%s", len(h), h)
		}
		return b.String() + "()", nil
	case interval:
		n := v.length()
		return fmt.Sprintf("r%d,%d,%d", n, v.start*int64(min(n, 1)), v.step*int64(min(n/2, 1))), nil
	case *undefined:
		if v.lenient {
			return "undefined", nil
		}
		return "", v.err()
	default:
		return "", fmt.Errorf("%s cannot be a key", kind(v))
	}
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
	_, isFloat := v.(float64)
	return isFloat || whole(v) != nil
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
