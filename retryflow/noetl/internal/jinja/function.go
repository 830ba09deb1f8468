package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// A function is a filter, a test, a method or a function. in is the value that
// it is applied to.
type function struct {
	params []param
	call   func(e *evaluation, in Value, args []Value) (Value, error)
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
func (f *function) bind(what string, given arguments) ([]node, error) {
	if len(given.positional) > len(f.params) {
		return nil, fmt.Errorf("%s takes at most %d arguments, got %d", what, len(f.params), len(given.positional))
	}
	bound := make([]node, len(f.params))
	copy(bound, given.positional)
	for i, name := range given.names {
		at := slices.IndexFunc(f.params, func(p param) bool { return p.name == name && !p.unnamed })
		switch {
		case at < 0:
			return nil, fmt.Errorf("%s has no argument %q", what, name)
		case bound[at] != nil:
			return nil, fmt.Errorf("%s has its argument %s twice", what, name)
		}
		bound[at] = given.keywords[i]
	}
	for i, p := range f.params {
		if p.required && bound[i] == nil {
			return nil, fmt.Errorf("%s needs its argument %s", what, p.name)
		}
	}
	return bound, nil
}

var functions = map[string]*function{
	"range": {params("start!? stop? step?"), func(_ *evaluation, _ Value, args []Value) (Value, error) {
		var n [3]int64
		for i, arg := range args {
			if _, ok := arg.(missing); ok {
				continue
			}
			bound := whole(arg)
			if bound == nil || bound.BitLen() > 53 {
				if u, ok := arg.(*undefined); ok {
					return nil, u.err()
				}
				return nil, fmt.Errorf("%s cannot bound a range", kind(arg))
			}
			n[i] = bound.Int64()
		}
		r := interval{n[0], n[1], n[2]}
		if _, ok := args[1].(missing); ok {
			r.start, r.stop = 0, n[0]
		}
		if _, ok := args[2].(missing); ok {
			r.step = 1
		}
		if r.step == 0 {
			return nil, errors.New("the step of a range is 0")
		}
		if r.length() == math.MaxInt {
			return nil, errors.New("a range has too many members")
		}
		return r, nil
	}},
	"rand": {nil, func(e *evaluation, _ Value, _ []Value) (Value, error) { return e.rand(), nil }},
}

// These functions convert arguments.

func isMissing(v Value) bool { _, ok := v.(missing); return ok }

// flag returns the truth of an argument.
func flag(v Value) (bool, error) {
	if isMissing(v) {
		return false, nil
	}
	return truth(v)
}

// integerArg returns an argument that is a whole number.
func integerArg(name string, v Value, absent int) (int, error) {
	if isMissing(v) {
		return absent, nil
	}
	n := whole(v)
	if n == nil {
		if u, ok := v.(*undefined); ok {
			return 0, u.err()
		}
		return 0, fmt.Errorf("the argument %s is %s: write a whole number", name, kind(v))
	}
	return clamp(n, -maxSize-1, maxSize+1), nil
}

// textArg returns an argument that is a text.
func textArg(name string, v Value, absent string) (string, error) {
	if isMissing(v) {
		return absent, nil
	}
	s, ok := v.(string)
	if !ok {
		if u, ok := v.(*undefined); ok {
			return "", u.err()
		}
		return "", fmt.Errorf("the argument %s is %s: write a text", name, kind(v))
	}
	return s, nil
}

func integerOf(n int) Value { return big.NewInt(int64(n)) }
