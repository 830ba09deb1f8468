// Package policyfile finds retry policies in YAML and JSON files. It reads policies in the native
// form of the library, in its dialects and in the settings of other systems, and finds the line of
// each fault.
package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A File is a file that has been parsed.
type File struct {
	Name string

	documents []*yaml.Node
	nodes     int // the number of nodes in all documents
	steps     int // the number of nodes that check has looked at
	merged    int // the number of keys that << merges
}

// Parse parses a file. It expects JSON if the name ends in .json. It also expects JSON if the data
// is valid JSON, unless the name ends in .yaml or .yml. Otherwise it expects YAML. The error is a
// *Fault.
func Parse(name string, data []byte) (*File, error) {
	f := &File{Name: name}
	var fault *Fault
	switch ext := filepath.Ext(name); {
	case ext == ".json", ext != ".yaml" && ext != ".yml" && json.Valid(data):
		f.documents, fault = f.parseJSON(data)
	default:
		f.documents, fault = f.parseYAML(data)
	}
	if fault != nil {
		return nil, fault
	}
	for _, document := range f.documents {
		if fault := f.check(document, map[*yaml.Node]int{}); fault != nil {
			return nil, fault
		}
	}
	for _, document := range f.documents {
		f.parseTexts(document)
	}
	return f, nil
}

// MayHold reports whether a text that does not parse was probably meant to contain a policy. Such a
// text has a key of a policy and is not a template.
func MayHold(data []byte) bool { return ownKey.Match(data) && !template.Match(data) }

var (
	ownKey   = regexp.MustCompile(`(?m)(^|")(retry|work_config|max_attempts|max_retries)"?[ \t]*:`)
	template = regexp.MustCompile(`\{\{|\{%|<%`)
)

func (f *File) parseYAML(data []byte) (documents []*yaml.Node, fault *Fault) {
	if n, line := countStarts(data, mostStarts); n > mostStarts {
		text := fmt.Sprintf("up to this line, the file has more than %d places where a key or a value "+
			"may begin", mostStarts)
		return nil, &Fault{File: f.Name, Line: line, Code: unreadable, Text: text}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		document := new(yaml.Node)
		switch err := dec.Decode(document); {
		case err == io.EOF:
			return documents, nil
		case err != nil:
			line, text := splitYAML(err)
			return nil, &Fault{File: f.Name, Line: line, Code: unreadable, Text: text}
		}
		if f.count(document); f.nodes > mostFileNodes {
			return nil, &Fault{File: f.Name, Line: document.Line, Code: unreadable, Text: tooMany}
		}
		documents = append(documents, document.Content[0])
	}
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

// parseTexts parses the texts in a resource of Kubernetes that are documents themselves, such as
// the configuration of a collector in a ConfigMap. It replaces the node of each such text by a
// document node.
func (f *File) parseTexts(resource *yaml.Node) {
	in := &place{node: resolved(resource)}
	kind, _ := in.get(exactly, "kind")
	if key, ok := holders[text(kind.value)]; ok && in.hasKeys("apiVersion", exactly) {
		at, _ := in.get(exactly, strings.Split(key, ".")...)
		if at.value != nil && at.value.Kind == yaml.ScalarNode {
			f.parseText(at.value)
		} else if at.value != nil {
			for e := range eachEntry(at.value) {
				f.parseText(e.value)
			}
		}
	}
	if list, ok := in.get(exactly, "items"); ok && text(kind.value) == "List" {
		for e := range eachEntry(list.value) {
			f.parseTexts(e.value)
		}
	}
}

// holders maps a kind of resource to the path of its texts that may contain documents.
var holders = map[string]string{
	"ConfigMap": "data", "Secret": "stringData", "OpenTelemetryCollector": "spec.config",
}

// parseText replaces the node of a text by a document node if the text is a document with one
// mapping. If the text is something else, or has a fault, the node is unchanged.
func (f *File) parseText(node *yaml.Node) {
	inner := &File{Name: f.Name, nodes: f.nodes}
	documents, fault := inner.parseYAML([]byte(node.Value))
	if node.Kind != yaml.ScalarNode || fault != nil || len(documents) != 1 ||
		documents[0].Kind != yaml.MappingNode ||
		inner.check(documents[0], map[*yaml.Node]int{}) != nil {
		return
	}
	f.nodes = inner.nodes
	lines := 0
	if node.Style&yaml.LiteralStyle != 0 {
		lines = 1
	}
	moveLines(documents[0], node.Line, lines)
	*node = yaml.Node{Kind: yaml.DocumentNode, Content: documents, Line: node.Line}
}

// moveLines sets the line of each node of a document that is a text in a file. The text starts at
// the line first. If perLine is 1, each line of the text is a line of the file. If perLine is 0,
// the text is on one line, and this is the line of all nodes.
func moveLines(node *yaml.Node, first, perLine int) {
	node.Line = first + perLine*node.Line
	for _, inner := range node.Content {
		moveLines(inner, first, perLine)
	}
}

var yamlError = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// splitYAML splits an error of the YAML parser into the number of the line and the rest of the
// text. The parser puts the number only into the text.
func splitYAML(err error) (line int, text string) {
	text = err.Error()
	prefix := yamlError.FindStringSubmatch(text)
	if line, err = strconv.Atoi(prefix[1]); err != nil {
		line = 1
	}
	return line, strings.Join(strings.Fields(text[len(prefix[0]):]), " ")
}

// parseJSON parses JSON into YAML nodes, which have line numbers. It does not use the YAML parser,
// which refuses some valid JSON, such as the text "\/".
func (f *File) parseJSON(data []byte) (documents []*yaml.Node, fault *Fault) {
	refuse := func(line int, err error) *Fault {
		return &Fault{File: f.Name, Line: line, Code: unreadable, Text: err.Error()}
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		return nil, refuse(1+bytes.Count(data[:syntax.Offset], []byte("\n")), err)
	}
	w := &jsonWalk{file: f, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	w.dec.UseNumber()
	node, err := w.value()
	if err != nil {
		return nil, refuse(w.line, err)
	}
	return []*yaml.Node{node}, nil
}

// A jsonWalk walks through valid JSON.
type jsonWalk struct {
	file *File
	data []byte
	dec  *json.Decoder
	line int   // the number of the line with the offset `seen`
	seen int64 // the offset in data up to which the lines are counted
}

func (w *jsonWalk) value() (*yaml.Node, error) {
	token, err := w.dec.Token()
	if err != nil {
		return nil, err
	}
	end := w.dec.InputOffset()
	w.line += bytes.Count(w.data[w.seen:end], []byte("\n"))
	w.seen = end

	if w.file.nodes++; w.file.nodes > mostFileNodes {
		return nil, errors.New(tooMany)
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: w.line}
	switch token := token.(type) {
	case json.Delim:
		node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		if token == '{' {
			node.Kind, node.Tag = yaml.MappingNode, "!!map"
		}
		for w.dec.More() { // the keys and values of a mapping, or the elements of a list
			value, err := w.value()
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, value)
		}
		_, err = w.dec.Token()
	case string:
		node.Tag, node.Value, node.Style = "!!str", token, yaml.DoubleQuotedStyle
	case json.Number:
		node.Value = token.String()
	case bool:
		node.Tag, node.Value = "!!bool", strconv.FormatBool(token)
	case nil:
		node.Tag, node.Value = "!!null", "null"
	}
	return node, err
}
