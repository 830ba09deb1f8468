package jinja

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filters are the filters, with the parameters that Jinja gives them.
var filters = map[string]*function{
	"abs":     {nil, absolute},
	"count":   {nil, countMembers},
	"d":       {params("default_value boolean"), fallback},
	"default": {params("default_value boolean"), fallback},
	"first":   {nil, first},
	"float":   {params("default"), toFloatFilter},
	"int":     {params("default"), toIntFilter},
	"join":    {params("d"), join},
	"last":    {nil, last},
	"length":  {nil, countMembers},
	"list":    {nil, toList},
	"lower":   {nil, lowerFilter},
	"max":     {nil, greatest},
	"min":     {nil, least},
	"replace": {params("old! new!"), replace},
	"round":   {params("precision"), round},
	"sort":    {params("reverse"), sort},
	"string":  {nil, toText},
	"tojson":  {nil, tojson},
	"trim":    {params("chars"), trim},
	"upper":   {nil, upperFilter},
}

// newFilter returns the node of a filter.
func newFilter(n node, name string, given arguments) node {
	f := find(filters, "filter", name)
	return &filterNode{n, f, f.bind("the filter "+name, given)}
}

// soft returns the text of a value, for a filter of texts.
func (e *evaluation) soft(v Value) string {
	if m, ok := v.(markup); ok {
		panic(unusableMarkup(m))
	}
	s := e.str(v)
	e.grow(len(s))
	return s
}

func unusableMarkup(markup) failure {
	return failf("the text of tojson is marked as safe, which this would lose: use it last, or join it by ~")
}

func lowerFilter(e *evaluation, in Value, _ []Value) Value { return e.text(lower(e.soft(in))) }
func upperFilter(e *evaluation, in Value, _ []Value) Value { return e.text(upper(e.soft(in))) }

func trim(e *evaluation, in Value, args []Value) Value {
	return e.strip(e.soft(in), args[0], strings.TrimFunc)
}

func toText(e *evaluation, in Value, _ []Value) Value {
	if m, ok := in.(markup); ok {
		return m
	}
	return e.str(in)
}

func toList(e *evaluation, in Value, _ []Value) Value { return &list{members: e.members(in)} }

// fallback is the filter default. With boolean it replaces whatever is false, too.
func fallback(_ *evaluation, in Value, args []Value) Value {
	switch {
	case !isUndefined(in) && (!flag(args[1]) || truth(in)):
		return in
	case isMissing(args[0]):
		return ""
	default:
		return args[0]
	}
}

func countMembers(e *evaluation, in Value, _ []Value) Value {
	if s, ok := textOf(in); ok {
		e.read(len(s))
		return integerOf(utf8.RuneCountInString(s))
	}
	if s, ok := in.(sized); ok {
		return integerOf(s.length())
	}
	if isLenient(in) {
		return integerOf(0)
	}
	panic(wrong(in, "%s has no length", kind(in)))
}

func absolute(_ *evaluation, in Value, _ []Value) Value {
	if n := whole(in); n != nil {
		return new(big.Int).Abs(n)
	}
	if f, ok := in.(float64); ok {
		return math.Abs(f)
	}
	panic(wrong(in, "%s is not a number", kind(in)))
}

func first(e *evaluation, in Value, _ []Value) Value {
	for v := range e.each(in) {
		return v
	}
	return &undefined{what: "the first of nothing"}
}

func last(e *evaluation, in Value, _ []Value) Value {
	if s, ok := in.(sequence); ok && s.length() > 0 {
		return s.at(e, s.length()-1)
	}
	var last Value = &undefined{what: "the last of nothing"}
	for v := range e.each(in) {
		last = v
	}
	return last
}

func join(e *evaluation, in Value, args []Value) Value {
	separator := ""
	if !isMissing(args[0]) {
		separator = e.str(args[0])
	}
	return e.joined(in, separator, e.str)
}

// joined returns the texts of the members of v with a separator between them.
func (e *evaluation) joined(v Value, separator string, text func(Value) string) string {
	var b strings.Builder
	n := 0
	for member := range e.each(v) {
		s := text(member)
		if n++; n > 1 {
			b.WriteString(separator)
		}
		b.WriteString(s)
		e.grow(len(separator) + len(s))
	}
	return b.String()
}

func replace(e *evaluation, in Value, args []Value) Value {
	return e.replaced(e.str(in), e.str(args[0]), e.str(args[1]))
}

// replaced returns s with all occurrences of old replaced.
func (e *evaluation) replaced(s, old, by string) Value {
	e.grow(len(s))
	e.growTimes(len(by), strings.Count(s, old))
	return strings.ReplaceAll(s, old, by)
}

// round rounds to a number of digits after the decimal point, and halves to even.
func round(_ *evaluation, in Value, args []Value) Value {
	digits := integerArg("precision", args[0], 0)
	switch f, isFloat := in.(float64); {
	case digits < 0:
		panic(failf("the argument precision is %d: less than 0 is not supported", digits))
	case isFloat && (math.IsNaN(f) || math.IsInf(f, 0) || digits > 400):
		return f
	case isFloat:
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
		return rounded
	case whole(in) != nil:
		return whole(in)
	}
	panic(wrong(in, "%s is not a number", kind(in)))
}

// greatest and least are the filters max and min.
func greatest(e *evaluation, in Value, _ []Value) Value { return e.extreme(in, 1) }
func least(e *evaluation, in Value, _ []Value) Value    { return e.extreme(in, -1) }

func (e *evaluation) extreme(in Value, sign int) Value {
	var best, bestKey Value = &undefined{what: "min or max of nothing"}, nil
	n := 0
	for v := range e.each(in) {
		key := e.ignoreCase(v)
		if n++; n == 1 || e.inTurn(key, bestKey)*sign > 0 {
			best, bestKey = v, key
		}
	}
	return best
}

// sort sorts by lists of one key, as Jinja does: equal members need no order.
func sort(e *evaluation, in Value, args []Value) Value {
	type keyed struct{ key, value Value }
	members, sign := e.members(in), 1
	if flag(args[0]) {
		sign = -1
	}
	pairs := make([]keyed, len(members))
	for i, v := range members {
		e.grow(memberSize)
		pairs[i] = keyed{&list{members: []Value{e.ignoreCase(v)}}, v}
	}
	slices.SortStableFunc(pairs, func(a, b keyed) int { return sign * e.inTurn(a.key, b.key) })
	for i := range pairs {
		members[i] = pairs[i].value
	}
	return &list{members: members}
}

// ignoreCase returns a text in lower case, and any other value unchanged.
func (e *evaluation) ignoreCase(v Value) Value {
	switch v := v.(type) {
	case string:
		e.grow(len(v))
		return lower(v)
	case markup:
		panic(unusableMarkup(v))
	default:
		return v
	}
}

// inTurn is order for values of which none may be nan.
func (e *evaluation) inTurn(a, b Value) int {
	c, ok := e.order(a, b, 0)
	if !ok {
		panic(failf("nan has no place in an order"))
	}
	return c
}
