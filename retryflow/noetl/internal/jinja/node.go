package jinja

import "strings"

// A node is a part of an expression.
type node interface {
	eval(e *evaluation) Value
}

type (
	constantNode struct{ value Value }
	nameNode     struct{ name string }
	listNode     struct{ members []node }
	dictNode     struct {
		keys   []string
		values []node
	}
	itemNode struct { // an attribute or a subscript
		object, index node
		attribute     bool // true for an attribute, which is written with a dot; false for a subscript
	}
	randNode   struct{}
	filterNode struct {
		input  node
		filter *filter
		args   []node
	}
	testNode struct {
		input   node
		is      func(Value) bool
		negated bool
	}
	notNode   struct{ operand node }
	signNode  struct{ operand node }
	logicNode struct {
		left, right node

		// isOr is true for "or" and false for "and". If the truth value of `left` equals isOr, the result
		// is `left`. Otherwise the result is `right`.
		isOr bool
	}
	compareNode struct {
		op          string
		left, right node
	}
	binaryNode struct {
		op          string
		left, right node
	}
	conditionalNode struct{ then, condition, otherwise node }
)

// path returns the text of a name, an attribute or a subscript, such as outcome.http.status. For
// any other node it returns (…).
func path(n node) string {
	switch n := n.(type) {
	case *nameNode:
		return n.name
	case *itemNode:
		c, ok := n.index.(*constantNode)
		switch {
		case !ok:
			return path(n.object) + "[…]"
		case n.attribute:
			return path(n.object) + "." + c.value.(string)
		default:
			index := strings.TrimPrefix(kind(c.value), "text ")
			return path(n.object) + "[" + strings.ReplaceAll(index, `"`, "'") + "]"
		}
	default:
		return "(…)"
	}
}
