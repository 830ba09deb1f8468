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
	At   string // the path to the block, as Find takes it; "" for a whole file
	Line int

	Notes  []string // set by Read: what the settings say that a policy does not, each with its key
	Bounds          // set by Read

	node      *yaml.Node
	documents []*yaml.Node    // of the file
	original  *yaml.Node      // in the file, while b has what stands for its expansions
	beside    *place          // the mapping that has the block under a key; nil: none
	dialect   string          // of its place in the file; "" if that does not say
	broken    string          // why it cannot be read
	absent    string          // why it is not in the file, and what applies
	misspelt  bool            // it is where policies are, and a key is nearly one of a policy
	warnings  []warning       // set by Read
	lines     map[string]int  // set by Read: of what is beside it
	templates map[string]bool // set by Read: the keys whose values are not known here
	unnoted   []string        // while it is read: the keys whose expansions are not noted
}

// usualKeys are the keys under which larger files have policies.
var usualKeys = []string{"retry", "work_config"}

// Find returns the blocks at a path such as services.payments.retry or
// steps.0.retry. In a path, * stands for every key or element, and a key may
// contain dots. In a file with several documents, a path may begin with the
// number of one, from 1. Without a path, a block is the value of retry or
// work_config in a document, or else the whole document if it has a key of a
// policy, or else every value at a place where another system has settings for
// retries, or else the whole document.
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
			continue // nothing stands below a --- at the end
		}
		s := search{File: f}
		if path != "" {
			if s.find(document, nil, "", nil, strings.Split(path, ".")); s.blocks == nil {
				s.absent(document)
				s.blocks = slices.DeleteFunc(s.blocks, func(b Block) bool { return b.At != path })
			}
		} else {
			s.usual(document)
		}
		for _, b := range s.blocks {
			if several {
				b.At = strings.TrimSuffix(number+"."+b.At, ".")
			}
			blocks = append(blocks, b)
		}
	}
	native := dialects[0]
	policies := slices.ContainsFunc(blocks, func(b Block) bool { return native.shows(b.node) })
	for i, b := range blocks { // a document beside policies, or whose keys are all nearly those of one
		if whole := b.At == "" || isNumber(b.At); whole && !b.Known() {
			blocks[i].misspelt = b.near() > 0 && (policies || b.near() == b.unknown(native))
		}
	}
	return blocks
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 31)
	return err == nil
}

// Only returns the only block at a path; see [File.Find].
func (f *File) Only(at string) (Block, *Fault) {
	blocks := f.Find(at)
	known := slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return !b.Known() })
	if written := slices.DeleteFunc(slices.Clone(known), func(b Block) bool { return b.absent != "" }); len(written) > 0 {
		known = written
	}
	switch {
	case at == "" && len(known) > 0: // other documents are something else
		blocks = known
	case at == "" && len(blocks) > 1: // none is a policy, which the first one says
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
		return Block{}, &Fault{File: f.Name, Line: blocks[1].Line, Code: ambiguous, Text: fmt.Sprintf("there are %d policies, and this is the second: choose one with %s", len(blocks), strings.Join(paths, ", "))}
	case at != "":
		return Block{}, &Fault{File: f.Name, Line: 1, Code: NoPolicy, Text: fmt.Sprintf("there is nothing at %s: name the keys that lead to the policy", at)}
	default:
		return Block{}, &Fault{File: f.Name, Line: 1, Code: NoPolicy, Text: "there is nothing here: write a policy, such as {max_attempts: 5}"}
	}
}

// A search is a search for blocks.
type search struct {
	*File
	blocks []Block
	steps  int
}

// mostSteps bounds a search: a few anchors inside each other stand for more nodes
// than anybody could wait for.
const mostSteps = 50_000

func (s *search) add(node *yaml.Node, beside *place, path []string, dialect string) {
	s.blocks = append(s.blocks, Block{
		File: s.Name, At: strings.Join(path, "."), Line: node.Line, node: node, documents: s.documents, beside: beside, dialect: dialect,
	})
}

// usual appends the blocks of a document at the usual places.
func (s *search) usual(document *yaml.Node) {
	for _, key := range usualKeys {
		s.find(document, nil, "", nil, []string{key})
	}
	for i := range s.blocks {
		s.blocks[i].misspelt = s.blocks[i].near() > 0
	}
	whole := Block{node: resolved(document)}
	if s.blocks == nil && !whole.Known() {
		walk(whole.node, func(path []string, e entry) bool {
			dialect, found := placed(e.under, e.in, resolved(e.value))
			if found = found && !whole.hasUnread(); found {
				s.add(resolved(e.value), e.in, path, dialect)
			}
			return found
		})
		s.absent(document)
	}
	if s.blocks == nil {
		s.find(document, nil, "", nil, nil)
	}
}

// placed reports whether a node has the settings of another system, at a place where
// whole files have them: under a key, in lists or at once. The dialect is "" if it may
// be one of several.
func placed(under string, beside *place, node *yaml.Node) (dialect string, found bool) {
	for _, d := range dialects {
		if node.Kind != yaml.MappingNode || d.format == nil || !slices.Contains(d.format.places, under) {
			continue
		}
		own := Block{node: node}
		native := len(node.Content) > 0 && own.writtenAsNative()
		if d.format.certain && !native || d.shows(node) || d.name == "istio" && (hasKey(node, "attempts") || len(node.Content) == 0) ||
			d.name == "httproute" && inHTTPRoute(beside) {
			if dialect = d.name; found {
				return "", true
			}
			found = true
		}
	}
	return dialect, found
}

// inHTTPRoute reports whether a mapping is a rule of an HTTPRoute.
func inHTTPRoute(p *place) bool {
	return p != nil && slices.ContainsFunc([]string{"backendRefs", "matches", "timeouts"}, func(key string) bool { return hasKey(p.node, key) })
}

// absent appends the blocks that a document leaves out where its system retries anyway.
func (s *search) absent(document *yaml.Node) {
	root := &place{node: resolved(document)}
	add := func(path []string, line int, in *place, key, settings, dialect, why string) {
		var node yaml.Node
		_ = yaml.Unmarshal([]byte(settings), &node) // which is a constant
		node.Content[0].Line = line
		s.add(node.Content[0], in, append(slices.Clone(path), key), dialect)
		s.blocks[len(s.blocks)-1].absent = why
	}
	kind, _ := root.get(exactly, "kind")
	walk(root.node, func(path []string, e entry) bool {
		value := resolved(e.value)
		name, _, _ := strings.Cut(e.key, "/")
		switch {
		case kind.value != nil && kind.value.Value == "VirtualService" && e.under == "http" && hasKey(value, "route") && !hasKey(value, "retries"):
			add(path, value.Line, &place{value, e.under, e.in}, "retries", "{attempts: 2}", "istio",
				"retries: it is left out, and Istio retries twice, on "+istioDefault)
		case e.in != nil && e.in.key == "exporters" && slices.Contains(defaultExporters, name) && !hasKey(value, "retry_on_failure"):
			if value.Kind != yaml.MappingNode {
				value = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: e.line}
			}
			add(path, e.line, &place{value, e.key, e.in}, "retry_on_failure", "{}", "otel", "retry_on_failure: it is left out, and this exporter retries by default")
		default:
			return false
		}
		return true
	})
}

var defaultExporters = []string{"otlp", "otlp_grpc", "otlphttp", "otlp_http"}

// find appends the blocks at a path from a node. walked is the path to that
// node, which stands under a key of beside, in lists or at once.
func (s *search) find(node *yaml.Node, beside *place, under string, walked, path []string) {
	node = resolved(node)
	if s.steps++; s.steps > mostSteps {
		if n := len(s.blocks); n == 0 || s.blocks[n-1].broken == "" {
			s.add(node, beside, walked, "")
			s.blocks[n].broken = "this path leads to more places than can be looked at: write fewer *"
		}
		return
	}
	inner := entries(node)
	if len(path) == 0 && len(inner) > 0 && node.Kind == yaml.SequenceNode && hasKey(inner[0].value, "ErrorEquals") {
		path = []string{"*"} // each element has a count of its own
	}
	if len(path) == 0 {
		dialect, _ := placed(under, beside, node)
		s.add(node, beside, walked, dialect)
		return
	}
	in := beside
	if node.Kind == yaml.MappingNode {
		in = &place{node, under, beside}
	}
	for end := len(path); end > 0; end-- { // try the longest key first
		key := strings.Join(path[:end], ".")
		found := false
		for _, e := range inner {
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
	return slices.ContainsFunc(entries(resolved(node)), func(e entry) bool { return e.key == key })
}

// walk calls visit for every entry below a node, once, but not for those below one
// for which visit returns true. path is only valid during the call.
func walk(node *yaml.Node, visit func(path []string, e entry) (done bool)) {
	seen := map[*yaml.Node]bool{}
	var below func(node *yaml.Node, in *place, path []string, under string)
	below = func(node *yaml.Node, in *place, path []string, under string) {
		if node = resolved(node); seen[node] || len(path) > deepest {
			return
		}
		seen[node] = true
		if node.Kind == yaml.MappingNode {
			in = &place{node, under, in}
		}
		for _, e := range entries(node) {
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

// deepest is how deep in a file settings are looked for without a path.
const deepest = 100

// Known reports whether b has a key of a policy in the library's own form or a
// form of its family, or one that only another system has, or is at a place where
// another system has its settings.
func (b *Block) Known() bool {
	return b.dialect != "" || b.misspelt || slices.ContainsFunc(dialects, func(d dialect) bool { return d.shows(b.node) })
}

// Excerpt returns the part of a file that is b, and as many lines before and after it as
// around says.
func (b *Block) Excerpt(text string, around int) (before, block, after string) {
	last := b.Line
	walk(b.node, func(_ []string, e entry) bool {
		value := resolved(e.value)
		last = max(last, e.line+strings.Count(value.Value, "\n"))
		return false
	})
	lines := strings.SplitAfter(text, "\n")
	first, end := min(b.Line-1, len(lines)), min(last, len(lines))
	part := func(from, to int) string { return strings.Join(lines[max(0, from):min(to, len(lines))], "") }
	return part(first-around, first), part(first, end), part(end, end+around)
}

// near returns how many keys of b are nearly one of a policy.
func (b *Block) near() (n int) {
	if b.node.Kind != yaml.MappingNode || len(b.node.Content) > 2*mostKeys {
		return 0
	}
	native := dialects[0]
	for _, e := range entries(b.node) {
		if !native.has(native.keys, e.key) && nearest(e.key, native.keys) != "" {
			n++
		}
	}
	return n
}

// line returns the line of a key in b, such as backoff.delays[1]. If b does not
// have the key, ok is false and the line is where the node that would contain it
// stands.
func (b *Block) line(path string) (line int, ok bool) {
	node, line := b.node, b.Line
	for _, key := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		inner := entries(node)
		i := slices.IndexFunc(inner, func(e entry) bool { return e.key == key || snake(e.key) == snake(key) })
		if i < 0 {
			i = slices.IndexFunc(inner, func(e entry) bool { return strings.EqualFold(e.key, key) })
		}
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
	under string // set by walk: the key of a mapping that it is under, in lists or at once
	in    *place // set by walk: that mapping
}

// entries returns the entries of a mapping or a sequence. In a mapping, merged
// keys come last, and only if the mapping does not have them itself.
func entries(node *yaml.Node) (all []entry) {
	if node.Kind == yaml.SequenceNode {
		for i, element := range node.Content {
			all = append(all, entry{key: strconv.Itoa(i), line: element.Line, value: element})
		}
	}
	if node.Kind != yaml.MappingNode {
		return all
	}
	var merged []*yaml.Node
	own := map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.ShortTag() != "!!merge":
			own[key.Value] = true
			all = append(all, entry{key: key.Value, line: key.Line, value: value})
		case resolved(value).Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		default:
			merged = append(merged, value)
		}
	}
	for _, source := range merged {
		for _, e := range entries(resolved(source)) {
			if !own[e.key] {
				own[e.key] = true
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
