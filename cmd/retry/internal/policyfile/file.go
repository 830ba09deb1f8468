// Package policyfile finds retry policies in YAML and JSON files. It reads them
// in the library's own form or in a dialect, and finds the line of each fault.
package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
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
	steps     int // of checking it
	merged    int // keys by <<
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
	return f, nil
}

func (f *File) parseYAML(data []byte) (documents []*yaml.Node, fault *Fault) {
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
		documents = append(documents, document.Content[0])
	}
}

var yamlError = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// splitYAML splits an error of the YAML parser, which has the line nowhere but in its text.
func splitYAML(err error) (line int, text string) {
	text = err.Error()
	prefix := yamlError.FindStringSubmatch(text)
	if line, err = strconv.Atoi(prefix[1]); err != nil {
		line = 1
	}
	return line, strings.Join(strings.Fields(text[len(prefix[0]):]), " ")
}

// parseJSON parses JSON into YAML nodes, which have line numbers. The YAML
// parser does not accept all JSON, such as the text "\/".
func (f *File) parseJSON(data []byte) (documents []*yaml.Node, fault *Fault) {
	refuse := func(line int, err error) *Fault {
		return &Fault{File: f.Name, Line: line, Code: unreadable, Text: err.Error()}
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		return nil, refuse(1+bytes.Count(data[:syntax.Offset], []byte("\n")), err)
	}
	w := &jsonWalk{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	w.dec.UseNumber()
	node, err := w.value()
	if err != nil {
		return nil, refuse(w.line, err)
	}
	return []*yaml.Node{node}, nil
}

// A jsonWalk walks through valid JSON.
type jsonWalk struct {
	data []byte
	dec  *json.Decoder
	line int   // the line at offset seen
	seen int64 // an offset
}

func (w *jsonWalk) value() (*yaml.Node, error) {
	token, err := w.dec.Token()
	if err != nil {
		return nil, err
	}
	end := w.dec.InputOffset()
	w.line += bytes.Count(w.data[w.seen:end], []byte("\n"))
	w.seen = end

	node := &yaml.Node{Kind: yaml.ScalarNode, Line: w.line}
	switch token := token.(type) {
	case json.Delim:
		node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		if token == '{' {
			node.Kind, node.Tag = yaml.MappingNode, "!!map"
		}
		for w.dec.More() { // keys and values, or elements
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
