package policyfile

import (
	"iter"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// An entry is a key of a mapping, or an index of a sequence, with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node

	// The function `walk` sets these fields. For a key of a mapping, `under` is the same as `key`. For
	// an element of a list, `under` is the key whose value is the list.
	under string
	in    *place // the mapping that contains the key `under`
}

// entries returns the entries of a mapping or a sequence. In a mapping, the keys that << merges
// come last. A merged key is left out if the mapping has the same key itself.
func entries(node *yaml.Node) []entry { return slices.Collect(eachEntry(node)) }

// eachEntry yields the entries that the function `entries` returns. It makes no list of the
// entries, because such a list could need as much memory as all nodes of the file.
func eachEntry(node *yaml.Node) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		switch node.Kind {
		case yaml.SequenceNode:
			for i, element := range node.Content {
				e := entry{key: strconv.Itoa(i), line: element.Line, value: element}
				if !yield(e) {
					return
				}
			}
		case yaml.MappingNode:
			eachKey(node, yield)
		}
	}
}

// firstEntry returns the first entry of a mapping or a sequence for which the function `fits`
// returns true.
func firstEntry(node *yaml.Node, fits func(entry) bool) (e entry, ok bool) {
	for e := range eachEntry(node) {
		if fits(e) {
			return e, true
		}
	}
	return entry{}, false
}

// anyEntry reports whether the function `fits` returns true for at least one entry of a mapping or
// a sequence.
func anyEntry(node *yaml.Node, fits func(entry) bool) bool {
	_, ok := firstEntry(node, fits)
	return ok
}

// eachKey yields the entries of a mapping.
func eachKey(node *yaml.Node, yield func(entry) bool) {
	var sources []*yaml.Node // the values of the << keys
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.ShortTag() != "!!merge":
			if !yield(entry{key: key.Value, line: key.Line, value: value}) {
				return
			}
		case resolved(value).Kind == yaml.SequenceNode:
			sources = append(sources, value.Content...)
		default:
			sources = append(sources, value)
		}
	}
	if sources == nil {
		return
	}
	known := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		known[node.Content[i].Value] = true
	}
	for _, source := range sources {
		for e := range eachEntry(resolved(source)) {
			if known[e.key] {
				continue
			}
			known[e.key] = true
			if !yield(e) {
				return
			}
		}
	}
}

// For an alias, resolved returns the node to which the alias refers. For a document, it returns the
// root node of the document. It returns any other node unchanged.
func resolved(node *yaml.Node) *yaml.Node {
	for {
		switch node.Kind {
		case yaml.AliasNode:
			node = node.Alias
		case yaml.DocumentNode:
			node = node.Content[0]
		default:
			return node
		}
	}
}

func hasKey(node *yaml.Node, key string) bool {
	return anyEntry(resolved(node), func(e entry) bool { return e.key == key })
}

// text returns the text of a scalar. For any other node it returns "".
func text(node *yaml.Node) string {
	if node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
}

var emptyMapping = &yaml.Node{Kind: yaml.MappingNode}

// walk calls the function `visit` once for every entry below a node. If `visit` returns true for an
// entry, `walk` skips the entries below this entry. The slice `path` is valid only until `visit`
// returns.
func walk(node *yaml.Node, visit func(path []string, e entry) (done bool)) {
	seen := map[*yaml.Node]bool{}
	var below func(node *yaml.Node, in *place, path []string, under string)
	below = func(node *yaml.Node, in *place, path []string, under string) {
		if node.Kind == yaml.DocumentNode {
			in, under = nil, ""
		}
		node = resolved(node)
		if node.Kind == yaml.ScalarNode || seen[node] || len(path) > deepest {
			return
		}
		seen[node] = true
		if node.Kind == yaml.MappingNode {
			in = newPlace(node, under, in, path)
		}
		for e := range eachEntry(node) {
			if e.under, e.in = under, in; node.Kind == yaml.MappingNode {
				e.under = e.key
			}
			if path := append(path, e.key); !visit(path, e) {
				below(e.value, in, path, e.under)
			}
		}
	}
	below(node, nil, nil, "")
}

// deepest is how many keys deep the function `walk` looks into a file. A block below this
// depth is found only if the user writes the path to it.
const deepest = 100
