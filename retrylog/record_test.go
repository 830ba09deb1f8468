package retrylog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

func TestRecordRoundTrip(t *testing.T) {
	for _, key := range []string{"", "17", `"{}`, "a\nb"} {
		record := retrylog.Record{Key: key, Event: retry.Event{Kind: retry.CallFinished, Time: time.Unix(7, 0).UTC(), Attempt: 4, Max: 2, Decision: retry.Decision{Reason: retry.ReasonExhausted, Number: 1, Reset: true, Class: "busy"}}}
		data, err := json.Marshal(record)
		require.NoError(t, err)
		back := retrylog.Record{Key: "before", Line: 9}
		require.NoError(t, json.Unmarshal(data, &back))
		assert.Equal(t, record, back)
		assert.Equal(t, key != "", bytes.HasPrefix(data, []byte(`{"key":`)))
	}
	var out bytes.Buffer
	retrylog.NewWriter(&out).OnEvent(retrylog.WithKey(context.Background(), "17"), retry.Event{Kind: retry.CallFinished, Time: time.Unix(7, 0).UTC(), Attempt: 1, Max: 2})
	assert.Equal(t, `{"key":"17","kind":"call_finished","time":"1970-01-01T00:00:07Z","attempt":1,"max":2}`+"\n", out.String())
}

func TestRecordUnmarshal(t *testing.T) {
	before := retrylog.Record{Key: "17", Event: retry.Event{Kind: retry.CallFinished, Attempt: 3}, Line: 9}
	stopped := retry.Event{Kind: retry.CallFinished}
	for _, row := range []struct {
		name, json string
		want       retrylog.Record
		says       string
	}{
		{"a hedge that is a number", `{"hedged":7}`, retrylog.Record{}, `hedged is "7": write true or false`},
		{"an array", `[]`, before, "retrylog: event: got [], want a mapping such as {\"kind\": \"call_finished\", ...}"},
		{"null", `null`, retrylog.Record{}, ""},
		{"a key at the end", `{"kind":"call_finished","\u006bey":"\u0061"}`, retrylog.Record{Key: "a", Event: stopped}, ""},
		{"a key in another object", `{"x":{"key":"a"},"kind":"call_finished"}`, retrylog.Record{Event: stopped}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := before
			if err := json.Unmarshal([]byte(row.json), &got); row.says == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, row.says)
			}
			assert.Equal(t, row.want, got)
		})
	}
}

// The package imports only the root package and internal packages, so a program that logs calls
// does not need the packages for pipelines and queues.
func TestNeedsTheRootAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var ours []string
	for path := range strings.FieldsSeq(string(out)) {
		if within, ok := strings.CutPrefix(path, "github.com/goretry/retry/"); ok && !strings.HasPrefix(within, "internal/") {
			ours = append(ours, within)
		}
	}
	assert.Equal(t, []string{"retrylog"}, ours)
}
