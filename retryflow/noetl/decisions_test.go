package noetl_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl"
)

// decisions are what NoETL's own executors decided for steps of ours, each of
// which was played with scripts of outcomes.
type decisions struct {
	Base     map[string]any
	Outcomes map[string]envelope
	Steps    []struct {
		ID, Engine, YAML string
		Base             map[string]any
		Rows             []decided
	}
}

// An envelope is what a tool returned or raised, and what the two executors of
// rules made of it, by the kind of the tool.
type envelope struct {
	Returned        any
	Raises          []string
	Output, Outcome map[string]map[string]any
}

type decided struct {
	Script map[string][]string
	Runs   [][]any // task, attempt, outcome, rule, do, delay, next, more
	End    string
	Why    string
}

// A played is a run of a task as this package decides it.
type played struct {
	task, outcome, do, next string
	attempt, rule, faults   int
	lo, hi                  float64         // seconds until the next run
	state                   retryflow.State // as the rules left it
}

func readDecisions(t *testing.T) (d decisions) {
	file, err := os.Open("testdata/decisions.json.gz")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	decoder := json.NewDecoder(unzipped)
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&d))
	return d
}

var errTool = errors.New("the tool failed")

// outcome returns the outcome of a tool as a program reports it.
func (e envelope) outcome(engine, kind string) (o retryflow.Outcome) {
	var of map[string]any
	o.Data = map[string]any{}
	switch engine {
	case "rules":
		of = e.Output[kind]
		o.Result = of["data"]
		o.Data["ref"], o.Data["error"] = nil, nil
	case "eval":
		of = e.Outcome[kind]
		o.Result = of["result"]
	default:
		returned, _ := e.Returned.(map[string]any)
		of = map[string]any{"error": returned["error"], "http": map[string]any{"status": returned["status_code"]}}
		if e.Raises != nil || returned["success"] == false {
			of["status"] = "error"
		}
		o.Result = e.Returned
	}
	maps.Copy(o.Data, of)
	if of["status"] == "error" {
		o.Err = errTool
	}
	return o
}

// play plays a row. It returns the runs, and the error of the pipeline.
func (d decisions) play(t *testing.T, engine string, base map[string]any, tasks []noetl.Task, script map[string][]string) (runs []played, end error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := map[string]any{}
	state := retryflow.State{"results": results, "_prev": nil}
	maps.Copy(state, base)
	if engine == "eval" {
		state["vars"], state["iter"] = map[string]any{}, map[string]any{}
	}
	p := retryflow.Pipeline{Policy: retry.Policy{Wait: func(_ context.Context, d time.Duration) (time.Duration, error) { return d, nil }}}
	times := map[string]int{}
	for i, task := range tasks {
		label, kind := task.Label, task.Config["kind"].(string)
		if script[label] == nil || script["task_0"] != nil {
			label = fmt.Sprintf("task_%d", i)
		}
		if len(tasks) == 1 {
			label = slices.Collect(maps.Keys(script))[0]
		}
		p.Tasks = append(p.Tasks, retryflow.Task{Label: task.Label, Rules: task.Rules, Run: func(context.Context, retryflow.State) retryflow.Outcome {
			if len(runs) > 0 {
				runs[len(runs)-1].next = label
			}
			if len(runs) == 14 {
				cancel()
			}
			name := script[label][min(times[label], len(script[label])-1)]
			times[label]++
			o := d.Outcomes[name].outcome(engine, kind)
			for label, result := range results {
				if _, taken := state[label]; !taken {
					state[label] = result
				}
			}
			if o.Err == nil {
				state["_prev"], results[label] = o.Result, o.Result
			}
			runs = append(runs, played{task: label, outcome: name})
			return o
		}})
	}
	p.OnEvent = func(_ context.Context, e retryflow.Event) {
		switch e.Kind {
		case retry.AttemptFinished:
			run := &runs[len(runs)-1]
			run.attempt, run.rule, run.do, run.faults, run.state = e.Attempt, e.Rule, string(e.Directive), len(e.Faults), maps.Clone(state)
		case retry.RetryScheduled:
			runs[len(runs)-1].lo, runs[len(runs)-1].hi = e.Lo.Seconds(), e.Hi.Seconds()
		}
	}
	end = p.Run(ctx, state)
	return runs, end
}

// A difference is the first one between the runs of a row and ours.
type difference struct {
	engine, yaml, why string
	in                string   // raised, attempt, rule, do, next, delay, set, text (of a value that is none here) or end
	at                int      // the run
	runs              []played // ours
	run               played   // ours
	rule              int      // theirs
	delay             float64  // theirs
	ours, theirs      any      // the value that was set
	err               error    // of the pipeline
	texts             bool     // a value set before is a text there
}

// compare returns the first difference, or nil.
func compare(runs []played, err error, row decided) *difference {
	f := &difference{why: row.Why, runs: runs, err: err}
	fails := row.End == "failed" || slices.ContainsFunc(row.Runs, func(run []any) bool { return run[4] == "raise" })
	if row.End == "raised" && !fails {
		return f.is("raised")
	}
	for i, theirs := range row.Runs {
		if f.at = i; i >= len(runs) {
			return f.is("next")
		}
		f.run, f.delay, f.rule = runs[i], number(theirs[5], 0), int(number(theirs[3], float64(runs[i].rule)))
		next, _ := theirs[6].(string)
		switch {
		case f.run.task != theirs[0] || f.run.outcome != theirs[2]:
			return f.is("next")
		case float64(f.run.attempt) != number(theirs[1], 0):
			return f.is("attempt")
		case f.run.rule != f.rule:
			return f.is("rule")
		case theirs[3] != nil && f.run.do != theirs[4]:
			return f.is("do")
		}
		if more, ok := theirs[len(theirs)-1].(map[string]any); ok {
			set, _ := more["set"].(map[string]any)
			for _, path := range slices.Sorted(maps.Keys(set)) {
				value := set[path]
				scope, name, _ := strings.Cut(path, ".")
				ours, _ := f.run.state[scope].(map[string]any)
				switch {
				case reflect.DeepEqual(plain(ours[name]), plain(value)):
				case python(ours[name]) == value:
					f.texts = true
				default:
					f.ours, f.theirs = ours[name], value
					return f.is("set")
				}
			}
		}
		switch {
		case i == 13:
			return f.orText()
		case f.run.next != next:
			return f.is("next")
		case f.delay < f.run.lo-1e-9 || f.delay > f.run.hi+1e-9:
			return f.is("delay")
		}
	}
	if fails != (err != nil) {
		return f.is("end")
	}
	return f.orText()
}

func (f *difference) is(in string) *difference {
	f.in = in
	return f
}

func (f *difference) orText() *difference {
	if f.texts {
		return f.is("text")
	}
	return nil
}

// number returns a number of the file, or absent if it is none.
func number(v any, absent float64) float64 {
	if n, ok := v.(json.Number); ok {
		f, _ := n.Float64()
		return f
	}
	return absent
}

// plain returns a value as JSON decodes it.
func plain(v any) (plain any) {
	data, _ := json.Marshal(v)
	_ = json.Unmarshal(data, &plain)
	return plain
}

// python returns the text that Python has for a value that is no list or mapping.
func python(v any) any {
	switch v := v.(type) {
	case nil:
		return "None"
	case float64:
		return fmt.Sprintf("%.1f", v)
	case bool:
		return strings.ToUpper(fmt.Sprint(v)[:1]) + fmt.Sprint(v)[1:]
	default:
		return fmt.Sprint(v)
	}
}

func (f *difference) has(pattern string) bool { return regexp.MustCompile(pattern).MatchString(f.yaml) }

type class struct {
	name string
	is   func(f *difference) bool
}

// classes are the rows of the table in the documentation, by their names there. A
// difference is in the first that fits.
var classes = []class{
	{"retry (mapping)", func(f *difference) bool {
		return strings.HasPrefix(f.engine, "retry") || f.in == "rule" && f.has(`retry:\s+max_attempts`)
	}},
	{"forms", func(f *difference) bool { return f.in == "raised" && f.why == "ValueError" }},
	{"raised", func(f *difference) bool { return f.in == "raised" }},
	{"set, fails", func(f *difference) bool {
		return f.err != nil && strings.Contains(f.err.Error(), ": set") && f.run.do != "" && f.run.next == ""
	}},
	{"retry, no backoff", func(f *difference) bool { return f.in == "delay" && f.run.do == "retry" && f.delay == 0 }},
	{"jump, delay", func(f *difference) bool { return f.in == "delay" && f.run.do == "jump" && f.delay == 0 }},
	{"delay, text", func(f *difference) bool {
		return (f.in == "delay" || f.in == "next") && f.run.do == "retry" && f.has(`delay: '`)
	}},
	{"attempts, jump", func(f *difference) bool {
		return f.in == "attempt" && slices.ContainsFunc(f.runs[:f.at], func(run played) bool { return run.task == f.run.task && run.do != "retry" })
	}},
	{"set, text", func(f *difference) bool {
		_, ours := f.ours.(string)
		text, theirs := f.theirs.(string)
		return f.in == "text" || f.in == "rule" && f.texts || f.in == "set" && f.ours != nil && (ours != theirs || strings.HasPrefix(text, "{{"))
	}},
	{"set, list", func(f *difference) bool { return f.in == "set" && f.has(`\n +(- |a: )'?{{`) }},
	{"set, scope", func(f *difference) bool {
		return f.in == "set" && f.has(`\n +(step|vars|workload|output|results|CTX|)\.\w+: '?{{`)
	}},
	{"missing", func(f *difference) bool { return f.in == "rule" && f.run.faults > 0 && !f.has(`when: 'yes`) }},
	{"else, do", func(f *difference) bool { return f.in == "rule" && f.has(`else:\s+do:`) }},
	{"on_unmatched", func(f *difference) bool { return f.in == "rule" && f.has(`on_unmatched`) }},
	{"no progress", func(f *difference) bool { return f.in == "end" && f.why == "no progress" }},
	{"labels", func(f *difference) bool {
		return slices.Contains([]string{"next", "vars", "collect", "emit", "set"}, f.run.next) || f.why == "unknown target" || f.in == "set" && f.has(`who: '{{ _task }}'`)
	}},
	{"wrong type", func(f *difference) bool {
		return f.run.rule == -1 && f.run.do == "fail" && f.err != nil && !errors.Is(f.err, errTool) && f.run.faults == 0
	}},
	{"condition", func(f *difference) bool {
		return f.in == "rule" && (f.has(`when: 'yes`) || f.run.rule >= 0 && (f.rule < 0 || f.rule > f.run.rule))
	}},
}

// Every row is equal, or refused, or differs as one class of the documentation says.
func TestDecisions(t *testing.T) {
	d := readDecisions(t)
	counts := map[string]int{}
	for _, s := range d.Steps {
		base := d.Base
		if s.Base != nil {
			base = s.Base
		}
		tasks, refused := noetl.ParseTasks([]byte(s.YAML), nil)
		for i, row := range s.Rows {
			if refused != nil {
				counts["refused"]++
				continue
			}
			runs, err := d.play(t, s.Engine, base, tasks, row.Script)
			f := compare(runs, err, row)
			if f == nil {
				counts["equal"]++
				continue
			}
			f.engine, f.yaml = s.Engine, s.YAML
			at := slices.IndexFunc(classes, func(c class) bool { return c.is(f) })
			require.GreaterOrEqual(t, at, 0, "%s, row %d: %s in run %d: %v, NoETL: %v", s.ID, i, f.in, f.at, f.run, row)
			counts[classes[at].name]++
		}
	}
	assert.Equal(t, map[string]int{
		"equal": 2164, "refused": 1046, "retry, no backoff": 171, "jump, delay": 10, "delay, text": 20, "attempts, jump": 76, "missing": 30,
		"condition": 67, "set, fails": 208, "set, text": 315, "set, list": 20, "set, scope": 12, "else, do": 19, "on_unmatched": 8,
		"labels": 43, "no progress": 2, "retry (mapping)": 99, "raised": 25, "forms": 17, "wrong type": 4,
	}, counts)
	table := blocks(t)[9]
	for _, c := range classes {
		assert.Contains(t, table, "\n"+c.name+"  ")
	}
}
