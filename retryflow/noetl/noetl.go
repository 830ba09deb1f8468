package noetl

import (
	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
)

// A Task is one of a step's tasks, for a [retryflow.Task] whose Run does what
// its Config says.
type Task struct {
	Label  string
	Config map[string]any // the keys that are not about rules, as they were written
	Rules  retryflow.Rules
}

// ParseTasks reads the tasks of a step, in their order: a list of labels, each
// with its task, or a mapping that has such a list under tool. The other keys
// of that mapping, and those of a task but for eval and retry, are not judged.
//
// rand() draws from source, to be the Source of the pipeline's Policy, each
// time that it is evaluated; nil: math/rand/v2.
//
// The error names everything that is wrong at once, with its line.
func ParseTasks(data []byte, source retry.Source) ([]Task, error) {
	root, err := document(data)
	if root == nil || isNull(root) {
		return nil, err
	}
	r := newReader(source)
	if root.Kind == yaml.MappingNode {
		tool := r.mapping(root, "").take("tool")
		if tool == nil {
			r.fault(root.Line, `there is no tool: write a list of tasks, "- fetch: {…}", or a step that has one under tool`)
			return nil, r.err()
		}
		root = tool.value
	}
	tasks := r.tasks(root)
	if err := r.err(); err != nil {
		return nil, err
	}
	return tasks, nil
}

// ParseRules reads the rules of one task: a mapping that has them under eval,
// or the old block under retry. Its other keys are not judged. source is as
// for [ParseTasks], and the error too.
func ParseRules(data []byte, source retry.Source) (retryflow.Rules, error) {
	root, err := document(data)
	if root == nil || isNull(root) {
		return nil, err
	}
	r := newReader(source)
	rules := r.taskRules(r.mapping(root, "write a mapping that has rules under eval"))
	if err := r.err(); err != nil {
		return nil, err
	}
	return rules, nil
}

// tasks reads a list of tasks, and whether what they jump to is there.
func (r *reader) tasks(n *yaml.Node) []Task {
	const write = `write a list of tasks: "- fetch: {…}"`
	var tasks []Task
	lines := map[string]int{}
	for _, n := range r.list(n, write) {
		m := r.mapping(n, write)
		if len(m.keys) != 1 {
			if resolve(n).Kind == yaml.MappingNode {
				r.fault(m.line, `a task has %d labels: write one, with what belongs to the task under it: "- fetch: {…}"`, len(m.keys))
			}
			continue
		}
		label := m.keys[0]
		if lines[label.name] > 0 {
			r.fault(label.line, "task %q is there twice, in line %d too", label.name, lines[label.name])
		}
		lines[label.name] = label.line
		body := &mapping{line: label.line}
		if !isNull(resolve(label.value)) {
			body = r.mapping(label.value, write)
		}
		task := Task{Label: label.name, Rules: r.taskRules(body)}
		task.Config = r.config(body)
		tasks = append(tasks, task)
	}
	for _, to := range r.jumps {
		if lines[to.name] == 0 && to.name != "" {
			r.fault(to.line, "to is %q, and no task has that label", to.name)
		}
	}
	return tasks
}

// taskRules takes the rules from a task.
func (r *reader) taskRules(m *mapping) retryflow.Rules {
	eval, block := m.take("eval"), m.take("retry")
	switch {
	case eval != nil && block != nil:
		r.fault(block.line, "retry and eval are both there: write one")
	case eval != nil:
		return r.rules(eval)
	case block != nil:
		return r.retryBlock(block)
	}
	return nil
}

// config returns the keys that are left of a task.
func (r *reader) config(m *mapping) map[string]any {
	config := map[string]any{}
	for _, k := range m.keys {
		var value any
		if err := k.value.Decode(&value); err != nil {
			r.fault(k.line, "%s: %v", k.name, err)
		}
		config[k.name] = value
	}
	return config
}
