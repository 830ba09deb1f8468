package noetl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry/retryflow"
)

// A reader reads a document and collects its faults.
type reader struct {
	file   string // the name of the file in errors; "" if there is no name
	source func() uint64
	faults []string
	jumps  map[string]place    // for each label: the place of the first jump to it in the current tool
	seen   map[*yaml.Node]bool // nodes that were read as rules, or searched for stray rules

	// The next fields cache results, because a node is read again for each of its aliases.

	lists     map[*yaml.Node]retryflow.Rules
	sets      map[*yaml.Node]map[string]any
	templates map[string]compiled
}

func newReader(file string, source func() uint64) *reader {
	return &reader{
		file: file, source: source, jumps: map[string]place{}, seen: map[*yaml.Node]bool{},
		lists: map[*yaml.Node]retryflow.Rules{}, sets: map[*yaml.Node]map[string]any{},
		templates: map[string]compiled{},
	}
}

// document returns the root of the only YAML document in its parameter `data`. It returns nil if
// there is no document.
func (r *reader) document(data []byte) (*yaml.Node, error) {
	if len(data) > maxDocument {
		r.fault(place{line: 1}, "the document has %d bytes: write at most %d", len(data), maxDocument)
		return nil, r.err()
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, r.yamlError(err)
	}
	if err := decoder.Decode(&more); err == nil {
		r.fault(place{line: more.Line}, "a second document: write one")
		return nil, r.err()
	} else if !errors.Is(err, io.EOF) {
		return nil, r.yamlError(err)
	}
	root := resolve(doc.Content[0])
	if isNull(root) {
		return nil, nil
	}
	sizes := map[*yaml.Node]int{}
	if all := r.size(root, sizes); all-len(sizes)-len(data)/32 > maxAliased {
		r.fault(place{line: root.Line}, "the aliases stand for more than %d values", maxAliased)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return root, nil
}

// These are the limits of a document. maxAliased is needed because a value is read again for each
// of its aliases. maxKey is needed because the path of a fault repeats all keys above the fault.
const (
	maxDocument = 1 << 20 // the largest number of bytes in a document

	// maxAliased is the largest number of values to which aliases refer. Each 64 bytes of a text count
	// as one more value.
	maxAliased = 50_000

	maxKey    = 1024 // the largest number of bytes in a key, as in YAML for keys without a ?
	maxFaults = 20
)

// size returns the number of values in a node, including the values to which aliases in the node
// refer. The parameter `sizes` contains the sizes of the nodes that have been counted. The size of
// a node that is being counted is 0.
func (r *reader) size(n *yaml.Node, sizes map[*yaml.Node]int) int {
	n = resolve(n)
	size, counted := sizes[n]
	switch {
	case counted && size == 0:
		r.fault(place{line: n.Line}, "an alias refers to a value that contains itself")
		fallthrough
	case counted:
		return size
	}
	sizes[n], size = 0, 1+len(n.Value)/64
	for _, part := range n.Content {
		size = min(size+r.size(part, sizes), math.MaxInt32/2)
	}
	sizes[n] = size
	return size
}

// yamlError converts an error of package yaml to the form of the other errors, which begins with
// the file and the line.
func (r *reader) yamlError(err error) error {
	text := oneLine(strings.TrimPrefix(err.Error(), "yaml: "))
	if line, ok := strings.CutPrefix(text, "line "); ok && r.file != "" {
		text = r.file + ":" + line
	} else if r.file != "" {
		text = r.file + ": " + text
	}
	return errors.New("noetl: " + text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// err returns the faults as an error, or nil if there is no fault.
func (r *reader) err() error {
	if r.faults == nil {
		return nil
	}
	return errors.New("noetl: " + strings.Join(r.faults, "; "))
}

// A place is a position in a document.
type place struct {
	line int
	path string // such as workflow[2].tool.eval[0]; "" for the root
}

func (p place) at(line int) place       { return place{line, p.path} }
func (p place) entry(i, line int) place { return place{line, fmt.Sprintf("%s[%d]", p.path, i)} }

func (p place) under(key string) string {
	if p.path == "" {
		return key
	}
	return p.path + "." + key
}

func (r *reader) fault(at place, format string, args ...any) {
	if len(r.faults) == maxFaults {
		return
	}
	where := fmt.Sprintf("line %d: ", at.line)
	if r.file != "" {
		where = fmt.Sprintf("%s:%d: ", r.file, at.line)
	}
	if at.path != "" {
		where += at.path + ": "
	}
	r.faults = append(r.faults, where+oneLine(fmt.Sprintf(format, args...)))
}

// A mapping holds the keys of a YAML mapping that have not been taken yet, in their order.
type mapping struct {
	place
	keys  []key
	names map[string]bool // the names of all keys, taken or not
}

func (m *mapping) add(k key) {
	m.keys = append(m.keys, k)
	m.names[k.name] = true
}

// A key is a key of a mapping, with its value. Its place has the line of the key and the path of
// the mapping.
type key struct {
	place
	name  string
	value *yaml.Node
}

// inside returns the place of the value that belongs to the key k: the line of the value, and the
// path that ends with the name of k.
func (k *key) inside() place { return place{resolve(k.value).Line, k.under(k.name)} }

// take removes the key with this name from m and returns it. It returns nil if m lacks the key.
func (m *mapping) take(name string) *key {
	for i, k := range m.keys {
		if k.name == name {
			m.keys = append(m.keys[:i], m.keys[i+1:]...)
			return &k
		}
	}
	return nil
}

// get returns the key with this name and leaves it in m. It returns nil if m lacks the key.
func (m *mapping) get(name string) *key {
	for _, k := range m.keys {
		if k.name == name {
			return &k
		}
	}
	return nil
}

// mapping reads the keys of a mapping. It adds a fault if the node n is not a mapping. The
// parameter `write` is the advice in the text of this fault.
func (r *reader) mapping(n *yaml.Node, at place, write string) *mapping {
	n = resolve(n)
	m := &mapping{place: at.at(n.Line), names: map[string]bool{}}
	if n.Kind != yaml.MappingNode {
		r.fault(m.place, "got %s: %s", describe(n), write)
		return m
	}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch {
		case name.Tag == "!!merge":
			merges = append(merges, value)
		case name.Kind != yaml.ScalarNode:
			r.fault(at.at(name.Line), "a key is %s: write a name", describe(name))
		case len(name.Value) > maxKey:
			r.fault(at.at(name.Line), "a key has %d bytes: write at most %d", len(name.Value), maxKey)
		case m.names[name.Value]:
			r.fault(at.at(name.Line), "duplicate key %q", name.Value)
		default:
			m.add(key{at.at(name.Line), name.Value, value})
		}
	}
	for _, n := range merges {
		r.merge(m, resolve(n))
	}
	return m
}

// merge adds the keys of the node n to the mapping m, except the keys that m has already. The node
// n is the value of a << key.
func (r *reader) merge(m *mapping, n *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		for _, n := range n.Content {
			r.merge(m, resolve(n))
		}
		return
	}
	for _, k := range r.mapping(n, m.place, "write << with a mapping").keys {
		if !m.names[k.name] {
			m.add(k)
		}
	}
}

// member returns the key with this name in the mapping that is the value of the key k. It returns
// nil if the value is not a mapping, or lacks the key with this name.
func (r *reader) member(k *key, name string) *key {
	if k == nil || resolve(k.value).Kind != yaml.MappingNode {
		return nil
	}
	return r.mapping(k.value, k.inside(), "").get(name)
}

// rejectRest adds a fault for each key that has not been taken.
func (r *reader) rejectRest(m *mapping, write string) {
	for _, k := range m.keys {
		r.fault(k.place, "unknown key %q: %s", k.name, write)
	}
}

// list returns the entries of a list. A null counts as an empty list.
func (r *reader) list(n *yaml.Node, at place, write string) []*yaml.Node {
	n = resolve(n)
	switch {
	case isNull(n):
	case n.Kind == yaml.SequenceNode:
		return n.Content
	default:
		r.fault(at.at(n.Line), "got %s: %s", describe(n), write)
	}
	return nil
}

// text returns the value of a key, which must be a text.
func (r *reader) text(k *key, write string) (string, bool) {
	n := resolve(k.value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		r.fault(k.place, "%s is %s: %s", k.name, describe(n), write)
		return "", false
	}
	return n.Value, true
}

// child returns the value of the key with this name. It ignores the difference between upper and
// lower case. It returns nil if n is not a mapping or lacks the key.
func child(n *yaml.Node, name string) *yaml.Node {
	if n != nil && resolve(n).Kind == yaml.MappingNode {
		for i, key := range resolve(n).Content {
			if i%2 == 0 && strings.EqualFold(key.Value, name) {
				return resolve(n).Content[i+1]
			}
		}
	}
	return nil
}

// resolve returns the node to which an alias refers. It returns any other node unchanged.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func isText(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!str" }

// describe describes a node for an error.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case isNull(n):
		return "null"
	case n.Tag == "!!str":
		return fmt.Sprintf("the text %.100q", n.Value)
	default:
		return fmt.Sprintf("%.100s", n.Value)
	}
}
