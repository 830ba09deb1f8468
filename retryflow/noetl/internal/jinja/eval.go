package jinja

import (
	"reflect"
	"unicode/utf8"
)

// An evaluation evaluates one expression. It looks up the names of the expression, and counts how
// much of the limits has been used.
type evaluation struct {
	lookup func(name string) (any, bool)
	rand   func() float64
	steps  int
	size   int
}

func (n *constantNode) eval(*evaluation) Value { return n.value }

func (n *nameNode) eval(e *evaluation) Value {
	e.step(1)
	v, ok := e.lookup(n.name)
	if err, failed := v.(error); failed && !ok {
		panic(failure{err})
	}
	if !ok {
		return &undefined{n.name}
	}
	return e.fromGo(reflect.ValueOf(v))
}

func (n *listNode) eval(e *evaluation) Value { return list(e.evalAll(n.members)) }

// evalAll evaluates nodes, and returns their values.
func (e *evaluation) evalAll(nodes []node) []Value {
	e.grow(memberSize * len(nodes))
	values := make([]Value, len(nodes))
	for i, n := range nodes {
		values[i] = n.eval(e)
	}
	return values
}

func (n *dictNode) eval(e *evaluation) Value {
	d := dict{}
	for i, value := range e.evalAll(n.values) {
		d[n.keys[i]] = value
	}
	return d
}

func (n *itemNode) eval(e *evaluation) Value {
	object, index := n.object.eval(e), n.index.eval(e)
	e.step(1)
	if v, ok := e.itemOf(object, index); ok {
		return v
	}
	return &undefined{path(n)}
}

func (e *evaluation) itemOf(object, index Value) (Value, bool) {
	name, isText := textOf(index)
	switch o := object.(type) {
	case *undefined:
		panic(o.err())
	case mapping:
		if u, ok := index.(*undefined); ok {
			panic(u.err())
		}
		if !isText {
			return nil, false
		}
		return o.get(e, name)
	case goValue:
		if !isText {
			return nil, false
		}
		return o.field(e, name)
	case string:
		e.countRead(len(o))
		if i, ok := position(index, utf8.RuneCountInString(o)); ok {
			for _, r := range o {
				if i--; i < 0 {
					return string(r), true
				}
			}
		}
	case sequence:
		if i, ok := position(index, o.length()); ok {
			return o.at(e, i), true
		}
	case markup:
		panic(marked())
	}
	return nil, false
}

// position returns the position of an index in a list of n members, from 0 to n-1. A negative index
// counts from the end. `position` returns false if there is no such member.
func position(index Value, n int) (int, bool) {
	i, ok := whole(index)
	if i < 0 {
		i += int64(n)
	}
	return int(i), ok && 0 <= i && i < int64(n)
}

func (n *randNode) eval(e *evaluation) Value { return e.rand() }

func (n *filterNode) eval(e *evaluation) Value {
	return n.filter.call(e, n.input.eval(e), e.evalAll(n.args))
}

func (n *testNode) eval(e *evaluation) Value { return n.is(n.input.eval(e)) != n.negated }

func (n *notNode) eval(e *evaluation) Value { return !truth(n.operand.eval(e)) }

func (n *signNode) eval(e *evaluation) Value { return negative(n.operand.eval(e)) }

func (n *compareNode) eval(e *evaluation) Value {
	return e.compare(n.op, n.left.eval(e), n.right.eval(e))
}

func (n *binaryNode) eval(e *evaluation) Value {
	return e.arithmetic(n.op, n.left.eval(e), n.right.eval(e))
}

func (n *conditionalNode) eval(e *evaluation) Value {
	if truth(n.condition.eval(e)) {
		return n.then.eval(e)
	}
	return n.otherwise.eval(e)
}

func (n *logicNode) eval(e *evaluation) Value {
	left := n.left.eval(e)
	if truth(left) == n.isOr {
		return left
	}
	return n.right.eval(e)
}
