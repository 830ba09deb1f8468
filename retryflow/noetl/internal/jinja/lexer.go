package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A token is a name, a literal or an operator in an expression. The kind of an operator is the
// operator itself.
type token struct {
	kind  string // name, string, number, end, or an operator
	text  string // the text in the template, or the value of a string literal
	value Value  // the value of a number
}

func (t token) String() string {
	switch t.kind {
	case "end":
		return "the end of the expression"
	case "string":
		return fmt.Sprintf("the text %.40q", t.text)
	default:
		return strconv.Quote(t.text)
	}
}

// A segment of a template is a text, or the tokens of a {{ … }}.
type segment struct {
	text   string
	tokens []token // nil if the segment is a text
}

// split splits a template into segments.
func split(source string) []segment {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	source = strings.TrimSuffix(source, "\n")
	var segments []segment
	for source != "" {
		text, rest, found := cutTag(source)
		if found && rest[1] != '{' {
			if rest[1] == '#' {
				panic(failf("comments ({# … #}) are not allowed: write {{ … }}"))
			}
			panic(failf("statements ({%% … %%}) are not allowed: write {{ … }}"))
		}
		if found {
			rest = rest[len("{{"):]
			if strings.HasPrefix(rest, "-") {
				text = strings.TrimRightFunc(text, isSpace)
			}
			rest = strings.TrimPrefix(strings.TrimPrefix(rest, "-"), "+")
		}
		if text != "" {
			segments = append(segments, segment{text: text})
		}
		if !found {
			break
		}
		tokens, after := tokenize(rest)
		segments = append(segments, segment{tokens: tokens})
		source = after
	}
	return segments
}

// cutTag cuts `source` before the first {{, {% or {#. `found` reports whether there is one of these
// tags.
func cutTag(source string) (text, rest string, found bool) {
	for i := 0; i+1 < len(source); i++ {
		if source[i] == '{' && strings.IndexByte("{%#", source[i+1]) >= 0 {
			return source[:i], source[i:], true
		}
	}
	return source, "", false
}

// These are the words of Jinja's grammar.
var (
	numberWord = regexp.MustCompile(
		`^[0-9]+(_[0-9]+)*(\.[0-9]+(_[0-9]+)*)?([eE][+-]?[0-9]+(_[0-9]+)*)?`)
	stringWord = regexp.MustCompile(`(?s)^('([^'\\]*(\\.[^'\\]*)*)'|"([^"\\]*(\\.[^"\\]*)*)")`)
	operators  = []string{
		"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~",
		"[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
	}
	closing = map[string]string{"{": "}", "(": ")", "[": "]"}
)

// tokenize returns the tokens up to }}, and the source after }}.
func tokenize(source string) (tokens []token, rest string) {
	var open []string // the closing brackets that are still missing
	for {
		if len(open) == 0 {
			if after, ok := strings.CutPrefix(source, "-}}"); ok {
				return append(tokens, token{kind: "end"}), strings.TrimLeftFunc(after, isSpace)
			}
			if after, ok := strings.CutPrefix(source, "}}"); ok {
				return append(tokens, token{kind: "end"}), after
			}
		}
		if source == "" {
			panic(failf("the }} is missing"))
		}
		if trimmed := strings.TrimLeftFunc(source, isSpace); len(trimmed) < len(source) {
			source = trimmed
			continue
		}
		t, length := word(source)
		switch {
		case closing[t.kind] != "":
			open = append(open, closing[t.kind])
		case t.kind == "}" || t.kind == ")" || t.kind == "]":
			if len(open) == 0 {
				panic(failf("unexpected %q", t.kind))
			}
			if wanted := open[len(open)-1]; wanted != t.kind {
				panic(failf("expected %q, got %q", wanted, t.kind))
			}
			open = open[:len(open)-1]
		}
		if len(open) > maxNesting {
			panic(failf("brackets are nested more than %d deep", maxNesting))
		}
		tokens = append(tokens, t)
		source = source[length:]
	}
}

// word returns the first token of the text `source`, and the length of this token in the text.
func word(source string) (t token, length int) {
	if m := numberWord.FindString(source); m != "" {
		return token{"number", m, numeral(m)}, len(m)
	}
	if m := nameLength(source); m > 0 {
		return token{kind: "name", text: source[:m]}, m
	}
	if m := stringWord.FindString(source); m != "" {
		return token{kind: "string", text: unescape(m[1 : len(m)-1])}, len(m)
	}
	for _, op := range operators {
		if strings.HasPrefix(source, op) {
			return token{kind: op, text: op}, len(op)
		}
	}
	r, _ := utf8.DecodeRuneInString(source)
	if r == '\'' || r == '"' {
		panic(failf("a text has no closing %c", r))
	}
	panic(failf("unexpected character %q", r))
}

// numeral returns the value of a number literal.
func numeral(literal string) Value {
	digits := strings.ReplaceAll(literal, "_", "")
	if strings.ContainsAny(digits, ".eE") {
		f, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			panic(failf("the number %.40s is too large", literal))
		}
		return f
	}
	if strings.TrimLeft(digits, "0") != digits && strings.Trim(digits, "0") != "" {
		panic(failf("the number %.40s begins with 0", literal))
	}
	return parseInt(digits)
}

// nameLength returns the length of the name at the start of the text `source`. It returns 0 if the
// text does not start with a name.
func nameLength(source string) int {
	for i, r := range source {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return i
		}
	}
	return len(source)
}

// isSpace reports whether Python treats r as a space. Such a character separates tokens.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

var escapes = map[byte]string{'\\': `\`, '\'': `'`, '"': `"`, 'n': "\n", 'r': "\r", 't': "\t"}

// unescape replaces the escapes in a string literal.
func unescape(literal string) string {
	var b strings.Builder
	for s := literal; s != ""; {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			break
		}
		letter, ok := escapes[after[0]]
		if !ok {
			r, _ := utf8.DecodeRuneInString(after)
			panic(failf(`the escape \%c is not supported: `+
				`write the letter itself, or \\ for a backslash`, r))
		}
		b.WriteString(letter)
		s = after[1:]
	}
	return b.String()
}
