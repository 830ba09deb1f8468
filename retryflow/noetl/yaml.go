package noetl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// A reader reads a document, and collects what is wrong with it.
type reader struct {
	source retry.Source
	faults []string
	jumps  []key // the labels jumped to
	merged int   // how often << was followed

	// What was read of a node, for the aliases of it: many of one that is long
	// would take long.

	lists     map[*yaml.Node]retryflow.Rules
	templates map[*yaml.Node]compiled
	sets      map[*yaml.Node]func(retryflow.State, retryflow.Outcome) error
}

func newReader(source retry.Source) *reader {
	return &reader{
		source:    source,
		lists:     map[*yaml.Node]retryflow.Rules{},
		templates: map[*yaml.Node]compiled{},
		sets:      map[*yaml.Node]func(retryflow.State, retryflow.Outcome) error{},
	}
}

// compiled is what compileOne returned.
type compiled struct {
	template *template
	err      error
}

// expression reads the text of a node, which is exactly one {{ … }}.
func (r *reader) expression(n *yaml.Node) (*template, error) {
	n = resolve(n)
	c, ok := r.templates[n]
	if !ok {
		c.template, c.err = compileOne(n.Value, r.source)
		r.templates[n] = c
	}
	return c.template, c.err
}

// document returns the root of the one document in data, nil if there is none.
func document(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, yamlError(err)
	}
	if err := decoder.Decode(&more); err == nil {
		return nil, fmt.Errorf("noetl: line %d: a second document: write one", more.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	return resolve(doc.Content[0]), nil
}

func yamlError(err error) error {
	return errors.New("noetl: " + oneLine(strings.TrimPrefix(err.Error(), "yaml: ")))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// err returns what is wrong, nil if nothing is.
func (r *reader) err() error {
	if r.faults == nil {
		return nil
	}
	return errors.New("noetl: " + strings.Join(r.faults, "; "))
}

func (r *reader) fault(line int, format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf("line %d: ", line)+oneLine(fmt.Sprintf(format, args...)))
}

// A mapping is the keys of a mapping in their order, until they are taken.
type mapping struct {
	line  int
	keys  []key
	names map[string]bool // those that were there
}

func (m *mapping) add(k key) {
	m.keys = append(m.keys, k)
	m.names[k.name] = true
}

type key struct {
	name  string
	line  int
	value *yaml.Node
}

// take returns the value of a key, nil if it is not there, and removes it.
func (m *mapping) take(name string) *key {
	for i, k := range m.keys {
		if k.name == name {
			m.keys = append(m.keys[:i], m.keys[i+1:]...)
			return &k
		}
	}
	return nil
}

// mapping reads a mapping. What write says is what to write where it is none.
func (r *reader) mapping(n *yaml.Node, write string) *mapping {
	n = resolve(n)
	m := &mapping{line: n.Line, names: map[string]bool{}}
	if n.Kind != yaml.MappingNode {
		r.fault(n.Line, "it is %s: %s", describe(n), write)
		return m
	}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch {
		case name.Tag == "!!merge":
			merges = append(merges, value)
		case name.Kind != yaml.ScalarNode:
			r.fault(name.Line, "a key is %s: write a name", describe(name))
		case m.names[name.Value]:
			r.fault(name.Line, "%s is there twice", name.Value)
		default:
			m.add(key{name.Value, name.Line, value})
		}
	}
	for _, n := range merges {
		r.merge(m, resolve(n))
	}
	return m
}

// maxMerges bounds how often << is followed: mappings may merge themselves, or
// many that merge many.
const maxMerges = 1000

// merge adds what << says: the keys that m does not have.
func (r *reader) merge(m *mapping, n *yaml.Node) {
	if r.merged++; r.merged > maxMerges {
		if r.merged == maxMerges+1 {
			r.fault(n.Line, "<< is used more than %d times, or merges itself", maxMerges)
		}
		return
	}
	if n.Kind == yaml.SequenceNode {
		for _, n := range n.Content {
			r.merge(m, resolve(n))
		}
		return
	}
	for _, k := range r.mapping(n, "write << with a mapping").keys {
		if !m.names[k.name] {
			m.add(k)
		}
	}
}

// rest reports the keys that nobody took.
func (r *reader) rest(m *mapping, write string) {
	for _, k := range m.keys {
		r.fault(k.line, "unknown key %q: %s", k.name, write)
	}
}

// list returns the entries of a list, which may be null.
func (r *reader) list(n *yaml.Node, write string) []*yaml.Node {
	n = resolve(n)
	switch {
	case isNull(n):
	case n.Kind == yaml.SequenceNode:
		return n.Content
	default:
		r.fault(n.Line, "it is %s: %s", describe(n), write)
	}
	return nil
}

// text returns the text of a key.
func (r *reader) text(k *key, write string) (string, bool) {
	n := resolve(k.value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		r.fault(k.line, "%s is %s: %s", k.name, describe(n), write)
		return "", false
	}
	return n.Value, true
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe says what a node is, for a person.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case isNull(n):
		return "empty"
	case n.Tag == "!!str":
		return fmt.Sprintf("the text %.100q", n.Value)
	default:
		return fmt.Sprintf("%.100s", n.Value)
	}
}
