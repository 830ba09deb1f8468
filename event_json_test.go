package retry_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
)

var fullEvent = retry.Event{
	Kind: retry.RetryScheduled, Time: time.Date(2026, 11, 20, 10, 31, 0, 123456789, time.UTC), Attempt: 2, Max: 5, Err: errDial, Cause: errShutdown,
	Took: 1500 * time.Millisecond, Elapsed: 90 * time.Second, Delay: 200 * time.Millisecond, Due: time.Date(2026, 11, 20, 10, 31, 0, 323456789, time.UTC),
	Resets: 3, Lo: 150 * time.Millisecond, Hi: 250 * time.Millisecond, RetryAfter: time.Nanosecond, Seed: math.MaxUint64,
	Class: "throttled", Reason: retry.ReasonRetryAfter,
}

const fullJSON = `{"kind":"retry_scheduled","time":"2026-11-20T10:31:00.123456789Z","attempt":2,"max":5,"resets":3,` +
	`"err":"dial tcp: connection refused","cause":"the server shuts down","took":"1.5s","elapsed":"1m30s","delay":"200ms",` +
	`"due":"2026-11-20T10:31:00.323456789Z","lo":"150ms","hi":"250ms","retry_after":"1ns","seed":"18446744073709551615","class":"throttled","reason":"retry_after_too_long"}`

func TestEventJSON(t *testing.T) {
	for _, row := range []struct {
		name  string
		event retry.Event
		json  string
	}{
		{"every field", fullEvent, fullJSON},
		{"zero fields are left out, except kind, time, attempt and max", retry.Event{}, `{"kind":"","time":"0001-01-01T00:00:00Z","attempt":0,"max":0}`},
		{"an error with an empty text is kept", retry.Event{Kind: retry.AttemptFinished, Err: errors.New("")},
			`{"kind":"attempt_finished","time":"0001-01-01T00:00:00Z","attempt":0,"max":0,"err":""}`},
		{"the smallest durations", retry.Event{Took: math.MinInt64, Delay: math.MaxInt64, Lo: -1},
			`{"kind":"","time":"0001-01-01T00:00:00Z","attempt":0,"max":0,"took":"-2562047h47m16.854775808s","delay":"2562047h47m16.854775807s","lo":"-1ns"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			data, err := json.Marshal(row.event)
			require.NoError(t, err)
			assert.Equal(t, row.json, string(data))
		})
	}
	t.Run("in a slice and behind a pointer", func(t *testing.T) {
		data, err := json.Marshal([]*retry.Event{&fullEvent})
		require.NoError(t, err)
		assert.Equal(t, "["+fullJSON+"]", string(data))
	})
}
