package jinja

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// A filter implements one filter of Jinja. Its function `call` gets the value before the | as the
// parameter `in`.
type filter struct {
	least, most int // how many arguments the filter takes
	call        func(e *evaluation, in Value, args []Value) Value
}

// filters contains the supported filters, by name.
var filters = map[string]*filter{
	"default": {0, 1, fallback},
	"first":   {0, 0, first},
	"float":   {0, 1, toFloat},
	"int":     {0, 1, toInt},
	"join":    {0, 1, join},
	"last":    {0, 0, last},
	"length":  {0, 0, length},
	"lower":   {0, 0, lowered},
	"replace": {2, 2, replace},
	"string":  {0, 0, toText},
	"tojson":  {0, 0, tojson},
	"upper":   {0, 0, uppered},
}

// tests contains the supported tests of Jinja by name, such as the test of "x is defined".
var tests = map[string]func(Value) bool{
	"defined": func(v Value) bool { return !isA[*undefined](v) },
	"none":    func(v Value) bool { return v == nil },
}

// arguments describes how many arguments a filter takes, for an error.
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

// argument returns the first argument. If there is no argument, it returns the parameter `absent`.
func argument(args []Value, absent Value) Value {
	if len(args) > 0 {
		return args[0]
	}
	return absent
}

func fallback(_ *evaluation, in Value, args []Value) Value {
	if isA[*undefined](in) {
		return argument(args, "")
	}
	return in
}

func lowered(e *evaluation, in Value, _ []Value) Value { return e.text(lower(e.unmarked(in))) }
func uppered(e *evaluation, in Value, _ []Value) Value { return e.text(upper(e.unmarked(in))) }

// unmarked returns the text of a value for the filters "lower" and "upper". It rejects a value of
// the type `markup`, which is a text that is marked as safe, because these filters would lose the
// mark.
func (e *evaluation) unmarked(v Value) string {
	if isA[markup](v) {
		panic(marked())
	}
	s := e.str(v)
	e.grow(len(s))
	return s
}

func marked() failure {
	return failf("the text of tojson is marked as safe, and this would lose the mark: use tojson last")
}

func toText(e *evaluation, in Value, _ []Value) Value {
	if m, ok := in.(markup); ok {
		return m
	}
	return e.str(in)
}

// toInt is the filter "int".
func toInt(e *evaluation, in Value, args []Value) Value {
	otherwise := argument(args, int64(0))
	if n, ok := whole(in); ok {
		return n
	}
	f := math.NaN()
	switch in := in.(type) {
	case float64:
		f = in
	case string, markup:
		text := e.trimmed(in)
		if intText.MatchString(text) {
			return parseInt(strings.ReplaceAll(text, "_", ""))
		}
		if g, ok := parseFloat(text); ok {
			f = g
		}
	case *undefined:
		panic(in.err())
	}
	switch {
	case math.IsNaN(f):
		return otherwise
	case math.IsInf(f, 0):
		panic(failf("infinity is not a whole number " +
			"(what int makes of it depends on the version of Jinja)"))
	case math.Abs(f) >= 1<<63:
		panic(tooLarge())
	}
	return int64(f)
}

// toFloat is the filter "float".
func toFloat(e *evaluation, in Value, args []Value) Value {
	switch in := in.(type) {
	case string, markup:
		if f, ok := parseFloat(e.trimmed(in)); ok {
			return f
		}
	case *undefined:
		panic(in.err())
	default:
		if isNumber(in) {
			return float(in)
		}
	}
	return argument(args, 0.0)
}

func length(e *evaluation, in Value, _ []Value) Value {
	if s, ok := textOf(in); ok {
		e.countRead(len(s))
		return int64(utf8.RuneCountInString(s))
	}
	s, ok := in.(sized)
	if !ok {
		panic(wrong(in, "%s has no length", kind(in)))
	}
	return int64(s.length())
}

func first(e *evaluation, in Value, _ []Value) Value { return e.endMember(in, "first", 0) }
func last(e *evaluation, in Value, _ []Value) Value  { return e.endMember(in, "last", -1) }

// endMember returns the first or the last member of v.
func (e *evaluation) endMember(v Value, which string, at int64) Value {
	if !isA[string](v) && !isA[sequence](v) {
		panic(wrong(v, "%s has no %s member", kind(v), which))
	}
	if member, ok := e.itemOf(v, at); ok {
		return member
	}
	return &undefined{"the " + which + " of nothing"}
}

func join(e *evaluation, in Value, args []Value) Value {
	separator := e.str(argument(args, ""))
	s, ok := in.(sequence)
	if !ok {
		panic(wrong(in, "%s cannot be joined: write a list", kind(in)))
	}
	var b strings.Builder
	for i := range s.length() {
		e.step(1)
		text := e.str(s.at(e, i))
		if i > 0 {
			text = separator + text
		}
		e.grow(len(text))
		b.WriteString(text)
	}
	return b.String()
}

func replace(e *evaluation, in Value, args []Value) Value {
	s, old, by := e.str(in), e.str(args[0]), e.str(args[1])
	e.grow(len(s))
	e.growTimes(len(by), strings.Count(s, old))
	return strings.ReplaceAll(s, old, by)
}
