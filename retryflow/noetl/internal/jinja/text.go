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
func (e *evaluation) str(v Value) (string, error) {
	if s, ok := textOf(v); ok {
		return s, nil
	}
	w := writer{e: e}
	err := w.repr(v, 0)
	return w.b.String(), err
}

// A writer writes values as Python's repr does.
type writer struct {
	e *evaluation
	b strings.Builder
}

func (w *writer) write(s string) error {
	w.b.WriteString(s)
	return w.e.grow(len(s))
}

// quoted writes the literal of a text.
func (w *writer) quoted(s string, quote func(string) string) error {
	if err := w.e.read(len(s)); err != nil {
		return err
	}
	return w.write(quote(s))
}

func (w *writer) repr(v Value, depth int) error {
	if err := w.e.visit(depth); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		return w.write("None")
	case bool:
		return w.write(kind(v))
	case *big.Int:
		return w.write(v.String())
	case float64:
		return w.write(formatFloat(v))
	case string:
		return w.quoted(v, quote)
	case interval:
		if v.step == 1 {
			return w.write(fmt.Sprintf("range(%d, %d)", v.start, v.stop))
		}
		return w.write(fmt.Sprintf("range(%d, %d, %d)", v.start, v.stop, v.step))
	case sequence:
		return w.sequence(v, depth)
	case mapping:
		pairs, err := w.e.inOrder(v)
		if err != nil {
			return err
		}
		return w.members("{", "}", len(pairs), func(i int) error {
			if err := w.repr(pairs[i].key, depth+1); err != nil {
				return err
			}
			if err := w.write(": "); err != nil {
				return err
			}
			return w.repr(pairs[i].value, depth+1)
		})
	case *undefined:
		switch {
		case depth > 0:
			return w.write("Undefined")
		case v.lenient:
			return nil
		}
	case view:
		members, err := w.e.members(v)
		if err != nil {
			return err
		}
		if err := w.write("dict_" + v.kind + "("); err != nil {
			return err
		}
		if err := w.sequence(&list{members: members}, depth+1); err != nil {
			return err
		}
		return w.write(")")
	}
	return unusable(v)
}

func (w *writer) sequence(s sequence, depth int) error {
	open, close := "[", "]"
	if isTuple(s) {
		open, close = "(", ")"
		if s.length() == 1 {
			close = ",)"
		}
	}
	return w.members(open, close, s.length(), func(i int) error {
		member, err := s.at(w.e, i)
		if err != nil {
			return err
		}
		return w.repr(member, depth+1)
	})
}

func (w *writer) members(open, close string, n int, member func(i int) error) error {
	if err := w.write(open); err != nil {
		return err
	}
	for i := range n {
		if i > 0 {
			if err := w.write(", "); err != nil {
				return err
			}
		}
		if err := member(i); err != nil {
			return err
		}
	}
	return w.write(close)
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
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte(quotes)
	return b.String()
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

// capitalize returns s with its first letter in title case and the others in
// lower case.
func capitalize(s string) string {
	for _, r := range s {
		first := string(r)
		return title(r) + lower(s)[len(lower(first)):]
	}
	return s
}

// title returns the title case of a letter.
func title(r rune) string {
	if r < 0x80 {
		return string(unicode.ToUpper(r))
	}
	letter := string(r)
	if s := cases.Title(language.Und, cases.NoLower).String(letter); s != letter {
		return s
	}
	return string(unicode.ToTitle(r)) // ToTitle knows more letters, but maps each to only one
}

func isLower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }
func isUpper(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }

// isCase reports whether s has a letter for which is returns true, and no
// letter of the other case.
func isCase(s string, is, other func(rune) bool) bool {
	return strings.IndexFunc(s, is) >= 0 && strings.IndexFunc(s, func(r rune) bool { return other(r) || unicode.IsTitle(r) }) < 0
}
