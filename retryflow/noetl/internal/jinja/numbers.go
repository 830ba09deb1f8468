package jinja

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// toIntFilter is the filter int.
func toIntFilter(e *evaluation, in Value, args []Value) Value {
	otherwise := args[0]
	if isMissing(otherwise) {
		otherwise = big.NewInt(0)
	}
	if n := whole(in); n != nil {
		return n
	}
	f := math.NaN()
	switch in := in.(type) {
	case float64:
		f = in
	case string, markup:
		text, _ := textOf(in)
		if n, ok := e.parseInt(text); ok {
			return n
		}
		if g, ok := e.parseFloat(text); ok {
			f = g
		}
	case *undefined:
		panic(in.err())
	}
	switch {
	case math.IsNaN(f):
		return otherwise
	case math.IsInf(f, 0):
		panic(failf("infinity is not a whole number (what int makes of it depends on the version of Jinja)"))
	}
	n, _ := big.NewFloat(f).Int(nil)
	return integer(n)
}

// toFloatFilter is the filter float.
func toFloatFilter(e *evaluation, in Value, args []Value) Value {
	if isNumber(in) {
		return toFloat(in)
	}
	if u, ok := in.(*undefined); ok {
		panic(u.err())
	}
	if text, ok := textOf(in); ok {
		if f, ok := e.parseFloat(text); ok {
			return f
		}
	}
	if isMissing(args[0]) {
		return 0.0
	}
	return args[0]
}

var (
	floatText = regexp.MustCompile(`^[+-]?(inf(inity)?|nan|([0-9](_?[0-9])*\.?([0-9](_?[0-9])*)?|\.[0-9](_?[0-9])*)(e[+-]?[0-9](_?[0-9])*)?)$`)
	intText   = regexp.MustCompile(`^[+-]?[0-9](_?[0-9])*$`)
)

// parseFloat reads a float as Python does.
func (e *evaluation) parseFloat(text string) (float64, bool) {
	text = e.numeral(text)
	if !floatText.MatchString(text) {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

// parseInt reads an integer as Python does.
func (e *evaluation) parseInt(text string) (Value, bool) {
	text = e.numeral(text)
	if !intText.MatchString(text) {
		return nil, false
	}
	if len(text) > maxBits {
		panic(failf("a number has %d digits, and more than %d are not supported", len(text), maxBits))
	}
	n, _ := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 10)
	return integer(n), true
}

// numeral returns a text in lower case and without the spaces around it. It
// rejects the digits of other scripts, although Python accepts them.
func (e *evaluation) numeral(text string) string {
	e.grow(len(text))
	text = strings.ToLower(strings.TrimFunc(text, isSpace))
	for _, r := range text {
		if r >= 0x80 && unicode.IsNumber(r) {
			panic(failf("the digit %q is not supported", r))
		}
	}
	return text
}
