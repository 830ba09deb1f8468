package retrylog_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

var fullEvent = retry.Event{
	Kind: retry.RetryScheduled, Time: time.Date(2026, 11, 20, 10, 31, 0, 123456789, time.UTC), Attempt: 2, Max: 5, Err: errors.New("dial tcp: connection refused"), Cause: errors.New("the server shuts down"),
	Took: 1500 * time.Millisecond, Elapsed: 90 * time.Second, Decision: retry.Decision{Number: 1, Reset: true, Delay: 200 * time.Millisecond, Lo: 150 * time.Millisecond, Hi: 250 * time.Millisecond, RetryAfter: time.Nanosecond, Seed: math.MaxUint64, Class: "throttled", Reason: retry.ReasonRetryAfter}, Due: time.Date(2026, 11, 20, 10, 31, 0, 323456789, time.UTC),
}

func readEvent(data []byte) (retry.Event, error) {
	var r retrylog.Record
	err := r.UnmarshalJSON(data)
	return r.Event, err
}

func TestReadEvent(t *testing.T) {
	for name, event := range map[string]retry.Event{
		"every field":            fullEvent,
		"zero":                   {},
		"an error without text":  {Kind: retry.AttemptFinished, Err: errors.New("")},
		"the smallest durations": {Took: math.MinInt64, Decision: retry.Decision{Delay: math.MaxInt64, Lo: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(event)
			require.NoError(t, err)
			back, err := readEvent(data)
			require.NoError(t, err)
			assert.Equal(t, textual(event), textual(back))
		})
	}
	t.Run("a time keeps its instant in any zone", func(t *testing.T) {
		event := fullEvent
		event.Time = event.Time.In(time.FixedZone("", 5400))
		data, err := json.Marshal(event)
		require.NoError(t, err)
		back, err := readEvent(data)
		require.NoError(t, err)
		back.Time = back.Time.UTC()
		assert.Equal(t, textual(fullEvent), textual(back))
	})
	for _, row := range []struct{ name, json, says string }{
		{"a duration without a unit", `{"took":5}`, `took is "5": write a duration as text, such as "200ms" or "1m30s"`},
		{"an empty duration", `{"retry_after":""}`, `retry_after is "": write a duration as text`},
		{"a seed below zero", `{"seed":"-1"}`, `seed is "-1": write a whole number`},
		{"an unknown time", `{"time":"today"}`, `time is "today": write an instant such as "2026-11-20T10:31:00Z"`},
		{"an attempt that is a fraction", `{"attempt":1.5}`, `attempt is "1.5": write a whole number`},
		{"a max beyond all integers", `{"max":9223372036854775808}`, `max is "9223372036854775808": write a whole number`},
		{"a character that a terminal acts on", "{\"took\":\"\u202e\"}", `took is "\u202e": write`},
		{"an array", `[]`, `retrylog: event: got [], want a mapping such as {"kind": "call_finished", ...}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			e, err := readEvent([]byte(row.json))
			require.ErrorContains(t, err, row.says)
			assert.Zero(t, e)
		})
	}
	for _, row := range []struct {
		name, json string
		want       retry.Event
	}{
		{"every key is null", `{"kind":null,"time":null,"attempt":null,"max":null,"number":null,"reset":null,"err":null,"cause":null,"took":null,"elapsed":null,` +
			`"delay":null,"due":null,"lo":null,"hi":null,"retry_after":null,"seed":null,"class":null,"reason":null}`, retry.Event{}},
		{"unknown keys are skipped, even twice or nested", `{"key":"17","key":"18","x":{"took":5,"y":["}",{"took":6}]},"attempt":3,"x":[],"kind":"call_finished"}`,
			retry.Event{Kind: retry.CallFinished, Attempt: 3, Decision: retry.Decision{Number: 3}}},
		{"white space", "{\n\t\"attempt\" : 3 ,\r\n \"took\":\"1s\" } ", retry.Event{Attempt: 3, Took: time.Second, Decision: retry.Decision{Number: 3}}},
		{"escapes", `{"\u0061ttempt":3,"took":"\u0031s","se\u0065d":"4\u0032"}`, retry.Event{Attempt: 3, Took: time.Second, Decision: retry.Decision{Number: 3, Seed: 42}}},
		{"keys in other capitals are unknown", `{"Attempt":3,"ATTEMPT":"x"}`, retry.Event{}},
		{"numbers as texts, and texts as numbers", `{"attempt":"3","seed":42,"class":7}`, retry.Event{Attempt: 3, Decision: retry.Decision{Number: 3, Seed: 42, Class: "7"}}},
		{"a key that is there twice has its last value", `{"took":"1s","took":"2s"}`, retry.Event{Took: 2 * time.Second}},
		{"an empty object", `{}`, retry.Event{}},
		{"null instead of an event", `null`, retry.Event{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := readEvent([]byte(strings.TrimSpace(row.json)))
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

// textual formats an event with the texts of its errors instead of the errors.
func textual(e retry.Event) string {
	texts := ""
	for _, err := range []*error{&e.Err, &e.Cause} {
		if *err != nil {
			texts += fmt.Sprintf(" error %q", (*err).Error())
			*err = nil
		}
		texts += ";"
	}
	return fmt.Sprintf("%+v%s", e, texts)
}

// The JSON of every event can be read back.
func FuzzEventJSON(f *testing.F) {
	f.Add("retry_scheduled", int64(0), 1, 5, 0, "boom", int64(5), uint64(5), "attempts_exhausted")
	f.Add("", int64(-62135596800), 0, 0, 0, "", int64(0), uint64(0), "")
	f.Add("call_finished", int64(253402300799), math.MaxInt, -1, math.MaxInt, "left", int64(math.MinInt64), uint64(math.MaxUint64), "left")
	f.Add("of a newer version", int64(1), math.MinInt, 0, -1, "two\nlines \u2028 <&> \"\x00", int64(59999999999), uint64(1)<<63, "")
	f.Fuzz(func(t *testing.T, kind string, sec int64, attempt, most, number int, text string, length int64, seed uint64, reason string) {
		const year0, year9999 = -62167219200, 253402300799 // the years that JSON times can have
		at := time.Unix(min(max(sec, year0), year9999), int64(seed%1e9)).UTC()
		valid := func(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
		d := time.Duration(length)
		e := retry.Event{
			Kind: retry.EventKind(valid(kind)), Time: at, Due: at, Attempt: attempt, Max: most, Took: d, Elapsed: d / 2,
			Decision: retry.Decision{Delay: d / 3, Lo: d / 5, Hi: d / 7, RetryAfter: d / 11, Number: cmp.Or(number, attempt), Reset: number%2 != 0, Seed: seed, Class: valid(text), Reason: retry.Reason(valid(reason))},
		}
		if e.Kind == retry.RetryScheduled {
			e.Reason = cmp.Or(e.Reason, retry.ReasonRetry)
		}
		if len(text)%2 > 0 {
			e.Err = errors.New(valid(text))
			e.Cause = e.Err
		}
		data, err := json.Marshal(e)
		require.NoError(t, err)
		back, err := readEvent(data)
		require.NoError(t, err)
		assert.Equal(t, textual(e), textual(back))
		again, err := json.Marshal(back)
		require.NoError(t, err)
		assert.Equal(t, string(data), string(again))
	})
}
