package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// A node is a part of an expression.
type node interface {
	eval(e *evaluation) (Value, error)
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
		object   node
		name     string
		constant bool
	}
	itemNode struct {
		object, index node
		constant      bool
	}
	sliceNode struct {
		object   node
		bounds   [3]node // start, stop and step; nil if left out
		constant bool
	}
	callNode struct {
		function *function
		args     []node
	}
	methodNode struct {
		object node
		name   string
		args   map[string][]node // by the kind of value that has the method
	}
	filterNode struct {
		input  node
		filter *function
		args   []node
	}
	notNode  struct{ operand node }
	signNode struct {
		op      string
		operand node
	}
	andNode     struct{ left, right node }
	orNode      struct{ left, right node }
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
		return !slices.ContainsFunc(n.members, func(n node) bool { return !isConstant(n) })
	case *dictNode:
		return !slices.ContainsFunc(append(slices.Clone(n.keys), n.values...), func(n node) bool { return !isConstant(n) })
	case *attributeNode:
		return n.constant
	case *itemNode:
		return n.constant
	case *sliceNode:
		return n.constant
	case *signNode:
		return isConstant(n.operand)
	case *notNode:
		return isConstant(n.operand)
	case *binaryNode:
		return isConstant(n.left) && isConstant(n.right)
	default:
		return false
	}
}

func (n *constantNode) eval(*evaluation) (Value, error) { return n.value, nil }

func (n *nameNode) eval(e *evaluation) (Value, error) {
	if err := e.step(1); err != nil {
		return nil, err
	}
	v, ok := e.lookup(n.name)
	if err, failed := v.(error); failed && !ok {
		return nil, err
	}
	if !ok {
		return &undefined{what: n.name}, nil
	}
	return e.fromGo(reflect.ValueOf(v))
}

func (n *listNode) eval(e *evaluation) (Value, error) {
	members, err := e.all(n.members)
	return &list{members, n.tuple}, err
}

// all evaluates nodes. A nil node is a missing argument.
func (e *evaluation) all(nodes []node) ([]Value, error) {
	if err := e.grow(memberSize * len(nodes)); err != nil {
		return nil, err
	}
	values := make([]Value, len(nodes))
	for i, n := range nodes {
		var err error
		if values[i] = Value(missing{}); n != nil {
			values[i], err = n.eval(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (n *dictNode) eval(e *evaluation) (Value, error) {
	keys, err := e.all(n.keys)
	if err != nil {
		return nil, err
	}
	values, err := e.all(n.values)
	if err != nil {
		return nil, err
	}
	d := newDict()
	for i := range keys {
		if err := d.set(e, keys[i], values[i]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (n *attributeNode) eval(e *evaluation) (Value, error) {
	object, err := n.object.eval(e)
	if err != nil {
		return nil, err
	}
	return e.attribute(object, n.name, n)
}

// attribute returns object.name, which is an attribute, or else an item.
func (e *evaluation) attribute(object Value, name string, at node) (Value, error) {
	if err := e.step(1); err != nil {
		return nil, err
	}
	if v, ok, err := e.attributeOf(object, name); ok || err != nil {
		return v, err
	}
	if v, ok, err := e.itemOf(object, name); ok || err != nil {
		return v, err
	}
	return &undefined{at: at}, nil
}

// item returns object[index], which is an item, or else an attribute.
func (e *evaluation) item(object, index Value, missing *undefined) (Value, error) {
	if err := e.step(1); err != nil {
		return nil, err
	}
	if v, ok, err := e.itemOf(object, index); ok || err != nil {
		return v, err
	}
	if name, ok := index.(string); ok {
		if v, ok, err := e.attributeOf(object, name); ok || err != nil {
			return v, err
		}
	}
	return missing, nil
}

func (e *evaluation) itemOf(object, index Value) (Value, bool, error) {
	switch o := object.(type) {
	case mapping:
		if _, err := e.hash(index); err != nil {
			if u, ok := index.(*undefined); ok {
				return nil, false, u.err()
			}
			return nil, false, nil
		}
		return o.get(e, index)
	case string:
		if err := e.read(len(o)); err != nil {
			return nil, false, err
		}
		i, ok := position(index, utf8.RuneCountInString(o))
		if !ok {
			return nil, false, nil
		}
		r, _ := utf8.DecodeRuneInString(o[offset(o, i):])
		return string(r), true, nil
	case sequence:
		i, ok := position(index, o.length())
		if !ok {
			return nil, false, nil
		}
		v, err := o.at(e, i)
		return v, true, err
	case *undefined:
		return nil, false, o.err()
	case markup, *method:
		return nil, false, unusable(o)
	}
	return nil, false, nil
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

// attributeOf returns an attribute that is not an item.
func (e *evaluation) attributeOf(object Value, name string) (Value, bool, error) {
	switch o := object.(type) {
	case *undefined:
		return nil, false, o.err()
	case *method:
		return nil, false, unusable(o)
	}
	if strings.HasPrefix(name, "__") {
		if _, isMapping := object.(mapping); !isMapping || strings.HasSuffix(name, "__") {
			return nil, false, fmt.Errorf("the attribute %s is not supported", name)
		}
	}
	switch o := object.(type) {
	case goStruct:
		return o.field(e, name)
	case mapping:
		return &method{name}, slices.Contains(mappingAttributes, name), nil
	case sequence:
		if _, ok := o.(interval); ok && (name == "start" || name == "stop" || name == "step") {
			return nil, false, fmt.Errorf("the attribute %s of a range is not supported", name)
		}
		if isTuple(o) {
			return &method{name}, name == "count" || name == "index", nil
		}
		return &method{name}, slices.Contains(listAttributes, name), nil
	case string, markup:
		return &method{name}, slices.Contains(textAttributes, name), nil
	case bool, *big.Int, float64:
		if slices.Contains(numberAttributes, name) {
			return nil, false, fmt.Errorf("the attribute %s of a number is not supported", name)
		}
	}
	return nil, false, nil
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

func (n *itemNode) eval(e *evaluation) (Value, error) {
	object, err := n.object.eval(e)
	if err != nil {
		return nil, err
	}
	index, err := n.index.eval(e)
	if err != nil {
		return nil, err
	}
	return e.item(object, index, &undefined{at: n})
}

func (n *sliceNode) eval(e *evaluation) (Value, error) {
	object, err := n.object.eval(e)
	if err != nil {
		return nil, err
	}
	bounds, err := e.all(n.bounds[:])
	if err != nil {
		return nil, err
	}
	var length int
	switch o := object.(type) {
	case string:
		if err := e.read(len(o)); err != nil {
			return nil, err
		}
		length = utf8.RuneCountInString(o)
	case sequence:
		length = o.length()
	case *undefined, *method:
		return nil, unusable(o)
	default:
		return nil, fmt.Errorf("%s cannot be sliced", kind(object))
	}
	start, stop, step, err := sliceOf(bounds, length)
	if err != nil {
		return nil, err
	}
	return e.sliced(object, start, stop, step)
}

// sliced returns every step-th member of object from start up to stop.
func (e *evaluation) sliced(object Value, start, stop, step int) (Value, error) {
	n := interval{int64(start), int64(stop), int64(step)}.length()
	switch o := object.(type) {
	case string:
		runes := []rune(o)
		if err := e.grow(4 * n); err != nil {
			return nil, err
		}
		cut := make([]rune, n)
		for i := range cut {
			cut[i] = runes[start+i*step]
		}
		return string(cut), nil
	case interval:
		by := new(big.Int).Mul(big.NewInt(int64(step)), big.NewInt(o.step))
		if by.BitLen() > 53 || max(step, -step) == maxStep {
			return nil, fmt.Errorf("%v cannot be the step of a range", by)
		}
		return interval{o.start + int64(start)*o.step, o.start + int64(stop)*o.step, by.Int64()}, nil
	default:
		s := o.(sequence)
		if err := e.grow(memberSize * n); err != nil {
			return nil, err
		}
		cut := &list{make([]Value, n), isTuple(s)}
		for i := range cut.members {
			var err error
			if cut.members[i], err = s.at(e, start+i*step); err != nil {
				return nil, err
			}
		}
		return cut, nil
	}
}

// maxStep stands for every step of a slice that is as large or larger. It is
// beyond every list, and fits an int of 32 bits too.
const maxStep = min(maxExact, math.MaxInt)

// sliceOf returns the numbers that the bounds of a slice stand for, with length
// members.
func sliceOf(bounds []Value, length int) (start, stop, step int, err error) {
	at := [3]*big.Int{}
	for i, b := range bounds {
		if at[i] = whole(b); at[i] == nil && b != nil && !isMissing(b) {
			return 0, 0, 0, fmt.Errorf("the bound %s of a slice is not a whole number", kind(b))
		}
	}
	step = 1
	if at[2] != nil {
		if at[2].Sign() == 0 {
			return 0, 0, 0, errors.New("the step of a slice is 0")
		}
		step = clamp(at[2], -maxStep, maxStep)
	}
	if step > 0 {
		return bound(at[0], 0, length, length), bound(at[1], length, length, length), step, nil
	}
	return bound(at[0], length-1, length, length-1), bound(at[1], -1, length, length-1), step, nil
}

// bound returns a bound of a slice: absent if at is nil, counted from the end
// if it is negative, and never above most.
func bound(at *big.Int, absent, length, most int) int {
	if at == nil {
		return absent
	}
	n := clamp(at, -length-1, length)
	if n < 0 {
		if n += length; n < 0 {
			return most - length
		}
	}
	return min(n, most)
}

func clamp(n *big.Int, least, most int) int {
	switch {
	case n.Cmp(big.NewInt(int64(least))) < 0:
		return least
	case n.Cmp(big.NewInt(int64(most))) > 0:
		return most
	default:
		return int(n.Int64())
	}
}

func (n *callNode) eval(e *evaluation) (Value, error) {
	args, err := e.all(n.args)
	if err != nil {
		return nil, err
	}
	return n.function.call(e, nil, args)
}

func (n *methodNode) eval(e *evaluation) (Value, error) {
	object, err := n.object.eval(e)
	if err != nil {
		return nil, err
	}
	of := ""
	switch o := object.(type) {
	case string:
		of = "text"
	case mapping:
		of = "mapping"
	case sequence:
		of = "list"
	case *undefined, *method:
		return nil, unusable(o)
	}
	if _, ok := methods[n.name][of]; !ok {
		return nil, fmt.Errorf("%s has no method %s", kind(object), n.name)
	}
	nodes, ok := n.args[of]
	if !ok {
		return nil, fmt.Errorf("%s: these are not the arguments of its method %s", kind(object), n.name)
	}
	args, err := e.all(nodes)
	if err != nil {
		return nil, err
	}
	return methods[n.name][of].call(e, object, args)
}

func (n *filterNode) eval(e *evaluation) (Value, error) {
	input, err := n.input.eval(e)
	if err != nil {
		return nil, err
	}
	args, err := e.all(n.args)
	if err != nil {
		return nil, err
	}
	return n.filter.call(e, input, args)
}

func (e *evaluation) truthOf(n node) (bool, error) {
	v, err := n.eval(e)
	if err != nil {
		return false, err
	}
	return truth(v)
}

func (n *notNode) eval(e *evaluation) (Value, error) {
	holds, err := e.truthOf(n.operand)
	return !holds, err
}

func (n *signNode) eval(e *evaluation) (Value, error) {
	v, err := n.operand.eval(e)
	if err != nil {
		return nil, err
	}
	return sign(n.op, v)
}

func (n *andNode) eval(e *evaluation) (Value, error) {
	left, err := n.left.eval(e)
	if err != nil {
		return nil, err
	}
	if holds, err := truth(left); err != nil || !holds {
		return left, err
	}
	return n.right.eval(e)
}

func (n *orNode) eval(e *evaluation) (Value, error) {
	left, err := n.left.eval(e)
	if err != nil {
		return nil, err
	}
	if holds, err := truth(left); err != nil || holds {
		return left, err
	}
	return n.right.eval(e)
}

func (n *compareNode) eval(e *evaluation) (Value, error) {
	left, err := n.first.eval(e)
	if err != nil {
		return nil, err
	}
	for _, o := range n.operands {
		right, err := o.value.eval(e)
		if err != nil {
			return nil, err
		}
		if holds, err := e.compare(o.op, left, right); err != nil || !holds {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (n *binaryNode) eval(e *evaluation) (Value, error) {
	left, err := n.left.eval(e)
	if err != nil {
		return nil, err
	}
	right, err := n.right.eval(e)
	if err != nil {
		return nil, err
	}
	return e.arithmetic(n.op, left, right)
}

func (n *concatNode) eval(e *evaluation) (Value, error) {
	parts, err := e.all(n.parts)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, part := range parts {
		s, err := e.str(part)
		if err != nil {
			return nil, err
		}
		b.WriteString(s)
		if err := e.grow(len(s)); err != nil {
			return nil, err
		}
	}
	return b.String(), nil
}

func (n *conditionalNode) eval(e *evaluation) (Value, error) {
	holds, err := e.truthOf(n.condition)
	switch {
	case err != nil:
		return nil, err
	case holds:
		return n.then.eval(e)
	case n.otherwise == nil:
		return &undefined{what: "an if that is false and has no else", lenient: true}, nil
	default:
		return n.otherwise.eval(e)
	}
}
