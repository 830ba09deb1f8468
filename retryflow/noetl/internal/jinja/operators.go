package jinja

import (
	"math"
	"math/big"
	"strings"
)

// truth reports whether v is true, as in Python.
func truth(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case sized:
		return v.length() > 0
	case *undefined:
		panic(v.err())
	default:
		return true
	}
}

// compare evaluates a comparison.
func (e *evaluation) compare(op string, a, b Value) bool {
	switch op {
	case "==":
		return e.equal(a, b, 0)
	case "!=":
		return !e.equal(a, b, 0)
	case "in":
		return e.contains(b, a)
	case "not in":
		return !e.contains(b, a)
	}
	c, ok := e.order(a, b)
	switch op {
	case "<":
		return ok && c < 0
	case "<=":
		return ok && c <= 0
	case ">":
		return ok && c > 0
	default:
		return ok && c >= 0
	}
}

// equal reports whether a == b.
func (e *evaluation) equal(a, b Value, depth int) bool {
	e.visit(depth)
	if isA[*undefined](a) || isA[*undefined](b) || isA[goValue](a) || isA[goValue](b) {
		panic(cannot("compare", a, b))
	}
	if isNumber(a) && isNumber(b) {
		c, ok := orderNumbers(a, b)
		return ok && c == 0
	}
	if x, ok := textOf(a); ok {
		y, ok := textOf(b)
		if !ok || len(x) != len(y) {
			return false
		}
		e.countRead(len(x))
		return x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case sequence:
		y, ok := b.(sequence)
		if !ok || x.length() != y.length() {
			return false
		}
		for i := range x.length() {
			if !e.equalMembers(x.at(e, i), y.at(e, i), depth) {
				return false
			}
		}
		return true
	case mapping:
		y, ok := b.(mapping)
		if !ok || x.length() != y.length() {
			return false
		}
		for _, key := range x.keys(e) {
			value, _ := x.get(e, key)
			if other, ok := y.get(e, key); !ok || !e.equalMembers(value, other, depth) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// equalMembers compares members of lists or mappings as Python does. In Python, two NaN members
// are equal if they are the same object. This package cannot know whether two members are the
// same object, so comparing two NaN members is an error.
func (e *evaluation) equalMembers(a, b Value, depth int) bool {
	if f, ok := a.(float64); ok && math.IsNaN(f) {
		if g, ok := b.(float64); ok && math.IsNaN(g) {
			panic(failf("nan cannot be looked for in a list or mapping"))
		}
	}
	return e.equal(a, b, depth+1)
}

func cannot(verb string, a, b Value) failure {
	if u, ok := a.(*undefined); ok {
		return u.err()
	}
	return wrong(b, "cannot %s %s and %s", verb, kind(a), kind(b))
}

// order returns a negative number if a < b, a positive number if a > b, and 0 if a and b are equal.
// ok is false if a or b is NaN.
func (e *evaluation) order(a, b Value) (c int, ok bool) {
	e.step(1)
	if isNumber(a) && isNumber(b) {
		return orderNumbers(a, b)
	}
	x, isX := textOf(a)
	y, isY := textOf(b)
	if !isX || !isY {
		panic(cannot("order", a, b))
	}
	e.countRead(min(len(x), len(y)))
	return strings.Compare(x, y), true
}

// orderNumbers does the same as `order` for two numbers. It does not convert the numbers to
// float64, because a float64 cannot represent every integer.
func orderNumbers(a, b Value) (c int, ok bool) {
	if math.IsNaN(float(a)) || math.IsNaN(float(b)) {
		return 0, false
	}
	return exact(a).Cmp(exact(b)), true
}

// contains reports whether v is in a container.
func (e *evaluation) contains(container, v Value) bool {
	e.step(1)
	part, isText := textOf(v)
	if text, ok := textOf(container); ok {
		if !isText {
			panic(wrong(v, "%s cannot be in %s", kind(v), kind(container)))
		}
		e.countRead(len(text))
		return strings.Contains(text, part)
	}
	switch c := container.(type) {
	case mapping:
		if isA[sized](v) || isA[goValue](v) || isA[*undefined](v) {
			panic(wrong(v, "%s cannot be a key", kind(v)))
		}
		_, found := c.get(e, part)
		return isText && found
	case sequence:
		for i := range c.length() {
			e.step(1)
			if e.equalMembers(c.at(e, i), v, 0) {
				return true
			}
		}
		return false
	}
	panic(wrong(container, "%s cannot be in %s", kind(v), kind(container)))
}

// arithmetic evaluates +, - and *.
func (e *evaluation) arithmetic(op string, a, b Value) Value {
	e.step(1)
	x, isX := whole(a)
	y, isY := whole(b)
	switch {
	case isX && isY:
		return integral(op, x, y)
	case isNumber(a) && isNumber(b):
		return fractional(op, float(a), float(b))
	case op == "+":
		return e.join(a, b)
	}
	panic(cannot(map[string]string{"-": "subtract", "*": "multiply"}[op], a, b))
}

func integral(op string, x, y int64) Value {
	z := new(big.Int)
	switch a, b := big.NewInt(x), big.NewInt(y); op {
	case "+":
		z.Add(a, b)
	case "-":
		z.Sub(a, b)
	default:
		z.Mul(a, b)
	}
	if !z.IsInt64() {
		panic(tooLarge())
	}
	return z.Int64()
}

func fractional(op string, f, g float64) Value {
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	default:
		return f * g
	}
}

// join evaluates a + b for two texts or two lists.
func (e *evaluation) join(a, b Value) Value {
	if isA[markup](a) || isA[markup](b) {
		panic(marked())
	}
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			e.grow(len(x) + len(y))
			return x + y
		}
	}
	x, isX := a.(sequence)
	y, isY := b.(sequence)
	if !isX || !isY {
		panic(cannot("add", a, b))
	}
	return append(e.members(x), e.members(y)...)
}

// members returns a copy of the members of a list.
func (e *evaluation) members(s sequence) list {
	e.step(s.length())
	e.grow(memberSize * s.length())
	members := make(list, s.length())
	for i := range members {
		members[i] = s.at(e, i)
	}
	return members
}

// negative evaluates -v.
func negative(v Value) Value {
	if n, ok := whole(v); ok {
		return integral("-", 0, n)
	}
	if f, ok := v.(float64); ok {
		return -f
	}
	panic(wrong(v, "cannot put - before %s", kind(v)))
}
