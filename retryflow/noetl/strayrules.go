package noetl

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry/retryflow"
)

// strayRules searches a value for rules that would have no effect. It returns the path and the line
// of the first such rule. The parameter `name` is the key of the value.
func (r *reader) strayRules(name string, n *yaml.Node) (path string, line int, found bool) {
	n = resolve(n)
	if r.seen[n] {
		return "", 0, false
	}
	r.seen[n] = true
	if isRule(n) || n.Kind == yaml.SequenceNode && slices.ContainsFunc(n.Content, isRule) {
		return "", n.Line, true
	}
	isTask := slices.Contains(taskKeys, strings.ToLower(name))
	if child(n, "kind") != nil || child(n, "tool") != nil || isTask {
		for _, setting := range settings {
			if own := child(n, setting); own != nil {
				return "." + setting, own.Line, true
			}
		}
	}
	for i, part := range n.Content {
		if n.Kind == yaml.SequenceNode {
			if path, line, found = r.strayRules(name, part); found {
				return fmt.Sprintf("[%d]", i) + path, line, true
			}
		} else if i%2 == 1 {
			key := n.Content[i-1].Value
			of := key
			if slices.Contains(labeled, strings.ToLower(name)) {
				of = "task"
			}
			if path, line, found = r.strayRules(of, part); found {
				return "." + key + path, line, true
			}
		}
	}
	return "", 0, false
}

var (
	// settings lists the keys that decide about a retry. Such a key is a fault if it is in the value
	// of one of the taskKeys. Elsewhere it may be a parameter of a tool.
	settings = []string{
		"retry", "max_attempts", "eval", "attempts",
		"backoff", "retry_when", "stop_when", "on_unmatched",
	}
	taskKeys = []string{"spec", "policy", "tool", "tools", "task", "tasks", "loop", "next"}

	// labeled lists the keys whose values are mappings from labels to tasks.
	labeled = []string{"tools", "tasks"}
)

// isRule reports whether a node looks like a rule, or like a task with a `retry` block.
func isRule(n *yaml.Node) bool {
	if do := child(n, "do"); do != nil {
		directive := retryflow.Directive(strings.ToLower(resolve(do).Value))
		if slices.Contains(directives, directive) {
			return true
		}
	}
	return child(child(n, "then"), "do") != nil || child(child(n, "else"), "do") != nil ||
		child(child(n, "retry"), "max_attempts") != nil
}
