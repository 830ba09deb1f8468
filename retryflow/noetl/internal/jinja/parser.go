package jinja

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A parser follows Jinja's grammar, from the operators that bind least to those
// that bind most: or, and, not, comparisons, sums, ~, products, powers, signs,
// and then subscripts, calls, filters and tests.
type parser struct {
	tokens    []token
	depth     int
	constants *evaluation // of all constants of a template together
}

// parse parses the tokens of one {{ … }}.
func parse(tokens []token, constants *evaluation) (node, error) {
	p := &parser{tokens: tokens, constants: constants}
	n, err := p.tuple("end")
	if err == nil && p.kind() != "end" {
		err = p.unexpected()
	}
	return n, err
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
func (p *parser) isWord(text string) bool {
	return p.kind() == "name" && p.tokens[0].text == text
}

func (p *parser) skipWord(text string) bool {
	if !p.isWord(text) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(kind string) error {
	if !p.skip(kind) {
		return fmt.Errorf("expected %q, got %v", kind, p.tokens[0])
	}
	return nil
}

func (p *parser) unexpected() error { return fmt.Errorf("unexpected %v", p.tokens[0]) }

// nest parses with one more level of nesting.
func (p *parser) nest(parse func() (node, error)) (node, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, fmt.Errorf("it is nested more than %d deep", maxNesting)
	}
	defer func() { p.depth-- }()
	return parse()
}

// tuple parses expressions up to a closing token. With a comma they are a
// tuple.
func (p *parser) tuple(end string) (node, error) {
	var members []node
	comma := false
	for {
		if p.kind() == end {
			break
		}
		n, err := p.expression()
		if err != nil {
			return nil, err
		}
		members = append(members, n)
		if !p.skip(",") {
			break
		}
		comma = true
	}
	switch {
	case !comma && len(members) == 1:
		return members[0], nil
	case len(members) == 0 && end == "end":
		return nil, errors.New("there is nothing between {{ and }}")
	default:
		return &listNode{members, true}, nil
	}
}

func (p *parser) expression() (node, error) { return p.nest(p.conditional) }

func (p *parser) conditional() (node, error) {
	n, err := p.or()
	for err == nil && p.skipWord("if") {
		c := &conditionalNode{then: n}
		if c.condition, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipWord("else") {
			c.otherwise, err = p.expression()
		}
		n = c
	}
	return n, err
}

func (p *parser) or() (node, error) {
	n, err := p.and()
	for err == nil && p.skipWord("or") {
		var right node
		right, err = p.and()
		n = &orNode{n, right}
	}
	return n, err
}

func (p *parser) and() (node, error) {
	n, err := p.not()
	for err == nil && p.skipWord("and") {
		var right node
		right, err = p.not()
		n = &andNode{n, right}
	}
	return n, err
}

func (p *parser) not() (node, error) {
	if !p.skipWord("not") {
		return p.comparison()
	}
	n, err := p.nest(p.not)
	return &notNode{n}, err
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) comparison() (node, error) {
	n, err := p.sum()
	var operands []operand
	for err == nil {
		var op string
		switch {
		case slices.Contains(comparisons, p.kind()):
			op = p.next().text
		case p.skipWord("in"):
			op = "in"
		case p.isWord("not") && p.tokens[1].kind == "name" && p.tokens[1].text == "in":
			p.next()
			p.next()
			op = "not in"
		default:
			if operands == nil {
				return n, nil
			}
			return &compareNode{n, operands}, nil
		}
		var right node
		right, err = p.sum()
		operands = append(operands, operand{op, right})
	}
	return nil, err
}

func (p *parser) sum() (node, error)     { return p.binary(p.concat, "+", "-") }
func (p *parser) product() (node, error) { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() (node, error)   { return p.binary(p.unary, "**") }

// binary parses operators that associate to the left. In Jinja ** does so too.
func (p *parser) binary(parse func() (node, error), operators ...string) (node, error) {
	n, err := parse()
	for err == nil && slices.Contains(operators, p.kind()) {
		op := p.next().text
		var right node
		if right, err = parse(); err == nil && op == "**" && isConstant(n) && !isConstant(right) {
			err = p.checkBase(n)
		}
		n = &binaryNode{op, n, right}
	}
	return n, err
}

// checkBase rejects a negative constant before **. Jinja writes such a constant
// into its program without parentheses, where ** binds more than the sign.
func (p *parser) checkBase(n node) error {
	v, err := n.eval(p.constants)
	if err == nil && isNumber(v) && math.Signbit(float(v)) {
		err = errors.New("Jinja misreads a negative number before **: write a positive one")
	}
	return err
}

func (p *parser) concat() (node, error) {
	n, err := p.product()
	if err != nil || p.kind() != "~" {
		return n, err
	}
	parts := []node{n}
	for err == nil && p.skip("~") {
		n, err = p.product()
		parts = append(parts, n)
	}
	return &concatNode{parts}, err
}

// unary parses a sign. A filter or test applies to the signed value.
func (p *parser) unary() (node, error) {
	n, err := p.signed()
	if err != nil {
		return nil, err
	}
	return p.filtered(n)
}

func (p *parser) signed() (node, error) {
	var n node
	var err error
	switch {
	case p.skip("-"):
		if n, err = p.nest(p.signed); err == nil {
			n = &signNode{"-", n}
		}
	case p.skip("+"):
		if n, err = p.nest(p.signed); err == nil {
			n = &signNode{"+", n}
		}
	default:
		n, err = p.primary()
	}
	if err != nil {
		return nil, err
	}
	return p.postfix(n)
}

// constants are the names of constants.
var constants = map[string]Value{"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil}

// keywords cannot be names. Where no operator can stand, Jinja reads some of
// them as a name that is undefined.
var keywords = []string{"and", "or", "not", "if", "else", "in", "is", "elif", "recursive"}

func (p *parser) primary() (node, error) {
	switch t := p.tokens[0]; t.kind {
	case "name":
		if value, ok := constants[t.text]; ok {
			p.next()
			return &constantNode{value}, nil
		}
		if slices.Contains(keywords, t.text) {
			return nil, p.unexpected()
		}
		p.next()
		if err := checkName(t.text, p.kind() == "("); err != nil {
			return nil, err
		}
		return &nameNode{t.text}, nil
	case "string":
		var text strings.Builder
		for p.kind() == "string" {
			text.WriteString(p.next().text)
		}
		return &constantNode{text.String()}, nil
	case "number":
		p.next()
		return &constantNode{t.value}, nil
	case "(":
		p.next()
		n, err := p.nest(func() (node, error) { return p.tuple(")") })
		if err != nil {
			return nil, err
		}
		return n, p.expect(")")
	case "[":
		return p.list()
	case "{":
		return p.dict()
	default:
		return nil, p.unexpected()
	}
}

// checkName rejects Jinja's own functions, and functions that are not called.
func checkName(name string, called bool) error {
	switch {
	case slices.Contains(unsupportedNames, name):
		return fmt.Errorf("%s is not supported", name)
	case functions[name] != nil && !called:
		return fmt.Errorf("%s is a function: call it", name)
	case functions[name] == nil && called:
		return fmt.Errorf("unknown function %q: there are range and rand", name)
	}
	return nil
}

// unsupportedNames are Jinja's global functions and objects.
var unsupportedNames = []string{"lipsum", "dict", "cycler", "joiner", "namespace", "self", "super"}

func (p *parser) list() (node, error) {
	p.next()
	list := &listNode{}
	for p.kind() != "]" {
		n, err := p.expression()
		if err != nil {
			return nil, err
		}
		list.members = append(list.members, n)
		if !p.skip(",") {
			break
		}
	}
	return list, p.expect("]")
}

func (p *parser) dict() (node, error) {
	p.next()
	dict := &dictNode{}
	for p.kind() != "}" {
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expect(":"); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		dict.keys, dict.values = append(dict.keys, key), append(dict.values, value)
		if !p.skip(",") {
			break
		}
	}
	return dict, p.expect("}")
}

func (p *parser) postfix(n node) (node, error) {
	var err error
	for err == nil {
		switch p.kind() {
		case ".":
			n, err = p.attribute(n)
		case "[":
			n, err = p.subscript(n)
		case "(":
			n, err = p.call(n)
		default:
			return n, nil
		}
	}
	return nil, err
}

func (p *parser) attribute(n node) (node, error) {
	p.next()
	switch t := p.next(); {
	case t.kind == "name":
		if strings.HasPrefix(t.text, "__") && strings.HasSuffix(t.text, "__") {
			return nil, fmt.Errorf("the attribute %s is not supported", t.text)
		}
		if p.kind() == "(" {
			return p.method(n, t.text)
		}
		if slices.Contains(mappingAttributes, t.text) {
			return nil, fmt.Errorf("%[1]s is a method of mappings: write ['%[1]s'] for the key, or %[1]s() to call it", t.text)
		}
		return p.found(&attributeNode{n, t.text, isConstant(n)})
	case t.kind == "number" && isInteger(t.value):
		return p.found(&itemNode{n, &constantNode{t.value}, isConstant(n)})
	default:
		return nil, fmt.Errorf("after the dot expected a name, got %v", t)
	}
}

func (p *parser) subscript(n node) (node, error) {
	p.next()
	bounds := [3]node{}
	colons := 0
	for p.kind() != "]" {
		if p.kind() == ":" && colons < 2 {
			p.next()
			colons++
			continue
		}
		if bounds[colons] != nil {
			return nil, p.unexpected()
		}
		index, err := p.expression()
		if err != nil {
			return nil, err
		}
		bounds[colons] = index
	}
	p.next()
	switch {
	case colons > 0:
		return p.found(&sliceNode{n, bounds, isConstant(n) && isConstant(bounds[0]) && isConstant(bounds[1]) && isConstant(bounds[2])})
	case bounds[0] == nil:
		return nil, errors.New("there is nothing between [ and ]")
	}
	if c, ok := bounds[0].(*constantNode); ok {
		if name, ok := c.value.(string); ok && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
			return nil, fmt.Errorf("the attribute %s is not supported", name)
		}
	}
	return p.found(&itemNode{n, bounds[0], isConstant(n) && isConstant(bounds[0])})
}

// found rejects a part that a constant does not have. Jinja notices that when
// it compiles, and then its result depends on where the part is.
func (p *parser) found(part node) (node, error) {
	if !isConstant(part) {
		return part, nil
	}
	v, err := part.eval(p.constants)
	if err == nil && isUndefined(v) {
		err = fmt.Errorf("%s is not there", path(part))
	}
	return part, err
}

// call parses the call of a function.
func (p *parser) call(n node) (node, error) {
	name, ok := n.(*nameNode)
	if !ok {
		return nil, errors.New("only functions and methods can be called, by their names")
	}
	f := functions[name.name]
	if f == nil {
		return nil, checkName(name.name, true)
	}
	given, err := p.arguments()
	if err != nil {
		return nil, err
	}
	args, err := f.bind("the function "+name.name, given)
	return &callNode{f, args}, err
}

func (p *parser) method(n node, name string) (node, error) {
	if len(methods[name]) == 0 {
		return nil, fmt.Errorf("unknown method %q", name)
	}
	given, err := p.arguments()
	if err != nil {
		return nil, err
	}
	m := &methodNode{object: n, name: name, args: map[string][]node{}}
	var last error
	for kind, f := range methods[name] {
		if args, err := f.bind("the method "+name, given); err != nil {
			last = err
		} else {
			m.args[kind] = args
		}
	}
	if len(m.args) == 0 {
		return nil, last
	}
	return m, nil
}

// filtered parses filters and tests.
func (p *parser) filtered(n node) (node, error) {
	var err error
	for err == nil {
		switch {
		case p.skip("|"):
			n, err = p.filter(n)
		case p.skipWord("is"):
			n, err = p.test(n)
		case p.kind() == "(":
			return nil, errors.New("what a filter or test gives cannot be called")
		default:
			return n, nil
		}
	}
	return nil, err
}

func (p *parser) dotted() (string, error) {
	t := p.next()
	if t.kind != "name" {
		return "", fmt.Errorf("expected a name, got %v", t)
	}
	name := t.text
	for p.skip(".") {
		t := p.next()
		if t.kind != "name" {
			return "", fmt.Errorf("after the dot expected a name, got %v", t)
		}
		name += "." + t.text
	}
	return name, nil
}

func (p *parser) filter(n node) (node, error) {
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	given := arguments{}
	if p.kind() == "(" {
		if given, err = p.arguments(); err != nil {
			return nil, err
		}
	}
	return newFilter(n, name, given)
}

func (p *parser) test(n node) (node, error) {
	negated := p.skipWord("not")
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	given := arguments{}
	switch k := p.kind(); {
	case k == "(":
		if given, err = p.arguments(); err != nil {
			return nil, err
		}
	case k == "name" && (p.isWord("else") || p.isWord("or") || p.isWord("and")):
	case k == "name" && p.isWord("is"):
		return nil, errors.New("tests cannot be chained: write and")
	case k == "name" || k == "string" || k == "number" || k == "[" || k == "{":
		arg, err := p.primary()
		if err == nil {
			arg, err = p.postfix(arg)
		}
		if err != nil {
			return nil, err
		}
		given.positional = []node{arg}
	}
	t, err := newTest(n, name, given)
	if err != nil {
		return nil, err
	}
	if negated {
		return &notNode{t}, nil
	}
	return t, nil
}

// arguments are the arguments of a call, as written.
type arguments struct {
	positional []node
	names      []string // the names of the keyword arguments
	keywords   []node
}

func (p *parser) arguments() (a arguments, err error) {
	p.next()
	for p.kind() != ")" {
		switch {
		case p.kind() == "*" || p.kind() == "**":
			return a, fmt.Errorf("%s in a call is not supported", p.kind())
		case p.kind() == "name" && p.tokens[1].kind == "=":
			name := p.next().text
			p.next()
			value, err := p.expression()
			if err != nil {
				return a, err
			}
			if slices.Contains(a.names, name) {
				return a, fmt.Errorf("duplicate argument %s", name)
			}
			a.names, a.keywords = append(a.names, name), append(a.keywords, value)
		default:
			if a.names != nil {
				return a, errors.New("an argument without a name stands after one with a name")
			}
			value, err := p.expression()
			if err != nil {
				return a, err
			}
			a.positional = append(a.positional, value)
		}
		if !p.skip(",") {
			break
		}
	}
	return a, p.expect(")")
}
