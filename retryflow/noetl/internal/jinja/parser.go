package jinja

import (
	"slices"
	"strings"
)

// A parser follows Jinja's grammar, from the operators that bind least to those
// that bind most: or, and, not, comparisons, sums, ~, products, powers, signs,
// and then subscripts, calls, filters and tests.
type parser struct {
	tokens []token
	depth  int
}

// parse parses the tokens of one {{ … }}.
func parse(tokens []token) node {
	p := &parser{tokens: tokens}
	n := p.tuple("end")
	if t := p.next(); t.kind != "end" {
		panic(unexpected(t))
	}
	return n
}

func (p *parser) kind() string { return p.tokens[0].kind }

func (p *parser) next() token {
	t := p.tokens[0]
	if t.kind != "end" {
		p.tokens = p.tokens[1:]
	}
	return t
}

// skip skips a token of a kind. It returns false if the next token is of
// another kind.
func (p *parser) skip(kind string) bool {
	if p.kind() != kind {
		return false
	}
	p.next()
	return true
}

// isWord reports whether the next token is the name text.
func (p *parser) isWord(text string) bool { return isName(p.tokens[0], text) }

func (p *parser) skipWord(text string) bool {
	if !p.isWord(text) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(kind string) {
	if !p.skip(kind) {
		panic(failf("expected %q, got %v", kind, p.tokens[0]))
	}
}

// nest parses with one more level of nesting.
func (p *parser) nest(parse func() node) node {
	if p.depth++; p.depth > maxNesting {
		panic(failf("it is nested more than %d deep", maxNesting))
	}
	n := parse()
	p.depth--
	return n
}

// tuple parses expressions up to a closing token. With a comma they are a
// tuple.
func (p *parser) tuple(end string) node {
	var members []node
	comma := p.separated(end, func() { members = append(members, p.expression()) })
	switch {
	case !comma && len(members) == 1:
		return members[0]
	case len(members) == 0 && end == "end":
		panic(failf("there is nothing between {{ and }}"))
	default:
		return &listNode{members, true}
	}
}

func (p *parser) expression() node { return p.nest(p.conditional) }

func (p *parser) conditional() node {
	n := p.or()
	for p.skipWord("if") {
		c := &conditionalNode{then: n, condition: p.or()}
		if p.skipWord("else") {
			c.otherwise = p.expression()
		}
		n = c
	}
	return n
}

func (p *parser) or() node { return p.logic("or", true, p.and) }

func (p *parser) and() node { return p.logic("and", false, p.not) }

func (p *parser) not() node {
	if !p.skipWord("not") {
		return p.comparison()
	}
	return &notNode{p.nest(p.not)}
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) comparison() node {
	n := p.sum()
	var operands []operand
	for {
		var op string
		switch {
		case slices.Contains(comparisons, p.kind()):
			op = p.next().text
		case p.skipWord("in"):
			op = "in"
		case p.isWord("not") && isName(p.tokens[1], "in"):
			p.next()
			p.next()
			op = "not in"
		case operands == nil:
			return n
		default:
			return &compareNode{n, operands}
		}
		operands = append(operands, operand{op, p.sum()})
	}
}

func (p *parser) sum() node     { return p.binary(p.concat, "+", "-") }
func (p *parser) product() node { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() node   { return p.binary(p.unary, "**") }

// binary parses operators that associate to the left. In Jinja ** does so too.
func (p *parser) binary(parse func() node, operators ...string) node {
	n := parse()
	for slices.Contains(operators, p.kind()) {
		op := p.next().text
		right := parse()
		// Jinja writes a constant into its program without parentheses, where ** binds
		// more than the sign of a negative one.
		if op == "**" && isConstant(n) && !isA[*constantNode](n) && !isConstant(right) {
			panic(failf("a computed constant before ** is not supported, because Jinja misreads a negative one: write a number"))
		}
		n = &binaryNode{op, n, right}
	}
	return n
}

func (p *parser) concat() node {
	n := p.product()
	if p.kind() != "~" {
		return n
	}
	parts := []node{n}
	for p.skip("~") {
		parts = append(parts, p.product())
	}
	return &concatNode{parts}
}

// unary parses a sign. A filter or test applies to the signed value.
func (p *parser) unary() node { return p.filtered(p.signed()) }

func (p *parser) signed() node {
	if k := p.kind(); k == "-" || k == "+" {
		p.next()
		return p.postfix(&signNode{k, p.nest(p.signed)})
	}
	return p.postfix(p.primary())
}

// constants are the names of constants.
var constants = map[string]Value{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

// keywords cannot be names. Where no operator can stand, Jinja reads some of
// them as a name that is undefined.
var keywords = []string{"and", "or", "not", "if", "else", "in", "is", "elif", "recursive"}

func (p *parser) primary() node {
	switch t := p.next(); t.kind {
	case "name":
		if value, ok := constants[t.text]; ok {
			return &constantNode{value}
		}
		if slices.Contains(keywords, t.text) {
			panic(unexpected(t))
		}
		checkName(t.text, p.kind() == "(")
		return &nameNode{t.text}
	case "string":
		if p.kind() == "string" {
			panic(failf("two texts side by side are not supported: write ~ between them"))
		}
		return &constantNode{t.text}
	case "number":
		return &constantNode{t.value}
	case "(":
		n := p.nest(func() node { return p.tuple(")") })
		p.expect(")")
		return n
	case "[":
		list := &listNode{}
		p.separated("]", func() { list.members = append(list.members, p.expression()) })
		p.expect("]")
		return list
	case "{":
		return p.dict()
	default:
		panic(unexpected(t))
	}
}

// checkName rejects Jinja's own functions, and functions that are not called.
func checkName(name string, called bool) {
	switch {
	case slices.Contains(unsupportedNames, name) || called && name != "rand":
		panic(failf("the function %s is not supported: there is only rand", name))
	case !called && name == "rand":
		panic(failf("rand is a function: call it"))
	}
}

// unsupportedNames are Jinja's global functions and objects.
var unsupportedNames = []string{"range", "lipsum", "dict", "cycler", "joiner", "namespace", "self", "super"}

func (p *parser) dict() node {
	dict := &dictNode{}
	p.separated("}", func() {
		dict.keys = append(dict.keys, p.expression())
		p.expect(":")
		dict.values = append(dict.values, p.expression())
	})
	p.expect("}")
	return dict
}

func (p *parser) postfix(n node) node {
	for {
		switch p.kind() {
		case ".":
			n = p.attribute(n)
		case "[":
			n = p.subscript(n)
		case "(":
			n = p.call(n)
		default:
			return n
		}
	}
}

func (p *parser) attribute(n node) node {
	p.next()
	switch t := p.next(); {
	case t.kind == "name":
		if isReserved(t.text) {
			panic(failf("the attribute %s is not supported", t.text))
		}
		if p.kind() == "(" {
			return p.method(n, t.text)
		}
		if slices.Contains(mappingAttributes, t.text) {
			panic(failf("%[1]s is a method of mappings: write ['%[1]s'] for the key", t.text))
		}
		return &attributeNode{variable(n), t.text}
	case t.kind == "number":
		panic(failf("a number after a dot is not supported: write [%s]", t.text))
	default:
		panic(failf("after the dot expected a name, got %v", t))
	}
}

func (p *parser) subscript(n node) node {
	p.next()
	if p.kind() == "]" {
		panic(failf("there is nothing between [ and ]"))
	}
	var index node
	if p.kind() != ":" {
		index = p.expression()
	}
	if p.kind() == ":" {
		panic(failf("slices ([1:2]) are not supported: write the index of one member"))
	}
	p.expect("]")
	if c, ok := index.(*constantNode); ok {
		if name, ok := c.value.(string); ok && isReserved(name) {
			panic(failf("the attribute %s is not supported", name))
		}
	}
	if isConstant(index) {
		n = variable(n)
	}
	return &itemNode{n, index}
}

// variable rejects a constant of which a part is read. Jinja reads that when it
// compiles, and if there is no such part, its result depends on where it stands.
func variable(n node) node {
	if isConstant(n) {
		panic(failf("a part of a constant is not supported: write the part alone"))
	}
	return n
}

// call parses a call that is not of a method, which can only be rand().
func (p *parser) call(n node) node {
	if name, ok := n.(*nameNode); !ok || name.name != "rand" {
		panic(failf("only rand and methods can be called, by their names"))
	}
	p.next()
	p.expect(")")
	return &randNode{}
}

func (p *parser) method(n node, name string) node {
	f := find(methods, "method", name)
	return &filterNode{n, f, f.bind("the method "+name, p.arguments())}
}

// filtered parses filters and tests.
func (p *parser) filtered(n node) node {
	for {
		switch {
		case p.skip("|"):
			n = newFilter(n, p.name(), p.maybeArguments())
		case p.skipWord("is"):
			n = p.test(n)
		default:
			return n
		}
	}
}

func (p *parser) name() string {
	t := p.next()
	if t.kind != "name" {
		panic(failf("expected a name, got %v", t))
	}
	return t.text
}

func (p *parser) test(n node) node {
	negated := p.skipWord("not")
	name := p.name()
	given := p.maybeArguments()
	switch k := p.kind(); {
	case given.written, p.isWord("else"), p.isWord("or"), p.isWord("and"):
	case p.isWord("is"):
		panic(failf("tests cannot be chained: write and"))
	case k == "name" || k == "string" || k == "number" || k == "[" || k == "{":
		given.positional = []node{p.postfix(p.primary())}
	}
	t := newTest(n, name, given)
	if negated {
		return &notNode{t}
	}
	return t
}

// arguments are the arguments of a call, as written.
type arguments struct {
	written    bool // in parentheses
	positional []node
	names      []string // the names of the keyword arguments
	keywords   []node
}

func (p *parser) arguments() arguments {
	p.next()
	a := arguments{written: true}
	p.separated(")", func() {
		switch {
		case p.kind() == "*" || p.kind() == "**":
			panic(failf("%s in a call is not supported", p.kind()))
		case p.kind() == "name" && p.tokens[1].kind == "=":
			name := p.next().text
			p.next()
			value := p.expression()
			if slices.Contains(a.names, name) {
				panic(failf("duplicate argument %s", name))
			}
			a.names, a.keywords = append(a.names, name), append(a.keywords, value)
		case a.names != nil:
			panic(failf("an argument without a name stands after one with a name"))
		default:
			a.positional = append(a.positional, p.expression())
		}
	})
	p.expect(")")
	return a
}

func isName(t token, text string) bool { return t.kind == "name" && t.text == text }

func unexpected(t token) failure { return failf("unexpected %v", t) }

// separated parses what is separated by commas, up to a closing token. It reports
// whether there is a comma.
func (p *parser) separated(end string, parse func()) (comma bool) {
	for p.kind() != end {
		parse()
		if !p.skip(",") {
			break
		}
		comma = true
	}
	return comma
}

func (p *parser) logic(word string, decides bool, parse func() node) node {
	n := parse()
	for p.skipWord(word) {
		n = &logicNode{n, parse(), decides}
	}
	return n
}

func isReserved(name string) bool {
	return strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// maybeArguments parses the arguments of a filter or test, which may have none.
func (p *parser) maybeArguments() arguments {
	if p.kind() == "(" {
		return p.arguments()
	}
	return arguments{}
}
