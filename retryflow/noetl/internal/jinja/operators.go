package jinja

import (
	"cmp"
	"iter"
	"math"
	"math/big"
	"strings"
)

// truth reports whether v is true in Python's sense.
func truth(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case sized:
		return v.length() > 0
	case goStruct:
		return true
	}
	if isLenient(v) {
		return false
	}
	panic(unusable(v))
}

// equal reports whether a == b.
func (e *evaluation) equal(a, b Value, depth int) bool {
	e.visit(depth)
	for _, v := range []Value{a, b} {
		switch v := v.(type) {
		case goStruct:
			panic(cannot("compare", a, b))
		case *undefined:
			if !v.lenient {
				panic(v.err())
			}
		}
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
		e.read(len(x))
		return x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case sequence:
		_, y, ok := alike(a, b)
		return ok && x.length() == y.length() && e.firstDifference(x, y, depth) < 0
	case mapping:
		y, ok := b.(mapping)
		if !ok || x.length() != y.length() {
			return false
		}
		for _, p := range x.pairs(e) {
			if other, ok := y.get(e, p.key); !ok || !e.identicalOrEqual(p.value, other, depth+1) {
				return false
			}
		}
		return true
	case *undefined:
		return isUndefined(b)
	default:
		return false
	}
}

// identicalOrEqual compares members as Python does. There a nan equals itself
// if it is the same object. That cannot be known here, so comparing a nan is an
// error.
func (e *evaluation) identicalOrEqual(a, b Value, depth int) bool {
	if isNaN(a) && isNaN(b) {
		panic(failf("nan cannot be looked for in a list or mapping"))
	}
	return e.equal(a, b, depth)
}

func isNaN(v Value) bool {
	f, ok := v.(float64)
	return ok && math.IsNaN(f)
}

func cannot(verb string, a, b Value) failure {
	for _, v := range []Value{a, b} {
		if u, ok := v.(*undefined); ok {
			return u.err()
		}
	}
	return failf("cannot %s %s and %s", verb, kind(a), kind(b))
}

// order returns a value below 0 if a < b, 0 if they are equal, and above 0 if a
// > b. ok is false if a nan makes them incomparable.
func (e *evaluation) order(a, b Value, depth int) (c int, ok bool) {
	e.visit(depth)
	if isNumber(a) && isNumber(b) {
		return orderNumbers(a, b)
	}
	if x, isText := textOf(a); isText {
		if y, isText := textOf(b); isText {
			e.read(min(len(x), len(y)))
			return strings.Compare(x, y), true
		}
	}
	x, y, ok := alike(a, b)
	if !ok {
		panic(cannot("order", a, b))
	}
	if i := e.firstDifference(x, y, depth); i >= 0 {
		return e.order(x.at(e, i), y.at(e, i), depth+1)
	}
	return x.length() - y.length(), true
}

// orderNumbers is order for two numbers.
func orderNumbers(a, b Value) (c int, ok bool) {
	x, y := number(a), number(b)
	if x != nil && y != nil {
		return x.Cmp(y), true
	}
	f, _ := a.(float64) // compared with inf and nan any integer is like 0
	g, _ := b.(float64)
	return cmp.Compare(f, g), !math.IsNaN(f) && !math.IsNaN(g)
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
	c, ok := e.order(a, b, 0)
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

// contains reports whether v is in a container.
func (e *evaluation) contains(container, v Value) bool {
	e.step(1)
	if text, ok := textOf(container); ok {
		part, ok := textOf(v)
		if !ok {
			panic(wrong(v, "%s cannot be in %s", kind(v), kind(container)))
		}
		e.read(len(text))
		return strings.Contains(text, part)
	}
	switch c := container.(type) {
	case mapping:
		checkKey(v)
		_, found := c.get(e, v)
		return found
	case sequence:
		for member := range e.each(container) {
			if e.identicalOrEqual(member, v, 0) {
				return true
			}
		}
		return false
	}
	if isLenient(container) {
		return false
	}
	panic(wrong(container, "%s cannot be in %s", kind(v), kind(container)))
}

// checkKey rejects what cannot be a key of a mapping.
func checkKey(v Value) {
	switch v.(type) {
	case nil, bool, *big.Int, float64, string, markup:
	default:
		panic(wrong(v, "%s as a key is not supported", kind(v)))
	}
}

// each returns the members of v, and counts them.
func (e *evaluation) each(v Value) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		e.uncounted(v, func(member Value) bool {
			e.step(1)
			return yield(member)
		})
	}
}

func (e *evaluation) uncounted(v Value, yield func(Value) bool) {
	switch v := v.(type) {
	case string:
		for _, r := range v {
			if !yield(string(r)) {
				return
			}
		}
	case sequence:
		for i := range v.length() {
			if !yield(v.at(e, i)) {
				return
			}
		}
	case mapping:
		for _, p := range e.inOrder(v) {
			if !yield(p.key) {
				return
			}
		}
	default:
		if !isLenient(v) {
			panic(wrong(v, "%s has no members", kind(v)))
		}
	}
}

// inOrder returns the pairs of a mapping, or an error if their order is lost.
func (e *evaluation) inOrder(m mapping) []pair {
	if !m.ordered() {
		panic(failf("the order of this mapping is lost in Go: name a key, or write it with tojson"))
	}
	return m.pairs(e)
}

// members returns the members of v.
func (e *evaluation) members(v Value) []Value {
	var members []Value
	for member := range e.each(v) {
		members = append(members, member)
		e.grow(memberSize)
	}
	return members
}

// float returns the number v as a float64.
func float(v Value) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	f, _ := new(big.Float).SetInt(whole(v)).Float64()
	return f
}

// toFloat is float with an error if an integer is too large.
func toFloat(v Value) float64 {
	f := float(v)
	if math.IsInf(f, 0) && whole(v) != nil {
		panic(failf("a whole number is too large for a float"))
	}
	return f
}

// arithmetic evaluates an arithmetic operator.
func (e *evaluation) arithmetic(op string, a, b Value) Value {
	e.step(1)
	if isNumber(a) && isNumber(b) {
		return numeric(op, a, b)
	}
	switch {
	case op == "+":
		return e.add(a, b)
	case op == "*" && (isRepeatable(a) && whole(b) != nil || whole(a) != nil && isRepeatable(b)):
		panic(failf("repeating a text or a list with * is not supported"))
	case op == "%" && isA[string](a):
		panic(failf("formatting a text with %% is not supported"))
	}
	panic(cannot(verbs[op], a, b))
}

var verbs = map[string]string{"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "divide", "%": "divide", "**": "raise"}

func isRepeatable(v Value) bool { return isText(v) || isA[sequence](v) }

// add joins two texts, two lists or two tuples.
func (e *evaluation) add(a, b Value) Value {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return e.text(x + y)
		}
	}
	x, _, ok := alike(a, b)
	if !ok {
		panic(cannot("add", a, b))
	}
	return &list{append(e.members(a), e.members(b)...), isTuple(x)}
}

// numeric evaluates an operator between two numbers.
func numeric(op string, a, b Value) Value {
	if op == "**" {
		return power(a, b)
	}
	x, y := whole(a), whole(b)
	if x != nil && y != nil {
		return integral(op, x, y)
	}
	f := toFloat(a)
	g := toFloat(b)
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	}
	if g == 0 {
		panic(failf("division by zero"))
	}
	switch quotient, remainder := floorDivide(f, g); op {
	case "/":
		return f / g
	case "//":
		return quotient
	default:
		return remainder
	}
}

func integral(op string, x, y *big.Int) Value {
	z := new(big.Int)
	switch op {
	case "+":
		return integer(z.Add(x, y))
	case "-":
		return integer(z.Sub(x, y))
	case "*":
		return integer(z.Mul(x, y))
	}
	if y.Sign() == 0 {
		panic(failf("division by zero"))
	}
	if op == "/" {
		if x.Sign() == 0 && y.Sign() < 0 {
			return math.Copysign(0, -1)
		}
		f, _ := new(big.Rat).SetFrac(x, y).Float64()
		if math.IsInf(f, 0) {
			panic(failf("a quotient is too large for a float"))
		}
		return f
	}
	quotient, remainder := z.DivMod(x, y, new(big.Int)) // Euclidean division: the remainder is not negative
	if y.Sign() < 0 && remainder.Sign() > 0 {
		quotient.Sub(quotient, big.NewInt(1))
		remainder.Add(remainder, y)
	}
	if op == "//" {
		return integer(quotient)
	}
	return integer(remainder)
}

// floorDivide returns f // g and f % g as Python computes them.
func floorDivide(f, g float64) (quotient, remainder float64) {
	remainder = math.Mod(f, g)
	div := (f - remainder) / g
	if remainder != 0 {
		if (g < 0) != (remainder < 0) {
			remainder += g
			div--
		}
	} else {
		remainder = math.Copysign(0, g)
	}
	if div == 0 {
		return math.Copysign(0, f/g), remainder
	}
	quotient = math.Floor(div)
	if div-quotient > 0.5 {
		quotient++
	}
	return quotient, remainder
}

// power returns a ** b if the result is exact and b a whole number. Otherwise the
// last digit depends on the machine's C library, in Python too.
func power(a, b Value) Value {
	base, exponent := number(a), whole(b)
	switch {
	case base == nil || exponent == nil || exponent.BitLen() > 12:
		panic(failf("%s ** %s is not supported: write a whole number up to 4095 after **", kind(a), kind(b)))
	case base.Sign() == 0 && exponent.Sign() < 0:
		panic(failf("division by zero"))
	case (max(base.Num().BitLen(), base.Denom().BitLen())-1)*int(new(big.Int).Abs(exponent).Int64()) > maxBits:
		panic(failf("a number has more than %d bits", maxBits))
	}
	n, magnitude := new(big.Rat), new(big.Int).Abs(exponent)
	n.SetFrac(new(big.Int).Exp(base.Num(), magnitude, nil), new(big.Int).Exp(base.Denom(), magnitude, nil))
	if exponent.Sign() < 0 {
		n.Inv(n)
	} else if whole(a) != nil {
		return integer(n.Num())
	}
	f, exact := n.Float64()
	switch {
	case base.Sign() == 0:
		return math.Pow(float(a), float(b))
	case !exact:
		panic(failf("%s ** %s has no exact answer: multiply instead", kind(a), kind(b)))
	}
	return f
}

// sign evaluates -v and +v.
func sign(op string, v Value) Value {
	n := whole(v)
	f, isFloat := v.(float64)
	switch {
	case n == nil && !isFloat:
		panic(wrong(v, "cannot put %s before %s", op, kind(v)))
	case isFloat && op == "-":
		return -f
	case isFloat:
		return f
	case op == "-":
		return new(big.Int).Neg(n)
	default:
		return n
	}
}

// alike returns two sequences that can be compared and added: both are lists, or
// both are tuples.
func alike(a, b Value) (x, y sequence, ok bool) {
	x, isX := a.(sequence)
	y, isY := b.(sequence)
	return x, y, isX && isY && isTuple(x) == isTuple(y)
}

// firstDifference returns the index of the first member that x and y do not have
// in common, or -1 if one of them begins with the other.
func (e *evaluation) firstDifference(x, y sequence, depth int) int {
	for i := range min(x.length(), y.length()) {
		if !e.identicalOrEqual(x.at(e, i), y.at(e, i), depth+1) {
			return i
		}
	}
	return -1
}
