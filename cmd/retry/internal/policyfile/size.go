package policyfile

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// These constants limit the keys that << merges. Without these limits, 40 mappings could stand for
// 2^40 keys: each mapping merges [*a, *a], where a is the mapping before it.
const (
	mostMerged      = 10_000  // limit on the keys that one mapping merges
	mostMergedInAll = 100_000 // limit on the keys that a file merges in all its mappings
)

// check returns a fault if a node has a duplicate key, an anchor that contains itself, or too many
// merged keys. keyCount maps each node that was checked before to the number of its keys. The
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
// is merged twice counts twice. keyCount maps each inner node to the number of its keys.
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

// A block that exceeds one of these limits is not a policy. Decoding such a block could take a very
// long time.
const (
	mostKeys  = 1000   // limit on the keys of one mapping in a policy
	mostNodes = 50_000 // limit on the nodes of a policy, including the nodes of aliases

	mostSystemNodes = 200_000 // limit on the nodes of a system

	mostFileNodes = 250_000 // limit on the nodes of all documents of a file, and of documents in texts

	// The YAML library creates all nodes of a document before they can be counted, and a node takes at
	// least 200 bytes. So countStarts first counts the places in the text where a node may start.
	mostStarts = 2 * mostFileNodes // the largest result of countStarts for a file
)

// countStarts returns an upper bound on the number of nodes in a text of YAML. If the bound exceeds
// limit, countStarts stops and returns the line that it has reached. A node starts after a line
// break, an indicator, a comma or a bracket. A comma counts as two nodes, and a bracket as three.
// The text may have fewer nodes, because a scalar may contain these characters too.
func countStarts(data []byte, limit int) (n, line int) {
	wide := bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("\xff\xfe"))
	n, line = 2, 1 // the document and its root
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
		case '\n', '\r', 0x85, 0xa8, 0xa9: // 0x85, 0xa8 and 0xa9 end other line breaks of Unicode
			n++
		case '(', ')': // in UTF-16, these bytes end a line break of Unicode
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
		if n > limit {
			return n, line
		}
	}
	return n, line
}

// tooLarge reports whether b has more nodes than limit, or a mapping with more keys than mostKeys.
func (b *Block) tooLarge(limit int) bool {
	nodes := 0
	var count func(*yaml.Node) bool
	count = func(node *yaml.Node) bool {
		node = resolved(node)
		nodes++
		if nodes > limit || node.Kind == yaml.MappingNode && len(node.Content) > 2*mostKeys {
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
