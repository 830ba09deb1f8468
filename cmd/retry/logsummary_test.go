package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The size of the summary is bounded, whatever the log contains.
func TestSummaryIsBounded(t *testing.T) {
	for _, row := range []struct {
		step time.Duration
		n    int
		want string
	}{
		{time.Second, 60, "second"}, {time.Second, 61, "5 seconds"}, {time.Minute, 60, "minute"}, {time.Minute, 61, "2 minutes"},
		{time.Hour, 60, "hour"}, {time.Hour, 720, "day"}, {24 * time.Hour, 9000, "1,000 days"},
	} {
		var log strings.Builder
		for i := range row.n {
			at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * row.step)
			fmt.Fprintf(&log, `{"kind":"call_finished","time":%q,"attempt":1,"max":1,"reason":"reason %d","err":"error %[2]d"}`+"\n", at.Format(time.RFC3339), i)
		}
		var got summary
		require.NoError(t, json.Unmarshal([]byte(succeed(t, log.String(), "explain", "-json")), &got))
		sum := 0
		for _, bar := range got.Histogram {
			sum += bar.GaveUp
		}
		assert.Equal(t, row.n, sum, row.want)
		assert.LessOrEqual(t, len(got.Histogram), mostBars)
		assert.LessOrEqual(t, len(got.Reasons), mostGroups+1)
		text := succeed(t, log.String(), "explain")
		assert.Contains(t, text, "\nIN EACH "+strings.ToUpper(row.want)+" ")
		assert.NotContains(t, text, "\n...\n", row.want)
	}
}

// The commonest error is found among any number of other errors, and its count is never too high.
func TestCommonestErrorIsFound(t *testing.T) {
	line := `{"kind":"call_finished","attempt":1,"max":1,"reason":"deadline","err":"%s"}` + "\n"
	for _, row := range []struct{ before, common, after, least int }{{1000, 1000, 0, 990}, {0, 1000, 1000, 990}, {500, 100, 500, 90}, {100, 9, 100, 9}, {mostErrors, 0, 0, 1}} {
		var log strings.Builder
		for i := range row.before + row.after + 1 {
			if i == row.before {
				log.WriteString(strings.Repeat(fmt.Sprintf(line, "common"), row.common))
			}
			fmt.Fprintf(&log, line, fmt.Sprint("dial tcp 10.0.0.1:", i))
		}
		var got summary
		require.NoError(t, json.Unmarshal([]byte(succeed(t, log.String(), "explain", "-json")), &got))
		commonest := got.Reasons[0].Commonest
		assert.Equal(t, row.common > 0, commonest.Error == "common", "%v: %s", row, commonest.Error)
		assert.Equal(t, row.before+row.after >= mostErrors, commonest.AtLeast, row)
		assert.True(t, row.least <= commonest.Count && commonest.Count <= max(1, row.common), "%v: %d", row, commonest.Count)
	}
	var many tally
	for i := range 10 * mostErrors {
		many.add(fmt.Errorf("error %d", i))
		assert.LessOrEqual(t, len(many.counts), mostErrors)
	}
}
