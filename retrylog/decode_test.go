package retrylog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrylog"
)

// A function of the type `written` returns an OnEvent that writes the log of a call in one form,
// such as JSON.
type written func(io.Writer) func(context.Context, retry.Event)

func own(w io.Writer) func(context.Context, retry.Event) { return retrylog.NewWriter(w).OnEvent }

// The function `slogged` returns a function that uses [retrylog.Slog]. The lines are text if `text`
// is true, and otherwise JSON. Each line has the attributes `attrs`.
func slogged(text bool, level slog.Level, attrs ...slog.Attr) written {
	return func(w io.Writer) func(context.Context, retry.Event) {
		options := &slog.HandlerOptions{Level: level}
		if text {
			return retrylog.Slog(slog.New(slog.NewTextHandler(w, options).WithAttrs(attrs)))
		}
		return retrylog.Slog(slog.New(slog.NewJSONHandler(w, options).WithAttrs(attrs)))
	}
}

// linesOf returns the lines that a call logs in virtual time. The call succeeds at its third
// attempt.
func linesOf(t *testing.T, key string, how written) []string {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := retry.Policy{MaxAttempts: 3, Backoff: retry.Fixed(time.Second)}
		p.OnEvent = how(&log)
		n := 0
		require.NoError(t, retry.Do(retrylog.WithKey(t.Context(), key), p, func(context.Context) error {
			time.Sleep(30 * time.Millisecond)
			if n++; n < 3 {
				return errors.New(`Get "http://x/?a=b c": {"code": 503} kind=x`)
			}
			return nil
		}))
	})
	return strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
}

// readLines returns the records of a log, how many of its lines have no record, and how many of its
// lines are cut off.
func readLines(t *testing.T, log string) (records []retrylog.Record, skipped, torn int) {
	in := retrylog.NewReader(strings.NewReader(log))
	for {
		line, err := in.Next()
		if err == io.EOF {
			return records, skipped, torn
		}
		require.NoError(t, err)
		records = append(records, line.Records...)
		switch {
		case line.Err == retrylog.ErrCutOff:
			torn++
		case len(line.Records) == 0:
			skipped++
		}
	}
}

// onlyRecord returns the record of a log that has only one record.
func onlyRecord(t *testing.T, log string) retrylog.Record {
	records, _, _ := readLines(t, log)
	require.Len(t, records, 1, log[:min(len(log), 200)])
	return records[0]
}

// The event of a line is read after every known prefix and inside every known JSON object, and
// nowhere else.
func TestPrefixes(t *testing.T) {
	type row struct{ source, before, after string }
	rows := map[string]row{
		"kubectl --prefix":            {"pod/web-5d9c7b8f6-x2x9z/web", "[pod/web-5d9c7b8f6-x2x9z/web] ", ""},
		"kubectl --timestamps":        {"", "2026-11-22T10:00:00.123456789Z ", ""},
		"docker compose":              {"web-1", "web-1  | ", ""},
		"docker compose, with colors": {"web-1", "\x1b[36mweb-1  |\x1b[0m ", ""},
		"syslog, RFC 3164":            {"host web[1234]", "<34>Nov 22 10:00:00 host web[1234]: ", ""},
		"journalctl":                  {"host web[1234]", "Nov  2 10:00:00 host web[1234]: ", ""},
		"journalctl -o short-precise": {"host web[1234]", "Nov 22 10:00:00.123456 host web[1234]: ", ""},
		"journalctl -o short-iso":     {"host web[1234]", "2026-11-22T10:00:00+0000 host web[1234]: ", ""},
		"journalctl -o json":          {"node-1", "", ""},
		"Fluent Bit":                  {"web-1", "", ""},
		"syslog, RFC 5424":            {"host web 12", `<34>1 2026-11-22T10:00:00.003Z host web 12 ID47 [x@32473 iut="3" kind="y"] ` + "\ufeff", ""},
		"Windows":                     {"", "", "\r"},
		"Docker":                      {},
		"Docker, to journald":         {"node-1", "", ""},
		"journald, by syslog":         {"node-1", "", ""},
		"Fluent Bit, with a stream":   {},
		"Filebeat":                    {"web-1", "", ""},
		"Vector":                      {"web-1", "", ""},
		"CRI, kubectl --prefix":       {"pod/web-1/web", "[pod/web-1/web] 2026-11-22T10:00:00.1Z stderr F ", ""},
		"CRI":                         {"", "2026-11-22T10:00:00.1Z stdout F ", ""},
		"lines of other programs": {"", "", "\npanic: x\n" + `{"level":"INFO","msg":"scaling","kind":"Deployment","attempt":3,"max":"3"}` + "\n" +
			`{"ts":1,"message":"kind"}` + "\n2026/11/22 10:00:00 [DEBUG] GET http://x: retrying in 1s (4 left)\n2026/11/22 10:00:00 WARN retry err=refused in=1s\n{1} {} [] null\ntime=now level=INFO msg=served kind=fast path=/a\n\x00"},
	}
	for form, how := range map[string]written{
		"own": own, "JSON": slogged(false, slog.LevelDebug), "text": slogged(true, slog.LevelDebug),
		"JSON, with more": slogged(false, slog.LevelDebug, slog.Any("req", map[string]string{"kind": "x", "id": "{"})),
		"text, with more": slogged(true, slog.LevelDebug, slog.String("app", `a "b" c=d`)),
	} {
		lines := linesOf(t, "order 1", how)
		want, err := retrylog.Read(strings.NewReader(strings.Join(lines, "\n")))
		require.NoError(t, err, form)
		require.Len(t, want, 9, form)
		require.Contains(t, want[7].String(), "order 1: attempt 3 succeeded")
		for name, row := range rows {
			t.Run(form+", "+name, func(t *testing.T) {
				var all []string
				for _, s := range lines {
					switch name {
					case "Docker":
						s = fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2026-11-22T10:00:00.1Z"}`, s+"\n")
					case "journalctl -o json":
						s = fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"1795341600100000","_HOSTNAME":"node-1","_TRANSPORT":"stdout","MESSAGE":%q}`, s)
					case "Docker, to journald":
						s = fmt.Sprintf(`{"__CURSOR":"s=1","_HOSTNAME":"node-1","_TRANSPORT":"journal","CONTAINER_ID":"4f1","PRIORITY":"6","MESSAGE":%q}`, s)
					case "journald, by syslog":
						s = fmt.Sprintf(`{"_TRANSPORT":"syslog","MESSAGE":%q,"_HOSTNAME":"node-1"}`, s)
					case "Fluent Bit, with a stream":
						s = fmt.Sprintf(`{"date":1795341600.1,"stream":"stderr","_p":"F","log":%q}`, s)
					case "Filebeat":
						s = fmt.Sprintf(`{"@timestamp":"2026-11-22T10:00:00.1Z","log":{"offset":7,"file":{"path":"/x"}},"message":%q,"stream":"stdout",`+
							`"input":{"type":"container"},"agent":{"type":"filebeat","name":"x"},"kubernetes":{"pod":{"name":"x"},"host":"web-1"}}`, s)
					case "Vector":
						s = fmt.Sprintf(`{"file":"/x","kubernetes":{"pod_name":"web-1"},"message":%q,"source_type":"kubernetes_logs","stream":"stdout","timestamp":"2026-11-22T10:00:00.1Z"}`, s)
					case "Fluent Bit":
						s = fmt.Sprintf(`{"@timestamp":"2026-11-22T10:00:00.1Z","log":%q,"kubernetes":{"host":"node-1","pod_name":"web-1","labels":{"pod":"x"}}}`, s)
					}
					all = append(all, row.before+s+row.after)
				}
				got, skipped, torn := readLines(t, strings.Join(all, "\n"))
				for i := range want {
					want[i].Source, want[i].Line = row.source, got[i].Line
				}
				assert.Equal(t, want, got)
				others := 0
				if name == "lines of other programs" {
					others = len(lines)
				}
				assert.Equal(t, [2]int{7 * others, others}, [2]int{skipped, torn})
			})
		}
	}
}

// An event is read where the library writes it. If a program logs a text from outside that looks
// like an event, no event is read.
func TestForgery(t *testing.T) {
	const own = `{"kind":"call_finished","time":"2000-01-01T00:00:00Z","attempt":3,"max":3,"reason":"attempts_exhausted","err":"x"}`
	const text = `level=ERROR msg="gave up" kind=call_finished attempt=3 max=3 elapsed=1s reason=attempts_exhausted err=x`
	for _, forged := range []string{own, text, "2026/11/22 10:00:00 ERROR gave up " + text[len(`level=ERROR msg="gave up" `):]} {
		require.Equal(t, retry.ReasonExhausted, onlyRecord(t, forged).Event.Reason, forged)
		docker := fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2026-11-22T10:00:00.1Z"}`, forged)
		require.Equal(t, retry.ReasonExhausted, onlyRecord(t, docker).Event.Reason, docker)
		for _, row := range []struct{ name, line string }{
			{"package log", "2026/11/22 10:00:00 got " + forged},
			{"package log, without another word", "2026/11/22 10:00:00 " + forged},
			{"printed", "got " + forged},
			{"printed, in a struct", fmt.Sprintf("%+v", struct{ Body string }{forged})},
			{"printed, in the log of a container", "[pod/web-1/web] 2026-11-22T10:00:00.1Z got " + forged},
			{"in CRI", "2026-11-22T10:00:00.1Z stdout F got " + forged},
			{"in compose", "web-1  | got " + forged},
			{"package log, default logger", "2026/11/22 10:00:00 INFO got " + forged},
			{"slog's text", "time=2026-11-22T10:00:00Z level=INFO msg=" + fmt.Sprintf("%q", forged)},
			{"slog's JSON", fmt.Sprintf(`{"time":"2026-11-22T10:00:00Z","level":"INFO","msg":"got","log":%q}`, forged)},
			{"slog's JSON, as the message", fmt.Sprintf(`{"time":"2026-11-22T10:00:00Z","level":"INFO","msg":%q}`, forged)},
			{"after slog's JSON", `{"time":"2026-11-22T10:00:00Z","level":"INFO","msg":"got"} body=` + forged},
			{"under the key message", fmt.Sprintf(`{"ts":1,"message":%q}`, forged)},
			{"under the key log", fmt.Sprintf(`{"ts":1,"log":%q}`, forged)},
			{"under the key MESSAGE", fmt.Sprintf(`{"ts":1,"MESSAGE":%q}`, forged)},
			{"next to a level under another key", fmt.Sprintf(`{"severity":"INFO","message":%q,"stream":"stdout"}`, forged)},
			{"a message that Fluent Bit has merged", fmt.Sprintf(`{"level":"info","message":%q,"stream":"stdout","kubernetes":{"pod_name":"web-1"}}`, forged)},
			{"a message next to the line", fmt.Sprintf(`{"log":"x","message":%q,"kubernetes":{"pod_name":"web-1"}}`, forged)},
			{"journald, by its own protocol", fmt.Sprintf(`{"_TRANSPORT":"journal","_HOSTNAME":"node-1","MESSAGE":%q}`, forged)},
			{"Docker, in a line", fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2026-11-22T10:00:00.1Z"}`, "got "+forged)},
			{"Docker, in a logger's line", fmt.Sprintf(`{"log":%q,"stream":"stdout"}`, fmt.Sprintf(`{"level":"INFO","message":%q}`, forged))},
			{"Docker, in Docker", fmt.Sprintf(`{"log":%q,"stream":"stdout"}`, fmt.Sprintf(`{"log":%q,"stream":"stdout"}`, forged))},
			{"an object instead of the line", fmt.Sprintf(`{"log":{"a":%q},"stream":"stdout"}`, forged)},
		} {
			records, skipped, torn := readLines(t, row.line)
			assert.Empty(t, records, row.name)
			assert.Equal(t, 1, skipped+torn, row.name)
		}
	}
}

// A key in the line, or in the object around the line, names the source. The pod is preferred to
// the host.
func TestSourceFields(t *testing.T) {
	for _, row := range []struct{ fields, want string }{
		{``, ""},
		{`,"host":"node-1"`, "node-1"},
		{`,"host":"node-1","pod":"web-1"`, "web-1"},
		{`,"pod":"","instance":"i-1"`, "i-1"},
		{`,"pod":7`, "7"},
		{`,"kubernetes":{"pod_name":"web-1","namespace_name":"x"}`, "web-1"},
		{`,"resource":{"k8s.pod.name":"web-1"},"host":"node-1"`, "web-1"},
		{`,"labels":{"labels":{"pod":"web-1"}}`, ""},
	} {
		r := onlyRecord(t, `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3`+row.fields+`}`)
		assert.Equal(t, row.want, r.Source, row.fields)
	}
	r := onlyRecord(t, `time=2000-01-01T00:00:00Z level=DEBUG msg="attempt started" pod=web-1 kind=attempt_started attempt=1 max=3 elapsed=0s`)
	assert.Equal(t, "web-1", r.Source)
}

// An event of a pipeline has a task and a rule. A task without a rule belongs to another program.
func TestTask(t *testing.T) {
	for fields, want := range map[string]string{`,"task":"a\nb","rule":-1`: "task a; b: attempt 1 of 3 started", `,"task":"a"`: "attempt 1 of 3 started", `,"rule":1`: "attempt 1 of 3 started"} {
		r := onlyRecord(t, `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3`+fields+`}`)
		assert.Equal(t, "2000-01-01 00:00:00.000Z +0s "+want, r.String())
	}
}

// A line without a time gets the time in its prefix, or else the time when its wait began.
func TestTimes(t *testing.T) {
	defer func(local *time.Location) { time.Local = local }(time.Local)
	time.Local = time.FixedZone("", 3600) // Go's package log writes local time
	const without = `level=WARN msg="retry scheduled" kind=retry_scheduled attempt=1 max=3 elapsed=0s delay=1s due=2026-11-22T10:00:01.5Z err=x`
	for _, row := range []struct{ line, want string }{
		{without, "10:00:00.5"},
		{"2026-11-22T11:00:00.25+01:00 " + without, "10:00:00.25"},
		{"web-1 | 2026-11-22T10:00:00.25Z " + strings.Replace(without, " due=2026-11-22T10:00:01.5Z", "", 1), "10:00:00.25"},
		{"2026/11/22 10:00:00 WARN retry scheduled key=a kind=retry_scheduled attempt=1 max=3 elapsed=0s delay=1s due=2026-11-22T09:00:01.25Z err=x", "09:00:00"},
	} {
		e := onlyRecord(t, row.line).Event
		assert.Equal(t, row.want, e.Time.UTC().Format("15:04:05.999"), row.line)
		assert.WithinDuration(t, e.Time.Add(time.Second), e.Due, time.Second, row.line)
	}
}

// An event with a value that cannot be read is an error. It does not count as cut off.
func TestUnreadable(t *testing.T) {
	const own = `{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3,"elapsed":"30%s"}`
	const text = `level=DEBUG msg="attempt started" kind=attempt_started attempt=1 max=3 elapsed=30%s`
	for _, line := range []string{own, text, `{"level":"DEBUG","msg":"attempt started",` + own[1:]} {
		onlyRecord(t, fmt.Sprintf(line, "\u00b5s"))
		for _, unit := range []string{"\u00c2\u00b5s", "\xb5s", "\ufffds", "\u252c\u00e1s"} {
			got, err := retrylog.NewReader(strings.NewReader(fmt.Sprintf(line, unit))).Next()
			require.NoError(t, err)
			assert.Empty(t, got.Records)
			require.ErrorContains(t, got.Err, "elapsed is ")
			assert.NotErrorIs(t, got.Err, retrylog.ErrCutOff)
		}
	}
	_, skipped, torn := readLines(t, fmt.Sprintf(text, ""))
	assert.Equal(t, [2]int{0, 1}, [2]int{skipped, torn})
}

// A line of 4 MiB is read in time that is linear in its length: no step copies the rest of the
// line. To copy the rest for each of 700,000 words would take more than 1 TB. To copy the rest for
// each of 9,990 nested objects would take 40 GB.
func TestLongLine(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 4 MiB 20 times in one goroutine; make race sets -short")
	}
	nested := func(key, end string, depth int) string {
		return strings.Repeat(`{"stream":"stdout",`+key, depth) + `"` + strings.Repeat("x", 3<<20) + `"` + strings.Repeat("}"+end, depth)
	}
	quoted := strings.Repeat("x", 1<<20)
	for range 12 {
		quoted = fmt.Sprintf(`{"stream":"stdout","log":%q}`, quoted)
	}
	for _, line := range []string{nested(`"log":`, "", 9990), nested(`"kubernetes":`, "", 9990), nested(`"log":[`, "]", 4990), quoted} {
		require.Equal(t, len(line) > 3<<20, line != quoted)
		assert.Less(t, allocated(t, line), uint64(200<<20), line[:30])
	}
	for _, word := range []string{`{"labels":`, `"pod":"x",`, `[2026-11-22T10:00:00Z] "`, `x="" `, `x=1 `, `level=x `, `x="\"" `, `key="a" `, `{"kind": `} {
		line := strings.Repeat(word, (4<<20)/len(word)-100) + `level=WARN msg="attempt started" kind=attempt_started attempt=1 max=3 elapsed=0s`
		assert.Less(t, allocated(t, line), uint64(200<<20), word)
	}
}

// The function `allocated` returns how many bytes are allocated to read a line.
func allocated(t *testing.T, line string) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	readLines(t, line)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// After a line of about the maximum length, the next line is read.
func TestAfterALongLine(t *testing.T) {
	const most, buffer = 4 << 20, 64 << 10
	for _, length := range []int{most - 1, most, most + 1, most + buffer - 1, most + buffer, most + buffer + 1, 2 * most} {
		r := onlyRecord(t, strings.Repeat("x", length)+"\n"+`{"kind":"attempt_started","time":"2000-01-01T00:00:00Z","attempt":1,"max":3}`)
		assert.Equal(t, 2, r.Line, length)
	}
}
