package flowlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/flowlog"
	"github.com/goretry/retry/retrylog"
)

var anyErr = retryflow.IfErr(func(error) bool { return true })

// failing returns a Run that takes a second and fails where the script says so.
func failing(script ...bool) func(context.Context, retryflow.State) retryflow.Outcome {
	return func(context.Context, retryflow.State) (o retryflow.Outcome) {
		time.Sleep(time.Second)
		if len(script) > 0 && script[0] {
			o.Err = errRefused
		}
		script = script[min(1, len(script)):]
		return o
	}
}

// pipelines are made anew for each run.
var pipelines = map[string]func() retryflow.Pipeline{
	"copying": copying,
	"polling": func() retryflow.Pipeline {
		polls := 0
		return retryflow.Pipeline{Tasks: []retryflow.Task{
			{Label: "submit", Run: failing(true, true), Rules: retryflow.Rules{{When: anyErr, Do: retryflow.Retry, Policy: retry.Policy{MaxAttempts: 4, Backoff: retry.Linear(time.Second), Jitter: retry.FullJitter}}}},
			{Label: "poll", Run: failing(), Rules: retryflow.Rules{
				{When: func(retryflow.Outcome) (bool, error) { polls++; return polls < 4, nil }, Do: retryflow.Jump, To: "poll", Delay: waiting(5 * time.Second)},
			}},
			{Label: "fetch", Run: failing()},
		}}
	},
	"fallback": func() retryflow.Pipeline {
		return retryflow.Pipeline{Policy: retry.Policy{MaxAttempts: 5}, Tasks: []retryflow.Task{
			{Label: "first", Run: failing(true), Rules: retryflow.Rules{{When: anyErr, Do: retryflow.Jump, To: "second"}}},
			{Label: "skipped", Run: failing()},
			{Label: "second", Run: failing(true, true), Rules: retryflow.Rules{
				{When: anyErr, Do: retryflow.Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Exponential{}}, Delay: waiting(2 * time.Second)},
				{Do: retryflow.Break},
			}},
		}}
	},
	"failing": func() retryflow.Pipeline {
		return retryflow.Pipeline{Tasks: []retryflow.Task{
			{Label: "check", Run: failing(false, false, true), Rules: retryflow.Rules{{When: anyErr, Do: retryflow.Continue}}},
			{Label: "load", Run: failing(true, true, true), Rules: retryflow.Rules{
				{When: anyErr, Do: retryflow.Retry, Policy: retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second), Jitter: retry.EqualJitter}},
			}},
			{Label: "never", Run: failing()},
		}}
	},
}

func checkRuns(name string, lines []string) error {
	records, err := flowlog.Read(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	if err != nil {
		return err
	}
	calls, err := retrylog.Replay(records)
	return errors.Join(err, flowlog.CheckRuns(pipelines[name](), calls))
}

// Of all changes of one line, or of two that are swapped, 98 of 100 are found. Not
// found are the error of a task that goes on, and the text of a fault.
func TestCheckRunsFindsEachChange(t *testing.T) {
	missed, lost, all := map[string]int{}, 0, 0
	for name, made := range pipelines {
		lines := strings.Split(strings.TrimSuffix(logOfPipeline(t, made()), "\n"), "\n")
		require.NoError(t, checkRuns(name, lines), name)
		try := func(kind string, changed []string) {
			if all++; checkRuns(name, changed) == nil {
				missed[kind]++
				lost++
			}
		}
		for i, line := range lines {
			try("removed", slices.Delete(slices.Clone(lines), i, i+1))
			for j := range i {
				swapped := slices.Clone(lines)
				swapped[i], swapped[j] = lines[j], line
				try("swapped", swapped)
			}
			for key, value := range changes(t, line) {
				try(key, slices.Replace(slices.Clone(lines), i, i+1, value))
			}
		}
	}
	t.Logf("%d changes, not found: %v", all, missed)
	assert.LessOrEqual(t, lost*100, all*2)
	assert.Subset(t, []string{"err", "faults"}, slices.Collect(maps.Keys(missed)))
}

// changes returns a line with each of its fields changed.
func changes(t *testing.T, line string) map[string]string {
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &fields))
	lines := map[string]string{}
	add := func(key string, value any) {
		changed := maps.Clone(fields)
		changed[key] = value
		data, err := json.Marshal(changed)
		require.NoError(t, err)
		lines[key] = string(data)
	}
	for key, value := range fields {
		switch text, _ := value.(string); key {
		case "time", "due":
			at, err := time.Parse(time.RFC3339Nano, text)
			require.NoError(t, err)
			value = at.Add(time.Hour)
		case "took", "elapsed", "delay", "lo", "hi", "computed":
			d, err := time.ParseDuration(text)
			require.NoError(t, err)
			value = (d + time.Hour).String()
		case "kind", "reason", "directive":
			value = map[string]string{
				"attempt_started": "attempt_finished", "attempt_finished": "call_finished", "retry_scheduled": "call_finished", "call_finished": "retry_scheduled",
				"success": "canceled", "attempts_exhausted": "not_retryable", "continue": "break", "retry": "fail", "jump": "continue", "break": "continue",
			}[text]
		case "faults":
			value = []string{"rule 0: when: another"}
		case "attempt", "max", "rule", "limit":
			value = value.(float64) + 1
		default: // key, task, to, err, seed
			value = text + "1"
		}
		add(key, value)
	}
	return lines
}

// What the check says about runs that are not complete, or not of this pipeline.
func TestCheckRuns(t *testing.T) {
	log := strings.Split(strings.TrimSuffix(logOfPipeline(t, copying()), "\n"), "\n")
	hour := func(line int) []string {
		changed := slices.Clone(log)
		changed[line-1] = strings.Replace(changed[line-1], "T00:", "T01:", 1)
		return changed
	}
	for name, row := range map[string]struct {
		lines []string
		says  string
	}{
		"all":                        {log, ""},
		"nothing":                    {nil, ""},
		"a second run":               {slices.Concat(log, strings.Split(strings.ReplaceAll(strings.Join(log, "\n"), `"key":"7"`, `"key":"8"`), "\n")), ""},
		"the same run again":         {slices.Concat(log, log), "line 20: "},
		"cut off between two tasks":  {log[:6], "line 6: the log ends before task store"},
		"cut off in a task":          {log[:5], "line 5: task fetch did not stop"},
		"without its first task":     {log[6:], "task fetch comes next"},
		"without a task":             {slices.Concat(log[:10], log[13:]), "task fetch comes next"},
		"without a retry":            {slices.Concat(log[:2], log[3:]), "the retry before it is missing"},
		"without the wait of a jump": {slices.Concat(log[:8], log[9:]), "the wait before the jump is missing"},
		"a clock that is set":        {hour(5), "time goes on by 1h0m0.03s, and elapsed by 30ms"},
	} {
		if err := checkRuns("copying", row.lines); row.says == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, row.says, name)
		}
	}
	limited := copying()
	limited.MaxJumps = 1
	limited.Tasks[1].Rules[0].When = always
	calls := replay(t, logOfPipeline(t, limited))
	assert.NoError(t, flowlog.CheckRuns(limited, calls), "the second jump ends the run")
	limited.MaxJumps = 2
	assert.ErrorContains(t, flowlog.CheckRuns(limited, calls), "the wait before the jump is missing")
}
