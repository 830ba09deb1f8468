package policyfile

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A block that exceeds one of these limits is not a policy. Decoding such a block could take a very
// long time.
const (
	mostKeys  = 1000   // limit on the keys of one mapping in a policy
	mostNodes = 50_000 // limit on the nodes of a policy, including the nodes of aliases

	mostSystemNodes = 200_000 // limit on the nodes of a system that `retry simulate` reads

	// mostFileNodes is the limit on the nodes of all documents of a file together. If a text in the
	// file is a YAML document, as in a ConfigMap, the nodes of this document count too.
	mostFileNodes = 250_000

	// The YAML library creates all nodes of a document before they can be counted, and a node takes at
	// least 200 bytes. So countStarts first counts the places in the text where a node may start.
	mostStarts = 2 * mostFileNodes // limit on the result of countStarts for a file
)

// countStarts returns an upper bound on the number of nodes in a text of YAML. If the bound exceeds
// `limit`, countStarts stops and returns the line that it has reached. A node starts after a line
// break, an indicator, a comma or a bracket. A comma counts as two nodes, and a bracket as three.
// The text may have fewer nodes, because a scalar may contain these characters too.
func countStarts(data []byte, limit int) (n, line int) {
	wide := bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.HasPrefix(data, []byte("\xff\xfe"))
	n, line = 2, 1 // n starts with two nodes, the document and its root
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
		case '\n', '\r', 0x85, 0xa8, 0xa9: // from 0x85 on: the last bytes of other line breaks in UTF-8
			n++
		case '(', ')': // 0x28 and 0x29: in UTF-16, the low bytes of the line breaks U+2028 and U+2029
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

// count counts a node, and the nodes below it.
func (f *File) count(node *yaml.Node) {
	f.nodes++
	for _, inner := range node.Content {
		f.count(inner)
	}
}

// tooMany is the text of the fault of a file with too many nodes.
var tooMany = fmt.Sprintf("up to this line, the file has more than %d keys and values",
	mostFileNodes)

// tooLarge reports whether b has more nodes than `limit`, or a mapping with more keys than
// mostKeys.
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
