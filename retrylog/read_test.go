package retrylog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A log that is cut off anywhere is read up to the cut, and Read reports the
// cut. The records can be replayed, and at most the last call has no reason.
func TestCutOffAnywhere(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing()) + logOf(t, context.Background(), policy, failing(errRefused))
	for cut := range len(log) {
		records, err := retrylog.Read(strings.NewReader(log[:cut]))
		lines := strings.Count(log[:cut], "\n")
		rest := log[strings.LastIndex(log[:cut], "\n")+1 : cut]
		whole := json.Valid([]byte(rest)) // except for its end of line
		if rest == "" || whole {
			require.NoError(t, err, "cut at %d", cut)
		} else {
			require.ErrorIs(t, err, retrylog.ErrCutOff)
			require.ErrorContains(t, err, fmt.Sprintf("line %d", lines+1))
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

// The next process continues in the middle of the line that the crash cut off.
func TestReadGoesOnBehindACut(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "a{b"), policy, failing(errRefused))
	first, _, _ := strings.Cut(log, "\n")
	for cut := 1; cut < len(first); cut++ {
		records, err := retrylog.Read(strings.NewReader(first[:cut] + log))
		require.ErrorIs(t, err, retrylog.ErrCutOff)
		require.ErrorContains(t, err, "within line 1")
		calls, err := retrylog.Replay(records)
		require.NoError(t, err)
		require.Len(t, calls, 1)
		require.Equal(t, retry.ReasonSuccess, calls[0].Reason)
		require.Len(t, calls[0].Records, 6)
	}
}

// What a program logged besides may have been cut off too, in objects with keys that
// records have.
func TestReadGoesOnBehindACutOfAnotherPart(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "a{b"), policy, failing())
	const line = `{"time":"2000-01-01T00:00:00Z","level":"INFO","msg":"x","labels":[{"key":"a","value":"b"},{"key":"c","value":"d"}],` +
		`"spans":[{"time":"2000-01-01T00:00:00Z","took":1},{"kind":"server","time":5},{"key":"a","kind":"b","attempt":1}],"pod":{"kind":"Pod","name":"x"}}`
	require.True(t, json.Valid([]byte(line)))
	for cut := 1; cut < len(line); cut++ {
		for _, end := range []string{"", "\n"} {
			records, err := retrylog.Read(strings.NewReader(line[:cut] + end + log))
			require.ErrorIs(t, err, retrylog.ErrCutOff, line[:cut])
			require.ErrorContains(t, err, "within line 1")
			require.Len(t, records, 3, line[:cut])
			require.NotEmpty(t, replay(t, log))
			for _, r := range records {
				require.Equal(t, "a{b", r.Key)
			}
		}
	}
}

// Lines of slog, and of programs that log in a similar form, are events only if they
// have a message of Slog and all keys of an event.
func TestReadSkipsWhatAProgramLogs(t *testing.T) {
	for name, line := range map[string]string{
		"other types":         `{"time":"2000-01-01T00:00:00Z","level":"INFO","msg":"scaling","kind":"Deployment","attempt":3,"max":"3"}`,
		"an event of its own": `{"level":"INFO","msg":"scaling","kind":"stopped","attempt":3,"max":3}`,
		"a key twice":         `{"msg":"scaling","key":"a","key":"b"}`,
		"no message":          `{"level":"info","message":"scaling","kind":"stopped","attempt":1,"max":1}`,
		"no max":              `{"level":"INFO","msg":"gave up","kind":"stopped","attempt":7}`,
		"no attempt":          `{"level":"INFO","msg":"gave up","kind":"stopped","max":7}`,
		"no kind":             `{"level":"INFO","msg":"gave up","attempt":7,"max":7}`,
		"no text":             `{"msg":5,"kind":"stopped","attempt":1,"max":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			log := logOf(t, context.Background(), policy, failing())
			records, err := retrylog.Read(strings.NewReader(line + "\n" + log))
			require.NoError(t, err)
			require.Len(t, records, 3)
		})
	}
}

// If only the end of the line is lost, both events are read.
func TestReadWithoutAnEndOfLine(t *testing.T) {
	log := logOf(t, retrylog.WithKey(context.Background(), "a{b"), policy, failing())
	for _, row := range []struct{ name, log string }{
		{"as written", strings.ReplaceAll(log, "\n", "")},
		{"fields in another order", `{"time":"2000-01-01T00:00:00Z","kind":"attempt_started"}{"attempt":1,"kind":"attempt_finished"} {"max":3,"kind":"stopped"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			records, err := retrylog.Read(strings.NewReader(row.log))
			require.NoError(t, err)
			require.Len(t, records, 3)
			for i, kind := range []retry.EventKind{retry.AttemptStarted, retry.AttemptFinished, retry.Stopped} {
				assert.Equal(t, kind, records[i].Event.Kind)
				assert.Equal(t, 1, records[i].Line)
			}
		})
	}
}

func TestReadWithoutAnEndOfLineAndCutOff(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing())
	records, err := retrylog.Read(strings.NewReader(strings.TrimSuffix(log, "\n") + `{"ki`))
	require.ErrorIs(t, err, retrylog.ErrCutOff)
	require.Len(t, records, 3)
}

// A program's log has lines that are not from Slog. Read skips them, and counts them
// as lines. After a crash, the next process may continue in the middle of one.
func TestReadALogOfSlog(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		p := policy
		p.OnEvent = retrylog.Slog(logger)
		_ = retry.Do(t.Context(), p, func(context.Context) error {
			logger.Info("dialing", "attempt", 7, "kind", "tcp")
			return nil
		})
		logger.Info("connected", slog.Group("req", "kind", "x", "attempt", 1, "max", 1))
	})
	log := out.String()
	require.Equal(t, 5, strings.Count(log, "\n"))
	records, err := retrylog.Read(strings.NewReader(log))
	require.NoError(t, err)
	require.Len(t, records, 3)
	assert.Equal(t, []int{1, 3, 4}, []int{records[0].Line, records[1].Line, records[2].Line})
	assert.Equal(t, retry.ReasonSuccess, replay(t, log)[0].Reason)

	for cut := range len(log) {
		_, err := retrylog.Read(strings.NewReader(log[:cut]))
		if err != nil {
			require.ErrorIs(t, err, retrylog.ErrCutOff)
		}
	}
	first, _, _ := strings.Cut(log, "\n")
	for cut := 1; cut < len(first); cut++ {
		records, err := retrylog.Read(strings.NewReader(first[:cut] + log))
		require.ErrorIs(t, err, retrylog.ErrCutOff)
		require.Len(t, records, 3)
	}
}

// After a power failure a file may contain zero bytes where it had already
// grown.
func TestReadZeroBytes(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing())
	lines := strings.SplitAfter(log, "\n")
	zeros := strings.Repeat("\x00", 4096)
	for _, row := range []struct {
		name, log string
		line, n   int
	}{
		{"after a line", log + zeros, 4, 3},
		{"after part of a line", log + lines[0][:20] + zeros, 4, 3},
		{"between a line and the next process", lines[0] + zeros + log, 2, 4},
		{"within a line, and the next process", lines[0] + lines[1][:20] + zeros + log, 2, 4},
		{"where the end of the line was", strings.TrimSuffix(lines[0], "\n") + zeros + "\n" + log, 1, 4},
		{"in the middle of a line", lines[0][:20] + zeros + lines[0][20:] + log, 1, 3},
		{"from one line into another", lines[0] + lines[1][:20] + zeros + lines[2][20:] + log, 2, 4},
		{"and the end of the line after them", strings.TrimSuffix(lines[0], "\n") + zeros + "\r\n" + log, 1, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			records, err := retrylog.Read(strings.NewReader(row.log))
			require.ErrorIs(t, err, retrylog.ErrCutOff)
			require.ErrorContains(t, err, fmt.Sprintf("within line %d", row.line))
			require.Len(t, records, row.n)
		})
	}
}

func TestReadNamesTheFirstCut(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing())
	records, err := retrylog.Read(strings.NewReader("\n" + log[:20] + "\n" + log + log[:20]))
	require.ErrorIs(t, err, retrylog.ErrCutOff)
	require.ErrorContains(t, err, "within line 2")
	require.Len(t, records, 3)
}

func TestReadCRLF(t *testing.T) {
	log := logOf(t, context.Background(), policy, failing())
	records, err := retrylog.Read(strings.NewReader(strings.ReplaceAll(log+"\n", "\n", "\r\n")))
	require.NoError(t, err)
	require.Len(t, records, 3)
}

func TestALastLineThatIsWrongIsNotCutOff(t *testing.T) {
	_, err := retrylog.Read(strings.NewReader(`{"kind":7}`))
	require.ErrorContains(t, err, "kind is 7: write a text")
	require.NotErrorIs(t, err, retrylog.ErrCutOff)
}

func TestReadRejects(t *testing.T) {
	good := `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`
	for _, row := range []struct{ name, log, says string }{
		{"no JSON", "nonsense\n" + good, "line 1"},
		{"after an empty line", good + "\n\nnonsense\n" + good, "line 3"},
		{"a bare number for a duration", strings.Replace(good, `"max":3`, `"max":3,"elapsed":5`, 1) + "\n", `line 1: retry: invalid event: elapsed is 5: write a duration as text`},
		{"a key that is no text", `{"key":5}` + "\n", "line 1: retrylog: invalid record: key is 5: write a text"},
		{"a duplicate key", good + "\n" + strings.Replace(good, `"max"`, `"attempt":1,"max"`, 1), `line 2: retry: invalid event: duplicate key "attempt"`},
		{"two keys", `{"key":"a","key":"b"}`, `line 1: retrylog: invalid record: duplicate key "key"`},
		{"an array", "[]", "line 1: retry: invalid event: got []"},
		{"a space that JSON does not know", "\u00a0" + good, "line 1: invalid character"},
		{"invalid in the middle, and not cut off", strings.Replace(good, `3`, `3,,`, 1) + "\n" + good, "line 1: invalid character ','"},
		{"invalid in the middle, with a record after it", strings.Replace(good, `"max":3`, `"max":3,,`, 1) + good, "line 1: invalid character ','"},
		{"more than a record", good + "\n" + good + "}", "line 2: invalid character '}'"},
		{"an object without a kind", good + "\n{}", "line 2: the event has no kind: write one, such as \"attempt_started\""},
		{"an object without a kind after a cut", good[:20] + "\n{}", "line 2: the event has no kind"},
		{"an array of lines", `[{"msg":"x"}]`, "line 1: retry: invalid event: got ["},
		{"null", "null", "line 1: the event has no kind"},
		{"a line of slog that is an event, and wrong", strings.Replace(good, `"max":3`, `"max":"3","msg":"attempt started"`, 1), "line 1: retry: invalid event: max is"},
		{"msg inside another object", `{"req":{"msg":"x"}}`, "line 1: the event has no kind"},
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
		require.Len(t, records, 1)
	})
	t.Run("nothing", func(t *testing.T) {
		records, err := retrylog.Read(strings.NewReader(""))
		require.NoError(t, err)
		require.Empty(t, records)
	})
}

// FuzzRead compares what Read finds in a line with what encoding/json finds
// when it takes the keys one by one.
func FuzzRead(f *testing.F) {
	for _, line := range []string{
		`{"key":"17","kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`,
		`{"kind":"stopped","key":null}`, `{"kind":"stopped","key":"a","\u006bey":"b"}`, `{"x":{"kind":"stopped"},"kind":"stopped","key":"}\""}`,
		`{"kind":"stopped","attempt":1,"max":1,"msg":"gave up"}`, `{"msg":"x"}`, `{"m\u0073g":"x","kind":"a"}`, `{"msg":"x","kind":7,"attempt":1}`, `{"level":"INFO"}`, `{"level":1,"msg":"gave up","kind":"a","attempt":1,"max":1}`, `{"msg":"gave up","kind":"a","attempt":1,"max":"1"}`, `{"x":{"msg":"x"}}`, `["msg"]`, `[{"level":1}]`,
		`{"kind":"stopped","key":7}`, `{"kind":"stopped","took":"1s","took":"1s"}`, ` {"kind" : "stopped"} `, `null`, `[]`, `7`, `{}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if !json.Valid(line) || bytes.ContainsAny(line, "\r\n") {
			t.Skip("not one line")
		}
		if ofProgram(line) {
			records, err := retrylog.Read(bytes.NewReader(line))
			require.NoError(t, err)
			require.Empty(t, records)
			return
		}
		var want retrylog.Record
		wantErr := json.Unmarshal(line, &want.Event)
		if wantErr == nil && want.Event.Kind == "" {
			wantErr = errors.New("no kind")
		}
		if wantErr == nil {
			want.Key, wantErr = keyOf(line)
		}
		got, err := retrylog.Read(bytes.NewReader(line))
		require.Equal(t, wantErr == nil, err == nil, "%v, want %v", err, wantErr)
		if err == nil {
			want.Line = 1
			require.Equal(t, []retrylog.Record{want}, got)
		}
	})
}

// ofProgram reports whether a line is of a program that logs other things too.
func ofProgram(line []byte) bool {
	var object map[string]json.RawMessage
	if !bytes.Contains(line, []byte(`"msg"`)) && !bytes.Contains(line, []byte(`"level"`)) || json.Unmarshal(line, &object) != nil {
		return false
	}
	has := func(key string) bool { return object[key] != nil }
	if !has("msg") && !has("level") {
		return false
	}
	var message string
	_ = json.Unmarshal(object["msg"], &message)
	messages := []string{
		"attempt started", "attempt failed", "attempt succeeded", "retry scheduled", "succeeded", "succeeded after retries", "canceled", "gave up", "invalid policy or call",
	}
	return !slices.Contains(messages, message) || !has("kind") || !has("attempt") || !has("max")
}

// keyOf finds the key of a line in a slow and obvious way.
func keyOf(line []byte) (string, error) {
	in := json.NewDecoder(bytes.NewReader(line))
	if _, err := in.Token(); err != nil {
		return "", err
	}
	var key *string
	seen := false
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return "", err
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return "", err
		}
		if name != "key" {
			continue
		}
		if seen {
			return "", errors.New("twice")
		}
		seen = true
		if err := json.Unmarshal(value, &key); err != nil {
			return "", err
		}
	}
	if key == nil {
		return "", nil
	}
	return *key, nil
}

func FuzzReadAndReplay(f *testing.F) {
	f.Add([]byte(`{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}` + "\n" + `{"kind":"stopped"}`))
	f.Add([]byte(`{"key":"a","kind":"stopped","attempt":0,"max":-1,"reason":"canceled"}`))
	f.Add([]byte(strings.Repeat(`{"key":`, 100) + "{" + strings.Repeat("\x00", 100) + `{"kind":"stopped"}{}`))
	f.Fuzz(func(t *testing.T, log []byte) {
		records, _ := retrylog.Read(bytes.NewReader(log))
		calls, _ := retrylog.Replay(records)
		for _, c := range calls {
			_ = c.Check(policy)
			_ = c.Waited()
		}
		_ = retrylog.Explain(records)
	})
}
