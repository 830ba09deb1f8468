package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textFilter makes a filter of the text of a value.
func textFilter(f func(s string) string) *function {
	return &function{nil, func(e *evaluation, in Value, _ []Value) (Value, error) {
		s, err := e.soft(in)
		if err != nil {
			return nil, err
		}
		return e.text(f(s))
	}}
}

// soft returns the text of a value, for a filter of texts.
func (e *evaluation) soft(v Value) (string, error) {
	if m, ok := v.(markup); ok {
		return "", unusableMarkup(m)
	}
	s, err := e.str(v)
	if err != nil {
		return "", err
	}
	return s, e.grow(len(s))
}

func unusableMarkup(markup) error {
	return errors.New("the text of tojson is marked as safe, which this would lose: use it last, or join it by ~")
}

var filters map[string]*function

func init() {
	length := &function{nil, func(e *evaluation, in Value, _ []Value) (Value, error) {
		n, err := e.length(in)
		return integerOf(n), err
	}}
	fallback := &function{params("default_value boolean"), func(_ *evaluation, in Value, args []Value) (Value, error) {
		holds := !isUndefined(in)
		if holds {
			boolean, err := flag(args[1])
			if err != nil {
				return nil, err
			}
			if boolean {
				if holds, err = truth(in); err != nil {
					return nil, err
				}
			}
		}
		switch {
		case holds:
			return in, nil
		case isMissing(args[0]):
			return "", nil
		default:
			return args[0], nil
		}
	}}
	filters = map[string]*function{
		"abs":        {nil, absolute},
		"batch":      {params("linecount! fill_with"), batch},
		"capitalize": textFilter(capitalize),
		"center": {params("width"), func(e *evaluation, in Value, args []Value) (Value, error) {
			s, err := e.soft(in)
			if err != nil {
				return nil, err
			}
			width, err := integerArg("width", args[0], 80)
			if err != nil {
				return nil, err
			}
			return e.pad(s, width, " ", center)
		}},
		"count":    length,
		"d":        fallback,
		"default":  fallback,
		"dictsort": {params("case_sensitive by reverse"), dictsort},
		"first":    {nil, first},
		"float":    {params("default"), toFloatFilter},
		"int":      {params("default base"), toIntFilter},
		"items": {nil, func(e *evaluation, in Value, _ []Value) (Value, error) {
			return &generator{each: func(e *evaluation, yield func(Value) error) error {
				if isUndefined(in) {
					return nil
				}
				m, ok := in.(mapping)
				if !ok {
					return fmt.Errorf("%s has no items", kind(in))
				}
				return e.each(view{"items", m}, yield)
			}}, nil
		}},
		"join":   {params("d attribute"), join},
		"last":   {nil, last},
		"length": length,
		"list": {nil, func(e *evaluation, in Value, _ []Value) (Value, error) {
			members, err := e.members(in)
			return &list{members: members}, err
		}},
		"lower":   textFilter(lower),
		"max":     {params("case_sensitive attribute"), extreme(1)},
		"min":     {params("case_sensitive attribute"), extreme(-1)},
		"replace": {params("old! new! count"), replace},
		"reverse": {nil, reverse},
		"round":   {params("precision method"), round},
		"slice":   {params("slices! fill_with"), cut},
		"sort":    {params("reverse case_sensitive attribute"), sort},
		"string": {nil, func(e *evaluation, in Value, _ []Value) (Value, error) {
			if m, ok := in.(markup); ok {
				return m, nil
			}
			s, err := e.str(in)
			return s, err
		}},
		"sum":    {params("attribute start"), sum},
		"title":  textFilter(titleFilter),
		"tojson": {nil, tojson},
		"trim": {params("chars"), func(e *evaluation, in Value, args []Value) (Value, error) {
			s, err := e.soft(in)
			if err != nil {
				return nil, err
			}
			return e.strip(s, args[0], strings.TrimFunc)
		}},
		"truncate":  {params("length killwords end leeway"), truncate},
		"unique":    {params("case_sensitive attribute"), unique},
		"upper":     textFilter(upper),
		"urlencode": {nil, urlencode},
		"wordcount": {nil, func(e *evaluation, in Value, _ []Value) (Value, error) {
			s, err := e.soft(in)
			return integerOf(len(strings.FieldsFunc(s, func(r rune) bool { return !isWordRune(r) }))), err
		}},
		// newFilter parses the arguments of these filters.
		"map": {}, "select": {}, "reject": {}, "selectattr": {}, "rejectattr": {},
	}
}

// newFilter returns the node of a filter.
func newFilter(n node, name string, given arguments) (node, error) {
	f, ok := filters[name]
	if !ok {
		if name == "random" {
			return nil, errors.New("the filter random does not draw from the Source of the policy: use rand()")
		}
		return nil, fmt.Errorf("unknown filter %q", name)
	}
	switch name {
	case "map":
		return newMap(n, given)
	case "select", "reject", "selectattr", "rejectattr":
		return newSelect(n, name, given)
	}
	args, err := f.bind("the filter "+name, given)
	return &filterNode{n, f, args}, err
}

// lazily returns the node of a filter that makes a generator from the members
// of n. The generator is empty if n is false.
func lazily(n node, args []node, member func(e *evaluation, v Value, args []Value, yield func(Value) error) error) node {
	return &filterNode{n, &function{call: func(e *evaluation, in Value, args []Value) (Value, error) {
		return &generator{each: func(e *evaluation, yield func(Value) error) error {
			if holds, err := truth(in); err != nil || !holds {
				return err
			}
			return e.each(in, func(v Value) error { return member(e, v, args, yield) })
		}}, nil
	}}, args}
}

// newMap returns the node of map, which applies a filter to each member or
// reads an attribute of it.
func newMap(n node, given arguments) (node, error) {
	if len(given.positional) == 0 && slices.Contains(given.names, "attribute") {
		f := &function{params: params("attribute default")}
		args, err := f.bind("the filter map", given)
		if err != nil {
			return nil, err
		}
		return lazily(n, args, func(e *evaluation, v Value, args []Value, yield func(Value) error) error {
			v, err := e.dig(v, args[0], args[1])
			if err != nil {
				return err
			}
			return yield(v)
		}), nil
	}
	name, err := named("map", "filter", given, 0)
	if err != nil {
		return nil, err
	}
	f, args, err := applied(filters, "filter", name, given, 1)
	if err != nil {
		return nil, err
	}
	if f.call == nil {
		return nil, fmt.Errorf("map cannot use the filter %s", name)
	}
	return lazily(n, args, func(e *evaluation, v Value, args []Value, yield func(Value) error) error {
		v, err := f.call(e, v, args)
		if err != nil {
			return err
		}
		return yield(v)
	}), nil
}

// named returns the name of a filter or test that is given as an argument. The
// name must be a literal, so that an unknown one is found when the template is
// parsed.
func named(filter, what string, given arguments, at int) (string, error) {
	if len(given.positional) <= at {
		return "", fmt.Errorf("the filter %s needs the name of a %s", filter, what)
	}
	c, ok := given.positional[at].(*constantNode)
	if ok {
		if name, ok := c.value.(string); ok {
			return name, nil
		}
	}
	return "", fmt.Errorf("the filter %s needs the name of a %s as a text", filter, what)
}

// applied returns a filter or test and its arguments, which are those of the
// call from the index from on.
func applied(of map[string]*function, what, name string, given arguments, from int) (*function, []node, error) {
	f, ok := of[name]
	if !ok {
		return nil, nil, fmt.Errorf("unknown %s %q", what, name)
	}
	given.positional = given.positional[from:]
	args, err := f.bind("the "+what+" "+name, given)
	return f, args, err
}

// newSelect returns the node of select, reject, selectattr or rejectattr. They
// keep the members for which a test holds or does not hold; the attr forms test
// an attribute.
func newSelect(n node, name string, given arguments) (node, error) {
	wanted := name == "select" || name == "selectattr"
	from := 0
	var attribute node = &constantNode{nil}
	if strings.HasSuffix(name, "attr") {
		if len(given.positional) == 0 {
			return nil, fmt.Errorf("the filter %s needs the name of an attribute", name)
		}
		attribute, from = given.positional[0], 1
	}
	ask := func(_ *evaluation, v Value, _ []Value) (Value, error) { return v, nil }
	args := []node{}
	if len(given.positional) > from {
		test, err := named(name, "test", given, from)
		if err != nil {
			return nil, err
		}
		var f *function
		if f, args, err = applied(tests, "test", test, given, from+1); err != nil {
			return nil, err
		}
		ask = f.call
	} else if len(given.names) > 0 {
		return nil, fmt.Errorf("the filter %s needs the name of a test", name)
	}
	return lazily(n, append([]node{attribute}, args...), func(e *evaluation, v Value, args []Value, yield func(Value) error) error {
		asked, err := e.dig(v, args[0], missing{})
		if err != nil {
			return err
		}
		answer, err := ask(e, asked, args[1:])
		if err != nil {
			return err
		}
		if holds, err := truth(answer); err != nil || holds != wanted {
			return err
		}
		return yield(v)
	}), nil
}

// dig returns the attribute of v at a path such as "a.b.0". If the attribute is
// missing, it returns fallback, unless that is missing or none.
func (e *evaluation) dig(v, attribute, fallback Value) (Value, error) {
	var parts []Value
	switch a := attribute.(type) {
	case nil, missing:
		return v, nil
	case string:
		if err := e.read(len(a)); err != nil {
			return nil, err
		}
		for part := range strings.SplitSeq(a, ".") {
			parts = append(parts, attributePart(part))
		}
	default:
		parts = []Value{attribute}
	}
	for _, part := range parts {
		var err error
		if v, err = e.item(v, part, &undefined{what: "the attribute " + kind(part)}); err != nil {
			return nil, err
		}
		if isUndefined(v) && !isMissing(fallback) && fallback != nil {
			v = fallback
		}
	}
	return v, nil
}

func attributePart(part string) Value {
	if part != "" && strings.Trim(part, "0123456789") == "" && len(part) < 20 {
		n, _ := new(big.Int).SetString(part, 10)
		return n
	}
	return part
}

// ignoreCase returns a text in lower case, and any other value unchanged.
func (e *evaluation) ignoreCase(v Value) (Value, error) {
	switch v := v.(type) {
	case string:
		if err := e.grow(len(v)); err != nil {
			return nil, err
		}
		return lower(v), nil
	case markup:
		return nil, unusableMarkup(v)
	default:
		return v, nil
	}
}

// keyOf returns the key for sorting or comparing a member.
func (e *evaluation) keyOf(v, attribute Value, caseSensitive bool) (Value, error) {
	key, err := e.dig(v, attribute, missing{})
	if err != nil || caseSensitive {
		return key, err
	}
	return e.ignoreCase(key)
}

func (e *evaluation) length(v Value) (int, error) {
	if s, ok := textOf(v); ok {
		return utf8.RuneCountInString(s), e.read(len(s))
	}
	switch v := v.(type) {
	case sequence:
		return v.length(), nil
	case mapping:
		return v.length(), nil
	case view:
		return v.of.length(), nil
	case *undefined:
		if v.lenient {
			return 0, nil
		}
		return 0, v.err()
	default:
		return 0, fmt.Errorf("%s has no length", kind(v))
	}
}

func absolute(_ *evaluation, in Value, _ []Value) (Value, error) {
	if n := whole(in); n != nil {
		return new(big.Int).Abs(n), nil
	}
	if f, ok := in.(float64); ok {
		return math.Abs(f), nil
	}
	if u, ok := in.(*undefined); ok {
		return nil, u.err()
	}
	return nil, fmt.Errorf("%s is not a number", kind(in))
}

func batch(_ *evaluation, in Value, args []Value) (Value, error) {
	size, err := integerArg("linecount", args[0], 0)
	if err != nil {
		return nil, err
	}
	return &generator{each: func(e *evaluation, yield func(Value) error) error {
		var line []Value
		err := e.each(in, func(v Value) error {
			if len(line) == size {
				if err := yield(&list{members: line}); err != nil {
					return err
				}
				line = nil
			}
			line = append(line, v)
			return e.grow(memberSize)
		})
		if err != nil || len(line) == 0 {
			return err
		}
		if fill := args[1]; fill != nil && !isMissing(fill) && len(line) < size {
			if err := e.grow(memberSize * (size - len(line))); err != nil {
				return err
			}
			line = append(line, slices.Repeat([]Value{fill}, size-len(line))...)
		}
		return yield(&list{members: line})
	}}, nil
}

func cut(_ *evaluation, in Value, args []Value) (Value, error) {
	n, err := integerArg("slices", args[0], 0)
	if err != nil {
		return nil, err
	}
	return &generator{each: func(e *evaluation, yield func(Value) error) error {
		members, err := e.members(in)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("division by zero")
		}
		if n < 0 {
			return nil
		}
		each, more := len(members)/n, len(members)%n
		for i := range n {
			part := members[:each]
			if i < more {
				part = members[:each+1]
			}
			members = members[len(part):]
			if err := e.grow(memberSize * (len(part) + 1)); err != nil {
				return err
			}
			part = slices.Clone(part)
			if fill := args[1]; fill != nil && !isMissing(fill) && i >= more {
				part = append(part, fill)
			}
			if err := yield(&list{members: part}); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

// sorted sorts members by their keys.
func (e *evaluation) sorted(members []Value, reverse bool, key func(Value) (Value, error)) error {
	type keyed struct{ key, value Value }
	pairs := make([]keyed, len(members))
	for i, v := range members {
		k, err := key(v)
		if err != nil {
			return err
		}
		pairs[i] = keyed{k, v}
	}
	var failed error
	slices.SortStableFunc(pairs, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		c, ok, err := e.order(a.key, b.key, 0)
		if err == nil && !ok {
			err = errors.New("nan has no place in an order")
		}
		failed = err
		if reverse {
			return -c
		}
		return c
	})
	for i := range pairs {
		members[i] = pairs[i].value
	}
	return failed
}

func sort(e *evaluation, in Value, args []Value) (Value, error) {
	members, err := e.members(in)
	if err != nil {
		return nil, err
	}
	reverse, err := flag(args[0])
	if err != nil {
		return nil, err
	}
	caseSensitive, err := flag(args[1])
	if err != nil {
		return nil, err
	}
	attributes := []Value{args[2]}
	if names, ok := args[2].(string); ok {
		if err := e.grow(len(names)); err != nil {
			return nil, err
		}
		attributes = nil
		for name := range strings.SplitSeq(names, ",") {
			attributes = append(attributes, name)
		}
	}
	err = e.sorted(members, reverse, func(v Value) (Value, error) {
		keys := &list{}
		for _, attribute := range attributes {
			key, err := e.keyOf(v, attribute, caseSensitive)
			if err != nil {
				return nil, err
			}
			if isNaN(key) && len(members) > 1 {
				return nil, errors.New("nan has no place in an order")
			}
			keys.members = append(keys.members, key)
		}
		return keys, e.grow(memberSize * len(attributes))
	})
	return &list{members: members}, err
}

func dictsort(e *evaluation, in Value, args []Value) (Value, error) {
	m, ok := in.(mapping)
	if !ok {
		if u, ok := in.(*undefined); ok {
			return nil, u.err()
		}
		return nil, fmt.Errorf("%s is not a mapping", kind(in))
	}
	by, err := textArg("by", args[1], "key")
	if err != nil {
		return nil, err
	}
	if by != "key" && by != "value" {
		return nil, fmt.Errorf("the argument by is %.40q: write key or value", by)
	}
	reverse, err := flag(args[2])
	if err != nil {
		return nil, err
	}
	pairs, err := m.pairs(e)
	if err != nil || len(pairs) == 0 {
		return &list{}, err
	}
	caseSensitive, err := flag(args[0])
	if err != nil {
		return nil, err
	}
	if err := e.grow(3 * memberSize * len(pairs)); err != nil {
		return nil, err
	}
	members := make([]Value, len(pairs))
	for i, p := range pairs {
		members[i] = &list{[]Value{p.key, p.value}, true}
	}
	key := func(v Value) (Value, error) {
		key := v.(*list).members[0]
		if by == "value" {
			key = v.(*list).members[1]
		}
		if isNaN(key) && len(pairs) > 1 {
			return nil, errors.New("nan has no place in an order")
		}
		if caseSensitive {
			return key, nil
		}
		return e.ignoreCase(key)
	}
	if err := e.sorted(members, reverse, key); err != nil {
		return nil, err
	}
	if !m.ordered() { // otherwise the order of equal keys would be lost
		for i := 1; i < len(members); i++ {
			a, _ := key(members[i-1])
			b, _ := key(members[i])
			if same, err := e.equal(a, b, 0); err != nil || same {
				return nil, errors.Join(err, errors.New("the order of this mapping is lost in Go, and two of its pairs are equal to dictsort"))
			}
		}
	}
	return &list{members: members}, nil
}

func unique(_ *evaluation, in Value, args []Value) (Value, error) {
	return &generator{each: func(e *evaluation, yield func(Value) error) error {
		caseSensitive, err := flag(args[0])
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		return e.each(in, func(v Value) error {
			key, err := e.keyOf(v, args[1], caseSensitive)
			if err != nil {
				return err
			}
			h, err := e.hash(key)
			if err != nil || seen[h] {
				return err
			}
			seen[h] = true
			if err := e.grow(len(h)); err != nil {
				return err
			}
			return yield(v)
		})
	}}, nil
}

// extreme makes min, for a sign of -1, or max.
func extreme(sign int) func(e *evaluation, in Value, args []Value) (Value, error) {
	return func(e *evaluation, in Value, args []Value) (Value, error) {
		var best, bestKey Value = &undefined{what: "min or max of nothing"}, nil
		n := 0
		err := e.each(in, func(v Value) error {
			caseSensitive, err := flag(args[0])
			if err != nil {
				return err
			}
			key, err := e.keyOf(v, args[1], caseSensitive)
			if err != nil {
				return err
			}
			if n++; n == 1 {
				best, bestKey = v, key
				return nil
			}
			c, ok, err := e.order(key, bestKey, 0)
			if err == nil && !ok {
				err = errors.New("nan has no place in an order")
			}
			if c*sign > 0 {
				best, bestKey = v, key
			}
			return err
		})
		return best, err
	}
}

func first(e *evaluation, in Value, _ []Value) (Value, error) {
	var found Value = &undefined{what: "the first of nothing"}
	err := e.each(in, func(v Value) error {
		found = v
		return errStop
	})
	return found, err
}

func last(e *evaluation, in Value, _ []Value) (Value, error) {
	n, err := e.length(in)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return &undefined{what: "the last of nothing"}, nil
	}
	switch in := in.(type) {
	case string:
		r, _ := utf8.DecodeLastRuneInString(in)
		return string(r), nil
	case sequence:
		return in.at(e, n-1)
	}
	members, err := e.members(in)
	if err != nil {
		return nil, err
	}
	return members[n-1], nil
}

func reverse(e *evaluation, in Value, _ []Value) (Value, error) {
	switch in := in.(type) {
	case string:
		if err := e.read(len(in)); err != nil {
			return nil, err
		}
		runes := []rune(in)
		slices.Reverse(runes)
		return e.text(string(runes))
	case sequence:
		return &generator{each: func(e *evaluation, yield func(Value) error) error {
			for i := in.length() - 1; i >= 0; i-- {
				v, err := in.at(e, i)
				if err == nil {
					err = e.step(1)
				}
				if err == nil {
					err = yield(v)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}}, nil
	}
	members, err := e.members(in)
	if err != nil {
		return nil, err
	}
	slices.Reverse(members)
	switch in.(type) {
	case mapping, view:
		return &generator{each: func(e *evaluation, yield func(Value) error) error {
			return e.each(&list{members: members}, yield)
		}}, nil
	}
	return &list{members: members}, nil // from a generator
}

func join(e *evaluation, in Value, args []Value) (Value, error) {
	separator := ""
	var err error
	if !isMissing(args[0]) {
		if separator, err = e.str(args[0]); err != nil {
			return nil, err
		}
	}
	var b strings.Builder
	n := 0
	err = e.each(in, func(v Value) error {
		if n++; n > 1 {
			b.WriteString(separator)
		}
		v, err := e.dig(v, args[1], missing{})
		if err != nil {
			return err
		}
		s, err := e.str(v)
		if err != nil {
			return err
		}
		b.WriteString(s)
		return e.grow(len(separator) + len(s))
	})
	return b.String(), err
}

func replace(e *evaluation, in Value, args []Value) (Value, error) {
	var texts [3]string
	for i, v := range []Value{in, args[0], args[1]} {
		s, err := e.str(v)
		if err != nil {
			return nil, err
		}
		texts[i] = s
	}
	count := -1
	if args[2] != nil {
		var err error
		if count, err = integerArg("count", args[2], -1); err != nil {
			return nil, err
		}
	}
	return e.replaced(texts[0], texts[1], texts[2], count)
}

// replaced returns s with the first n occurrences of old replaced, or all if n
// is negative.
func (e *evaluation) replaced(s, old, by string, n int) (Value, error) {
	if err := e.grow(len(s)); err != nil {
		return nil, err
	}
	times := strings.Count(s, old)
	if n >= 0 {
		times = min(times, n)
	}
	if err := e.growTimes(len(by), times); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, by, n), nil
}

func round(_ *evaluation, in Value, args []Value) (Value, error) {
	method, err := textArg("method", args[1], "common")
	if err != nil {
		return nil, err
	}
	if method != "common" && method != "ceil" && method != "floor" {
		return nil, fmt.Errorf("the argument method is %.40q: write common, ceil or floor", method)
	}
	if !isNumber(in) {
		if u, ok := in.(*undefined); ok {
			return nil, u.err()
		}
		return nil, fmt.Errorf("%s is not a number", kind(in))
	}
	if args[0] == nil && method == "common" {
		return roundToWhole(in)
	}
	precision, err := integerArg("precision", args[0], 0)
	if err != nil {
		return nil, err
	}
	if method == "common" {
		return roundTo(in, precision)
	}
	scale, err := integral("**", big.NewInt(10), big.NewInt(int64(precision)))
	if err != nil {
		return nil, err
	}
	scaled, err := numeric("*", in, scale)
	if err != nil {
		return nil, err
	}
	if f, ok := scaled.(float64); ok {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%s cannot be rounded to a whole number", kind(in))
		}
		if f = math.Floor(f); method == "ceil" {
			f = math.Ceil(scaled.(float64))
		}
		n, _ := big.NewFloat(f).Int(nil)
		scaled = n
	}
	return numeric("/", scaled, scale)
}

// roundTo rounds v to a number of digits after the decimal point, and halves to
// even.
func roundTo(v Value, digits int) (Value, error) {
	if n := whole(v); n != nil {
		if digits >= 0 {
			return n, nil
		}
		if digits < -maxBits {
			return new(big.Int), nil
		}
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
		return new(big.Int).Mul(roundRat(new(big.Rat).SetFrac(n, unit)), unit), nil
	}
	f := v.(float64)
	if math.IsNaN(f) || math.IsInf(f, 0) || digits > 400 {
		return f, nil
	}
	if digits < -400 {
		return math.Copysign(0, f), nil
	}
	if digits < 0 {
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil)
		r := new(big.Rat).SetFloat64(f)
		rounded := roundRat(r.Quo(r, new(big.Rat).SetInt(unit)))
		g, _ := new(big.Float).SetInt(rounded.Mul(rounded, unit)).Float64()
		if math.IsInf(g, 0) {
			return nil, errors.New("a rounded number is too large for a float")
		}
		return math.Copysign(g, f), nil
	}
	g, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
	return g, err
}

// roundRat rounds r to an integer, and halves to even.
func roundRat(r *big.Rat) *big.Int {
	double := new(big.Int).Add(new(big.Int).Mul(r.Num(), big.NewInt(2)), r.Denom())
	quotient, remainder := new(big.Int).DivMod(double, new(big.Int).Mul(r.Denom(), big.NewInt(2)), new(big.Int))
	if remainder.Sign() == 0 && quotient.Bit(0) == 1 {
		quotient.Sub(quotient, big.NewInt(1))
	}
	return quotient
}

func roundToWhole(v Value) (Value, error) {
	r := number(v)
	if r == nil {
		return nil, fmt.Errorf("%s cannot be rounded to a whole number", kind(v))
	}
	return roundRat(r), nil
}

func sum(e *evaluation, in Value, args []Value) (Value, error) {
	var total Value = big.NewInt(0)
	if !isMissing(args[1]) {
		total = args[1]
	}
	if _, ok := textOf(total); ok {
		return nil, errors.New("sum cannot add texts: use join")
	}
	var lost float64 // the rounding errors, which Python 3.12 and later versions add at the end
	err := e.each(in, func(v Value) error {
		v, err := e.dig(v, args[0], missing{})
		if err != nil {
			return err
		}
		before := total
		if total, err = e.arithmetic("+", total, v); err != nil {
			return err
		}
		if after, ok := total.(float64); ok {
			a, b := float(before), float(v)
			if math.Abs(a) < math.Abs(b) {
				a, b = b, a
			}
			if c := (a - after) + b; !math.IsNaN(c) && !math.IsInf(c, 0) {
				lost += c
			}
		}
		return nil
	})
	if f, ok := total.(float64); ok && err == nil && f+lost != f && !math.IsInf(f, 0) {
		return nil, fmt.Errorf("the sum %s or %s depends on the version of Python: round the numbers, or add them by +", formatFloat(f), formatFloat(f+lost))
	}
	return total, err
}

// titleFilter is Jinja's filter: words begin after spaces, hyphens and
// brackets.
func titleFilter(s string) string {
	var b strings.Builder
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		n := strings.IndexFunc(s, func(other rune) bool { return isWordBreak(other) != isWordBreak(r) })
		if n < 0 {
			n = len(s)
		}
		b.WriteString(upper(s[:size]) + lower(s[size:n]))
		s = s[n:]
	}
	return b.String()
}

func isWordBreak(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_' }

func truncate(e *evaluation, in Value, args []Value) (Value, error) {
	most, err := integerArg("length", args[0], 255)
	if err != nil {
		return nil, err
	}
	end, err := textArg("end", args[2], "...")
	if err != nil {
		return nil, err
	}
	leeway := 5
	if args[3] != nil {
		if leeway, err = integerArg("leeway", args[3], 5); err != nil {
			return nil, err
		}
	}
	endLength, err := e.length(end)
	if err != nil {
		return nil, err
	}
	switch {
	case most < endLength:
		return nil, fmt.Errorf("the argument length is %d: write at least %d, the length of its end", most, endLength)
	case leeway < 0:
		return nil, fmt.Errorf("the argument leeway is %d: write 0 or more", leeway)
	}
	if n, err := e.length(in); err != nil || n <= most+leeway {
		return in, err
	}
	s, ok := in.(string)
	if !ok {
		return nil, fmt.Errorf("%s is not a text", kind(in))
	}
	killwords, err := flag(args[1])
	if err != nil {
		return nil, err
	}
	cut := s[:offset(s, most-endLength)]
	if !killwords {
		if i := strings.LastIndex(cut, " "); i >= 0 {
			cut = cut[:i]
		}
	}
	return e.text(cut + end)
}

// urlencode quotes a text for a path, or pairs for a query.
func urlencode(e *evaluation, in Value, _ []Value) (Value, error) {
	switch in := in.(type) {
	case string:
		return e.quoted(in, "/")
	case mapping:
		return e.query(view{"items", in})
	case sequence, *generator, view, *undefined:
		return e.query(in)
	case *method, goStruct:
		return nil, unusable(in)
	case markup:
		return nil, unusableMarkup(in)
	}
	s, err := e.str(in)
	if err != nil {
		return nil, err
	}
	return e.quoted(s, "/")
}

func (e *evaluation) query(pairs Value) (Value, error) {
	var b strings.Builder
	n := 0
	err := e.each(pairs, func(v Value) error {
		pair, err := e.members(v)
		if err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("%s is not a pair of a name and a value", kind(v))
		}
		if n++; n > 1 {
			b.WriteByte('&')
		}
		for i, part := range pair {
			s, err := e.str(part)
			if err != nil {
				return err
			}
			if err := e.read(len(s)); err != nil {
				return err
			}
			s = strings.ReplaceAll(urlQuote(s, ""), "%20", "+")
			if err := e.grow(len(s) + 1); err != nil {
				return err
			}
			if i > 0 {
				b.WriteByte('=')
			}
			b.WriteString(s)
		}
		return nil
	})
	return b.String(), err
}

func (e *evaluation) quoted(s, safe string) (Value, error) {
	if err := e.read(len(s)); err != nil {
		return nil, err
	}
	return e.text(urlQuote(s, safe))
}

// urlQuote quotes every byte that is neither unreserved nor in safe.
func urlQuote(s, safe string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_.-~", c) >= 0, strings.IndexByte(safe, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
