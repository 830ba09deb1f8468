package noetl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/goretry/retry/retryflow"
)

// A Playbook contains a whole document.
type Playbook struct {
	Config map[string]any // the document without the key `workflow`
	Steps  []Step         // the steps, in the order of the document
}

// A Step is one step of a playbook. Your program decides which step comes next: the keys
// `next`, `loop` and `when` are in Config.
type Step struct {
	Name   string
	Config map[string]any // the keys of the step except `step` and `tool`
	Tasks  []Task         // the tasks of the tool, in order; empty if the step has no tool
}

// A Task is one task of a step. To run it in a pipeline, make a [retryflow.Task] with its Label,
// its Rules, and a function of your own. Config tells this function what to do.
type Task struct {
	Label  string
	Config map[string]any // the keys of the task that are not about rules
	Rules  retryflow.Rules
}

// ParsePlaybook parses a playbook. Its error lists up to 20 faults. Each fault begins with `file`,
// the line, and the path in the document. If `file` is "", the fault begins with the line.
//
// The tool of a step is a list of tasks, one task, or a text. A text is the `kind` of a task that
// has no other keys. If the tool is not a list, its task has the name of the step as its label. In
// a list, a task without a label gets the label task_1, task_2 and so on, according to its
// position. If a step has the key `eval` or `retry`, the step must have exactly one task, and the
// rules under this key apply to that task.
//
// In expressions, rand() draws its numbers from the parameter `source`. Pass the Source of your
// Pipeline.Policy. If `source` is nil, rand() uses math/rand/v2.
func ParsePlaybook(file string, data []byte, source func() uint64) (Playbook, error) {
	r := newReader(file, source)
	root, err := r.document(data)
	if root == nil {
		return Playbook{}, err
	}
	const write = "write a playbook: a mapping with a workflow"
	m := r.mapping(root, place{}, write)
	var p Playbook
	if workflow := m.take("workflow"); workflow != nil {
		p.Steps = r.steps(workflow)
	} else if r.faults == nil {
		r.fault(m.place, "workflow is missing: %s", write)
	}
	p.Config = r.config(m)
	if err := r.err(); err != nil {
		return Playbook{}, err
	}
	return p, nil
}

// ParseTasks parses the tasks of one step. The parameter `data` is the step, which is a mapping
// with a `tool`, or only the list of its tasks. [ParsePlaybook] describes the key `tool` and the
// parameter `source`.
func ParseTasks(data []byte, source func() uint64) ([]Task, error) {
	r := newReader("", source)
	root, err := r.document(data)
	if root == nil {
		return nil, err
	}
	var tasks []Task
	if root.Kind == yaml.MappingNode {
		m := r.mapping(root, place{}, "")
		if m.get("tool") == nil {
			r.fault(m.place, `tool is missing: write a step with a tool, `+
				`or a list of tasks: "- fetch: {…}"`)
		}
		tasks = r.step(m).Tasks
	} else if root.Kind == yaml.SequenceNode {
		tasks = r.tasks(root, place{}, "")
	} else {
		r.list(root, place{}, writeTasks)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return tasks, nil
}

// ParseRules parses the rules of one task. The parameter `data` is the mapping of the task. The
// rules are under `eval`, under `spec.policy.rules`, or in the old form under `retry`. ParseRules
// does not return the other keys. [ParsePlaybook] describes the parameter `source`.
func ParseRules(data []byte, source func() uint64) (retryflow.Rules, error) {
	r := newReader("", source)
	root, err := r.document(data)
	if root == nil {
		return nil, err
	}
	m := r.mapping(root, place{}, "write a mapping that has rules under eval")
	rules := r.taskRules(m)
	r.config(m)
	if err := r.err(); err != nil {
		return nil, err
	}
	return rules, nil
}

func (r *reader) steps(k *key) []Step {
	const write = `write a list of steps: "- step: start"`
	var steps []Step
	lines := map[string]int{}
	for i, n := range r.list(k.value, k.inside(), write) {
		before := len(r.faults)
		m := r.mapping(n, k.inside().entry(i, resolve(n).Line), write)
		name := m.get("step")
		step := r.step(m)
		switch {
		case len(r.faults) > before:
		case name == nil:
			r.fault(m.place, "step is missing: %s", write)
		case lines[step.Name] > 0:
			r.fault(name.place, "duplicate step %q: line %d has the first", step.Name, lines[step.Name])
		default:
			lines[step.Name] = name.line
		}
		steps = append(steps, step)
	}
	return steps
}

func (r *reader) step(m *mapping) Step {
	var s Step
	if k := m.take("step"); k != nil {
		s.Name, _ = r.text(k, "write a name")
	}
	rules := &mapping{place: m.place, names: map[string]bool{}}
	for _, name := range []string{"eval", "retry"} {
		if k := m.take(name); k != nil {
			rules.add(*k)
		}
	}
	if k := m.take("tool"); k != nil {
		s.Tasks = r.tasks(k.value, k.inside(), s.Name)
	}
	if len(rules.keys) > 0 {
		switch at := rules.keys[0]; {
		case len(s.Tasks) == 1 && s.Tasks[0].Rules == nil:
			s.Tasks[0].Rules = r.taskRules(rules)
			r.resolveJumps(s.Tasks, at.place)
		case len(s.Tasks) == 0:
			r.fault(at.place, "%s belongs to a task, and this step has none", at.name)
		default:
			r.fault(at.place, "%s is next to a tool that has rules or several tasks: "+
				"write it in one of them", at.name)
		}
	}
	s.Config = r.config(m)
	return s
}

const writeTasks = `write a list of tasks: "- fetch: {…}"`

// tasks reads the tasks of a tool. `step` is the name of the step.
func (r *reader) tasks(n *yaml.Node, at place, step string) []Task {
	n = resolve(n)
	r.jumps = map[string]place{}
	var tasks []Task
	switch {
	case isText(n):
		tasks = []Task{{Label: step, Config: map[string]any{"kind": n.Value}}}
	case n.Kind == yaml.MappingNode:
		tasks = []Task{r.body(r.mapping(n, at, writeTasks))}
		tasks[0].Label = step
	default:
		lines := map[string]int{}
		for i, n := range r.list(n, at, writeTasks) {
			here := at.entry(i, resolve(n).Line)
			task := r.task(n, here)
			if task.Label == "" {
				task.Label = fmt.Sprintf("task_%d", i+1)
			}
			if line := lines[task.Label]; line > 0 {
				r.fault(here, "duplicate task %q: line %d has the first", task.Label, line)
			}
			lines[task.Label] = here.line
			tasks = append(tasks, task)
		}
	}
	if len(tasks) == 1 && tasks[0].Label == "" {
		tasks[0].Label = "task_1"
	}
	r.resolveJumps(tasks, at.at(n.Line))
	return tasks
}

// task reads an entry of a list of tasks. The entry has one of two forms. It is a label with the
// task under it, or it is a task with a `kind`. In the second form, the label is the `name` of
// the task.
func (r *reader) task(n *yaml.Node, at place) (task Task) {
	m := r.mapping(n, at, writeTasks)
	if m.get("kind") != nil {
		task = r.body(m)
		task.Label, _ = task.Config["name"].(string)
		return task
	}
	if len(m.keys) != 1 {
		if resolve(n).Kind == yaml.MappingNode {
			r.fault(m.place, `a task has %d labels: write one, `+
				`with the keys of the task under it: "- fetch: {…}"`, len(m.keys))
		}
		return task
	}
	label := m.keys[0]
	if isNull(resolve(label.value)) {
		return Task{Label: label.name, Config: map[string]any{}}
	}
	task = r.body(r.mapping(label.value, label.inside(), writeTasks))
	task.Label = label.name
	return task
}

// body reads the keys of a task. It does not set the Label of the Task that it returns. The keys of
// the task may be under a key `tool`.
func (r *reader) body(m *mapping) Task {
	tool := m.get("tool")
	if tool != nil && m.get("kind") == nil && resolve(tool.value).Kind == yaml.MappingNode {
		m.take("tool")
		task := r.body(r.mapping(tool.value, tool.inside(), writeTasks))
		maps.Copy(task.Config, r.config(m))
		return task
	}
	task := Task{Rules: r.taskRules(m)}
	task.Config = r.config(m)
	spec, _ := task.Config["spec"].(map[string]any)
	policy, _ := spec["policy"].(map[string]any)
	for _, name := range []string{"rules", "mode", "on_unmatched"} {
		delete(policy, name)
	}
	return task
}

// config returns the keys that have not been taken, with their values. It adds a fault for rules
// in these values, because such rules would have no effect.
func (r *reader) config(m *mapping) map[string]any {
	config := map[string]any{}
	for _, k := range m.keys {
		path, line, found := r.strayRules(k.name, k.value)
		if found || slices.Contains(settings, strings.ToLower(k.name)) {
			at := place{max(line, k.line), k.under(k.name) + path}
			r.fault(at, "rules are not read here: "+
				"write them next to the kind of a task, under eval or spec.policy.rules")
		}
		var value any
		if err := k.value.Decode(&value); err != nil {
			r.fault(k.place, "%s: %v", k.name, strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:\n"))
		}
		config[k.name] = value
	}
	return config
}
