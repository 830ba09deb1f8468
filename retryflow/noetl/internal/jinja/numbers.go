package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// toIntFilter is the filter int.
func toIntFilter(e *evaluation, in Value, args []Value) (Value, error) {
	otherwise := args[0]
	if isMissing(otherwise) {
		otherwise = big.NewInt(0)
	}
	base, err := integerArg("base", args[1], 10)
	if err != nil {
		return nil, err
	}
	if n := whole(in); n != nil {
		return n, nil
	}
	f := math.NaN()
	switch in := in.(type) {
	case float64:
		f = in
	case string, markup:
		text, _ := textOf(in)
		n, ok, err := e.parseInt(text, base)
		if err != nil || ok {
			return n, err
		}
		if f, ok, err = e.parseFloat(text); err != nil || !ok {
			return otherwise, err
		}
	case *undefined:
		return nil, in.err()
	}
	switch {
	case math.IsNaN(f):
		return otherwise, nil
	case math.IsInf(f, 0):
		return nil, errors.New("infinity is not a whole number (what int makes of it depends on the version of Jinja)")
	}
	n, _ := big.NewFloat(f).Int(nil)
	return integer(n)
}

// toFloatFilter is the filter float.
func toFloatFilter(e *evaluation, in Value, args []Value) (Value, error) {
	if isNumber(in) {
		return toFloat(in)
	}
	if u, ok := in.(*undefined); ok {
		return nil, u.err()
	}
	if text, ok := textOf(in); ok {
		if f, ok, err := e.parseFloat(text); err != nil || ok {
			return f, err
		}
	}
	if isMissing(args[0]) {
		return 0.0, nil
	}
	return args[0], nil
}

var (
	floatText = regexp.MustCompile(`^[+-]?(inf(inity)?|nan|([0-9](_?[0-9])*\.?([0-9](_?[0-9])*)?|\.[0-9](_?[0-9])*)(e[+-]?[0-9](_?[0-9])*)?)$`)
	digits    = map[int]*regexp.Regexp{2: regexp.MustCompile(`^0b_?`), 8: regexp.MustCompile(`^0o_?`), 16: regexp.MustCompile(`^0x_?`)}
	underline = regexp.MustCompile(`^_|__|_$`)
	zeros     = regexp.MustCompile(`^0(_?0)*$`)
)

// parseFloat reads a float as Python does.
func (e *evaluation) parseFloat(text string) (float64, bool, error) {
	text, err := e.numeral(text)
	if err != nil {
		return 0, false, err
	}
	if !floatText.MatchString(text) {
		return 0, false, nil
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0), nil
}

// parseInt reads an integer as Python does.
func (e *evaluation) parseInt(text string, base int) (Value, bool, error) {
	if base != 0 && (base < 2 || base > 36) {
		return nil, false, nil
	}
	text, err := e.numeral(text)
	if err != nil {
		return nil, false, err
	}
	sign, text := cutSign(text)
	for b, prefix := range digits {
		if cut := prefix.FindString(text); cut != "" && (base == 0 || base == b) {
			text, base = text[len(cut):], b
			break
		}
	}
	if base == 0 {
		if strings.HasPrefix(text, "0") && !zeros.MatchString(text) {
			return nil, false, nil
		}
		base = 10
	}
	if underline.MatchString(text) {
		return nil, false, nil
	}
	if len(text) > maxBits {
		return nil, false, fmt.Errorf("a number has %d digits", len(text))
	}
	n, ok := new(big.Int).SetString(sign+strings.ReplaceAll(text, "_", ""), base)
	if !ok || text == "" || text[0] == '+' || text[0] == '-' {
		return nil, false, nil
	}
	v, err := integer(n)
	return v, true, err
}

func cutSign(text string) (sign, rest string) {
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		return text[:1], text[1:]
	}
	return "", text
}

// numeral returns a text in lower case and without the spaces around it. It
// rejects the digits of other scripts, although Python accepts them.
func (e *evaluation) numeral(text string) (string, error) {
	if err := e.grow(len(text)); err != nil {
		return "", err
	}
	text = strings.ToLower(strings.TrimFunc(text, isSpace))
	for _, r := range text {
		if r >= 0x80 && unicode.IsNumber(r) {
			return "", fmt.Errorf("the digit %q is not supported", r)
		}
	}
	return text, nil
}
