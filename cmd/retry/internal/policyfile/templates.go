package policyfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	withDefault = regexp.MustCompile(`^\$\{(?:env:)?\w+:-([^${}]*)\}$`)
	unknownText = regexp.MustCompile(`(^|[^$])\$\{|\{\{|\{%`)
)

// expand returns the value of a scalar. If the scalar is a template with a default, the value is
// this default, such as 5s for ${env:X:-5s}. For any other template, the value is nil. The result
// `why` is the text of a note about the template.
func expand(node *yaml.Node) (value *yaml.Node, why string) {
	if node.Kind != yaml.ScalarNode || !unknownText.MatchString(node.Value) {
		return node, ""
	}
	match := withDefault.FindStringSubmatch(node.Value)
	if match == nil || unknownText.MatchString(match[1]) {
		return nil, fmt.Sprintf("%.60q is not known here: it is read as if it were left out", node.Value)
	}
	value = &yaml.Node{Kind: yaml.ScalarNode, Value: match[1], Line: node.Line}
	return value, fmt.Sprintf("%.60q is read as its default, %s", node.Value, match[1])
}

// expanded returns a copy of a node in which each template is replaced by its value, and adds a
// note for each template. If the value of a template is unknown, the key of the template is left
// out and recorded in b.templates.
func (b *Block) expanded(node *yaml.Node, path string) *yaml.Node {
	node = resolved(node)
	switch node.Kind {
	case yaml.ScalarNode:
		value, why := expand(node)
		if why != "" && !slices.Contains(b.unnoted, path) {
			b.note(path, why)
		}
		return value
	case yaml.MappingNode:
		result := *node
		result.Content = nil
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			inner := strings.TrimPrefix(path+"."+key.Value, ".")
			if key.ShortTag() != "!!merge" {
				value = b.expanded(value, inner)
			}
			if value == nil {
				b.templates[inner] = true
				continue
			}
			result.Content = append(result.Content, key, value)
		}
		return &result
	default:
		return node
	}
}
