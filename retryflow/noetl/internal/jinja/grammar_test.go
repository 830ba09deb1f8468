package jinja_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// A generator generates expressions from Jinja's grammar. The same seed gives
// the same expressions.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, seed))} }

// expression returns an expression that is nested at most depth deep. Most of
// its operands have fitting types.
func (g generator) expression(depth int) string { return g.expand("expression", depth+1) }

var symbol = regexp.MustCompile(`<\w+>`)

// expand returns one of the alternatives of a symbol with its own symbols
// expanded. A symbol of which the grammar has a leaf, by its name in capitals, is
// one level of nesting, and beyond the depth it is the leaf.
func (g generator) expand(name string, depth int) string {
	if leaf := strings.ToUpper(name); grammar[leaf] != nil {
		if depth -= 1 + g.IntN(2); depth <= 0 {
			name = leaf
		}
	}
	text := grammar[name][g.IntN(len(grammar[name]))]
	return symbol.ReplaceAllStringFunc(text, func(s string) string { return g.expand(strings.Trim(s, "<>"), depth) })
}

// grammar has the alternatives of each symbol. One that begins with a number and ×
// is there as often.
var grammar = func() map[string][]string {
	grammar := map[string][]string{}
	for line := range strings.Lines(rules) {
		name, alternatives, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		for text := range strings.SplitSeq(alternatives, "¦") {
			times := 1
			if number, rest, ok := strings.Cut(text, "×"); ok {
				times, _ = strconv.Atoi(number)
				text = rest
			}
			for range times {
				grammar[name] = append(grammar[name], text)
			}
		}
	}
	return grammar
}()

const rules = `expression: 3×<typed>¦<any>
typed: <number>¦<text>¦<list>¦2×<bool>
either: <number>¦<text>¦<list>¦<bool>
number: 3×<number><calculate><number>¦-<number>¦<text> | <count>¦<list> | <count>¦2×<either> | <convert>¦2×(<number>) | <round>
number: 2×[<number>, <number>, <number>] | <extreme>¦(<number> if <bool> else <number>)
calculate:  + ¦ - ¦ * ¦ // ¦ % ¦ / ¦-
count: length¦count
convert: int¦float¦int(5)¦float(1.5)¦default(3) | int¦string | int
round: round¦round(1)¦abs¦round(precision=2)¦int¦float
extreme: min¦max¦first¦last
text: <text> + <text>¦<either> ~ <either>¦2×<text> | <textfilter>¦(<text>)<textmethod>¦<list> | join<joiner>¦<either> | <astext>
text: (<text> if <bool> else <text>)
textfilter: lower¦upper¦trim¦first¦last¦string¦replace('e', 'EE')
textmethod: .lower()¦.upper()¦.strip()¦[0]¦[-1]¦.replace('e', '')¦.strip('aR')
joiner: ¦(', ')¦(d='')
astext: string¦tojson¦default('x') | string
list: <list> + <list>¦2×[<either><others>]¦<list> | <listfilter>¦(<text>).split()¦(<text>).split('e')¦iter.rows¦[<number>, <number>] | <numbers>
list: {'a': <either>, 'b': <either>} | list¦(<list> if <bool> else <list>)¦<text> | list
others: ¦, <either>¦, <either>, <either>
listfilter: list¦sort¦sort(true)
numbers: sort¦sort(reverse=true)
bool: <bool> and <bool>¦<bool> or <bool>¦not <bool>¦<number> <compare> <number>¦<text> <compare> <text>¦<list> <compare> <list>
bool: <number> <below> <number> <above> <number>¦<text> <within> <text>¦<either> <within> <list>¦<either> <is> <type>¦<number> is <numbertest>
bool: (<text>)<texttest>¦(<bool> if <bool> else <bool>)
compare: ==¦!=¦<¦<=¦>¦>=
below: <¦<=¦==
above: <¦!=¦>
within: in¦not in
is: is¦is not
type: defined¦none¦string¦number¦mapping¦sequence¦true¦boolean¦integer¦float
numbertest: odd¦even¦divisibleby 3
texttest: .startswith('R')¦.endswith('out')¦.isdigit()
NUMBER: <integer>¦outcome.http.status¦outcome.meta.attempt¦outcome.meta.duration_ms¦iter.page¦outcome.result.count¦outcome.result.ratio¦1.5¦0.1
NUMBER: workload.size¦_attempt¦iter.rows[1].n¦true
TEXT: <literal>¦outcome.error.message¦outcome.status¦outcome.pg.code¦iter.text¦outcome.http.headers['retry-after']¦iter.unicode¦workload.url¦iter.words[2]
LIST: outcome.result['items']¦iter.words¦iter.floats¦iter.mixed¦iter.nested¦[]¦[1, 2, 3]¦['b', 'A', 'a']
BOOL: true¦false¦outcome.error.retryable¦outcome.result.done¦outcome.result.nosuch is defined¦outcome.status == 'error'
any: <any> and <any>¦<any> or <any>¦not <any>¦3×<any><anycompare><any>¦<any><anycompare><any><anycompare><any>¦2×<any><anycalculate><any>
any: 2×<any> ** <exponent>¦<sign><any>¦<any> ~ <any>¦(<any>)¦<any> if <any><else>¦[<members>]¦(<any>,<second>)¦{<items>}¦2×<path><subscript>
any: 6×<any><pipe><filter>¦2×<any> <is> <test>¦<path><method>¦(<any>)<method>
anycompare:  == ¦ != ¦ < ¦ <= ¦ > ¦ >= ¦2× in ¦ not in ¦==¦<
anycalculate:  + ¦ - ¦ * ¦ / ¦ // ¦ % ¦*¦-
exponent: 2¦3¦0
sign: -¦+
else:  else <any>¦
members: ¦<any>¦<any>, <any>¦<any>, <any>, <any>
second: ¦ <any>
items: ¦<key>: <any>¦<key>: <any>, <key>: <any>
pipe: | ¦|¦ | ¦ |
ANY: 5×<path>¦<integer>¦<decimal>¦2×<literal>¦<constant>
decimal: 1.5¦0.1¦2.0¦1e3¦1e16¦1.5e-7¦0.0¦123456.789¦1_0.5¦2.5¦1e400
constant: true¦false¦none¦True¦False¦None¦[]¦{}¦()¦''¦nosuch
integer: 0¦1¦2¦3¦7¦10¦404¦503¦1_000¦0x1F¦0b11¦0o17¦9007199254740993¦12345678901234567890
literal: 'a'¦'error'¦'timeout'¦"it's"¦'Read Timeout'¦'a,b,,c'¦' x '¦'503'¦'7.9'¦'1e2'¦'0x1f'¦'-12'¦'Straße'¦'ΑΣ ΣΑΣ'¦'a"b'¦'\n\t'¦'\x41\u00e9'
literal: 'items'¦'%s'¦'a b&c=d/é'¦'x-y (z)'¦'inf'¦'NaN'¦'1_0'¦'true'¦'a\\b'¦'😀'¦'ǆ'¦'ŉ'¦'İ'
key: 'a'¦'b'¦'name'¦outcome.status
path: outcome.status¦outcome.result¦outcome.result.done¦outcome.result['items']¦outcome.result.count¦outcome.result.name¦outcome.result.ratio¦outcome.result.none
path: outcome.result.empty¦outcome.result.nosuch¦outcome.error.message¦outcome.error.retryable¦outcome.error.kind¦outcome.http.status¦outcome.http.headers
path: outcome.http.headers['retry-after']¦outcome.http['headers'].etag¦outcome.pg.code¦outcome.meta.attempt¦outcome.meta.duration_ms¦outcome.nosuch.deeper
path: iter.page¦iter.rows¦iter.rows[0]¦iter.rows[0].name¦iter.rows[-1]['n']¦iter.words¦iter.words[1]¦iter.nested¦iter.nested[1][0]¦iter.text¦iter.one¦iter.id
path: workload.size¦workload.url¦_attempt¦iter.floats¦iter.mixed¦iter.unicode
subscript: [<integer>]¦[-1]¦[<name>]¦<attribute>¦[<any>]
name: 'name'¦'a'¦'n'¦'items'
attribute: .name¦.a¦.n¦.nosuch
filter: default(<any><flagged>)¦d(<any>)¦int<intargs>¦float<floatargs>¦<plain>¦2×lower¦length¦list¦join<joinargs>¦replace(<literal>, <literal>)¦round<roundargs>
filter: sort<sortargs>¦min¦max¦trim(<literal>)¦<unknownfilter>¦first¦last¦tojson¦4×<common>
flagged: ¦, <flag>¦, boolean=<flag>
flag: true¦false¦1¦''
intargs: ¦(<integer>)¦(default=none)
floatargs: ¦(1.5)¦(default='x')
plain: lower¦upper¦trim¦string¦length¦count¦list¦first¦last¦abs¦tojson
joinargs: ¦(', ')¦(<literal>)
roundargs: ¦(1)¦(precision=3)
sortargs: ¦(true)¦(reverse=<flag>)
unknownfilter: nosuch¦random¦safe¦map('int')¦unique
common: default(2)¦int¦lower¦string¦list¦upper¦float
test: 2×<plaintest>¦<argtest>
plaintest: 2×defined¦undefined¦none¦true¦false¦boolean¦integer¦float¦number¦string¦mapping¦sequence¦odd¦even¦none or true¦defined and true
argtest: divisibleby<testarg>¦divisibleby(<any>)¦divisibleby(num=3)
testarg: (2)¦ 2¦(iter.page)¦ true¦ none
method: <plainmethod>¦<affix>(<literal>)¦.split(<splitargs>)¦.replace(<literal>, <literal>)¦.join(<any>)¦<strip>(<stripped>)¦2×.get(<got>)
plainmethod: .lower()¦.upper()¦.strip()¦.isdigit()¦.lstrip()¦.rstrip()¦.nosuch()
affix: .startswith¦.endswith
splitargs: ¦','¦none¦sep='a'¦''
strip: .strip¦.lstrip¦.rstrip
stripped: <literal>¦'aeR t'¦none
got: 'name'¦'a'¦'nosuch'¦1¦'retry-after'¦'nosuch', <any>¦[]
`
