package jinja

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// truth reports whether v is true in Python's sense.
func truth(v Value) (bool, error) {
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case *big.Int:
		return v.Sign() != 0, nil
	case float64:
		return v != 0, nil
	case string:
		return v != "", nil
	case markup:
		return v != "", nil
	case sequence:
		return v.length() > 0, nil
	case mapping:
		return v.length() > 0, nil
	case view:
		return v.of.length() > 0, nil
	case *generator, goStruct:
		return true, nil
	case *undefined:
		if v.lenient {
			return false, nil
		}
		return false, v.err()
	default:
		return false, unusable(v)
	}
}

// equal reports whether a == b.
func (e *evaluation) equal(a, b Value, depth int) (bool, error) {
	if err := e.visit(depth); err != nil {
		return false, err
	}
	for _, v := range []Value{a, b} {
		switch v := v.(type) {
		case *method, goStruct, view:
			return false, cannot("compare", a, b)
		case *undefined:
			if !v.lenient {
				return false, v.err()
			}
		}
	}
	if isNumber(a) && isNumber(b) {
		c, ok := orderNumbers(a, b)
		return ok && c == 0, nil
	}
	if x, ok := textOf(a); ok {
		y, ok := textOf(b)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		return x == y, e.read(len(x))
	}
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case interval:
		y, ok := b.(interval)
		n := x.length()
		return ok && n == y.length() && (n == 0 || x.start == y.start && (n == 1 || x.step == y.step)), nil
	case sequence:
		y, ok := b.(sequence)
		if _, isRange := b.(interval); !ok || isRange || isTuple(x) != isTuple(y) || x.length() != y.length() {
			return false, nil
		}
		for i := range x.length() {
			if same, err := e.memberEqual(x, y, i, depth); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case mapping:
		y, ok := b.(mapping)
		if !ok || x.length() != y.length() {
			return false, nil
		}
		pairs, err := x.pairs(e)
		for _, p := range pairs {
			other, ok, err := y.get(e, p.key)
			if err != nil || !ok {
				return false, err
			}
			if same, err := e.identicalOrEqual(p.value, other, depth+1); err != nil || !same {
				return false, err
			}
		}
		return err == nil, err
	case *generator:
		return a == b, nil
	case *undefined:
		return isUndefined(b), nil
	default:
		return false, nil
	}
}

func (e *evaluation) memberEqual(x, y sequence, i, depth int) (bool, error) {
	a, err := x.at(e, i)
	if err != nil {
		return false, err
	}
	b, err := y.at(e, i)
	if err != nil {
		return false, err
	}
	return e.identicalOrEqual(a, b, depth+1)
}

// identicalOrEqual compares members as Python does. There a nan equals itself
// if it is the same object. That cannot be known here, so comparing a nan is an
// error.
func (e *evaluation) identicalOrEqual(a, b Value, depth int) (bool, error) {
	if isNaN(a) && isNaN(b) {
		return false, errors.New("nan cannot be looked for in a list or mapping")
	}
	return e.equal(a, b, depth)
}

func isNaN(v Value) bool {
	f, ok := v.(float64)
	return ok && math.IsNaN(f)
}

func cannot(verb string, a, b Value) error {
	for _, v := range []Value{a, b} {
		switch v := v.(type) {
		case *undefined:
			return v.err()
		case *method:
			return unusable(v)
		}
	}
	return fmt.Errorf("cannot %s %s and %s", verb, kind(a), kind(b))
}

// order returns a value below 0 if a < b, 0 if they are equal, and above 0 if a
// > b. ok is false if a nan makes them incomparable.
func (e *evaluation) order(a, b Value, depth int) (c int, ok bool, err error) {
	if err := e.visit(depth); err != nil {
		return 0, false, err
	}
	if isNumber(a) && isNumber(b) {
		c, ok := orderNumbers(a, b)
		return c, ok, nil
	}
	if x, isText := textOf(a); isText {
		if y, isText := textOf(b); isText {
			return strings.Compare(x, y), true, e.read(min(len(x), len(y)))
		}
	}
	x, isX := a.(sequence)
	y, isY := b.(sequence)
	_, isRangeX := a.(interval)
	_, isRangeY := b.(interval)
	if !isX || !isY || isRangeX || isRangeY || isTuple(x) != isTuple(y) {
		return 0, false, cannot("order", a, b)
	}
	for i := range min(x.length(), y.length()) {
		same, err := e.memberEqual(x, y, i, depth)
		if err != nil {
			return 0, false, err
		}
		if !same {
			v, _ := x.at(e, i)
			w, _ := y.at(e, i)
			return e.order(v, w, depth+1)
		}
	}
	return x.length() - y.length(), true, nil
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
func (e *evaluation) compare(op string, a, b Value) (bool, error) {
	switch op {
	case "==":
		return e.equal(a, b, 0)
	case "!=":
		same, err := e.equal(a, b, 0)
		return !same, err
	case "in":
		return e.contains(b, a)
	case "not in":
		found, err := e.contains(b, a)
		return !found, err
	}
	c, ok, err := e.order(a, b, 0)
	if err != nil || !ok {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	default:
		return c >= 0, nil
	}
}

// contains reports whether v is in a container.
func (e *evaluation) contains(container, v Value) (bool, error) {
	if err := e.step(1); err != nil {
		return false, err
	}
	if u, ok := container.(*undefined); ok {
		if u.lenient {
			return false, nil
		}
		return false, u.err()
	}
	if text, ok := textOf(container); ok {
		part, ok := textOf(v)
		if !ok {
			if u, isUndefined := v.(*undefined); isUndefined {
				return false, u.err()
			}
			return false, fmt.Errorf("%s cannot be in %s", kind(v), kind(container))
		}
		if err := e.read(len(text)); err != nil {
			return false, err
		}
		return strings.Contains(text, part), nil
	}
	switch c := container.(type) {
	case mapping:
		_, found, err := c.get(e, v)
		return found, err
	case interval:
		return c.has(v), nil
	case sequence, *generator, view:
		found := false
		err := e.each(container, func(member Value) error {
			same, err := e.identicalOrEqual(member, v, 0)
			if err == nil && same {
				found = true
				return errStop
			}
			return err
		})
		return found, err
	default:
		return false, fmt.Errorf("%s cannot be in %s", kind(v), kind(container))
	}
}

// has reports whether v is one of the numbers in r.
func (r interval) has(v Value) bool {
	n := number(v)
	if n == nil || !n.IsInt() || !n.Num().IsInt64() || r.length() == 0 {
		return false
	}
	i := n.Num().Int64()
	if r.step > 0 {
		return r.start <= i && i < r.stop && (uint64(i)-uint64(r.start))%uint64(r.step) == 0
	}
	return r.stop < i && i <= r.start && (uint64(r.start)-uint64(i))%-uint64(r.step) == 0
}

// errStop ends an iteration that has found what it was looking for.
var errStop = errors.New("stop")

// each calls yield with each member of v, until yield fails or returns errStop.
func (e *evaluation) each(v Value, yield func(Value) error) error {
	err := e.eachUntil(v, func(member Value) error {
		if err := e.step(1); err != nil {
			return err
		}
		return yield(member)
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (e *evaluation) eachUntil(v Value, yield func(Value) error) error {
	switch v := v.(type) {
	case string:
		for _, r := range v {
			if err := yield(string(r)); err != nil {
				return err
			}
		}
		return nil
	case sequence:
		for i := range v.length() {
			member, err := v.at(e, i)
			if err == nil {
				err = yield(member)
			}
			if err != nil {
				return err
			}
		}
		return nil
	case mapping:
		return e.eachUntil(view{"keys", v}, yield)
	case view:
		pairs, err := e.inOrder(v.of)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			member := p.key
			switch v.kind {
			case "values":
				member = p.value
			case "items":
				member = &list{[]Value{p.key, p.value}, true}
			}
			if err := yield(member); err != nil {
				return err
			}
		}
		return nil
	case *generator:
		if v.done {
			return nil
		}
		v.done = true
		return v.each(e, yield)
	case *undefined:
		if v.lenient {
			return nil
		}
		return v.err()
	case *method:
		return unusable(v)
	default:
		return fmt.Errorf("%s has no members", kind(v))
	}
}

// inOrder returns the pairs of a mapping, or an error if their order is lost.
func (e *evaluation) inOrder(m mapping) ([]pair, error) {
	if !m.ordered() {
		return nil, errors.New("the order of this mapping is lost in Go: name a key, or sort it with dictsort")
	}
	return m.pairs(e)
}

// members returns the members of v.
func (e *evaluation) members(v Value) ([]Value, error) {
	var members []Value
	err := e.each(v, func(member Value) error {
		members = append(members, member)
		return e.grow(memberSize)
	})
	return members, err
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
func toFloat(v Value) (float64, error) {
	f := float(v)
	if math.IsInf(f, 0) && whole(v) != nil {
		return 0, errors.New("a whole number is too large for a float")
	}
	return f, nil
}

// arithmetic evaluates an arithmetic operator.
func (e *evaluation) arithmetic(op string, a, b Value) (Value, error) {
	if err := e.step(1); err != nil {
		return nil, err
	}
	if isNumber(a) && isNumber(b) {
		return numeric(op, a, b)
	}
	switch op {
	case "+":
		return e.add(a, b)
	case "*":
		if n := whole(a); n != nil {
			return e.repeat(b, n, a)
		}
		if n := whole(b); n != nil {
			return e.repeat(a, n, b)
		}
	case "%":
		if _, ok := a.(string); ok {
			return nil, errors.New("formatting a text with % is not supported")
		}
	}
	return nil, cannot(verbs[op], a, b)
}

var verbs = map[string]string{"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "divide", "%": "divide", "**": "raise"}

// add joins two texts, two lists or two tuples.
func (e *evaluation) add(a, b Value) (Value, error) {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return e.text(x + y)
		}
	}
	x, isX := a.(sequence)
	y, isY := b.(sequence)
	_, isRangeX := a.(interval)
	_, isRangeY := b.(interval)
	if !isX || !isY || isRangeX || isRangeY || isTuple(x) != isTuple(y) {
		return nil, cannot("add", a, b)
	}
	left, err := e.members(a)
	if err != nil {
		return nil, err
	}
	right, err := e.members(b)
	return &list{append(left, right...), isTuple(x)}, err
}

// repeat returns v n times.
func (e *evaluation) repeat(v Value, n *big.Int, factor Value) (Value, error) {
	if !n.IsInt64() {
		return nil, fmt.Errorf("%s cannot be repeated so often", kind(v))
	}
	times := int(max(0, min(n.Int64(), maxSize+1)))
	switch v := v.(type) {
	case string:
		if v == "" {
			return v, nil
		}
		if err := e.growTimes(len(v), times); err != nil {
			return nil, err
		}
		return strings.Repeat(v, times), nil
	case *list, goList:
		once, err := e.members(v)
		if err != nil {
			return nil, err
		}
		repeated := &list{tuple: isTuple(v.(sequence))}
		if len(once) > 0 {
			if err := e.growTimes(memberSize*len(once), times); err != nil {
				return nil, err
			}
			for range times {
				repeated.members = append(repeated.members, once...)
			}
		}
		return repeated, nil
	default:
		return nil, cannot("multiply", v, factor)
	}
}

// numeric evaluates an operator between two numbers.
func numeric(op string, a, b Value) (Value, error) {
	x, y := whole(a), whole(b)
	if x != nil && y != nil {
		return integral(op, x, y)
	}
	f, err := toFloat(a)
	if err != nil {
		return nil, err
	}
	g, err := toFloat(b)
	if err != nil {
		return nil, err
	}
	switch op {
	case "+":
		return f + g, nil
	case "-":
		return f - g, nil
	case "*":
		return f * g, nil
	case "**":
		return power(f, g)
	}
	if g == 0 {
		return nil, errors.New("division by zero")
	}
	switch quotient, remainder := floorDivide(f, g); op {
	case "/":
		return f / g, nil
	case "//":
		return quotient, nil
	default:
		return remainder, nil
	}
}

func integral(op string, x, y *big.Int) (Value, error) {
	z := new(big.Int)
	switch op {
	case "+":
		return integer(z.Add(x, y))
	case "-":
		return integer(z.Sub(x, y))
	case "*":
		return integer(z.Mul(x, y))
	case "**":
		if y.Sign() < 0 {
			f, g := float(x), float(y)
			return power(f, g)
		}
		if x.BitLen() < 2 && y.BitLen() > 1 { // -1, 0 or 1: it matters whether y is even
			y = big.NewInt(2 - int64(y.Bit(0)))
		}
		if !y.IsInt64() || y.Int64() > maxBits {
			return nil, fmt.Errorf("a number has more than %d bits", maxBits)
		}
		return integer(z.Exp(x, y, nil))
	}
	if y.Sign() == 0 {
		return nil, errors.New("division by zero")
	}
	if op == "/" {
		if x.Sign() == 0 && y.Sign() < 0 {
			return math.Copysign(0, -1), nil
		}
		f, _ := new(big.Rat).SetFrac(x, y).Float64()
		if math.IsInf(f, 0) {
			return nil, errors.New("a quotient is too large for a float")
		}
		return f, nil
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

// power returns f ** g if the result is exact. Otherwise the last digit depends
// on the machine's C library, in Python too.
func power(f, g float64) (Value, error) {
	base, exponent := number(f), number(g)
	switch {
	case f == 0 && g < 0:
		return nil, errors.New("division by zero")
	case base == nil || exponent == nil || f == 0 || f == 1 || g == 0:
		if f < 0 && g != math.Trunc(g) {
			return nil, errors.New("a negative number has no such power")
		}
		return math.Pow(f, g), nil
	case !exponent.IsInt() && f < 0:
		return nil, errors.New("the power of a negative number is complex")
	case !exponent.IsInt() || exponent.Num().BitLen() > 12:
		return nil, inexact(f, g)
	}
	n := exponent.Num().Int64()
	exact := new(big.Rat).SetInt64(1)
	for range max(n, -n) {
		if exact.Mul(exact, base); exact.Num().BitLen()+exact.Denom().BitLen() > 4096 {
			return nil, inexact(f, g)
		}
	}
	if n < 0 {
		exact.Inv(exact)
	}
	result, isExact := exact.Float64()
	if !isExact {
		return nil, inexact(f, g)
	}
	return result, nil
}

func inexact(f, g float64) error {
	return fmt.Errorf("%s ** %s has no exact answer: multiply instead", formatFloat(f), formatFloat(g))
}

// sign evaluates -v and +v.
func sign(op string, v Value) (Value, error) {
	if n := whole(v); n != nil {
		if op == "-" {
			return new(big.Int).Neg(n), nil
		}
		return n, nil
	}
	f, ok := v.(float64)
	if !ok {
		if u, ok := v.(*undefined); ok {
			return nil, u.err()
		}
		return nil, fmt.Errorf("cannot put %s before %s", op, kind(v))
	}
	if op == "-" {
		return -f, nil
	}
	return f, nil
}
