package policyfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Block is the part of a file that is, or should be, a policy.
type Block struct {
	File string
	At   string // the path to the block; "" for a whole document
	Line int

	node *yaml.Node
}

// usualKeys are the keys under which larger files have policies.
var usualKeys = []string{"retry", "work_config"}

// Find returns the blocks at a path such as services.payments.retry or
// steps.0.retry. In a path, * stands for every key or element, and a key may
// contain dots. Without a path, a block is the value of retry or work_config in
// a document, or else the whole document.
func (f *File) Find(at string) []Block {
	var blocks []Block
	for _, document := range f.documents {
		if at != "" {
			f.find(document, nil, strings.Split(at, "."), &blocks)
			continue
		}
		before := len(blocks)
		for _, key := range usualKeys {
			f.find(document, nil, []string{key}, &blocks)
		}
		if len(blocks) == before {
			f.find(document, nil, nil, &blocks)
		}
	}
	return blocks
}

// Only returns the only block at a path; see [File.Find].
func (f *File) Only(at string) (Block, *Fault) {
	blocks := f.Find(at)
	switch {
	case len(blocks) == 1:
		return blocks[0], nil
	case len(blocks) > 1:
		return Block{}, &Fault{f.Name, blocks[1].Line, false, fmt.Sprintf("there are %d policies, and this is the second: name one by its path", len(blocks))}
	case at != "":
		return Block{}, &Fault{f.Name, 1, false, fmt.Sprintf("there is nothing at %s: name the keys that lead to the policy", at)}
	default:
		return Block{}, &Fault{f.Name, 1, false, "there is nothing here: write a policy, such as {max_attempts: 5}"}
	}
}

// find appends the blocks at a path from a node. walked is the path to that
// node.
func (f *File) find(node *yaml.Node, walked, path []string, blocks *[]Block) {
	node = resolved(node)
	if len(path) == 0 {
		*blocks = append(*blocks, Block{File: f.Name, At: strings.Join(walked, "."), Line: node.Line, node: node})
		return
	}
	for end := len(path); end > 0; end-- { // try the longest key first
		key := strings.Join(path[:end], ".")
		found := false
		for _, e := range entries(node) {
			if e.key == key || key == "*" {
				f.find(e.value, append(slices.Clone(walked), e.key), path[end:], blocks)
				found = true
			}
		}
		if found {
			return
		}
	}
}

// Known reports whether b has a key of a policy, in any dialect.
func (b *Block) Known() bool {
	return slices.ContainsFunc(entries(b.node), func(e entry) bool {
		return slices.ContainsFunc(dialects, func(d dialect) bool { return slices.Contains(d.keys, e.key) })
	})
}

// line returns the line of a key in b, such as backoff.delays[1]. If b does not
// have the key, ok is false and the line is that of the node that would contain
// it.
func (b *Block) line(path string) (line int, ok bool) {
	node, line := b.node, b.Line
	for _, key := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		inner := entries(node)
		i := slices.IndexFunc(inner, func(e entry) bool { return e.key == key })
		if i < 0 {
			return line, false
		}
		node, line = resolved(inner[i].value), inner[i].line
	}
	return line, true
}

// An entry is a key of a mapping, or an index of a sequence, with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries returns the entries of a mapping or a sequence. In a mapping, merged
// keys come last, and only if the mapping does not have them itself.
func entries(node *yaml.Node) (all []entry) {
	if node.Kind == yaml.SequenceNode {
		for i, element := range node.Content {
			all = append(all, entry{strconv.Itoa(i), element.Line, element})
		}
	}
	if node.Kind != yaml.MappingNode {
		return all
	}
	var merged []*yaml.Node
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.ShortTag() != "!!merge":
			all = append(all, entry{key.Value, key.Line, value})
		case resolved(value).Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		default:
			merged = append(merged, value)
		}
	}
	for _, source := range merged {
		for _, e := range entries(resolved(source)) {
			if !slices.ContainsFunc(all, func(own entry) bool { return own.key == e.key }) {
				all = append(all, e)
			}
		}
	}
	return all
}

func resolved(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}
