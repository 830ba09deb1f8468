package jinja

import (
	"maps"
	"math/big"
	"slices"
	"strings"
)

// A function is a filter, a test or a method. in is the value that it is applied
// to.
type function struct {
	params []param
	call   func(e *evaluation, in Value, args []Value) Value
}

// find returns the filter, test or method with a name.
func find(table map[string]*function, what, name string) *function {
	f, ok := table[name]
	if !ok {
		panic(failf("the %s %s is not supported: write one of %s", what, name, strings.Join(slices.Sorted(maps.Keys(table)), ", ")))
	}
	return f
}

// A param is a parameter of a function. If its argument is left out, its value
// is the default, or missing{}.
type param struct {
	name     string
	required bool
	unnamed  bool // it cannot be passed by name
}

// params parses a list of parameters. "n" may be left out, and "n!" may not.
// "n?" and "n!?" are the same, but cannot be passed by name.
func params(list string) []param {
	var params []param
	for _, word := range strings.Fields(list) {
		name := strings.TrimRight(word, "!?")
		params = append(params, param{name, strings.Contains(word, "!"), strings.Contains(word, "?")})
	}
	return params
}

// bind returns the arguments of a call in the order of the parameters, with nil
// for those that are left out.
func (f *function) bind(what string, given arguments) []node {
	if len(given.positional) > len(f.params) {
		panic(failf("%s: more than %d arguments are not supported", what, len(f.params)))
	}
	bound := make([]node, len(f.params))
	copy(bound, given.positional)
	for i, name := range given.names {
		at := slices.IndexFunc(f.params, func(p param) bool { return p.name == name && !p.unnamed })
		switch {
		case at < 0:
			panic(failf("%s: its argument %s is not supported", what, name))
		case bound[at] != nil:
			panic(failf("%s has its argument %s twice", what, name))
		}
		bound[at] = given.keywords[i]
	}
	for i, p := range f.params {
		if p.required && bound[i] == nil {
			panic(failf("%s needs its argument %s", what, p.name))
		}
	}
	return bound
}

// These functions convert arguments.

func isMissing(v Value) bool { return isA[missing](v) }

// flag returns the truth of an argument.
func flag(v Value) bool { return !isMissing(v) && truth(v) }

// integerArg returns an argument that is a whole number.
func integerArg(name string, v Value, absent int) int {
	if isMissing(v) {
		return absent
	}
	n := whole(v)
	if n == nil {
		panic(wrong(v, "the argument %s is %s: write a whole number", name, kind(v)))
	}
	if !n.IsInt64() {
		n = big.NewInt(int64(n.Sign()) * maxSize)
	}
	return int(max(-maxSize, min(n.Int64(), maxSize)))
}

// textArg returns an argument that is a text.
func textArg(name string, v Value) string {
	s, ok := v.(string)
	if !ok {
		panic(wrong(v, "the argument %s is %s: write a text", name, kind(v)))
	}
	return s
}

func integerOf(n int) Value { return big.NewInt(int64(n)) }

// wrong returns the error of v if it is undefined, and the one that format says
// if it is something else.
func wrong(v Value, format string, args ...any) failure {
	if u, ok := v.(*undefined); ok {
		return u.err()
	}
	return failf(format, args...)
}
