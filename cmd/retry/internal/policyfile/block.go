package policyfile

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Block is a part of a file that contains a policy, or that should contain a policy.
type Block struct {
	File string
	At   string // the path to the block, such as jobs.0.retry; "" if the block is the whole file
	Line int

	Notes  []string // set by Read: a text for each setting that a policy cannot express
	Bounds          // set by Read

	node      *yaml.Node
	documents []*yaml.Node    // the documents of the file
	original  *yaml.Node      // the node in the file; node has defaults in place of templates
	beside    *place          // the mapping around the block; nil if there is none
	dialect   string          // the dialect that the block's place in the file shows; "" if none
	broken    string          // why the block cannot be read; "" if it can be read
	absent    string          // the default that applies if the file lacks the block; otherwise ""
	misspelt  bool            // a key is probably misspelled, and other documents are policies
	warnings  []warning       // set by Read
	lines     map[string]int  // set by Read: the lines of the settings next to the block
	templates map[string]bool // set by Read: the keys whose values are unknown templates
	unnoted   []string        // during Read: the keys whose templates need no note
	terms     *terms          // set by Read: the keys that limit retries; nil for the native form
}

// usualKeys are the keys under which a larger file usually has a policy.
var usualKeys = []string{"retry", "work_config"}

// Find returns the blocks at a path such as services.payments.retry or steps.0.retry. In a path, *
// stands for every key or element, and a key may contain dots. In a file with several documents, a
// path may start with the number of a document, from 1.
//
// If the path is "", Find looks in each document for these blocks, and returns the first kind that
// it finds:
//
//   - the values of the keys retry and work_config that are policies
//   - the whole document, if it is a policy
//   - all settings that certainly belong to another system
//   - the values of the keys retry and work_config, and the whole document
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
	for i, b := range blocks { // look for misspelled keys in a file that also has policies
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

// Only returns the only block at a path, which is a path as in [File.Find]. It returns a fault if
// there is no block or more than one.
func (f *File) Only(at string) (Block, *Fault) {
	blocks := f.Find(at)
	known := slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return !b.Known() })
	isAbsent := func(b Block) bool { return b.absent != "" }
	if written := slices.DeleteFunc(slices.Clone(known), isAbsent); len(written) > 0 {
		known = written
	}
	switch {
	case at == "" && len(known) > 0: // the other documents are not policies
		blocks = known
	case at == "" && len(blocks) > 1: // no block is a policy: reading the first one will report that
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

// mostSteps is the largest number of steps of a search. Without this limit, a few anchors inside
// each other could keep a search busy for hours.
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

// forGenerators is the end of the names of files that generators of gRPC clients read. Such a file
// looks like a service config, but needs no maxAttempts and may have an empty list of codes.
const forGenerators = "_grpc_service_config.json"

// document appends the blocks at the usual places of a document. If none of them is certainly a
// policy, it also appends the whole document. path is the path to the document.
func (s *search) document(document *yaml.Node, path []string) {
	first := len(s.blocks)
	if s.usual(document, path); !slices.ContainsFunc(s.blocks[first:], isKnown) {
		s.find(resolved(document), nil, "", path, nil)
	}
}

// usual appends the blocks of a document at the usual places.
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

// dialectAt returns the dialect of the node e at a path that the user wrote. If the document does
// not show the dialect, the keys may show it. The dialect must have settings under the key of e,
// and the node must have a key that is typical of the dialect. dialectAt returns "" if there is no
// such dialect, or more than one.
func dialectAt(path []string, e entry) (dialect string) {
	node := e.value
	if node.Kind != yaml.MappingNode || len(e.under) > longestKey || len(byKey[fold(e.under)]) == 0 {
		return ""
	}
	root := e.in.outermost()
	if dialect = dialectOf(path, e); dialect != "" || root != nil && root.resource {
		return dialect
	}
	for _, d := range dialects {
		if d.format == nil || !d.format.hasPlaceUnder(e.under) {
			continue
		}
		native := len(node.Content) > 0 && (&Block{node: node}).writtenAsNative()
		if d.format.certain && !native || d.shows(node) ||
			d.name == "istio" && (hasKey(node, "attempts") || len(node.Content) == 0) {
			if dialect != "" {
				return ""
			}
			dialect = d.name
		}
	}
	return dialect
}

// absent appends a block for settings that an entry lacks, if the system of the entry retries by
// default.
func (s *search) absent(below []string, e entry, path []string) {
	add := func(line int, in *place, key, settings, dialect, why string) {
		var node yaml.Node
		_ = yaml.Unmarshal([]byte(settings), &node) // settings is a constant and valid YAML
		node.Content[0].Line = line
		s.add(node.Content[0], in, slices.Concat(path, below, []string{key}), dialect)
		s.blocks[len(s.blocks)-1].absent = why
	}
	value := resolved(e.value)
	shown := func(key string) bool { // whether a block at this key would belong to a system
		in := newPlace(value, e.under, e.in, below)
		return value.Kind == yaml.MappingNode && !hasKey(value, key) &&
			dialectOf(append(slices.Clone(below), key),
				entry{key: key, value: emptyMapping, under: key, in: in}) != ""
	}
	name, _, _ := strings.Cut(e.key, "/")
	switch {
	case e.under == "http" && hasKey(value, "route") && shown("retries"):
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

var emptyMapping = &yaml.Node{Kind: yaml.MappingNode}

var defaultExporters = []string{"otlp", "otlp_grpc", "otlphttp", "otlp_http"}

// find follows path from a node, and appends the blocks to which the path leads. walked is the path
// from the document to the node. beside is the mapping around the node. under is the key of this
// mapping that contains the node, directly or in lists.
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

func hasKey(node *yaml.Node, key string) bool {
	return anyEntry(resolved(node), func(e entry) bool { return e.key == key })
}

// walk calls visit once for every entry below a node. If visit returns true for an entry, walk
// skips the entries below this entry. The slice path is valid only until visit returns.
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

// deepest is the largest number of keys in the path to a block that is found without a path of the
// user.
const deepest = 100

// Known reports whether b is certainly a policy. Such a block is in the native form, in a dialect
// of the library, or in the place where a document of another system has its settings.
func (b *Block) Known() bool { return b.dialect != "" || b.misspelt || isOwn(b.node) }

func isKnown(b Block) bool { return b.Known() }

// hasMark reports whether b has a key that is typical of a dialect. Such a block may still be
// something other than a policy.
func (b *Block) hasMark() bool {
	return slices.ContainsFunc(dialects, func(d dialect) bool { return d.shows(b.node) })
}

// Excerpt returns the lines of b in the text of its file. It also returns the n lines before b and
// the n lines after b, or fewer if the text has fewer.
func (b *Block) Excerpt(text string, n int) (before, block, after string) {
	last := b.Line
	walk(b.node, func(_ []string, e entry) bool {
		value := resolved(e.value)
		last = max(last, e.line+strings.Count(value.Value, "\n"))
		return false
	})
	lines := strings.SplitAfter(text, "\n")
	first, end := min(b.Line-1, len(lines)), min(last, len(lines))
	part := func(from, to int) string {
		return strings.Join(lines[max(0, from):min(to, len(lines))], "")
	}
	return part(first-n, first), part(first, end), part(end, end+n)
}

// nearKeys returns how many keys of b look like a misspelled key of a policy.
func (b *Block) nearKeys() (n int) {
	if b.node.Kind != yaml.MappingNode || len(b.node.Content) > 2*mostKeys {
		return 0
	}
	for e := range eachEntry(b.node) {
		if isNear(e.key) {
			n++
		}
	}
	return n
}

// isNear reports whether a key looks like a misspelled key of a policy.
func isNear(key string) bool {
	native := dialects[0]
	return !native.accepts(native.keys, key) && nearest(key, native.keys) != ""
}

// isOwn reports whether a mapping is in the native form or in a dialect of the library. In such a
// mapping, all keys are keys of the same form, and keys of the native form may be misspelled. A
// mapping with a backoff of the native form also counts.
func isOwn(node *yaml.Node) bool {
	if node.Kind != yaml.MappingNode || len(node.Content) > 2*mostKeys {
		return false
	}
	all := entries(node)
	if len(all) == 0 || len(all) > mostKeys {
		return false
	}
	return slices.ContainsFunc(dialects, func(d dialect) bool {
		return d.format == nil && !slices.ContainsFunc(all, func(e entry) bool {
			misspelt := d.name == Native && !strings.ContainsFunc(e.key, isForeign) && isNear(e.key)
			return !d.accepts(d.keys, e.key) && !misspelt
		})
	}) || slices.ContainsFunc(all, func(e entry) bool {
		return e.key == "backoff" && isBackoff(resolved(e.value))
	})
}

// isForeign reports whether the character r is in no key of a policy.
func isForeign(r rune) bool { return r != '_' && !('a' <= r && r <= 'z') }

// isBackoff reports whether a mapping is a backoff of the native form.
func isBackoff(node *yaml.Node) bool {
	in := &place{node: node}
	kind, _ := in.get(exactly, "type")
	curves := []string{"fixed", "linear", "exponential", "fibonacci", "schedule"}
	return slices.Contains(curves, text(kind.value)) && in.hasKeys("base|delays", exactly)
}

// line returns the line of a key in b, such as backoff.delays[1]. If b does not have the key, ok is
// false, and line returns the line of the node that should contain the key.
func (b *Block) line(path string) (line int, ok bool) {
	node, line := b.node, b.Line
	separates := func(r rune) bool { return strings.ContainsRune(".[]", r) }
	for _, key := range strings.FieldsFunc(path, separates) {
		e, ok := firstEntry(node, func(e entry) bool {
			return e.key == key || snake(e.key) == snake(key)
		})
		if !ok {
			e, ok = firstEntry(node, func(e entry) bool { return strings.EqualFold(e.key, key) })
		}
		if !ok {
			return line, false
		}
		node, line = resolved(e.value), e.line
	}
	return line, true
}

// An entry is a key of a mapping, or an index of a sequence, with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node
	under string // set by walk: key itself; in a list, the key that contains the list
	in    *place // set by walk: the mapping that has this key
}

// entries returns the entries of a mapping or a sequence. In a mapping, the keys that << merges
// come last. A merged key is left out if the mapping has the same key itself.
func entries(node *yaml.Node) []entry { return slices.Collect(eachEntry(node)) }

// eachEntry yields the entries that the function entries returns. It makes no list of them, because
// such a list could need as much memory as all nodes of the file.
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

// firstEntry returns the first entry of a mapping or a sequence for which fits returns true.
func firstEntry(node *yaml.Node, fits func(entry) bool) (e entry, ok bool) {
	for e := range eachEntry(node) {
		if fits(e) {
			return e, true
		}
	}
	return entry{}, false
}

// anyEntry reports whether fits returns true for at least one entry of a mapping or a sequence.
func anyEntry(node *yaml.Node, fits func(entry) bool) bool {
	_, ok := firstEntry(node, fits)
	return ok
}

// eachKey yields the entries of a mapping.
func eachKey(node *yaml.Node, yield func(entry) bool) {
	var sources []*yaml.Node // of merged keys
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

// resolved returns the node for which an alias stands, or the root node of a document. It returns
// any other node unchanged.
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
