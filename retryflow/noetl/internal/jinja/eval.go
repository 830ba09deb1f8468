package jinja

import (
	"math/big"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// A node is a part of an expression.
type node interface {
	eval(e *evaluation) Value
}

type (
	constantNode struct{ value Value }
	nameNode     struct{ name string }
	listNode     struct {
		members []node
		tuple   bool
	}
	dictNode      struct{ keys, values []node }
	attributeNode struct {
		object node
		name   string
	}
	itemNode   struct{ object, index node }
	randNode   struct{}
	filterNode struct { // a filter, a test or a method
		input  node
		filter *function
		args   []node
	}
	notNode  struct{ operand node }
	signNode struct {
		op      string
		operand node
	}
	logicNode struct {
		left, right node
		decides     bool // the truth of left that makes it the result: true in or, false in and
	}
	compareNode struct {
		first    node
		operands []operand
	}
	binaryNode struct {
		op          string
		left, right node
	}
	concatNode      struct{ parts []node }
	conditionalNode struct{ then, condition, otherwise node }
)

// An operand is an operator in a chain of comparisons, with its right side.
type operand struct {
	op    string
	value node
}

// isConstant reports whether n consists only of literals and operators.
func isConstant(n node) bool {
	switch n := n.(type) {
	case nil, *constantNode:
		return true
	case *listNode:
		return areConstant(n.members...)
	case *dictNode:
		return areConstant(n.keys...) && areConstant(n.values...)
	case *signNode:
		return isConstant(n.operand)
	case *notNode:
		return isConstant(n.operand)
	case *binaryNode:
		return areConstant(n.left, n.right)
	default:
		return false
	}
}

func (n *constantNode) eval(*evaluation) Value { return n.value }

func (n *nameNode) eval(e *evaluation) Value {
	e.step(1)
	v, ok := e.lookup(n.name)
	if err, failed := v.(error); failed && !ok {
		panic(failure{err})
	}
	if !ok {
		return &undefined{what: n.name}
	}
	return e.fromGo(reflect.ValueOf(v))
}

func (n *listNode) eval(e *evaluation) Value { return &list{e.all(n.members), n.tuple} }

// all evaluates nodes. A nil node is a missing argument.
func (e *evaluation) all(nodes []node) []Value {
	e.grow(memberSize * len(nodes))
	values := make([]Value, len(nodes))
	for i, n := range nodes {
		if values[i] = Value(missing{}); n != nil {
			values[i] = n.eval(e)
		}
	}
	return values
}

func (n *dictNode) eval(e *evaluation) Value {
	keys, values := e.all(n.keys), e.all(n.values)
	d := newDict()
	for i, key := range keys {
		name, ok := key.(string)
		if !ok {
			panic(wrong(key, "the key %s of a mapping is not supported: write a text", kind(key)))
		}
		d.set(e, name, values[i])
	}
	return d
}

// eval returns object.name, which is an attribute, or else an item.
func (n *attributeNode) eval(e *evaluation) Value {
	object := n.object.eval(e)
	e.step(1)
	if v, ok := e.attributeOf(object, n.name); ok {
		return v
	}
	if v, ok := e.itemOf(object, n.name); ok {
		return v
	}
	return &undefined{at: n}
}

// eval returns object[index], which is an item, or else an attribute.
func (n *itemNode) eval(e *evaluation) Value {
	object, index := n.object.eval(e), n.index.eval(e)
	e.step(1)
	if v, ok := e.itemOf(object, index); ok {
		return v
	}
	if name, ok := index.(string); ok {
		if v, ok := e.attributeOf(object, name); ok {
			return v
		}
	}
	return &undefined{at: n}
}

func (e *evaluation) itemOf(object, index Value) (Value, bool) {
	switch o := object.(type) {
	case mapping:
		if u, ok := index.(*undefined); ok {
			panic(u.err())
		}
		return o.get(e, index)
	case string:
		e.read(len(o))
		i, ok := position(index, utf8.RuneCountInString(o))
		if !ok {
			return nil, false
		}
		r, _ := utf8.DecodeRuneInString(o[offset(o, i):])
		return string(r), true
	case sequence:
		i, ok := position(index, o.length())
		if !ok {
			return nil, false
		}
		return o.at(e, i), true
	case *undefined:
		panic(o.err())
	case markup:
		panic(unusable(o))
	}
	return nil, false
}

// position returns the position, among n members, that an index refers to.
func position(index Value, n int) (int, bool) {
	i := whole(index)
	if i == nil || !i.IsInt64() {
		return 0, false
	}
	at := i.Int64()
	if at < 0 {
		at += int64(n)
	}
	return int(at), 0 <= at && at < int64(n)
}

// attributeOf returns an attribute that is not an item. Python's types have
// methods as attributes, and those cannot be read here.
func (e *evaluation) attributeOf(object Value, name string) (Value, bool) {
	if strings.HasPrefix(name, "__") && (!isA[mapping](object) || strings.HasSuffix(name, "__")) {
		panic(failf("the attribute %s is not supported", name))
	}
	var names []string
	switch o := object.(type) {
	case *undefined:
		panic(o.err())
	case goStruct:
		return o.field(e, name)
	case mapping:
		names = mappingAttributes
	case sequence:
		if names = listAttributes; isTuple(o) {
			names = tupleAttributes
		}
	case string, markup:
		names = textAttributes
	case bool, *big.Int, float64:
		names = numberAttributes
	}
	if slices.Contains(names, name) {
		panic(failf("the attribute %s of %s is not supported", name, kind(object)))
	}
	return nil, false
}

// path returns the text of a node that is a path, such as outcome.http.status.
func path(n node) string {
	switch n := n.(type) {
	case *nameNode:
		return n.name
	case *attributeNode:
		return path(n.object) + "." + n.name
	case *itemNode:
		if c, ok := n.index.(*constantNode); ok {
			if s, ok := c.value.(string); ok {
				return path(n.object) + "[" + quote(s) + "]"
			}
			return path(n.object) + "[" + kind(c.value) + "]"
		}
		return path(n.object) + "[…]"
	default:
		return "(…)"
	}
}

func (n *randNode) eval(e *evaluation) Value { return e.rand() }

func (n *filterNode) eval(e *evaluation) Value {
	return n.filter.call(e, n.input.eval(e), e.all(n.args))
}

func (n *notNode) eval(e *evaluation) Value { return !truth(n.operand.eval(e)) }

func (n *signNode) eval(e *evaluation) Value { return sign(n.op, n.operand.eval(e)) }

func (n *compareNode) eval(e *evaluation) Value {
	left := n.first.eval(e)
	for _, o := range n.operands {
		right := o.value.eval(e)
		if !e.compare(o.op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (n *binaryNode) eval(e *evaluation) Value {
	return e.arithmetic(n.op, n.left.eval(e), n.right.eval(e))
}

func (n *concatNode) eval(e *evaluation) Value {
	var b strings.Builder
	for _, part := range e.all(n.parts) {
		s := e.str(part)
		b.WriteString(s)
		e.grow(len(s))
	}
	return b.String()
}

func (n *conditionalNode) eval(e *evaluation) Value {
	switch {
	case truth(n.condition.eval(e)):
		return n.then.eval(e)
	case n.otherwise == nil:
		return &undefined{what: "an if that is false and has no else", lenient: true}
	default:
		return n.otherwise.eval(e)
	}
}

func areConstant(nodes ...node) bool {
	return !slices.ContainsFunc(nodes, func(n node) bool { return !isConstant(n) })
}

func (n *logicNode) eval(e *evaluation) Value {
	left := n.left.eval(e)
	if truth(left) == n.decides {
		return left
	}
	return n.right.eval(e)
}
