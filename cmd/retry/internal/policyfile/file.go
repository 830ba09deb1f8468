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
	nodes     int // the nodes of all documents
	steps     int // the steps of checking the file
	merged    int // the keys that << merges
}

// Parse parses YAML, or JSON if the name ends in .json or the data is JSON. If
// that fails, the error is a *Fault.
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

// MayHold reports whether a text that does not parse is probably meant to contain a policy: it has
// a key of a policy, and is not a template.
func MayHold(data []byte) bool { return ownKey.Match(data) && !template.Match(data) }

var (
	ownKey   = regexp.MustCompile(`(?m)(^|")(retry|work_config|max_attempts|max_retries)"?[ \t]*:`)
	template = regexp.MustCompile(`\{\{|\{%|<%`)
)

func (f *File) parseYAML(data []byte) (documents []*yaml.Node, fault *Fault) {
	if n, line := starts(data, mostStarts); n > mostStarts {
		text := fmt.Sprintf("this has more than %d places where a key or a value may begin, up to here",
			mostStarts)
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
var tooMany = fmt.Sprintf("the documents of this file have more than %d keys and "+
	"values, up to here", mostFileNodes)

// parseTexts replaces texts in a resource of Kubernetes by document nodes. Such a text is itself a
// document, for example the configuration of a collector in a ConfigMap.
func (f *File) parseTexts(resource *yaml.Node) {
	in := &place{node: resolved(resource)}
	kind, _ := in.get(exactly, "kind")
	if key, ok := holders[text(kind.value)]; ok && in.has("apiVersion", exactly) {
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

// holders maps kinds of resources to the path of their texts that contain documents.
var holders = map[string]string{
	"ConfigMap": "data", "Secret": "stringData", "OpenTelemetryCollector": "spec.config",
}

// parseText replaces a text by a document node if the text is a document with one mapping. Any
// other text, and a text with a fault, is left as it is.
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

// moveLines sets the lines of a document that is in a text at line first of a file. If each is 1,
// the lines of the text are lines of the file. If each is 0, all nodes are at line first.
func moveLines(node *yaml.Node, first, each int) {
	node.Line = first + each*node.Line
	for _, inner := range node.Content {
		moveLines(inner, first, each)
	}
}

var yamlError = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// splitYAML splits an error of the YAML parser into the line and the text. Such an error has its
// line only in its text.
func splitYAML(err error) (line int, text string) {
	text = err.Error()
	prefix := yamlError.FindStringSubmatch(text)
	if line, err = strconv.Atoi(prefix[1]); err != nil {
		line = 1
	}
	return line, strings.Join(strings.Fields(text[len(prefix[0]):]), " ")
}

// parseJSON parses JSON into YAML nodes, which have line numbers. The YAML parser does not accept
// all of JSON, such as the text "\/".
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
	line int   // the line at the offset seen
	seen int64 // the offset up to which data was read
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
