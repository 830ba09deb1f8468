package jinja_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A generator generates expressions from Jinja's grammar. The same seed gives
// the same expressions.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, seed))} }

func pick[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

// expression returns an expression that is nested at most depth deep. Most of
// its operands have fitting types.
func (g generator) expression(depth int) string {
	if g.IntN(4) > 0 {
		return g.typed(pick(g, "number", "text", "list", "bool", "bool"), depth)
	}
	return g.any(depth)
}

// typed returns an expression of a kind.
func (g generator) typed(kind string, depth int) string {
	if depth <= 0 {
		return g.leaf(kind)
	}
	of := func(kind string) string { return g.typed(kind, depth-1-g.IntN(2)) }
	either := func() string { return of(pick(g, "number", "text", "list", "bool")) }
	if g.IntN(12) == 0 {
		return "(" + of(kind) + " if " + of("bool") + " else " + of(kind) + ")"
	}
	switch kind {
	case "number":
		switch g.IntN(9) {
		case 0, 1, 2:
			return of(kind) + pick(g, " + ", " - ", " * ", " // ", " % ", " / ", "-") + of(kind)
		case 3:
			return "-" + of(kind)
		case 4:
			return of(pick(g, "text", "list")) + " | " + pick(g, "length", "count")
		case 5:
			return either() + " | " + pick(g, "int", "float", "int(5)", "float(1.5)", "default(3) | int", "string | int(base=16)")
		case 6:
			return "(" + of(kind) + ") | " + pick(g, "round", "round(1)", "round(2, 'floor')", "abs", "round(1, 'ceil')", "round(-1)", "int", "float")
		case 7:
			return of("text") + pick(g, ".count('e')", ".find('e')", ".rfind('a', 1)")
		default:
			return "[" + of(kind) + ", " + of(kind) + ", " + of(kind) + "] | " + pick(g, "sum", "min", "max", "first", "last")
		}
	case "text":
		switch g.IntN(9) {
		case 0:
			return of(kind) + " + " + of(kind)
		case 1:
			return either() + " ~ " + either()
		case 2, 3:
			return of(kind) + " | " + pick(g, "lower", "upper", "title", "capitalize", "trim", "urlencode", "reverse", "first", "last", "string", "center(9)", "replace('e', 'EE')", "truncate(5, true, '')", "truncate(6, leeway=0)")
		case 4:
			return "(" + of(kind) + ")" + pick(g, ".lower()", ".upper()", ".strip()", ".title()", ".capitalize()", "[1:]", "[::-1]", "[:3]", ".replace('e', '')", ".strip('aR')", ".zfill(6)", ".ljust(8, '*')", ".center(7)")
		case 5:
			return of("list") + " | join" + pick(g, "", "(', ')", "(d='')")
		case 6:
			return either() + " | " + pick(g, "string", "tojson", "default('x') | string")
		case 7:
			return of(kind) + " * " + pick(g, "2", "0", "iter.page")
		default:
			return of("list") + " | map('string') | join('-')"
		}
	case "list":
		switch g.IntN(10) {
		case 0:
			return of(kind) + " + " + of(kind)
		case 1, 2:
			return "[" + strings.Join([]string{either(), either(), either()}[:1+g.IntN(3)], ", ") + "]"
		case 3:
			return of(kind) + " | " + pick(g, "list", "reverse | list", "sort", "unique | list", "map('string') | list", "select | list", "reject | list", "map('default', 1) | list", "batch(2) | list", "slice(2, 'f') | list")
		case 4:
			return of(kind) + pick(g, "[1:]", "[::-1]", "[:2]", "[::2]")
		case 5:
			return of("text") + pick(g, ".split()", ".split('e')", ".rsplit(' ', 1)", ".splitlines()", ".partition('e')", " | list", " | map('upper') | list")
		case 6:
			return "iter.rows | " + pick(g, "map(attribute='name') | list", "selectattr('n', '>', 1) | map(attribute='n') | list", "rejectattr('a') | map(attribute='name') | list", "sort(attribute='n') | map(attribute='n') | list", "map(attribute='tags.0', default='-') | list")
		case 7:
			return "[" + of("number") + ", " + of("number") + "] | " + pick(g, "sort", "sort(reverse=true)", "select('odd') | list", "select('gt', 2) | list", "reject('==', 3) | list", "map('abs') | list", "map('round', 1) | list")
		case 8:
			return "range(" + pick(g, "3", "1, 9, 3", "5, 0, -2", "iter.page", "0") + ") | list"
		default:
			return pick(g, "{'a': ", "{1: ", "{none: ") + either() + ", 'b': " + either() + "}" + pick(g, ".items() | list", ".values() | list", " | dictsort", " | list", " | items | list", ".keys() | list")
		}
	default:
		switch g.IntN(10) {
		case 0:
			return of(kind) + " and " + of(kind)
		case 1:
			return of(kind) + " or " + of(kind)
		case 2:
			return "not " + of(kind)
		case 3:
			k := pick(g, "number", "text", "list")
			return of(k) + pick(g, " == ", " != ", " < ", " <= ", " > ", " >= ") + of(k)
		case 4:
			return of("number") + pick(g, " < ", " <= ", " == ") + of("number") + pick(g, " < ", " != ", " > ") + of("number")
		case 5:
			return of("text") + pick(g, " in ", " not in ") + of("text")
		case 6:
			return either() + pick(g, " in ", " not in ") + of("list")
		case 7:
			return either() + pick(g, " is ", " is not ") + pick(g, "defined", "none", "string", "number", "mapping", "sequence", "iterable", "true", "boolean", "integer", "float")
		case 8:
			return of("number") + " is " + pick(g, "odd", "even", "divisibleby 3", "gt 2", "in [1, 2, 3]", "eq(3)", "lt(10.5)")
		default:
			return "(" + of("text") + ")" + pick(g, ".startswith('R')", ".endswith('out')", ".isdigit()", ".islower()", " is lower", " is upper", ".isalpha()")
		}
	}
}

func (g generator) leaf(kind string) string {
	switch kind {
	case "number":
		return pick(g, g.integer(), "outcome.http.status", "outcome.meta.attempt", "outcome.meta.duration_ms", "iter.page", "outcome.result.count", "outcome.result.ratio", "1.5", "0.1", "workload.size", "_attempt", "iter.rows[1].n", "true")
	case "text":
		return pick(g, g.text(), "outcome.error.message", "outcome.status", "outcome.pg.code", "iter.text", "outcome.http.headers['retry-after']", "iter.unicode", "workload.url", "iter.words[2]")
	case "list":
		return pick(g, "outcome.result['items']", "iter.words", "iter.floats", "iter.mixed", "iter.nested", "[]", "[1, 2, 3]", "['b', 'A', 'a']", "iter.rows | map(attribute='n') | list")
	default:
		return pick(g, "true", "false", "outcome.error.retryable", "outcome.result.done", "outcome.result.nosuch is defined", "outcome.status == 'error'")
	}
}

// any returns an expression of any form that the grammar allows.
func (g generator) any(depth int) string {
	if depth <= 0 {
		return g.atom()
	}
	sub := func() string { return g.any(depth - 1 - g.IntN(2)) }
	switch g.IntN(30) {
	case 0:
		return sub() + " and " + sub()
	case 1:
		return sub() + " or " + sub()
	case 2:
		return "not " + sub()
	case 3, 4, 5:
		return sub() + g.comparison() + sub()
	case 6:
		return sub() + g.comparison() + sub() + g.comparison() + sub()
	case 7, 8:
		return sub() + pick(g, " + ", " - ", " * ", " / ", " // ", " % ", "*", "-") + sub()
	case 9:
		return sub() + " ** " + pick(g, "2", "3", "0", "-1", "iter.page")
	case 10:
		return pick(g, "-", "+") + sub()
	case 11:
		return sub() + " ~ " + sub()
	case 12:
		return "(" + sub() + ")"
	case 13:
		return sub() + " if " + sub() + pick(g, " else "+sub(), "")
	case 14:
		return "[" + strings.Join([]string{sub(), sub(), sub()}[:g.IntN(4)], ", ") + "]"
	case 15:
		return "(" + sub() + "," + pick(g, "", " "+sub()) + ")"
	case 16:
		return "{" + strings.Join([]string{g.key() + ": " + sub(), g.key() + ": " + sub()}[:g.IntN(3)], ", ") + "}"
	case 17:
		return g.path() + g.subscript(sub)
	case 18:
		return "(" + sub() + ")" + g.subscript(sub)
	case 19, 20, 21, 22, 23, 24:
		return sub() + strings.Repeat(" ", g.IntN(2)) + "|" + strings.Repeat(" ", g.IntN(2)) + g.filter(sub)
	case 25, 26:
		return sub() + pick(g, " is ", " is not ") + g.test(sub)
	case 27:
		return g.path() + g.method(sub)
	case 28:
		return "(" + sub() + ")" + g.method(sub)
	default:
		return fmt.Sprintf("range(%s)", pick(g, "3", "0", "1, 4", "10, 0, -3", "iter.page", "1, 9, 2", "404, 600", "1.5", "2, 3, 0", "'a'", "12345678901234567890"))
	}
}

func (g generator) comparison() string {
	return pick(g, " == ", " != ", " < ", " <= ", " > ", " >= ", " in ", " in ", " not in ", "==", "<")
}

func (g generator) atom() string {
	switch g.IntN(10) {
	case 0, 1, 2, 3, 4:
		return g.path()
	case 5:
		return g.integer()
	case 6:
		return pick(g, "1.5", "0.1", "2.0", "1e3", "1e16", "1.5e-7", "0.0", "123456.789", "1_0.5", "2.5", "1e400")
	case 7, 8:
		return g.text()
	default:
		return pick(g, "true", "false", "none", "True", "False", "None", "[]", "{}", "()", "''", "nosuch")
	}
}

func (g generator) integer() string {
	return pick(g, "0", "1", "2", "3", "-1", "-2", "7", "10", "404", "503", "1_000", "0x1F", "0b11", "0o17", "9007199254740993", "12345678901234567890")
}

func (g generator) text() string {
	return pick(g, "'a'", "'error'", "'timeout'", `"it's"`, "'Read Timeout'", "'a,b,,c'", "' x '", "'503'", "'7.9'", "'1e2'", "'0x1f'", "'-12'",
		"'Straße'", "'ΑΣ ΣΑΣ'", `'a"b'`, `'\n\t'`, `'\x41\u00e9'`, "'a' 'b'", "'items'", "'%s'", "'a b&c=d/é'", "'x-y (z)'", "'inf'", "'NaN'", "'1_0'", "'true'", "'a\\\\b'", "'😀'", "'ǆ'", "'ŉ'", "'İ'")
}

func (g generator) key() string {
	return pick(g, "'a'", "'b'", "1", "true", "none", "2.0", "'name'", "(1, 2)")
}

func (g generator) path() string {
	return pick(g, "outcome.status", "outcome.result", "outcome.result.done", "outcome.result['items']", "outcome.result.count", "outcome.result.name", "outcome.result.ratio",
		"outcome.result.none", "outcome.result.empty", "outcome.result.nosuch", "outcome.error.message", "outcome.error.retryable", "outcome.error.kind", "outcome.http.status",
		"outcome.http.headers", "outcome.http.headers['retry-after']", "outcome.http['headers'].etag", "outcome.pg.code", "outcome.meta.attempt", "outcome.meta.duration_ms",
		"outcome.nosuch.deeper", "iter.page", "iter.rows", "iter.rows[0]", "iter.rows.0.name", "iter.rows[-1]['n']", "iter.words", "iter.words[1]", "iter.nested", "iter.nested[1][0]",
		"iter.text", "iter.one", "iter.id", "workload.size", "workload.url", "_attempt", "iter.floats", "iter.mixed", "iter.unicode")
}

func (g generator) subscript(sub func() string) string {
	bound := func() string { return pick(g, "", "", "1", "-1", "2", "0", "-3", "100", "iter.page") }
	switch g.IntN(5) {
	case 0:
		return "[" + g.integer() + "]"
	case 1:
		return "[" + pick(g, "'name'", "'a'", "'n'", "'items'", "'upper'") + "]"
	case 2:
		return "[" + bound() + ":" + bound() + pick(g, "", ":"+pick(g, "", "1", "-1", "2", "-2", "0")) + "]"
	case 3:
		return pick(g, ".name", ".a", ".0", ".count", ".real", ".upper", ".n", ".nosuch")
	default:
		return "[" + sub() + "]"
	}
}

func (g generator) filter(sub func() string) string {
	attribute := func() string { return pick(g, "'name'", "'n'", "'a'", "'tags.0'", "0", "'nosuch'") }
	boolean := func() string { return pick(g, "true", "false", "1", "''") }
	switch g.IntN(40) {
	case 0:
		return "default(" + sub() + pick(g, "", ", "+boolean(), ", boolean="+boolean()) + ")"
	case 1:
		return "d(" + sub() + ")"
	case 2:
		return "int" + pick(g, "", "("+g.integer()+")", "(default=none)", "(0, 16)", "(base=2)", "('x', 0)")
	case 3:
		return "float" + pick(g, "", "(1.5)", "(default='x')")
	case 4:
		return pick(g, "lower", "upper", "capitalize", "title", "trim", "string", "length", "count", "list", "first", "last", "reverse", "abs", "urlencode", "tojson", "wordcount", "items")
	case 5:
		return "lower"
	case 6:
		return "length"
	case 7:
		return "list"
	case 8:
		return "join" + pick(g, "", "(', ')", "("+g.text()+")", "(', ', "+attribute()+")", "(attribute="+attribute()+")")
	case 9:
		return "replace(" + g.text() + ", " + g.text() + pick(g, "", ", 1", ", count=2", ", none") + ")"
	case 10:
		return "round" + pick(g, "", "(1)", "(2, 'floor')", "(0, 'ceil')", "(-1)", "(method='floor')", "(precision=3)", "(1, 'odd')", "(none)")
	case 11:
		return "sort" + pick(g, "", "(true)", "(case_sensitive=true)", "(attribute="+attribute()+")", "(attribute='n,name')", "(false, true)")
	case 12:
		return "unique" + pick(g, " | list", "(true) | list", "(attribute="+attribute()+") | list")
	case 13:
		return pick(g, "min", "max") + pick(g, "", "(true)", "(attribute="+attribute()+")")
	case 14:
		return "sum" + pick(g, "", "("+attribute()+")", "(start=10)", "(attribute="+attribute()+")")
	case 15, 16:
		return "map(attribute=" + attribute() + pick(g, "", ", default="+g.atom()) + ")" + pick(g, "", " | list", " | list")
	case 17, 18:
		return "map(" + pick(g, "'int'", "'upper'", "'lower'", "'length'", "'string'", "'default', 'x'", "'round', 1", "'replace', 'a', 'b'", "'float'", "'trim'", "'tojson'", "'list'", "'nosuch'") + ")" + pick(g, "", " | list", " | list", " | join(';')")
	case 19, 20:
		return pick(g, "select", "reject") + "(" + pick(g, "", "'odd'", "'gt', 2", "'in', [1, 'a']", "'string'", "'defined'", "'==', 2", "'divisibleby', 2", "'number'", "'nosuch'") + ")" + pick(g, "", " | list", " | list", " | first")
	case 21, 22:
		return pick(g, "selectattr", "rejectattr") + "(" + attribute() + pick(g, "", ", 'gt', 1", ", 'equalto', 'b'", ", 'defined'", ", 'in', ['a', 'b']", ", '>=', 2") + ")" + pick(g, "", " | list", " | map(attribute='name') | list", " | list | length")
	case 23:
		return "batch(" + pick(g, "1", "2", "3", "2, 'x'", "0", "linecount=2") + ") | list"
	case 24:
		return "slice(" + pick(g, "1", "2", "3", "2, 'x'", "0", "-1") + ") | list"
	case 25:
		return "dictsort" + pick(g, "", "(true)", "(by='value')", "(reverse=true)", "(false, 'value')", "(by='odd')")
	case 26:
		return "truncate(" + pick(g, "3", "5, true", "3, true, ''", "4, false, '.', 0", "2, leeway=0", "length=5, end='…'") + ")"
	case 27:
		return "center(" + pick(g, "10", "3", "7") + ")"
	case 28:
		return "trim(" + g.text() + ")"
	case 29:
		return "reverse" + pick(g, "", " | list", " | first")
	case 30:
		return "items | list"
	case 31:
		return pick(g, "nosuch", "random", "safe", "escape", "format(1)", "groupby('n')", "wordwrap", "indent", "filesizeformat", "pprint", "attr('name')")
	case 32:
		return "first"
	case 33:
		return "last"
	case 34:
		return "urlencode"
	case 35:
		return "tojson"
	default:
		return pick(g, "default(2)", "int", "lower", "string", "list", "upper", "float")
	}
}

func (g generator) test(sub func() string) string {
	switch g.IntN(4) {
	case 0:
		return pick(g, "defined", "defined", "undefined", "none", "true", "false", "boolean", "integer", "float", "number", "string", "mapping", "sequence", "iterable", "callable", "lower", "upper", "odd", "even", "escaped", "nosuch", "filter", "test")
	case 1:
		return pick(g, "divisibleby", "divisibleby ", "eq ", "ne ", "sameas ", "gt ") + pick(g, "(2)", " 2", "(iter.page)", " true", " none")
	case 2:
		return pick(g, "eq", "equalto", "ne", "lt", "lessthan", "le", "gt", "greaterthan", "ge", "in", "sameas", "divisibleby") + "(" + sub() + ")"
	default:
		return pick(g, "in [1, 2, 'error']", "in('abc')", "in outcome.result['items']", "eq 'error'", "divisibleby(num=3)", "in {'a': 1}", "none or true", "defined and true")
	}
}

func (g generator) method(sub func() string) string {
	span := func() string { return pick(g, "", "", ", 1", ", 1, 3", ", -2") }
	switch g.IntN(20) {
	case 0:
		return pick(g, ".lower()", ".upper()", ".strip()", ".title()", ".capitalize()", ".isdigit()", ".isalpha()", ".isalnum()", ".isspace()", ".islower()", ".isupper()", ".lstrip()", ".rstrip()", ".splitlines()", ".splitlines(true)")
	case 1:
		return pick(g, ".startswith", ".endswith") + "(" + pick(g, g.text(), "('a', 'R')") + span() + ")"
	case 2:
		return ".split(" + pick(g, "", "','", "none, 1", "'e', 1", "maxsplit=1", "sep='a'", "''") + ")"
	case 3:
		return ".rsplit(" + pick(g, "", "','", "none, 1", "'e', 1", "maxsplit=1", "sep='a'") + ")"
	case 4:
		return ".count(" + pick(g, g.text(), "1", "'e'") + pick(g, "", span()) + ")"
	case 5:
		return pick(g, ".find", ".rfind", ".index", ".rindex") + "(" + pick(g, g.text(), "'e'", "''") + span() + ")"
	case 6:
		return ".replace(" + g.text() + ", " + g.text() + pick(g, "", ", 1", ", -1") + ")"
	case 7:
		return ".join(" + sub() + ")"
	case 8:
		return pick(g, ".strip", ".lstrip", ".rstrip") + "(" + pick(g, g.text(), "'aeR t'", "none") + ")"
	case 9:
		return pick(g, ".ljust", ".rjust", ".center") + "(" + pick(g, "10", "3", "12, '*'", "11, 'ab'") + ")"
	case 10:
		return ".zfill(" + pick(g, "8", "2", "-1") + ")"
	case 11:
		return pick(g, ".partition", ".rpartition") + "(" + pick(g, "' '", "'e'", "','", "''") + ")"
	case 12:
		return pick(g, ".removeprefix", ".removesuffix") + "(" + pick(g, "'a'", "'Read '", "'out'") + ")"
	case 13, 14:
		return ".get(" + pick(g, "'name'", "'a'", "'nosuch'", "1", "'retry-after'", "'nosuch', "+sub(), "[]") + ")"
	case 15:
		return pick(g, ".items()", ".keys()", ".values()") + pick(g, "", " | list", " | length")
	case 16:
		return pick(g, ".index", ".count") + "(" + pick(g, "1", "'a'", "2.0", "true") + ")"
	default:
		return pick(g, ".lower()", ".upper()", ".get('name')", ".strip()", ".nosuch()", ".format(1)", ".encode()", ".append(1)", "()")
	}
}
