package policyfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A place is a mapping in a file, with a pointer to the mapping around it.
type place struct {
	node     *yaml.Node
	key      string // the outer key, whose value is this mapping or a list that contains this mapping
	up       *place // the outer mapping; nil if there is none
	depth    int    // the number of keys that lead to the mapping
	resource bool   // whether the mapping is a resource of Kubernetes
}

// newPlace returns the place of a mapping. The parameter `path` is the path from the document to
// the mapping.
func newPlace(node *yaml.Node, key string, up *place, path []string) *place {
	return &place{node, key, up, len(path), isResource(node)}
}

// isResource reports whether a mapping is a resource of Kubernetes.
func isResource(node *yaml.Node) bool {
	found := 0
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i].Value
		if (key == "apiVersion" || key == "kind") && text(node.Content[i+1]) != "" {
			found++
		}
	}
	return found == 2
}

// document returns the innermost resource of Kubernetes that contains p, or that is p itself. If
// there is no such resource, it returns the root of the YAML document. A resource can be in a list
// or in another resource, so it is not always the root.
func (p *place) document() *place {
	for p != nil && p.up != nil && !p.resource {
		p = p.up
	}
	return p
}

// get starts at p, follows the path in the parameter `keys`, and returns the entry at the end of
// this path. Two spellings of a key are equal if the function `plain` returns the same text for
// both.
func (p *place) get(plain func(string) string, keys ...string) (found entry, ok bool) {
	if p == nil {
		return entry{}, false
	}
	found.value = p.node
	for _, key := range keys {
		found, ok = firstEntry(resolved(found.value), func(e entry) bool {
			return e.key == key || plain(e.key) == plain(key)
		})
		if !ok {
			return entry{}, false
		}
	}
	found.value = resolved(found.value)
	return found, true
}

// hasKeys reports whether a mapping meets all conditions in the text `required`. Blanks separate
// the conditions. "a|b" requires the key a or the key b, "c=d" requires the key c with the value d,
// and "e!=0" requires the key e with a value other than 0. Dots in a key are a path: "a.b" is the
// key b in the value of a.
func (p *place) hasKeys(required string, plain func(string) string) bool {
	for one := range strings.FieldsSeq(required) {
		if !slices.ContainsFunc(strings.Split(one, "|"), func(key string) bool {
			key, value, compared := strings.Cut(key, "=")
			key, differs := strings.CutSuffix(key, "!")
			e, ok := p.get(plain, strings.Split(key, ".")...)
			return ok && (!compared || (text(e.value) == value) != differs)
		}) {
			return false
		}
	}
	return true
}

// isOf reports whether a document has the API group of the shape s and one of the kinds of s. It
// returns true for every document if s has no API group.
func (p *place) isOf(s *shape) bool {
	if s.group == "" {
		return true
	}
	api, _ := p.get(exactly, "apiVersion")
	kind, _ := p.get(exactly, "kind")
	group, _, _ := strings.Cut(text(api.value), "/")
	return group == s.group && slices.Contains(strings.Fields(s.kinds), text(kind.value))
}

// inSchema reports whether a mapping is a part of a JSON Schema.
func (p *place) inSchema() bool {
	for ; p != nil; p = p.up {
		if p.key == "properties" {
			return true
		}
	}
	return false
}
