package noetl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry/retryflow"
)

// scopes lists the mappings of the state in which a rule can store values under names. `scope` is
// the name of the mapping in the state, such as "iter". `key` is the key of the rule whose value
// contains the names and values, such as "set_iter".
var scopes = []struct{ key, scope string }{
	{"set_iter", "iter"}, {"set_vars", "vars"}, {"set_ctx", "ctx"}, {"set_shared", "shared"},
}

// An assignment stores a value under a name. The name is a key in a mapping of the state, or in the
// state itself.
type assignment struct {
	key   string // what errors call the assignment, such as "set_iter.page"
	scope string // the key of the mapping in the state; "": the mapping is the state itself
	name  string
	value any // the value, in which texts with {{ … }} are templates
}

// readSet reads the names and values that a rule sets. It returns the Set function of the rule,
// or nil if the rule sets no name.
func (r *reader) readSet(m *mapping, d dialect) func(retryflow.State, retryflow.Outcome) error {
	var all []assignment
	for _, s := range scopes {
		if k := m.take(s.key); k != nil {
			for name, value := range r.values(k) {
				all = append(all, assignment{s.key + "." + name, s.scope, name, value})
			}
		}
	}
	if k := m.take("set"); k != nil {
		for path, value := range r.values(k) {
			scope, name, ok := strings.Cut(path, ".")
			if !ok {
				scope, name = "ctx", path
			}
			if scope == "" || name == "" || strings.Contains(name, ".") {
				r.fault(k.place, `set: %s: write a scope and a name: "iter.page"`, path)
			}
			all = append(all, assignment{"set." + path, scope, name, value})
		}
	}
	if k := m.take("set_prev"); k != nil {
		var value any
		if err := k.value.Decode(&value); err != nil {
			r.fault(k.place, "set_prev: %v", err)
		}
		all = append(all, assignment{"set_prev", "", "_prev", r.compileAll(k, "", value)})
	}
	if all == nil {
		return nil
	}
	// If two values cannot be computed, `assign` returns the error of the first one. Sorting the
	// values makes this error independent of the order of a Go map.
	slices.SortFunc(all, func(a, b assignment) int { return strings.Compare(a.key, b.key) })
	return func(s retryflow.State, o retryflow.Outcome) error { return assign(all, s, d.names(o)) }
}

// values reads a mapping of names to values.
func (r *reader) values(k *key) map[string]any {
	n := resolve(k.value)
	values, ok := r.sets[n]
	if ok {
		return values
	}
	if n.Kind != yaml.MappingNode {
		r.fault(k.place, "%s is %s: %s", k.name, describe(n), writeNames)
	} else if err := n.Decode(&values); err != nil {
		r.fault(k.place, "%s: %v", k.name, err)
	}
	for name, value := range values {
		values[name] = r.compileAll(k, "."+name, value)
	}
	r.sets[n] = values
	return values
}

// compileAll returns a copy of a value in which texts with {{ … }} are
// templates.
func (r *reader) compileAll(k *key, name string, value any) any {
	switch value := value.(type) {
	case string:
		if !strings.Contains(value, "{{") && !strings.Contains(value, "{%") {
			return value
		}
		t, err := r.compile(value)
		if err != nil {
			r.fault(k.place, "%s%s: %v", k.name, name, err)
		}
		return t
	case []any:
		for i := range value {
			value[i] = r.compileAll(k, name, value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = r.compileAll(k, name, value[key])
		}
	}
	return value
}

// assign stores values under names in the state. It computes all values before it stores the first
// value, so an error leaves the state unchanged. It does not change a mapping of the state, but
// replaces it with a changed copy.
func assign(all []assignment, s retryflow.State, lookup func(string) (any, bool)) error {
	next := map[string]any{}
	for _, a := range all {
		value, err := computed(a.value, lookup)
		if err != nil {
			return fmt.Errorf("%s: %w", a.key, err)
		}
		if a.scope == "" {
			next[a.name] = value
			continue
		}
		if next[a.scope] == nil {
			scope := map[string]any{}
			switch before := s[a.scope].(type) {
			case nil:
			case map[string]any:
				maps.Copy(scope, before)
			default:
				return fmt.Errorf("%s: the key %q of the state has a value of type %T: "+
					"it must be a map[string]any", a.key, a.scope, before)
			}
			next[a.scope] = scope
		}
		next[a.scope].(map[string]any)[a.name] = value
	}
	maps.Copy(s, next)
	return nil
}

// computed returns a copy of a value in which the result of each template replaces the template.
func computed(value any, lookup func(string) (any, bool)) (any, error) {
	var err error
	switch value := value.(type) {
	case *template:
		return value.value(lookup)
	case []any:
		list := make([]any, len(value))
		for i := range value {
			if list[i], err = computed(value[i], lookup); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		m := make(map[string]any, len(value))
		for key := range value {
			if m[key], err = computed(value[key], lookup); err != nil {
				return nil, err
			}
		}
		return m, nil
	default:
		return value, nil
	}
}
