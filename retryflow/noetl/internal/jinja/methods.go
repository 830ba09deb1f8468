package jinja

import (
	"strings"
	"unicode"
)

// These are the attributes of Python's types. They hide items with the same
// name.
var (
	mappingAttributes = strings.Fields("clear copy fromkeys get items keys pop popitem setdefault update values")
	tupleAttributes   = []string{"count", "index"}
	listAttributes    = strings.Fields("append clear copy count extend index insert pop remove reverse sort")
	numberAttributes  = strings.Fields("as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag is_integer numerator real to_bytes")
	textAttributes    = strings.Fields("capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii isdecimal " +
		"isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix " +
		"replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill")
)

// methods are the methods: get of mappings, and the others of texts.
var methods = map[string]*function{
	"endswith":   ofText("suffix!?", endsWith),
	"get":        {params("key!? default?"), get},
	"isdigit":    ofText("", isDigit),
	"join":       ofText("iterable!?", joinMethod),
	"lower":      ofText("", lowerMethod),
	"lstrip":     ofText("chars?", stripLeft),
	"replace":    ofText("old!? new!?", replaceMethod),
	"rstrip":     ofText("chars?", stripRight),
	"split":      ofText("sep", splitMethod),
	"startswith": ofText("prefix!?", startsWith),
	"strip":      ofText("chars?", strip),
	"upper":      ofText("", upperMethod),
}

// ofText makes a method of texts.
func ofText(list string, call func(e *evaluation, s string, args []Value) Value) *function {
	return &function{params(list), func(e *evaluation, in Value, args []Value) Value {
		s, ok := in.(string)
		if !ok {
			panic(wrong(in, "%s is not a text, which this method is for", kind(in)))
		}
		e.grow(len(s))
		return call(e, s, args)
	}}
}

func get(e *evaluation, in Value, args []Value) Value {
	m, ok := in.(mapping)
	if !ok {
		panic(wrong(in, "%s is not a mapping, which the method get is for", kind(in)))
	}
	checkKey(args[0])
	v, ok := m.get(e, args[0])
	if !ok && !isMissing(args[1]) {
		return args[1]
	}
	return v
}

func lowerMethod(e *evaluation, s string, _ []Value) Value { return e.text(lower(s)) }
func upperMethod(e *evaluation, s string, _ []Value) Value { return e.text(upper(s)) }

func startsWith(_ *evaluation, s string, args []Value) Value {
	return strings.HasPrefix(s, affix("prefix", args[0]))
}

func endsWith(_ *evaluation, s string, args []Value) Value {
	return strings.HasSuffix(s, affix("suffix", args[0]))
}

func affix(name string, v Value) string {
	if l, ok := v.(*list); ok && l.tuple {
		panic(failf("a tuple as the argument %s is not supported: write one text", name))
	}
	return textArg(name, v)
}

func strip(e *evaluation, s string, args []Value) Value { return e.strip(s, args[0], strings.TrimFunc) }

func stripLeft(e *evaluation, s string, args []Value) Value {
	return e.strip(s, args[0], strings.TrimLeftFunc)
}

func stripRight(e *evaluation, s string, args []Value) Value {
	return e.strip(s, args[0], strings.TrimRightFunc)
}

// strip trims chars, or spaces if chars is missing or none.
func (e *evaluation) strip(s string, chars Value, trim func(string, func(rune) bool) string) Value {
	if chars == nil || isMissing(chars) {
		return trim(s, isSpace)
	}
	text := textArg("chars", chars)
	e.grow(len(text))
	set := map[rune]bool{}
	for _, r := range text {
		set[r] = true
	}
	return trim(s, func(r rune) bool { return set[r] })
}

func replaceMethod(e *evaluation, s string, args []Value) Value {
	return e.replaced(s, textArg("old", args[0]), textArg("new", args[1]))
}

func joinMethod(e *evaluation, s string, args []Value) Value {
	return e.joined(args[0], s, func(v Value) string { return textArg("iterable", v) })
}

// splitMethod splits a text at a separator, or at runs of spaces if it is missing or
// none.
func splitMethod(e *evaluation, s string, args []Value) Value {
	var parts []string
	if args[0] == nil || isMissing(args[0]) {
		parts = strings.FieldsFunc(s, isSpace)
	} else if sep := textArg("sep", args[0]); sep != "" {
		parts = strings.Split(s, sep)
	} else {
		panic(failf("the separator is empty"))
	}
	e.grow(memberSize * len(parts))
	members := make([]Value, len(parts))
	for i, part := range parts {
		members[i] = part
	}
	return &list{members: members}
}

// isDigit rejects characters that Python takes for digits and Go does not.
func isDigit(_ *evaluation, s string, _ []Value) Value {
	for _, r := range s {
		switch {
		case unicode.IsDigit(r):
		case unicode.IsNumber(r):
			panic(failf("the digit %q is not supported", r))
		default:
			return false
		}
	}
	return s != ""
}
