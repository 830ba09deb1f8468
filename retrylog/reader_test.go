package retrylog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A log that is cut off anywhere is read up to the cut, and Read reports the cut. The records can
// be replayed. Only the last call may have no reason.
func TestCutOffAnywhere(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing()) + logOf(t, context.Background(), policy, failing(errRefused))
	for cut := range len(log) {
		records, err := retrylog.Read(strings.NewReader(log[:cut]))
		lines := strings.Count(log[:cut], "\n")
		rest := log[strings.LastIndex(log[:cut], "\n")+1 : cut]
		whole := json.Valid([]byte(rest)) // only the end of the line was cut off
		if rest == "" || whole {
			require.NoError(t, err, "cut at %d", cut)
		} else {
			require.ErrorIs(t, err, retrylog.ErrCutOff)
			require.Equal(t, lines+1, lineOf(t, err))
		}
		if whole {
			lines++
		}
		require.Len(t, records, lines)
		calls, err := retrylog.Replay(records)
		require.NoError(t, err)
		for i, c := range calls {
			if c.Reason == "" {
				require.Equal(t, len(calls)-1, i)
			}
		}
	}
}

// lineOf returns the line that an error names.
func lineOf(t *testing.T, err error) int {
	var wrong *retrylog.LineError
	require.ErrorAs(t, err, &wrong)
	return wrong.Record.Line
}

// A line is an event, a line of another program, or a line that a crash cut off. The next process
// continues on the line that was cut off. After a power failure, a file may contain NUL bytes.
func TestRead(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "a{b"), policy, failing())
	lines := strings.SplitAfter(log, "\n")
	first := strings.TrimSuffix(lines[0], "\n")
	zeros := strings.Repeat("\x00", 4096)
	texts := []string{
		`level=INFO msg="attempt started" kind=attempt_started attempt=1 max=3 elapsed=0s`,
		`level=INFO msg="attempt succeeded" kind=attempt_finished attempt=1 max=3 elapsed=1s took=1s`,
		`level=INFO msg="attempt failed" kind=attempt_finished attempt=1 max=3 elapsed=1s took=1s err=x`,
		`level=INFO msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 elapsed=1s delay=1s err=x`,
		`level=INFO msg="gave up" kind=call_finished attempt=1 max=3 elapsed=1s reason=deadline`,
	}
	cut := func(n int) string { return texts[n][:strings.LastIndex(texts[n], " ")] }
	for _, row := range []struct {
		name, log string
		lines     []int // the lines of the records
		cut       int   // the line that is cut off; 0 if no line is cut off
	}{
		{"nothing", "", nil, 0},
		{"empty lines, and ends of lines as on Windows", strings.ReplaceAll("\n"+log+"\n", "\n", "\r\n"), []int{2, 3, 4}, 0},
		{"no ends of lines", strings.ReplaceAll(log, "\n", ""), []int{1, 1, 1}, 0},
		{"no ends of lines, fields in another order",
			`{"max":3,"attempt":1,"kind":"attempt_started"}{"attempt":1,"max":3,"kind":"attempt_finished"} {"max":3,"attempt":1,"kind":"call_finished"}`, []int{1, 1, 1}, 0},
		{"no end of the last line, and cut off", strings.TrimSuffix(log, "\n") + `{"ki`, []int{1, 2, 3}, 3},
		{"cut off twice", "\n" + log[:20] + "\n" + log + log[:20], []int{3, 4, 5}, 2},

		{"types of another program", `{"time":"2000-01-01T00:00:00Z","level":"INFO","msg":"scaling","kind":"Deployment","attempt":3,"max":"3"}` + "\n" + log, []int{2, 3, 4}, 0},
		{"a key twice", `{"msg":"scaling","key":"a","key":"b"}` + "\n" + log, []int{2, 3, 4}, 0},
		{"an inner group", `{"level":"INFO","msg":"connected","req":{"kind":"x","attempt":1,"max":1}}` + "\n" + log, []int{2, 3, 4}, 0},
		{"no max", `{"level":"INFO","msg":"gave up","kind":"call_finished","attempt":7}` + "\n" + log, []int{2, 3, 4}, 0},
		{"no attempt", `{"level":"INFO","msg":"gave up","kind":"call_finished","max":7}` + "\n" + log, []int{2, 3, 4}, 0},
		{"no kind", `{"level":"INFO","msg":"gave up","attempt":7,"max":7}` + "\n" + log, []int{2, 3, 4}, 0},

		{"lines of other programs", "nonsense\n[]\n{}\nnull\n[{\"msg\":\"x\"}]\n{\"req\":{\"msg\":\"x\"}}\n" + `{"kind":7}` + "\n" + log, []int{8, 9, 10}, 0},
		{"an event after a prefix and before another word", strings.ReplaceAll("web-1 | "+strings.TrimSuffix(log, "\n"), "\n", " x\nweb-1 | "), []int{1, 2, 3}, 0},
		{"a line that is too long", log + `{"kind":"` + strings.Repeat("x", 5<<20), []int{1, 2, 3}, 4},
		{"text", strings.Join(texts, " \n") + "\n" + log, []int{1, 2, 3, 4, 5, 6, 7, 8}, 0},
		{"text, the start of an attempt is cut off before its elapsed time", cut(0) + "\n" + log, []int{2, 3, 4}, 1},
		{"text, the end of an attempt is cut off before its duration", cut(1) + "\n" + log, []int{2, 3, 4}, 1},
		{"text, the end of an attempt is cut off before its error", cut(2) + "\n" + log, []int{2, 3, 4}, 1},
		{"text, a retry is cut off before its error", cut(3) + "\n" + log, []int{2, 3, 4}, 1},
		{"text, the end of a call is cut off before its reason", cut(4) + "\n" + log, []int{2, 3, 4}, 1},
		{"zeros after a line", log + zeros, []int{1, 2, 3}, 4},
		{"zeros after part of a line", log + lines[0][:20] + zeros, []int{1, 2, 3}, 4},
		{"zeros between a line and the next process", lines[0] + zeros + log, []int{1, 2, 3, 4}, 2},
		{"zeros within a line, and the next process", lines[0] + lines[1][:20] + zeros + log, []int{1, 2, 3, 4}, 2},
		{"zeros where the end of the line was", first + zeros + "\n" + log, []int{1, 2, 3, 4}, 1},
		{"zeros in the middle of a line", lines[0][:20] + zeros + lines[0][20:] + log, []int{2, 3, 4}, 1},
		{"zeros from one line into another", lines[0] + lines[1][:20] + zeros + lines[2][20:] + log, []int{1, 3, 4, 5}, 2},
		{"zeros, and the end of the line after them", first + zeros + "\r\n" + log, []int{1, 2, 3, 4}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			records, err := retrylog.Read(strings.NewReader(row.log))
			if row.cut == 0 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, retrylog.ErrCutOff)
				assert.Equal(t, row.cut, lineOf(t, err))
			}
			var lines []int
			for _, r := range records {
				lines = append(lines, r.Line)
			}
			assert.Equal(t, row.lines, lines)
			kinds := []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.CallFinished}
			for i, r := range records[max(0, len(records)-3):] {
				assert.Equal(t, kinds[i], r.Event.Kind)
			}
		})
	}
}

// The next process continues on the line that a crash cut off. The line may be cut off anywhere. It
// may even be a line of another program, and cut off inside an object with the keys of a record.
func TestReadGoesOnAfterACut(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "a{b"), policy, failing(errRefused))
	logged := regexp.MustCompile(`\{"key":"a\{b","kind":"(\w+)","time":"([^"]+)"`).
		ReplaceAllString(log, `{"time":"$2","level":"DEBUG","msg":"retry scheduled","key":"a{b","kind":"$1"`)
	for _, row := range []struct{ name, line, log string }{
		{"an event", log[:strings.Index(log, "\n")], log},
		{"an event of slog", logged[:strings.Index(logged, "\n")], logged},
		{"another line", `{"time":"2000-01-01T00:00:00Z","level":"INFO","msg":"x","labels":[{"key":"a","value":"b"},{"key":"c","value":"d"}],` +
			`"spans":[{"time":"2000-01-01T00:00:00Z","took":1},{"kind":"server","time":5},{"key":"a","kind":"b","attempt":1}],"pod":{"kind":"Pod","name":"x"}}`, log},
	} {
		require.True(t, json.Valid([]byte(row.line)))
		for cut := 1; cut < len(row.line); cut++ {
			for _, end := range []string{"", "\n"} {
				records, err := retrylog.Read(strings.NewReader(row.line[:cut] + end + row.log))
				require.ErrorIs(t, err, retrylog.ErrCutOff, "%s: %s", row.name, row.line[:cut])
				require.Equal(t, 1, lineOf(t, err))
				require.Len(t, records, 6, "%s: %s", row.name, row.line[:cut])
				calls, err := retrylog.Replay(records)
				require.NoError(t, err)
				require.Equal(t, "a{b", calls[0].Key)
				require.Equal(t, retry.ReasonSuccess, calls[0].Reason)
			}
		}
	}
}

func TestReadRejects(t *testing.T) {
	good := `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`
	for _, row := range []struct{ name, log, says string }{
		{"a bare number for a duration", strings.Replace(good, `"max":3`, `"max":3,"elapsed":5`, 1) + "\n", `line 1: elapsed is "5": write a duration as text`},
		{"invalid in the middle of a line", "\n\n" + strings.Replace(good, `3`, `3,,`, 1) + "\n" + good, "line 3: invalid character ','"},
		{"invalid in the middle, with a record after it", strings.Replace(good, `"max":3`, `"max":3,,`, 1) + good, "line 1: invalid character ','"},
		{"a number that begins with 0", strings.Replace(good, "3", "03", 1), "line 1: invalid character '3'"},
		{"a control character in a text", strings.Replace(good, "started", "\x01", 1), "line 1: invalid character"},
		{"an event without a kind", good + "\n" + strings.Replace(good, "kind", "king", 1), "line 2: the event lacks one of the keys kind, attempt and max"},
		{"an event of slog with an invalid value", strings.Replace(good, `"max":3`, `"max":"x","msg":"attempt started"`, 1), `line 1: max is "x"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := retrylog.Read(strings.NewReader(row.log))
			require.ErrorContains(t, err, "retrylog: line")
			require.ErrorContains(t, err, row.says)
			require.NotErrorIs(t, err, retrylog.ErrCutOff)
		})
	}
	t.Run("a reader that fails", func(t *testing.T) {
		records, err := retrylog.Read(io.MultiReader(strings.NewReader(good+"\n"), iotest.ErrReader(errRefused)))
		require.ErrorIs(t, err, errRefused)
		assert.Equal(t, 2, lineOf(t, err))
		require.Len(t, records, 1)
	})
}

// For every input, Read, Replay, Check and Explain return without a panic.
func FuzzReadAndReplay(f *testing.F) {
	f.Add([]byte(`{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}` + "\n" + `{"kind":"call_finished"}`))
	f.Add([]byte(`{"key":"a","kind":"call_finished","attempt":0,"max":-1,"reason":"canceled"}`))
	f.Add([]byte(strings.Repeat(`{"key":`, 100) + "{" + strings.Repeat("\x00", 100) + `{"kind":"call_finished"}{}`))
	f.Fuzz(func(t *testing.T, log []byte) {
		records, _ := retrylog.Read(bytes.NewReader(log))
		calls, _ := retrylog.Replay(records)
		for _, c := range calls {
			_ = c.Check(policy)
		}
		_ = retrylog.Explain(records)
	})
}
