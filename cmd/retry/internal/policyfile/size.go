package policyfile

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// These constants limit the keys that << merges. Without limits, 40 mappings that each merge [*a,
// *a] from the mapping before would stand for 2^40 keys.
const (
	mostMerged      = 10_000  // into a mapping
	mostMergedInAll = 100_000 // into all mappings of a file
)

// check returns a fault if a node has a duplicate key, an anchor that contains itself, or too many
// merged keys. keys are the numbers of keys of the nodes that have been checked. The decoder of the
// YAML library reports duplicate keys too, but it compares each key with every other key, which
// takes seconds for a file with 16,000 keys.
func (f *File) check(node *yaml.Node, keys map[*yaml.Node]int) *Fault {
	const begun = -1
	if node.Kind == yaml.ScalarNode { // most nodes are scalars, and a scalar contains no node
		return nil
	}
	if n, seen := keys[node]; n == begun {
		return &Fault{File: f.Name, Line: node.Line, Code: unreadable, Text: "the anchor contains itself"}
	} else if seen {
		return nil
	}
	f.steps++
	keys[node] = begun
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
		if fault := f.check(inner, keys); fault != nil {
			return fault
		}
	}
	if node.Kind == yaml.AliasNode {
		if fault := f.check(node.Alias, keys); fault != nil {
			return fault
		}
	}
	keys[node] = merged(node, keys)
	more := max(0, keys[node]-len(node.Content)/2)
	f.merged += more
	switch {
	case more > mostMerged:
		return &Fault{File: f.Name, Line: node.Line, Code: unreadable,
			Text: fmt.Sprintf("<< merges more than %d keys here", mostMerged)}
	case f.merged > mostMergedInAll:
		return &Fault{File: f.Name, Line: node.Line, Code: unreadable,
			Text: fmt.Sprintf("<< merges more than %d keys in this file, up to here", mostMergedInAll)}
	}
	return nil
}

// merged returns how many keys a mapping has, with the keys that << merges into it. A key that is
// merged twice counts twice. keys are the numbers of keys of the nodes inside.
func merged(node *yaml.Node, keys map[*yaml.Node]int) int {
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
			n += keys[resolved(source)]
		}
	}
	return n
}

// A block above these limits is not a policy, and decoding it could take very long.
const (
	mostKeys  = 1000   // keys of a mapping
	mostNodes = 50_000 // nodes of a policy, including the nodes of aliases

	mostSystemNodes = 200_000 // nodes of a system

	mostFileNodes = 250_000 // nodes of all documents of a file, including documents in texts

	// The YAML library makes all nodes of a document, of 200 bytes or more each, before they can be
	// counted. So starts counts places in the text.
	mostStarts = 2 * mostFileNodes // the result of starts for a text of YAML
)

// starts returns an upper limit on the number of nodes in a text of YAML. It stops when the number
// is above most, and returns the line. Each node starts after a line break, an indicator or a
// bracket: up to two nodes after a comma, and up to three with a bracket. A scalar may contain such
// characters too, so the text may have fewer nodes.
func starts(data []byte, most int) (n, line int) {
	wide := bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("\xff\xfe"))
	n, line = 2, 1 // a document, and its root
	for i, c := range data {
		before, after := byte(' '), byte(' ')
		if i > 0 {
			before = data[i-1]
		}
		if i+1 < len(data) {
			after = data[i+1]
		}
		switch c {
		case ',':
			n += 2
		case '[', '{':
			n += 3
		case '\n', '\r', 0x85, 0xa8, 0xa9: // the last three are the last bytes of other line breaks
			n++
		case '(', ')': // bytes of such a line break in UTF-16
			if wide {
				n++
			}
		case '-', '?', ':':
			if wide || after <= ' ' || strings.IndexByte(",[]{}", after) >= 0 ||
				c == ':' && strings.IndexByte("\"'}]", before) >= 0 {
				n++
			}
		}
		if c == '\n' {
			line++
		}
		if n > most {
			return n, line
		}
	}
	return n, line
}

// tooLarge reports whether b has more nodes than most, or a mapping with more keys than mostKeys.
func (b *Block) tooLarge(most int) bool {
	nodes := 0
	var count func(*yaml.Node) bool
	count = func(node *yaml.Node) bool {
		node = resolved(node)
		nodes++
		if nodes > most || node.Kind == yaml.MappingNode && len(node.Content) > 2*mostKeys {
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
