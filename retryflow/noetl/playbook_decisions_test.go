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

// decisions are the decisions of NoETL's own executors for our steps. Scripts of outcomes were
// played for each step.
type decisions struct {
	Base     map[string]any
	Outcomes map[string]envelope
	Steps    []struct {
		ID, Engine, YAML string
		Base             map[string]any
		Rows             []decided
	}
}

// An envelope is what a tool returned or raised, and the outcomes that the two executors made
// of it, by the kind of the tool.
type envelope struct {
	Returned        any
	Raises          []string
	Output, Outcome map[string]map[string]any
}

type decided struct {
	Script map[string][]string
	Runs   [][]any // task, attempt, outcome, rule, do, delay, next, more
	End    string
}

// played is one run of a task, with the decision of this package.
type played struct {
	task, outcome, do, next string
	attempt, rule           int
	lo, hi                  float64         // seconds until the next run
	state                   retryflow.State // after the rules have changed it
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

// play plays a row. It returns the runs of the tasks, and the error of the pipeline.
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
			run.attempt, run.rule, run.do, run.state = e.Attempt, e.Rule, string(e.Directive), maps.Clone(state)
		case retry.RetryScheduled:
			runs[len(runs)-1].lo, runs[len(runs)-1].hi = e.Lo.Seconds(), e.Hi.Seconds()
		}
	}
	end = p.Run(ctx, state)
	return runs, end
}

// differs returns the first difference between our runs of a row and NoETL's: raised, attempt,
// rule, do, next, delay, set, text (of a value that is none here) or end. It returns "" if
// there is no difference.
func differs(runs []played, err error, row decided) string {
	fails := row.End == "failed" || slices.ContainsFunc(row.Runs, func(run []any) bool { return run[4] == "raise" })
	if row.End == "raised" && !fails {
		return "raised"
	}
	texts := ""
	for i, theirs := range row.Runs {
		if i >= len(runs) {
			return "next"
		}
		ours, delay := runs[i], number(theirs[5], 0)
		next, _ := theirs[6].(string)
		switch {
		case ours.task != theirs[0] || ours.outcome != theirs[2]:
			return "next"
		case float64(ours.attempt) != number(theirs[1], 0):
			return "attempt"
		case ours.rule != int(number(theirs[3], float64(ours.rule))):
			return "rule"
		case theirs[3] != nil && ours.do != theirs[4]:
			return "do"
		}
		if more, ok := theirs[len(theirs)-1].(map[string]any); ok {
			set, _ := more["set"].(map[string]any)
			for path, value := range set {
				scope, name, _ := strings.Cut(path, ".")
				of, _ := ours.state[scope].(map[string]any)
				switch {
				case reflect.DeepEqual(plain(of[name]), plain(value)):
				case python(of[name]) == value:
					texts = "text"
				default:
					return "set"
				}
			}
		}
		switch {
		case i == 13:
			return texts
		case ours.next != next:
			return "next"
		case delay < ours.lo-1e-9 || delay > ours.hi+1e-9:
			return "delay"
		}
	}
	if fails != (err != nil) {
		return "end"
	}
	return texts
}

// number returns v if it is a number, and otherwise absent.
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

// python returns the text that Python gives for a value. v is not a list or a mapping.
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

// Each row is decided as in NoETL, or is refused, or differs in a way that the README lists.
// The test counts the rows of each kind.
func TestDecisions(t *testing.T) {
	d := readDecisions(t)
	counts := map[string]int{}
	for _, s := range d.Steps {
		base := d.Base
		if s.Base != nil {
			base = s.Base
		}
		tasks, refused := noetl.ParseTasks([]byte(s.YAML), nil)
		for _, row := range s.Rows {
			in := "refused"
			if refused == nil {
				runs, err := d.play(t, s.Engine, base, tasks, row.Script)
				in = differs(runs, err, row)
			}
			counts[in]++
		}
	}
	assert.Equal(t, map[string]int{
		"": 2164, "refused": 1046, "attempt": 76, "delay": 213, "do": 4, "end": 2, "next": 98, "raised": 58, "rule": 142, "set": 275, "text": 278,
	}, counts)
}
