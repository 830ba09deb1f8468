package policyfile

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// check returns a fault if a node has a duplicate key, or an anchor that
// contains itself. A decoder would report both, but it compares each key of a
// mapping with every other key, which takes seconds for a file with 16,000
// keys.
func (f *File) check(node *yaml.Node, checked map[*yaml.Node]bool) *Fault {
	if done, seen := checked[node]; seen && !done {
		return &Fault{File: f.Name, Line: node.Line, Text: "the anchor contains itself"}
	} else if done {
		return nil
	}
	checked[node] = false
	lines := map[string]int{}
	for i, inner := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && inner.Kind == yaml.ScalarNode {
			if line, duplicate := lines[inner.Value]; duplicate {
				return &Fault{File: f.Name, Line: inner.Line, Text: fmt.Sprintf("mapping key %q already defined at line %d", inner.Value, line)}
			}
			lines[inner.Value] = inner.Line
		}
		if fault := f.check(inner, checked); fault != nil {
			return fault
		}
	}
	if node.Kind == yaml.AliasNode {
		if fault := f.check(node.Alias, checked); fault != nil {
			return fault
		}
	}
	checked[node] = true
	return nil
}

// A block beyond these limits is not a policy, and decoding it could take very
// long.
const (
	mostKeys  = 1000   // keys of a mapping
	mostNodes = 50_000 // nodes, including those that aliases stand for
)

// tooLarge reports whether b is larger than any policy.
func (b *Block) tooLarge() bool {
	nodes := 0
	var count func(*yaml.Node) bool
	count = func(node *yaml.Node) bool {
		node = resolved(node)
		nodes++
		if nodes > mostNodes || node.Kind == yaml.MappingNode && len(node.Content) > 2*mostKeys {
			return true
		}
		for _, inner := range node.Content {
			if count(inner) {
				return true
			}
		}
		return false
	}
	return count(b.node)
}
