package policyfile

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// Some texts in a resource of Kubernetes are YAML documents themselves, such as the configuration
// of a collector in a ConfigMap. parseTexts parses these texts, and replaces the node of each such
// text with a document node.
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

// holders maps a kind of resource, such as ConfigMap, to the path of a key in this resource. The
// value of this key is either a text that may be a YAML document, or a mapping that contains such
// texts.
var holders = map[string]string{
	"ConfigMap": "data", "Secret": "stringData", "OpenTelemetryCollector": "spec.config",
}

// parseText parses the text in a scalar node as YAML. If the text is a single document whose root
// is a mapping, parseText turns the scalar node into the document node of this document. If the
// text is anything else, or cannot be parsed, the scalar node is unchanged.
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
// the line `first` of the file. If `perLine` is 1, each line of the text is a line of the file. If
// `perLine` is 0, the whole text is on the line `first`, and this is the line of all nodes.
func moveLines(node *yaml.Node, first, perLine int) {
	node.Line = first + perLine*node.Line
	for _, inner := range node.Content {
		moveLines(inner, first, perLine)
	}
}
