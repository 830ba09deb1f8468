package policyfile

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// These constants limit the keys that << merges. Without these limits, a file of 40 mappings in
// which each mapping merges the previous mapping twice would have 2^40 keys.
const (
	mostMerged      = 10_000  // limit on the keys that one mapping merges
	mostMergedInAll = 100_000 // limit on the keys that a file merges in all its mappings
)

// check returns a fault if a node has a duplicate key, an anchor that contains itself, or too many
// merged keys. The parameter `keyCount` contains the number of keys of each node that the method
// `check` has finished, and -1 for each node that the method has begun and not finished. The
// decoder of the YAML library reports duplicate keys too, but it compares each key with every other
// key. For a file with 16,000 keys this takes seconds.
func (f *File) check(node *yaml.Node, keyCount map[*yaml.Node]int) *Fault {
	const begun = -1
	if node.Kind == yaml.ScalarNode { // most nodes are scalars, and a scalar contains no node
		return nil
	}
	if n, seen := keyCount[node]; n == begun {
		return &Fault{File: f.Name, Line: node.Line, Code: unreadable, Text: "the anchor contains itself"}
	} else if seen {
		return nil
	}
	f.steps++
	keyCount[node] = begun
	var lines map[string]int
	if node.Kind == yaml.MappingNode {
		lines = map[string]int{}
	}
	for i, inner := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && inner.Kind == yaml.ScalarNode {
			if line, duplicate := lines[inner.Value]; duplicate {
				return &Fault{File: f.Name, Line: inner.Line, Code: unreadable,
					Text: fmt.Sprintf("mapping key %q already defined at line %d", inner.Value, line)}
			}
			lines[inner.Value] = inner.Line
		}
		if fault := f.check(inner, keyCount); fault != nil {
			return fault
		}
	}
	if node.Kind == yaml.AliasNode {
		if fault := f.check(node.Alias, keyCount); fault != nil {
			return fault
		}
	}
	keyCount[node] = merged(node, keyCount)
	more := max(0, keyCount[node]-len(node.Content)/2)
	f.merged += more
	switch {
	case more > mostMerged:
		return &Fault{File: f.Name, Line: node.Line, Code: unreadable,
			Text: fmt.Sprintf("<< merges more than %d keys here", mostMerged)}
	case f.merged > mostMergedInAll:
		return &Fault{File: f.Name, Line: node.Line, Code: unreadable,
			Text: fmt.Sprintf("up to this line, << merges more than %d keys", mostMergedInAll)}
	}
	return nil
}

// merged returns how many keys a mapping has, including the keys that << merges into it. A key that
// is merged twice counts twice. The parameter `keyCount` maps each inner node to the number of its
// keys.
func merged(node *yaml.Node, keyCount map[*yaml.Node]int) int {
	if node.Kind != yaml.MappingNode {
		return 0
	}
	n := len(node.Content) / 2
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i].ShortTag() != "!!merge" {
			continue
		}
		sources := []*yaml.Node{node.Content[i+1]}
		if list := resolved(sources[0]); list.Kind == yaml.SequenceNode {
			sources = list.Content
		}
		for _, source := range sources {
			n += keyCount[resolved(source)]
		}
	}
	return n
}
