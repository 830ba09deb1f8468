package jinja

import (
	"maps"
	"slices"
	"strings"
)

// A parser follows Jinja's grammar. Its methods are in the order of precedence, lowest first:
// "if" with "else", "or", "and", "not", comparisons, sums, products, signs, and then subscripts,
// filters and tests.
type parser struct {
	tokens []token
	depth  int
}

// parse parses the tokens of one {{ … }}.
func parse(tokens []token) node {
	p := &parser{tokens: tokens}
	if p.kind() == "end" {
		panic(failf("there is nothing between {{ and }}"))
	}
	n := p.expression()
	p.expect("end")
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

// skip reports whether the next token is of this kind. If the token is of this kind, `skip` also
// moves on to the token after it.
func (p *parser) skip(kind string) bool {
	if p.kind() != kind {
		return false
	}
	p.next()
	return true
}

// isWord reports whether the next token is a name with this text.
func (p *parser) isWord(text string) bool { return isName(p.tokens[0], text) }

func isName(t token, text string) bool { return t.kind == "name" && t.text == text }

func (p *parser) skipWord(text string) bool {
	if !p.isWord(text) {
		return false
	}
	p.next()
	return true
}

// unsupported contains the errors for operators of Jinja that this package does not support. Each
// error says what to write instead.
var unsupported = map[string]string{
	"/":  "the operator / is not supported: there are +, - and *",
	"//": "the operator // is not supported: there are +, - and *",
	"%":  "the operator % is not supported: there are +, - and *",
	"**": "the operator ** is not supported: multiply, or write backoff: exponential",
	"~":  `the operator ~ is not supported: write + with texts, and "| string" after a number`,
	"(":  "only rand can be called",
	",":  "tuples are not supported: write a list in [ and ]",
	":":  "slices ([1:2]) are not supported: write the index of one member",
	"==": `comparisons cannot be chained: write and`,
}

// expect skips the next token. If the token is not of this kind, `expect` fails with an error.
func (p *parser) expect(kind string) {
	if p.kind() == kind {
		p.next()
		return
	}
	t := p.tokens[0]
	if slices.Contains(comparisons, t.text) && t.kind != "string" {
		t.kind = "=="
	}
	if write := unsupported[t.kind]; write != "" {
		panic(failf("%s", write))
	}
	if kind == "end" {
		panic(failf("unexpected %v", t))
	}
	panic(failf("expected %q, got %v", kind, t))
}

// nest calls the function `parse`, whose expression is nested one level deeper. It fails if there
// are then more than maxNesting levels.
func (p *parser) nest(parse func() node) node {
	if p.depth++; p.depth > maxNesting {
		panic(failf("the expression is nested more than %d deep", maxNesting))
	}
	n := parse()
	p.depth--
	return n
}

func (p *parser) expression() node { return p.nest(p.conditional) }

func (p *parser) conditional() node {
	n := p.or()
	for p.skipWord("if") {
		condition := p.or()
		if !p.skipWord("else") {
			panic(failf("an if without an else is not supported: write else none"))
		}
		n = &conditionalNode{n, condition, p.expression()}
	}
	return n
}

func (p *parser) or() node { return p.logic("or", true, p.and) }

func (p *parser) and() node { return p.logic("and", false, p.not) }

func (p *parser) logic(word string, isOr bool, parse func() node) node {
	n := parse()
	for p.skipWord(word) {
		n = &logicNode{n, parse(), isOr}
	}
	return n
}

func (p *parser) not() node {
	if !p.skipWord("not") {
		return p.comparison()
	}
	return &notNode{p.nest(p.not)}
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">=", "in", "not in"}

func (p *parser) comparison() node {
	left := p.sum()
	op := p.tokens[0].text
	switch {
	case p.isWord("not") && isName(p.tokens[1], "in"):
		p.next()
		op = "not in"
	case p.isWord("in"), slices.Contains(comparisons, p.kind()):
	default:
		return left
	}
	p.next()
	return &compareNode{op, left, p.sum()}
}

func (p *parser) sum() node     { return p.binary(p.product, "+", "-") }
func (p *parser) product() node { return p.binary(p.unary, "*") }

// binary parses left-associative operators.
func (p *parser) binary(parse func() node, operators ...string) node {
	n := parse()
	for slices.Contains(operators, p.kind()) {
		n = &binaryNode{p.next().text, n, parse()}
	}
	return n
}

// unary parses a value with its sign, filters and tests. A filter or a test applies to the value
// with its sign.
func (p *parser) unary() node { return p.filtered(p.signed()) }

func (p *parser) signed() node {
	if p.skip("-") {
		return &signNode{p.nest(p.signed)}
	}
	return p.postfix(p.primary())
}

var constants = map[string]Value{
	"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil,
}

// keywords are words that cannot be names.
var keywords = []string{"and", "or", "not", "if", "else", "in", "is", "elif", "recursive"}

func (p *parser) primary() node {
	switch t := p.next(); t.kind {
	case "name":
		if value, ok := constants[t.text]; ok {
			return &constantNode{value}
		}
		if slices.Contains(keywords, t.text) {
			panic(failf("unexpected %v", t))
		}
		if t.text == "rand" || p.kind() == "(" {
			return p.call(t.text)
		}
		return &nameNode{t.text}
	case "string":
		return &constantNode{t.text}
	case "number":
		return &constantNode{t.value}
	case "(":
		n := p.expression()
		p.expect(")")
		return n
	case "[":
		return &listNode{p.list("]")}
	case "{":
		return p.dict()
	default:
		panic(failf("unexpected %v", t))
	}
}

// call parses a call of rand, the only function.
func (p *parser) call(name string) node {
	switch {
	case name != "rand":
		panic(failf("the function %s is not supported: there is only rand", name))
	case !p.skip("("):
		panic(failf("rand is a function: write rand()"))
	case !p.skip(")"):
		panic(failf("rand has no arguments: write rand()"))
	}
	return &randNode{}
}

// list parses expressions that commas separate, up to and including the closing token.
func (p *parser) list(end string) (members []node) {
	for p.kind() != end {
		members = append(members, p.expression())
		if !p.skip(",") {
			break
		}
	}
	p.expect(end)
	return members
}

func (p *parser) dict() node {
	dict := &dictNode{}
	for p.kind() != "}" {
		key := p.next()
		if key.kind != "string" || p.kind() != ":" {
			panic(failf("the key of a mapping is %v: write a text in quotes, and a colon", key))
		}
		p.next()
		dict.keys, dict.values = append(dict.keys, key.text), append(dict.values, p.expression())
		if !p.skip(",") {
			break
		}
	}
	p.expect("}")
	return dict
}

// postfix parses attributes and subscripts.
func (p *parser) postfix(n node) node {
	for {
		switch {
		case p.skip("."):
			n = &itemNode{variable(n), &constantNode{p.attribute()}, true}
		case p.skip("["):
			if p.kind() == ":" {
				p.expect("]")
			}
			index := p.expression()
			p.expect("]")
			n = &itemNode{variable(n), index, false}
		default:
			return n
		}
	}
}

// variable returns the node n, which is followed by a dot or a bracket. It rejects a constant, such
// as the list in [1, 2][0]. Jinja evaluates such an expression when it compiles the template. If
// the constant lacks the member, as in [1, 2][5], Jinja's result depends on where the expression is
// in the template.
func variable(n node) node {
	switch n.(type) {
	case *constantNode, *listNode, *dictNode:
		panic(failf("a part of a constant is not supported: write the part alone"))
	}
	return n
}

// methods contains, for each method that people often try, the text that says what to write
// instead.
var methods = map[string]string{
	"get":        `write ['key'] with "| default(…)"`,
	"items":      "there are no loops: name a key",
	"keys":       `there are no loops: write "in" with the mapping itself`,
	"values":     "there are no loops: name a key",
	"lower":      `write "| lower"`,
	"upper":      `write "| upper"`,
	"replace":    `write "| replace(…)"`,
	"join":       `write the list with "| join(…)"`,
	"startswith": `write "in"`,
	"endswith":   `write "in"`,
}

// attribute parses the name after a dot.
func (p *parser) attribute() string {
	t := p.next()
	switch {
	case t.kind == "number":
		panic(failf("a number after a dot is not supported: write [%s]", t.text))
	case t.kind != "name":
		panic(failf("after the dot expected a name, got %v", t))
	case strings.HasPrefix(t.text, "__"):
		panic(failf("the attribute %s is not supported", t.text))
	case p.kind() != "(":
	case methods[t.text] != "":
		panic(failf("the method %s is not supported: %s", t.text, methods[t.text]))
	default:
		panic(failf("the method %s is not supported: write one of the filters %s",
			t.text, namesOf(filters)))
	}
	return t.text
}

// filtered parses filters and tests.
func (p *parser) filtered(n node) node {
	for {
		switch {
		case p.skip("|"):
			n = p.filter(n)
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

func (p *parser) filter(n node) node {
	name := p.name()
	f, ok := filters[name]
	if !ok {
		panic(failf("the filter %s is not supported: write one of %s", name, namesOf(filters)))
	}
	var args []node
	if p.skip("(") {
		if p.kind() == "name" && p.tokens[1].kind == "=" {
			panic(failf("the filter %s: arguments with names are not supported: "+
				"write the value alone", name))
		}
		args = p.list(")")
	}
	if len(args) < f.least || len(args) > f.most {
		panic(failf("the filter %s has %d arguments: write %s", name, len(args), f.arguments()))
	}
	return &filterNode{n, f, args}
}

func (p *parser) test(n node) node {
	negated := p.skipWord("not")
	name := p.name()
	is, ok := tests[name]
	if !ok {
		panic(failf("the test %s is not supported: write one of %s", name, namesOf(tests)))
	}
	switch p.kind() { // Jinja would parse these tokens as an argument of the test
	case "name", "string", "number", "[", "{", "(":
		if !p.isWord("else") && !p.isWord("or") && !p.isWord("and") {
			panic(failf("the test %s has an argument: put the test in parentheses", name))
		}
	}
	return &testNode{n, is, negated}
}

// namesOf lists the keys of a table, for an error.
func namesOf[T any](table map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}
