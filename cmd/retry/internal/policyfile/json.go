package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
	line int   // the number of the line that contains the offset `seen`
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

// asJSON returns a value of YAML as JSON. JSON has no infinity, no NaN, and only strings as keys.
// So asJSON writes infinity, NaN and keys of other types as strings.
func asJSON(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(jsonValue(value)) // jsonValue returns only values that can be encoded
	return b.Bytes()
}

func jsonValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = jsonValue(inner)
		}
	case map[any]any:
		texts := make(map[string]any, len(v))
		for key, inner := range v {
			texts[fmt.Sprint(key)] = jsonValue(inner)
		}
		return texts
	case []any:
		for i, inner := range v {
			v[i] = jsonValue(inner)
		}
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Sprint(v)
		}
		text := fmt.Sprint(v)
		if !strings.ContainsAny(text, ".e") {
			text += ".0" // 5.0 must not become the whole number 5
		}
		return json.Number(text)
	}
	return value
}
