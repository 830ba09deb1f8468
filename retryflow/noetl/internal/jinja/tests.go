package jinja

import (
	"errors"
	"fmt"
	"math/big"
)

// operatorTest returns a test that compares two values with an operator.
func operatorTest(op string) *function {
	return &function{params("other!?"), func(e *evaluation, in Value, args []Value) (Value, error) {
		return e.compare(op, in, args[0])
	}}
}

// typeTest returns a test of the type of a value, or of whether it is defined.
func typeTest(is func(Value) bool) *function {
	return &function{nil, func(_ *evaluation, in Value, _ []Value) (Value, error) { return is(in), nil }}
}

// remainderTest returns a test of the remainder of a division.
func remainderTest(divisor, remainder int64) *function {
	return &function{nil, func(e *evaluation, in Value, _ []Value) (Value, error) {
		return e.leaves(in, big.NewInt(divisor), big.NewInt(remainder))
	}}
}

func (e *evaluation) leaves(v, divisor, remainder Value) (Value, error) {
	left, err := e.arithmetic("%", v, divisor)
	if err != nil {
		return nil, err
	}
	return e.equal(left, remainder, 0)
}

// caseTest returns a test of the case of a value's text.
func caseTest(is, other func(rune) bool) *function {
	return &function{nil, func(e *evaluation, in Value, _ []Value) (Value, error) {
		s, err := e.str(in)
		if err == nil {
			err = e.read(len(s))
		}
		return err == nil && isCase(s, is, other), err
	}}
}

var tests map[string]*function

func init() {
	tests = map[string]*function{
		"==": operatorTest("=="), "eq": operatorTest("=="), "equalto": operatorTest("=="),
		"!=": operatorTest("!="), "ne": operatorTest("!="),
		"<": operatorTest("<"), "lt": operatorTest("<"), "lessthan": operatorTest("<"),
		"<=": operatorTest("<="), "le": operatorTest("<="),
		">": operatorTest(">"), "gt": operatorTest(">"), "greaterthan": operatorTest(">"),
		">=": operatorTest(">="), "ge": operatorTest(">="),
		"in":        {params("seq!"), operatorTest("in").call},
		"defined":   typeTest(func(v Value) bool { return !isUndefined(v) }),
		"undefined": typeTest(isUndefined),
		"none":      typeTest(func(v Value) bool { return v == nil }),
		"true":      typeTest(func(v Value) bool { return v == Value(true) }),
		"false":     typeTest(func(v Value) bool { return v == Value(false) }),
		"boolean":   typeTest(func(v Value) bool { _, ok := v.(bool); return ok }),
		"integer":   typeTest(isInteger),
		"float":     typeTest(func(v Value) bool { _, ok := v.(float64); return ok }),
		"number":    typeTest(isNumber),
		"string":    typeTest(func(v Value) bool { _, ok := textOf(v); return ok }),
		"mapping":   typeTest(func(v Value) bool { _, ok := v.(mapping); return ok }),
		"escaped":   typeTest(func(v Value) bool { _, ok := v.(markup); return ok }),
		"sequence":  typeTest(isSequence),
		"callable": typeTest(func(v Value) bool {
			_, ok := v.(*method)
			return ok || isUndefined(v)
		}),
		"iterable": {nil, func(_ *evaluation, in Value, _ []Value) (Value, error) {
			if u, ok := in.(*undefined); ok && !u.lenient {
				return nil, u.err()
			}
			switch in.(type) {
			case *generator, view:
				return true, nil
			}
			return isSequence(in), nil
		}},
		"odd":  remainderTest(2, 1),
		"even": remainderTest(2, 0),
		"divisibleby": {params("num!"), func(e *evaluation, in Value, args []Value) (Value, error) {
			return e.leaves(in, args[0], big.NewInt(0))
		}},
		"lower": caseTest(isLower, isUpper),
		"upper": caseTest(isUpper, isLower),
		"sameas": {params("other!"), func(_ *evaluation, in Value, args []Value) (Value, error) {
			for _, v := range []Value{in, args[0]} {
				if _, isBool := v.(bool); v == nil || isBool {
					return in == args[0], nil
				}
			}
			return nil, fmt.Errorf("sameas can tell true, false and none alone, not %s from %s: write ==", kind(in), kind(args[0]))
		}},
	}
}

func isUndefined(v Value) bool { _, ok := v.(*undefined); return ok }

// isSequence reports whether v has a length and members.
func isSequence(v Value) bool {
	switch v.(type) {
	case string, markup, sequence, mapping:
		return true
	default:
		return isLenient(v)
	}
}

// newTest returns the node of a test.
func newTest(n node, name string, given arguments) (node, error) {
	f, ok := tests[name]
	if !ok {
		return nil, fmt.Errorf("unknown test %q", name)
	}
	args, err := f.bind("the test "+name, given)
	if err != nil {
		return nil, err
	}
	if name == "sameas" {
		if c, ok := args[0].(*constantNode); ok {
			if _, isBool := c.value.(bool); !isBool && c.value != nil {
				return nil, errors.New("sameas can tell true, false and none alone: write ==")
			}
		}
	}
	return &filterNode{n, f, args}, nil
}
