package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// str returns the text of v, as Python's str does.
func (e *evaluation) str(v Value) string {
	if s, ok := textOf(v); ok {
		return s
	}
	w := writer{e: e}
	w.repr(v, 0)
	return w.b.String()
}

// A writer writes values as Python's repr does.
type writer struct {
	e *evaluation
	b strings.Builder
}

func (w *writer) write(s string) {
	w.b.WriteString(s)
	w.e.grow(len(s))
}

// quoted writes the literal of a text.
func (w *writer) quoted(s string, quote func(string) string) {
	w.e.read(len(s))
	w.write(quote(s))
}

func (w *writer) repr(v Value, depth int) {
	w.e.visit(depth)
	switch v := v.(type) {
	case nil:
		w.write("None")
	case bool:
		w.write(kind(v))
	case *big.Int:
		w.write(v.String())
	case float64:
		w.write(formatFloat(v))
	case string:
		w.quoted(v, quote)
	case sequence:
		w.sequence(v, depth)
	case mapping:
		pairs := w.e.inOrder(v)
		w.members("{", "}", len(pairs), func(i int) {
			w.repr(pairs[i].key, depth+1)
			w.write(": ")
			w.repr(pairs[i].value, depth+1)
		})
	case *undefined:
		switch {
		case depth > 0:
			w.write("Undefined")
		case !v.lenient:
			panic(v.err())
		}
	default:
		panic(unusable(v))
	}
}

func (w *writer) sequence(s sequence, depth int) {
	open, close := "[", "]"
	if isTuple(s) {
		open, close = "(", ")"
		if s.length() == 1 {
			close = ",)"
		}
	}
	w.members(open, close, s.length(), func(i int) { w.repr(s.at(w.e, i), depth+1) })
}

func (w *writer) members(open, close string, n int, member func(i int)) {
	w.write(open)
	for i := range n {
		if i > 0 {
			w.write(", ")
		}
		member(i)
	}
	w.write(close)
}

// offset returns where the letter with an index begins in s.
func offset(s string, index int) int {
	for at := range s {
		if index == 0 {
			return at
		}
		index--
	}
	return len(s)
}

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

// quote returns a text as a Python literal.
func quote(s string) string {
	quotes := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quotes = '"'
	}
	var b strings.Builder
	b.WriteByte(quotes)
	for _, r := range s {
		switch {
		case r == rune(quotes) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteString(jsonEscapes[r])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(escaped(r))
		}
	}
	b.WriteByte(quotes)
	return b.String()
}

// escaped returns the shortest escape of a letter.
func escaped(r rune) string {
	switch {
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	default:
		return fmt.Sprintf(`\U%08x`, r)
	}
}

// lower and upper map one letter to several if Unicode says so, which package
// strings does not do.
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
