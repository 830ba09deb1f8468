package jinja

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A token is a word of an expression. The kind of an operator is the operator
// itself.
type token struct {
	kind  string // name, string, number, end, or an operator
	text  string // as written; for a string literal its value
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

// A segment of a template is text or the tokens of a {{ … }}.
type segment struct {
	text   string
	tokens []token // nil for text
}

// split splits a template into segments.
func split(source string) ([]segment, error) {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	source = strings.TrimSuffix(source, "\n")
	var segments []segment
	for source != "" {
		text, rest, found := cutTag(source)
		if found && rest[1] != '{' {
			if rest[1] == '#' {
				return nil, errors.New("comments ({# … #}) are not allowed: write {{ … }}")
			}
			return nil, errors.New("statements ({% … %}) are not allowed: write {{ … }}")
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
		tokens, after, err := tokenize(rest)
		if err != nil {
			return nil, err
		}
		segments = append(segments, segment{tokens: tokens})
		source = after
	}
	return segments, nil
}

// cutTag cuts source at the first tag.
func cutTag(source string) (text, rest string, found bool) {
	for i := 0; i+1 < len(source); i++ {
		if source[i] == '{' && strings.IndexByte("{%#", source[i+1]) >= 0 {
			return source[:i], source[i:], true
		}
	}
	return source, "", false
}

// These match the words of Jinja's grammar. Jinja tries them in this order.
var (
	floatWord   = regexp.MustCompile(`^([0-9]+_)*[0-9]+((\.([0-9]+_)*[0-9]+)?[eE][+-]?([0-9]+_)*[0-9]+|\.([0-9]+_)*[0-9]+)`)
	integerWord = regexp.MustCompile(`^(0[bB](_?[01])+|0[oO](_?[0-7])+|0[xX](_?[0-9a-fA-F])+|[1-9](_?[0-9])*|0(_?0)*)`)
	stringWord  = regexp.MustCompile(`(?s)^('([^'\\]*(\\.[^'\\]*)*)'|"([^"\\]*(\\.[^"\\]*)*)")`)
	operators   = []string{"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}
	closing     = map[string]string{"{": "}", "(": ")", "[": "]"}
)

// tokenize returns the tokens up to }}, and the rest of source.
func tokenize(source string) (tokens []token, rest string, err error) {
	var open []string // the brackets that are still open
	afterDot := false
	for {
		if len(open) == 0 {
			if after, ok := strings.CutPrefix(source, "-}}"); ok {
				return append(tokens, token{kind: "end"}), strings.TrimLeftFunc(after, isSpace), nil
			}
			if after, ok := strings.CutPrefix(source, "}}"); ok {
				return append(tokens, token{kind: "end"}), after, nil
			}
		}
		if source == "" {
			return nil, "", errors.New("the }} is missing")
		}
		if trimmed := strings.TrimLeftFunc(source, isSpace); len(trimmed) < len(source) {
			source, afterDot = trimmed, false
			continue
		}
		t, length, err := word(source, afterDot)
		if err != nil {
			return nil, "", err
		}
		switch {
		case closing[t.kind] != "":
			open = append(open, closing[t.kind])
		case t.kind == "}" || t.kind == ")" || t.kind == "]":
			if len(open) == 0 {
				return nil, "", fmt.Errorf("unexpected %q", t.kind)
			}
			if wanted := open[len(open)-1]; wanted != t.kind {
				return nil, "", fmt.Errorf("expected %q, got %q", wanted, t.kind)
			}
			open = open[:len(open)-1]
		}
		if len(open) > maxNesting {
			return nil, "", fmt.Errorf("brackets are nested more than %d deep", maxNesting)
		}
		tokens = append(tokens, t)
		source, afterDot = source[length:], t.kind == "."
	}
}

// word returns the first token of source, and its length.
func word(source string, afterDot bool) (t token, length int, err error) {
	if m := floatWord.FindString(source); m != "" && !afterDot {
		f, err := strconv.ParseFloat(strings.ReplaceAll(m, "_", ""), 64)
		if err != nil {
			return token{}, 0, fmt.Errorf("the number %.40s is too large", m)
		}
		return token{"number", m, f}, len(m), nil
	}
	if m := integerWord.FindString(source); m != "" {
		n, ok := new(big.Int).SetString(m, 0)
		if !ok { // Python reads 00 and 0_0 as zero
			n = new(big.Int)
		}
		v, err := integer(n)
		return token{"number", m, v}, len(m), err
	}
	if m := nameLength(source); m > 0 {
		return token{kind: "name", text: source[:m]}, m, nil
	}
	if m := stringWord.FindString(source); m != "" {
		s, err := unescape(m[1 : len(m)-1])
		return token{kind: "string", text: s}, len(m), err
	}
	for _, op := range operators {
		if strings.HasPrefix(source, op) {
			return token{kind: op, text: op}, len(op), nil
		}
	}
	r, _ := utf8.DecodeRuneInString(source)
	if r == '\'' || r == '"' {
		return token{}, 0, fmt.Errorf("a text has no closing %c", r)
	}
	return token{}, 0, fmt.Errorf("unexpected character %q", r)
}

// nameLength returns the length of the name at the start of source, or 0 if
// there is none.
func nameLength(source string) int {
	for i, r := range source {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return i
		}
	}
	return len(source)
}

// isSpace reports whether Python treats r as a space.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// unescape returns the text of a literal. As in Jinja, a letter beyond ASCII is
// turned into an escape first, which makes a difference after a backslash.
func unescape(literal string) (string, error) {
	if !strings.ContainsRune(literal, '\\') {
		return literal, nil
	}
	var ascii strings.Builder
	for _, r := range literal {
		switch {
		case r < 0x80:
			ascii.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&ascii, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		default:
			fmt.Fprintf(&ascii, `\U%08x`, r)
		}
	}
	var b strings.Builder
	for s := ascii.String(); s != ""; {
		if s[0] != '\\' {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		r, length, err := escape(s)
		if err != nil {
			return "", err
		}
		if r >= 0 {
			b.WriteRune(r)
		} else if length == 1 { // not an escape: the backslash stays
			b.WriteByte('\\')
		}
		s = s[length:]
	}
	return b.String(), nil
}

var simpleEscapes = map[byte]rune{'\\': '\\', '\'': '\'', '"': '"', 'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// escape returns the rune and the length of the escape at the start of s. The
// rune is -1 if the escape stands for nothing.
func escape(s string) (r rune, length int, err error) {
	c := s[1]
	if r, ok := simpleEscapes[c]; ok {
		return r, 2, nil
	}
	digits, base := 0, 16
	switch {
	case c == '\n':
		return -1, 2, nil
	case c == 'N':
		return 0, 0, errors.New(`the escape \N{…} is not supported: write the letter`)
	case c == 'x':
		digits = 2
	case c == 'u':
		digits = 4
	case c == 'U':
		digits = 8
	case '0' <= c && c <= '7':
		base = 8
		for digits = 1; digits < 3 && 1+digits < len(s) && '0' <= s[1+digits] && s[1+digits] <= '7'; digits++ {
		}
		n, err := strconv.ParseUint(s[1:1+digits], base, 32)
		return rune(n), 1 + digits, err
	default:
		return -1, 1, nil
	}
	if len(s) < 2+digits {
		return 0, 0, fmt.Errorf("the escape %s needs %d digits", s, digits)
	}
	n, err := strconv.ParseUint(s[2:2+digits], base, 32)
	if err != nil || n > unicode.MaxRune || 0xd800 <= n && n < 0xe000 {
		return 0, 0, fmt.Errorf("the escape %s is not a letter", s[:2+digits])
	}
	return rune(n), 2 + digits, nil
}
