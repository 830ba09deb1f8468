package jinja

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

func tooLarge() failure { return failf("a whole number is larger than 64 bits can hold") }

// parseInt converts a text of digits to a whole number.
func parseInt(digits string) Value {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		panic(tooLarge())
	}
	return n
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

var (
	floatText = regexp.MustCompile(`(?i)^[+-]?(inf(inity)?|nan|` +
		`([0-9](_?[0-9])*\.?([0-9](_?[0-9])*)?|\.[0-9](_?[0-9])*)(e[+-]?[0-9](_?[0-9])*)?)$`)
	intText = regexp.MustCompile(`^[+-]?[0-9](_?[0-9])*$`)
)

// parseFloat reads a float as Python does.
func parseFloat(text string) (float64, bool) {
	if !floatText.MatchString(text) {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

// trimmed returns a text without the spaces around it. It rejects digits of other scripts, such
// as Arabic digits, although Python accepts them.
func (e *evaluation) trimmed(v Value) string {
	text, _ := textOf(v)
	e.grow(len(text))
	text = strings.TrimSpace(text)
	for _, r := range text {
		if r >= 0x80 && unicode.IsNumber(r) {
			panic(failf("the digit %q is not supported", r))
		}
	}
	return text
}
