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

func checked(name string, lines []string) error {
	records, err := flowlog.Read(strings.NewReader(strings.Join(lines, "\n") + "\n"))
	if err != nil {
		return err
	}
	calls, err := retrylog.Replay(records)
	for _, c := range calls {
		err = errors.Join(err, flowlog.CheckPipeline(c, pipelines[name]()))
	}
	return err
}

// Of all changes of one line, or of two that are swapped, nine in ten are found. Not found
// are some that no other line of the call repeats: a time, the error of a task that goes on,
// the text of a fault, a task that is missing as a whole.
func TestCheckPipelineFindsEachChange(t *testing.T) {
	missed, lost, all := map[string]int{}, 0, 0
	for name, made := range pipelines {
		lines := strings.Split(strings.TrimSuffix(logOfPipeline(t, made()), "\n"), "\n")
		require.NoError(t, checked(name, lines), name)
		try := func(kind string, changed []string) {
			if all++; checked(name, changed) == nil {
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
	assert.LessOrEqual(t, lost*10, all)
	assert.Subset(t, []string{"elapsed", "err", "faults", "reason", "removed", "swapped", "time", "took"}, slices.Collect(maps.Keys(missed)))
}

// changes returns a line with each of its fields changed.
func changes(t *testing.T, line string) map[string]string {
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &fields))
	lines := map[string]string{}
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
		changed := maps.Clone(fields)
		changed[key] = value
		data, err := json.Marshal(changed)
		require.NoError(t, err)
		lines[key] = string(data)
	}
	return lines
}
