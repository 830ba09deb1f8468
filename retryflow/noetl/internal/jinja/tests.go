package jinja

import "math/big"

// tests are the tests, with the parameters that Jinja gives them.
var tests = map[string]*function{
	"boolean":     ofType(isA[bool]),
	"defined":     ofType(isDefined),
	"divisibleby": {params("num!"), divisibleBy},
	"even":        {nil, isEven},
	"false":       ofType(isFalse),
	"float":       ofType(isA[float64]),
	"integer":     ofType(isA[*big.Int]),
	"mapping":     ofType(isA[mapping]),
	"none":        ofType(isNone),
	"number":      ofType(isNumber),
	"odd":         {nil, isOdd},
	"sequence":    ofType(isSequence),
	"string":      ofType(isText),
	"true":        ofType(isTrue),
	"undefined":   ofType(isUndefined),
}

// newTest returns the node of a test.
func newTest(n node, name string, given arguments) node {
	f := find(tests, "test", name)
	return &filterNode{n, f, f.bind("the test "+name, given)}
}

// ofType makes a test of the type of a value, or of whether it is defined.
func ofType(is func(Value) bool) *function {
	return &function{nil, func(_ *evaluation, in Value, _ []Value) Value { return is(in) }}
}

// isA reports whether v has a type.
func isA[T any](v Value) bool { _, ok := v.(T); return ok }

func isUndefined(v Value) bool { return isA[*undefined](v) }
func isDefined(v Value) bool   { return !isUndefined(v) }
func isNone(v Value) bool      { return v == nil }
func isTrue(v Value) bool      { return v == Value(true) }
func isFalse(v Value) bool     { return v == Value(false) }
func isText(v Value) bool      { return isA[string](v) || isA[markup](v) }

// isSequence reports whether v has a length and members, as texts and mappings do.
func isSequence(v Value) bool { return isText(v) || isA[sized](v) || isLenient(v) }

func divisibleBy(e *evaluation, in Value, args []Value) Value { return e.leaves(in, args[0], 0) }

func isOdd(e *evaluation, in Value, _ []Value) Value  { return e.leaves(in, integerOf(2), 1) }
func isEven(e *evaluation, in Value, _ []Value) Value { return e.leaves(in, integerOf(2), 0) }

// leaves reports whether v divided by divisor leaves a remainder.
func (e *evaluation) leaves(v, divisor Value, remainder int) bool {
	return e.equal(e.arithmetic("%", v, divisor), integerOf(remainder), 0)
}
