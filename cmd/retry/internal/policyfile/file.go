// Package policyfile finds retry policies in YAML and JSON files. It reads policies in the native
// form of the library, in the dialects of package retrydialect and in the settings of other
// systems, and finds the line of each fault.
//
// The Go code that reads the settings of another system is in the source file with the name of the
// system, such as envoy.go. A block is a part of a YAML or JSON file that contains a policy. These
// are the other source files:
//
//   - file.go parses a file. json.go converts JSON to YAML nodes and back. texts.go parses
//     documents that are strings in another document, as in a ConfigMap. check.go refuses duplicate
//     keys and too many merged keys. size.go refuses a file or a block that is too large.
//   - search.go finds blocks: at a path, or at the places where files usually have them.
//     recognize.go finds out to which dialect or system a block belongs.
//   - block.go reads the policy in a block. fault.go describes faults and finds their lines, and
//     lint.go warns about settings that are valid but probably mistakes.
//   - dialect.go lists all dialects: the native form, the dialects of package retrydialect, and the
//     formats of other systems. format.go describes the formats of other systems. form.go has the
//     type `form`, with which envoy.go and the files for the other systems read values.
//   - settings.go takes keys from a mapping, and duration.go reads durations. beside.go reads
//     settings outside of a block that affect its retries, such as a timeout. templates.go replaces
//     a template with a default, such as ${env:X:-5s}, by this default.
//   - nodes.go walks through YAML nodes. place.go has the type `place`, which is a mapping with a
//     pointer to the mapping around it. spelling.go compares spellings of keys, and finds
//     misspelled keys.
//   - system.go reads the files for `retry simulate`, which describe services that call each other.
package policyfile

import (
	"bytes"
	"encoding/json"
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
	steps     int // the number of nodes that `check` has looked at
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

// Document returns the only document of f. If f has no document or several, it returns a fault.
func (f *File) Document() (Block, *Fault) {
	if len(f.documents) != 1 {
		return Block{}, &Fault{File: f.Name, Line: 1, Code: ambiguous,
			Text: fmt.Sprintf("there are %d documents: write only one", len(f.documents))}
	}
	document := resolved(f.documents[0])
	return Block{File: f.Name, Line: document.Line, node: document}, nil
}

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

var yamlError = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// splitYAML splits an error of the YAML parser into the number of the line and the rest of the
// text. The error has no field for the number of the line.
func splitYAML(err error) (line int, text string) {
	text = err.Error()
	prefix := yamlError.FindStringSubmatch(text)
	if line, err = strconv.Atoi(prefix[1]); err != nil {
		line = 1
	}
	return line, strings.Join(strings.Fields(text[len(prefix[0]):]), " ")
}
