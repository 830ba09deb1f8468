package noetl_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl"
)

// conformance holds the rows that were made from NoETL's document.
type conformance struct {
	Delays []struct {
		Backoff  string
		Delay    float64 `json:"delay_s"`
		Attempts int
		Delays   []float64 `json:"delays_s"`
	}
	Eval []struct {
		Name     string
		YAML     string
		Outcomes []map[string]any
		Runs     int
		Delays   []float64  `json:"delays_s"`
		Window   [2]float64 `json:"delay_window_s"`
		SameSeed bool       `json:"same_seed_same_delay"`
		Result   string
		Reported string
		Error    string `json:"error_mentions"`
	}
	Defaults struct {
		Attempts int
		Backoff  string
		Delay    float64 `json:"delay_s"`
		Error    string  `json:"unmatched_error"`
		Success  string  `json:"unmatched_success"`
	}
	Pipelines []map[string]any
}

func load(t *testing.T) (c conformance) {
	data, err := os.ReadFile("testdata/noetl.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &c))
	return c
}

// outcome converts the mapping of a row or a test to an outcome.
func outcome(m map[string]any) retryflow.Outcome {
	o := retryflow.Outcome{Data: maps.Clone(m), Result: m["result"]}
	delete(o.Data, "status")
	delete(o.Data, "result")
	if m["status"] == "error" {
		o.Err = errors.New("it failed")
	}
	return o
}

// A trace is the result of running one task.
type trace struct {
	runs     int
	delays   []float64 // in seconds, between the attempts
	result   string    // the last directive; "fail" if no attempts were left
	reported string    // the texts of all faults and of the error
}

// follow runs a task with these rules. The task returns one outcome after another, and repeats
// the last outcome.
func follow(rules retryflow.Rules, source func() uint64, outcomes ...map[string]any) (tr trace) {
	ended := time.Now()
	var last retryflow.Directive
	p := retryflow.Pipeline{
		Tasks: []retryflow.Task{{Label: "task", Rules: rules, Run: func(context.Context, retryflow.State) retryflow.Outcome {
			if tr.runs++; tr.runs > 1 {
				tr.delays = append(tr.delays, time.Since(ended).Seconds())
			}
			ended = time.Now()
			return outcome(outcomes[min(tr.runs, len(outcomes))-1])
		}}},
		Policy: retry.Policy{Source: source},
		OnEvent: func(_ context.Context, e retryflow.Event) {
			if e.Kind == retry.AttemptFinished {
				last = e.Directive
			}
			for _, fault := range e.Faults {
				tr.reported += fault.Error() + "\n"
			}
		},
	}
	err := p.Run(context.Background(), nil)
	tr.result = string(last)
	if err != nil {
		tr.result = "fail"
		tr.reported += err.Error()
	}
	return tr
}

func TestDelays(t *testing.T) {
	rows := load(t).Delays
	require.Len(t, rows, 3)
	for _, row := range rows {
		t.Run(row.Backoff, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data, err := json.Marshal(map[string]any{"eval": []any{map[string]any{
					"expr": "{{ outcome.status == 'error' }}", "do": "retry", "attempts": row.Attempts, "backoff": row.Backoff, "delay": row.Delay}}})
				require.NoError(t, err)
				rules, err := noetl.ParseRules(data, nil)
				require.NoError(t, err)
				tr := follow(rules, nil, map[string]any{"status": "error"})
				assert.Equal(t, row.Delays, tr.delays)
				assert.Equal(t, row.Attempts, tr.runs)
				assert.Equal(t, "fail", tr.result)
			})
		})
	}
}

func TestEval(t *testing.T) {
	rows := load(t).Eval
	require.Len(t, rows, 16)
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := func(seed uint64) trace {
					source := rand.NewPCG(seed, 0).Uint64
					rules, err := noetl.ParseRules([]byte(row.YAML), source)
					require.NoError(t, err)
					return follow(rules, source, row.Outcomes...)
				}
				if row.Error != "" {
					_, err := noetl.ParseRules([]byte(row.YAML), nil)
					require.ErrorContains(t, err, row.Error)
					return
				}
				tr := run(1)
				assert.Equal(t, row.Runs, tr.runs)
				assert.Equal(t, row.Result, tr.result)
				assert.Contains(t, tr.reported, row.Reported)
				// A success has no error to compare, so a fault is expected.
				if row.Reported == "" && row.Result != "fail" && row.Name != "python exception" {
					assert.Empty(t, tr.reported)
				}
				if row.SameSeed {
					require.Len(t, tr.delays, 1)
					assert.GreaterOrEqual(t, tr.delays[0], row.Window[0])
					assert.LessOrEqual(t, tr.delays[0], row.Window[1])
					assert.Equal(t, tr, run(1))
					assert.NotEqual(t, tr, run(2))
					return
				}
				assert.Equal(t, row.Delays, append([]float64{}, tr.delays...))
			})
		})
	}
}

func TestDefaults(t *testing.T) {
	defaults := load(t).Defaults
	rules, err := noetl.ParseRules([]byte("eval:\n- expr: \"{{ outcome.status == 'error' }}\"\n  do: retry\n"), nil)
	require.NoError(t, err)
	assert.Equal(t, retry.Policy{MaxAttempts: defaults.Attempts, Backoff: retry.Fixed(defaults.Delay * float64(time.Second))}, rules[0].Policy)
	assert.Equal(t, "fixed", defaults.Backoff)

	rules, err = noetl.ParseRules([]byte("eval:\n- expr: \"{{ false }}\"\n  do: break\n"), nil)
	require.NoError(t, err)
	for status, want := range map[string]string{"error": defaults.Error, "success": defaults.Success} {
		assert.Equal(t, want, follow(rules, nil, map[string]any{"status": status}).result)
		assert.Equal(t, want, follow(nil, nil, map[string]any{"status": status}).result)
	}
}

// The rows are prose. The test writes them as YAML: a pagination in which each fetch fails a
// few times, and a poll.
func TestPipelines(t *testing.T) {
	rows := load(t).Pipelines
	require.Len(t, rows, 5)
	const pages = `
- fetch_page:
    kind: http
    eval:
      - {expr: "{{ outcome.status == 'error' }}", do: retry, attempts: 3, delay: 1}
      - {expr: "{{ iter.page < outcome.result.pages }}", do: jump, to: fetch_page, set_iter: {page: "{{ iter.page + 1 }}"}}
      - else: {do: continue}
- store: {kind: postgres}
`
	const poll = `
- poll:
    kind: http
    eval:
      - {expr: "{{ not outcome.result.ready }}", do: jump, to: poll, delay: 5}
      - else: {do: continue}
`
	for i, yaml := range []string{pages, pages, poll, poll} {
		row := rows[i]
		number := func(key string) int { n, _ := row[key].(float64); return int(n) }
		t.Run(row["name"].(string), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tasks, err := noetl.ParseTasks([]byte(yaml), nil)
				require.NoError(t, err)
				runs := map[string]int{}
				p := pipelineOf(tasks, func(label string, _ retryflow.State) (o retryflow.Outcome) {
					runs[label]++
					if label == "fetch_page" && runs[label]%(number("fail_per_page")+1) != 0 {
						o.Err = errors.New("busy")
					}
					o.Result = map[string]any{"pages": number("pages"), "ready": runs[label] == number("ready_on")}
					return o
				})
				p.MaxJumps = number("max_jumps")
				began, state := time.Now(), retryflow.State{"iter": map[string]any{"page": 1, "size": 50}}
				err = p.Run(t.Context(), state)
				if mentions, fails := row["error_mentions"].(string); fails {
					assert.ErrorContains(t, err, mentions)
				} else {
					assert.NoError(t, err)
					assert.Equal(t, map[string]any{"page": max(1, number("pages")), "size": 50}, state["iter"])
				}
				assert.Equal(t, []int{number("fetch_runs"), number("poll_runs"), min(1, number("fetch_runs"))}, []int{runs["fetch_page"], runs["poll"], runs["store"]})
				if waits := number("waited_s") + number("fail_per_page")*number("pages"); err == nil {
					assert.Equal(t, time.Duration(waits)*time.Second, time.Since(began))
				}
			})
		})
	}
	mentions := rows[4]["error_mentions"].(string)
	_, err := noetl.ParseTasks([]byte("- a:\n    eval:\n      - else: {do: jump, to: "+mentions+"}\n"), nil)
	assert.EqualError(t, err, `noetl: line 3: [0].a.eval[0].else: to is "nosuch": no task has that label`)
	tr := follow(rulesOf(t, "eval: [{else: {do: jump, to: "+mentions+"}}]"), nil, map[string]any{"status": "success"})
	assert.Zero(t, tr.runs)
	assert.Contains(t, tr.reported, mentions)
}
