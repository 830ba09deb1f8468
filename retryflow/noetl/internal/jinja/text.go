package jinja

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// str returns the text of v, as Python's str does. It fails for a mapping: Python writes the keys
// of a mapping in their original order, and a Go map does not keep this order. It also fails for a
// list, because a list may contain mappings.
func (e *evaluation) str(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool, int64, float64:
		return kind(v)
	case string:
		return v
	case markup:
		return string(v)
	case sized:
		panic(failf("%s has no text here: write | tojson, or name a member", kind(v)))
	default:
		panic(wrong(v, "%s has no text: write one of its fields", kind(v)))
	}
}

// textOf returns v as a Go string if v is a string or a markup. For any other value it returns
// false.
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

// `lower` and `upper` can replace one letter with several letters, as Unicode says. The functions
// of package strings cannot do this.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und, cases.HandleFinalSigma(true)).String(s)
}

func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s)
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
