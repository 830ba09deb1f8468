package policyfile

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// How many keys a mapping, and all of a file, may get from other mappings by <<. That
// bounds the work: [*a, *a] in 40 mappings, each merging the one before, stands for
// 2^40, and a line of a dozen characters for as many keys as a mapping may have.
const (
	mostMerged      = 10_000
	mostMergedInAll = 100_000
)

// check returns a fault if a node has a duplicate key, an anchor that contains
// itself, or too many merged keys. A decoder would report the first two, but it
// compares each key of a mapping with every other key, which takes seconds for a file
// with 16,000 keys.
func (f *File) check(node *yaml.Node, keys map[*yaml.Node]int) *Fault {
	const begun = -1
	if node.Kind == yaml.ScalarNode { // most are, and none contains anything
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
				return &Fault{File: f.Name, Line: inner.Line, Code: unreadable, Text: fmt.Sprintf("mapping key %q already defined at line %d", inner.Value, line)}
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
		return &Fault{File: f.Name, Line: node.Line, Code: unreadable, Text: fmt.Sprintf("<< merges more than %d keys here", mostMerged)}
	case f.merged > mostMergedInAll:
		return &Fault{File: f.Name, Line: node.Line, Code: unreadable, Text: fmt.Sprintf("<< merges more than %d keys in this file, up to here", mostMergedInAll)}
	}
	return nil
}

// merged returns how many keys a mapping has with those that are merged into it,
// each as often as it is. keys has those of what is inside of it.
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

// A block beyond these limits is not a policy, and decoding it could take very
// long.
const (
	mostKeys  = 1000   // keys of a mapping
	mostNodes = 50_000 // nodes, including those that aliases stand for

	mostSystemNodes = 200_000 // of a system

	mostFileNodes = 250_000 // of all documents of a file together, those in texts too

	// The YAML library makes the nodes of a whole document, of 200 bytes and more each, before
	// they can be counted.
	mostStarts = 2 * mostFileNodes // of nodes in a text of YAML, as starts counts them
)

// starts returns how many nodes a text of YAML has at most, and the line on which these are more
// than most. Each node begins after a line break, an indicator or a bracket: up to two after a
// comma, and three with a bracket. A scalar may contain all of these, so it is seldom fewer.
func starts(data []byte, most int) (n, line int) {
	wide := bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("\xff\xfe"))
	n, line = 2, 1 // a document, and what is in it
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
		case '\n', '\r', 0x85, 0xa8, 0xa9: // the last three end other line breaks
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

// tooLarge reports whether b has a mapping that is larger than any of a policy, or
// more nodes than most.
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
