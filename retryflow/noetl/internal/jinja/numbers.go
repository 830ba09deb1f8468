package jinja

import (
	"math"
	"math/big"
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

// trimmed returns a text without the spaces around it. It rejects digits outside of ASCII, such as
// the Arabic-Indic digit ٣, although Python accepts them.
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

// isNumber reports whether v is a number. True and False are numbers, as in Python.
func isNumber(v Value) bool {
	_, ok := whole(v)
	return ok || isA[float64](v)
}

// whole returns the integer value of a bool or an integer.
func whole(v Value) (n int64, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return v, true
	default:
		return 0, false
	}
}

// float returns a number as a float64.
func float(v Value) float64 {
	if n, ok := whole(v); ok {
		return float64(n)
	}
	return v.(float64)
}

// exact returns a number as a big.Float, without rounding.
func exact(v Value) *big.Float {
	if n, ok := whole(v); ok {
		return new(big.Float).SetInt64(n)
	}
	return big.NewFloat(v.(float64))
}

// maxExact is 2^53. From this number on, several integers may become the same float64.
const maxExact = 1 << 53

// formatFloat returns the shortest text for f, in Python's form.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	if n, _ := strconv.Atoi(exponent); n < -4 || n >= 16 {
		return mantissa + "e" + exponent
	}
	text = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
