package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// These are the attributes of Python's types. They hide items with the same
// name.
var (
	mappingAttributes = strings.Fields("clear copy fromkeys get items keys pop popitem setdefault update values")
	listAttributes    = strings.Fields("append clear copy count extend index insert pop remove reverse sort")
	numberAttributes  = strings.Fields("as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag is_integer numerator real to_bytes")
	textAttributes    = strings.Fields("capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii isdecimal " +
		"isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix " +
		"replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill")
)

// ofText makes a method of texts.
func ofText(list string, call func(e *evaluation, s string, args []Value) (Value, error)) *function {
	return &function{params(list), func(e *evaluation, in Value, args []Value) (Value, error) {
		s := in.(string)
		if err := e.grow(len(s)); err != nil {
			return nil, err
		}
		return call(e, s, args)
	}}
}

func mapped(f func(string) string) *function {
	return ofText("", func(e *evaluation, s string, _ []Value) (Value, error) { return e.text(f(s)) })
}

// allOf makes a method that reports whether is returns true for every letter of
// a text, and the text is not empty.
func allOf(is func(rune) bool) *function {
	return ofText("", func(_ *evaluation, s string, _ []Value) (Value, error) {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0, nil
	})
}

var methods map[string]map[string]*function // by name, and by the kind of value

func init() {
	texts := map[string]*function{
		"lower": mapped(lower), "upper": mapped(upper), "capitalize": mapped(capitalize), "title": mapped(titleMethod),
		"strip": stripping(strings.TrimFunc), "lstrip": stripping(strings.TrimLeftFunc), "rstrip": stripping(strings.TrimRightFunc),
		"ljust": padding(left), "rjust": padding(right), "center": padding(center),
		"isalpha": allOf(unicode.IsLetter), "isspace": allOf(isSpace),
		"isdigit": digitMethod(false), "isalnum": digitMethod(true),
		"islower":    ofText("", func(_ *evaluation, s string, _ []Value) (Value, error) { return isCase(s, isLower, isUpper), nil }),
		"isupper":    ofText("", func(_ *evaluation, s string, _ []Value) (Value, error) { return isCase(s, isUpper, isLower), nil }),
		"startswith": affix(strings.HasPrefix), "endswith": affix(strings.HasSuffix),
		"removeprefix": removing(strings.TrimPrefix), "removesuffix": removing(strings.TrimSuffix),
		"find": finding(strings.Index, false), "rfind": finding(strings.LastIndex, false),
		"index": finding(strings.Index, true), "rindex": finding(strings.LastIndex, true),
		"partition": partition(strings.Index, 0), "rpartition": partition(strings.LastIndex, 2),
		"split": splitting(false), "rsplit": splitting(true),
		"count": ofText("sub!? start? end?", func(_ *evaluation, s string, args []Value) (Value, error) {
			sub, err := textArg("sub", args[0], "")
			if err != nil {
				return nil, err
			}
			part, _, ok, err := window(s, args[1], args[2])
			if !ok || err != nil {
				return integerOf(0), err
			}
			return integerOf(strings.Count(part, sub)), nil
		}),
		"replace": ofText("old!? new!? count?", func(e *evaluation, s string, args []Value) (Value, error) {
			old, err := textArg("old", args[0], "")
			if err != nil {
				return nil, err
			}
			by, err := textArg("new", args[1], "")
			if err != nil {
				return nil, err
			}
			n, err := integerArg("count", args[2], -1)
			if err != nil {
				return nil, err
			}
			return e.replaced(s, old, by, n)
		}),
		"join": ofText("iterable!?", func(e *evaluation, s string, args []Value) (Value, error) {
			var b strings.Builder
			n := 0
			err := e.each(args[0], func(v Value) error {
				part, ok := v.(string)
				if !ok {
					return fmt.Errorf("cannot join %s: it is not a text", kind(v))
				}
				if n++; n > 1 {
					b.WriteString(s)
				}
				b.WriteString(part)
				return e.grow(len(s) + len(part))
			})
			return b.String(), err
		}),
		"splitlines": ofText("keepends", func(e *evaluation, s string, args []Value) (Value, error) {
			keep, err := flag(args[0])
			if err != nil {
				return nil, err
			}
			return e.listOf(splitLines(s, keep))
		}),
		"zfill": ofText("width!?", func(e *evaluation, s string, args []Value) (Value, error) {
			width, err := integerArg("width", args[0], 0)
			if err != nil {
				return nil, err
			}
			missing := width - len([]rune(s))
			if missing <= 0 {
				return s, nil
			}
			if err := e.grow(missing); err != nil {
				return nil, err
			}
			sign, digits := cutSign(s)
			return sign + strings.Repeat("0", missing) + digits, nil
		}),
	}
	mappings := map[string]*function{
		"get": {params("key!? default?"), func(e *evaluation, in Value, args []Value) (Value, error) {
			v, ok, err := in.(mapping).get(e, args[0])
			switch {
			case err != nil || ok:
				return v, err
			case isMissing(args[1]):
				return nil, nil
			default:
				return args[1], nil
			}
		}},
	}
	for _, name := range []string{"keys", "values", "items"} {
		mappings[name] = &function{nil, func(_ *evaluation, in Value, _ []Value) (Value, error) { return view{name, in.(mapping)}, nil }}
	}
	lists := map[string]*function{
		"count": {params("value!?"), func(e *evaluation, in Value, args []Value) (Value, error) {
			n := 0
			err := e.each(in, func(v Value) error {
				same, err := e.identicalOrEqual(v, args[0], 0)
				if same {
					n++
				}
				return err
			})
			return integerOf(n), err
		}},
		"index": {params("value!? start? stop?"), func(e *evaluation, in Value, args []Value) (Value, error) {
			from, to, _, err := sliceOf(args[1:], in.(sequence).length())
			if err != nil {
				return nil, err
			}
			n, at := -1, -1
			err = e.each(in, func(v Value) error {
				if n++; n < from || n >= to {
					return nil
				}
				same, err := e.identicalOrEqual(v, args[0], 0)
				if err == nil && same {
					at, err = n, errStop
				}
				return err
			})
			if err == nil && at < 0 {
				err = fmt.Errorf("%s is not in the list", kind(args[0]))
			}
			return integerOf(at), err
		}},
	}
	methods = map[string]map[string]*function{}
	for kind, of := range map[string]map[string]*function{"text": texts, "mapping": mappings, "list": lists} {
		for name, f := range of {
			if methods[name] == nil {
				methods[name] = map[string]*function{}
			}
			methods[name][kind] = f
		}
	}
}

// listOf returns a list of texts.
func (e *evaluation) listOf(texts []string) (Value, error) {
	if err := e.grow(memberSize * len(texts)); err != nil {
		return nil, err
	}
	members := make([]Value, len(texts))
	for i, s := range texts {
		members[i] = s
	}
	return &list{members: members}, nil
}

// strip trims chars, or spaces if chars is missing or none.
func (e *evaluation) strip(s string, chars Value, trim func(string, func(rune) bool) string) (Value, error) {
	if chars == nil || isMissing(chars) {
		return trim(s, isSpace), nil
	}
	text, err := textArg("chars", chars, "")
	if err == nil {
		err = e.grow(len(text))
	}
	if err != nil {
		return nil, err
	}
	set := map[rune]bool{}
	for _, r := range text {
		set[r] = true
	}
	return trim(s, func(r rune) bool { return set[r] }), nil
}

func stripping(trim func(string, func(rune) bool) string) *function {
	return ofText("chars?", func(e *evaluation, s string, args []Value) (Value, error) { return e.strip(s, args[0], trim) })
}

// left, right and center return how much of the padding goes before a text.
func left(int, int) int         { return 0 }
func right(pad, _ int) int      { return pad }
func center(pad, width int) int { return pad/2 + pad&width&1 }

// pad pads s to a width.
func (e *evaluation) pad(s string, width int, fill string, before func(pad, width int) int) (Value, error) {
	pad := width - len([]rune(s))
	if pad <= 0 {
		return s, nil
	}
	if err := e.grow(pad * len(fill)); err != nil {
		return nil, err
	}
	n := before(pad, width)
	return strings.Repeat(fill, n) + s + strings.Repeat(fill, pad-n), nil
}

func padding(before func(pad, width int) int) *function {
	return ofText("width!? fillchar?", func(e *evaluation, s string, args []Value) (Value, error) {
		width, err := integerArg("width", args[0], 0)
		if err != nil {
			return nil, err
		}
		fill, err := textArg("fillchar", args[1], " ")
		if err != nil {
			return nil, err
		}
		if len([]rune(fill)) != 1 {
			return nil, fmt.Errorf("the argument fillchar is %.40q: write one letter", fill)
		}
		return e.pad(s, width, fill, before)
	})
}

// digitMethod is isdigit or, with letters, isalnum. Python counts some
// characters as digits that are not decimal digits.
func digitMethod(letters bool) *function {
	return ofText("", func(_ *evaluation, s string, _ []Value) (Value, error) {
		all := s != ""
		for _, r := range s {
			switch {
			case unicode.IsDigit(r), letters && unicode.IsLetter(r):
			case unicode.IsNumber(r):
				return nil, fmt.Errorf("the digit %q is not supported", r)
			default:
				all = false
			}
		}
		return all, nil
	})
}

// window returns the part of s from start to end, and its offset. ok is false
// if start is beyond the end of s.
func window(s string, start, end Value) (part string, offset int, ok bool, err error) {
	runes := []rune(s)
	for _, v := range []Value{start, end} {
		if v != nil && !isMissing(v) && whole(v) == nil {
			return "", 0, false, fmt.Errorf("the bound %s is not a whole number", kind(v))
		}
	}
	from, to := bound(whole(start), 0, len(runes), len(runes)+1), bound(whole(end), len(runes), len(runes), len(runes))
	if from > len(runes) || from > to {
		return "", 0, false, nil
	}
	return string(runes[from:to]), from, true, nil
}

// affix makes startswith or endswith. Their argument is a text, or a tuple of
// texts of which one must match.
func affix(has func(s, affix string) bool) *function {
	return ofText("affix!? start? end?", func(e *evaluation, s string, args []Value) (Value, error) {
		affixes := []Value{args[0]}
		if l, ok := args[0].(*list); ok && l.tuple {
			affixes = l.members
		}
		part, _, ok, err := window(s, args[1], args[2])
		if err != nil {
			return nil, err
		}
		found := false
		for _, v := range affixes {
			affix, err := textArg("affix", v, "")
			if err == nil {
				err = e.step(1 + len(affix)/1024)
			}
			if err != nil {
				return nil, err
			}
			found = found || ok && has(part, affix)
		}
		return found, nil
	})
}

func removing(trim func(s, affix string) string) *function {
	return ofText("affix!?", func(_ *evaluation, s string, args []Value) (Value, error) {
		affix, err := textArg("affix", args[0], "")
		return trim(s, affix), err
	})
}

func finding(index func(s, sub string) int, must bool) *function {
	return ofText("sub!? start? end?", func(_ *evaluation, s string, args []Value) (Value, error) {
		sub, err := textArg("sub", args[0], "")
		if err != nil {
			return nil, err
		}
		part, offset, ok, err := window(s, args[1], args[2])
		if err != nil {
			return nil, err
		}
		at := -1
		if ok {
			at = index(part, sub)
		}
		switch {
		case at >= 0:
			return integerOf(offset + len([]rune(part[:at]))), nil
		case must:
			return nil, fmt.Errorf("the text %.40q is not there", sub)
		default:
			return integerOf(-1), nil
		}
	})
}

// partition splits a text at a separator into three parts. If the separator is
// not found, the whole text is the part with the index whole.
func partition(index func(s, sub string) int, whole int) *function {
	return ofText("sep!?", func(e *evaluation, s string, args []Value) (Value, error) {
		sep, err := textArg("sep", args[0], "")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, errors.New("the separator is empty")
		}
		parts := []Value{"", "", ""}
		if at := index(s, sep); at >= 0 {
			parts = []Value{s[:at], sep, s[at+len(sep):]}
		} else {
			parts[whole] = s
		}
		return &list{parts, true}, nil
	})
}

func splitting(fromRight bool) *function {
	return ofText("sep maxsplit", func(e *evaluation, s string, args []Value) (Value, error) {
		most, err := integerArg("maxsplit", args[1], -1)
		if err != nil {
			return nil, err
		}
		if args[0] == nil || isMissing(args[0]) {
			return e.listOf(splitSpaces(s, most, fromRight))
		}
		sep, err := textArg("sep", args[0], "")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, errors.New("the separator is empty")
		}
		return e.listOf(splitBy(s, sep, most, fromRight))
	})
}

func splitBy(s, sep string, most int, fromRight bool) []string {
	if most < 0 {
		most = len(s)
	}
	if !fromRight {
		return strings.SplitN(s, sep, most+1)
	}
	var parts []string
	for ; most > 0; most-- {
		at := strings.LastIndex(s, sep)
		if at < 0 {
			break
		}
		parts = append(parts, s[at+len(sep):])
		s = s[:at]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return parts
}

// splitSpaces splits s at runs of spaces, at most most times, or at all runs if
// most is negative.
func splitSpaces(s string, most int, fromRight bool) []string {
	parts := []string{}
	if fromRight {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; s = strings.TrimRightFunc(s, isSpace) {
			at := strings.LastIndexFunc(s, isSpace)
			if most >= 0 && len(parts) == most || at < 0 {
				parts = append(parts, s)
				break
			}
			parts = append(parts, strings.TrimLeftFunc(s[at:], isSpace))
			s = s[:at]
		}
		slices.Reverse(parts)
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		at := strings.IndexFunc(s, isSpace)
		if most >= 0 && len(parts) == most || at < 0 {
			return append(parts, s)
		}
		parts, s = append(parts, s[:at]), s[at:]
	}
	return parts
}

// splitLines splits s at every line break that Python knows.
func splitLines(s string, keep bool) []string {
	lines := []string{}
	for s != "" {
		at := strings.IndexFunc(s, isLineEnd)
		if at < 0 {
			return append(lines, s)
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		end := at + size
		if strings.HasPrefix(s[at:], "\r\n") {
			end = at + 2
		}
		if keep {
			at = end
		}
		lines, s = append(lines, s[:at]), s[end:]
	}
	return lines
}

func isLineEnd(r rune) bool { return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", r) }

// titleMethod is Python's method: a word begins after anything that is not a
// letter. The lower case of a sigma depends on the letters around it, but its
// length does not.
func titleMethod(s string) string {
	var b strings.Builder
	low, inWord := lower(s), false
	for _, r := range s {
		n := len(lower(string(r)))
		if inWord {
			b.WriteString(low[:n])
		} else {
			b.WriteString(title(r))
		}
		low = low[n:]
		inWord = isLower(r) || isUpper(r) || unicode.IsTitle(r)
	}
	return b.String()
}
