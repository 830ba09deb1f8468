package policyfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// usualKeys are the keys under which a file usually has its policy, if the file has other settings
// too.
var usualKeys = []string{"retry", "work_config"}

// Find returns the blocks at a path such as services.payments.retry or steps.0.retry. In a path, *
// stands for every key or element, and a key may contain dots. In a file with several documents, a
// path may start with the number of a document, from 1.
//
// If the path is "", Find searches each document in these steps. It stops after the first step that
// finds a block:
//
//  1. the values of the keys retry and work_config that are policies
//  2. the whole document, if it is a policy
//  3. all settings that certainly belong to another system
//  4. the values of the keys retry and work_config, and the whole document, although they are not
//     policies: reading such a block reports what is wrong with it
func (f *File) Find(at string) (blocks []Block) {
	several := len(f.documents) > 1
	for i, document := range f.documents {
		path, number := at, strconv.Itoa(i+1)
		if first, rest, _ := strings.Cut(at, "."); several && isNumber(first) {
			if first != number {
				continue
			}
			path = rest
		} else if several && resolved(document).ShortTag() == "!!null" {
			continue // a --- at the end starts an empty document
		}
		s := search{File: f}
		switch {
		case path == "":
			s.document(document, nil)
		default:
			if s.find(document, nil, "", nil, strings.Split(path, ".")); s.blocks == nil {
				s.usual(document, nil)
				s.blocks = slices.DeleteFunc(s.blocks, func(b Block) bool {
					return b.At != path || b.absent == ""
				})
			}
		}
		for _, b := range s.blocks {
			if several {
				b.At = strings.TrimSuffix(number+"."+b.At, ".")
			}
			blocks = append(blocks, b)
		}
	}
	policies := slices.ContainsFunc(blocks, func(b Block) bool { return isOwn(b.node) })
	for i, b := range blocks { // a key is reported as misspelled only if the file contains a policy
		if whole := b.At == "" || isNumber(b.At); whole && !b.Known() {
			blocks[i].misspelt = policies && b.nearKeys() > 0
		}
	}
	return blocks
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 31)
	return err == nil
}

// Only is [File.Find] for a path that leads to exactly one block. It returns this block, or a fault
// if there is no block or more than one. If the path is "" and the file contains a policy, Only
// ignores the blocks that are not policies. If the path is "" and no block is a policy, Only
// returns the first block.
func (f *File) Only(at string) (Block, *Fault) {
	blocks := f.Find(at)
	known := slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return !b.Known() })
	isAbsent := func(b Block) bool { return b.absent != "" }
	if written := slices.DeleteFunc(slices.Clone(known), isAbsent); len(written) > 0 {
		known = written
	}
	switch {
	case at == "" && len(known) > 0: // ignore the blocks that are not policies
		blocks = known
	case at == "" && len(blocks) > 1: // no block is a policy: reading the first will report this
		blocks = blocks[:1]
	}
	switch {
	case len(blocks) == 1:
		return blocks[0], nil
	case len(blocks) > 1:
		paths := make([]string, min(3, len(blocks)))
		for i := range paths {
			paths[i] = "-at " + blocks[i].At
		}
		if len(blocks) > len(paths) {
			paths[2] = "and so on"
		}
		return Block{}, &Fault{
			File: f.Name,
			Line: blocks[1].Line,
			Code: ambiguous,
			Text: fmt.Sprintf("there are %d policies, and this is the second: choose one with %s",
				len(blocks), strings.Join(paths, ", ")),
		}
	case at != "":
		text := fmt.Sprintf("there is nothing at %s: write the keys that lead to the policy", at)
		return Block{}, &Fault{File: f.Name, Line: 1, Code: NoPolicy, Text: text}
	default:
		const text = "there is nothing here: write a policy, such as {max_attempts: 5}"
		return Block{}, &Fault{File: f.Name, Line: 1, Code: NoPolicy, Text: text}
	}
}

// A search looks for blocks in a file.
type search struct {
	*File
	blocks []Block
	steps  int
}

// mostSteps is the largest number of nodes that a search looks at. Without this limit, a search of
// a few nested anchors could take hours.
const mostSteps = 50_000

func (s *search) add(node *yaml.Node, beside *place, path []string, dialect string) {
	s.blocks = append(s.blocks, Block{
		File:      s.Name,
		At:        strings.Join(path, "."),
		Line:      node.Line,
		node:      node,
		documents: s.documents,
		beside:    beside,
		dialect:   dialect,
	})
}

// The method `document` appends to s.blocks the blocks at the usual places of a document. If none
// of these blocks is certainly a policy, the method also appends the whole document. The parameter
// `path` is the path to the document.
func (s *search) document(document *yaml.Node, path []string) {
	first := len(s.blocks)
	if s.usual(document, path); !slices.ContainsFunc(s.blocks[first:], isKnown) {
		s.find(resolved(document), nil, "", path, nil)
	}
}

// usual finds the blocks at the usual places of a document, and appends them to s.blocks.
func (s *search) usual(document *yaml.Node, path []string) {
	first := len(s.blocks)
	for _, key := range usualKeys {
		s.find(document, nil, "", path, []string{key})
	}
	whole := newPlace(resolved(document), "", nil, nil)
	if slices.ContainsFunc(s.blocks[first:], isKnown) {
		return
	}
	if isOwn(whole.node) {
		s.find(document, nil, "", path, nil)
		return
	}
	if dialect := wholeDialect(whole); dialect != "" {
		s.add(whole.node, nil, path, dialect)
		return
	}
	walk(document, func(below []string, e entry) (done bool) {
		at := func() []string { return slices.Concat(path, below) }
		if e.value.Kind == yaml.DocumentNode {
			n := len(s.blocks)
			s.usual(e.value, at())
			s.blocks = append(s.blocks[:n], slices.DeleteFunc(s.blocks[n:], func(b Block) bool {
				return !b.Known()
			})...)
			return true
		}
		dialect := dialectOf(below, e)
		if dialect == "grpc" && strings.HasSuffix(s.Name, forGenerators) {
			return true
		}
		if dialect != "" {
			s.add(resolved(e.value), e.in, at(), dialect)
			return true
		}
		s.absent(below, e, path)
		return false
	})
}

// absent handles an entry, such as a route of Istio or an exporter of OpenTelemetry, that has no
// settings for retries. If the system of this entry retries by default, `absent` appends to
// s.blocks a block with the default settings.
func (s *search) absent(below []string, e entry, path []string) {
	add := func(line int, in *place, key, settings, dialect, why string) {
		var node yaml.Node
		_ = yaml.Unmarshal([]byte(settings), &node) // settings is a constant and valid YAML
		node.Content[0].Line = line
		s.add(node.Content[0], in, slices.Concat(path, below, []string{key}), dialect)
		s.blocks[len(s.blocks)-1].absent = why
	}
	value := resolved(e.value)
	// lacks returns true if two conditions are met: the entry does not have this key, and settings
	// under this key would be the settings of a dialect.
	lacks := func(key string) bool {
		in := newPlace(value, e.under, e.in, below)
		return value.Kind == yaml.MappingNode && !hasKey(value, key) &&
			dialectOf(append(slices.Clone(below), key),
				entry{key: key, value: emptyMapping, under: key, in: in}) != ""
	}
	name, _, _ := strings.Cut(e.key, "/")
	switch {
	case e.under == "http" && hasKey(value, "route") && lacks("retries"):
		add(value.Line, newPlace(value, e.under, e.in, below), "retries", "{attempts: 2}", "istio",
			"retries: it is left out, and Istio retries twice, on "+istioDefault)
	case e.in != nil && e.in.key == "exporters" &&
		e.in.up.hasKeys("service|receivers|processors", exactly) &&
		slices.Contains(defaultExporters, name) && !hasKey(value, "retry_on_failure") && !e.in.inSchema():
		if value.Kind != yaml.MappingNode {
			value = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: e.line}
		}
		add(e.line, newPlace(value, e.key, e.in, below), "retry_on_failure", "{}", "otel",
			"retry_on_failure: it is left out, and this exporter retries by default")
	}
}

// find follows the parameter `path` from a node, and appends to s.blocks the blocks to which the
// path leads. The parameter `walked` is the path from the document to the node. The parameter
// `beside` is the innermost mapping around the node. The parameter `under` is the key in this
// mapping whose value is the node, or is a list that contains the node.
func (s *search) find(node *yaml.Node, beside *place, under string, walked, path []string) {
	inner := node.Kind == yaml.DocumentNode
	if node = resolved(node); inner {
		if beside, under = nil, ""; len(path) == 0 {
			s.document(node, walked)
			return
		}
	}
	if s.steps++; s.steps > mostSteps {
		if n := len(s.blocks); n == 0 || s.blocks[n-1].broken == "" {
			s.add(node, beside, walked, "")
			s.blocks[n].broken = "this path leads to too many places: write fewer *"
		}
		return
	}
	isList := node.Kind == yaml.SequenceNode && len(node.Content) > 0
	if len(path) == 0 && isList && hasKey(node.Content[0], "ErrorEquals") {
		path = []string{"*"} // each retrier is a block, because it counts its own attempts
	}
	if len(path) == 0 {
		s.add(node, beside, walked, dialectAt(walked, entry{value: node, under: under, in: beside}))
		return
	}
	in := beside
	if node.Kind == yaml.MappingNode {
		in = newPlace(node, under, beside, walked)
	}
	longest := 1 // the largest number of parts of the path that one key can match
	for e := range eachEntry(node) {
		longest = max(longest, strings.Count(e.key, ".")+1)
	}
	for end := min(longest, len(path)); end > 0; end-- { // try the longest key first
		key := strings.Join(path[:end], ".")
		found := false
		for e := range eachEntry(node) {
			if e.key == key || key == "*" {
				if node.Kind == yaml.MappingNode {
					under = e.key
				}
				s.find(e.value, in, under, append(slices.Clone(walked), e.key), path[end:])
				found = true
			}
		}
		if found {
			return
		}
	}
}
