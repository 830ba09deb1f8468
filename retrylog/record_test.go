package retrylog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

func TestWriterGolden(t *testing.T) {
	ctx := retrylog.WithKey(context.Background(), "17")
	log := logOf(t, ctx, policy, failing(errRefused, retry.After(time.Second, errRefused)))
	assert.Equal(t, `{"key":"17","kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}
{"key":"17","kind":"attempt_finished","time":"2000-01-01T00:00:00.03Z","attempt":1,"max":3,"err":"connection refused","took":"30ms","elapsed":"30ms"}
{"key":"17","kind":"retry_scheduled","time":"2000-01-01T00:00:00.03Z","attempt":1,"max":3,"err":"connection refused","elapsed":"30ms","delay":"219.325191ms","due":"2000-01-01T00:00:00.249325191Z","lo":"160ms","hi":"240ms","seed":"42"}
{"key":"17","kind":"attempt_started","time":"2000-01-01T00:00:00.249325191Z","attempt":2,"max":3,"elapsed":"249.325191ms"}
{"key":"17","kind":"attempt_finished","time":"2000-01-01T00:00:00.279325191Z","attempt":2,"max":3,"err":"connection refused","took":"30ms","elapsed":"279.325191ms"}
{"key":"17","kind":"retry_scheduled","time":"2000-01-01T00:00:00.279325191Z","attempt":2,"max":3,"err":"connection refused","elapsed":"279.325191ms","delay":"1.063964157s","due":"2000-01-01T00:00:01.343289348Z","lo":"1s","hi":"1.4s","retry_after":"1s","seed":"42"}
{"key":"17","kind":"attempt_started","time":"2000-01-01T00:00:01.343289348Z","attempt":3,"max":3,"elapsed":"1.343289348s"}
{"key":"17","kind":"attempt_finished","time":"2000-01-01T00:00:01.373289348Z","attempt":3,"max":3,"took":"30ms","elapsed":"1.373289348s"}
{"key":"17","kind":"stopped","time":"2000-01-01T00:00:01.373289348Z","attempt":3,"max":3,"elapsed":"1.373289348s","reason":"success"}
`, log)
}

// A Recorder takes the events of any number of calls. The records that it
// returns belong to the caller.
func TestRecorderIsShared(t *testing.T) {
	var recorder retrylog.Recorder
	p := retry.Policy{MaxAttempts: 5, OnEvent: recorder.OnEvent}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			_ = retry.Do(retrylog.WithKey(context.Background(), fmt.Sprint(i)), p, func(context.Context) error {
				recorder.Records()
				return errRefused
			})
		})
	}
	wg.Wait()
	records := recorder.Records()
	require.Len(t, records, 50*15)
	calls, err := retrylog.Replay(records)
	require.NoError(t, err)
	require.Len(t, calls, 50)

	key := records[0].Key
	records[0].Key = "another"
	assert.Equal(t, key, recorder.Records()[0].Key)
}

type brokenWriter struct{ after int }

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, errRefused
	}
	return len(p), nil
}

func TestWriterKeepsItsFirstError(t *testing.T) {
	broken := &brokenWriter{after: 2}
	w := retrylog.NewWriter(broken)
	p := policy
	p.Backoff, p.OnEvent = nil, w.OnEvent
	require.Error(t, retry.Do(context.Background(), p, func(context.Context) error { return errRefused }))
	assert.EqualError(t, w.Err(), "retrylog: connection refused")
	assert.Equal(t, -1, broken.after, "nothing is written after an error")
}

func TestRecordRoundTrip(t *testing.T) {
	for _, key := range []string{"", "17", `"{}`, "a\nb"} {
		record := retrylog.Record{Key: key, Event: retry.Event{Kind: retry.Stopped, Time: time.Unix(7, 0).UTC(), Attempt: 1, Max: 2, Reason: retry.ReasonExhausted, Class: "busy", Resets: 2}}
		data, err := json.Marshal(record)
		require.NoError(t, err)
		back := retrylog.Record{Key: "before", Line: 9}
		require.NoError(t, json.Unmarshal(data, &back))
		assert.Equal(t, record, back)
		assert.Equal(t, key != "", bytes.HasPrefix(data, []byte(`{"key":`)))
	}
}

func TestRecordUnmarshal(t *testing.T) {
	before := retrylog.Record{Key: "17", Event: retry.Event{Kind: retry.Stopped, Attempt: 3}, Line: 9}
	for _, row := range []struct{ name, json, says string }{
		{"a key that is a number", `{"key":17}`, "retrylog: invalid record: key is 17: write a text"},
		{"a duplicate key", `{"key":"17","kind":"stopped","key":"17"}`, `retrylog: invalid record: duplicate key "key"`},
		{"a duplicate key of the event", `{"key":"17","max":1,"max":1}`, `retry: invalid event: duplicate key "max"`},
		{"an array", `[]`, "retry: invalid event: got [], want a mapping"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := before
			require.ErrorContains(t, json.Unmarshal([]byte(row.json), &got), row.says)
			assert.Equal(t, before, got, "an error changes nothing")
		})
	}
	for _, row := range []struct {
		name, json string
		want       retrylog.Record
	}{
		{"null", `null`, before},
		{"a key that is null", `{"key":null,"kind":"stopped"}`, retrylog.Record{Event: retry.Event{Kind: retry.Stopped}}},
		{"a key at the end", `{"kind":"stopped","\u006bey":"\u0061"}`, retrylog.Record{Key: "a", Event: retry.Event{Kind: retry.Stopped}}},
		{"a key in another object", `{"x":{"key":"a"},"kind":"stopped"}`, retrylog.Record{Event: retry.Event{Kind: retry.Stopped}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := before
			require.NoError(t, json.Unmarshal([]byte(row.json), &got))
			assert.Equal(t, row.want, got)
		})
	}
}
