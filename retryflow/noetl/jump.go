package noetl

import (
	"slices"
	"strings"
	"time"

	"github.com/goretry/retry/retryflow"
)

func (r *reader) jump(m *mapping, rule *retryflow.Rule, d dialect) {
	if k := m.take("to"); k == nil {
		r.fault(m.place, "to is missing: %s", writeLabel)
	} else {
		var ok bool
		if rule.To, ok = r.text(k, writeLabel); ok && rule.To == "" {
			r.fault(k.place, "to is empty: %s", writeLabel)
		}
		if _, ok := r.jumps[rule.To]; !ok {
			r.jumps[rule.To] = k.place
		}
	}
	var fixed time.Duration
	fixed, rule.Delay = r.delay(m.take("delay"), 0, d)
	if fixed > 0 {
		rule.Delay = func(retryflow.Outcome) (time.Duration, error) { return fixed, nil }
	}
}

// previous lists the names that mean the previous task in a jump. As in NoETL, these names cannot
// be labels.
var previous = []string{"previous", "prev", "_previous", "@previous"}

// resolveJumps checks the targets of jumps. It also replaces each name that means the previous
// task with the label of the previous task.
func (r *reader) resolveJumps(tasks []Task, at place) {
	labels := map[string]bool{}
	for _, task := range tasks {
		labels[task.Label] = true
	}
	for i, task := range tasks {
		for j, rule := range task.Rules {
			where, ok := r.jumps[rule.To]
			if !ok {
				where = at
			}
			switch toPrevious := slices.Contains(previous, strings.ToLower(strings.TrimSpace(rule.To))); {
			case rule.Do != retryflow.Jump || rule.To == "":
			case toPrevious && i > 0:
				task.Rules[j].To = tasks[i-1].Label
			case toPrevious:
				r.fault(where, "to is %s: no task comes before %q", rule.To, task.Label)
			case !labels[rule.To]:
				r.fault(where, "to is %q: no task has that label", rule.To)
			}
		}
	}
}
