package jinja

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
)

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

// fromNumber converts a json.Number to the number that Python reads from the same JSON.
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
