package jinja

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// A filter is one of Jinja's. in is the value before the |.
type filter struct {
	least, most int // how many arguments it has
	call        func(e *evaluation, in Value, args []Value) Value
}

// filters are all the filters that there are.
var filters = map[string]*filter{
	"default": {0, 1, fallback},
	"first":   {0, 0, first},
	"int":     {0, 1, toInt},
	"length":  {0, 0, length},
	"lower":   {0, 0, toLower},
	"replace": {2, 2, replace},
	"string":  {0, 0, toText},
	"tojson":  {0, 0, tojson},
}

// tests are all the tests that there are.
var tests = map[string]func(Value) bool{
	"defined": func(v Value) bool { return !isA[*undefined](v) },
	"none":    func(v Value) bool { return v == nil },
}

// namesOf returns the names of a table, for an error.
func namesOf[T any](table map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

// arguments says how many arguments a filter has.
func (f *filter) arguments() string {
	switch {
	case f.most == 0:
		return "none"
	case f.least == f.most:
		return fmt.Sprint(f.most)
	default:
		return fmt.Sprintf("at most %d", f.most)
	}
}

// argument returns the first argument, or what a filter has without one.
func argument(args []Value, otherwise Value) Value {
	if len(args) > 0 {
		return args[0]
	}
	return otherwise
}

func fallback(_ *evaluation, in Value, args []Value) Value {
	if isA[*undefined](in) {
		return argument(args, "")
	}
	return in
}

func toLower(e *evaluation, in Value, _ []Value) Value {
	if isA[markup](in) {
		panic(marked())
	}
	s := e.str(in)
	e.grow(len(s))
	return e.text(lower(s))
}

func marked() failure {
	return failf("the text of tojson is marked as safe, which this would lose: use it last")
}

func toText(e *evaluation, in Value, _ []Value) Value {
	if m, ok := in.(markup); ok {
		return m
	}
	return e.str(in)
}

func length(e *evaluation, in Value, _ []Value) Value {
	if s, ok := textOf(in); ok {
		e.read(len(s))
		return int64(utf8.RuneCountInString(s))
	}
	s, ok := in.(sized)
	if !ok {
		panic(wrong(in, "%s has no length", kind(in)))
	}
	return int64(s.length())
}

func first(e *evaluation, in Value, _ []Value) Value {
	if !isA[string](in) && !isA[sequence](in) {
		panic(wrong(in, "%s has no first member", kind(in)))
	}
	if member, ok := e.itemOf(in, int64(0)); ok {
		return member
	}
	return &undefined{"the first of nothing"}
}

func replace(e *evaluation, in Value, args []Value) Value {
	s, old, by := e.str(in), e.str(args[0]), e.str(args[1])
	e.grow(len(s))
	e.growTimes(len(by), strings.Count(s, old))
	return strings.ReplaceAll(s, old, by)
}
