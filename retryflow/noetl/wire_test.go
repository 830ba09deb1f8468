package noetl_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryflow"
	"github.com/goretry/retry/retryflow/noetl"
)

func TestWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules, err := noetl.ParseRules([]byte(`
eval:
  - expr: "{{ outcome.http.status >= 500 }}"
    do: break
  - expr: "{{ outcome.status == 'error' }}"
    do: retry
    backoff: linear
    delay: 1.5
`), nil)
		require.NoError(t, err)
		var wire []string
		var events []retryflow.Event
		runs := 0
		p := retryflow.Pipeline{
			Tasks: []retryflow.Task{{Label: "fetch", Rules: rules, Run: func(context.Context, retryflow.State) retryflow.Outcome {
				if runs++; runs == 1 {
					time.Sleep(250 * time.Millisecond)
					return retryflow.Outcome{Err: errors.New("refused")}
				}
				return retryflow.Outcome{Result: "page", Data: map[string]any{"http": map[string]any{"status": 200, "headers": map[string]any{"ETag": "1"}}}}
			}}},
			OnEvent: func(_ context.Context, e retryflow.Event) {
				m := noetl.Wire(e)
				if e.Kind == retry.CallFinished {
					assert.Nil(t, m)
					return
				}
				line, err := json.Marshal(m)
				require.NoError(t, err)
				wire, events = append(wire, string(line)), append(events, e)
			},
		}
		require.NoError(t, p.Run(t.Context(), nil))
		assert.Equal(t, []string{
			`{"attempt":1,"event":"task.started","retry":{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":-1,"task":"fetch","rule":-1},"task":"fetch","time":"2000-01-01T00:00:00Z"}`,
			`{"attempt":1,"directive":"retry","event":"task.processed",` +
				`"faults":["rule 0: when: {{ outcome.http.status \u003e= 500 }}: outcome.http is undefined: ask \"is defined\" first, or add \"| default(…)\""],` +
				`"outcome":{"error":{"message":"refused"},"meta":{"attempt":1,"duration_ms":250},"result":null,"status":"error"},` +
				`"retry":{"kind":"attempt_finished","time":"2000-01-01T00:00:00.25Z","attempt":1,"max":-1,"err":"refused","took":"250ms","elapsed":"250ms","task":"fetch","rule":1,"directive":"retry","limit":3,` +
				`"faults":["rule 0: when: {{ outcome.http.status \u003e= 500 }}: outcome.http is undefined: ask \"is defined\" first, or add \"| default(…)\""]},` +
				`"rule":1,"task":"fetch","time":"2000-01-01T00:00:00.25Z"}`,
			`{"attempt":1,"backoff":"linear","delay":1.5,"event":"task.retry_scheduled",` +
				`"retry":{"kind":"retry_scheduled","time":"2000-01-01T00:00:00.25Z","attempt":1,"max":-1,"err":"refused","elapsed":"250ms","delay":"1.5s","due":"2000-01-01T00:00:01.75Z","lo":"1.5s","hi":"1.5s","task":"fetch","rule":1,"directive":"retry","limit":3},` +
				`"task":"fetch","time":"2000-01-01T00:00:00.25Z"}`,
			`{"attempt":2,"event":"task.started","retry":{"kind":"attempt_started","time":"2000-01-01T00:00:01.75Z","attempt":2,"max":-1,"elapsed":"1.75s","task":"fetch","rule":-1},"task":"fetch","time":"2000-01-01T00:00:01.75Z"}`,
			`{"attempt":2,"directive":"continue","event":"task.processed",` +
				`"outcome":{"http":{"headers":{"etag":"1"},"status":200},"meta":{"attempt":2,"duration_ms":0},"result":"page","status":"success"},` +
				`"retry":{"kind":"attempt_finished","time":"2000-01-01T00:00:01.75Z","attempt":2,"max":-1,"elapsed":"1.75s","task":"fetch","rule":-1,"directive":"continue"},` +
				`"rule":-1,"task":"fetch","time":"2000-01-01T00:00:01.75Z"}`,
		}, wire)

		for i, want := range events {
			e, err := noetl.ReadWire([]byte(wire[i]))
			require.NoError(t, err)
			line, err := json.Marshal(want)
			require.NoError(t, err)
			again, err := json.Marshal(e)
			require.NoError(t, err)
			assert.Equal(t, string(line), string(again))
			assert.Equal(t, []any{want.Outcome.Attempt, want.Outcome.Took, want.Outcome.Status()}, []any{e.Outcome.Attempt, e.Outcome.Took, e.Outcome.Status()})
		}
		first, err := noetl.ReadWire([]byte(wire[1]))
		require.NoError(t, err)
		assert.EqualError(t, first.Outcome.Err, "refused")
		assert.Equal(t, map[string]any{"error": map[string]any{"message": "refused"}}, first.Outcome.Data)
		last, err := noetl.ReadWire([]byte(wire[4]))
		require.NoError(t, err)
		assert.Equal(t, retryflow.Outcome{
			Result: "page", Task: "fetch", Attempt: 2,
			Data: map[string]any{"http": map[string]any{"headers": map[string]any{"etag": "1"}, "status": json.Number("200")}},
		}, last.Outcome)
	})
}

func TestReadWireFails(t *testing.T) {
	for data, want := range map[string]string{
		``:                         "noetl: event: EOF",
		`{"event":`:                "noetl: event: unexpected EOF",
		`{}`:                       `noetl: event: the key "event" is missing: write task.started, task.processed or task.retry_scheduled`,
		`{"event":"task.started"}`: `noetl: event "task.started": the key "retry" is missing: only events of this package can be read back`,
		`{"event":"task.started","retry":{"computed":"1"}}`: `computed is "1"`,
	} {
		_, err := noetl.ReadWire([]byte(data))
		assert.ErrorContains(t, err, want, data)
	}
}

// Wire returns valid JSON for every outcome.
func TestWireOfValuesThatJSONCannotHold(t *testing.T) {
	itself := map[string]any{"n": 1}
	itself["self"] = itself
	result := map[string]any{
		"ok": 1, "nan": math.NaN(), "list": []any{math.Inf(-1), "x"}, "func": func() {}, "any": map[any]any{1: "a", "b": math.Inf(1)}, "itself": itself,
		"struct": struct{ C chan int }{}, "floats": []float64{math.NaN()},
	}
	line, err := json.Marshal(noetl.Wire(retryflow.Event{Event: retry.Event{Kind: retry.AttemptFinished}, Outcome: retryflow.Outcome{Result: result}}))
	require.NoError(t, err)
	var wire struct {
		Outcome struct{ Result json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(line, &wire))
	assert.JSONEq(t, `{
		"ok": 1, "nan": {"not_json": "NaN"}, "list": [{"not_json": "-Inf"}, "x"], "func": {"not_json": "func()"}, "any": {"1": "a", "b": {"not_json": "+Inf"}},
		"itself": {"n": 1, "self": {"not_json": "map[string]interface {}"}}, "struct": {"not_json": "struct { C chan int }"}, "floats": [{"not_json": "NaN"}]
	}`, string(wire.Outcome.Result))
}

// NoETL has no event for the wait before a jump.
func TestWireOfTheWaitBeforeAJump(t *testing.T) {
	e := retryflow.Event{Event: retry.Event{Kind: retry.RetryScheduled}, Directive: retryflow.Jump}
	assert.Nil(t, noetl.Wire(e))
	e.Directive = retryflow.Retry
	for name, backoff := range map[string]retry.Backoff{"fixed": retry.Fixed(1), "linear": retry.Linear(1), "exponential": retry.Exponential{Base: 1}} {
		e.Backoff = backoff
		assert.Equal(t, name, noetl.Wire(e)["backoff"])
	}
}
